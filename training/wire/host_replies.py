"""What host commands answer about the runs of a host: typed objects, one JSON line each."""

from __future__ import annotations

from dataclasses import dataclass

from training.wire.codec import Codec
from training.wire.format import FORMAT
from training.wire.host_events import AgentEnded, Exited

STILL = 3600.0
"""Seconds without a change after which a folder that no lock covers counts as unused."""


@dataclass(frozen=True, slots=True)
class RunFolder:
    """What one host has of one run. Times are by the host's clock."""

    run: str
    host: int
    folder: str
    live: bool
    phase: str
    """What the ranks do; once none is left finished, failed, stopped, `refused` (none was started)
    or, of an ended run, `lost` (the agent could not go on). `unreadable` for records in another
    format."""
    began: float
    """When the first record was written."""
    last: float
    """When the last record was written."""
    now: float
    """When the host answered."""
    size: int
    """Bytes on disk."""
    step: int = 0
    steps: int = 0
    """Steps of the whole run; 0 if not known."""
    ranks: tuple[int, ...] = ()
    """The ranks of this host."""
    exits: tuple[Exited, ...] = ()
    hosts: int = 0
    """The number of hosts in the plan; 0 if the plan is not there."""
    world_size: int = 0
    planned: bool = False
    here: bool = True
    """It is this machine's, not that of another one which shares the folder."""
    ended: AgentEnded | None = None
    """The agent's last record; None if it could not write one."""
    format: int = FORMAT
    """The format number of its records. If it is not among READABLE, they are not read."""
    label: str = ""
    """The name that a person gave the run at its start."""
    attempt: int = 0
    """The newest attempt that began there, counted from 0."""
    stop_heard: float = 0.0
    """When the agent first heard that a person stops that attempt; 0 if it never did."""
    failed: float = 0.0
    """When the first rank of that attempt failed there; 0 if none did."""
    moved: float = 0.0
    """When a rank last made a step, entered a phase or printed something; 0 if no steps are
    known."""
    step_seconds: float = 0.0
    """The median time of its newest steps; 0 if it is not known."""


@dataclass(frozen=True, slots=True)
class CodeArchive:
    """Unpacked code in the workdir."""

    wire_name = "archive"
    name: str
    size: int
    used: bool
    """A live run uses it, or perhaps one that is just being started."""
    idle: float
    """Seconds since it was last used."""


@dataclass(frozen=True, slots=True)
class Orphan:
    """A process of an ended run."""

    run: str
    host: int
    pid: int
    start: int
    """When it began, in ticks after the machine's start."""
    began: float
    """When it began, by the host's clock."""
    found: str
    """How it is known to be the run's."""
    command: str


@dataclass(frozen=True, slots=True)
class LiveRun:
    """A run that is live on this host."""

    wire_name = "live"
    run: str


@dataclass(frozen=True, slots=True)
class Signalled:
    """A process that was to be ended."""

    pid: int
    start: int
    gone: bool


@dataclass(frozen=True, slots=True)
class Removed:
    """What became of one thing that was to be removed."""

    name: str
    kept: str = ""
    """Why it is still there; "" if it is gone."""


codec = Codec("kind", (RunFolder, CodeArchive, Orphan, LiveRun, Signalled, Removed))
"""The objects that `runs`, `orphans`, `end` and `remove` answer with."""
