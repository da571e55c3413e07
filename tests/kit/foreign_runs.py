"""Run directories that somebody else has made: what a launcher finds of them, with whatever they
want in them."""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from remote.cluster.hosts import Host
from remote.events import SessionClosed, Stopping
from remote.plan import serialize
from remote.plan.plan import Plan, Policy
from training.job import Job
from training.wire.enums import EndReason
from training.wire.events import SESSION, Event, Record, encode
from training.wire.host_events import AgentEnded, Exited, Hello, Launched, OutputText, Spawned

HELLO = Hello("box", "me", 1, "3.11.2", "python3", "Linux", "b", 2.0, 1 << 30)
BEGUN: tuple[tuple[int, Event], ...] = (
    (0, HELLO),
    (0, Launched((0,))),
    (0, Spawned(0, 7)),
    (0, OutputText(0, "stdout", "up")),
)
FAILED = (*BEGUN, (0, Exited(0, 1)))
ENDED = (
    *BEGUN,
    (SESSION, Stopping("enough", True)),
    (0, Exited(0, -15, "SIGTERM", stopped=True)),
    (0, AgentEnded(EndReason.CLOSED)),
)
ENDED = (*ENDED, (SESSION, SessionClosed()))


def evil_host(mark: Path, name: str = "node1", **more: Any) -> Host:
    """A host that leaves a mark where somebody reaches it the way that it wants."""
    said = {
        "proxy_command": f"touch {mark}; false #",
        "python": f"touch {mark} ; false #",
        "env_from": ("MY_TOKEN",),
    }
    return replace(Host(name, "203.0.113.1"), **(said | more))


def records(events: Iterable[tuple[int, Event]]) -> str:
    """The lines of these events, each of the host with this number."""
    return "".join(
        encode(Record(host, 0, seq, 1000.0 + seq, event))
        for seq, (host, event) in enumerate(events, 1)
    )


def foreign_run(
    runs: Path,
    host: Host,
    events: Iterable[tuple[int, Event]] = BEGUN,
    name: str = "a-run",
    more: Mapping[str, Any] | None = None,
    lines: str = "",
) -> Path:
    """A run directory on one host that nobody's rankboard has signed. `more` replaces parts of
    plan.json, `lines` are added to the records."""
    folder = runs / name
    folder.mkdir(parents=True)
    plan = Plan(name, (host,), Job(), Policy(keep=True, max_restarts=3))
    (folder / "plan.json").write_text(
        json.dumps(json.loads(serialize.dump(plan)) | dict(more or {}))
    )
    (folder / "events.jsonl").write_text(records(events) + lines)
    return folder


@contextmanager
def locked(folder: Path, text: str) -> Iterator[None]:
    """Somebody holds the launcher's lock, with this text in it."""
    lock = os.open(folder / "launcher.pid", os.O_RDWR | os.O_CREAT, 0o600)
    try:
        os.write(lock, text.encode())
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
    finally:
        os.close(lock)
