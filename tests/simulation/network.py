"""Connections between launchers and hosts: bytes that are late, cut in the middle of lines, held
back while a link is down, or lost with it."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from random import Random
from typing import TYPE_CHECKING, Any

from remote.cluster.hosts import Host as HostEntry
from remote.events import HostPhaseChanged
from remote.limits import LIMITS, Limits
from remote.session import connection as messages
from remote.transport import AgentCommand
from remote.transport.failure import Failure, FailureCause
from tests.simulation.here import here
from training.agent.options import AgentOptions
from training.wire.commands import Command, encode
from training.wire.enums import Reach
from training.wire.events import Event
from training.wire.line_cutter import LineCutter

if TYPE_CHECKING:
    from tests.simulation.host import Follower
    from tests.simulation.launcher import Launcher

TIMEOUT = 5.0
"""Seconds after which a host that does not answer counts as unreachable."""
FAST = 0.02
"""Seconds that bytes take."""
SURVIVES = 20.0
"""Seconds without a link that most connections outlive."""


class Link:
    """The way between one launcher's machine and one host. `is_down`: nothing gets through."""

    def __init__(self, draw: Random) -> None:
        self.draw = draw
        self.is_down = False
        self.latency = draw.choice((0.001, 0.02, 0.2))
        self.connections: list[Connection] = []
        self._cuts = 0

    def hurry(self) -> None:
        """It is as fast as ever."""
        self.latency = FAST

    def cut(self, seconds: float) -> None:
        """The link is down for some seconds."""
        self._cuts += 1
        number, self.is_down = self._cuts, True
        here.loop.after(seconds, lambda: self._restore(number, seconds))
        for connection in list(self.connections):
            patience = self.draw.uniform(8.0, 40.0)
            if patience < seconds:
                here.loop.after(patience, lambda one=connection: one.notice())  # type: ignore[misc]

    def _restore(self, number: int, seconds: float) -> None:
        if number != self._cuts:
            return  # it was cut again
        self.is_down = False
        for connection in list(self.connections):
            if seconds > self.draw.uniform(SURVIVES / 2, SURVIVES * 2):
                connection.break_off("the connection broke")
            else:
                connection.resume()

    def reset(self) -> None:
        """All connections break, and both ends see it."""
        for connection in list(self.connections):
            connection.break_off("the connection was reset")


class Stream:
    """One direction of a connection: what is sent comes in order, or not at all."""

    def __init__(self, link: Link) -> None:
        self._link = link
        self._waiting: deque[Callable[[], None]] = deque()
        self._last = 0.0
        self.is_dead = False

    def send(self, act: Callable[[], None], more: float = 0.0) -> None:
        """Have this happen at the other end."""
        self._waiting.append(act)
        delay = self._link.latency * self._link.draw.uniform(0.5, 1.5) + more
        self._last = max(self._last, here.loop.now + delay)
        here.loop.at(self._last, self._arrive)

    def _arrive(self) -> None:
        if self._waiting and not self._link.is_down and not self.is_dead:
            self._waiting.popleft()()

    def resume(self) -> None:
        """What was held back comes."""
        while self._waiting and not self.is_dead:
            self._waiting.popleft()()

    def kill(self) -> None:
        """Nothing more comes."""
        self.is_dead = True
        self._waiting.clear()


class _Room:
    def release(self, _: int = 1) -> None:
        """Reads are never held up."""


def broken(why: str) -> Failure:
    """Return the failure of a connection that ended."""
    return Failure(FailureCause.BROKEN, why)


class Connection:
    """What a session takes for `remote.session.connection.Connection`."""

    room = _Room()
    held_up = 0.0
    is_closing = False

    def __init__(
        self, index: int, host: HostEntry, put: Callable[[Any], None], limits: Limits = LIMITS
    ) -> None:
        self.index, self.host, self.put = index, host, put
        self.launcher: Launcher = here.launcher
        self.link = self.launcher.machine.links[index]
        self.fed = self.is_closed = False
        self.follower: Follower | None = None
        self.attempts: deque[tuple[bytes, int]] = deque()
        """The commands that were sent, each with the attempt that it was meant for."""
        self._cutter = LineCutter(limits.line)
        self._up, self._down = Stream(self.link), Stream(self.link)
        self._until = 0.0

    # What the session does ------------------------------------------------------------------------

    def open(self, _: Any, agent: AgentCommand) -> None:
        """Reach the host."""
        self.link.connections.append(self)
        self._say(HostPhaseChanged(self.index, Reach.CONNECTING))
        self._until = here.loop.now + TIMEOUT
        here.loop.after(self.link.draw.uniform(0.05, 1.0), lambda: self._reach(agent))

    def _say(self, event: Event) -> None:
        self.put(messages.Heard(event))

    def _reach(self, agent: AgentCommand) -> None:
        host = self.launcher.world.hosts[self.index]
        if self.is_closed or not self.launcher.is_alive:
            return
        if self.link.is_down or not host.up:
            if here.loop.now < self._until:
                here.loop.after(0.5, lambda: self._reach(agent))
            else:
                self._fail("timed out")
            return
        self._say(HostPhaseChanged(self.index, Reach.STARTING))
        from tests.simulation.host import Follower

        options = AgentOptions(
            agent.folder, agent.run, agent.host, agent.after, agent.keep, found=agent.found
        )
        self.follower = Follower(host, self, options)

    def _fail(self, why: str) -> None:
        self._leave()
        self.put(messages.Broken(self, broken(why)))  # type: ignore[arg-type]

    def whole_lines(self, data: bytes) -> list[bytes]:
        """The complete lines of what has arrived."""
        self.fed = True
        return self._cutter.feed(data)

    def send(self, command: Command) -> None:
        """Send a command."""
        if self.is_closed or self.follower is None:
            return
        data, follower = encode(command), self.follower
        self.attempts.append((data, self.launcher.session.state.attempt))
        if self.link.draw.random() < 0.05 and len(data) > 1:  # two reads make a line
            cut = self.link.draw.randrange(1, len(data))
            first, last = data[:cut], data[cut:]
            self._up.send(lambda: follower.feed(first))
            self._up.send(lambda: follower.feed(last))
        else:
            self._up.send(lambda: follower.feed(data))

    def close(self, *, unsent: bool = True) -> None:
        """Take nothing more from it."""
        if self.is_closed or not self.launcher.is_alive:
            return
        self.is_closed = True
        if self.follower:
            self._up.send(self.follower.end)
        self._up.send(self._leave)

    def wait(self, until: float) -> None:
        """It is closed in virtual time."""

    def _leave(self) -> None:
        if self in self.link.connections:
            self.link.connections.remove(self)

    # What the host does ---------------------------------------------------------------------------

    def opened(self) -> None:
        """The follower has written its marker."""
        self._down.send(lambda: self._put(messages.Opened(self)))  # type: ignore[arg-type]

    def print(self, block: bytes) -> None:
        """The follower writes some lines, which may come in two parts."""
        draw = self.link.draw
        cut = draw.randrange(len(block)) if draw.random() < 0.1 else 0
        for part in (block[:cut], block[cut:]):
            if part:
                self._down.send(lambda data=part: self._bring(data), draw.choice((0.0, 0.0, 0.3)))  # type: ignore[misc]

    def _bring(self, data: bytes) -> None:
        self._put(messages.Arrived(self, data))  # type: ignore[arg-type]

    def _put(self, message: Any) -> None:
        if not self.is_closed and self.launcher.is_alive:
            self.put(message)

    def finished(self, why: str) -> None:
        """The follower has ended."""
        self._down.send(lambda: self._end(why or "the connection broke"))

    def _end(self, why: str) -> None:
        self._leave()
        self._put(messages.Broken(self, broken(why)))  # type: ignore[arg-type]

    # What the network does ------------------------------------------------------------------------

    def notice(self) -> None:
        """This end has waited too long for the link."""
        if self.link.is_down and not self._down.is_dead:
            self._down.kill()
            self._put(messages.Broken(self, broken("no answer")))  # type: ignore[arg-type]

    def break_off(self, why: str) -> None:
        """Both ends see that the connection is gone."""
        was_dead = self._down.is_dead
        self._up.kill()
        self._down.kill()
        if self.follower:
            self.follower.end()
        if not was_dead:
            self._put(messages.Broken(self, broken(why)))  # type: ignore[arg-type]
        self._leave()

    def resume(self) -> None:
        """What the link held back comes."""
        self._up.resume()
        self._down.resume()

    def lose_launcher(self, *, notice: bool) -> None:
        """The launcher is gone. `notice`: its machine says so."""
        if notice and self.follower:
            self._up.send(self.follower.end)
            self._up.send(self._leave)
        elif not notice:
            self._up.kill()
