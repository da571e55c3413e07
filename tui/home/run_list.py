"""The rows of the list of runs: recorded runs, runs of hosts that are not recorded here, and
studies."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from string import ascii_uppercase
from typing import TYPE_CHECKING, NamedTuple

from remote.format import UNKNOWN, count, duration, moment, or_unknown
from remote.record import query
from remote.record.entry import RUNNING, Entry
from remote.record.entry import UNKNOWN as UNKNOWN_END
from remote.sanitise import plain
from remote.study.progress import CellState, StudyProgress
from tui.home.history import Answered, Listed
from tui.home.listing import HEAD, row, settings_of
from tui.kit import palette
from tui.kit.widgets.phase import PHASE_STYLES, phase_cell
from tui.kit.widgets.table import TableCell, TableColumn, TableRow, fit_column

if TYPE_CHECKING:
    from remote.host_commands.listed_runs import ListedRun

PLACES = 10
"""Cells of a curve of the loss."""
ORDERS = {
    "newest first": ("run", True),
    "by loss": ("loss", False),
    "by accuracy": ("accuracy", True),
    "by s/iter": ("step_seconds", False),
    "by method": ("method", False),
    "by verdict": ("verdict", False),
    "longest first": ("elapsed", True),
}
"""How the list can be sorted: the key, and whether the largest comes first."""


@dataclass(frozen=True)
class Item:
    """A row of the list: a recorded run, a run that only hosts know, or a study. `answer` is what
    the hosts say of a run that is live, or that is not recorded here."""

    name: str
    entry: Entry | None = None
    answer: ListedRun | None = None
    study: StudyProgress | None = None

    @property
    def is_live(self) -> bool:
        """Return True if the run goes on now."""
        is_recorded_now = self.entry is not None and self.entry.verdict == RUNNING
        return is_recorded_now or bool(self.answer and self.answer.live)


class Selection(NamedTuple):
    """The rows of the list, and the number of runs that are left out, as they made no step."""

    items: list[Item]
    hidden: int = 0


def items(
    listed: Listed, answered: Answered, words: Sequence[str], order: str, *, lists_all: bool = True
) -> Selection:
    """Select the rows that pass a filter: live runs first, then studies, then the others in this
    order. Studies and runs of which only hosts know are listed without a filter only. `lists_all`:
    also runs that ended without a step. Raises: QueryError."""
    key, reverse = ORDERS[order]
    test = query.parse(words)
    alive = {run.name: run for run in answered.live}
    over = {run.name: run for run in answered.ended}
    runs = [_with_end(run, over.get(run.name)) for run in listed.runs]
    recorded = [
        Item(run.name, run, _newer_answer(run, alive.get(run.name), answered.asked))
        for run in query.ordered(filter(test, runs), key, reverse)
    ]
    known = {run.name for run in listed.runs}
    elsewhere = [Item(name, answer=run) for name, run in alive.items() if name not in known]
    left = [Item(name, answer=run) for name, run in over.items() if name not in known]
    studies = [Item(one.study.name, study=one) for one in listed.studies]
    live = [one for one in recorded if one.is_live]
    ended = [one.entry for one in recorded if one.entry and not one.is_live]
    kept = ended if lists_all else query.without_unstarted(ended)
    others = [Item(run.name, run) for run in kept]
    hidden = len(ended) - len(kept)
    if words:
        return Selection([*live, *others], hidden)
    return Selection([*live, *elsewhere, *studies, *left, *others], hidden)


def _with_end(run: Entry, answer: ListedRun | None) -> Entry:
    """Return a recorded run with the end that its hosts tell, where none is recorded."""
    if answer is None or run.verdict != UNKNOWN_END:
        return run
    step = max(run.step, answer.step)
    steps = run.steps or answer.steps
    return run._replace(verdict=answer.state, step=step, steps=steps)


def _newer_answer(run: Entry, answer: ListedRun | None, asked: float) -> ListedRun | None:
    """Return what hosts answered on a recorded run, unless the record is newer: a launcher records
    the run now, or it ended after the hosts were `asked`."""
    is_outdated = run.verdict == RUNNING or asked < run.ended
    return None if is_outdated else answer


def state(item: Item) -> TableCell:
    """Return what becomes of it, as a sign and a word."""
    if item.answer:
        word = item.answer.state
        return phase_cell(word if word in PHASE_STYLES else RUNNING)
    if item.study:
        return phase_cell(_state_of(item.study))
    assert item.entry
    return phase_cell("unreadable" if item.entry.problem else item.entry.verdict)


def _state_of(study: StudyProgress) -> str:
    repetitions = study.study.repetitions
    states = {cell.state(repetitions) for cell in study.cells.values()}
    return CellState.DONE.value if states == {CellState.DONE} else CellState.WAITING.value


def curve(losses: Sequence[float]) -> str:
    """Draw the course of the loss, from its least to its largest."""
    if len(losses) < 2:
        return ""
    least = min(losses)
    most = max(losses)
    return "".join(palette.level((one - least) / ((most - least) or 1.0)) for one in losses)


# Columns ------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Field:
    """A column of the list. A narrow screen leaves out those with the largest `turn`."""

    title: str
    width: int
    turn: int = 0
    right: bool = False
    most: int = 0

    @property
    def column(self) -> TableColumn:
        """Return the column of the table."""
        return TableColumn(self.title, self.width, right=self.right, most=self.most)


FIELDS = (
    Field(" ", 3),
    Field("state", 13, most=14),
    Field("run", 16, most=22),
    Field("method", 17, 2),
    Field("model", 8, 5, most=12),
    Field("data set", 9, 9, most=10),
    Field("ranks", 6, 8, right=True),
    Field("step", 11, 6, right=True),
    Field("loss", 8, 1, right=True),
    Field("accuracy", 9, 3, right=True),
    Field("s/iter", 8, 7, right=True),
    Field("took", 9, 10, right=True),
    Field(" course", PLACES + 2, 4),
    Field("settings", 20, 11, most=40),
    Field("note", 24, 12, most=60),
)


def fields(width: int, found: Sequence[TableRow] = ()) -> list[Field]:
    """Return the columns for which there is room, those of numbers as wide as what stands in them.
    `found` are rows with a cell for each of `FIELDS`."""
    every = [_fit(one, [row[place] for row in found]) for place, one in enumerate(FIELDS)]
    kept = sorted(every, key=lambda one: one.turn)
    while len(kept) > 1 and sum(one.width for one in kept) > width:
        kept.pop()
    return [one for one in every if one in kept]


def _fit(field: Field, cells: Sequence[TableCell]) -> Field:
    """Return the column as wide as its numbers, or at most as its longest text."""
    wide = fit_column(field.column, cells).width
    return replace(field, width=wide) if field.right else replace(field, most=min(field.most, wide))


def table(found: Sequence[TableRow], width: int) -> tuple[list[TableColumn], list[TableRow]]:
    """Return the columns for which there is room, and the cells of these rows in them."""
    shown = fields(width, found)
    titles = [one.title for one in FIELDS]
    places = [titles.index(one.title) for one in shown]
    return [one.column for one in shown], [tuple(row[at] for at in places) for row in found]


def rows(
    shown: Iterable[Item],
    names: Mapping[str, str],
    courses: Mapping[str, Sequence[float]],
    marked: Collection[str],
) -> list[TableRow]:
    """Return the rows of the table, with a cell for each of `FIELDS`.

    `names` are the short names of runs, `courses` their losses, as far as known. Those that are
    `marked` have the letters that a comparison gives them.
    """
    found = []
    letters = dict(zip(sorted(marked), ascii_uppercase, strict=False))
    for item in shown:
        texts = _texts(item, names.get(item.name, item.name))
        cells = {title: TableCell(plain(text)) for title, text in texts.items()}
        cells[" course"] = TableCell(f" {curve(courses.get(item.name, ()))}", "table--dim")
        cells["state"] = state(item)
        star = "*" if item.entry and item.entry.star else " "
        cells[" "] = TableCell(f"{letters.get(item.name, ' ')}{star}")
        found.append(tuple(cells.get(one.title, TableCell("")) for one in FIELDS))
    return found


def _texts(item: Item, name: str) -> dict[str, str]:
    if item.study:
        study = item.study
        runs = len(item.study.study.trials())
        head = {"run": item.name, "method": "study", "settings": study.study.title}
        return head | {"step": f"{study.settled}/{runs} runs"}
    entry = item.entry
    if entry:
        texts = dict(zip(HEAD, row(entry, name, settings_of(entry)), strict=True))
        took = UNKNOWN if entry.elapsed is None else duration(entry.elapsed)
        live = {"step": f"{item.answer.step}/{item.answer.steps}"} if item.answer else {}
        return texts | live | {"run": entry.label or name, "took": took}
    assert item.answer
    step = f"{item.answer.step}/{item.answer.steps}"
    return {
        "run": plain(item.answer.label) or item.name,
        "method": count(item.answer.hosts, "host"),
        "ranks": or_unknown(item.answer.ranks),
        "step": step,
    }


def about(item: Item | None, saved: int, key: Callable[[str], str]) -> str:
    """Describe the row under the cursor, in at most three lines. `saved` is the step of its newest
    checkpoint, 0 if none is known; `key` gives the key of an action."""
    if item is None:
        return ""
    if item.study:
        cells = count(len(item.study.cells), "cell")
        return f"study {item.name}: {cells}. {item.study.study.question or item.study.study.title}"
    entry = item.entry
    if entry is None:
        assert item.answer
        named = f"{item.answer.label}: " if item.answer.label else ""
        if not item.is_live:
            told = f"{named}{item.name}: has ended, as its hosts say; not recorded here."
            return plain(f"{told} {key('open')} opens it.")
        told = f"{named}{item.name}: live on its hosts, not recorded here."
        return plain(f"{told} {key('open')} attaches to it.")
    named = f"{entry.label}: " if entry.label else ""
    study = f", of the study {entry.study}: {entry.trial}" if entry.study else ""
    first = f"{named}{entry.name}, started {moment(entry.started or 0)}{study}"
    why = entry.problem or entry.cause
    lines = [first, *([why] if why else [])]
    if saved and entry.verdict not in ("finished", RUNNING):
        lines.append(f"{key('resume')} resumes it from the checkpoint of step {saved}.")
    if entry.note:
        lines.append(f"note: {entry.note}")
    if len(lines) < 2 and (changed := settings_of(entry)):
        lines.append(", ".join(changed))
    return "\n".join(map(plain, lines[:3]))


def problems(answered: Answered, listed: Listed) -> list[str]:
    """Say which hosts do not answer, and which files cannot be read: at most two lines of each."""
    hosts = answered.problems
    files = listed.problems
    if len(hosts) > 2:
        silent = ", ".join(problem.partition(":")[0] for problem in hosts)
        hosts = (f"{len(hosts)} hosts do not answer: {silent}", hosts[0])
    if len(files) > 2:
        files = (files[0], f"{len(files) - 1} more files cannot be read")
    return [plain(" ".join(one.split())) for one in (*hosts, *files)]


def hidden(number: int, key: Callable[[str], str]) -> str:
    """Say how many runs are left out of the list; "" if there are none. `key` gives the key of
    an action."""
    if not number:
        return ""
    what = f"{count(number, 'run')} that made no step {'is' if number == 1 else 'are'} hidden"
    return f"{what}: {key('all-runs')} lists {'it' if number == 1 else 'them'}"


def hint(words: Sequence[str], folder: str, key: Callable[[str], str]) -> str:
    """Say what to do if nothing is listed, with a filter of these words or without one. `key` gives
    the key of an action."""
    if words:
        return f"No run matches the filter.\n{key('back')} removes it."
    return (
        f"No runs in {folder} yet. Press {key('new-run')} to set up the first one,\n"
        "or try: rankboard --local 4 --model lenet5 --dataset digits"
    )
