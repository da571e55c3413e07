"""Small files that a launcher keeps in a run's folder on its host, beside the agent's own."""

from __future__ import annotations

import re

from training.agent.layout import CHECKPOINTS, LOCK, RESERVE
from training.writing import write_whole

_PLAIN = re.compile(r"[A-Za-z0-9][\w.-]{0,99}", re.ASCII)
_OWN = re.compile(
    rf"{LOCK}|{RESERVE}|{CHECKPOINTS}|start-.*|agent\..*|.*\.(?:journal|part)", re.IGNORECASE
)


def write(name: str, text: str) -> str:
    """Write the file in the folder that this process works in, whole or not at all, for its owner
    only. Returns why it could not be, or ""."""
    if not _PLAIN.fullmatch(name) or _OWN.fullmatch(name):
        return f"{name[:100]!r} is not kept: give a plain file name that is none of the agent's own"
    try:
        write_whole(name, text.encode("utf-8", "backslashreplace"))
    except OSError as error:
        return f"{name} is not kept: {error.strerror}"
    return ""
