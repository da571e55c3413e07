"""In what two recorded runs differ, as text."""

from __future__ import annotations

from collections.abc import Iterable

from remote.record.alike import Difference

LONGEST_VALUE = 24
"""Characters of a value that are shown."""


def format_differences(differences: Iterable[Difference]) -> str:
    """Return the settings with both values: "lr 0.1 | 0.5, ranks 2 | 4"."""
    return ", ".join(
        f"{setting} {format_value(value)} | {format_value(other_value)}"
        for setting, value, other_value in differences
    )


def format_value(value: object) -> str:
    """Return a value of a setting as a person would write it."""
    match value:
        case bool():
            text = "on" if value else "off"
        case list() | tuple():
            text = " ".join(map(str, value))
        case _:
            text = str(value)
    text = text or "none"
    return text if len(text) <= LONGEST_VALUE else f"{text[: LONGEST_VALUE - 1]}…"
