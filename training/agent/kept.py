"""Small files that a launcher writes to the run's folder on a host, next to the agent's own."""

from __future__ import annotations

import re

from training.agent.layout import CHECKPOINTS, LOCK, RESERVE
from training.writing import write_whole

_PLAIN = re.compile(r"[A-Za-z0-9][\w.-]{0,99}", re.ASCII)
_OWN = re.compile(
    rf"{LOCK}|{RESERVE}|{CHECKPOINTS}|start-.*|agent\..*|.*\.(?:journal|part)", re.IGNORECASE
)


def write(name: str, text: str) -> str:
    """Write the file to the working directory, whole or not at all, readable by its owner only.
    Return "", or why that failed."""
    if not _PLAIN.fullmatch(name) or _OWN.fullmatch(name):
        return f"{name[:100]!r} is not kept: give a plain file name that is none of the agent's own"
    try:
        write_whole(name, text.encode("utf-8", "backslashreplace"))
    except OSError as error:
        return f"{name} is not kept: {error.strerror}"
    return ""
