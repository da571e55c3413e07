"""Errands: what a launcher has done on a host beside following a run, each by one short-lived
process.

An errand is `python -m training.agent VERB [ARGUMENT …]`. It writes the agent's marker, then its
answer, one JSON object per line, of which `WHOLE` is the last, and ends; its exit status is 0 also
where there is nothing to tell. An `{"error": TEXT}` says why it could not be done. The bytes of
files stand between the lines as they are.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Sequence

from training.agent import MARKER, WHOLE
from training.wire.jsonl import dumps
from training.writing import write_all

Answer = Iterator[object]
"""Objects; or bytes, of a file."""


def _of(module: str, name: str) -> Callable[[Sequence[str]], Answer]:
    """An errand by the name of its function. What its module imports is needed for nothing else
    here."""

    def errand(words: Sequence[str]) -> Answer:
        answer: Answer = getattr(__import__(f"training.agent.{module}", fromlist=[name]), name)(
            words
        )
        return answer

    return errand


ERRANDS: dict[str, Callable[[Sequence[str]], Answer]] = {
    "runs": _of("host_commands.run_folders", "runs"),
    "live": _of("host_commands.run_folders", "live"),
    "plan": _of("host_commands.run_folders", "plan"),
    "journal": _of("journal", "kept"),
    "orphans": _of("host_commands.orphans", "orphans"),
    "end": _of("host_commands.orphans", "end"),
    "remove": _of("host_commands.removal", "remove"),
    "receive": _of("host_commands.file_transfer", "receive"),
    "send": _of("host_commands.file_transfer", "send"),
    "environment": _of("host_commands.environment", "look"),
    "install": _of("host_commands.environment", "install"),
    "check": _of("host_commands.check", "check"),
}
"""Each verb's function: takes the arguments, gives its answer."""


def main(words: Sequence[str]) -> int:
    """Do an errand: 0, or 2 where there is none of this name."""
    verb, arguments = (words[0], words[1:]) if words else ("", ())
    if verb not in ERRANDS:
        os.write(2, f"no errand {verb!r}; known are follow, {', '.join(ERRANDS)}\n".encode())
        return 2
    write_all(sys.stdout.fileno(), MARKER)
    try:
        for answer in ERRANDS[verb](arguments):
            _say(answer)
        _say(WHOLE)
    except OSError as error:
        _say({"error": f"{error.filename or verb}: {error.strerror or error}"})
    return 0


def _say(answer: object) -> None:
    if not isinstance(answer, bytes):
        answer = dumps(answer).encode(errors="surrogatepass") + b"\n"
    write_all(sys.stdout.fileno(), answer)
