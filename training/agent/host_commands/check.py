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
    problem = find_obstacle(folder)
    if problem:
        error_text = f"cannot use its workdir: {problem}"
        yield {"error": error_text, "cause": "workdir", "advice": "fix that"}
        return
    yield _make_event("hello", **facts.hello(folder, route_to, needs))
    # The port stays reserved until the command ends, so that other hosts can connect to it.
    reserved_ports: list[socket.socket] = []
    while select.select([0], [], [], PATIENCE)[0]:
        command_line = read_line(0)
        command = load(command_line) or {}
        verb = command.get("command")
        if not command_line or verb == "close":
            return
        if verb == "reserve":
            yield _reserve_port(command["address"], command["port"], reserved_ports)
        elif verb == "connect":
            for address, port, seconds, error_text in dial_all(
                command["targets"], command["seconds"]
            ):
                yield _make_event(
                    "connected", address=address, port=port, seconds=seconds, error=error_text
                )


def find_obstacle(folder: str) -> str:
    """Say why a run cannot use or make this folder; "" if it can."""
    nearest = system.nearest_existing(folder)
    if not os.access(nearest, os.W_OK | os.X_OK):
        return f"{nearest} is not writable"
    next_path = os.path.join(nearest, os.path.relpath(folder, nearest).split(os.sep)[0])
    if os.path.lexists(next_path) and not os.path.isdir(next_path):
        return f"{next_path} is not a folder"
    return ""


def _make_event(name: str, **fields: object) -> dict[str, Any]:
    return {"time": time.time(), "event": name, **fields}


def _reserve_port(address: str, port: int, reserved_ports: list[socket.socket]) -> dict[str, Any]:
    from training.agent.host import ports  # not needed for the facts alone

    try:
        listener = ports.reserve_port(address, port)
    except ports.PortError as problem:
        return _make_event("reserved", address=address, port=0, error=str(problem))
    reserved_ports.append(listener)
    return _make_event("reserved", address=address, port=listener.getsockname()[1], error="")
