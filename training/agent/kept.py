"""Small files that a launcher keeps in a run's folder on its host, beside the agent's own."""

from __future__ import annotations

import contextlib
import os
import re

from training.agent.layout import CHECKPOINTS, LOCK, RESERVE

_PLAIN = re.compile(r"[A-Za-z0-9][\w.-]{0,99}", re.ASCII)
_OWN = re.compile(
    rf"{LOCK}|{RESERVE}|{CHECKPOINTS}|start-.*|agent\..*|.*\.(?:journal|part)", re.IGNORECASE
)


def write(name: str, text: str) -> str:
    """Write the file in the folder that this process works in, whole or not at all, for its owner
    only. Returns why it could not be, or ""."""
    if not _PLAIN.fullmatch(name) or _OWN.fullmatch(name):
        return f"{name[:100]!r} is not kept: give a plain file name that is none of the agent's own"
    beside = f".{name}.part"
    try:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(beside)
        with open(
            os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600), "wb"
        ) as file:
            file.write(text.encode("utf-8", "backslashreplace"))
        os.replace(beside, name)
    except OSError as error:
        with contextlib.suppress(OSError):
            os.unlink(beside)
        return f"{name} is not kept: {error.strerror}"
    return ""
