"""One host of a run, as its records tell it."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

from remote.run.series.timing import NAN
from remote.run.state.phases import HostPhase
from remote.run.state.types import Death
from training.wire import events
from training.wire.events import Event

SOUGHT = (HostPhase.CONNECTING, HostPhase.DEPLOYING, HostPhase.STARTING)
"""Phases of a host that has told its facts while another connection to it is made."""
LAST_WORDS = 200
"""Lines of stderr that are searched for the cause: a chain of tracebacks through torch, with its
stacks of C++, takes 100 and more."""
FRESH = 5.0
"""Seconds since a host was heard up to which its ranks are judged: a live agent samples its host
each second."""
DISK_LOW = 1 << 30
"""A disk with less than these free bytes is nearly full."""


@dataclass(slots=True)
class HostState:
    """One host as last heard of; `heard` is when, by the session's clock. `cpu` is percent per
    core, memory, network and free disk bytes; `loads` the CPU of its ranks, in percent of one core.

    `since` is when its phase began. `reason` says why it
    is lost, refused or ended. `began` is when its agent began, before which nothing of it happened.
    `attempt` is the newest one whose ranks its agent has started, -1 before the first.
    `saved_step` is the newest checkpoint that its first rank said is complete: on this host alone,
    where others may be lost. `missed`: nothing is heard of it; `back` is when records came again,
    after a silence from `silent_from` on; `gone`: it was lost, or its agent killed; `parted`: a
    connection to it broke. `age_at_end` is how old the run was when its agent ended, 0 where that
    is not known. `disk_low` is when its disk became nearly full, 0 where it is not.
    """

    index: int
    name: str
    phase: HostPhase = HostPhase.WAITING
    since: float = 0.0
    hello: events.Hello | None = None
    offset: float = 0.0
    began: float = 0.0
    heard: float = 0.0
    cpu: tuple[float, ...] = ()
    memory_used: int = 0
    memory_total: int = 0
    sent: int = 0
    received: int = 0
    disk_free: int = 0
    loads: dict[int, float] = field(default_factory=dict)
    disk_low: float = 0.0
    age_at_end: float = 0.0
    run_began: float = 0.0
    """By the clock of the host, as far as it has told; 0 before."""
    reason: str = ""
    gone: bool = False
    saved_step: int = 0
    missed: bool = False
    back: float = 0.0
    parted: bool = False
    dropped: bool = False
    death: Death | None = None
    seq: int = 0
    launched: bool = False
    attempt: int = -1
    running: set[int] = field(default_factory=set)
    reserved: events.Reserved | None = None
    connected: list[events.Connected] = field(default_factory=list)
    ended: events.AgentEnded | None = None
    lost: bool = False
    left_out: bool = False
    stop_heard: bool = False
    silent_from: float = 0.0
    tail: deque[str] = field(default_factory=lambda: deque(maxlen=LAST_WORDS))

    @property
    def used(self) -> float:
        """The share of the cores that it may use which its ranks keep busy; NaN where that is not
        known."""
        if not self.hello or not self.hello.cores or not self.loads:
            return NAN
        return sum(self.loads.values()) / 100 / self.hello.cores

    @property
    def done(self) -> bool:
        """Whether nothing more comes from it."""
        return self.ended is not None or self.lost or self.left_out

    @property
    def away(self) -> float:
        """Seconds of its last silence."""
        return self.back - self.silent_from

    def enter(self, phase: HostPhase, when: float) -> None:
        """Go on to a phase."""
        if phase is not self.phase:
            self.phase = phase
            self.since = when

    def hear(self, when: float, now: float) -> None:
        """Something has come from its agent."""
        # Its agent may have recorded it long before it could be heard.
        if self.missed or (self.heard and when - self.heard > FRESH):
            self.back = now
            self.silent_from = self.heard
            self.missed = False
        if when > self.heard:
            self.heard = when
        if self.phase is HostPhase.READY:
            return
        is_sought = self.hello is not None and self.phase in SOUGHT
        if self.phase is HostPhase.SILENT or is_sought:
            self.enter(HostPhase.READY, when)

    def count_age(self, age: float, time: float) -> float:
        """Take in how old its agent says that the run is at this time of its clock; its guard,
        which speaks for one that was killed, does not know (0). Return the age as far as it
        follows, 0 if nothing is known."""
        if age:
            self.run_began = time - age
        return max(0.0, time - self.run_began) if self.run_began else 0.0

    def begin(self) -> None:
        """Another attempt begins: what was asked for the one before counts no more."""
        self.launched = self.stop_heard = False
        self.running.clear()
        self.loads.clear()
        self.reserved = None
        self.death = None
        self.connected.clear()

    def apply(self, event: Event, attempt: int, when: float) -> None:
        """Take in what its agent says of the host itself, in this attempt of the run."""
        match event:
            case events.HostSample():
                self.cpu = event.cpu
                self.memory_used = event.memory_used
                self.memory_total = event.memory_total
                self.sent = event.sent
                self.received = event.received
                self._look_at_disk(event.disk_free, when)
            case events.Reserved() if self.reserved is None:
                self.reserved = event
            case events.Connected():
                self._connect(event)
            case events.Launched(ranks) if attempt > self.attempt:
                self.launched = True
                self.attempt = attempt
                self.running |= set(ranks)
            case events.Exited(rank):
                self.running.discard(rank)
            case events.AgentEnded():
                self.ended = event
                self.running.clear()

    def _look_at_disk(self, free: int, when: float) -> None:
        self.disk_free = free
        is_low = 0 < free < DISK_LOW
        self.disk_low = (self.disk_low or when) if is_low else 0.0

    def _connect(self, event: events.Connected) -> None:
        """Take in a connection that it tried, once."""
        known = {(one.address, one.port) for one in self.connected}
        if (event.address, event.port) not in known:
            self.connected.append(event)
