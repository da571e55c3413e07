"""What a user's own program says it failed of: the file that `torch.distributed.elastic`'s `record`
writes, whose path torchrun gives it."""

from __future__ import annotations

import json
import os
import stat
from typing import Any

MOST = 1 << 18
"""Bytes of the largest file that is read."""


def read(path: str) -> str:
    """The traceback in the file of a rank, or its message; "" where there is none.

    The program may have put anything there.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            is_file = stat.S_ISREG(os.fstat(descriptor).st_mode)
            return _text(json.loads(os.read(descriptor, MOST))) if is_file else ""
        finally:
            os.close(descriptor)
    except (OSError, ValueError, RecursionError):
        return ""


def _text(data: Any) -> str:
    said = data.get("message") if isinstance(data, dict) else None
    if not isinstance(said, dict):
        return said.strip() if isinstance(said, str) else ""
    extra = said.get("extraInfo")
    stack = extra.get("py_callstack") if isinstance(extra, dict) else None
    text = stack if isinstance(stack, str) and stack.strip() else said.get("message")
    return text.strip() if isinstance(text, str) else ""
