"""What a host is asked by the doctor: its facts, whether a port is free, whom it reaches.

It speaks as an agent does, in records that answer commands, but starts nothing and keeps nothing.
So that it costs a third of what an agent does it imports little: records and commands are plain
objects here, as dataclasses take long to import.
"""

from __future__ import annotations

import os
import selectors
import socket
import sys
import time
from collections.abc import Iterator, Sequence

from training.agent import CLOSED, OPERATOR_GONE
from training.agent.host import facts, system
from training.agent.host.dial import Dialler
from training.wire.jsonl import load

TYPE_CHECKING = False  # as typing itself takes long to import
if TYPE_CHECKING:
    from typing import Any

TICK = 1.0
"""Seconds between two signs of life: the first record once more, which who has it takes no notice
of."""
LEASE = 60.0
"""Seconds that no command may come."""
CHUNK = 1 << 16


def probe(words: Sequence[str]) -> Iterator[dict[str, Any]]:
    """Records, from `Hello` to `Ended`. Words: the run's folder on this host, the host's index, and
    the address to which `Hello` shall tell the route (perhaps empty); then, perhaps, what the job
    needs (see `needs`)."""
    folder, host, route_to, needs = (
        os.path.abspath(os.path.expanduser(words[0])),
        int(words[1]),
        words[2],
        "".join(words[3:]),
    )
    try:
        if problem := obstacle(folder):
            sys.exit(
                f"cannot use its workdir: {problem}; mend that, or set another workdir for it in "
                "hosts.toml"
            )
        yield from Probe(folder, host, route_to, needs).records()
    except OSError as error:  # to be told as a follower tells it, and not as a record
        sys.exit(f"the facts of the host cannot be had: {error}")


def obstacle(folder: str) -> str:
    """Why a run could not use this folder, or make it; "" where it can."""
    there = system.existing(folder)
    if not os.access(there, os.W_OK | os.X_OK):
        return f"{there} is not writable"
    next_one = os.path.join(there, os.path.relpath(folder, there).split(os.sep)[0])
    return (
        f"{next_one} is no folder"
        if os.path.lexists(next_one) and not os.path.isdir(next_one)
        else ""
    )


class Probe:
    """Answers the commands `Reserve`, `Connect` and `Close` that come on stdin; its end is the end
    too."""

    def __init__(self, folder: str, host: int, route_to: str, needs: str = "") -> None:
        self._head = {"host": host, "attempt": 0}
        self._seq = 0
        self._selector = selectors.DefaultSelector()
        self._selector.register(0, selectors.EVENT_READ, self._read)
        self._dialler = Dialler(self._selector, self._connected)
        self._reserved: socket.socket | None = None
        self._rest = b""
        self._heard_at = self._told_at = time.monotonic()
        self._over = False
        self._said: list[dict[str, Any]] = []
        self._say("hello", facts.hello(folder, route_to, needs))
        self._hello = self._said[0]

    def _say(self, event: str, fields: dict[str, Any]) -> None:
        self._seq += 1
        self._said.append(
            self._head | {"seq": self._seq, "time": time.time(), "event": event} | fields
        )

    def records(self) -> Iterator[dict[str, Any]]:
        """As they come, until it is told to close, or nobody is there any more."""
        while self._said or not self._over:
            said, self._said = self._said, []
            yield from said
            if not self._over:
                self._turn()

    def _turn(self) -> None:
        due = min(self._told_at + TICK, self._dialler.due)
        for key, _ in self._selector.select(max(0.0, due - time.monotonic())):
            key.data()
        now = time.monotonic()
        self._dialler.expire(now)
        if now - self._heard_at >= LEASE:
            self._end(f"{OPERATOR_GONE}, no sign of life for {LEASE:g} s")
        elif now - self._told_at >= TICK:
            self._told_at = now
            self._said.append(self._hello)

    def _read(self) -> None:
        block = os.read(0, CHUNK)
        if not block:
            self._end(OPERATOR_GONE)
        self._heard_at = time.monotonic()
        *lines, self._rest = (self._rest + block).split(b"\n")
        for line in lines:
            self._obey(load(line) or {})

    def _obey(self, command: dict[str, Any]) -> None:
        match command.get("command"):
            case "reserve":
                self._reserve(command["address"], command["port"])
            case "connect":
                self._dialler.dial(command["targets"], command["seconds"])
            case "close":
                self._end(CLOSED)

    def _reserve(self, address: str, port: int) -> None:
        from training.agent.ranks import ports  # which only one host needs

        if self._reserved:
            self._reserved.close()
        error, self._reserved = "", None
        try:
            self._reserved = ports.reserve(address, port)
        except ports.PortError as problem:
            error = str(problem)
        told = self._reserved.getsockname()[1] if self._reserved else 0
        self._say("reserved", {"address": address, "port": told, "error": error})

    def _connected(self, address: str, port: int, seconds: float, error: str) -> None:
        self._say(
            "connected", {"address": address, "port": port, "seconds": seconds, "error": error}
        )

    def _end(self, reason: str) -> None:
        if not self._over:
            self._over = True
            self._say("ended", {"reason": reason})
