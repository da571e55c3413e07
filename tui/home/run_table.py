"""The table of the list of runs."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import compress
from string import ascii_uppercase

from remote.format import UNKNOWN, count, duration, or_unknown
from remote.record.entry import RUNNING
from remote.record.figures import FIGURES_WITH_COLUMN, RunFigure
from remote.sanitise import plain
from remote.study.progress import CellState, StudyProgress
from tui.home.listing import TITLES, make_row, settings_of
from tui.home.run_list import RunItem
from tui.kit import palette
from tui.kit.widgets.choices import ChoiceTable
from tui.kit.widgets.phase import PHASE_STYLES, phase_cell
from tui.kit.widgets.table import TableCell, TableColumn, TableRow, fit_column

CURVE_WIDTH = 10
"""Cells of a curve of the loss."""
LEAST_WIDTH = 8
"""Cells of the column of a figure, at the least."""
STEP_WIDTH = 11
"""The same for a step, which stands with the number of all: "1200/12000"."""
SCREEN_FIGURES = [figure for figure in FIGURES_WITH_COLUMN if figure.field != "started"]
"""A run's name says when it began, and the screen is narrower than a pipe."""


def _text(title: str, width: int, most: int = 0) -> TableColumn:
    return TableColumn(title, width, right=False, most=most)


def _make_figure_column(figure: RunFigure) -> TableColumn:
    # As wide as the usual numbers: the columns would move whenever a number gets longer.
    least_width = STEP_WIDTH if figure.field == "step" else LEAST_WIDTH
    return TableColumn(figure.title, max(least_width, len(figure.title) + 1))


COLUMNS = (
    _text(" ", 3),
    _text("state", 13, most=17),
    _text("run", 16, most=22),
    _text("method", 17),
    _text("model", 8, most=12),
    _text("data set", 9, most=10),
    TableColumn("ranks", 6),
    *map(_make_figure_column, SCREEN_FIGURES),
    TableColumn("took", 9),
    _text(" course", CURVE_WIDTH + 2),
    _text("settings", 20, most=40),
    _text("note", 24, most=60),
)
"""A cell is that of the column of `rankboard runs` with the same title, unless `make_rows` or
`_make_texts` makes another."""
DROP_ORDER = (
    "note",
    "settings",
    "took",
    "data set",
    "ranks",
    "s/iter",
    "step",
    "model",
    " course",
    "accuracy",
    "method",
    "loss",
    "run",
    "state",
)
"""A narrow screen leaves out columns in this order, the first one first: all but the first of the
table."""


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
        self, items: Sequence[RunItem], all_cells: Sequence[TableRow], width: int
    ) -> None:
        """Show these rows, with a cell for each of `COLUMNS`.

        The cursor stays on the run on which a person has put it; until then it is on the first row,
        which is the newest run unless others are live.
        """
        chosen = self.chosen
        self._items = items
        self.show(*fit_table(all_cells, width))
        if not self.is_cursor_placed:
            self.cursor = 0
        elif chosen:
            names = [item.name for item in items]
            if chosen.name in names:
                self.cursor = names.index(chosen.name)


# Columns ------------------------------------------------------------------------------------------


def fit_table(rows: Sequence[TableRow], width: int) -> tuple[list[TableColumn], list[TableRow]]:
    """Return the columns for which there is room, those of numbers as wide as what stands in them;
    and the cells of these rows in them. `rows` have a cell for each of `COLUMNS`."""
    columns = list[TableColumn]()
    for place, column in enumerate(COLUMNS):
        fitted = fit_column(column, [row[place] for row in rows])
        if not column.right:  # it grows if there is room, but not beyond its longest text
            fitted = replace(column, most=min(column.most, fitted.width))
        columns.append(fitted)
    shown_widths = {column.title: column.width for column in columns}
    for title in DROP_ORDER:
        if sum(shown_widths.values()) > width:
            del shown_widths[title]
    is_shown = [column.title in shown_widths for column in columns]
    fitted_rows = [tuple(compress(row, is_shown)) for row in rows]
    return list(compress(columns, is_shown)), fitted_rows


# Rows ---------------------------------------------------------------------------------------------


def make_rows(
    items: Iterable[RunItem],
    names: Mapping[str, str],
    courses: Mapping[str, Sequence[float]],
    marked: Collection[str],
) -> list[TableRow]:
    """Return the rows of the table, with a cell for each of `COLUMNS`.

    `names` are the short names of runs, `courses` their losses, as far as known. Those that are
    `marked` have the letters that a comparison gives them.
    """
    rows = list[TableRow]()
    # In the order in which `Keeping.action_compare` hands the runs over.
    letters = dict(zip(sorted(marked), ascii_uppercase, strict=False))
    for item in items:
        texts = _make_texts(item, names.get(item.name, item.name))
        cells = {title: TableCell(plain(text)) for title, text in texts.items()}
        cells[" course"] = TableCell(f" {draw_curve(courses.get(item.name, ()))}", "table--dim")
        cells["state"] = _make_state_cell(item)
        star = "*" if item.entry and item.entry.star else " "
        cells[" "] = TableCell(letters.get(item.name, " ") + star)
        rows.append(tuple(cells.get(column.title, TableCell("")) for column in COLUMNS))
    return rows


def _make_texts(item: RunItem, name: str) -> dict[str, str]:
    """Return the texts of a row, by the titles of their columns."""
    answer = item.answer
    step = f"{answer.step}/{answer.steps}" if answer else ""
    if item.study:
        study = item.study.study
        return {
            "run": item.name,
            "method": "study",
            "settings": study.title,
            "step": f"{item.study.num_settled}/{len(study.trials())} runs",
        }
    if item.entry:
        entry = item.entry
        texts = dict(zip(TITLES, make_row(entry, name, settings_of(entry)), strict=True))
        texts["run"] = entry.label or name
        texts["took"] = UNKNOWN if entry.elapsed is None else duration(entry.elapsed)
        if answer:
            texts["step"] = step
        return texts
    assert answer
    return {
        "run": plain(answer.label) or item.name,
        "method": count(answer.hosts, "host"),
        "ranks": or_unknown(answer.ranks),
        "step": step,
    }


def _make_state_cell(item: RunItem) -> TableCell:
    """Return what becomes of a run or study, as a sign and a word."""
    if item.answer:
        word = item.answer.state
        # The word comes from a host, which may run another version.
        return phase_cell(word if word in PHASE_STYLES else RUNNING)
    if item.study:
        return phase_cell(_describe_study(item.study))
    assert item.entry
    return phase_cell("unreadable" if item.entry.problem else item.entry.outcome)


def _describe_study(progress: StudyProgress) -> str:
    repetitions = progress.study.repetitions
    states = {cell.state(repetitions) for cell in progress.cells.values()}
    is_done = states == {CellState.DONE}
    return CellState.DONE.value if is_done else CellState.WAITING.value


def draw_curve(losses: Sequence[float]) -> str:
    """Draw the course of the loss, from its least to its largest."""
    if len(losses) < 2:
        return ""
    least = min(losses)
    # A loss that stays the same would be divided by 0.
    extent = (max(losses) - least) or 1.0
    return "".join(palette.level_sign((loss - least) / extent) for loss in losses)
