"""Whether a model learned anything."""

from __future__ import annotations

from remote.metrics.run import RunFigures
from remote.run.state.progress import not_learned
from tui.report.subject import Group


def ends(run: RunFigures) -> tuple[float, float] | None:
    """The first and the last training loss of a run; None without steps."""
    _, losses = run.steps.mean_over_ranks("loss")
    return (float(losses[0]), float(losses[-1])) if losses.size else None


def learned(group: Group) -> bool:
    """Whether no run of a group diverged, or had a loss that rose."""
    ends_of = [(run.name, *found) for run in group.all if (found := ends(run))]
    return not not_learned(ends_of) and not any(run.diverged for run in group.all)
