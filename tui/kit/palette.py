"""The signs for states and in charts. A state is always a sign and a word; an ink of `tui.kit.inks`
only repeats what they say."""

from __future__ import annotations

import codecs
import io
import locale
import math
import os
import sys
from collections.abc import Mapping
from functools import cache
from typing import TextIO

RUN_LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
"""Names of compared runs in tables and charts."""

SIGNS = {
    "wait": ("○", "."),
    "work": ("◐", "~"),
    "live": ("●", "*"),
    "good": ("✓", "+"),
    "bad": ("✗", "x"),
    "warn": ("!", "!"),
    "slow": ("▲", "^"),
    "alike": ("≈", "~"),
    "ended": ("■", "="),
    "curve": ("●", "*"),
    "raw": ("·", "."),
    "mark": ("┊", "!"),
    "test": ("◆", "o"),
    "ghost": ("╌", "-"),
    "peak": ("↑", "^"),
    "dip": ("↓", "v"),
    "band": ("░", "~"),
    "upper": ("▀", "~"),
    "lower": ("▄", "~"),
    "row": ("│", "|"),
    "tick": ("┤", "|"),
    "corner": ("└", "+"),
    "more": ("›", ">"),
    "open": ("▾", "v"),
    "closed": ("▸", ">"),
    "less": ("‹", "<"),
    "falling": ("▾", "v"),
    "rising": ("▴", "^"),
    "data": ("▂", "."),
    "compute": ("▄", ":"),
    "sync": ("▆", "#"),
    "full": ("━", "#"),
    "rest": ("─", "-"),
    "focus": ("━", "="),
    "playing": ("▶", ">"),
    "paused": ("‖", "="),
    "command": ("▶", ">"),
}
"""Each sign, and what stands for it where the terminal does not speak UTF-8."""

SUPERSCRIPTS = "⁰¹²³⁴⁵⁶⁷⁸⁹"
HEAT = ("░▒▓█", ".:+#")
"""Four shades of a cell, from the lightest to the darkest."""
LEVELS = ("▁▂▃▄▅▆▇█", "_.:-=+*#")
"""Eight heights of a cell, from the lowest to the highest."""


SET_BY_PYTHON = ("C.UTF-8", "C.utf8", "UTF-8")
"""What Python sets LC_CTYPE to in the locale C."""
ASCII_ONLY = "RANKBOARD_ASCII"
"""The environment variable that asks for ASCII, if it is set to anything."""


def use_ascii() -> None:
    """Write ASCII to terminals from now on, whatever the locale is."""
    os.environ[ASCII_ONLY] = "1"
    has_utf8.cache_clear()
    make_streams_fit(sys.stdout, sys.stderr)


@cache
def has_utf8() -> bool:
    """Return True if the terminal's locale is UTF-8, and nobody asked for ASCII."""
    # Not `sys.stdout`, in whose place Textual puts an object of its own while it draws.
    encoding = getattr(sys.__stdout__, "encoding", None) or "utf-8"
    return not os.environ.get(ASCII_ONLY) and speaks_utf8(os.environ, encoding)


def speaks_utf8(environ: Mapping[str, str], encoding: str) -> bool:
    """Return True if a locale is UTF-8.

    Python writes UTF-8 in the locale C, too, and sets LC_CTYPE itself then (PEP 538, 540): so the
    variables count, but for such a value. If none is set, Python's choice counts.
    """
    character_type = environ.get("LC_CTYPE", "")
    if character_type in SET_BY_PYTHON:
        character_type = ""
    locale_name = environ.get("LC_ALL") or character_type or environ.get("LANG") or ""
    if not locale_name or "utf" in locale_name.lower():
        return "utf" in encoding.lower()
    # A name such as de_DE does not say its encoding, so the system is asked.
    return locale_name not in ("C", "POSIX") and "utf" in locale.nl_langinfo(locale.CODESET).lower()


def sign(name: str) -> str:
    """The sign of that name, one cell wide."""
    return SIGNS[name][0 if has_utf8() else 1]


def panel_number(number: int) -> str:
    """The key of a panel before its title, "³", as "3 hosts" would be three hosts; "" for one that
    has none, as there are nine such keys."""
    if not 0 < number < len(SUPERSCRIPTS):
        return ""
    return SUPERSCRIPTS[number] if has_utf8() else f"[{number}] "


def level_sign(share: float) -> str:
    """A cell as high as a share of 1; the highest for all that is more, the lowest for what is
    less, and none for NaN."""
    if math.isnan(share):
        return " "
    # A share of 1 would be a level above the last.
    return level_signs()[int(max(0.0, min(share, 0.999)) * len(LEVELS[0]))]


def level_signs() -> str:
    """The eight heights of a cell, from the lowest to the highest."""
    return LEVELS[0 if has_utf8() else 1]


def heat_sign(level: int) -> str:
    """A shaded cell; level 0 is the lightest of four."""
    return HEAT[0 if has_utf8() else 1][level]


# On the way to the terminal

ASCII = "rankboard-ascii"
"""The name of the error handler that writes other characters in ASCII."""
_RANGES = (
    ("─━┄┅┈┉╌╍═╴╶╸╺╼╾–—−▔", "-"),
    ("│┃┆┇┊┋╎╏║╵╷╹╻╽╿▉▊▋▌▍▎▏▐▕", "|"),
    ("▁▂▃▄▅▆▇", "_"),
    ("▀█░▒▓", "#"),
    ("←◀◂", "<"),
    ("→▶▸", ">"),
    ("↑▲▴", "^"),
    ("↓▼▾", "v"),
    ("‘’", "'"),
    ("“”", '"'),
    ("•·", "*"),
    ("🔎", "> "),
    ("…", "~"),
    ("\u00a0", " "),
)
_STAND_INS = {other: plain for others, plain in _RANGES for other in others} | {
    SIGNS[name][0]: SIGNS[name][1] for name in SIGNS
}
_STAND_INS["━"] = "="  # a rule, such as that above the focused panel; bars are drawn with signs
"""What stands for a character, in as many cells: lines, borders, blocks and arrows of Textual and
Rich, and our own signs."""


def make_streams_fit(*streams: TextIO | None) -> None:
    """Have these streams write whatever text there is: to a terminal without UTF-8 in ASCII,
    whoever draws it."""
    for stream in streams:
        if isinstance(stream, io.TextIOWrapper):
            if stream.isatty() and not has_utf8():
                stream.reconfigure(encoding="ascii", errors=ASCII)
            else:
                # A text of a host that the encoding lacks must not end the launcher.
                stream.reconfigure(errors="backslashreplace")


def _in_ascii(error: UnicodeError) -> tuple[str | bytes, int]:
    """What is written in place of characters that ASCII does not have."""
    assert isinstance(error, UnicodeEncodeError)
    return "".join(map(_stand_in, error.object[error.start : error.end])), error.end


codecs.register_error(ASCII, _in_ascii)


def to_terminal(text: str) -> str:
    """The text as a terminal gets it: in ASCII without UTF-8."""
    return text if has_utf8() else text.encode("ascii", ASCII).decode()


@cache
def _stand_in(character: str) -> str:
    """The text in ASCII that stands for a character, and takes as many cells."""
    if character in _STAND_INS:
        return _STAND_INS[character]
    # The rest of the box characters: corners and crossings.
    if "\u2500" <= character <= "\u257f":
        return "+"
    # Braille, which charts are drawn with.
    if "\u2800" <= character <= "\u28ff":
        return "."
    from rich.cells import cell_len  # only needed here, and pipes are to do without rich

    # As wide as before, so that columns stay in line.
    return "?" * cell_len(character)
