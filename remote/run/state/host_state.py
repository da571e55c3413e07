"""One host of a run, as its records report it."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field

from remote.run.series.step_times import NAN
from remote.run.state.phases import HostPhase
from remote.run.state.types import Cause
from training.wire.events import Event
from training.wire.host_events import (
    AgentEnded,
    BeforeEnded,
    BeforeStarted,
    Connected,
    Exited,
    Hello,
    HostSample,
    Launched,
    Reserved,
)

SOUGHT = (HostPhase.CONNECTING, HostPhase.DEPLOYING, HostPhase.STARTING)
"""Phases of a host that has reported its facts while another connection to it is made."""
LAST_WORDS = 200
"""Lines of stderr that are searched for the cause: a chain of tracebacks through torch, with its
stacks of C++, takes 100 and more."""
TRUST_COMMAND = "rankboard trust "
FRESH = 5.0
"""Seconds since a host was heard up to which its ranks are judged: a live agent samples its host
each second."""
DISK_LOW = 1 << 30
"""A disk with less than these free bytes is nearly full."""
TRAFFIC = 500_000
"""Bytes that a host sends and receives in a second, from which on its ranks may be exchanging
something large: what agents, logs and monitoring send is less."""


def strip_host_name(text: str, host_name: str) -> str:
    """Return a reason or remark without the host's name, with which it may begin.

    On the wire these are sentences such as "node2: no answer" or "node1 and node2: no answer". No
    other place than this one and `names_host` knows that.
    """
    return text.removeprefix(f"{host_name}: ") if host_name else text


def names_host(text: str, host_name: str) -> bool:
    """Return True if a reason begins with the name of its host, perhaps among others."""
    return text.startswith(tuple(f"{host_name}{end}" for end in (":", ", ", " and ")))


def is_trust_command(line: str) -> bool:
    """Return True for a line that says how to accept the key of a host.

    On the wire, the advice is the last line of the reason why a host was not reached.
    """
    return line.startswith(TRUST_COMMAND)


def trust_all_hosts(reason: str, host_name: str) -> str:
    """Return a reason whose advice is to accept the keys of all hosts, if it is to accept this
    host's."""
    lines = reason.split("\n")
    for line_number, line in enumerate(lines):
        general_command = line.removesuffix(f" {host_name}")
        if is_trust_command(line) and general_command != line:
            lines[line_number] = f"{general_command} --all"
    return "\n".join(lines)


NO_SAMPLE = HostSample((), 0, 0)


@dataclass(slots=True)
class HostState:
    """One host as last heard of. Times by the session's clock, memory and network in bytes."""

    index: int
    """Its number in the run, from 0."""
    name: str
    phase: HostPhase = HostPhase.WAITING
    since: float = 0.0
    """When its phase began."""
    spent: dict[HostPhase, float] = field(default_factory=dict)
    """The seconds that it was in each earlier phase."""
    hello: Hello | None = None
    """The facts that its agent reported first."""
    offset: float = 0.0
    """The seconds by which its clock is ahead of the session's."""
    began: float = 0.0
    """When its agent began; nothing of it happened before."""
    heard: float = 0.0
    """When something came of it last."""
    sample: HostSample = NO_SAMPLE
    """What it used in the last second, as its agent measured it."""
    traffic_at: float = 0.0
    """When it last sent or received as much as a model that is sent takes, see `TRAFFIC`."""
    loads: dict[int, float] = field(default_factory=dict)
    """The CPU of each of its ranks, in percent of one core."""
    disk_low: float = 0.0
    """When its disk became nearly full; 0 if it is not."""
    age_at_end: float = 0.0
    """How old the run was when its agent ended; 0 if that is not known."""
    run_began: float = 0.0
    """When the run began, by the clock of the host; 0 before it has reported the age of the run."""
    reason: str = ""
    """Why it is lost, refused or ended."""
    gone: bool = False
    """It was lost, or its agent was killed."""
    saved_step: int = 0
    """The newest checkpoint that its first rank reported as complete: on this host alone."""
    missed: bool = False
    """Nothing is heard of it at present."""
    back: float = 0.0
    """When it was heard again after its last silence; 0 before one."""
    silent_from: float = 0.0
    """When its last silence began."""
    parted: bool = False
    """A connection to it broke."""
    dropped: bool = False
    """Records of it are missing: its agent has dropped them, or a file of its journal is gone."""
    has_dropped_text: bool = False
    """Its agent has dropped what ranks have printed."""
    death: Cause | None = None
    """What its end says about the cause."""
    seq: int = 0
    """The number of its newest record."""
    launched: bool = False
    """Its agent was told to start ranks of this attempt."""
    attempt: int = -1
    """The newest attempt whose ranks its agent has started, -1 before the first."""
    running: set[int] = field(default_factory=set)
    """Its ranks that have not ended."""
    reserved: Reserved | None = None
    """The port that it has reserved."""
    before_since: float = 0.0
    """When its agent began to run the command that comes before the ranks; 0 if it has not."""
    before_end: BeforeEnded | None = None
    """The end of that command."""
    connected: list[Connected] = field(default_factory=list)
    """The connections to other hosts that it has tried."""
    ended: AgentEnded | None = None
    """The end of its agent."""
    lost: bool = False
    """The launcher has given it up."""
    left_out: bool = False
    """It takes part in no attempt any more."""
    stop_heard: bool = False
    """Its agent has heard that a person stopped the run."""
    tail: deque[str] = field(default_factory=lambda: deque(maxlen=LAST_WORDS))
    """The last lines on stderr of its agent, and of ranks that are not known."""

    @property
    def cpu_share(self) -> float:
        """Return the share of its cores that its ranks keep busy; NaN if it is unknown."""
        if not self.hello or not self.hello.cores or not self.loads:
            return NAN
        return sum(self.loads.values()) / 100 / self.hello.cores

    @property
    def is_prepared(self) -> bool:
        """Return True if the command that comes before its ranks has done its work."""
        # Of an agent that has started ranks, the record of that may be dropped.
        return self.attempt >= 0 or (self.before_end is not None and self.before_end.code == 0)

    @property
    def done(self) -> bool:
        """Return True if nothing more comes from it."""
        return self.ended is not None or self.lost or self.left_out

    @property
    def away(self) -> float:
        """Return the seconds of its last silence."""
        return self.back - self.silent_from

    def enter(self, phase: HostPhase, when: float) -> None:
        """Enter a phase."""
        if phase is self.phase:
            return
        if self.since:
            self.spent[self.phase] = when - self.since
        self.phase = phase
        self.since = when

    def hear(self, heard_at: float, now: float) -> None:
        """Note that a record has come, which its agent wrote at `heard_at`."""
        # Its agent may have recorded it long before it could be heard.
        if self.missed or (self.heard and heard_at - self.heard > FRESH):
            self.back = now
            self.silent_from = self.heard
            self.missed = False
        if heard_at > self.heard:
            self.heard = heard_at
        if self.phase is HostPhase.READY:
            return
        is_sought = self.hello is not None and self.phase in SOUGHT
        if self.phase is HostPhase.SILENT or is_sought:
            self.enter(HostPhase.READY, heard_at)

    def count_age(self, age: float, time: float) -> float:
        """Return how old the run is at this time of its clock, as far as that is known; else 0.

        `age` is what its agent reports. The guard, which speaks for an agent that was killed, does
        not know (0); then the age follows from an earlier report.
        """
        if age:
            self.run_began = time - age
        return max(0.0, time - self.run_began) if self.run_began else 0.0

    def restart(self) -> None:
        """Take in that another attempt begins: forget what was asked for the one before."""
        self.launched = False
        self.stop_heard = False
        self.running.clear()
        self.loads.clear()
        self.reserved = None
        self.death = None
        self.connected.clear()

    def apply(self, event: Event, attempt: int, when: float) -> None:
        """Take in what its agent reports of the host itself, in this attempt of the run."""
        match event:
            case HostSample():
                self.sample = event
                # 0 is a disk of which nothing is known.
                is_low = 0 < event.disk_free < DISK_LOW
                self.disk_low = (self.disk_low or when) if is_low else 0.0
                if event.sent + event.received >= TRAFFIC:
                    self.traffic_at = when
            case Reserved() if self.reserved is None:
                self.reserved = event
            case BeforeStarted():
                self.before_since = when
            case BeforeEnded(stopped=False):
                self.before_end = event
            case Connected():
                self._take_connection(event)
            case Launched(ranks) if attempt > self.attempt:
                self.launched = True
                self.attempt = attempt
                self.running |= set(ranks)
            case Exited(rank):
                self.running.discard(rank)
            case AgentEnded():
                self.ended = event
                self.running.clear()

    def _take_connection(self, event: Connected) -> None:
        """Take in a connection that it tried, once."""
        tried_ports = {(connection.address, connection.port) for connection in self.connected}
        # A host that is heard again may report it a second time.
        if (event.address, event.port) not in tried_ports:
            self.connected.append(event)


Hosts = Sequence[HostState]
"""All hosts of a run: each is at its index."""
