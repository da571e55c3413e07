"""The events that the agent of a host reports: of its host, of itself, and of the processes that it
has started."""

from __future__ import annotations

import math
from typing import ClassVar

from training.wire.enums import DEATHS, EndReason
from training.wire.records import COUNT, SECONDS, Bounds, Event, immutable, require

FILE = "file:"
"""Begins the `stream` of text that comes from a file."""
AGENT = -1
"""`rank` of text that the agent or preload of a host wrote, not a rank."""
MOST_CORES = 65_536
MOST_WRITTEN = 20
"""Files that an agent names at its end."""
LONGEST_WRITTEN = 300
"""Characters of the path of such a file."""
DEEPEST_WRITTEN = 32
"""Folders in the path of such a file."""
_CPU = (-100.0 * MOST_CORES, 100.0 * MOST_CORES)
"""Percent of one core."""
_BYTES = (0, 2**63)


@immutable
class Hello(Event):
    """The facts of a host: the first record of its agent. Bytes of 0 are unknown."""

    bounds: ClassVar[Bounds] = {
        # A cgroup quota may leave a process less than one core.
        "cores": (0.01, MOST_CORES),
        "load": (0, 1e6),
        "pid": COUNT,
        "resume_step": COUNT,
        **dict.fromkeys(("memory", "memory_free", "disk_free", "data_free"), _BYTES),
    }

    hostname: str
    user: str
    pid: int
    python: str
    executable: str
    platform: str
    boot_id: str
    cores: float
    """Usable under affinity and cgroup quota."""
    memory: int
    torch: str = ""
    """The version; "" if the host's Python has none."""
    torchvision: str = ""
    gpus: tuple[str, ...] = ()
    """Names."""
    interfaces: tuple[tuple[str, str, int], ...] = ()
    """Name, IPv4 address and prefix length of each."""
    route_address: str = ""
    route_interface: str = ""
    """The interface that leads to the master."""
    folder: str = ""
    memory_free: int = 0
    """Bytes that are available to new processes."""
    disk_free: int = 0
    """Bytes that are available to the run's folder."""
    load: float = 0.0
    """Tasks that keep the usable cores busy: the mean of the last minute, or the present number if
    it is less."""
    busiest: tuple[tuple[str, float], ...] = ()
    """Where the load is worth a warning, the processes that take the most of it by name, and the
    cores that they keep busy; the busiest first."""
    backends: tuple[str, ...] = ()
    """What torch was built for, such as ("cuda 13.0",)."""
    flags: tuple[str, ...] = ()
    """The CPU's instructions among `training.agent.host.system.FLAGS`; none if they are unknown."""
    runs: tuple[tuple[str, int], ...] = ()
    """Other live runs in the workdir, with the number of their ranks on this host."""
    data_folder: str = ""
    """Where the host looked for the data; "" if it did not look."""
    data_missing: tuple[str, ...] = ()
    data_problem: str = ""
    """Why the data cannot be read, or the missing files not stored."""
    data_free: int = 0
    """Bytes that are available to `data_folder`."""
    resume: str = ""
    resume_step: int = 0
    """The step of the newest complete checkpoint of `resume` on the host; 0 if there is none."""
    resume_known: tuple[str, ...] = ()
    """Runs that have a checkpoint, if `resume` has none."""
    code_changed: bool = False
    """rankboard's code on the host differed from what was sent, and was replaced."""
    program_lacks: str = ""
    """Why the script cannot be started: a word of `training.agent.host.program`."""
    program_lacking: str = ""
    """The program that lacks it; ranks of a host may have different ones."""
    packages: tuple[str, ...] = ()
    """Installed packages, of those that `training.agent.host.program` looks for."""
    unnamed: tuple[str, ...] = ()
    """Packages that the script's file does not name; none if it could not be read."""
    ports_taken: tuple[tuple[int, str], ...] = ()
    """The ports that the script fixes and that cannot be bound, and why."""
    accelerator: bool = False
    """There is a GPU, or the like."""
    data_damaged: tuple[str, ...] = ()
    """Files whose checksum is not the published one."""
    data_unread: tuple[str, ...] = ()
    """Files that could not be read in the short time that there is."""
    data_unreachable: tuple[tuple[str, str], ...] = ()
    """The servers that have the missing files, each with why it cannot be reached ("": it did not
    answer), unless one of them can be reached."""
    link_speeds: tuple[tuple[str, int], ...] = ()
    """Name and Mbit/s of the interfaces whose speed is known."""

    def validate(self) -> None:
        """Raises: ValueError."""
        Event.validate(self)
        for _, ranks in self.runs:
            require("runs", ranks, *COUNT)
        from ipaddress import IPv4Interface  # only the launcher reads facts

        for _, address, prefix in self.interfaces:
            IPv4Interface(f"{address}/{prefix}")


@immutable
class Reserved(Event):
    """The rendezvous port is bound on this host. If not, `port` is 0 and `error` says why."""

    bounds: ClassVar[Bounds] = {"port": (0, 65_535)}

    address: str
    port: int
    error: str = ""


@immutable
class Connected(Event):
    """This host tried a TCP connection to `address`:`port`, as it was asked: also to a port that
    cannot be. If it failed, `error` says why."""

    bounds: ClassVar[Bounds] = {"port": COUNT, "seconds": (0.0, 1e6)}

    address: str
    port: int
    seconds: float
    error: str = ""


@immutable
class BeforeStarted(Event):
    """The agent runs the command that comes before the ranks, once on its host."""


@immutable
class BeforeEnded(Event):
    """That command has ended, and took so many seconds."""

    bounds: ClassVar[Bounds] = {"seconds": SECONDS}

    code: int
    """Its exit code; 127 if it could not be started, negative after a signal."""
    seconds: float
    stopped: bool = False
    """The agent had sent a signal to it: it has not failed."""


@immutable
class Launched(Event):
    """The agent begins to start these ranks of the attempt. `hosts` are the indices of all hosts of
    the attempt, `attempts` is how many its launcher allows, `age` the seconds since the run began;
    0 if not known."""

    bounds: ClassVar[Bounds] = {"attempts": COUNT, "age": SECONDS}

    ranks: tuple[int, ...]
    hosts: tuple[int, ...] = ()
    attempts: int = 0
    age: float = 0.0


@immutable
class Spawned(Event):
    """The process of a rank exists. It leads a process group of its own."""

    bounds: ClassVar[Bounds] = {"pid": COUNT}

    rank: int
    pid: int


@immutable
class OutputText(Event):
    """The whole lines of one read of one pipe, joined by newlines; or a piece of a line that is
    long, or that its program keeps writing over. `stream` is `stdout` or `stderr`; or FILE and the
    path of a file that the rank's host follows, of an event file of TensorBoard each record in
    base64."""

    wire_name = "text"

    rank: int
    stream: str
    text: str

    @property
    def path(self) -> str:
        """Return the path of the file; "" for what a rank printed."""
        return self.stream.removeprefix(FILE) if self.stream.startswith(FILE) else ""


@immutable
class HostSample(Event):
    """What a host used since the sample before, one tick of its agent ago. A tick is one second, so
    that bytes are shown as bytes per second without any division."""

    bounds = dict.fromkeys(("memory_used", "memory_total", "sent", "received", "disk_free"), _BYTES)

    cpu: tuple[float, ...]
    """Percent of each core."""
    memory_used: int
    memory_total: int
    sent: int = 0
    """Bytes that the whole machine has sent by network in this tick, without loopback; 0 also if
    unknown."""
    received: int = 0
    """The same, received."""
    disk_free: int = 0
    """Bytes on the disk of the run's folder; 0 if unknown."""

    def validate(self) -> None:
        """Raises: ValueError."""
        Event.validate(self)
        # The sum is enough: a value that is no number, or infinite, makes it so too.
        require("cpu", sum(self.cpu), *_CPU)


@immutable
class RankSample(Event):
    """A rank's process tree in the last second: CPU in percent of one core, resident memory in
    bytes."""

    bounds: ClassVar[Bounds] = {"cpu": _CPU, "memory": _BYTES, "processes": COUNT}

    rank: int
    cpu: float
    memory: int
    processes: int = 1
    worker: bool = False
    """`rank` is that of a worker, see `WorkerJoined`."""


@immutable
class GpuSample(Event):
    """The GPU of a rank in the last second, with all that runs on it."""

    bounds = dict.fromkeys(("memory_used", "memory_total", "clock", "clock_most"), _BYTES)

    rank: int
    use: float
    """Percentage of the time in which it was busy; NaN if unknown."""
    memory_used: int
    memory_total: int
    clock: int = 0
    """MHz of its processors."""
    clock_most: int = 0
    """The highest clock that it can have; 0 if unknown."""
    reasons: int = 0
    """Why the clock is not higher, as bits (NVML's "clocks event reasons")."""

    def validate(self) -> None:
        """Raises: ValueError."""
        Event.validate(self)
        # `require` refuses NaN, which here says that the use is not known.
        if not math.isnan(self.use):
            require("use", self.use, 0, 100)


@immutable
class Stack(Event):
    """The stacks of the threads of a rank, on request. `source` is `faulthandler` or `kernel`; the
    kernel only knows the state of the process and what it waits for."""

    rank: int
    source: str
    text: str
    worker: bool = False
    """`rank` is that of a worker, see `WorkerJoined`."""


@immutable
class WorkerJoined(Event):
    """A process that the program of a rank has started has joined a process group of more ranks
    than rankboard has started: it is rank `rank` of the run from now on.

    Its steps have this rank, and so have samples and stacks with `worker`. All else is of `process`
    or another rank that rankboard started.
    """

    bounds = dict.fromkeys(("rank", "process", "world_size", "pid"), COUNT)

    rank: int
    process: int
    """The rank whose program started it."""
    world_size: int
    """The number of ranks in its process group."""
    pid: int
    """0 if it is only known by the lines that it prints."""


@immutable
class WorkerExited(Event):
    """A worker is gone, see `WorkerJoined`. Only its parent is sure to learn its exit code."""

    rank: int
    code: int
    """As of `Exited`."""
    signal: str = ""
    """The name of the signal that ended it."""
    stopped: bool = False
    """The agent had sent a signal to the program that started it."""
    out_of_memory: bool = False
    """The OOM killer of the kernel killed it."""
    known: bool = True
    """False if nobody knows the exit code: it has not said that it ends, and left no trace."""
    error: str = ""
    """The traceback of what it raised."""


@immutable
class Raised(Event):
    """A rank has written why it failed to the file that torchrun's programs use: a traceback, or a
    message. `Exited` follows."""

    rank: int
    text: str


@immutable
class Exited(Event):
    """The process of a rank has exited."""

    rank: int
    code: int
    """The exit code; the negative number of the signal that ended the process."""
    signal: str = ""
    """The name of that signal, such as SIGKILL."""
    stopped: bool = False
    """The agent had sent it a signal."""
    out_of_memory: bool = False
    """The OOM killer of the kernel killed it."""


@immutable
class StopHeard(Event):
    """The agent has received a `Stop`, perhaps of another launcher. `by_person`: as in `Stop`."""

    by_person: bool = False


@immutable
class AgentEnded(Event):
    """The last record of an agent. No process of the run is left on the host, except the pids
    `left`, which could not be killed."""

    wire_name = "ended"
    bounds: ClassVar[Bounds] = {"age": SECONDS, "written_count": COUNT}

    reason: EndReason
    detail: str = ""
    """For people, such as how the agent died."""
    left: tuple[int, ...] = ()
    age: float = 0.0
    """Seconds since the run began; 0 if not known. Launchers on any machine agree on it."""
    written: tuple[str, ...] = ()
    """Files that a script has written in the folder that it works in: the first of `written_count`
    by their paths."""
    written_count: int = 0
    written_cut: bool = False
    """There may be more."""

    def validate(self) -> None:
        """Raises: ValueError."""
        Event.validate(self)
        require("written", len(self.written), 0, MOST_WRITTEN)
        for path in self.written:
            require("the length of a path", len(path), 0, LONGEST_WRITTEN)
            require("the depth of a path", path.count("/"), 0, DEEPEST_WRITTEN)

    @property
    def died(self) -> bool:
        """Return True if the agent could not continue."""
        return self.reason in DEATHS


@immutable
class RecordsDropped(Event):
    """Records `first` to `last`, inclusive, are gone: the journal reached its limit, or somebody
    deleted or renamed a file of it. The `Hello`, `BeforeEnded`, `Launched` and each `Exited` of the
    attempt among them come again, unless the agent had ended before.

    If it is `text_only`, only printed text among them was deleted."""

    wire_name = "dropped"
    bounds: ClassVar[Bounds] = {"first": COUNT, "last": COUNT}

    first: int
    last: int
    text_only: bool = False


HOST_EVENTS = (
    Hello,
    Reserved,
    Connected,
    BeforeStarted,
    BeforeEnded,
    Launched,
    Spawned,
    OutputText,
    HostSample,
    RankSample,
    GpuSample,
    Stack,
    WorkerJoined,
    WorkerExited,
    Raised,
    Exited,
    StopHeard,
    AgentEnded,
    RecordsDropped,
)
