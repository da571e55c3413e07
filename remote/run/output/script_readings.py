"""Reads the steps and metrics out of what a script prints, or writes to files that are followed.

This is done on the operator's side, out of recorded text: whoever reads a record from its beginning
on finds the same.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from remote.events import expand
from remote.plan.plan import Plan
from training.wire.events import Record

Expand = Callable[[Record], Sequence[Record]]


def expander(plan: Plan) -> Expand:
    """Return what takes apart the records of a run, given in order from the first one on.

    See `training.wire.events.expand`. In a run of a script, text is followed by the steps and
    metrics that are read out of it.
    """
    if not plan.script:
        return expand
    # The readers of all formats take a while to load, and only scripts need them.
    from remote.run.output.script_expander import Expander

    return Expander(plan.world_size, watch=plan.script.watch, rules=plan.script.rules)
