"""What the dashboard remembers from one time to the next, such as the theme.

JSON objects in the user's folder of states. If one cannot be read or written, nothing is
remembered, and nothing fails.
"""

from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path
from typing import Any

import platformdirs

from training.writing import make_private_folders, write_whole

MOST_VALUES = 64
"""Values that are remembered in a file; beyond, those that were set first are forgotten."""
LARGEST_FILE = 1 << 20
"""Bytes of a file, at most."""


def state_file(topic: str = "dashboard") -> Path:
    """Return the file of what is remembered of a topic."""
    return platformdirs.user_state_path("rankboard") / f"{topic}.json"


def recall(name: str, file: Path | None = None) -> Any:
    """Return the value of that name, in that file; None if there is none."""
    return _read_values(file or state_file()).get(name)


def remember(name: str, value: Any, file: Path | None = None) -> None:
    """Write a value, which JSON can hold, under that name to that file."""
    file = file or state_file()
    values = _read_values(file)
    values.pop(name, None)  # it becomes the newest one
    values[name] = value
    newest_values = dict(list(values.items())[-MOST_VALUES:])
    with suppress(OSError):
        make_private_folders(file.parent)
        # Whole, as another dashboard may read or write the file meanwhile.
        write_whole(file, json.dumps(newest_values, indent=1).encode())


def _read_values(file: Path) -> dict[str, Any]:
    try:
        with file.open("rb") as stream:
            # Cut off there, so that a file of any size takes no more memory; it is no JSON then.
            values = json.loads(stream.read(LARGEST_FILE))
    except (OSError, ValueError):
        return {}
    return values if isinstance(values, dict) else {}
