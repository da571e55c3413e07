"""The table of the comparison: a fact per row, a run per column, and what makes them differ."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from textual.content import Content

from remote.format import UNKNOWN, count
from remote.metrics.compare import ComparedRun
from remote.metrics.run import RunFigures
from remote.metrics.settings import differing
from remote.sanitise import plain
from tui.compare.comparison_text import CAPTIONS, metrics_table
from tui.compare.facts import TIME_PER_STEP, Difference, Effect, list_facts
from tui.compare.headline import shorten_name
from tui.kit import palette
from tui.kit.inks import MUTED, Inks
from tui.kit.palette import RUN_LETTERS
from tui.kit.text_table import GAP
from tui.kit.widgets.phase import phase_cell

WIDEST_CELL = 32
"""Cells of a column at most."""
LONGEST_TITLE = 24
"""Cells that the name of a run may take."""
NARROWEST_CELL = 4
BAR_REACH = 18
"""Cells of the longest bar."""
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
KEY_TO_SIGNS = (("good", "better"), ("slow", "worse"), ("alike", "not certain"))


class StyledCell(NamedTuple):
    """A cell of the table."""

    text: str
    style: str = ""
    short_text: str = ""
    """What stands in a column that is too narrow for the text."""


class TableRow(NamedTuple):
    """A row of the table: a cell for each run, and of two runs one for their difference."""

    label: str
    cells: tuple[StyledCell, ...]
    bar: Content | None = None
    """How much better or worse the second of two runs is, if there is room for it."""


def describe_signs() -> str:
    """Return what the signs of differences mean."""
    return GAP.join(f"{palette.sign(name)} {word}" for name, word in KEY_TO_SIGNS)


def describe_common_work(compared: Sequence[ComparedRun]) -> str:
    """Return what all runs do and where, if that is the same; else ""."""
    descriptions = {_describe_work(run.run) for run in compared}
    return descriptions.pop() if len(descriptions) == 1 else ""


def _describe_work(run: RunFigures) -> str:
    hosts = count(run.nodes, "host")
    return f"{run.description}, {count(run.world_size, 'rank')} on {hosts}"


def draw_fact_table(
    compared: Sequence[ComparedRun], names: Sequence[str], room: int, inks: Inks
) -> Content:
    """Return the table, no wider than so many cells, and remarks below it."""
    rows = list(_list_rows(compared, names, inks))
    lines = list(_draw_rows(rows, room))
    notes = [*_list_remarks(compared), *CAPTIONS] if any(run.steps for run in compared) else []
    for note in notes:
        lines += [Content("")] if note == notes[0] else []
        for line in textwrap.wrap(plain(note), max(room, 20)):
            lines.append(Content.styled(line, MUTED))
    return Content("\n").join(lines)


def _list_remarks(compared: Sequence[ComparedRun]) -> Iterator[str]:
    """Yield what a reader has to know of the runs, each once, with the letters of its runs."""
    letters_of_text: dict[str, list[str]] = {}
    for letter, run in zip(RUN_LETTERS, compared, strict=False):
        for remark in run.run.remarks:
            letters_of_text.setdefault(remark.text, []).append(letter)
    for text, letters in letters_of_text.items():
        yield f"{', '.join(letters)}: {text}"


# Rows ---------------------------------------------------------------------------------------------


def _list_rows(
    compared: Sequence[ComparedRun], names: Sequence[str], inks: Inks
) -> Iterator[TableRow]:
    has_column = len(compared) == 2
    heads = []
    for place, name in enumerate(names):
        title = f"{palette.sign('curve')} {RUN_LETTERS[place]} "
        style = f"bold {inks.by_number(place)}"
        heads.append(StyledCell(title + plain(name), style, title + plain(shorten_name(name))))
    if has_column:
        heads.append(StyledCell("B vs A", "bold"))
    yield TableRow("", tuple(heads), _bar_head() if has_column else None)
    settings = differing([run.run for run in compared])
    common_settings = {name: values for name, values in settings.items() if UNKNOWN not in values}
    for name, values in common_settings.items():
        yield _plain_row(name, values)
    yield TableRow("outcome", tuple(_outcome_cell(run.run) for run in compared))
    for fact in list_facts(compared):
        cells = tuple(map(StyledCell, fact.values))
        if has_column:
            difference = fact.differences[1]
            bar = _draw_bar(difference) if difference else None
            yield TableRow(fact.label, (*cells, _difference_cell(difference)), bar)
            continue
        yield TableRow(fact.label, cells)
        if fact.label == TIME_PER_STEP:
            yield TableRow("  against A", tuple(map(_difference_cell, fact.differences)))
    for name, *last_values in metrics_table(compared)[1:]:
        yield _plain_row(name, last_values)
    for name, values in settings.items():
        # What only some runs have, as jobs and scripts do, says little.
        if name not in common_settings:
            yield _plain_row(name, values)


def _plain_row(label: str, values: Sequence[str]) -> TableRow:
    return TableRow(label, tuple(StyledCell(plain(value)) for value in values))


def _outcome_cell(run: RunFigures) -> StyledCell:
    if run.verdict is None:
        return StyledCell("not ended", WARN)
    word = run.flaws[0].kind.value if run.flaws else run.verdict.word
    cell = phase_cell(word)
    sign = cell.text.partition(" ")[0]
    return StyledCell(cell.text, STATE_STYLES.get(cell.style, ""), sign)


def _difference_cell(difference: Difference | None) -> StyledCell:
    if difference is None:
        return StyledCell("")
    sign_name, style = EFFECT_LOOKS[difference.effect]
    sign = palette.sign(sign_name) if sign_name else " "
    return StyledCell(f"{sign} {difference.text}", style)


def _bar_head() -> Content:
    """Return what the ends of the bars mean."""
    return Content.styled(f"{palette.sign('row')}0%{'100%':>{BAR_REACH - 2}}", MUTED)


def _draw_bar(difference: Difference) -> Content | None:
    """Draw by how much a run is better or worse, as the sign before it and its ink say."""
    if not difference.gain or difference.effect is Effect.PLAIN:
        return None
    length = max(1, round(min(abs(difference.gain), 1.0) * BAR_REACH))
    style = EFFECT_LOOKS[difference.effect][1]
    return Content.assemble((palette.sign("row"), MUTED), (palette.sign("full") * length, style))


# Drawing ------------------------------------------------------------------------------------------


def _draw_rows(rows: Sequence[TableRow], room: int) -> Iterator[Content]:
    label_width = max(len(row.label) for row in rows)
    num_columns = max(len(row.cells) for row in rows)
    natural_widths = [0] * num_columns
    for row in rows:
        for column, cell in enumerate(row.cells):
            is_long = bool(cell.short_text) and len(cell.text) > LONGEST_TITLE
            natural_width = len(cell.short_text if is_long else cell.text)
            natural_widths[column] = max(natural_widths[column], natural_width)
    gap = GAP if sum(natural_widths) + 2 * num_columns + label_width <= room else " "
    widths = _fit_widths(natural_widths, room - label_width - len(gap) * num_columns)
    table_width = label_width + sum(widths) + len(gap) * num_columns
    has_bars = table_width + len(gap) + BAR_REACH + 1 <= room
    for row in rows:
        first_line, *lines = _draw_row(row, label_width, widths, gap)
        if has_bars and row.bar:
            first_line = first_line.pad_right(table_width + len(gap) - first_line.cell_length)
            first_line += row.bar
        yield from (first_line, *lines)


def _fit_widths(natural_widths: Sequence[int], room: int) -> list[int]:
    """Return widths of columns that fit, by making the widest ones narrower."""
    widest = WIDEST_CELL
    while widest > NARROWEST_CELL and sum(min(width, widest) for width in natural_widths) > room:
        widest -= 1
    return [min(width, widest) for width in natural_widths]


def _draw_row(
    row: TableRow, label_width: int, widths: Sequence[int], gap: str
) -> Iterator[Content]:
    folded_cells = []
    for cell, width in zip(row.cells, widths, strict=False):
        is_narrow = bool(cell.short_text) and len(cell.text) > width
        folded_cells.append(_fold(cell.short_text if is_narrow else cell.text, width))
    height = max((len(lines) for lines in folded_cells), default=1)
    for line_number in range(height):
        label = row.label if line_number == 0 else ""
        parts: list[Content] = [Content.styled(label.ljust(label_width), MUTED)]
        for cell, lines, width in zip(row.cells, folded_cells, widths, strict=False):
            text = lines[line_number] if line_number < len(lines) else ""
            parts.append(Content.assemble(gap, (text, cell.style), " " * (width - len(text))))
        yield Content("").join(parts).rstrip()


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
