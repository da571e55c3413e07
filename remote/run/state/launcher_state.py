"""How far the launchers of a run have come with it, by their records."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from enum import Enum

from remote import events as launcher
from remote.plan.plan import Policy
from training.wire.events import Event

UPLOAD = "upload"
FETCH = "fetch"
"""The transfers of a run: folders to the hosts before it, results back after it."""


class Stage(Enum):
    """What the launcher is about."""

    REACHING = "reaching"
    STARTING = "starting"
    RUNNING = "running"
    STOPPING = "stopping"
    CLOSING = "closing"
    OVER = "over"


@dataclass
class Course:
    """What launchers have decided so far. All times are by the session's clock.

    `hosts` take part in the attempt, which began at `attempt_at`; the launcher that has started it
    allows `attempts` in all, 0 if that is not known. `failing_at` is when its first
    failure was noticed, `stopping_at` and `closing_at` when these stages began; infinite before.
    `preparing`: the hosts are checked, `prepared`: all have answered, `started`: they were told to
    start their ranks, `refused`: the start is refused. `person_stopped`: a person has stopped the
    run, and from `abandoned_at` on no longer waits for its hosts; `impatient`: has done so.
    `stop_now`: ranks get no time to end by themselves. `final`: the run is not restarted. `keep`:
    agents go on without a launcher. `returned`: this launcher is not the first one; it came at
    `returned_at`, 0 where it is.
    """

    policy: Policy
    stage: Stage = Stage.REACHING
    hosts: tuple[int, ...] = ()
    attempt: int = 0
    attempts: int = 0
    attempt_at: float = 0.0
    preparing: bool = False
    prepared: bool = False
    started: bool = False
    refused: bool = False
    failing_at: float = math.inf
    stopping_at: float = math.inf
    closing_at: float = math.inf
    stacks_asked_at: float = -math.inf
    person_stopped: bool = False
    stopped_elsewhere: bool = False
    abandoned_at: float = math.inf
    impatient: bool = False
    stop_now: bool = False
    final: bool = False
    keep: bool = False
    leaving: bool = False
    detached: bool = False
    cut_off: bool = False
    returned: bool = False
    returned_at: float = 0.0
    transfers: dict[str, bool] = field(default_factory=dict)

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
        """Return how many attempts the run may have in all, 0 if that is not known: another
        launcher may have started more of them than this one allows."""
        allowed = self.attempts or self.policy.max_restarts + 1
        return allowed if self.attempt < allowed else 0

    @property
    def failing(self) -> bool:
        """Whether the attempt has failed."""
        return self.failing_at < math.inf

    @property
    def abandoned(self) -> bool:
        """Whether a person no longer waits for the hosts."""
        return self.abandoned_at < math.inf

    @property
    def ending_at(self) -> float:
        """When all hosts were told to end, or to end their ranks; infinite before."""
        return self.stopping_at if self.closing_at == math.inf else self.closing_at

    def is_transferring(self, what: str) -> bool:
        """Whether this transfer is under way."""
        return self.transfers.get(what) is False

    def apply(self, event: Event, when: float) -> None:
        """Take in what a launcher has recorded."""
        match event:
            case launcher.Preparing(hosts):
                self.hosts = hosts
                self.preparing = True
                self.stage = Stage.STARTING
            case launcher.Prepared():
                self.prepared = True
            case launcher.Refused():
                self.refused = True
            case launcher.Starting():
                self.stage = Stage.RUNNING
                self.started = True
            case launcher.Failing():
                self.failing_at = min(self.failing_at, when)
            case launcher.Stopping():
                self._stop(event, when)
            case launcher.Closing():
                self.stage = Stage.CLOSING
                self.closing_at = when
                self.abandoned_at = math.inf
            case launcher.Closed():
                self.stage = Stage.OVER
            case launcher.Leaving(leaving):
                self.leaving = leaving
            case launcher.Detached(cut_off):
                self.detached = True
                self.cut_off = cut_off
                self.keep = True
            case launcher.StacksAsked():
                self.stacks_asked_at = when
            case launcher.Transferring(what, over):
                self.transfers[what] = over
            case launcher.Attached():
                self._attach(when)

    def begin(self, attempt: int, hosts: tuple[int, ...], when: float, *, started: bool) -> None:
        """Begin an attempt on these hosts; `started`: their ranks have been told to start."""
        self.attempt = attempt
        self.hosts = hosts
        self.attempt_at = when
        self.attempts = 0
        self.preparing = self.prepared = self.refused = False
        self.started = started
        self.failing_at = math.inf
        if self.person_stopped:  # of which another launcher has not heard yet
            return
        self.stage = Stage.RUNNING if started else Stage.STARTING
        self.stopping_at = self.closing_at = math.inf
        self.stop_now = False
        self.abandoned_at = math.inf

    def launch(self, attempt: int) -> None:
        """Ranks of this attempt have been started, by this launcher or another one."""
        self.attempt = max(self.attempt, attempt)
        self.started = True
        if self.stage in (Stage.REACHING, Stage.STARTING):
            self.stage = Stage.RUNNING

    def _stop(self, event: launcher.Stopping, when: float) -> None:
        again = event.by_person and self.person_stopped and not event.now
        if again and self.stage in (Stage.STOPPING, Stage.CLOSING):
            # A first word here after a stop from elsewhere is not a second one.
            self.abandoned_at = math.inf if self.stopped_elsewhere else when
            self.impatient |= self.abandoned
        self.stopped_elsewhere = event.elsewhere
        self.person_stopped |= event.by_person
        self.stop_now |= event.now
        self.final |= event.final
        if self.stage not in (Stage.CLOSING, Stage.OVER):
            self.stage, self.stopping_at = Stage.STOPPING, min(self.stopping_at, when)

    def _attach(self, when: float) -> None:
        """Another launcher takes over, and gives hosts as much time as the one before."""
        self.returned = True
        self.returned_at = when
        self.detached = self.cut_off = self.leaving = False
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
