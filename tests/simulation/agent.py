"""The real agent's decisions on a simulated host: what it asks of pipes, sockets and processes is
answered here."""

from __future__ import annotations

import math
import selectors
import signal
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from tests.kit.dumps import C10D, LOADS, OUTER, dump
from tests.simulation.here import here
from training.agent import decide
from training.agent.host import processes
from training.agent.journal import Journal
from training.agent.options import AgentOptions
from training.agent.ranks.before import BeforeCommand
from training.agent.ranks.ranks import Ends, RankProcess, RankProcesses
from training.agent.ranks.starts import _FAILED, PreloadProcess, RankStarter
from training.agent.ranks.step_rows import gather_steps
from training.agent.server import AgentServer
from training.agent.times import AgentTimes
from training.wire import commands
from training.wire.events import Event
from training.wire.host_events import HostSample, OutputText, RankSample, Stack

if TYPE_CHECKING:
    from tests.simulation.host import Host
    from tests.simulation.process import Process

GUARD = 7
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

    def read(self) -> list[OutputText]:
        lines, self.lines = self.lines, []
        return [OutputText(self.rank, self.stream, "\n".join(lines))] if lines else []


class Memory:
    """What the kernel tells of processes that it killed."""

    def __init__(self) -> None:
        self.kills = 0

    def tick(self) -> None:
        self.kills = 0

    def rose(self) -> bool:
        self.kills, kills = 0, self.kills
        return kills > 0


class HostRanks(RankProcesses):
    """The real accounts of ranks, whose processes and pipes are simulated."""

    def __init__(self, _: Any, say: Callable[[Event], None], gather: float, redaction: Any) -> None:
        self._host, self._report_event = here.host, say
        self.listen_at = math.inf
        self._live_ranks: dict[int, RankProcess] = {}
        self.out_of_memory: Any = Memory()

    def open(self, number: int) -> tuple[RankProcess, Ends]:
        pipes, _ = self.open_pipes(number)
        self._live_ranks[number] = RankProcess(number, pipes)
        return self._live_ranks[number], (0, 0)

    def open_pipes(self, number: int) -> tuple[Any, Ends]:
        return (Pipe(number, "stdout"), Pipe(number, "stderr")), (0, 0)

    def hear(self, pipes: Any) -> None:
        """They are read when something comes."""

    def finish(self, pipes: Any) -> None:
        for pipe in pipes:
            for text in pipe.read():
                for event in gather_steps(text):
                    self._report_event(event)

    def sweep(self) -> None:
        self._host.kill_all(by_agent=True)


class HostStarter(RankStarter):
    """The real starts, whose processes are simulated."""

    def __init__(
        self,
        options: AgentOptions,
        _: Any,
        say: Callable[[Event], None],
        ranks: RankProcesses,
        preload: Any,
    ) -> None:
        self._host, self._options, self._report_event, self._ranks = here.host, options, say, ranks
        self._rank_source = ()  # ranks are no forks of the agent
        self._preload: PreloadProcess | None = None
        self.attempt = 0
        self.before = BeforeCommand(options, say, ranks, lambda _: self._host.spawn_before())

    def start(self, command: commands.StartAttempt, listener: Any) -> None:
        self.attempt = command.attempt
        self._host.watch_start(command)
        super().start(command, listener)

    def _start_alone(self, placement: commands.Placement, env: Any) -> None:
        rank, _ = self._ranks.open(placement.rank)
        process = self._host.spawn(placement, rank.pipes, self.attempt)
        self._ranks.spawned(rank, process.pid)

    def _start_preload(self, command: commands.StartAttempt, listener: Any) -> None:
        for placement in command.placements:
            self._ranks.open(placement.rank)
        preload = self._host.spawn_preload(command.attempt)
        self._preload = PreloadProcess(preload.pid, (), -1)  # type: ignore[arg-type]
        preload.then(self._host.draw.uniform(0.2, 1.5), lambda: self._fork_all(preload, command))

    def _fork_all(self, preload: Process, command: commands.StartAttempt) -> None:
        """The preload forks the ranks, and reports them."""
        ranks = {rank.number: rank for rank in self._ranks.live}
        forked = []
        for placement in command.placements:
            process = self._host.spawn(placement, ranks[placement.rank].pipes, command.attempt)
            process.parent = preload
            forked.append((ranks[placement.rank], process.pid))

        def report() -> None:
            for rank, pid in forked:
                if rank.number in self._ranks._live_ranks:
                    self._ranks.spawned(rank, pid)

        self._host.stir(report)

    def reported(self, number: int, status: int) -> None:
        """The preload reports the end of a rank."""
        for rank in self._ranks.live:
            if rank.number == number and self._preload:
                self._ranks.exited(rank, status)

    def _preload_ended(self, status: int) -> None:
        self._preload = None
        if self._ranks.live:
            self._ranks.sweep()
        for rank in self._ranks.live:
            self._ranks.exited(rank, status or _FAILED)


class Dialler:
    """Connections to other hosts, which are always made."""

    due = math.inf

    def __init__(self, _: Any, tell: Callable[..., None]) -> None:
        self._host, self._tell = here.host, tell

    def expire(self, now: float) -> None:
        """No attempt to connect runs out of time."""

    def dial(self, targets: Any, seconds: float) -> None:
        def tell() -> None:
            for address, port in targets:
                self._tell(address, port, 0.001)

        self._host.later(0.01, tell)


class Collector:
    """Stacks of simulated ranks."""

    def __init__(self, _: Any, say: Callable[[Event], None], folder: str) -> None:
        self._host, self._say = here.host, say

    def ask(self, subjects: Any) -> None:
        found = [Stack(one.rank, "faulthandler", self._where(one.pid)) for one in subjects]

        def tell() -> None:
            for stack in found:
                self._say(stack)

        self._host.later(0.1, tell)

    def _where(self, pid: int) -> str:
        process = self._host.processes.get(pid)
        if process and process.is_stopped:
            return STOPPED
        return BUSY if process and process.is_hanging else WAITS


class Sampler:
    """What a host consumes."""

    def __init__(self) -> None:
        self._draw = here.host.draw

    def host(self) -> HostSample:
        return HostSample(CORES, 1, 2)

    def rank(self, number: int, pid: int) -> RankSample | None:
        # Most are left out: they decide nothing.
        return RankSample(number, 90.0, 1) if self._draw.random() < 0.2 else None


class Gpus:
    """A host has none."""

    def __init__(self, *given: object) -> None:
        """Measure nothing."""

    def place(self, *given: object) -> None:
        """Look for no GPU."""

    def sample(self, live: object) -> tuple[()]:
        return ()

    def end(self) -> None:
        """Nothing runs."""


class HostAgent(AgentServer):
    """The real agent of a simulated host, whose loop is taken apart: something happens, then it
    takes a turn."""

    def __init__(self, host: Host, options: AgentOptions, times: AgentTimes) -> None:
        self._host, self._listening = host, Listener()
        here.host = host
        super().__init__(options, self._listening, times, (), GUARD)  # type: ignore[arg-type]

    def accept(self, socket: Socket) -> None:
        """A follower connects."""
        self._listening.sockets.append(socket)
        self.receive(self._listening)

    def receive(self, socket: Any) -> None:
        """A follower has sent something, or is gone."""
        if act := self._selector.get_map().get(socket):
            act()  # type: ignore[operator]

    def terminate(self) -> None:
        """SIGTERM has come."""
        self._look_for_guard()
        self._take_input(decide.Terminated())

    def reap(self, pid: int, status: int) -> None:
        """A child has ended."""
        self._rank_starter.reaped(pid, status)

    def reported(self, number: int, status: int) -> None:
        """The preload has reported the end of a rank."""
        self._rank_starter.reported(number, status)  # type: ignore[attr-defined]

    def kill_out_of_memory(self) -> None:
        """The kernel is about to kill a rank."""
        self._ranks.out_of_memory.kills += 1  # type: ignore[attr-defined]

    def listen(self) -> None:
        """Read what ranks have printed."""
        for rank in self._ranks.live:
            self._ranks.finish(rank.pipes)

    def turn(self) -> bool:
        """What follows of what has happened. Returns whether the agent goes on. Raises: OSError."""
        self._look_at_clock(here.loop.now)
        self._write_pending()
        if self._is_over:
            self._journal.close()
        return not self._is_over

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
        return self._agent_state.keep


class Listener:
    """Where followers connect."""

    def __init__(self) -> None:
        self.sockets: list[Socket] = []

    def setblocking(self, _: bool) -> None:
        """It never blocks."""

    def accept(self) -> tuple[Socket, None]:
        return self.sockets.pop(0), None


class Selectors:
    """The module `selectors`."""

    DefaultSelector, EVENT_READ = Selector, selectors.EVENT_READ


class Facts:
    """The module `training.agent.host.facts`."""

    @staticmethod
    def hello(*_: str) -> dict[str, Any]:
        return here.host.facts


class AgentOs:
    """The module `os` for an agent, whose parent is its guard while that lives."""

    @staticmethod
    def getppid() -> int:
        return GUARD if here.host.guarded else 1


def make_journal(folder: str, host: int) -> Journal:
    """A journal with segments as small as the simulation's."""
    return Journal(folder, host, here.host.segment, here.host.segment * 4)


class Ports:
    """The module `training.agent.host.ports`."""

    class PortError(Exception):
        """No port can be had."""

    @staticmethod
    def reserve_port(address: str, port: int) -> Port:
        return Port(29_500 + here.host.index)


class Processes:
    """The module `training.agent.host.processes`, for the processes of this host."""

    @staticmethod
    def send_group(pid: int, number: int) -> None:
        here.host.signal(pid, signal.Signals(number))

    signal_name = staticmethod(processes.signal_name)

    @staticmethod
    def leftovers(_: float) -> list[str]:
        return []

    @staticmethod
    def end_descendants(_: float) -> list[int]:
        here.host.kill_all(by_agent=True)
        return []


def keep_file(name: str, text: str) -> str:
    """Keep a file in the memory of this host."""
    here.host.kept[name] = text
    return ""
