"""Text from a node, made fit to be shown: no control sequences, no tabs, one last state of each progress bar."""

from __future__ import annotations

import re

_CONTROL = re.compile(r"[\x00-\x09\x0b-\x1f\x7f-\x9f]")
_SEQUENCE = re.compile(
    r"\x1b\[[0-?]*[ -/]*[@-~]"  # colours, cursor
    r"|\x1b[\]PX^_][^\x07\x1b]*(?:\x07|\x1b\\)?"  # titles, links and other strings
    r"|\x1b[ -/]*[0-~]"
    r"|\x9b[0-?]*[ -/]*[@-~]"
)


def shown(text: str) -> list[str]:
    """The lines of a chunk of text as a terminal would leave them, without colours. Remote text is data, never markup."""
    lines = text.split("\n")
    return [_line(line) for line in lines] if _CONTROL.search(text) else lines


def _line(line: str) -> str:
    if not _CONTROL.search(line):
        return line
    line = _SEQUENCE.sub("", line)
    if "\r" in line:
        line = next((part for part in reversed(line.split("\r")) if part.strip()), "")
    return _CONTROL.sub("", line.expandtabs(8))
