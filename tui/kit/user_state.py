"""What the dashboard remembers from one time to the next, such as the theme.

JSON objects in the user's folder of states. Where one cannot be read or written, nothing is
remembered, and nothing fails.
"""

from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path
from typing import Any

import platformdirs

from training.writing import make_private_folders, write_whole

MOST = 64
"""Values that are remembered in a file; beyond, those that were kept first are forgotten."""
LARGEST = 1 << 20
"""Bytes of a file, at most."""


def path(of: str = "dashboard") -> Path:
    """The file of what is remembered of something."""
    return platformdirs.user_state_path("rankboard") / f"{of}.json"


def recall(name: str, file: Path | None = None) -> Any:
    """The value of that name, in that file; None where there is none."""
    return _all(file or path()).get(name)


def remember(name: str, value: Any, file: Path | None = None) -> None:
    """Keep a value, which JSON can write, under that name in that file."""
    file = file or path()
    known = _all(file)
    known.pop(name, None)
    known[name] = value
    kept = dict(list(known.items())[-MOST:])
    with suppress(OSError):
        make_private_folders(file.parent)
        write_whole(file, json.dumps(kept, indent=1).encode())


def _all(file: Path) -> dict[str, Any]:
    try:
        with file.open("rb") as opened:
            found = json.loads(opened.read(LARGEST))
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}
