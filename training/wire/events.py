"""What ranks and agents say, as typed events.

A rank writes *wire events* on its stdout: a line that starts with `PREFIX`, then JSON. An agent
passes a rank's lines on unread, inside `Text`, and `expand` finds the events in them. What
launchers say is in `remote.events`, as no host needs it.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace

from training.wire.enums import EndReason, Phase
from training.wire.jsonl import dumps, load
from training.wire.records import (
    FIRST,
    SESSION,
    Event,
    Lines,
    Record,
    other_format,
    point_in_time,
    require,
)
from training.writing import write_all

__all__ = ["FIRST", "SESSION", "Event", "Record", "other_format"]

PREFIX = "@rankboard "
AGENT = -1
"""`rank` of text that a host's agent or preload wrote, not one of its ranks."""
MOST_CORES = 65_536
MOST_CPU = 100.0 * MOST_CORES


# From a rank --------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Entered(Event):
    """A rank has entered a phase."""

    rank: int
    phase: Phase


@dataclass(frozen=True, slots=True)
class Started(Event):
    """A rank has met the others and takes its first step next. `steps` is the whole run's,
    `steps_per_epoch` one epoch's, `resumed` how many a checkpoint had already."""

    rank: int
    pid: int
    world_size: int
    device: str
    backend: str
    torch: str
    threads: int
    parameters: int
    steps: int
    steps_per_epoch: int
    train_samples: int
    test_samples: int
    resumed: int = 0


@dataclass(frozen=True, slots=True)
class Step(Event):
    """One iteration of one rank. `epoch` and `step` count from 1, `step` over all epochs.

    Times are wall seconds of the training thread: `seconds` from step end to step end; `data` until
    the batch is on the device; `sync` blocked on other ranks; `compute` the rest; `ready` from the
    start to the last local gradient less the waits so far. `cpu_seconds` is the process's CPU time.
    `loss` is the mean over the rank's own `samples`, of which `correct` were classified right.
    `bytes_sent` is the payload that the sync method handed to the network; an asynchronous server's
    answers count with its own next step, and a server that makes none does not tell its own.
    `staleness` is how many updates of others the server made between this rank's pull of the
    parameters and its push of the gradient (parameter server).
    """

    rank: int
    epoch: int
    step: int
    loss: float
    seconds: float
    data: float = 0.0
    compute: float = 0.0
    sync: float = 0.0
    ready: float = 0.0
    cpu_seconds: float = 0.0
    samples: int = 0
    correct: int = 0
    bytes_sent: int = 0
    staleness: int = 0


@dataclass(frozen=True, slots=True)
class Epoch(Event):
    """A rank's epoch is over: mean loss and accuracy over its own training samples, and the sum of
    its steps' seconds."""

    rank: int
    epoch: int
    step: int
    loss: float
    accuracy: float
    samples: int
    seconds: float


@dataclass(frozen=True, slots=True)
class Drifted(Event):
    """The ranks' models, which the sync method keeps equal, differ after this step: rank 0 says by
    how much, relatively.

    The difference is infinite where some ranks' parameters are no longer numbers.
    """

    rank: int
    step: int
    difference: float

    @property
    def extent(self) -> str:
        """The difference, to read."""
        measured = self.difference < math.inf
        return (
            f"by {self.difference:.1e}, relatively"
            if measured
            else "beyond measure: on some ranks they are not numbers"
        )


@dataclass(frozen=True, slots=True)
class Saved(Event):
    """A rank has saved its part of a checkpoint: `seconds` it stood still for it, `size` in
    bytes."""

    rank: int
    epoch: int
    step: int
    seconds: float
    size: int


@dataclass(frozen=True, slots=True)
class Evaluated(Event):
    """The settled model on the whole test set: the merged figures, equal on all ranks. `accuracy`
    is a fraction.

    `confusion` (rank 0 only, up to 100 classes): row is the true class, column the predicted;
    `classes` are their names, where they have any. `own_accuracy` is that of this rank's own model
    or BatchNorm statistics on the whole test set where each rank keeps them, else -1.
    """

    rank: int
    epoch: int
    step: int
    loss: float
    accuracy: float
    samples: int
    seconds: float
    confusion: tuple[tuple[int, ...], ...] = ()
    own_accuracy: float = -1.0
    classes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Finished(Event):
    """A rank has done all its steps. `seconds` is from `Started` on."""

    rank: int
    epoch: int
    step: int
    seconds: float


# From an agent ------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Hello(Event):
    """The facts of a host, first record of its agent. `torch` is empty where the host's Python has
    none.

    `cores` are those usable under affinity and cgroup quota; `interfaces` are (name, IPv4 address,
    prefix length); `route_interface` is the one that leads to the master; `gpus` are names. Memory
    and disk are in bytes: `memory_free` is what new processes could take, `disk_free` what the
    run's folder has left; 0 is not known. `load` is how many tasks keep the usable cores busy: on
    average in the last minute, or at this moment where that is less. `backends` are what torch was
    built for, by its version.py, as ("cuda 13.0",). `flags` are the instructions of its CPU that
    `training.agent.host.needs` looks for, none where it does not tell; `runs` other live runs in
    its workdir, with their ranks here. `data_folder` is where it has looked for the job's data ("":
    nowhere), `data_missing` are the files that are not there, `data_problem` is why it cannot be
    read, or the missing files not be put there, `data_free` the room there in bytes. `resume_step`
    is the newest complete checkpoint's of `resume` here, 0 for none; then `resume_known` are runs
    that have some. `code_changed`: rankboard's code there was not as it had been sent, and has been
    replaced.
    """

    hostname: str
    user: str
    pid: int
    python: str
    executable: str
    platform: str
    boot_id: str
    cores: float
    memory: int
    torch: str = ""
    torchvision: str = ""
    gpus: tuple[str, ...] = ()
    interfaces: tuple[tuple[str, str, int], ...] = ()
    route_address: str = ""
    route_interface: str = ""
    folder: str = ""
    memory_free: int = 0
    disk_free: int = 0
    load: float = 0.0
    backends: tuple[str, ...] = ()
    flags: tuple[str, ...] = ()
    runs: tuple[tuple[str, int], ...] = ()
    data_folder: str = ""
    data_missing: tuple[str, ...] = ()
    data_problem: str = ""
    data_free: int = 0
    resume: str = ""
    resume_step: int = 0
    resume_known: tuple[str, ...] = ()
    code_changed: bool = False

    def validate(self) -> None:
        """Raises: ValueError."""
        require("cores", self.cores, 0.01, MOST_CORES)
        require("load", self.load, 0, 1e6)
        for name in ("memory", "memory_free", "disk_free"):
            require(name, getattr(self, name), 0, 2**63)
        from ipaddress import IPv4Interface  # only the launcher reads facts

        for _, address, prefix in self.interfaces:
            IPv4Interface(f"{address}/{prefix}")


@dataclass(frozen=True, slots=True)
class Reserved(Event):
    """The rendezvous port is bound on this host; `error` says why it is not (then `port` is 0)."""

    address: str
    port: int
    error: str = ""


@dataclass(frozen=True, slots=True)
class Connected(Event):
    """This host has tried to open a TCP connection to `address`:`port`; `error` says why it could
    not."""

    address: str
    port: int
    seconds: float
    error: str = ""

    def validate(self) -> None:
        """Raises: ValueError."""
        require("seconds", self.seconds, 0, 1e6)


@dataclass(frozen=True, slots=True)
class Launched(Event):
    """The agent has started to start these ranks of the attempt, in which the hosts numbered
    `hosts` take part."""

    ranks: tuple[int, ...]
    hosts: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Spawned(Event):
    """A rank's process exists; it leads a process group of its own."""

    rank: int
    pid: int


@dataclass(frozen=True, slots=True)
class Text(Event):
    """Whole lines, joined by newlines, that one read of one pipe gave. `stream` is `stdout` or
    `stderr`."""

    rank: int
    stream: str
    text: str


@dataclass(frozen=True, slots=True)
class HostSample(Event):
    """A host in the last second: `cpu` in percent per core, memory in bytes, network bytes in the
    second (loopback aside)."""

    cpu: tuple[float, ...]
    memory_used: int
    memory_total: int
    sent: int = 0
    received: int = 0

    def validate(self) -> None:
        """Raises: ValueError."""
        require("cpu", sum(self.cpu), -MOST_CPU, MOST_CPU)


@dataclass(frozen=True, slots=True)
class RankSample(Event):
    """A rank's process tree in the last second: CPU in percent of one core, resident memory in
    bytes."""

    rank: int
    cpu: float
    memory: int
    processes: int = 1

    def validate(self) -> None:
        """Raises: ValueError."""
        require("cpu", self.cpu, -MOST_CPU, MOST_CPU)


@dataclass(frozen=True, slots=True)
class Stack(Event):
    """Where a rank is at this moment, as asked for: `text` has the stacks of its threads, `source`
    says who told them: `faulthandler`, `py-spy`, or `kernel` (then only its state and what it waits
    for)."""

    rank: int
    source: str
    text: str


@dataclass(frozen=True, slots=True)
class Exited(Event):
    """A rank's process is gone: by exit `code`, or by `signal` (its name, such as SIGKILL; then
    `code` is -number).

    `stopped`: the agent had been told to stop it, or died. `out_of_memory`: the kernel's OOM killer
    did it.
    """

    rank: int
    code: int
    signal: str = ""
    stopped: bool = False
    out_of_memory: bool = False


@dataclass(frozen=True, slots=True)
class StopHeard(Event):
    """A `Stop` has come, which every launcher of the run learns so: it may be another one's.
    `by_person` as there."""

    by_person: bool = False


@dataclass(frozen=True, slots=True)
class Ended(Event):
    """The last record of a host's agent: all its ranks are gone, except the processes `left`, which
    it could not kill.

    `detail` is for people: how an agent died, or for how long it heard nothing. `died`: the agent
    could not go on.
    """

    reason: EndReason
    detail: str = ""
    died: bool = False
    left: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Dropped(Event):
    """Records `first` to `last` (both included) were dropped from the journal, which had reached
    its limit."""

    first: int
    last: int


RANK_EVENTS = (Entered, Started, Step, Epoch, Drifted, Saved, Evaluated, Finished)
HOST_EVENTS = (
    *(
        Hello,
        Reserved,
        Connected,
        Launched,
        Spawned,
        Text,
        HostSample,
        RankSample,
        Stack,
        Exited,
        StopHeard,
        Ended,
        Dropped,
    ),
)
EVENTS: tuple[type[Event], ...] = (*RANK_EVENTS, *HOST_EVENTS)

_lines = Lines(EVENTS)
encode, decode, fault = _lines.encode, _lines.decode, _lines.fault
from_object, to_object = _lines.from_object, _lines.to_object


def emit(event: Event) -> None:
    """Say an event as this rank: one line, one write to stdout's descriptor (writes up to PIPE_BUF
    do not mix)."""
    line = f"{PREFIX}{dumps({'time': time.time()} | to_object(event))}\n".encode()
    write_all(1, line)


def expand(record: Record) -> Iterator[Record]:
    """The record; or, for a rank's `Text`, in order the wire events in it and the text between
    them.

    A wire event takes the time that its rank gave it, but none later than the record's, and the
    record's host, attempt and seq. A rank speaks for itself alone: one of another rank is text.
    """
    if not isinstance(record.event, Text) or PREFIX not in record.event.text:
        yield record
        return
    plain: list[str] = []
    for line in record.event.text.split("\n"):
        said = _wire_event(line, record.event.rank) if line.startswith(PREFIX) else None
        if said is None:
            plain.append(line)
            continue
        if plain:
            yield replace(record, event=replace(record.event, text="\n".join(plain)))
            plain = []
        yield replace(
            record,
            time=record.time if said[0] is None else min(said[0], record.time),
            event=said[1],
        )
    if plain:
        yield replace(record, event=replace(record.event, text="\n".join(plain)))


def _wire_event(line: str, rank: int) -> tuple[float | None, Event] | None:
    data = load(line[len(PREFIX) :])
    if (
        data is None
        or not isinstance(event := _lines.codec.value(data), RANK_EVENTS)
        or event.rank != rank
    ):
        return None
    return point_in_time(data.get("time")), event
