"""Host commands: what a launcher has done on a host beside following a run, each by one short-lived
process.

A host command is `python -m training.agent VERB [ARGUMENT …]`. It writes the agent's marker, then
its answer, one JSON object per line, of which `WHOLE` is the last, and ends; its exit status is 0
even if its answer is empty. An `{"error": TEXT}` says why it could not be done. The bytes of files
stand between the lines as they are.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Sequence

from training.agent import MARKER, WHOLE
from training.agent.layout import expand_path
from training.wire.jsonl import dumps
from training.writing import write_all

Answer = Iterator[object]
"""Objects; or bytes, of a file."""

HOST_COMMANDS = {
    "runs": "host_commands.run_folders.runs",
    "live": "host_commands.run_folders.live",
    "plan": "host_commands.run_folders.plan",
    "journal": "journal.send_journal",
    "orphans": "host_commands.orphans.list_orphans",
    "end": "host_commands.orphans.end",
    "remove": "host_commands.removal.remove",
    "receive": "host_commands.file_transfer.receive",
    "send": "host_commands.file_transfer.send",
    "environment": "host_commands.environment.look",
    "install": "host_commands.environment.install",
    "check": "host_commands.check.check",
}
"""The function of each verb, below `training.agent`: from the arguments to the answer. The first
argument is a folder."""


def main(command_words: Sequence[str]) -> int:
    """Do a host command. Return 0, or 2 if there is none of this name."""
    verb = command_words[0] if command_words else ""
    if verb not in HOST_COMMANDS:
        known_verbs = ", ".join(HOST_COMMANDS)
        os.write(2, f"no host command {verb!r}; known are follow, {known_verbs}\n".encode())
        return 2
    write_all(sys.stdout.fileno(), MARKER)
    try:
        folder, *other_arguments = command_words[1:]
        for answer in _import_function(HOST_COMMANDS[verb])(expand_path(folder), *other_arguments):
            _write_answer(answer)
        _write_answer(WHOLE)
    except OSError as error:
        _write_answer({"error": f"{error.filename or verb}: {error.strerror or error}"})
    return 0


def _import_function(path: str) -> Callable[..., Answer]:
    # Only the module of this command: what the others import takes long to load.
    module_name, _, function_name = path.rpartition(".")
    module = __import__(f"training.agent.{module_name}", fromlist=[function_name])
    function: Callable[..., Answer] = getattr(module, function_name)
    return function


def _write_answer(answer: object) -> None:
    if not isinstance(answer, bytes):
        answer = dumps(answer).encode(errors="surrogatepass") + b"\n"
    write_all(sys.stdout.fileno(), answer)
