"""The chart of how many updates behind every rank's gradients were when they were applied, by
step."""

from __future__ import annotations

from remote.plan.plan import Plan
from tui.panels.parts.curves import Curves
from tui.widgets.frame import Look


class Staleness(Curves):
    """How many updates of others came between a rank's pull of the parameters and its push of the
    gradient, by step."""

    title = "staleness"
    help = "updates between a rank's pull and its push"
    look = Look("step", from_zero=True)
    series = "staleness"

    @classmethod
    def suits(cls, plan: Plan) -> bool:
        """Only for a sync method whose gradients may be stale."""
        return plan.job is not None and plan.job.traits().stale
