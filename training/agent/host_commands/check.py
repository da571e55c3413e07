"""The host command `check`: the facts of a host, whether a port is free there, and which other
hosts it can reach.

It answers with events, as JSON objects with their time: first `hello`, then one for each command
on stdin. It starts nothing and keeps nothing. It imports little, since dataclasses take long to
import: events and commands are plain objects here.
"""

from __future__ import annotations

import os
import select
import socket
import time
from collections.abc import Iterator

from training.agent.host import facts, system
from training.agent.host.dial import dial_all
from training.wire.jsonl import load
from training.wire.line_cutter import read_line

TYPE_CHECKING = False  # typing itself takes long to import
if TYPE_CHECKING:
    from typing import Any

PATIENCE = 600.0
"""Seconds without a command after which the command ends: its launcher is gone."""


def check(folder: str, route_to: str, needs: str) -> Iterator[dict[str, Any]]:
    """Yield the facts, then the answer to each command until `close` or the end of stdin.

    `folder` is the run's folder on this host; `route_to` the address whose route `hello` shows,
    perhaps empty; `needs` is what the job needs as JSON, perhaps empty (see
    `training.agent.host.needs`).
    """
    problem = obstacle(folder)
    if problem:
        error = f"cannot use its workdir: {problem}"
        yield {"error": error, "cause": "workdir", "advice": "fix that"}
        return
    yield _event("hello", **facts.hello(folder, route_to, needs))
    # The port stays reserved until the command ends, so that other hosts can connect to it.
    reserved: list[socket.socket] = []
    while select.select([0], [], [], PATIENCE)[0]:
        line = read_line(0)
        command = load(line) or {}
        verb = command.get("command")
        if not line or verb == "close":
            return
        if verb == "reserve":
            yield _reserve(command["address"], command["port"], reserved)
        elif verb == "connect":
            for address, port, seconds, error in dial_all(command["targets"], command["seconds"]):
                yield _event("connected", address=address, port=port, seconds=seconds, error=error)


def obstacle(folder: str) -> str:
    """Say why a run cannot use or make this folder; "" if it can."""
    nearest = system.nearest_existing(folder)
    if not os.access(nearest, os.W_OK | os.X_OK):
        return f"{nearest} is not writable"
    next_path = os.path.join(nearest, os.path.relpath(folder, nearest).split(os.sep)[0])
    if os.path.lexists(next_path) and not os.path.isdir(next_path):
        return f"{next_path} is not a folder"
    return ""


def _event(name: str, **fields: object) -> dict[str, Any]:
    return {"time": time.time(), "event": name, **fields}


def _reserve(address: str, port: int, reserved: list[socket.socket]) -> dict[str, Any]:
    from training.agent.ranks import ports  # not needed for the facts alone

    try:
        listener = ports.reserve_port(address, port)
    except ports.PortError as problem:
        return _event("reserved", address=address, port=0, error=str(problem))
    reserved.append(listener)
    return _event("reserved", address=address, port=listener.getsockname()[1], error="")
