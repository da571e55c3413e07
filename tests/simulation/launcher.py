"""A real session in virtual time: its mailbox never waits, its threads are turns of the loop."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from queue import Empty
from random import Random
from typing import TYPE_CHECKING, Any

from remote.events import decode, encode, expand
from remote.plan import serialize
from remote.record.snapshots import RunMoment, digest_plan, freeze, thaw
from remote.record.step_chunks import ChunkPlace, ChunkReader, split_chunks
from remote.session.returning import ReturningSession
from remote.session.session import Session
from tests.simulation.here import here
from tests.simulation.network import Link
from training.agent.journal import JournalReader
from training.wire.events import Record

if TYPE_CHECKING:
    from remote.plan.plan import Plan
    from remote.run.output.script_readings import Expand
    from remote.run.run_state import RunState
    from tests.simulation.world import World

SNAPSHOT_LINES = 50
"""Lines of records between two snapshots."""
MOMENT = 0.02
"""Seconds from a message to the turn that takes it."""


class Chunks(ChunkReader):
    """Reads columns of steps in memory."""

    def __init__(self, data: bytearray) -> None:
        self._data = data

    def read(self, place: ChunkPlace) -> bytes:
        chunk = bytes(self._data[place.offset : place.end])
        if len(chunk) < place.size:
            raise ValueError("a power cut has taken it")
        return chunk


class Machine:
    """A machine of an operator: what it has recorded of the run, its clock, its links. `slept` is
    how long it was suspended. `lines` name places in `chunks`."""

    def __init__(self, name: str, hosts: int, draw: Random) -> None:
        self.name = name
        self.lines: list[bytes] = []
        self.chunks = bytearray()
        self.texts: list[Record] = []
        self.snapshot: tuple[int, str, bytes] | None = None
        """After how many lines, of which plan, and the frozen state."""
        self.skew = self.slept = 0.0
        self.links = [Link(draw) for _ in range(hosts)]
        self.launcher: Launcher | None = None

    def record(self, lines: bytes) -> None:
        """Record a line, as `remote.record.write.Recorder` does."""
        short_lines, chunks = split_chunks(lines, len(self.chunks))
        self.chunks += chunks
        self.lines.append(short_lines)

    def restore(self, start: int = 0) -> Iterator[bytes]:
        """Yield the lines from one on as their agents wrote them."""
        yield from map(Chunks(self.chunks).restore, self.lines[start:])

    def lose_chunks(self, size: int) -> None:
        """Lose its power before the last chunks are on its disk, though lines name them."""
        del self.chunks[max(0, len(self.chunks) - size) :]

    def cut_unfinished(self) -> None:
        """Cut the lines whose chunks are lost, as `remote.record.step_chunks` does."""
        whole_lines = 0
        with suppress(ValueError):
            for _ in self.restore():
                whole_lines += 1
        del self.lines[whole_lines:]
        if self.snapshot and self.snapshot[0] > whole_lines:
            self.snapshot = None


class Recorder:
    """Records in memory; see `remote.record.write.Recorder`."""

    folder = Path()

    def __init__(self, launcher: Launcher) -> None:
        self._launcher = launcher

    def raw(self, lines: bytes) -> None:
        if self._launcher.is_alive:
            self._launcher.machine.record(lines)

    def write(self, record: Record) -> None:
        self.raw(encode(record).encode())

    def text(self, record: Record) -> None:
        """The logs decide nothing."""

    def flush(self) -> str:
        return ""

    def update_overview(self, _: Any) -> None:
        """Lists of runs decide nothing."""

    def keep_snapshot(self, state: RunState, expand: Expand) -> None:
        machine = self._launcher.machine
        kept_lines = machine.snapshot[0] if machine.snapshot else 0
        if self._launcher.is_alive and len(machine.lines) >= kept_lines + SNAPSHOT_LINES:
            frozen_state = freeze(state, expand)
            machine.snapshot = len(machine.lines), digest_plan(state.plan), frozen_state

    def leave(self, *_: Any) -> None:
        self.release()

    def close(self, *_: Any) -> str:
        self.release()
        return ""

    def release(self) -> None:
        if self._launcher.machine.launcher is self._launcher:
            self._launcher.machine.launcher = None


class Mailbox:
    """The module `queue`'s SimpleQueue for a session."""

    def __init__(self) -> None:
        self._launcher = here.launcher
        self._messages: deque[Any] = deque()

    def put(self, message: Any) -> None:
        self._messages.append(message)
        self._launcher.wake(MOMENT)

    def get(self, timeout: float) -> Any:
        return self.get_nowait()

    def get_nowait(self) -> Any:
        if not self._messages:
            raise Empty
        return self._messages.popleft()

    def empty(self) -> bool:
        return not self._messages


class _OneTurn:
    """An event of which a thread's loop takes one turn at a time."""

    def __init__(self) -> None:
        self._is_second = True

    def wait(self, _: float) -> bool:
        self._is_second = not self._is_second
        return self._is_second

    def set(self) -> None:
        """Turns end with the launcher."""


class _Lock:
    def __enter__(self) -> None:
        """Nobody else is there."""

    def __exit__(self, *_: object) -> None:
        """Nobody else is there."""


class _Thread:
    def __init__(self, target: Callable[[], None], name: str = "", daemon: bool = True) -> None:
        self._target, self._name = target, name

    def start(self) -> None:
        launcher = here.launcher
        if self._name == "lease":
            launcher.renew(self._target)
        else:
            here.loop.after(launcher.world.draw.uniform(0.2, 3.0), self._target)

    def join(self, timeout: float | None = None) -> None:
        """It has ended."""


class Threading:
    """The module `threading` for a session."""

    Lock, Thread, Event = _Lock, _Thread, _OneTurn


class Files:
    """Transfers that move nothing."""

    def upload(self) -> dict[int, str]:
        return {}

    def fetch(
        self, folder: Path, hosts: tuple[int, ...], expected: object, run_age: float
    ) -> dict[int, str]:
        return {}

    def stop(self) -> None:
        """They end by themselves."""


class Reading:
    """A host's journal, read at once; see `remote.session.returning._Reading`."""

    def __init__(self, transport: Any, plan: Plan, index: int, after: int, limits: Any) -> None:
        self._index, self._after = index, after
        self._name = plan.hosts[index].name

    def records(
        self, problems: list[tuple[int, str]], wanted: Callable[[], bool]
    ) -> Iterator[tuple[bytes, Record]]:
        launcher = here.launcher
        host = launcher.world.hosts[self._index]
        if not host.up or launcher.machine.links[self._index].is_down:
            problems.append((self._index, f"{self._name}: it does not answer"))
            return
        here.host = host
        for block in list(JournalReader(".", self._index, self._after).blocks()):
            for line in block.splitlines(keepends=True):
                if record := decode(line):
                    yield line, record

    def finish(self) -> None:
        """Nothing is open."""


class Launcher:
    """One program that launches a run or comes back to it. `state` is alive, suspended or dead."""

    def __init__(self, world: World, machine: Machine, *, returning: bool) -> None:
        self.world, self.machine = world, machine
        self.returning, self.is_first = returning, not returning
        self.is_alive, self.is_suspended, self.is_over = True, False, False
        self.began = here.loop.now
        machine.cut_unfinished()
        self.begins_at = len(machine.lines)
        self.stops = self.pauses = 0
        self.is_due = False
        self.is_recalling = True
        """Whether it still takes in what is recorded. Its turns then follow without a pause."""
        self._next_tick = 0.0
        here.launcher = self
        machine.launcher = self
        self.session = self._make()
        self.session.__dict__["_files"] = Files()
        self._batches: Any = self.session.batches()
        self.wake(0.0)

    @property
    def name(self) -> str:
        """Who it is, for a story."""
        return f"launcher {self.world.launchers.index(self) + 1} ({self.machine.name})"

    @property
    def is_last_there(self) -> bool:
        """Whether nobody has recorded the run on its machine since."""
        same = [one for one in self.world.launchers if one.machine is self.machine]
        return same[-1] is self

    @property
    def is_live(self) -> bool:
        """Whether it acts."""
        return self.is_alive and not self.is_over

    def tell(self, what: str) -> None:
        """Add to the story."""
        self.world.tell(self.name, what)

    def _make(self) -> Session:
        recorder: Any = Recorder(self)
        transport: Any = None
        world = self.world
        if not self.returning:
            return Session(world.plan, transport, recorder, times=world.times)
        if self.machine.lines:
            past = self._find_snapshot()
            session = Session(world.plan, transport, recorder, times=world.times, past=past)
            session.catch_up(self.recorded(past.offset if past else 0))
            return session
        plan, offsets = serialize.parse(world.kept_plan()), self._offsets()
        return ReturningSession(plan, transport, recorder, "", {}, offsets, times=world.times)

    def _offsets(self) -> dict[int, float]:
        """How far the clocks of the hosts are ahead that it has asked before."""
        links = self.machine.links
        there = [host for host in self.world.hosts if host.up and not links[host.index].is_down]
        return {host.index: host.skew - self.machine.skew for host in there}

    def _find_snapshot(self) -> RunMoment | None:
        """The newest snapshot on its machine; None if there is none of its plan."""
        if self.machine.snapshot is None:
            return None
        line_count, plan_digest, frozen_state = self.machine.snapshot
        if plan_digest != digest_plan(self.world.plan):
            return None
        return RunMoment(*thaw(frozen_state, self.world.plan), line_count)

    def recorded(self, start: int = 0) -> Iterator[Record]:
        """What its machine has recorded from a line on, expanded."""
        for line in self.machine.restore(start):
            if record := decode(line):
                yield from expand(record)

    # Turns ----------------------------------------------------------------------------------------

    def wake(self, delay: float) -> None:
        """Take a turn soon."""
        if not self.is_due:
            self.is_due = True
            here.loop.after(delay, self._turn)

    def _turn(self) -> None:
        self.is_due = False
        if self.is_suspended or not self.is_live:
            return
        here.launcher = self
        try:
            for record in next(self._batches):
                self.world.checks.watch_record(self, record)
        except StopIteration:
            self.is_over = True
            self.tell(f"is over: {self.session.state.verdict}")
            self.world.checks.watch_end(self)
            return
        if self.is_recalling:
            self.wake(MOMENT)
            return
        when = here.loop.now + self.world.times.tick
        if when > self._next_tick:
            self._next_tick = when
            here.loop.at(when, self._tick)

    def _tick(self) -> None:
        if here.loop.now >= self._next_tick:
            self.wake(0.0)

    def renew(self, act: Callable[[], None]) -> None:
        """Renew leases from now on."""
        self.is_recalling = False

        def turn() -> None:
            if not self.is_live:
                return
            if not self.is_suspended:
                here.launcher = self
                act()
            here.loop.after(self.world.times.lease, turn)

        here.loop.after(self.world.times.lease, turn)

    # What happens to it ---------------------------------------------------------------------------

    def kill(self, *, notice: bool = True) -> None:
        """It is gone. `notice`: its machine closes the connections."""
        if not self.is_live:
            return
        self.is_alive = False
        self.machine.launcher = None
        # It may have written a chunk, but not the line that names it.
        self.machine.chunks += b"a chunk without a line"
        for link in self.machine.links:
            for connection in list(link.connections):
                if connection.launcher is self:
                    connection.lose_launcher(notice=notice)

    def forget(self) -> None:
        """The simulation is over."""
        self.is_alive = False
        here.launcher = self
        self._batches.close()

    def suspend(self, seconds: float, *, machine: bool = False) -> None:
        """It stands still for some seconds. `machine`: and with it its clock."""
        self.is_suspended = True
        self.pauses += 1

        def go_on() -> None:
            self.is_suspended = False
            if machine:
                self.machine.slept += seconds
            self.wake(0.0)

        here.loop.after(seconds, go_on)

    def stop(self, *, now: bool = False) -> None:
        """A person stops the run here."""
        if self.is_live:
            self.stops += 1
            self.session.stop(now=now)
            self.world.checks.watch_person(self, waits=now or self.stops == 1)

    def detach(self) -> None:
        """A person leaves the run."""
        if self.is_live:
            self.session.detach()
