"""Errands: what a launcher has done on a host beside following a run, each by one short-lived process.

An errand is `python -m training.agent VERB [ARGUMENT …]`. It writes the agent's marker, then its answer, one JSON object per
line, and ends; its exit status is 0 also where there is nothing to tell. An `{"error": TEXT}` says why it could not be done.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from training.agent import MARKER, inventory
from training.codec import dumps

Answer = Iterator[dict[str, Any]]
ERRANDS: dict[str, Callable[[Sequence[str]], Answer]] = {
    "runs": inventory.runs,
    "plan": inventory.plan,
}
"""Each verb's function: takes the arguments, gives the objects of its answer."""


def main(words: Sequence[str]) -> int:
    """Do an errand: 0, or 2 where there is none of this name."""
    verb, arguments = (words[0], words[1:]) if words else ("", ())
    if verb not in ERRANDS:
        os.write(2, f"no errand {verb!r}; known are follow, {', '.join(ERRANDS)}\n".encode())
        return 2
    _write(MARKER)
    try:
        for answer in ERRANDS[verb](arguments):
            _write(dumps(answer).encode() + b"\n")
    except OSError as error:
        _write(dumps({"error": f"{error.filename or verb}: {error.strerror or error}"}).encode() + b"\n")
    return 0


def _write(data: bytes) -> None:
    while data:
        data = data[os.write(sys.stdout.fileno(), data) :]
