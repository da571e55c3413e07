"""`python -m training.agent serve`: becomes the fork server of this host, see
`training.fork_server`."""

from __future__ import annotations

import os
import sys
from typing import NoReturn

from training import agent
from training.agent.ranks.launch import CODE
from training.wire.jsonl import load
from training.writing import write_all

_SERVER = (
    f"import sys; sys.path[:] = [{CODE!r}] + [path for path in sys.path if path]; "
    "from training.fork_server import serve; sys.exit(serve(code_changed={changed}))"
)


def become_server() -> NoReturn:
    """Read the variables of the host's ranks from stdin, and execute the fork server with them:
    some count only when a process starts."""
    write_all(sys.stdout.fileno(), agent.MARKER)
    env = {**os.environ, "PYTHONUNBUFFERED": "1", **(load(read_line()) or {})}
    program = _SERVER.format(changed=agent.code_changed)
    os.execve(sys.executable, [sys.executable, "-c", program], env)


def read_line() -> bytes:
    """The next line of stdin; b"" at its end. Reads no byte more: what follows is for the program
    or the follower that comes next."""
    line = b""
    while not line.endswith(b"\n"):
        byte = os.read(0, 1)
        if not byte:
            return b""
        line += byte
    return line
