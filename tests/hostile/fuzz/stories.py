"""Random records: what a live session is told by hosts that lie, and what a recorded run may hold.

Each story is of one seed. An honest run goes on in it, so that the records in between meet a state
in which much has happened.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from random import Random
from typing import Any

from remote import events as launcher
from remote.cluster.hosts import Host
from remote.events import LAUNCHER_EVENTS
from remote.events import decode as decode_fast
from remote.limits import LIMITS
from remote.metrics.gather import RunCollector
from remote.plan.plan import OnNan, OnStall, Plan, Policy, Script
from remote.plan.serialize import OtherFormat
from remote.record.events_file import RecordParser
from remote.run.apply import apply_record
from remote.run.output.script_readings import expander
from remote.run.run_state import RunState
from remote.session import actions, user_requests, watchdog
from remote.session.controller import Controller
from remote.session.intake import Intake
from remote.session.times import TIMES
from remote.transport.failure import Failure, FailureCause
from tests.hostile.fuzz.budget import Budget
from tests.hostile.fuzz.drawing import Drawer, Object, World
from tests.hostile.fuzz.shown import Show
from training.job import Job
from training.wire import commands, events, host_events, rank_events
from training.wire.commands import Command
from training.wire.enums import EndReason
from training.wire.events import PREFIX, SESSION, Record, to_object
from training.wire.format import READABLE
from training.wire.jsonl import dumps
from training.wire.step_block import decode_rows, encode_row, pack_rows

LENGTH = 250
"""Records of a story."""
LOOKS = 100
"""Records after which the run is looked at."""
KEPT = 8
"""The newest lines of a story, which are told where it fails."""
MODELS = (
    Job(),
    Job(sync="ddp", model="lenet5", steps=40, checkpoint_every="10"),
    Job(sync="parameter_server", epochs=2),
    Job(sync="local_sgd", compile=True),
    Script(("train.py",)),
    Script(("train.py", "--epochs", "3"), watch=False, follow=("*.csv",)),
)


def draw_plan(random: Random) -> Plan:
    """Draw the plan of a run on a few hosts."""
    hosts = tuple(
        Host(
            f"node{number}",
            random.choice((f"10.0.0.{number}", "127.0.0.1")),
            slots=random.choice((1, 1, 2, 3)),
        )
        for number in range(1, random.choice((1, 2, 2, 3, 4)) + 1)
    )
    policy = Policy(
        keep=random.random() < 0.5,
        max_restarts=random.choice((0, 0, 1, 5)),
        min_nodes=random.choice((0, 0, 1)),
        on_stall=random.choice(list(OnStall)),
        on_nan=random.choice(list(OnNan)),
    )
    return Plan("20261120-093000-a-run-3f9a", hosts, random.choice(MODELS), policy)


@dataclass
class Story:
    """One story. `lines` are the newest that were taken in, `taken` counts all."""

    seed: int
    budget: Budget
    length: int = LENGTH
    lines: deque[bytes] = field(default_factory=lambda: deque(maxlen=KEPT))
    taken: int = 0

    def run(self) -> None:
        """Tell it. Raises: whatever the product raises, and AssertionError where it is wrong."""
        random = Random(self.seed)
        plan = draw_plan(random)
        drawer = Drawer(random, strange=random.choice((0.02, 0.1, 0.3, 0.6)))
        kind = random.choice((_Live, _Live, _Recorded))
        told = kind(plan, drawer, self.budget, returned=random.random() < 0.2)
        self.budget.renew()
        told.begin()
        while self.taken < self.length:
            line = told.next_line()
            if line is None:
                break
            self.lines.append(line)
            self.taken += 1
            self.budget.renew()
            told.take(line)
            if self.taken % LOOKS == 0:
                told.look()
        told.look()
        told.end()
        self.budget.stop()


class _Mutated:
    """Makes lines of what hosts and launchers may say, and spoils some."""

    def __init__(self, drawer: Drawer) -> None:
        self._drawer, self._random = drawer, drawer.random

    def line(self, head: Object, body: Object, spoils: float) -> bytes:
        """The line of a record, perhaps a spoiled one."""
        random = self._random
        if random.random() < spoils:
            head, body = random.choice(
                (
                    (self._drawer.spoiled(head), body),
                    (head, self._drawer.spoiled(body)),
                    (head, self._drawer.spoiled(body)),
                )
            )
        data = dumps(head | body).encode("utf-8", "backslashreplace")
        if random.random() < spoils / 4:
            data = self._torn(data)
        return data + b"\n"

    def _torn(self, data: bytes) -> bytes:
        """The line with some of its bytes changed."""
        random = self._random
        at = random.randrange(len(data))
        match random.randrange(6):
            case 0:
                return data[:at]
            case 1:
                return data[:at] + bytes([random.randrange(256)]) + data[at + 1 :]
            case 2:
                return data[:at] + data[at // 2 :]
            case 3:
                return data[:-1] + b"," + data[1:]
            case 4:
                depth = random.choice((10, 1_000, 100_000))
                return data[:-1] + b',"deep":' + random.choice((b"[", b'{"a":')) * depth
        return data.replace(b":", b":" + b"9" * random.choice((30, 400, 5_000)), 1)

    def in_text(self, rank: int, body: Object, spoils: float) -> Object:
        """What a rank reports: a line of its output."""
        random = self._random
        if random.random() < spoils:
            body = self._drawer.spoiled(body)
        line = PREFIX + dumps(body)
        if random.random() < spoils:
            line = random.choice((line[:-1], line + "}", " " + line, line * 2, line + "\n" + line))
        if random.random() < 0.1:
            line = f"before\n{line}\nafter"
        return to_object(host_events.OutputText(rank, "stdout", line))


class _CheckedIntake(Intake):
    """An intake that lets no error of ours pass for one of the host."""

    def _take_in(self, record: Record, line: bytes, view: Any) -> None:
        try:
            super()._take_in(record, line, view)
        except Exception as error:
            raise OurMistake(f"{type(error).__name__}: {error}") from error


class OurMistake(BaseException):
    """A record was not refused and could not be taken in: the launcher would lose its host for
    it."""


class Nowhere:
    """Records go nowhere."""

    def write(self, record: Record) -> None:
        launcher.encode(record)

    def raw(self, lines: bytes) -> None:
        assert lines.endswith(b"\n")

    def text(self, record: Record) -> None:
        if isinstance(record.event, host_events.OutputText):
            record.event.text.encode("utf-8", "backslashreplace")


@dataclass
class _Agent:
    """A host as it would be if it were honest."""

    index: int
    world: World
    seq: int = 0
    runs: bool = False
    waiting: deque[events.Event] = field(default_factory=deque)
    is_gone: bool = False


class _Live:
    """A session, and hosts that answer its commands and send anything between."""

    def __init__(self, plan: Plan, drawer: Drawer, budget: Budget, *, returned: bool) -> None:
        self._plan, self._drawer, self._random = plan, drawer, drawer.random
        self._budget, self._returned = budget, returned
        self._controller = Controller(plan, Nowhere(), {}, TIMES)
        self._controller._intake = _CheckedIntake(plan, self._controller.ledger, LIMITS)
        self._mutated = _Mutated(drawer)
        self._now = 1_795_000_000.0
        self._agents = [
            _Agent(host, World(len(plan.hosts), plan.world_size, _own(plan, host), 0, self._now))
            for host in range(len(plan.hosts))
        ]
        self._speaker = self._agents[0]
        self._show = Show(plan, self._random)

    def begin(self) -> None:
        """Begin the run, or return to it."""
        if self._returned:
            self._controller.attach(self._now)
        else:
            self._controller.begin(self._now)
        for agent in self._agents:
            self._controller.take_open(agent.index, self._now)
            agent.waiting.append(_hello(agent.index))
        self._settle()

    def next_line(self) -> bytes | None:
        """Draw who speaks next, and what it says; None where nobody is left."""
        present = [agent for agent in self._agents if not agent.is_gone]
        if self._controller.is_over or not present:
            return None
        self._speaker = self._random.choice(present)
        agent = self._speaker
        self._go_on(agent)
        is_honest = bool(agent.waiting) and self._random.random() < 0.9
        if is_honest:
            return self._line(agent, to_object(agent.waiting.popleft()), honest=True)
        if agent.runs and self._random.random() < 0.4:
            return self._line(agent, self._step(agent), honest=True)
        if self._random.random() < 0.02:
            return self._noise()
        kind = self._random.choice(events.EVENTS)
        body = {"event": kind.wire_name} | self._drawer.object(kind, agent.world)
        if kind in rank_events.RANK_EVENTS and self._random.random() < 0.8:
            rank = self._drawer.rank(agent.world)
            body = self._mutated.in_text(rank, body, spoils=0.05)
        if kind in (host_events.AgentEnded, host_events.Exited) and self._random.random() < 0.9:
            body = self._step(agent)  # else it would soon be over
        return self._line(agent, body, honest=False)

    def _noise(self) -> bytes:
        """Draw what is no record."""
        length = self._random.choice((0, 1, 20, 3_000))
        return self._random.choice((b"", b"{", b"[" * 900)) + self._random.randbytes(length) + b"\n"

    def _go_on(self, agent: _Agent) -> None:
        """Let time pass."""
        passed = self._random.choice((0.0, 0.001, 0.01, 0.1, 0.1, 1.0, 5.0))
        if self._random.random() < 0.01:
            passed = self._random.choice((31.0, 61.0, 3_600.0))
        self._now += passed
        agent.world.time = self._now
        if agent.runs:
            agent.world.step += 1

    def _step(self, agent: _Agent) -> Object:
        """An honest step of one of the host's ranks, or a sample, or lines."""
        world = agent.world
        rank = self._random.choice(world.own)
        which = self._random.randrange(10)
        if which < 7:
            seconds = self._random.uniform(0.09, 0.11) * (3.0 if rank == 1 else 1.0)
            step = rank_events.StepFinished(
                rank,
                1 + world.step // 10,
                world.step,
                2.0 / (1 + world.step),
                seconds,
                0.01,
                seconds - 0.03,
                0.02,
                seconds - 0.03,
                seconds,
                32,
                16,
                1_000,
            )
            row = decode_rows(encode_row(step, world.time))
            assert row is not None
            return to_object(pack_rows(row))
        if which == 7:
            return to_object(host_events.RankSample(rank, 90.0, 1 << 28))
        if which == 8:
            return to_object(host_events.HostSample((50.0, 60.0), 1 << 30, 1 << 32))
        return to_object(host_events.OutputText(rank, "stderr", self._drawer.text(world)))

    def _line(self, agent: _Agent, body: Object, *, honest: bool) -> bytes:
        """The line of a record of this host. One that lies may lie about all that stands around
        the event."""
        seq, attempt, host, when = agent.seq + 1, agent.world.attempt, agent.index, self._now
        if not honest and self._random.random() < 0.05:
            seq, attempt, host, when = self._forged(seq, attempt, host, when)
        head: Object = {"host": host, "attempt": attempt, "seq": seq, "time": when}
        if seq == events.FIRST:
            head["format"] = self._random.choice(READABLE)
        return self._mutated.line(head, body, 0.0 if honest else 0.02)

    def _forged(self, seq: Any, attempt: Any, host: Any, when: Any) -> tuple[Any, Any, Any, Any]:
        drawer, world = self._drawer, self._speaker.world
        match self._random.randrange(4):
            case 0:
                seq = self._random.choice((seq + 5, 1, 0, seq + 2**31, drawer.int(world)))
            case 1:
                attempt = self._random.choice((attempt + 1, -1, drawer.int(world)))
            case 2:
                host = self._random.choice((-1, host + 1, drawer.int(world)))
            case _:
                step = self._random.choice((-1e9, -100.0, 100.0, 1e9))
                when = self._random.choice((0, when + step, drawer.float(world)))
        return seq, attempt, host, when

    def take(self, line: bytes) -> None:
        """The session takes in a line, decides and acts."""
        agent = self._speaker
        _check_decoding(line)
        why = self._controller.take_lines(agent.index, [line], self._now)
        assert why.isprintable() or why.replace("\n", "").isprintable(), ascii(why)
        agent.seq = self._controller.state.hosts[agent.index].seq
        if why:
            agent.is_gone = True
        self._settle()
        state = self._controller.state
        agent.is_gone |= state.hosts[agent.index].done
        ledger = self._controller.ledger
        batch, ledger.batch = ledger.batch, []
        self._show.take(batch, state)

    def _settle(self) -> None:
        """Let the session decide; the hosts hear of it."""
        if self._random.random() < 0.003:
            self._ask()
        for action in self._controller.settle(self._now):
            match action:
                case actions.Send(on, command):
                    self._answer(self._agents[on], command)
                case actions.Open(on):
                    self._open(self._agents[on])
                case actions.Upload():
                    self._controller.take_transfer("upload", {}, self._now)
                case actions.Fetch():
                    self._controller.take_transfer("fetch", {}, self._now)

    def _open(self, agent: _Agent) -> None:
        """A connection comes to be, or not."""
        if agent.is_gone:
            failure = Failure(FailureCause.REFUSED, "does not answer")
            self._controller.take_broken(agent.index, failure, self._now, in_use=False, fed=False)
        else:
            self._controller.take_open(agent.index, self._now)

    def _ask(self) -> None:
        """A person asks for something, or a connection breaks."""
        match self._random.randrange(4):
            case 0:
                self._controller.follow(watchdog.ask_stacks, self._now)
            case 1:
                stop = partial(user_requests.stop, stop_reason="stopped by the user", now=False)
                self._controller.follow(stop, self._now)
            case 2:
                self._controller.follow(user_requests.detach, self._now)
            case _:
                agent = self._random.choice(self._agents)
                failure = Failure(FailureCause.BROKEN, "it broke")
                self._controller.take_broken(agent.index, failure, self._now, in_use=True, fed=True)

    def _answer(self, agent: _Agent, command: Command) -> None:
        """What an honest agent answers to a command."""
        own = agent.world.own
        match command:
            case commands.Reserve(address):
                agent.waiting.append(host_events.Reserved(address, 29_500))
            case commands.Connect(targets):
                agent.waiting += [host_events.Connected(*target, 0.001) for target in targets]
            case commands.StartAttempt(attempt=attempt, placements=placements, hosts=hosts):
                agent.world.attempt = attempt
                agent.world.own = tuple(placement.rank for placement in placements) or own
                agent.runs = True
                self._start(agent, agent.world.own, hosts)
            case commands.Stacks():
                agent.waiting += [self._stack(rank) for rank in own]
            case commands.Stop():
                agent.waiting.append(host_events.StopHeard(command.by_person))
                if agent.runs:
                    agent.waiting += [
                        host_events.Exited(rank, -15, "SIGTERM", True) for rank in own
                    ]
                agent.runs = False
            case commands.Close():
                agent.waiting.append(host_events.AgentEnded(EndReason.CLOSED))

    def _stack(self, rank: int) -> host_events.Stack:
        source = self._random.choice(("faulthandler", "py-spy", "kernel"))
        return host_events.Stack(rank, source, self._drawer.text(World(1, 1)))

    def _start(self, agent: _Agent, ranks: Sequence[int], hosts: tuple[int, ...]) -> None:
        agent.waiting.append(host_events.Launched(tuple(ranks), hosts))
        agent.waiting += [host_events.Spawned(rank, 100 + rank) for rank in ranks]
        if self._plan.job is None:
            return
        for rank in ranks:
            started = rank_events.Started(
                rank, 1, self._plan.world_size, "cpu", "gloo", "2.14", 1, 61_706, 40, 10, 640, 100
            )
            agent.waiting.append(
                host_events.OutputText(rank, "stdout", PREFIX + dumps(to_object(started)))
            )

    def look(self) -> None:
        """Show the run in all ways."""
        self._show.look(self._controller.state, self._now, self._budget)

    def end(self) -> None:
        """Show how it ends."""
        self._show.end(self._controller.state)


class _Recorded:
    """The state of a run whose record anybody may have written: launchers lie in it, too."""

    def __init__(self, plan: Plan, drawer: Drawer, budget: Budget, *, returned: bool) -> None:
        self._plan, self._drawer, self._random = plan, drawer, drawer.random
        self._budget = budget
        self._mutated = _Mutated(drawer)
        self._parser = RecordParser(plan.run, len(plan.hosts), expander(plan))
        self._state, self._gathered = RunState(plan), RunCollector()
        self._world = World(len(plan.hosts), plan.world_size, time=1_795_000_000.0)
        self._show = Show(plan, self._random)
        self._seq = 0
        self._opening = deque[tuple[int, events.Event]]()

    def begin(self) -> None:
        """An honest beginning, mostly."""
        if self._random.random() < 0.2:
            return
        hosts = range(len(self._plan.hosts))
        self._opening += [(host, _hello(host)) for host in hosts]
        self._opening.append((SESSION, launcher.Preparing(tuple(hosts))))
        self._opening.append((SESSION, launcher.Starting()))
        for host in hosts:
            ranks = _own(self._plan, host)
            self._opening.append((host, host_events.Launched(ranks, tuple(hosts))))
            self._opening += [(host, host_events.Spawned(rank, 1)) for rank in ranks]
            self._opening += [(host, _started(rank, self._plan)) for rank in ranks]

    def next_line(self) -> bytes | None:
        """Draw the next line of the record."""
        world = self._world
        world.time += self._random.choice((0.0, 0.001, 0.1, 0.1, 1.0, 40.0))
        if self._opening:
            host, event = self._opening.popleft()
            body = to_object(event) if host != SESSION else launcher.to_object(event)
            return self._line(host, body, spoils=0.0)
        kinds = LAUNCHER_EVENTS if self._random.random() < 0.25 else events.EVENTS
        kind = self._random.choice(kinds)
        if kind in (
            launcher.SessionClosed,
            launcher.Detached,
            host_events.AgentEnded,
            launcher.HostLost,
        ):
            kind = self._random.choice((kind, rank_events.StepFinished))
        host = SESSION if kinds is LAUNCHER_EVENTS else self._random.randrange(world.hosts)
        world.own = _own(self._plan, max(host, 0))
        world.step += self._random.random() < 0.5
        body = {"event": kind.wire_name} | self._drawer.object(kind, world)
        if kind in rank_events.RANK_EVENTS and self._random.random() < 0.5:
            body = self._mutated.in_text(self._drawer.rank(world), body, spoils=0.02)
        return self._line(host, body, spoils=0.03)

    def _line(self, host: int, body: Object, spoils: float) -> bytes:
        self._seq += 1
        world = self._world
        head: Object = {"host": host, "attempt": world.attempt, "seq": self._seq}
        head["time"] = world.time
        if self._seq == events.FIRST:
            head["format"] = self._random.choice(READABLE)
        if spoils and self._random.random() < 0.05:
            name = self._random.choice(("attempt", "seq", "time", "host"))
            head[name] = self._drawer.int(world)
        if spoils and self._random.random() < 0.02:
            world.attempt += 1
        return self._mutated.line(head, body, spoils)

    def take(self, line: bytes) -> None:
        """Read a line as it is read from a record."""
        _check_decoding(line)
        try:
            records = list(self._parser.parse([line]))
        except OtherFormat:
            return
        for record in records:
            apply_record(self._state, record)
            self._gathered.take(record, self._state, 0)
        self._show.take(records, self._state)

    def look(self) -> None:
        """Show the run in all ways."""
        self._show.look(self._state, self._world.time, self._budget)

    def end(self) -> None:
        """Show how it ends, and what it amounts to."""
        self._show.end(self._state)
        self._show.figures(self._state, self._gathered)


def _own(plan: Plan, host: int) -> tuple[int, ...]:
    return tuple(slot.rank for slot in plan.slots if slot.host == host)


def _hello(host: int) -> host_events.Hello:
    return host_events.Hello(
        f"node{host + 1}",
        "me",
        7,
        "3.11.9",
        "/usr/bin/python3",
        "Linux",
        f"boot{host}",
        4.0,
        1 << 33,
        torch="2.14.0",
        route_address=f"10.0.0.{host + 1}",
        route_interface="eth0",
        interfaces=(("eth0", f"10.0.0.{host + 1}", 24),),
        memory_free=1 << 32,
        disk_free=1 << 40,
    )


def _started(rank: int, plan: Plan) -> rank_events.Started:
    of = ("cpu", "gloo", "2.14.0", 1, 61_706, 40, 10, 640, 100)
    return rank_events.Started(rank, 100 + rank, plan.world_size, *of)


def _check_decoding(line: bytes) -> None:
    """The two decoders agree on a line, and say why it is no record.

    That of launchers is quicker; the other one runs on hosts."""
    told, fast = events.decode(line), decode_fast(line)
    if told is None:
        events.fault(line)
        why = launcher.fault(line)
        assert fast is None or isinstance(fast.event, LAUNCHER_EVENTS), line[:300]
        assert not (fast and why), (why, line[:300])
        return
    assert repr(told) == repr(fast), line[:300]
    assert events.fault(line) == ""


def stories(first: int, budget: Budget) -> Iterator[Story]:
    """All stories from this seed on."""
    seed = first
    while True:
        yield Story(seed, budget)
        seed += 1
