"""The events of ranks and agents.

A rank writes *wire events* on its stdout: a line that starts with `PREFIX`, then JSON. An agent
forwards the lines of a rank unread, inside `OutputText`; `expand` finds the events in them. The
events of launchers are in `remote.events`, because no host needs them.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, ClassVar

from training.wire.codec import Codec
from training.wire.enums import DEATHS, EndReason, Phase
from training.wire.jsonl import dumps, load
from training.wire.records import (
    COUNT,
    FIRST,
    LARGEST,
    LAST_TIME,
    SECONDS,
    SESSION,
    Bounds,
    Event,
    Load,
    Record,
    RecordCodec,
    immutable,
    other_format,
    point_in_time,
    require,
    require_all,
)
from training.writing import write_all

__all__ = ["FIRST", "SESSION", "Event", "Record", "other_format"]

Reported = Callable[[str], "tuple[Any, float | None] | None"]
"""Reads a line of a rank, see `reported`."""
PREFIX = "@rankboard "
FILE = "file:"
"""Begins the `stream` of text that comes from a file."""
AGENT = -1
"""`rank` of text that the agent or preload of a host wrote, not a rank."""
MOST_CORES = 65_536
MOST_WRITTEN = 20
LONGEST_WRITTEN = 300
DEEPEST_WRITTEN = 32
"""The files that an agent names at its end, the characters of a path, and the folders in it."""
MOST_CPU = 100.0 * MOST_CORES
_SHARE = (0.0, 1.0)
_DIFFERENCE = (-LAST_TIME, LAST_TIME)
"""Of seconds that are left when others are taken away: these may come from another clock."""
_PORT = (0, 65_535)
_BYTES = (0, 2**63)
_PLACE: Bounds = {"epoch": COUNT, "step": COUNT}
"""How far a rank is."""
STEP_BOUNDS: Bounds = {
    **_PLACE,
    **dict.fromkeys(("samples", "correct", "bytes_sent", "staleness"), COUNT),
    **dict.fromkeys(("seconds", "cpu_seconds"), SECONDS),
    **dict.fromkeys(("data", "compute", "sync", "ready"), _DIFFERENCE),
}
"""Of `StepFinished`. Its loss may be any number."""
_STARTED_BOUNDS: Bounds = dict.fromkeys(
    (
        *("pid", "world_size", "threads", "parameters", "steps", "steps_per_epoch"),
        *("train_samples", "test_samples", "resumed"),
    ),
    COUNT,
)


# From a rank --------------------------------------------------------------------------------------


@immutable
class Entered(Event):
    """A rank has entered a phase."""

    rank: int
    phase: Phase


@immutable
class Started(Event):
    """All ranks are connected, and this rank begins its first step. `steps` counts those of the
    whole run, `steps_per_epoch` those of one epoch, `resumed` those in the checkpoint."""

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

    def validate(self) -> None:
        """Raises: ValueError."""
        require_all(self, _STARTED_BOUNDS)


@immutable
class StepFinished(Event):
    """One iteration of one rank. `epoch` and `step` count from 1, `step` over all epochs.

    Times are wall seconds of the training thread: `seconds` from the end of the previous step to
    the end of this one; `data` until the batch is on the device; `sync` blocked on other ranks;
    `compute` the rest; `ready` from the start of the step to the last local gradient, without the
    waits until then. `cpu_seconds` is the CPU time of the process. `loss` is the mean over the
    rank's own `samples`; `correct` of them were classified correctly. `bytes_sent` is the payload
    that the sync method passed to the network. The answers of an asynchronous server count in its
    own next step; a dedicated server has no steps and reports none. `staleness` (parameter server)
    is the number of updates from other ranks between this rank's pull of the parameters and its
    push of the gradient. `loss_known` is False where nobody could read the loss, of a user's own
    program; `loss` then is NaN, but means nothing.
    """

    wire_name: ClassVar[str] = "step"

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
    loss_known: bool = True

    def validate(self) -> None:
        """Raises: ValueError."""
        require_all(self, STEP_BOUNDS)


@immutable
class Epoch(Event):
    """A rank has finished an epoch: mean loss and accuracy over its own training samples, and the
    total seconds of its steps."""

    rank: int
    epoch: int
    step: int
    loss: float
    accuracy: float
    samples: int
    seconds: float

    def validate(self) -> None:
        """Raises: ValueError."""
        bounds = {"samples": COUNT, "seconds": SECONDS, "accuracy": _SHARE}
        require_all(self, {**_PLACE, **bounds})


@immutable
class Drifted(Event):
    """The models of the ranks differ after this step, although the sync method keeps them equal.

    Rank 0 reports the relative difference. It is infinite if parameters of some rank are NaN or
    infinite.
    """

    rank: int
    step: int
    difference: float

    @property
    def extent(self) -> str:
        """The difference in words."""
        measured = self.difference < math.inf
        return (
            f"by {self.difference:.1e}, relatively"
            if measured
            else "beyond measure: on some ranks they are not numbers"
        )

    def validate(self) -> None:
        """Raises: ValueError."""
        require("step", self.step, *COUNT)


@immutable
class Saved(Event):
    """A rank has saved its part of a checkpoint. Training paused for `seconds`; `size` is in
    bytes."""

    rank: int
    epoch: int
    step: int
    seconds: float
    size: int

    def validate(self) -> None:
        """Raises: ValueError."""
        require_all(self, {**_PLACE, "seconds": SECONDS, "size": COUNT})


@immutable
class Evaluated(Event):
    """The result of the model on the whole test set, merged, and equal on all ranks. `accuracy` is
    a fraction.

    `confusion` (rank 0 only, up to 100 classes) has a row per true class and a column per predicted
    class; `classes` are their names, if any. `own_accuracy` is that of this rank's own model or
    BatchNorm statistics, if ranks keep their own, else -1.
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

    def validate(self) -> None:
        """Raises: ValueError."""
        bounds = {"samples": COUNT, "seconds": SECONDS, "accuracy": _SHARE}
        require_all(self, {**_PLACE, **bounds, "own_accuracy": (-1.0, 1.0)})
        for row in self.confusion:
            for count in row:
                require("confusion", count, *COUNT)


@immutable
class Finished(Event):
    """A rank has finished all its steps, `seconds` after `Started`."""

    rank: int
    epoch: int
    step: int
    seconds: float

    def validate(self) -> None:
        """Raises: ValueError."""
        require_all(self, {**_PLACE, "seconds": SECONDS})


@immutable
class ScriptMetrics(Event):
    """Values that a user's own program printed or wrote, by name, after `step`. `step` and `epoch`
    are 0 where unknown. Launchers read them out of what ranks print; see `remote.formats`."""

    wire_name: ClassVar[str] = "metrics"

    rank: int
    step: int
    epoch: float
    values: tuple[tuple[str, float], ...]

    def validate(self) -> None:
        """Raises: ValueError."""
        require_all(self, _PLACE)


# From an agent ------------------------------------------------------------------------------------


@immutable
class Hello(Event):
    """The facts of a host: the first record of its agent.

    Software: `torch` is empty if the host's Python has none. `backends` are those that torch was
    built for, such as ("cuda 13.0",). `code_changed`: rankboard's code on the host differed from
    what was sent, and was replaced.

    Hardware: `cores` are usable under affinity and cgroup quota. `interfaces` are (name, IPv4
    address, prefix length); `route_interface` leads to the master. `link_speeds` are (name of an
    interface, Mbit/s), as far as they are known. `gpus` are names. `flags` are
    the instructions of the CPU that `training.agent.host.needs` looks for; none if they are
    unknown. Memory and disk are in bytes, 0 is unknown: `memory_free` is available to new
    processes, `disk_free` to the run's folder. `load` is the number of tasks that keep the usable
    cores busy: the mean of the last minute, or the present one if it is less. `runs` are other live
    runs in the workdir, with the number of their ranks on this host.

    Job: `data_folder` is where the host looked for the data ("": nowhere), `data_missing` are
    missing files, `data_problem` is why the data cannot be read or the missing files not stored,
    `data_free` is the space there in bytes. `data_damaged` are files whose checksum is not the
    published one, `data_unread` those that could not be read in the short time that there is.
    `data_unreachable` are the servers from which the missing files would be downloaded, each with
    why it cannot be reached ("": it did not answer), unless one of them can. `resume_step` is that
    of the newest complete checkpoint of `resume` on the host, 0 if there is none; then
    `resume_known` are runs that have one.

    A program of the user's own: `program_lacks` is why it cannot be started, and `packages` are
    installed, see `training.agent.host.program`; its file does not name those that are `unnamed`,
    of which there are none where it could not be read.
    `accelerator`: there is a GPU, or the like.
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
    program_lacks: str = ""
    packages: tuple[str, ...] = ()
    unnamed: tuple[str, ...] = ()
    accelerator: bool = False
    data_damaged: tuple[str, ...] = ()
    data_unread: tuple[str, ...] = ()
    data_unreachable: tuple[tuple[str, str], ...] = ()
    link_speeds: tuple[tuple[str, int], ...] = ()

    def validate(self) -> None:
        """Raises: ValueError."""
        require("cores", self.cores, 0.01, MOST_CORES)
        require("load", self.load, 0, 1e6)
        sizes = ("memory", "memory_free", "disk_free", "data_free")
        require_all(self, dict.fromkeys(sizes, _BYTES))
        require_all(self, {"pid": COUNT, "resume_step": COUNT})
        for _, ranks in self.runs:
            require("runs", ranks, *COUNT)
        from ipaddress import IPv4Interface  # only the launcher reads facts

        for _, address, prefix in self.interfaces:
            IPv4Interface(f"{address}/{prefix}")


@immutable
class Reserved(Event):
    """The rendezvous port is bound on this host. If not, `port` is 0 and `error` says why."""

    address: str
    port: int
    error: str = ""

    def validate(self) -> None:
        """Raises: ValueError."""
        require("port", self.port, *_PORT)


@immutable
class Connected(Event):
    """This host tried a TCP connection to `address`:`port`, as it was asked: also to a port that
    cannot be. If it failed, `error` says why."""

    address: str
    port: int
    seconds: float
    error: str = ""

    def validate(self) -> None:
        """Raises: ValueError."""
        require_all(self, {"port": COUNT, "seconds": (0.0, 1e6)})


@immutable
class Launched(Event):
    """The agent begins to start these ranks of the attempt. `hosts` are the indices of all hosts of
    the attempt, `attempts` is how many its launcher allows, `age` the seconds since the run began;
    0 if not known."""

    ranks: tuple[int, ...]
    hosts: tuple[int, ...] = ()
    attempts: int = 0
    age: float = 0.0

    def validate(self) -> None:
        """Raises: ValueError."""
        require("attempts", self.attempts, 0, LARGEST)
        require("age", self.age, 0, LAST_TIME)


@immutable
class Spawned(Event):
    """The process of a rank exists. It leads a process group of its own."""

    rank: int
    pid: int

    def validate(self) -> None:
        """Raises: ValueError."""
        require("pid", self.pid, *COUNT)


@immutable
class OutputText(Event):
    """The whole lines of one read of one pipe, joined by newlines; or a piece of a line that is
    long, or that its program keeps writing over. `stream` is `stdout` or `stderr`; or FILE and the
    path of a file that the rank's host follows, of an event file of TensorBoard each record in
    base64."""

    wire_name: ClassVar[str] = "text"

    rank: int
    stream: str
    text: str

    @property
    def path(self) -> str:
        """That of the file; "" for what a rank printed."""
        return self.stream[len(FILE) :] if self.stream.startswith(FILE) else ""


@immutable
class HostSample(Event):
    """A host in the last second: `cpu` in percent per core, memory in bytes, network bytes in the
    second (loopback aside). `disk_free` are the bytes left on the disk of the run's folder, 0 if
    unknown."""

    cpu: tuple[float, ...]
    memory_used: int
    memory_total: int
    sent: int = 0
    received: int = 0
    disk_free: int = 0

    def validate(self) -> None:
        """Raises: ValueError."""
        require("cpu", sum(self.cpu), -MOST_CPU, MOST_CPU)
        names = ("memory_used", "memory_total", "sent", "received", "disk_free")
        require_all(self, dict.fromkeys(names, _BYTES))


@immutable
class RankSample(Event):
    """A rank's process tree in the last second: CPU in percent of one core, resident memory in
    bytes."""

    rank: int
    cpu: float
    memory: int
    processes: int = 1

    def validate(self) -> None:
        """Raises: ValueError."""
        bounds = {"cpu": (-MOST_CPU, MOST_CPU), "memory": _BYTES, "processes": COUNT}
        require_all(self, bounds)


@immutable
class GpuSample(Event):
    """The GPU of a rank in the last second, with all that runs on it: `use` is the percentage of
    the time in which it was busy, NaN if unknown; memory in bytes; `clock` is that of its
    processors in MHz, `clock_most` the highest that it can have, 0 if unknown. `reasons` are those
    for which the clock is not higher, as bits (NVML's "clocks event reasons")."""

    rank: int
    use: float
    memory_used: int
    memory_total: int
    clock: int = 0
    clock_most: int = 0
    reasons: int = 0

    def validate(self) -> None:
        """Raises: ValueError."""
        if not math.isnan(self.use):
            require("use", self.use, 0, 100)
        names = ("memory_used", "memory_total", "clock", "clock_most")
        require_all(self, dict.fromkeys(names, _BYTES))


@immutable
class Stack(Event):
    """The stacks of the threads of a rank, on request. `source` is `faulthandler`, `py-spy` or
    `kernel`; the kernel only knows the state of the process and what it waits for."""

    rank: int
    source: str
    text: str


@immutable
class Raised(Event):
    """What a rank failed of, as the file says that torchrun's programs write: a traceback, or a
    message. `Exited` follows."""

    rank: int
    text: str


@immutable
class Exited(Event):
    """The process of a rank has exited with `code`; or by a `signal` such as SIGKILL, and `code` is
    its negative number.

    `stopped`: the agent had sent it a signal. `out_of_memory`: the OOM killer of the kernel killed
    it.
    """

    rank: int
    code: int
    signal: str = ""
    stopped: bool = False
    out_of_memory: bool = False


@immutable
class StopHeard(Event):
    """The agent has received a `Stop`, perhaps of another launcher. `by_person`: as in `Stop`."""

    by_person: bool = False


@immutable
class AgentEnded(Event):
    """The last record of an agent. No process of the run is left on the host, except the pids
    `left`, which could not be killed.

    `detail` is text for people, such as how the agent died. `age` is the seconds since the run
    began, 0 if not known: launchers on any machine agree on it. `written` are files that a user's
    own program has written in the folder that it works in, the first of `written_count` by their
    paths; `written_cut`: there may be more.
    """

    wire_name: ClassVar[str] = "ended"

    reason: EndReason
    detail: str = ""
    left: tuple[int, ...] = ()
    age: float = 0.0
    written: tuple[str, ...] = ()
    written_count: int = 0
    written_cut: bool = False

    def validate(self) -> None:
        """Raises: ValueError."""
        require("age", self.age, 0, LAST_TIME)
        require("written", len(self.written), 0, MOST_WRITTEN)
        require("written_count", self.written_count, 0, 2**53)
        for path in self.written:
            require("the length of a path", len(path), 0, LONGEST_WRITTEN)
            require("the depth of a path", path.count("/"), 0, DEEPEST_WRITTEN)

    @property
    def died(self) -> bool:
        """Whether the agent could not continue."""
        return self.reason in DEATHS


@immutable
class RecordsDropped(Event):
    """Records `first` to `last`, inclusive, were deleted because the journal reached its limit. The
    `Hello`, `Launched` and each `Exited` of the attempt among them come again."""

    wire_name: ClassVar[str] = "dropped"

    first: int
    last: int

    def validate(self) -> None:
        """Raises: ValueError."""
        require_all(self, {"first": COUNT, "last": COUNT})


RANK_EVENTS = (
    Entered,
    Started,
    StepFinished,
    Epoch,
    Drifted,
    Saved,
    Evaluated,
    Finished,
    ScriptMetrics,
)
HOST_EVENTS = (
    *(
        Hello,
        Reserved,
        Connected,
        Launched,
        Spawned,
        OutputText,
        HostSample,
        RankSample,
        GpuSample,
        Stack,
        Raised,
        Exited,
        StopHeard,
        AgentEnded,
        RecordsDropped,
    ),
)
EVENTS: tuple[type[Event], ...] = (*RANK_EVENTS, *HOST_EVENTS)

_lines = RecordCodec(EVENTS)
_of_ranks = Codec("event", RANK_EVENTS)
encode = _lines.encode
decode = _lines.decode
fault = _lines.fault
from_object = _lines.from_object
to_object = _lines.to_object


def emit(event: Event) -> None:
    """Report an event as this rank: one line, in one write to stdout. Writes are atomic up to
    PIPE_BUF bytes."""
    line = f"{PREFIX}{dumps({'time': time.time()} | to_object(event))}\n".encode()
    write_all(1, line)


def reported(line: str, load: Load = load) -> tuple[Any, float | None] | None:
    """The event that a rank reports in a line behind PREFIX, and its time, None if that is not a
    valid one. None if the line is none. `load` parses it."""
    data = load(line)
    event = None if data is None else _of_ranks.value(data)
    return None if data is None or event is None else (event, point_in_time(data.get("time")))


def expand(record: Record, reported: Reported = reported) -> Sequence[Record]:
    """The record itself. For the `OutputText` of a rank: the wire events in it and the text between
    them, in order.

    A wire event has the time that its rank gave it, but never a later one than the record, and the
    host, attempt and seq of the record. An event that a rank reports for another rank is text.
    `reported` reads a line of it.
    """
    text = record.event
    if not isinstance(text, OutputText) or PREFIX not in text.text or text.path:
        return (record,)
    found: list[Record] = []
    plain: list[str] = []
    for line in text.text.split("\n"):
        said = reported(line[len(PREFIX) :]) if line.startswith(PREFIX) else None
        if said is None or said[0].rank != text.rank:
            plain.append(line)
            continue
        if plain:
            found.append(_with_lines(record, text, plain))
            plain = []
        event, when = said
        if when is None or when > record.time:
            when = record.time
        found.append(Record(record.host, record.attempt, record.seq, when, event))
    if plain:
        found.append(_with_lines(record, text, plain))
    return found


def _with_lines(record: Record, text: OutputText, lines: list[str]) -> Record:
    return replace(record, event=replace(text, text="\n".join(lines)))
