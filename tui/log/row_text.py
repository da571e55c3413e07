"""Rows of a log as plain text, to be copied or saved."""

from __future__ import annotations

from collections.abc import Iterable

from textual.selection import Selection

from remote.run.output.log_levels import Level, LevelReader, is_traceback
from remote.run.state.types import LogLine
from tui.log.margin import LogMargin, repeat_mark
from tui.log.rows import LogRows


def format_rows(rows: LogRows, lines: Iterable[LogLine], margin: LogMargin) -> str:
    """Return the rows of these lines with their margins, as on the screen."""
    texts = []
    for line in lines:
        shared = rows.shared(line)
        before = "".join(margin.texts(line, shared))
        after = repeat_mark(len(shared.ranks)) if shared else ""
        texts.append(f"{before}{rows.text(line)}{after}")
    return "\n".join(texts)


def format_entry(rows: LogRows, row: int) -> str:
    """Return the text of a row. If a traceback begins there, return the whole traceback."""
    first = rows.lines[row]
    if not is_traceback(first):
        return rows.text(first)
    levels = LevelReader()
    texts = []
    for line in rows.lines[row:]:
        is_same_source = (line.rank, line.host) == (first.rank, first.host)
        if not is_same_source:
            continue
        if levels.read(line) is not Level.ERROR:
            break
        texts.append(rows.text(line))
    return "\n".join(texts)


def selected_text(rows: LogRows, selection: Selection) -> str:
    """Return the text that is selected with the mouse, without the margins."""
    first_row = rows.row_of(selection.start.y) if selection.start else 0
    end_row = rows.row_of(selection.end.y + 1) if selection.end else len(rows.lines)
    texts = []
    for line in rows.lines[first_row:end_row]:
        text = rows.text(line)
        start, end = selected_span(selection, line, text) or (0, 0)
        texts.append(text[start:end])
    return "\n".join(texts)


def selected_span(selection: Selection, line: LogLine, text: str) -> tuple[int, int] | None:
    """Return the first and last character that are selected in a row, or None.

    Characters of the margin have negative numbers, and -1 as the end means the whole row.
    """
    span = selection.get_span(line.number)
    if span is None:
        return None
    start, end = span
    if end == -1:
        end = len(text)
    return max(0, start), max(0, end)
