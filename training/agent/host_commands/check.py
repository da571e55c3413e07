"""The host command `check`: the facts of a host, whether a port is free there, and which other
hosts it can reach.

It answers with events, as JSON objects with their time: first `hello`, then one for each command
on stdin. It starts nothing and keeps nothing. It imports little, since dataclasses take long to
import: events and commands are plain objects here.
"""

from __future__ import annotations

import os
import selectors
import socket
import time
from collections.abc import Iterator, Sequence

from training.agent.host import facts, system
from training.agent.host.dial import Dialler
from training.wire.jsonl import load
from training.wire.line_cutter import LineCutter

TYPE_CHECKING = False  # typing itself takes long to import
if TYPE_CHECKING:
    from typing import Any

PATIENCE = 600.0
"""Seconds without a command after which the command ends: its launcher is gone."""
CHUNK = 1 << 16


def check(words: Sequence[str]) -> Iterator[dict[str, Any]]:
    """Yield the facts, then the answer to each command until `close` or the end of stdin.

    Words: the run's folder on this host; the address whose route `hello` shows, perhaps empty; and
    what the job needs as JSON, perhaps empty (see `training.agent.host.needs`).
    """
    folder = os.path.abspath(os.path.expanduser(words[0]))
    route_to = words[1]
    needs = words[2]
    problem = obstacle(folder)
    if problem:
        advice = "fix that"
        error = f"cannot use its workdir: {problem}"
        yield {"error": error, "cause": "workdir", "advice": advice}
        return
    yield _event("hello", facts.hello(folder, route_to, needs))
    yield from HostCheck().answers()


def obstacle(folder: str) -> str:
    """Say why a run cannot use or make this folder; "" if it can."""
    nearest = system.nearest_existing(folder)
    if not os.access(nearest, os.W_OK | os.X_OK):
        return f"{nearest} is not writable"
    next_path = os.path.join(nearest, os.path.relpath(folder, nearest).split(os.sep)[0])
    if os.path.lexists(next_path) and not os.path.isdir(next_path):
        return f"{next_path} is not a folder"
    return ""


def _event(name: str, fields: dict[str, Any]) -> dict[str, Any]:
    return {"time": time.time(), "event": name} | fields


class HostCheck:
    """Obeys `Reserve`, `Connect` and `Close`. The port stays reserved until the command ends, so
    that other hosts can connect to it."""

    def __init__(self) -> None:
        self._selector = selectors.DefaultSelector()
        self._selector.register(0, selectors.EVENT_READ, self._read)
        self._dialler = Dialler(self._selector, self._connected)
        self._reserved: socket.socket | None = None
        self._cutter = LineCutter()
        self._heard_at = time.monotonic()
        self._over = False
        self._answers: list[dict[str, Any]] = []

    def answers(self) -> Iterator[dict[str, Any]]:
        """Yield each answer as soon as it is known."""
        while self._answers or not self._over:
            answers = self._answers
            self._answers = []
            yield from answers
            if not self._over:
                self._turn()

    def _turn(self) -> None:
        due = min(self._heard_at + PATIENCE, self._dialler.due)
        for key, _ in self._selector.select(max(0.0, due - time.monotonic())):
            key.data()
        now = time.monotonic()
        self._dialler.expire(now)
        self._over |= now - self._heard_at >= PATIENCE

    def _read(self) -> None:
        block = os.read(0, CHUNK)
        self._over |= not block
        self._heard_at = time.monotonic()
        for line in self._cutter.feed(block):
            self._obey(load(line) or {})

    def _obey(self, command: dict[str, Any]) -> None:
        match command.get("command"):
            case "reserve":
                self._reserve(command["address"], command["port"])
            case "connect":
                self._dialler.dial(command["targets"], command["seconds"])
            case "close":
                self._over = True

    def _reserve(self, address: str, port: int) -> None:
        from training.agent.ranks import ports  # not needed for the facts alone

        error = ""
        try:
            self._reserved = ports.reserve_port(address, port)
            port = self._reserved.getsockname()[1]
        except ports.PortError as problem:
            error = str(problem)
            port = 0
        self._answer("reserved", {"address": address, "port": port, "error": error})

    def _connected(self, address: str, port: int, seconds: float, error: str) -> None:
        fields = {"address": address, "port": port, "seconds": seconds, "error": error}
        self._answer("connected", fields)

    def _answer(self, name: str, fields: dict[str, Any]) -> None:
        self._answers.append(_event(name, fields))
