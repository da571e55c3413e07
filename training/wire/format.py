"""The format number of a recorded run: of its plan, its records and its commands."""

from __future__ import annotations

TYPE_CHECKING = False  # as typing itself takes long to import
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

FORMAT = 2
"""Increase it if an older or newer version would take something in a run for something else: a key,
a word or a command that changes its meaning. It stays for what another version just leaves out: a
new event, a new key with a default, a new member of an enum, such as a phase."""
READABLE = (1, FORMAT)
"""The formats that this version reads. In format 1, each step was text of its own."""
READABLE_TEXT = " or ".join(map(str, READABLE))


def format_of(data: Mapping[str, Any]) -> int:
    """Return the format number of a plan or of the first record of a writer; 0 if it has none."""
    number = data.get("format")
    return number if type(number) is int and 0 < number < 2**31 else 0
