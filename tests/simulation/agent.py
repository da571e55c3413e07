"""The real agent's decisions on a simulated host: what it asks of pipes, sockets and processes is
answered here."""

from __future__ import annotations

import math
import signal
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from tests.kit.dumps import C10D, LOADS, OUTER, dump
from tests.simulation.here import here
from training.agent.host.redaction import Redaction
from training.agent.journal import Journal
from training.agent.options import Options, Times
from training.agent.ranks.ranks import Ends, Rank, Ranks
from training.agent.ranks.starts import _FAILED, Preload, Starter
from training.agent.server import Agent
from training.wire import commands
from training.wire.enums import EndReason
from training.wire.events import Connected, Event, Hello, HostSample, RankSample, Stack, Text

if TYPE_CHECKING:
    from tests.simulation.host import Host
    from tests.simulation.process import Process

CORES = (12.0, 34.0)
WAITS = dump(*C10D, *OUTER).text
BUSY = LOADS.text
STOPPED = dump(*C10D, *OUTER, state="T (stopped)").text


class Selector:
    """Remembers what to call."""

    def __init__(self) -> None:
        self.callbacks: dict[Any, Callable[[], None]] = {}

    def register(self, what: Any, _: int, act: Callable[[], None]) -> None:
        self.callbacks[what] = act

    def unregister(self, what: Any) -> None:
        self.callbacks.pop(what, None)

    def get_map(self) -> dict[Any, Callable[[], None]]:
        return self.callbacks


class Socket:
    """The agent's end of a follower's connection."""

    def __init__(self, wake: Callable[[], None]) -> None:
        self.inbox = bytearray()
        self.send: Callable[[bytes], None] = lambda _: wake()

    def setblocking(self, _: bool) -> None:
        """It never blocks."""

    def recv(self, _: int) -> bytes:
        data = bytes(self.inbox)
        self.inbox.clear()
        return data

    def close(self) -> None:
        """Nothing is to be given back."""


class Port:
    """A port that the agent has reserved."""

    def __init__(self, number: int) -> None:
        self._number = number

    def getsockname(self) -> tuple[str, int]:
        return "", self._number

    def close(self) -> None:
        """Nothing is to be given back."""


class Pipe:
    """What a rank has printed on one stream, and its agent has not read."""

    def __init__(self, rank: int, stream: str) -> None:
        self.rank, self.stream = rank, stream
        self.lines: list[str] = []

    def read(self) -> list[Text]:
        lines, self.lines = self.lines, []
        return [Text(self.rank, self.stream, "\n".join(lines))] if lines else []


class Memory:
    """What the kernel tells of processes that it killed."""

    def __init__(self) -> None:
        self.kills = 0

    def tick(self) -> None:
        self.kills = 0

    def rose(self) -> bool:
        self.kills, kills = 0, self.kills
        return kills > 0


class HostRanks(Ranks):
    """The real accounts of ranks, whose processes and pipes are simulated."""

    def __init__(self, host: Host, say: Callable[[Event], None]) -> None:
        self._host, self._say = host, say
        self.listen_at = math.inf
        self._live: dict[int, Rank] = {}
        self.out_of_memory: Any = Memory()
        self.failed = self.incomplete = False
        self.exited_at = 0.0

    def open(self, number: int) -> tuple[Rank, Ends]:
        self.failed = self.failed and bool(self._live)
        self.incomplete = self.incomplete and bool(self._live)
        pipes: Any = (Pipe(number, "stdout"), Pipe(number, "stderr"))
        self._live[number] = Rank(number, pipes)
        return self._live[number], (0, 0)

    def hear(self, pipes: Any) -> None:
        """They are read when something comes."""

    def finish(self, pipes: Any) -> None:
        for pipe in pipes:
            for text in pipe.read():
                self._say(text)

    def sweep(self) -> None:
        self._host.kill_all(by_agent=True)


class HostStarter(Starter):
    """The real starts, whose processes are simulated."""

    def __init__(self, host: Host, say: Callable[[Event], None], ranks: HostRanks) -> None:
        self._host, self._say, self._ranks = host, say, ranks
        self._preload: Preload | None = None
        self.attempt = 0

    def start(self, command: commands.Start, listener: Any) -> None:
        self.attempt = command.attempt
        self._host.watch_start(command)
        super().start(command, listener)

    def _start_plainly(self, placement: commands.Placement) -> None:
        rank, _ = self._ranks.open(placement.rank)
        process = self._host.spawn(placement, rank.pipes, self.attempt)
        self._ranks.spawned(rank, process.pid)

    def _start_preload(self, command: commands.Start, listener: Any) -> None:
        for placement in command.placements:
            self._ranks.open(placement.rank)
        preload = self._host.spawn_preload(command.attempt)
        self._preload = Preload(preload.pid, (), -1)  # type: ignore[arg-type]
        preload.then(self._host.draw.uniform(0.2, 1.5), lambda: self._fork(preload, command))

    def _fork(self, preload: Process, command: commands.Start) -> None:
        """Preload forks the ranks, and reports them."""
        ranks = {rank.number: rank for rank in self._ranks.live}
        forked = []
        for placement in command.placements:
            process = self._host.spawn(placement, ranks[placement.rank].pipes, command.attempt)
            process.parent = preload
            forked.append((ranks[placement.rank], process.pid))

        def report() -> None:
            for rank, pid in forked:
                if rank.number in self._ranks._live:
                    self._ranks.spawned(rank, pid)

        self._host.stir(report)

    def reported(self, number: int, status: int) -> None:
        """Preload reports the end of a rank."""
        for rank in self._ranks.live:
            if rank.number == number and self._preload:
                self._ranks.exited(rank, status)

    def _preload_ended(self, status: int) -> None:
        self._preload = None
        if self._ranks.live:
            self._ranks.sweep()
        for rank in self._ranks.live:
            self._ranks.exited(rank, status or _FAILED)


class HostAgent(Agent):
    """The real agent's decisions. `stir` lets something happen to it, and then what follows."""

    def __init__(self, host: Host, options: Options, times: Times) -> None:
        self._host = host
        self._options, self._times, self._guard = options, times, 0
        self._selector: Any = Selector()
        self._journal = Journal(".", options.host, host.segment, host.segment * 4)
        self._said: list[Event] = [host.hello]
        self._redaction = Redaction()
        self._ranks: Any = HostRanks(host, lambda event: self._said.append(event))
        self._starter: Any = HostStarter(host, lambda event: self._said.append(event), self._ranks)
        self._dialler: Any = self
        self._sampler: Any = self
        self._stacks: Any = self
        self._listener: Any = None
        self._connections = []
        self._reserved = None
        self._attempt, self._next_attempt, self._again, self._keep = 0, 0, False, options.keep
        self._asked = None
        self._end_with = None
        self._over = False
        self._alone_since = self._heard_at = here.loop.now
        self._tick_at = self._alone_since + times.tick
        self._kill_at = self._give_up_at = math.inf

    # What the agent asks of its host ----------------------------------------------------------

    due = math.inf

    def expire(self, now: float) -> None:
        """No attempt to connect runs out of time."""

    def dial(self, targets: Any, seconds: float) -> None:
        """Connections to other hosts are made."""
        made = [Connected(address, port, 0.001) for address, port in targets]
        self._host.later(0.01, lambda: self._said.extend(made))

    def host(self) -> HostSample:
        return HostSample(CORES, 1, 2)

    def rank(self, number: int, pid: int) -> RankSample | None:
        if self._host.draw.random() < 0.8:  # most are left out: they decide nothing
            return None
        return RankSample(number, 90.0, 1)

    def ask(self, ranks: Any) -> None:
        """Stacks are asked for."""
        found = [Stack(number, "faulthandler", self._where(pid)) for number, pid in ranks]
        self._host.later(0.1, lambda: self._said.extend(found))

    def _where(self, pid: int) -> str:
        process = self._host.processes.get(pid)
        if process and process.is_stopped:
            return STOPPED
        return BUSY if process and process.is_hanging else WAITS

    def _listen_to_signals(self) -> None:
        """They come from `terminate` and `reap`."""

    def _look_for_guard(self) -> None:
        if not self._host.guarded:
            self._end(EndReason.GUARD_DIED, died=True)

    # What happens to it -----------------------------------------------------------------------

    def accept(self, socket: Socket) -> None:
        """A follower connects."""
        self._listener = Listener(socket)
        self._accept()

    def receive(self, socket: Socket) -> None:
        """A follower has sent something, or is gone."""
        if act := self._selector.callbacks.get(socket):
            act()

    def terminate(self) -> None:
        """SIGTERM has come."""
        self._look_for_guard()
        self._end(EndReason.TERMINATED, died=True)

    def reap(self, pid: int, status: int) -> None:
        """A child has ended."""
        self._starter.reaped(pid, status)

    def kill_out_of_memory(self) -> None:
        """The kernel is about to kill a rank."""
        self._ranks.out_of_memory.kills += 1

    def listen(self) -> None:
        """Read what ranks have printed."""
        for rank in self._ranks.live:
            self._ranks.finish(rank.pipes)

    def turn(self) -> bool:
        """What follows of what has happened. Returns whether the agent goes on. Raises: OSError."""
        self._look_at_clock(here.loop.now)
        self._flush()
        if self._over:
            self._journal.close()
        return not self._over

    @property
    def wakes_at(self) -> float:
        """When it next looks at the clock."""
        return here.loop.now + max(0.001, self._timeout())

    @property
    def attempt(self) -> int:
        """The attempt of its ranks."""
        return self._attempt

    @property
    def keeps(self) -> bool:
        """Whether it goes on without a launcher."""
        return self._keep


class Listener:
    """Where followers connect."""

    def __init__(self, socket: Socket) -> None:
        self._socket = socket

    def accept(self) -> tuple[Socket, None]:
        return self._socket, None


class Ports:
    """The module `training.agent.ranks.ports`."""

    class PortError(Exception):
        """No port can be had."""

    @staticmethod
    def reserve(address: str, port: int) -> Port:
        return Port(29_500 + here.host.index)


class Processes:
    """The module `training.agent.ranks.processes`, for the processes of this host."""

    @staticmethod
    def send_group(pid: int, number: int) -> None:
        here.host.signal(pid, signal.Signals(number))

    @staticmethod
    def end_descendants(_: float) -> list[int]:
        here.host.kill_all(by_agent=True)
        return []


class Kept:
    """The module `training.agent.kept`."""

    @staticmethod
    def write(name: str, text: str) -> str:
        here.host.kept[name] = text
        return ""


__all__ = ["Hello", "HostAgent", "Kept", "Listener", "Ports", "Processes", "Socket"]
