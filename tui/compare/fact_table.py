"""The table of the comparison: a fact per row, a run per column, and what makes them differ."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Iterator, Sequence
from enum import Enum, auto
from functools import partial
from typing import NamedTuple

from textual.content import Content

from remote.format import UNKNOWN, count
from remote.metrics.compare import ComparedRun
from remote.metrics.run import RunFigures
from remote.metrics.settings import differing
from remote.plan.variables import VARIABLE
from remote.run.state.phases import Verdict
from remote.sanitise import plain
from tui.compare.comparison_text import CAPTIONS, metrics_table
from tui.compare.facts import (
    TEST_ACCURACY,
    TIME_PER_STEP,
    Difference,
    Effect,
    FactRow,
    list_facts,
    restates_step_time,
)
from tui.compare.headline import are_repeated, shorten_name
from tui.kit import palette
from tui.kit.inks import MUTED, Inks
from tui.kit.palette import RUN_LETTERS
from tui.kit.text_table import GAP
from tui.kit.widgets.phase import phase_look

WIDEST_CELL = 36
"""Cells of a column at most, where not all texts have room."""
LONGEST_TITLE = 24
"""Cells that the name of a run may take."""
NARROWEST_CELL = 4
LONGEST_BAR = 30
"""Cells of the bar of a row's largest value, at most."""
SHORTEST_BAR = 8
"""Without room for as much, there are no bars."""
BAR_GAP = 1
"""Cells between a value and its bar."""
ALIKE = 0.95
"""Values of which the least is at least so much of the largest are as good as equal: bars would
show nothing."""
MAX_LINES = 4
"""Lines of a cell that its column is too narrow for."""
GOOD = "$text-success"
WARN = "$text-warning"
EFFECT_LOOKS = {
    Effect.BETTER: ("good", GOOD),
    Effect.WORSE: ("slow", WARN),
    Effect.UNCERTAIN: ("alike", MUTED),
    Effect.PLAIN: ("", MUTED),
}
"""The sign and the style of each kind of difference."""
STATE_STYLES = {"table--good": GOOD, "table--warn": WARN, "table--bad": "$text-error"}
UNPROVEN = ""
"""The style of what is better or worse in one run each: colour is for what repeated runs prove."""
KEY_TO_SIGNS = (("good", "better"), ("slow", "worse"), ("alike", "may be chance"))
KEY_TO_UNPROVEN_SIGNS = (
    ("good", "better so far"),
    ("slow", "worse so far"),
    ("alike", "may be chance"),
)
MAIN_FACTS = 3
"""Rows of figures that stand there at first, if there are so many."""
MAIN_SETTINGS = 4
"""Rows of settings that stand there at first, at most."""


class StyledCell(NamedTuple):
    """A cell of the table."""

    text: str
    style: str = ""
    short_text: str = ""
    """What stands in a column that is too narrow for the text."""
    bar_share: float = math.nan
    """The length of the bar behind the text, as a share of the longest one; NaN for no bar."""
    bar_ink: str = ""


class RowKind(Enum):
    """What a row is of."""

    HEAD = auto()
    """The names of the runs, or how they ended if that is remarkable."""
    SETTING = auto()
    """A setting that all runs have."""
    FACT = auto()
    """What the runs came to."""
    REST = auto()
    """What is there only where there is room."""
    RESTATED = auto()
    """What follows from another row: there only if all rows are asked for."""


class TableRow(NamedTuple):
    """A row of the table: a cell for each run, and of two runs one for their difference."""

    label: str
    cells: tuple[StyledCell, ...]
    kind: RowKind = RowKind.REST
    is_main: bool = False
    """Whether the verdict rests on it."""


def describe_signs(compared: Sequence[ComparedRun]) -> str:
    """Return what the signs of differences mean. What one run each shows is so only up to now."""
    key = KEY_TO_SIGNS if are_repeated(compared) else KEY_TO_UNPROVEN_SIGNS
    return GAP.join(f"{palette.sign(name)} {word}" for name, word in key)


def describe_common_work(compared: Sequence[ComparedRun]) -> str:
    """Return what all runs do and where, if that is the same; else ""."""
    descriptions = {_describe_work(run.run) for run in compared}
    return descriptions.pop() if len(descriptions) == 1 else ""


def _describe_work(run: RunFigures) -> str:
    hosts = count(run.nodes, "host")
    return f"{run.description}, {count(run.world_size, 'rank')} on {hosts}"


class FactTable(NamedTuple):
    """The table as it is drawn."""

    content: Content
    num_folded: int
    """Rows that are left out."""
    has_notes: bool
    """Whether remarks on the rows are left out."""


def draw_fact_table(
    compared: Sequence[ComparedRun],
    names: Sequence[str],
    room: int,
    inks: Inks,
    *,
    max_lines: int | None = None,
) -> FactTable:
    """Return the table, no wider than so many cells: all rows and remarks below them, or of
    `max_lines` only the rows on which the verdict rests, and as many others as fit that do not
    follow from these."""
    rows = list(_list_rows(compared, names, inks))
    notes = [*_list_remarks(compared), *CAPTIONS] if any(run.steps for run in compared) else []
    if max_lines is not None:
        shown_rows = _select_rows(rows, room, max_lines)
        content = Content("\n").join(_draw_rows(shown_rows, room))
        return FactTable(content, len(rows) - len(shown_rows), bool(notes))
    lines = list(_draw_rows(rows, room))
    for note in notes:
        lines += [Content("")] if note == notes[0] else []
        for line in textwrap.wrap(plain(note), max(room, 20)):
            lines.append(Content.styled(line, MUTED))
    return FactTable(Content("\n").join(lines), 0, has_notes=False)


def _select_rows(rows: Sequence[TableRow], room: int, max_lines: int) -> list[TableRow]:
    """Return the main rows, whatever room they take, and the first ones of the others as far as
    there are lines for them."""
    selected = {id(row) for row in _select_main_rows(rows)}
    for row in rows:
        if id(row) in selected or row.kind is RowKind.RESTATED:
            continue
        candidates = [other for other in rows if id(other) in selected or other is row]
        if len(list(_draw_rows(candidates, room))) > max_lines:
            break
        selected.add(id(row))
    return [row for row in rows if id(row) in selected]


def _select_main_rows(rows: Sequence[TableRow]) -> list[TableRow]:
    """Return the rows that say what differs and on what the verdict rests, in their order."""
    facts = [row for row in rows if row.kind is RowKind.FACT]
    main_facts = [row for row in facts if row.is_main]
    for row in facts:
        if len(main_facts) < MAIN_FACTS and not row.is_main:
            main_facts.append(row)
    settings = [row for row in rows if row.kind is RowKind.SETTING][:MAIN_SETTINGS]
    heads = [row for row in rows if row.kind is RowKind.HEAD]
    chosen = {id(row) for row in (*heads, *settings, *main_facts)}
    return [row for row in rows if id(row) in chosen]


def _list_remarks(compared: Sequence[ComparedRun]) -> Iterator[str]:
    """Yield what a reader has to know of the runs, each once, with the letters of its runs."""
    letters_of_text: dict[str, list[str]] = {}
    for letter, run in zip(RUN_LETTERS, compared, strict=False):
        remark_texts = [remark.text for remark in run.run.remarks]
        if run.run.start_load:
            remark_texts.append(run.run.start_load)
        for text in remark_texts:
            letters_of_text.setdefault(text, []).append(letter)
    for text, letters in letters_of_text.items():
        yield f"{', '.join(letters)}: {text}"


# Rows ---------------------------------------------------------------------------------------------


def _list_rows(
    compared: Sequence[ComparedRun], names: Sequence[str], inks: Inks
) -> Iterator[TableRow]:
    is_pair = len(compared) == 2
    heads = []
    for place, name in enumerate(names):
        title = f"{palette.sign('curve')} {RUN_LETTERS[place]} "
        style = f"bold {inks.by_number(place)}"
        heads.append(StyledCell(title + plain(name), style, title + plain(shorten_name(name))))
    if is_pair:
        heads.append(StyledCell("B compared with A", "bold", "B vs A"))
    yield TableRow("", tuple(heads), RowKind.HEAD)
    settings = differing([run.run for run in compared])
    # What only some runs have, as jobs and scripts do, says little, but for a variable.
    main_settings = {
        name: values
        for name, values in settings.items()
        if UNKNOWN not in values or name.startswith(VARIABLE)
    }
    for name, values in main_settings.items():
        yield _plain_row(name, values, RowKind.SETTING)
    yield _outcome_row(compared)
    facts = list(list_facts(compared))
    draw_difference = partial(_difference_cell, is_proven=are_repeated(compared))
    for fact in _sort_facts(facts):
        cells = tuple(_list_value_cells(fact, inks))
        if is_pair:
            cells += (draw_difference(fact.differences[1], says_reason=True),)
        kind = RowKind.RESTATED if restates_step_time(fact, facts) else RowKind.FACT
        yield TableRow(fact.label, cells, kind, fact.is_main)
        if fact.label == TIME_PER_STEP and not is_pair:
            difference_cells = tuple(map(draw_difference, fact.differences))
            yield TableRow("  against A", difference_cells, RowKind.FACT, fact.is_main)
    for name, *last_values in metrics_table(compared)[1:]:
        yield _plain_row(name, last_values, RowKind.FACT)
    for name, values in settings.items():
        if name not in main_settings:
            yield _plain_row(name, values)


def _plain_row(label: str, values: Sequence[str], kind: RowKind = RowKind.REST) -> TableRow:
    return TableRow(label, tuple(StyledCell(plain(value)) for value in values), kind)


def _outcome_row(compared: Sequence[ComparedRun]) -> TableRow:
    """Return how the runs ended, which says something unless all is well."""
    are_well = all(run.run.verdict is Verdict.FINISHED and not run.run.flaws for run in compared)
    cells = tuple(_outcome_cell(run.run) for run in compared)
    return TableRow("outcome", cells, RowKind.REST if are_well else RowKind.HEAD)


def _sort_facts(facts: Sequence[FactRow]) -> list[FactRow]:
    """Return the facts in which the runs differ, then those that are alike. The accuracy, which
    says what a run is worth, stays in its place, and the bounds of a value stay below it."""
    differing_facts = list[FactRow]()
    alike_facts = list[FactRow]()
    group = differing_facts
    for fact in facts:
        if fact.label == TEST_ACCURACY:
            group = differing_facts
        elif fact.numbers:
            group = alike_facts if _is_alike(fact) else differing_facts
        group.append(fact)
    return differing_facts + alike_facts


def _is_alike(fact: FactRow) -> bool:
    """Return True if all values are known and nearly equal, and none is known to be better."""
    effects = {difference.effect for difference in fact.differences if difference}
    if not effects.isdisjoint((Effect.BETTER, Effect.WORSE)):
        return False
    return all(map(math.isfinite, fact.numbers)) and min(fact.numbers) >= ALIKE * max(fact.numbers)


def _list_value_cells(fact: FactRow, inks: Inks) -> Iterator[StyledCell]:
    """Yield the values of a fact, each with a bar unless they are alike. The bars of a row begin at
    0, and that of its largest value is the longest one."""
    known_numbers = [number for number in fact.numbers if math.isfinite(number)]
    largest = max(known_numbers, default=0.0)
    has_bars = bool(fact.numbers) and largest > 0 and not _is_alike(fact)
    for place, value in enumerate(fact.values):
        share = math.nan
        if has_bars and math.isfinite(fact.numbers[place]):
            share = max(0.0, fact.numbers[place] / largest)
        yield StyledCell(value, bar_share=share, bar_ink=inks.by_number(place))


def _outcome_cell(run: RunFigures) -> StyledCell:
    if run.verdict is None:
        return StyledCell(run.state, WARN)
    look = phase_look(run.flaws[0].kind.value if run.flaws else run.verdict.word)
    return StyledCell(look.text, STATE_STYLES.get(look.style, ""), look.sign)


def _difference_cell(
    difference: Difference | None, *, is_proven: bool, says_reason: bool = False
) -> StyledCell:
    if difference is None:
        return StyledCell("")
    sign_name, style = EFFECT_LOOKS[difference.effect]
    if difference.effect in (Effect.BETTER, Effect.WORSE) and not is_proven:
        style = UNPROVEN
    sign = palette.sign(sign_name) if sign_name else " "
    text = f"{sign} {difference.text}"
    if says_reason and difference.reason:
        text += f", {difference.reason}"
    return StyledCell(text, style)


# Drawing ------------------------------------------------------------------------------------------


class ColumnWidth(NamedTuple):
    """The cells of a column of the table."""

    text: int
    """Those of its longest text."""
    number: int
    """Those of its longest text with a bar behind it."""
    bar: int = 0
    """Those of its longest bar; 0 if there is no room for bars."""

    @property
    def total(self) -> int:
        """Return the cells of the whole column."""
        return max(self.text, self.number + BAR_GAP + self.bar if self.bar else 0)


def _draw_rows(rows: Sequence[TableRow], room: int) -> Iterator[Content]:
    label_width = max(len(row.label) for row in rows)
    num_columns = max(len(row.cells) for row in rows)
    natural_widths = [0] * num_columns
    number_widths = [0] * num_columns
    for row in rows:
        for column, cell in enumerate(row.cells):
            is_long = bool(cell.short_text) and len(cell.text) > LONGEST_TITLE
            natural_width = len(cell.short_text if is_long else cell.text)
            natural_widths[column] = max(natural_widths[column], natural_width)
            if math.isfinite(cell.bar_share):
                number_widths[column] = max(number_widths[column], len(cell.text))
    gap = GAP if sum(natural_widths) + 2 * num_columns + label_width <= room else " "
    room_for_cells = room - label_width - len(gap) * num_columns
    text_widths = _fit_widths(natural_widths, room_for_cells)
    widths = _fit_bars(list(map(ColumnWidth, text_widths, number_widths)), room_for_cells)
    for row in rows:
        yield from _draw_row(row, label_width, widths, gap)


def _fit_bars(widths: Sequence[ColumnWidth], room: int) -> list[ColumnWidth]:
    """Give the columns with numbers the longest bars for which there is room."""
    for bar in range(LONGEST_BAR, SHORTEST_BAR - 1, -1):
        barred = [width._replace(bar=bar if width.number else 0) for width in widths]
        if sum(width.total for width in barred) <= room:
            return barred
    return list(widths)


def _fit_widths(natural_widths: Sequence[int], room: int) -> list[int]:
    """Return widths of columns that fit, by making the widest ones narrower."""
    if sum(natural_widths) <= room:
        return list(natural_widths)
    widest = WIDEST_CELL
    while widest > NARROWEST_CELL and sum(min(width, widest) for width in natural_widths) > room:
        widest -= 1
    return [min(width, widest) for width in natural_widths]


def _draw_row(
    row: TableRow, label_width: int, widths: Sequence[ColumnWidth], gap: str
) -> Iterator[Content]:
    folded_cells = []
    for cell, width in zip(row.cells, widths, strict=False):
        is_narrow = bool(cell.short_text) and len(cell.text) > width.total
        folded_cells.append(_fold(cell.short_text if is_narrow else cell.text, width.total))
    height = max((len(lines) for lines in folded_cells), default=1)
    for line_number in range(height):
        label = row.label if line_number == 0 else ""
        parts: list[Content] = [Content.styled(label.ljust(label_width), MUTED)]
        for cell, lines, width in zip(row.cells, folded_cells, widths, strict=False):
            text = lines[line_number] if line_number < len(lines) else ""
            part = Content.styled(text, cell.style)
            if width.bar and math.isfinite(cell.bar_share) and line_number == 0:
                part = part.pad_right(width.number + BAR_GAP - len(text))
                part += _draw_bar(cell, width.bar)
            parts.append(Content(gap) + part.pad_right(width.total - part.cell_length))
        yield Content("").join(parts).rstrip()


def _draw_bar(cell: StyledCell, reach: int) -> Content:
    # What is more than nothing has a bar.
    length = max(1, round(cell.bar_share * reach)) if cell.bar_share else 0
    return Content.styled(palette.sign("full") * length, cell.bar_ink)


def _fold(text: str, width: int) -> list[str]:
    """Fold a text between words, and only words that are longer than a line within."""
    if len(text) <= width:
        return [text]
    lines: list[str] = []
    for line in textwrap.wrap(text, width, break_long_words=False):
        lines += [line[begin : begin + width] for begin in range(0, len(line), width)]
    if len(lines) > MAX_LINES:
        lines[MAX_LINES - 1 :] = [f"{lines[MAX_LINES - 1][: width - 1]}…"]
    return lines
