"""The colours of ranks, and the signs for states. Okabe-Ito: eight colours that colour-blind people tell apart.

A state is always a sign and a word; a colour only repeats what they say.
"""

from __future__ import annotations

import sys
from functools import cache

DARK = ("#56B4E9", "#E69F00", "#009E73", "#CC79A7", "#F0E442", "#D55E00", "#3C8FD9", "#BBBBBB")
"""On a dark ground: of Okabe-Ito's eight, the blue made lighter and the black a grey."""
LIGHT = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#B87F00", "#000000", "#777777")
"""On a light ground: the yellow left out, the orange made darker, a grey added."""

SIGNS = {
    "wait": ("○", "."),
    "work": ("◐", "~"),
    "live": ("●", "*"),
    "good": ("✓", "+"),
    "bad": ("✗", "x"),
    "warn": ("!", "!"),
    "ended": ("■", "="),
    "curve": ("●", "*"),
    "mark": ("┊", "!"),
    "row": ("│", "|"),
    "tick": ("┤", "|"),
    "full": ("━", "#"),
    "rest": ("─", "-"),
}
"""Each sign, and what stands for it where the terminal does not speak UTF-8."""


def colour(number: int, dark: bool) -> str:
    """The colour of the rank of that number; the ninth rank's is the first's again."""
    colours = DARK if dark else LIGHT
    return colours[number % len(colours)]


@cache
def utf8() -> bool:
    """Whether the terminal's locale is UTF-8."""
    return "utf" in (getattr(sys.__stdout__, "encoding", None) or "utf-8").lower()


def sign(name: str) -> str:
    """The sign of that name, one cell wide."""
    return SIGNS[name][0 if utf8() else 1]
