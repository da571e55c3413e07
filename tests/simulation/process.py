"""Processes of ranks on a simulated host, and the training that joins them."""

from __future__ import annotations

import signal
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

from remote.run.state.phases import REPORTED_START
from training.wire.enums import Phase
from training.wire.events import PREFIX, Event, to_object
from training.wire.jsonl import dumps
from training.wire.rank_events import Entered, Finished, Started, StepFinished
from training.wire.step_block import STEP_ROW, encode_row

if TYPE_CHECKING:
    from tests.simulation.host import Host
    from tests.simulation.world import World

TRACEBACK = 'Traceback (most recent call last):\n  File "train.py", line 7, in <module>\n    main()'
BROKEN = f"{TRACEBACK}\nRuntimeError: [/gloo/transport/tcp/pair.cc:561] Connection closed by peer"


@dataclass(eq=False)
class Process:
    """One process on a host. `rank` is -1 for preload. `is_hanging`: it makes no steps, though it
    runs. `killable_from` is when its agent may KILL it."""

    host: Host
    pid: int
    rank: int
    attempt: int
    pipes: Any = ()
    parent: Process | None = None
    alive: bool = True
    is_stopped: bool = False
    is_hanging: bool = False
    ignores_term: bool = False
    has_finished: bool = False
    terminated_at: float = 0.0
    ended_at: float = 0.0
    status: int = -1
    training: Training | None = None
    _plan: int = 0
    _pending: list[Callable[[], None]] = field(default_factory=list)

    @property
    def name(self) -> str:
        """Who it is, for a story."""
        return f"rank {self.rank}" if self.rank >= 0 else f"preload of {self.host.name}"

    def then(self, delay: float, act: Callable[[], None]) -> None:
        """Have the process do this after some seconds, if it lives."""
        plan = self._plan
        self.host.world.loop.after(delay, lambda: self._do(act) if plan == self._plan else None)

    def leave(self, delay: float, status: int) -> None:
        """Do nothing more but end."""
        self._plan += 1
        self.is_hanging = True
        self.then(delay, lambda: self.exit(status))

    def _do(self, act: Callable[[], None]) -> None:
        if not self.alive:
            return
        if self.is_stopped:
            self._pending.append(act)
        else:
            act()

    def print(self, stream: int, text: str) -> None:
        """Print lines on stdout (0) or stderr (1)."""
        self.pipes[stream].lines.append(text)
        self.host.gather()

    def emit(self, event: Event) -> None:
        """Say an event."""
        when = self.host.world.loop.now + self.host.skew
        if isinstance(event, StepFinished):
            self.print(0, f"{PREFIX}{STEP_ROW}{encode_row(event, when)}")
        else:
            self.print(0, PREFIX + dumps({"time": when} | to_object(event)))

    def exit(self, status: int) -> None:
        """End, with this wait status."""
        if not self.alive:
            return
        self.alive, self.status, self.ended_at = False, status, self.host.world.loop.now
        self.host.exited(self, status)
        if self.training:
            self.training.leave(self)

    def signal(self, number: signal.Signals) -> None:
        """A signal comes."""
        if not self.alive:
            return
        match number:
            case signal.SIGSTOP:
                self.is_stopped = True
            case signal.SIGCONT:
                self._resume()
            case signal.SIGTERM:
                self.terminated_at = self.terminated_at or self.host.world.loop.now
                if not self.ignores_term:
                    self.then(self.host.draw.uniform(0.01, 0.4), lambda: self.exit(signal.SIGTERM))
            case _:
                self.exit(int(number))

    def resume_steps(self) -> None:
        """Hang no longer."""
        self.is_hanging = False
        if self.training:
            self.training.go_on()

    def _resume(self) -> None:
        self.is_stopped, pending, self._pending = False, self._pending, []
        for act in pending:
            self._do(act)
        if self.training:
            self.training.go_on()

    # A rank's work --------------------------------------------------------------------------------

    def work(self, training: Training) -> None:
        """Load, meet the others, and train."""
        draw = self.host.draw
        self.training = training
        at = draw.uniform(0.1, 0.6)
        *first_phases, _ = map(Phase, REPORTED_START)  # it enters the last one in `Training.join`
        for number, phase in enumerate(first_phases):
            wait = 0.3 * number / (len(first_phases) - 1)
            self.then(at + wait, partial(self.emit, Entered(self.rank, phase)))
        self.then(at + draw.uniform(0.4, 1.5), lambda: training.join(self))


class Training:
    """The training of one attempt: ranks make their steps together. `steps` in all, one takes
    `seconds`."""

    def __init__(self, world: World, attempt: int, size: int, steps: int, seconds: float) -> None:
        self.world, self.attempt, self.size, self.steps = world, attempt, size, steps
        self.seconds, self.step = seconds, 0
        self.members: dict[int, Process] = {}
        self.is_broken = self.is_over = self._is_due = False

    def join(self, process: Process) -> None:
        """A rank has reached the others."""
        process.emit(Entered(process.rank, Phase.JOINING))
        self.members[process.rank] = process
        if self.is_broken:
            self._fail(process)
        elif len(self.members) == self.size:
            for one in self.members.values():
                self._start(one)
            self.go_on()

    def _start(self, process: Process) -> None:
        if process.alive:
            started = (self.size, "cpu", "gloo", "2", 1, 10, self.steps, self.steps, 64, 16)
            process.then(0, lambda: process.emit(Started(process.rank, process.pid, *started)))
            process.then(0, lambda: process.emit(Entered(process.rank, Phase.TRAINING)))

    def go_on(self) -> None:
        """Make the next step, unless one is under way."""
        if len(self.members) == self.size and not self._is_due and not self.is_over:
            self._is_due = True
            self.world.loop.after(self.seconds, self._take_step)

    def _take_step(self) -> None:
        self._is_due = False
        members = self.members.values()
        if self.is_broken or self.is_over or not all(map(_is_able, members)):
            return
        self.step += 1
        for process in members:
            loss = float("nan") if process.rank in self.world.diverging else 1.0 / self.step
            process.emit(StepFinished(process.rank, 1, self.step, loss, self.seconds, samples=8))
        if self.step >= self.steps:
            self.is_over = True
            for process in members:
                self._finish(process)
        else:
            self.go_on()

    def _finish(self, process: Process) -> None:
        def finish() -> None:
            process.emit(Finished(process.rank, 1, self.step, 1.0))
            process.has_finished = True
            process.then(process.host.draw.uniform(0.01, 0.5), lambda: process.exit(0))

        process.then(process.host.draw.uniform(0.01, 0.3), finish)

    def leave(self, process: Process) -> None:
        """A rank has ended: the others' connections to it break."""
        if not (process.has_finished or self.is_broken):
            self.break_off(process)

    def break_off(self, process: Process) -> None:
        """The others' connections to a rank break."""
        self.is_broken = True
        for other in self.members.values():
            if other is not process and not other.has_finished:
                self._fail(other)

    def _fail(self, process: Process) -> None:
        if process.host.draw.random() < 0.1:
            return  # it waits for ever, as NCCL may

        def fail() -> None:
            process.print(1, BROKEN)
            process.then(process.host.draw.uniform(0.0, 0.3), lambda: process.exit(1 << 8))

        process.then(process.host.draw.uniform(0.02, 0.8), fail)


def _is_able(process: Process) -> bool:
    return process.alive and not process.is_stopped and not process.is_hanging
