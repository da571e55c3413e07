"""What the dashboard remembers from one time to the next, such as the theme.

A JSON object in the user's folder of states. Where it cannot be read or written, nothing is
remembered, and nothing fails.
"""

from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path
from typing import Any

import platformdirs

from training.writing import write_whole

NAME = "dashboard.json"


def path() -> Path:
    """The file of what is remembered."""
    return platformdirs.user_state_path("rankboard") / NAME


def recall(name: str) -> Any:
    """The value of that name; None where there is none."""
    return _all().get(name)


def remember(name: str, value: Any) -> None:
    """Keep a value, which JSON can write, under that name."""
    with suppress(OSError):
        path().parent.mkdir(parents=True, exist_ok=True)
        write_whole(path(), json.dumps(_all() | {name: value}, indent=1).encode())


def _all() -> dict[str, Any]:
    try:
        found = json.loads(path().read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}
