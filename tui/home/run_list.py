"""Select what the list of runs shows: recorded runs, runs of hosts that are not recorded here, and
studies."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from remote.record import query
from remote.record.entry import Entry
from remote.record.figures import FIGURES_WITH_COLUMN, RunFigure, add_newer_steps
from remote.run.state.flaw import FlawKind
from remote.run.state.phases import LEFT, RUNNING, UNREADABLE, Verdict
from remote.study.progress import StudyProgress
from tui.home.history import Answered, Listed

if TYPE_CHECKING:
    from remote.host_commands.listed_runs import ListedRun
    from remote.study.guessing import Guesses

DAY = 86400.0
FAILED = Verdict.FAILED.word
REFUSED = Verdict.REFUSED.word
LOST = Verdict.LOST.word
SCREEN_TITLES = {"step": "progress", "accuracy": "test acc"}
"""What the screen calls figures that `rankboard runs` calls otherwise, by their fields."""


def screen_title(figure: RunFigure) -> str:
    """Return the title of a figure's column on the screen."""
    return SCREEN_TITLES.get(figure.field, figure.title)


class RunOrder(NamedTuple):
    """How the list can be sorted."""

    key: str
    """A key of `remote.record.query`."""
    largest_first: bool
    title: str
    """The column that shows it."""


ORDERS = {
    "newest first": RunOrder("run", True, "started"),
    **{
        f"by {screen_title(figure)}": RunOrder(
            figure.field, bool(figure.largest_first), screen_title(figure)
        )
        for figure in FIGURES_WITH_COLUMN
        if figure.largest_first is not None
    },
    "by method": RunOrder("method", False, "job"),
    "by state": RunOrder("verdict", False, "state"),
    "longest first": RunOrder("elapsed", True, "duration"),
}
"""How the list can be sorted, by what the screen calls it."""


@dataclass(frozen=True)
class RunItem:
    """A row of the list: a recorded run, a run that only hosts know, or a study."""

    name: str
    entry: Entry | None = None
    answer: ListedRun | None = None
    """What the hosts report of a run that is live, or that is not recorded here."""
    study: StudyProgress | None = None
    started: float = 0.0
    """When the newest run of the study began, as a Unix time; 0 if that is not known."""
    is_open: bool = False
    """The runs of the study are listed below it."""
    is_part: bool = False
    """It is one of the runs below an open study."""

    @property
    def title(self) -> str:
        """Return its name, behind the one that a person gave it."""
        named = self.entry or self.answer
        return f"{named.label}: {self.name}" if named and named.label else self.name

    @property
    def short_title(self) -> str:
        """Return the name that a person gave it, or else its own."""
        named = self.entry or self.answer
        return (named.label if named else "") or self.name

    @property
    def is_live(self) -> bool:
        """Return True if the run goes on now."""
        is_recorded_now = self.entry is not None and self.entry.verdict == RUNNING
        return is_recorded_now or bool(self.answer and self.answer.live)

    @property
    def place(self) -> tuple[int, int]:
        """Return the last step that is known, and the number of all; 0 for what is not known."""
        source = self.answer or self.entry
        return (source.step, source.steps) if source else (0, 0)

    @property
    def trouble(self) -> str:
        """Return what is wrong with a run that is recorded now, in a word; "" if nothing is."""
        return self.entry.trouble if self.entry and self.entry.verdict == RUNNING else ""

    @property
    def guesses(self) -> Guesses | None:
        """Return what the runs of a study came to that is complete, if all of them still guess."""
        progress = self.study
        if progress is None or progress.running_cell:
            return None
        if progress.num_failed or progress.missing_trials():
            return None
        # What reads studies is loaded only where there are any.
        from remote.study.guessing import find_guesses

        return find_guesses(progress.study, progress.counted_runs)

    def needs_care(self, now: float) -> bool:
        """Return True if a person should look at the run or study: it stalls, is slow, or has ended
        today in another way than it should, or with a flaw. `now` is a Unix time."""
        if self.trouble:
            return True
        if self.study:
            return now - self.started <= DAY and self.guesses is not None
        run = self.entry
        if run is None or now - run.ended > DAY:
            return False
        return run.outcome in (FAILED, REFUSED, LOST, *FlawKind)


class RowSelection(NamedTuple):
    """The rows of the list."""

    items: list[RunItem]
    hidden: int = 0
    """How many runs are left out, as they made no step."""


def select_items(
    listed: Listed,
    answered: Answered,
    words: Sequence[str],
    order: str,
    *,
    lists_all: bool = True,
    now: float = math.inf,
    open_studies: Collection[str] = (),
) -> RowSelection:
    """Select the rows that pass a filter: live runs first, of which those in trouble lead, then
    the others in this order. Studies stand where their newest run would if the list is sorted by
    time, and else lead the others. Studies and runs of which only hosts know are listed
    without a filter only, and the runs of a study stand below it if it is one of `open_studies`.
    `lists_all`: also runs that ended without a step; those that need care `now`, a Unix time, are
    always listed. Raises: QueryError."""
    live, ended = _select_recorded(listed, answered, words, order)
    # A filter asks for what entries have, which studies and runs of other launchers have not.
    studies = [] if words else listed.studies
    study_names = {progress.study.name for progress in studies}
    single_runs = [run for run in ended if run.study not in study_names]
    rows = [RunItem(run.name, run) for run in single_runs]
    if not lists_all:
        started = {run.name for run in query.without_unstarted(single_runs)}
        rows = [row for row in rows if row.name in started or row.needs_care(now)]
    num_hidden = len(single_runs) - len(rows)
    live.sort(key=lambda item: not item.trouble)
    if not words:
        live += _list_elsewhere(listed, answered.live)
        study_rows = list(_list_studies(studies, listed.runs, ended, open_studies))
        is_by_start = ORDERS[order].title == "started"
        rows = _merge_by_start(study_rows, rows) if is_by_start else [*study_rows, *rows]
        rows = [*_list_elsewhere(listed, answered.ended), *rows]
    return RowSelection([*live, *rows], num_hidden)


def put_first(items: Sequence[RunItem], needy: Sequence[RunItem]) -> list[RunItem]:
    """Return the rows with those of ended runs that need a person right behind the live ones, in
    the order of `needy`. A run of an open study stays below it."""
    moved = [item for item in needy if item in items and not item.is_live and not item.is_part]
    live = [item for item in items if item.is_live]
    others = [item for item in items if not item.is_live and item not in moved]
    return [*live, *moved, *others]


def _list_studies(
    studies: Iterable[StudyProgress],
    runs: Sequence[Entry],
    ended: Sequence[Entry],
    open_studies: Collection[str],
) -> Iterator[RunItem]:
    """Yield the studies, and below each that is open the runs that it has made."""
    for progress in studies:
        name = progress.study.name
        is_open = name in open_studies
        started = max((run.started or 0.0 for run in runs if run.study == name), default=0.0)
        yield RunItem(name, study=progress, started=started, is_open=is_open)
        if is_open:
            yield from (RunItem(run.name, run, is_part=True) for run in ended if run.study == name)


def _merge_by_start(study_rows: Sequence[RunItem], run_rows: Sequence[RunItem]) -> list[RunItem]:
    """Return the rows of studies, each with its runs below it, among those of other runs, which are
    in their order: each before the first one that began earlier."""
    groups = list[list[RunItem]]()
    for row in study_rows:
        if row.is_part:
            groups[-1].append(row)
        else:
            groups.append([row])
    rows = list(run_rows)
    for group in groups:
        place = _find_place(rows, group[0].started)
        rows[place:place] = group
    return rows


def _find_place(rows: Sequence[RunItem], started: float) -> int:
    """Return the place of the first row that began before this time, but of no run of a study; 0 if
    the time is not known."""
    if not started:
        return 0
    for place, row in enumerate(rows):
        row_started = row.entry.started if row.entry else row.started
        if row_started and row_started < started and not row.is_part:
            return place
    return len(rows)


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
    key, reverse, _ = ORDERS[order]
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
    if answer is None or run.verdict not in (LEFT, UNREADABLE):
        return run
    # The launcher left before the end, so that the hosts may know of later steps.
    run = add_newer_steps(run, answer.step)
    return run._replace(verdict=answer.state, steps=run.steps or answer.steps)


def _find_newer_answer(run: Entry, answered: Answered) -> ListedRun | None:
    """Return what hosts answered on a recorded run, unless the record is newer: a launcher records
    the run now, or it ended after the hosts were asked."""
    is_outdated = run.verdict == RUNNING or answered.asked_at < run.ended
    return None if is_outdated else answered.live.get(run.name)
