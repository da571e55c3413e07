"""The table of the list of runs."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from itertools import compress
from pathlib import PurePath
from string import ascii_uppercase

from msgspec import structs
from textual.screen import Screen

from remote.format import UNKNOWN, ago, count, duration, or_unknown, percent
from remote.record.entry import Entry
from remote.record.figures import FIGURES_WITH_COLUMN, RunFigure
from remote.run.state.phases import RUNNING
from remote.sanitise import plain
from remote.study.progress import CellState, StudyProgress
from tui.home.history import History
from tui.home.listing import TITLES, make_row, settings_of
from tui.home.run_list import RunItem, RunOrder, screen_title
from tui.kit import palette
from tui.kit.background import RepeatedTask
from tui.kit.widgets.choices import ChoiceTable
from tui.kit.widgets.phase import PHASE_STYLES, PhaseLook, phase_look
from tui.kit.widgets.table import TableCell, TableColumn, TableRow, fit_column

CURVE_WIDTH = 10
"""Cells of a curve of the loss, and the number of its points."""
DOT_ROWS = ((0x01, 0x08), (0x02, 0x10), (0x04, 0x20))
"""The bits of the dots of a cell in U+2800 and following, from the top. The fourth row stays free,
so that a curve does not run into that of the row below. That of charts needs numpy, which takes a
while to load."""
LEAST_WIDTH = 7
"""Cells of the column of a figure, at the least."""
BAR_WIDTH = 5
"""Cells of the bar of progress of a live run."""
NEEDY_SIGN = "!"
"""Stands before the rows that need a person, as the key that goes to them."""
SCREEN_FIGURES = [figure for figure in FIGURES_WITH_COLUMN if figure.field != "started"]
"""Of the start, the screen shows how long ago it was."""


def _text(title: str, most: int) -> TableColumn:
    return TableColumn(title, len(title) + 1, right=False, most=most)


def _make_figure_column(figure: RunFigure) -> TableColumn:
    # As wide as the usual numbers: the columns would move whenever a number gets longer.
    title = screen_title(figure)
    return TableColumn(title, max(LEAST_WIDTH, len(title) + 2))


CURVE = " loss curve"
"""The title of the column of curves, each of which has its own logarithmic scale. The blank keeps
it off the title before it, which is that of numbers."""
COLUMNS = (
    _text(" ", 3),
    _text("state", 18),
    _text("name", 40),
    _text("job", 34),
    TableColumn("ranks", 6),
    TableColumn("started", 9),
    TableColumn("duration", 9),
    *map(_make_figure_column, SCREEN_FIGURES),
    _text(CURVE, CURVE_WIDTH + 2),
    _text("settings", 40),
    _text("note", 60),
)
"""A cell is that of the column of `rankboard runs` with the same title, unless `make_rows` or
`_make_texts` makes another."""
IMPORTANCE = (
    "state",
    "name",
    "started",
    "progress",
    "loss",
    "test acc",
    "job",
    CURVE,
    "duration",
    "per step",
    "ranks",
    "note",
    "settings",
)
"""The columns in the order in which they get their room, but for the first one of the table, which
is always there: what does not fit beside those before it is left out."""


FLEXIBLE = ("note", "settings")
"""Columns that are shown though there is not room for all of their texts."""
FLEXIBLE_WIDTH = 17
"""Cells of them, at least, if they have as much."""


class RunTable(ChoiceTable):
    """The runs and studies of the list, with a cursor on one of them."""

    def __init__(self) -> None:
        super().__init__()
        self._items: Sequence[RunItem] = ()

    @property
    def chosen(self) -> RunItem | None:
        """Return the row under the cursor."""
        return self._items[self.cursor] if self.cursor < len(self._items) else None

    @property
    def items_in_view(self) -> Sequence[RunItem]:
        """Return the rows that can be seen, and perhaps some below."""
        top = self.scroll_offset.y
        return self._items[top : top + self.screen.size.height]

    def show_items(
        self,
        items: Sequence[RunItem],
        all_cells: Sequence[TableRow],
        width: int,
        order: RunOrder | None,
        first: int = 0,
    ) -> None:
        """Show these rows, with a cell for each of `COLUMNS`, and the sign of the `order` in which
        all of them stand.

        The cursor stays on the run on which a person has put it; until then it is on the row
        `first`: the newest run, unless others are live or need a person.
        """
        chosen = self.chosen
        self._items = items
        # It takes no more lines than it has: the preview gets the others.
        self.styles.max_height = len(items) + 1
        self.show(*fit_table(all_cells, width, order))
        if not self.is_cursor_placed:
            self.cursor = first
        elif chosen:
            self.choose(chosen.name)

    def choose(self, name: str) -> None:
        """Put the cursor on the row of this name, if there is one."""
        names = [item.name for item in self._items]
        if name in names:
            self.cursor = names.index(name)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Leave the keys for columns out of view to the screen, which folds studies by them: there
        are no such columns."""
        return action not in ("scroll_left", "scroll_right")


class LossCurves:
    """The losses of runs, which are read in the background for those in view."""

    def __init__(self, owner: Screen[None], history: History, report: Callable[[], object]) -> None:
        """`report` is called once there are new ones."""
        self.losses: dict[str, list[float]] = {}
        self._history = history
        self._report = report
        self._grown: set[str] = set()
        self._reading = RepeatedTask(owner, self._take)

    def clear(self) -> None:
        """Read all of them again."""
        self.losses.clear()

    def outdate(self, names: Collection[str]) -> None:
        """Read those of these runs again, which have grown."""
        self._grown = set(names)

    def read(self, items: Iterable[RunItem]) -> None:
        """Read the losses of these runs that are not known yet or have grown."""
        names = list[str]()
        for item in items:
            is_new = item.name not in self.losses or item.name in self._grown
            if item.entry and is_new:
                names.append(item.name)
        if names:
            self._grown.difference_update(names)
            self._reading.begin(lambda: self._history.read_courses(names, CURVE_WIDTH))

    def _take(self, losses: dict[str, list[float]]) -> None:
        self.losses |= losses
        self._report()


# Columns ------------------------------------------------------------------------------------------


def fit_table(
    rows: Sequence[TableRow], width: int, order: RunOrder | None = None
) -> tuple[list[TableColumn], list[TableRow]]:
    """Return the columns for which there is room, each as wide as what stands in it; and the cells
    of these rows in them. `rows` have a cell for each of `COLUMNS`; the column by which they are
    sorted has a sign."""
    fitted = dict[str, TableColumn]()
    for place, column in enumerate(COLUMNS):
        titled = _mark_order(column, order) if order and order.title == column.title else column
        cells = [row[place] for row in rows]
        has_text = any(cell.text.strip() not in ("", UNKNOWN) for cell in cells)
        if has_text or titled is not column or not rows:
            fitted[column.title] = _fit_text_column(titled, cells)
    first_title = COLUMNS[0].title
    shown_titles = {first_title}
    # Without a star, a mark or a study there is nothing in it, but the column stays at its place.
    room = width - fitted.setdefault(first_title, COLUMNS[0]).width
    for title in IMPORTANCE:
        if title in fitted and fitted[title].width <= room:
            shown_titles.add(title)
            room -= fitted[title].width
    is_shown = [column.title in shown_titles for column in COLUMNS]
    shown_columns = [fitted[column.title] for column in compress(COLUMNS, is_shown)]
    return shown_columns, [tuple(compress(row, is_shown)) for row in rows]


def _fit_text_column(column: TableColumn, cells: Sequence[TableCell]) -> TableColumn:
    fitted = fit_column(column, cells)
    if column.title not in FLEXIBLE:
        return fitted
    return structs.replace(column, width=min(fitted.width, FLEXIBLE_WIDTH), most=fitted.width)


def _mark_order(column: TableColumn, order: RunOrder) -> TableColumn:
    """Return the column with a sign that the list is sorted by it."""
    # The newest run has started the shortest time ago.
    falls = order.largest_first is not (order.title == "started")
    title = f"{column.title} {palette.sign('falling' if falls else 'rising')}"
    return structs.replace(column, title=title, width=max(column.width, len(title) + 1))


# Rows ---------------------------------------------------------------------------------------------


def make_rows(
    items: Iterable[RunItem],
    names: Mapping[str, str],
    courses: Mapping[str, Sequence[float]],
    marked: Collection[str],
    now: float,
    needy: Collection[str] = (),
) -> list[TableRow]:
    """Return the rows of the table, with a cell for each of `COLUMNS`.

    `names` are the short names of runs, `courses` their losses, as far as known. Those that are
    `marked` have the letters that a comparison gives them, those that are `needy` a sign of it.
    Times ago are those at the Unix time `now`.
    """
    rows = list[TableRow]()
    # In the order in which `Keeping.action_compare` hands the runs over.
    letters = dict(zip(sorted(marked), ascii_uppercase, strict=False))
    for item in items:
        texts = _make_texts(item, names.get(item.name, item.name), now)
        is_needy = item.name in needy
        first_sign = letters.get(item.name, NEEDY_SIGN if is_needy else " ")
        texts[" "] = first_sign + _make_signs(item)
        cells = {title: TableCell(plain(text)) for title, text in texts.items()}
        cells[CURVE] = TableCell(_draw_cell_curve(courses.get(item.name, ())), "table--dim")
        cells["state"] = _make_state_cell(
            describe_state(item), is_calm=not (is_needy or item.is_live)
        )
        cells["progress"] = _describe_progress(item)
        rows.append(tuple(cells.get(column.title, TableCell("")) for column in COLUMNS))
    return rows


def _make_signs(item: RunItem) -> str:
    """Return the star of a run, or whether a study is open."""
    if item.study:
        return palette.sign("open" if item.is_open else "closed")
    if item.entry and item.entry.pinned:
        return "p"
    return "*" if item.entry and item.entry.star else ""


def _make_texts(item: RunItem, name: str, now: float) -> dict[str, str]:
    """Return the texts of a row, by the titles of their columns."""
    if item.study:
        return _describe_study(item.study) | {"started": _describe_start(item.started, now)}
    if item.entry:
        return _describe_recorded(item, item.entry, name, now)
    answer = item.answer
    assert answer
    return {
        "name": answer.label or item.name,
        "job": f"on {count(answer.hosts, 'host')}",
        "ranks": or_unknown(answer.ranks),
    }


def _describe_recorded(item: RunItem, run: Entry, name: str, now: float) -> dict[str, str]:
    texts = dict(zip(TITLES, make_row(run, name, settings_of(run)), strict=True))
    for figure in SCREEN_FIGURES:
        texts[screen_title(figure)] = texts[figure.title]
    indent = "  " if item.is_part else ""
    texts["name"] = indent + (run.label or name)
    texts["job"] = run.trial if item.is_part else name_job(run)
    texts["started"] = _describe_start(run.started, now)
    texts["duration"] = UNKNOWN if run.elapsed is None else duration(run.elapsed)
    return texts


def _describe_start(started: float | None, now: float) -> str:
    # Set off by one more blank: behind a number of ranks, "4 4 min ago" would read as one number.
    return f" {ago(max(0.0, now - started))}" if started else UNKNOWN


def name_job(run: Entry) -> str:
    """Return what a run trains: "ddp lenet5 digits", "examples/train.py --lr 0.1"."""
    if run.job is not None:
        return " ".join(str(run.setting(name)) for name in ("sync", "model", "dataset"))
    program, _, arguments = run.script.partition(" ")
    # The folders above are those of all that a person trains.
    return " ".join(filter(None, ("/".join(PurePath(program).parts[-2:]), arguments))) or UNKNOWN


def _describe_study(progress: StudyProgress) -> dict[str, str]:
    study = progress.study
    return {
        "name": study.name,
        "job": f"study, {count(len(study.cells), 'cell')}",
        "duration": duration(progress.seconds),
        "settings": study.title,
    }


def describe_state(item: RunItem) -> PhaseLook:
    """Return what becomes of a run or study, as a sign and a word."""
    if item.study:
        return phase_look(item.guesses.word if item.guesses else _study_state(item.study))
    if item.answer:
        # The word comes from a host, which may run another version.
        word = item.answer.state if item.answer.state in PHASE_STYLES else RUNNING
    else:
        assert item.entry
        word = item.entry.state
    return phase_look(word)


def _make_state_cell(look: PhaseLook, *, is_calm: bool) -> TableCell:
    """Return the state of a run. Only its sign is in colour, and that only if something goes on or
    needs a person: else the eye finds nothing among so many colours."""
    if is_calm:
        return TableCell(look.text, "table--dim")
    return TableCell(look.text, parts=((look.sign, look.style), (f" {look.word}", "")))


def _describe_progress(item: RunItem) -> TableCell:
    """Return how far a run or study is: a share, beside a bar if it is live."""
    if item.study:
        progress = item.study
        return TableCell(f"{progress.num_settled}/{len(progress.study.trials())}")
    step, steps = item.place
    if not 0 < step <= steps:
        return TableCell(f"step {step}" if step else UNKNOWN)
    share_text = f"{percent(step / steps):>5}"
    if not item.is_live:
        return TableCell(share_text)
    num_done = round(BAR_WIDTH * step / steps)
    done_bar = palette.sign("full") * num_done
    rest_bar = palette.sign("rest") * (BAR_WIDTH - num_done)
    parts = ((done_bar, describe_state(item).style), (rest_bar, "table--dim"), (share_text, ""))
    return TableCell(f"{done_bar}{rest_bar}{share_text}", parts=parts)


def _study_state(progress: StudyProgress) -> str:
    states = {cell.state(progress.study.repetitions) for cell in progress.cells.values()}
    # What counts most comes first.
    for state in (CellState.RUNNING, CellState.FAILED, CellState.WAITING):
        if state in states:
            return state.value
    return CellState.FINISHED.value


# Curves -------------------------------------------------------------------------------------------


def _draw_cell_curve(losses: Sequence[float]) -> str:
    curve = draw_curve(losses)
    return f" {curve}" if curve else ""


def draw_curve(losses: Sequence[float]) -> str:
    """Draw the course of the loss from its least to its largest, a cell for each value. The scale
    is logarithmic."""
    if len(losses) < 2:
        return ""
    if min(losses) > 0.0:
        losses = [math.log(loss) for loss in losses]
    least = min(losses)
    # A loss that stays the same would be divided by 0.
    extent = (max(losses) - least) or 1.0
    shares = [(loss - least) / extent for loss in losses]
    if not palette.has_utf8():
        return "".join(map(palette.level_sign, shares))
    return _draw_braille(shares)


def _draw_braille(shares: Sequence[float]) -> str:
    """Draw a line through values from 0 (bottom) to 1 (top), a cell for each."""
    num_columns = 2 * len(shares)
    rows = list[int]()
    for column in range(num_columns):
        place = column * (len(shares) - 1) / (num_columns - 1)
        left = min(int(place), len(shares) - 2)
        share = shares[left] + (place - left) * (shares[left + 1] - shares[left])
        rows.append(round((1.0 - share) * (len(DOT_ROWS) - 1)))
    bits = [0] * len(shares)
    for column, row in enumerate(rows):
        previous = rows[column - 1] if column else row
        # Dots in between join the line where it is steep.
        for dot_row in range(min(row, previous), max(row, previous) + 1):
            if dot_row != previous or row == previous:
                bits[column // 2] |= DOT_ROWS[dot_row][column % 2]
    return "".join(chr(0x2800 + cell_bits) for cell_bits in bits)
