"""Text from a host, made fit to be shown: no control sequences, no tabs, no turning of the
direction of what stands beside it, one last state of each progress bar. What takes no room on the
screen is shown as an escape: two texts that look alike are alike."""

from __future__ import annotations

import re
import unicodedata
from dataclasses import fields, replace
from typing import Any

from training.wire.events import Record
from training.wire.host_events import GpuSample, HostSample, OutputText, RankSample
from training.wire.rank_events import ScriptMetrics, StepFinished
from training.wire.step_block import StepBlock

_OFTEN = frozenset(
    (OutputText, StepBlock, StepFinished, ScriptMetrics, HostSample, RankSample, GpuSample),
)
"""Events that come by the thousand: ranks' lines and names of metrics, which are made fit where
they are put to use, and plain numbers."""
_BIDI = "\u061c\u200e\u200f\u2028\u2029\u202a-\u202e\u2066-\u2069"
_ASCII = re.compile(r"[\x00-\x09\x0b-\x1f\x7f]")
_SURROGATES = "\ud800-\udfff"
"""Halves of characters, which JSON may bring and no encoding knows."""
_REMOVED = re.compile(rf"[\x00-\x09\x0b-\x1f\x7f-\x9f{_BIDI}{_SURROGATES}]")
_INVISIBLE = (
    "\u00ad\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200d\u2060-\u2065\u206a-\u206f"
    "\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufff8"
    "\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff"
)
"""What Unicode calls ignorable: a terminal draws nothing for it."""
_ANY = re.compile(rf"{_REMOVED.pattern}|[{_INVISIBLE}]")
_EMOJI = "\u00a9\u00ae\u203c-\u3299\U0001f000-\U0001faff"
_JOINING = "\u0600-\u08ff\u0900-\u0dff\u0f00-\u109f\u1780-\u18af"
"""Scripts, such as Arabic and Devanagari, whose letters a joiner changes."""
_UNSEEN = re.compile(
    rf"(?P<kept>(?<=[{_EMOJI}\ufe0f])\u200d(?=[{_EMOJI}])"  # a family is people that are joined
    rf"|(?<=[{_EMOJI}])[\ufe0e\ufe0f]"  # the black or the coloured heart
    r"|(?<=[#*0-9])\ufe0f(?=\u20e3)"  # a digit on a key
    rf"|(?<=[{_JOINING}])[\u200c\u200d](?=[{_JOINING}]))"
    rf"|[{_INVISIBLE}]"
)
"""Invisible characters. `kept`: one that changes how its neighbours look."""
UNSEEN = re.compile(rf"[\x7f-\x9f{_BIDI}{_SURROGATES}]")
"""What JSON leaves as it is though a terminal acts on it."""
_SEQUENCE = re.compile(
    r"\x1b\[[0-?]*[ -/]*[@-~]"  # colours, cursor
    r"|\x1b[\]PX^_][^\x07\x1b]*(?:\x07|\x1b\\)?"  # titles, links and other strings
    r"|\x1b[ -/]*[0-~]"
    r"|\x9b[0-?]*[ -/]*[@-~]"
)

LONGEST_DRAWN = 4_000
"""Characters of a text that a screen draws."""


def shown(text: str) -> list[str]:
    """Return the lines of a text as a terminal would leave them, without colours. Remote text is
    data, never markup."""
    lines = text.split("\n")
    return [_line(line) for line in lines] if _unfit(text) else lines


def shortened(text: str, longest: int) -> list[str]:
    """Return the lines of `shown`, each cut after `longest` characters."""
    lines = text.split("\n")
    if not _unfit(text) and not _has_longer(text, longest):
        return lines
    return [cut(_line(line), longest) for line in lines]


def cut(text: str, longest: int) -> str:
    """Cut a text after `longest` characters, and say how many follow."""
    if len(text) <= longest:
        return text
    return f"{text[:longest]}… ({len(text) - longest} more characters)"


def _has_longer(text: str, longest: int) -> bool:
    """Return True if the text has a line of more than `longest` characters. This looks at few of
    its line ends."""
    start = 0
    while len(text) - start > longest:
        end = text.rfind("\n", start, start + longest + 1)
        if end < 0:
            return True
        start = end + 1
    return False


def one_line(text: str) -> str:
    """Return the lines of `shown` as one, without blanks around each."""
    lines = [line.strip() for line in shown(text)]
    return " ".join(line for line in lines if line)


def plain(text: str) -> str:
    """Return a text in one line, without what a terminal acts on, and not longer than a screen
    draws. Characters that cannot be seen are escapes."""
    is_long = len(text) > LONGEST_DRAWN
    drawn = f"{text[:LONGEST_DRAWN]}…" if is_long else text
    return _REMOVED.sub("", reveal(drawn)).replace("\n", "")


def reveal(text: str) -> str:
    """Write characters that cannot be seen as escapes, such as `\\u200b`. Those that shape an
    emoji or a letter beside them stay."""
    return text if text.isascii() else _UNSEEN.sub(_escaped, text)


def _escaped(match: re.Match[str]) -> str:
    if match["kept"]:
        return match[0]
    code = ord(match[0])
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def unseen_character(text: str) -> str:
    """Name the first character of a text that cannot be seen, as `U+200B (ZERO WIDTH SPACE)`;
    return "" if there is none."""
    if text.isascii() and text.isprintable():
        return ""
    for place, character in enumerate(text):
        match = _UNSEEN.match(text, place)
        is_seen = bool(match["kept"]) if match else character.isprintable()
        if not is_seen:
            name = unicodedata.name(character, "")
            code = f"U+{ord(character):04X}"
            return f"{code} ({name})" if name else code
    return ""


def fit(record: Record) -> Record:
    """Return the record with all text in it fit to be shown, but for ranks' lines: the log makes
    them fit when it shows them."""
    if type(record.event) in _OFTEN:
        return record
    event: Any = record.event
    values = {field.name: getattr(event, field.name) for field in fields(event)}
    fit_values = {name: _fit(value) for name, value in values.items()}
    if fit_values == values:
        return record
    return replace(record, event=replace(event, **fit_values))


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
        states = [state for state in line.split("\r") if state.strip()]
        line = states[-1] if states else ""  # of a progress bar, the last one is seen
    return _REMOVED.sub("", reveal(line.expandtabs(8)))
