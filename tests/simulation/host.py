"""A simulated host: its disk, clock, processes, guard and followers around the real agent."""

from __future__ import annotations

import math
import signal
from collections.abc import Callable
from random import Random
from typing import TYPE_CHECKING, Any

from tests.simulation.agent import HostAgent, Socket
from tests.simulation.disk import RESERVE, Disk
from tests.simulation.here import here
from tests.simulation.process import Process
from training.agent import guard as guarding
from training.agent.journal import JournalReader, list_segments, write_last
from training.agent.layout import JOURNAL
from training.agent.options import AgentOptions
from training.agent.times import AgentTimes
from training.wire import commands
from training.wire.enums import EndReason
from training.wire.host_events import AgentEnded

if TYPE_CHECKING:
    from tests.simulation.network import Connection
    from tests.simulation.world import World

FACTS: dict[str, Any] = {
    "hostname": "h",
    "user": "u",
    "pid": 1,
    "python": "3.11",
    "executable": "/usr/bin/python3",
    "platform": "Linux",
    "boot_id": "boot",
    "cores": 2.0,
    "memory": 8 << 30,
    "torch": "2.14",
}
PIDS = 100


class Host:
    """A host. `skew` is how far its clock is ahead; `guarded`: its guard lives, and holds the lock;
    `starts` are the attempts whose ranks were started here; `lacks_records`: its journal was
    tampered with; `lacks_ends`: that was after its agent had ended, which else tells again how
    ranks ended."""

    def __init__(
        self, world: World, index: int, times: AgentTimes, segment: int, draw: Random
    ) -> None:
        self.world, self.index, self.times, self.draw = world, index, times, draw
        self.name, self.segment = f"node{index + 1}", segment
        self.disk = Disk()
        self.skew = 0.0
        self.up, self.guarded, self.stopped = True, False, False
        self.was_orphaned = self.lacks_records = self.lacks_ends = False
        self.agent: HostAgent | None = None
        self.facts = FACTS | {"route_address": f"127.0.0.{index + 1}"}
        self.kept: dict[str, str] = {}
        self.followers: list[Follower] = []
        self.processes: dict[int, Process] = {}
        self.starts: list[int] = []
        self.alone_since = self.found_at = math.inf
        self.fed_at = self.continued_at = 0.0
        self.graces: dict[int, float] = {}
        self.stops_counted = 0
        self._pending: list[Callable[[], None]] = []
        self._wakes_at = math.inf
        self._gathers = False

    def tell(self, what: str) -> None:
        """Add to the story."""
        self.world.tell(self.name, what)

    # The agent ------------------------------------------------------------------------------------

    def stir(self, act: Callable[[], object]) -> None:
        """Let something happen to the agent, and then what follows of it."""
        if not self.agent:
            return
        if self.stopped:
            self._pending.append(lambda: self.stir(act))
            return
        here.host = self
        try:
            act()
            goes_on = self.agent.turn()
        except OSError as error:
            self.tell(f"the agent fails: {error}")
            self.end_agent(1 << 8)
            return
        if goes_on:
            self._sleep(self.agent.wakes_at)
        else:
            self.end_agent(0)

    def _sleep(self, until: float) -> None:
        if until < self._wakes_at or self._wakes_at <= here.loop.now:
            self._wakes_at = until
            here.loop.at(until, lambda: self._wake(until))

    def _wake(self, when: float) -> None:
        if when == self._wakes_at:
            self._wakes_at = math.inf
            self.stir(_nothing)

    def later(self, delay: float, act: Callable[[], object]) -> None:
        """Let something happen to the agent after some seconds."""
        agent = self.agent
        here.loop.after(delay, lambda: self.stir(act) if self.agent is agent else None)

    def gather(self) -> None:
        """Have the agent read what ranks have printed."""
        if not self._gathers:
            self._gathers = True
            here.loop.after(self.times.gather, self._read)

    def _read(self) -> None:
        self._gathers = False
        if agent := self.agent:
            self.stir(agent.listen)

    def found(self, options: AgentOptions) -> None:
        """Start guard and agent."""
        here.host = self
        self.disk.files["reserve"] = bytearray()
        self.disk.room -= RESERVE
        self.guarded, self.alone_since, self.found_at = True, here.loop.now, here.loop.now
        self.agent = HostAgent(self, options, self.times)
        self.stir(_nothing)

    def end_agent(self, status: int) -> None:
        """The agent's process is gone."""
        self.agent, self.stopped, self._wakes_at = None, False, math.inf
        self._pending.clear()
        self.tell(f"the agent is gone, status {status}")
        if self.guarded:
            here.loop.after(self.draw.uniform(0.01, 0.2), lambda: self._clean_up(status))
        self._notify()

    def _clean_up(self, status: int) -> None:
        """The guard's last work."""
        if not self.guarded or not self.up:
            return
        here.host = self
        self.kill_all(by_agent=False)
        if status:
            try:
                code = status >> 8 if status > 127 else -status
                guarding._write_last_record(self.index, code, [])
            except OSError as error:
                self.tell(f"the guard fails: {error}")
        self.guarded = False
        self._notify()

    def _notify(self) -> None:
        for one in list(self.followers):
            here.loop.after(self.draw.uniform(0.001, 0.02), one.look)

    # What happens to it ---------------------------------------------------------------------------

    def kill_agent(self) -> None:
        """SIGKILL to the agent."""
        if self.agent:
            self.end_agent(signal.SIGKILL)

    def kill_guard(self) -> None:
        """SIGKILL to the guard, at which the kernel sends SIGTERM to the agent."""
        if self.guarded:
            self.guarded = False
            if agent := self.agent:
                self.stir(agent.terminate)

    def kill_both(self) -> None:
        """SIGKILL to guard and agent, as if at once."""
        if self.agent and self.guarded:
            self.guarded, self.was_orphaned = False, True
            self.end_agent(signal.SIGKILL)

    def rename_journal(self) -> bool:
        """Rename the first segment of the journal, where there is one."""
        here.host = self
        if not (found := list_segments(".")):
            return False
        name = f"{found[0]:012d}{JOURNAL}"
        self.disk.files[f"{name}.old"] = self.disk.files.pop(name)
        self.lacks_records = True
        self.lacks_ends = self.lacks_ends or self.agent is None
        return True

    def stop_agent(self) -> None:
        """SIGSTOP to the agent."""
        self.stopped = self.agent is not None
        self.stops_counted += 1

    def continue_agent(self) -> None:
        """SIGCONT to the agent."""
        self.stopped, pending, self._pending = False, self._pending, []
        self.continued_at = here.loop.now
        for act in pending:
            act()
        self.stir(_nothing)

    def lose_power(self) -> None:
        """All is gone but the disk."""
        self.up = self.guarded = self.stopped = False
        self.agent = None
        self._pending.clear()
        for one in list(self.followers):
            one.vanish()
        for process in self.processes.values():
            if process.alive:
                process.alive, process.ended_at = False, here.loop.now

    # Processes ------------------------------------------------------------------------------------

    def spawn(self, placement: commands.Placement, pipes: Any, attempt: int) -> Process:
        """A rank's process."""
        process = self._add(placement.rank, attempt, pipes)
        process.ignores_term = self.draw.random() < 0.08
        size = int(dict(placement.env)["WORLD_SIZE"])
        process.work(self.world.training(attempt, size))
        self.world.checks.watch_spawn(process)
        return process

    def spawn_preload(self, attempt: int) -> Process:
        """The process that forks ranks."""
        return self._add(-1, attempt, ())

    def spawn_before(self) -> int:
        """The process of a command that comes before the ranks."""
        process = self._add(-1, 0, ())
        process.then(self.draw.uniform(0.05, 1.0), lambda: process.exit(0))
        return process.pid

    def _add(self, rank: int, attempt: int, pipes: Any) -> Process:
        pid = PIDS + len(self.processes)
        self.processes[pid] = Process(self, pid, rank, attempt, pipes)
        return self.processes[pid]

    def living(self) -> list[Process]:
        """The ranks that have not ended."""
        return [one for one in self.processes.values() if one.alive and one.rank >= 0]

    def signal(self, pid: int, number: signal.Signals) -> None:
        """Signal a process."""
        if process := self.processes.get(pid):
            if number == signal.SIGTERM and process.rank >= 0:
                self.world.checks.watch_term(process)
            process.signal(number)

    def kill_all(self, *, by_agent: bool) -> None:
        """KILL to all below agent and guard."""
        for process in self.processes.values():
            if process.alive:
                if by_agent:
                    self.world.checks.watch_kill(process)
                process.signal(signal.SIGKILL)

    def exited(self, process: Process, status: int) -> None:
        """A process has ended."""
        self.world.checks.watch_exit(process)
        self.tell(f"{process.name} of attempt {process.attempt} ends, status {status}")
        agent, parent = self.agent, process.parent
        if agent is None:
            return
        if parent is None:
            self.later(0.002, lambda: agent.reap(process.pid, status))
        elif parent.alive:
            self.later(0.004, lambda: agent.reported(process.rank, status))
            brothers = (one for one in self.processes.values() if one.parent is parent)
            if not any(one.alive for one in brothers):
                parent.then(0.05, lambda: parent.exit(0))

    def watch_start(self, command: commands.StartAttempt) -> None:
        """The agent starts an attempt."""
        self.starts.append(command.attempt)
        self.world.checks.watch_start(self, command)


class Follower:
    """The process that a connection leads to: it streams the journal, and passes commands in."""

    def __init__(self, host: Host, connection: Connection, options: AgentOptions) -> None:
        self.host, self.connection, self.options = host, connection, options
        self.socket: Socket | None = None
        self.alive, self.is_copying, self.is_open = True, False, False
        self.began = self.fed_at = here.loop.now
        self._rest = b""
        here.host = host
        self.reader = JournalReader(".", options.host, options.after)
        host.followers.append(self)
        self._reach()
        here.loop.after(host.times.input, self._expire)

    def _reach(self) -> None:
        """Connect to the agent, or begin one where there never was one."""
        if not self.alive:
            return
        host = self.host
        here.host = host
        if not host.agent and not host.guarded and not list_segments("."):
            if self.options.after or not self.options.found:
                self._fail("the journal of the run is gone from this host")
                return
            host.found(self.options)
        if host.agent:
            agent, self.socket = host.agent, Socket(self.wake)
            socket = self.socket
            host.alone_since, host.fed_at = math.inf, here.loop.now
            host.stir(lambda: agent.accept(socket))
        elif host.guarded:
            if here.loop.now >= self.began + host.times.last:
                self._fail("its agent does not answer")
            else:
                here.loop.after(0.1, self._reach)
            return
        self.is_open = True
        self.connection.opened()
        self.look()

    def _fail(self, why: str) -> None:
        self.host.tell(f"a follower ends: {why}")
        self.connection.finished(why)
        self.vanish()

    def vanish(self) -> None:
        """It is gone, and nobody hears of it."""
        self.alive = False
        if self in self.host.followers:
            self.host.followers.remove(self)

    def wake(self) -> None:
        """There is more in the journal."""
        if not self.is_copying:
            self.is_copying = True
            here.loop.after(0.005, self.look)

    def look(self) -> None:
        """Copy what is there; once agent and guard are gone, all, and end."""
        self.is_copying = False
        if not self.alive or not self.is_open:
            return
        here.host = self.host
        self._copy()
        if self.host.guarded or self.host.agent:
            return
        try:
            write_last(".", self.host.index, AgentEnded(EndReason.ABANDONED))
        except OSError as error:
            self._fail(f"cannot write: {error}")
            return
        self._copy()
        self.connection.finished("")
        self.vanish()

    def _copy(self) -> None:
        for block in self.reader.blocks():
            self.connection.print(block)

    def feed(self, data: bytes) -> None:
        """Commands have come."""
        if not self.alive:
            return
        self.fed_at = self.host.fed_at = here.loop.now
        agent, socket = self.host.agent, self.socket
        self._watch(data)
        if agent and socket:
            socket.inbox += data
            self.host.stir(lambda: agent.receive(socket) if socket.inbox else None)

    def _watch(self, data: bytes) -> None:
        """Have the checks look at each whole command."""
        *lines, self._rest = (self._rest + data).split(b"\n")
        for line in lines:
            _, meant = self.connection.attempts.popleft()
            if b'"stop"' in line and isinstance(stop := commands.decode(line), commands.Stop):
                self.host.world.checks.watch_stop(self.host, stop, meant)

    def end(self) -> None:
        """Its input has ended."""
        if not self.alive:
            return
        self.vanish()
        agent, socket = self.host.agent, self.socket
        if agent and socket:
            if not any(one.socket for one in self.host.followers):
                self.host.alone_since = here.loop.now
                self.host.world.checks.watch_alone(self.host)
            self.host.stir(lambda: agent.receive(socket))

    def _expire(self) -> None:
        """Without input for too long it ends."""
        due = self.fed_at + self.host.times.input
        if not self.alive:
            return
        if here.loop.now < due:
            here.loop.at(due + 0.001, self._expire)
            return
        self.connection.finished(f"no input for {self.host.times.input:g} s")
        self.end()


def _nothing() -> None:
    """Only time has passed."""
