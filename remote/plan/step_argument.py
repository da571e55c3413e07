"""The number of steps that a script is told to make, by its own arguments. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

_KINDS = ("steps", "iters", "iterations")
_BEGINNINGS = (
    "",
    "max_",
    "num_",
    "n_",
    "total_",
    "train_",
    "training_",
    "max_train_",
    "num_train_",
)
_NAMES = frozenset(beginning + kind for beginning in _BEGINNINGS for kind in _KINDS)
"""Well-known names of options, with underscores."""


class StepArgument(NamedTuple):
    """How many steps a script is told to make."""

    option: str
    """As it was typed: "--max-steps"."""
    steps: int


def find_step_argument(words: Sequence[str]) -> StepArgument | None:
    """Return how many steps the arguments of a script ask for; None if they do not say, or say it
    twice. That of a script which resumes is left out: it makes fewer steps, and only it knows how
    many."""
    if any("resume" in word for word in words):
        return None
    found = []
    for word, next_word in zip(words, (*words[1:], ""), strict=True):
        option, equals, value = word.partition("=")
        if not option.startswith("-") or option.lstrip("-").replace("-", "_") not in _NAMES:
            continue
        value = value if equals else next_word
        if value.isascii() and value.isdigit() and int(value) > 0:
            found.append(StepArgument(option, int(value)))
    return found[0] if len(found) == 1 else None
