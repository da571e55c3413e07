"""How far the launchers of a run have come with it, by their records."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from enum import Enum

from remote.events import (
    Attached,
    AttemptFailing,
    Detached,
    DetachRequested,
    Prepared,
    Preparing,
    SessionClosed,
    SessionClosing,
    StacksAsked,
    Starting,
    StartRefused,
    Stopping,
    Transferring,
)
from remote.plan.plan import Policy
from training.wire.events import Event

UPLOAD = "upload"
FETCH = "fetch"
"""The transfers of a run: folders to the hosts before it, results back after it."""


class Stage(Enum):
    """What the launcher is doing."""

    REACHING = "reaching"
    STARTING = "starting"
    RUNNING = "running"
    STOPPING = "stopping"
    CLOSING = "closing"
    OVER = "over"


@dataclass
class LauncherState:
    """What launchers have decided so far. All times are by the session's clock."""

    policy: Policy
    stage: Stage = Stage.REACHING
    hosts: tuple[int, ...] = ()
    """The hosts that take part in the attempt."""
    attempt: int = 0
    """The number of the attempt, from 0."""
    attempts: int = 0
    """How many attempts the launcher that started this one allows in all; 0 if unknown."""
    attempt_at: float = 0.0
    """When the attempt began."""
    preparing: bool = False
    """The hosts of the attempt are checked."""
    prepared: bool = False
    """All of them have answered."""
    started: bool = False
    """They were told to start their ranks."""
    refused: bool = False
    """The start is refused."""
    failing_at: float = math.inf
    """When the first failure of the attempt was noticed; infinite before."""
    stopping_at: float = math.inf
    """When the launcher began to stop all ranks; infinite before."""
    closing_at: float = math.inf
    """When all agents were told to end; infinite before."""
    stacks_asked_at: float = -math.inf
    """When the stacks of all ranks were last asked for."""
    person_stopped: bool = False
    """A person has stopped the run."""
    stopped_elsewhere: bool = False
    """That person asked another launcher."""
    abandoned_at: float = math.inf
    """When a person no longer waited for the hosts; infinite before."""
    impatient: bool = False
    """A person has once not waited for the hosts."""
    stop_now: bool = False
    """Ranks get no time to end by themselves."""
    final: bool = False
    """The run is not restarted."""
    keep: bool = False
    """Agents go on without a launcher."""
    leaving: bool = False
    """A person has asked to detach."""
    detached: bool = False
    """The launcher has left; the run goes on."""
    cut_off: bool = False
    """It has left although nobody asked for it."""
    returned: bool = False
    """This launcher is not the first one."""
    returned_at: float = 0.0
    """When it came; 0 if it is the first one."""
    transfers: dict[str, bool] = field(default_factory=dict)
    """The transfers of files by name; True if they are over."""

    def __post_init__(self) -> None:
        self.keep = self.policy.keep

    @property
    def restarts_left(self) -> int:
        """How often the run may still be restarted."""
        if self.final or self.person_stopped:
            return 0
        return max(0, self.policy.max_restarts - self.attempt)

    @property
    def attempts_allowed(self) -> int:
        """Return how many attempts the run may have in all; 0 if that is not known.

        Another launcher may have started more of them than this one allows.
        """
        allowed = self.attempts or self.policy.max_restarts + 1
        return allowed if self.attempt < allowed else 0

    @property
    def failing(self) -> bool:
        """Return True if the attempt has failed."""
        return self.failing_at < math.inf

    @property
    def abandoned(self) -> bool:
        """Return True if a person no longer waits for the hosts."""
        return self.abandoned_at < math.inf

    @property
    def ending_at(self) -> float:
        """Return when all hosts were told to end, or to end their ranks; infinite before."""
        return self.stopping_at if self.closing_at == math.inf else self.closing_at

    def is_transferring(self, name: str) -> bool:
        """Return True if this transfer is under way."""
        return self.transfers.get(name) is False

    def apply(self, event: Event, when: float) -> None:
        """Take in what a launcher has recorded."""
        match event:
            case Preparing(hosts):
                self.hosts = hosts
                self.preparing = True
                self.stage = Stage.STARTING
            case Prepared():
                self.prepared = True
            case StartRefused():
                self.refused = True
            case Starting():
                self.stage = Stage.RUNNING
                self.started = True
            case AttemptFailing():
                self.failing_at = min(self.failing_at, when)
            case Stopping():
                self._stop(event, when)
            case SessionClosing():
                self.stage = Stage.CLOSING
                self.closing_at = when
                self.abandoned_at = math.inf
            case SessionClosed():
                self.stage = Stage.OVER
            case DetachRequested(leaving):
                self.leaving = leaving
            case Detached(cut_off):
                self.detached = True
                self.cut_off = cut_off
                self.keep = True
            case StacksAsked():
                self.stacks_asked_at = when
            case Transferring(what, over):
                self.transfers[what] = over
            case Attached():
                self._attach(when)

    def restart(self, attempt: int, hosts: tuple[int, ...], when: float, *, started: bool) -> None:
        """Begin another attempt on these hosts. `started`: their ranks have been told to start."""
        self.attempt = attempt
        self.hosts = hosts
        self.attempt_at = when
        self.attempts = 0
        self.preparing = False
        self.prepared = False
        self.refused = False
        self.started = started
        self.failing_at = math.inf
        if self.person_stopped:  # another launcher has not heard of that yet
            return
        self.stage = Stage.RUNNING if started else Stage.STARTING
        self.stopping_at = self.closing_at = math.inf
        self.stop_now = False
        self.abandoned_at = math.inf

    def launch(self, attempt: int) -> None:
        """Take in that ranks of this attempt have been started, perhaps by another launcher."""
        self.attempt = max(self.attempt, attempt)
        self.started = True
        if self.stage in (Stage.REACHING, Stage.STARTING):
            self.stage = Stage.RUNNING

    def _stop(self, event: Stopping, when: float) -> None:
        is_repeated = event.by_person and self.person_stopped and not event.now
        # A person who stops a second time does not want to wait for the hosts.
        if is_repeated and self.stage in (Stage.STOPPING, Stage.CLOSING):
            # The first stop here after one from elsewhere is not a second one.
            self.abandoned_at = math.inf if self.stopped_elsewhere else when
            self.impatient |= self.abandoned
        self.stopped_elsewhere = event.elsewhere
        self.person_stopped |= event.by_person
        self.stop_now |= event.now
        self.final |= event.final
        if self.stage not in (Stage.CLOSING, Stage.OVER):
            self.stage = Stage.STOPPING
            self.stopping_at = min(self.stopping_at, when)

    def _attach(self, when: float) -> None:
        """Take in that another launcher takes over, which gives hosts as much time again."""
        self.returned = True
        self.returned_at = when
        self.detached = False
        self.cut_off = False
        self.leaving = False
        self.abandoned_at = math.inf
        self.stopped_elsewhere = self.person_stopped
        self.transfers.clear()
        self.stopping_at = self.closing_at = math.inf
        if self.failing:
            self.failing_at = when
        if self.person_stopped:
            self.stage = Stage.STOPPING
            self.stopping_at = when
        elif self.stage not in (Stage.REACHING, Stage.STARTING):
            self.stage = Stage.RUNNING
