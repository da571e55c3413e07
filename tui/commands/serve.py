"""`rankboard serve`: a run in a browser on this machine, read-only."""

from __future__ import annotations

import asyncio
import os
import socket
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter
from cyclopts.validators import Number

from tui.flags.common import RUNS, WHOLE_NUMBER, Ascii, RunName, RunsDir
from tui.flags.recorded import recorded_here
from tui.kit.exit import UsageError, refusing, to_install
from tui.kit.narrate import echo, narrate

OPTIONAL = ("aiohttp", "textual_serve")
"""Packages that the extra `serve` installs."""


def serve(
    run: RunName,
    /,
    *,
    port: Annotated[
        int,
        WHOLE_NUMBER,
        Parameter(
            metavar="N", validator=Number(gte=0, lte=65535), help="the port (default: a free one)"
        ),
    ] = 0,
    ascii_only: Ascii = False,
    runs_dir: RunsDir = RUNS,
) -> None:
    """Watch a run in a browser on this machine: read-only, as rankboard watch shows it.

    Prints the address, which holds a secret: whoever has the whole address can watch. It works on
    this machine only; from another one, forward the port: ssh -L PORT:127.0.0.1:PORT HOST.
    Needs the package textual-serve. Ctrl+C ends it, and closes all pages.

    Examples:
      rankboard serve last
      rankboard serve 20261120-0930 --port 8000

    Exit codes:
      0  you stopped the server
      2  the command line is wrong, a package is missing, or the port is in use
    """
    with refusing():
        folder, _ = recorded_here(run, runs_dir)
        _serve(folder, port)


def _serve(folder: Path, port: int) -> None:
    """Serve until a signal. Raises: UsageError."""
    try:
        from tui.serve.guard import Guard
        from tui.serve.server import ADDRESS, Server
    except ModuleNotFoundError as error:
        # Any other missing module is a fault of ours, which a traceback shows.
        if (error.name or "").partition(".")[0] not in OPTIONAL:
            raise
        raise UsageError(
            f"serve needs the package textual-serve, which is not installed:\n{to_install('serve')}"
        ) from None
    # Bound here, so that a port that is taken is said before the server begins.
    with socket.socket() as listening_socket:
        # A server that has just ended leaves its port in TIME_WAIT for a minute.
        listening_socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listening_socket.bind((ADDRESS, port))
        except OSError as error:
            raise UsageError(
                f"--port {port}: {os.strerror(error.errno or 0)}; give another one, or none"
            ) from None
        guard = Guard()
        page_address = f"http://{ADDRESS}:{listening_socket.getsockname()[1]}/{guard.token}/"
        narrate(f"serving {folder.name} on this machine, read-only, until Ctrl+C:")
        asyncio.run(Server(folder, guard).serve(listening_socket, lambda: echo(page_address)))
