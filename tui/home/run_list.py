"""Select what the list of runs shows: recorded runs, runs of hosts that are not recorded here, and
studies."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from remote.record import query
from remote.record.entry import RUNNING, UNKNOWN, Entry
from remote.record.figures import FIGURES_WITH_COLUMN, add_newer_steps
from remote.study.progress import StudyProgress
from tui.home.history import Answered, Listed

if TYPE_CHECKING:
    from remote.host_commands.listed_runs import ListedRun

ORDERS = {
    "newest first": ("run", True),
    **{
        f"by {figure.title}": (figure.field, figure.largest_first)
        for figure in FIGURES_WITH_COLUMN
        if figure.largest_first is not None
    },
    "by method": ("method", False),
    "by verdict": ("verdict", False),
    "longest first": ("elapsed", True),
}
"""How the list can be sorted: the key, and whether the largest comes first."""


@dataclass(frozen=True)
class RunItem:
    """A row of the list: a recorded run, a run that only hosts know, or a study."""

    name: str
    entry: Entry | None = None
    answer: ListedRun | None = None
    """What the hosts report of a run that is live, or that is not recorded here."""
    study: StudyProgress | None = None

    @property
    def is_live(self) -> bool:
        """Return True if the run goes on now."""
        is_recorded_now = self.entry is not None and self.entry.verdict == RUNNING
        return is_recorded_now or bool(self.answer and self.answer.live)


class RowSelection(NamedTuple):
    """The rows of the list."""

    items: list[RunItem]
    hidden: int = 0
    """How many runs are left out, as they made no step."""


def select_items(
    listed: Listed, answered: Answered, words: Sequence[str], order: str, *, lists_all: bool = True
) -> RowSelection:
    """Select the rows that pass a filter: live runs first, then studies, then the others in this
    order. Studies and runs of which only hosts know are listed without a filter only. `lists_all`:
    also runs that ended without a step. Raises: QueryError."""
    live, ended = _select_recorded(listed, answered, words, order)
    shown = ended if lists_all else query.without_unstarted(ended)
    hidden = len(ended) - len(shown)
    others = [RunItem(run.name, run) for run in shown]
    # A filter asks for what entries have, which studies and runs of other launchers have not.
    if words:
        return RowSelection([*live, *others], hidden)
    studies = [RunItem(progress.study.name, study=progress) for progress in listed.studies]
    live += _list_elsewhere(listed, answered.live)
    return RowSelection(
        [*live, *studies, *_list_elsewhere(listed, answered.ended), *others], hidden
    )


def _list_elsewhere(listed: Listed, answers: Mapping[str, ListedRun]) -> list[RunItem]:
    """Return the runs of which only hosts know."""
    elsewhere = answers.keys() - listed.name_runs()
    return [RunItem(name, answer=run) for name, run in answers.items() if name in elsewhere]


def _select_recorded(
    listed: Listed, answered: Answered, words: Sequence[str], order: str
) -> tuple[list[RunItem], list[Entry]]:
    """Return the recorded runs that pass a filter, in this order: those that are live, and the
    others."""
    passes = query.parse(words)
    runs = [_add_end(run, answered.ended.get(run.name)) for run in listed.runs]
    key, reverse = ORDERS[order]
    live = list[RunItem]()
    ended = list[Entry]()
    for run in query.sort_runs(filter(passes, runs), key, reverse):
        item = RunItem(run.name, run, _find_newer_answer(run, answered))
        if item.is_live:
            live.append(item)
        else:
            ended.append(run)
    return live, ended


def _add_end(run: Entry, answer: ListedRun | None) -> Entry:
    """Return a recorded run with the end that its hosts report, if none is recorded."""
    if answer is None or run.verdict != UNKNOWN:
        return run
    # The launcher left before the end, so that the hosts may know of later steps.
    run = add_newer_steps(run, answer.step)
    return run._replace(verdict=answer.state, steps=run.steps or answer.steps)


def _find_newer_answer(run: Entry, answered: Answered) -> ListedRun | None:
    """Return what hosts answered on a recorded run, unless the record is newer: a launcher records
    the run now, or it ended after the hosts were asked."""
    is_outdated = run.verdict == RUNNING or answered.asked_at < run.ended
    return None if is_outdated else answered.live.get(run.name)
