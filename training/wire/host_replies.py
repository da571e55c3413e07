"""What errands answer about the runs of a host: typed objects, one JSON line each."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from training.wire.codec import Codec
from training.wire.events import AgentEnded, Exited
from training.wire.format import FORMAT

STILL = 3600.0
"""Seconds without a change after which a folder that no lock covers counts as unused."""


@dataclass(frozen=True, slots=True)
class RunFolder:
    """What one host has of one run.

    `phase`: what its ranks do; once none is left finished, failed, stopped, `not started` or, of an
    ended run, `lost` (the agent could not go on). `ended` is the agent's last record, None where it
    could not write one. `began` and `last` are the times of its first and last record and `now`
    that of the listing, by the host's clock. `size` in bytes on disk. `ranks` are those of this
    host. `steps` (0: not known) are the whole run's. `hosts` and `world_size` are the plan's, 0
    where it is not kept there. `here`: it is this machine's, not that of another one which shares
    the folder. `format` is that of its records; in another one than FORMAT they are not read, and
    `phase` is unknown. `label` is the name that a person gave the run at its start.
    `attempt` is the newest that began there, counted from 0. `stop_heard` is when the agent first
    heard that a person stops that attempt, `failed` when the first rank of it failed there: by the
    host's clock, 0 where it never did.
    """

    run: str
    host: int
    folder: str
    live: bool
    phase: str
    began: float
    last: float
    now: float
    size: int
    step: int = 0
    steps: int = 0
    ranks: tuple[int, ...] = ()
    exits: tuple[Exited, ...] = ()
    hosts: int = 0
    world_size: int = 0
    planned: bool = False
    here: bool = True
    ended: AgentEnded | None = None
    format: int = FORMAT
    label: str = ""
    attempt: int = 0
    stop_heard: float = 0.0
    failed: float = 0.0


@dataclass(frozen=True, slots=True)
class CodeArchive:
    """Unpacked code in the workdir: `used` by a live run, or perhaps by one that is just being
    started."""

    wire_name: ClassVar[str] = "archive"

    name: str
    size: int
    used: bool
    idle: float


@dataclass(frozen=True, slots=True)
class Orphan:
    """A process of an ended run; `start` is when it began, in ticks after the machine's start;
    `began` the same by the host's clock. `found`: how it is known to be the run's."""

    run: str
    host: int
    pid: int
    start: int
    began: float
    found: str
    command: str


@dataclass(frozen=True, slots=True)
class LiveRun:
    """A run that is live on this host."""

    wire_name: ClassVar[str] = "live"

    run: str


@dataclass(frozen=True, slots=True)
class Signalled:
    """A process that was to be ended. `gone`: it has."""

    pid: int
    start: int
    gone: bool


@dataclass(frozen=True, slots=True)
class Removed:
    """What became of one thing that was to be removed: `kept` says why it is still there, "" where
    it is gone."""

    name: str
    kept: str = ""


codec = Codec("kind", (RunFolder, CodeArchive, Orphan, LiveRun, Signalled, Removed))
"""The objects that `runs`, `orphans`, `end` and `remove` answer with."""
