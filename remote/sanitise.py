"""Text from a node, made fit to be shown: no control sequences, no tabs, no turning of the
direction of what stands beside it, one last state of each progress bar."""

from __future__ import annotations

import re
import sys
from dataclasses import fields, replace
from typing import Any

from training.wire import events
from training.wire.events import Record

_OFTEN = frozenset(
    {
        *(events.Text, events.Step, events.Metrics),
        *(events.HostSample, events.RankSample, events.GpuSample),
    }
)
"""Events that come by the thousand: ranks' lines and names of metrics, which are made fit where
they are put to use, and plain numbers."""
_BIDI = "\u061c\u200e\u200f\u2028\u2029\u202a-\u202e\u2066-\u2069"
_ASCII = re.compile(r"[\x00-\x09\x0b-\x1f\x7f]")
_SURROGATES = "\ud800-\udfff"
"""Halves of characters, which JSON may bring and no encoding knows."""
_ANY = re.compile(rf"[\x00-\x09\x0b-\x1f\x7f-\x9f{_BIDI}{_SURROGATES}]")
UNSEEN = re.compile(rf"[\x7f-\x9f{_BIDI}{_SURROGATES}]")
"""What JSON leaves as it is though a terminal acts on it."""
_SEQUENCE = re.compile(
    r"\x1b\[[0-?]*[ -/]*[@-~]"  # colours, cursor
    r"|\x1b[\]PX^_][^\x07\x1b]*(?:\x07|\x1b\\)?"  # titles, links and other strings
    r"|\x1b[ -/]*[0-~]"
    r"|\x9b[0-?]*[ -/]*[@-~]"
)


def shown(text: str) -> list[str]:
    """The lines of a chunk of text as a terminal would leave them, without colours. Remote text is
    data, never markup."""
    lines = text.split("\n")
    return [_line(line) for line in lines] if _unfit(text) else lines


def shortened(text: str, longest: int) -> tuple[list[str], int]:
    """The lines of `shown`, each cut after `longest` characters, and about how many bytes of memory
    they take."""
    lines = text.split("\n")
    if not _unfit(text) and not _has_longer(text, longest):
        return lines, sys.getsizeof(text)
    lines = [cut(_line(line), longest) for line in lines]
    return lines, sum(map(sys.getsizeof, lines))


def cut(text: str, longest: int) -> str:
    """The text; one of more than `longest` characters ends there, and says how many follow."""
    return (
        text
        if len(text) <= longest
        else f"{text[:longest]}… ({len(text) - longest} more characters)"
    )


def _has_longer(text: str, longest: int) -> bool:
    """Whether the text has a line of more than `longest` characters. Looks at few of its line
    ends."""
    start = 0
    while len(text) - start > longest:
        end = text.rfind("\n", start, start + longest + 1)
        if end < 0:
            return True
        start = end + 1
    return False


def one_line(text: str) -> str:
    """The same in one line."""
    return " ".join(filter(None, map(str.strip, shown(text))))


def fit(record: Record) -> Record:
    """The record with all text in it fit to be shown, but for ranks' lines, whose place it is to be
    shown as they are."""
    if type(record.event) in _OFTEN:
        return record
    said = {field.name: getattr(record.event, field.name) for field in fields(record.event)}  # type: ignore[arg-type]
    clean = {name: _fit(value) for name, value in said.items()}
    return record if clean == said else replace(record, event=replace(record.event, **clean))  # type: ignore[type-var]


def _fit(value: Any) -> Any:
    if isinstance(value, str):
        return "\n".join(shown(value))
    return tuple(map(_fit, value)) if isinstance(value, tuple) else value


def _unfit(text: str) -> bool:
    return (_ASCII if text.isascii() else _ANY).search(text) is not None


def _line(line: str) -> str:
    if not _unfit(line):
        return line
    line = _SEQUENCE.sub("", line)
    if "\r" in line:
        line = next((part for part in reversed(line.split("\r")) if part.strip()), "")
    return _ANY.sub("", line.expandtabs(8))
