"""A session that a test acts out: it says records, and the dashboard listens."""

from __future__ import annotations

import math
import random
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import datetime
from queue import SimpleQueue

from textual.pilot import Pilot

from remote import events as launcher
from remote.cluster.hosts import Cluster, Host
from remote.plan.plan import Plan, Policy, Script, check, new_run
from remote.run.apply import apply_record
from remote.run.run_state import RunState
from remote.run.state.phases import REPORTED_START
from tests.kit.looks import screen_text
from tests.kit.wait import looks
from training.job import Job
from training.wire import host_events, rank_events
from training.wire.enums import EndReason, Phase
from training.wire.events import SESSION, Event, Record
from tui.app.dashboard import Dashboard

BEGIN = 1_000.0


def cluster(hosts: int = 2, slots: int = 2) -> Cluster:
    return Cluster(
        "lab",
        tuple(
            Host(f"node{number}", f"127.0.0.{number}", slots=slots)
            for number in range(1, hosts + 1)
        ),
    )


def make_plan(chosen: Cluster, work: Job | Script, policy: Policy | None = None) -> Plan:
    name = new_run(work, datetime(2026, 11, 20, 9, 30))
    plan = Plan(name, chosen.hosts, work, policy or Policy())
    check(plan)
    return plan


class ActedSession:
    """`say` makes records of events; they are applied by whoever iterates `batches`."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.state = RunState(plan)
        self.lock = threading.Lock()
        self.stops: list[str] = []
        self.asked = 0
        self.detached = self.cut_off = False
        self.keep = plan.policy.keep
        self.device = "cpu"
        self.cores: dict[int, float] = {}
        """By host, how many cores it has; others have four."""
        self.clock = BEGIN
        self.attempt = 0
        self._hosts = [slot.host for slot in plan.slots]  # asked for at each record
        self._seq = 0
        self._queue: SimpleQueue[list[Record] | None] = SimpleQueue()

    def batches(self) -> Iterator[list[Record]]:
        while (batch := self._queue.get()) is not None:
            with self.lock:
                for record in batch:
                    apply_record(self.state, record)
            yield batch

    def stop(self, reason: str = "stopped by the user", *, now: bool = False) -> None:
        self.stops.append(f"{reason}, now" if now else reason)

    def ask_stacks(self) -> None:
        self.asked += 1

    def detach(self) -> None:
        self.detached = True
        self._queue.put(None)

    # What a test does

    def say(self, host: int, *said: Event, after: float = 0.0) -> None:
        self.clock += after
        records = []
        for event in said:
            self._seq += 1
            records.append(Record(host, self.attempt, self._seq, self.clock, event))
        self._queue.put(records)

    def host_of(self, rank: int) -> int:
        return self._hosts[rank]

    def start(self, steps: int = 400, steps_per_epoch: int = 100) -> None:
        """Up to the first step."""
        for index, host in enumerate(self.plan.hosts):
            ranks = tuple(slot.rank for slot in self.plan.slots if slot.host == index)
            self.say(
                SESSION,
                *(
                    launcher.HostPhaseChanged(index, phase)
                    for phase in ("connecting", "deploying", "starting", "ready")
                ),
            )
            self.say(
                index,
                host_events.Launched(ranks),
                *(host_events.Spawned(rank, 4_000 + rank) for rank in ranks),
                after=0.2,
            )
            self.say(
                index, host_events.OutputText(host_events.AGENT, "stderr", f"agent on {host.name}")
            )
        size = self.plan.world_size
        for rank in range(size):
            begun = rank_events.Started(
                rank,
                4_000 + rank,
                size,
                self.device,
                "gloo",
                "2.14.1",
                1,
                61_706,
                steps,
                steps_per_epoch,
                1_437,
                360,
            )
            self.say(
                self.host_of(rank),
                # All but `joining`, which is over at once.
                *(rank_events.Entered(rank, Phase(phase)) for phase in REPORTED_START[:-1]),
                begun,
            )

    def steps(
        self,
        first: int,
        last: int,
        seconds: float = 0.1,
        per_epoch: int = 100,
        *,
        late: int = -1,
    ) -> None:
        """Steps `first` to `last` of all ranks, with a line of text each now and then and a sample
        each second. All wait for the rank that is `late`."""
        chance = random.Random(first)
        for step in range(first, last + 1):
            self.clock += seconds
            for rank in range(len(self._hosts)):
                took = (
                    seconds * chance.uniform(0.9, 1.1) * (4 if step == 1 or step % 97 == 0 else 1)
                )
                loss = 2.3 * math.exp(-step / 150) + 0.08 + chance.gauss(0, 0.05)
                epoch = (step - 1) // per_epoch + 1
                one = rank_events.StepFinished(
                    rank,
                    epoch,
                    step,
                    abs(loss),
                    took,
                    data=took * 0.05,
                    compute=took * 0.75,
                    sync=took * 0.2,
                    ready=seconds * (0.8 if rank == late else 0.2),
                    samples=16,
                    correct=min(16, 2 + step // 30),
                )
                self.say(self.host_of(rank), one)
                if step % 20 == 0:
                    text = f"epoch {epoch} step {step} loss {loss:.4f}"
                    self.say(self.host_of(rank), host_events.OutputText(rank, "stdout", text))
                if step % max(1, round(1 / seconds)) == 0:
                    self.say(
                        self.host_of(rank),
                        host_events.RankSample(
                            rank,
                            chance.uniform(60, 99) * self._core(rank),
                            412_000_000 + rank * 9_000_000,
                        ),
                    )
            if step % max(1, round(1 / seconds)) == 0:
                for index in range(len(self.plan.hosts)):
                    self.say(
                        index,
                        host_events.HostSample(
                            (chance.uniform(50, 99),) * 4, 3_400_000_000, 16_000_000_000
                        ),
                    )

    def _core(self, rank: int) -> float:
        """How much of a core a rank has."""
        host = self.host_of(rank)
        return min(1.0, self.cores.get(host, 4.0) / self._hosts.count(host))

    def finish(self, steps: int = 400, epoch: int = 4) -> None:
        for rank in range(len(self._hosts)):
            confusion = ((9, 1), (2, 8)) if rank == 0 else ()
            tested = rank_events.Evaluated(
                rank, epoch, steps, 0.21, 0.9472, 360, 0.4, confusion, 0.9 + rank / 100
            )
            done = rank_events.Finished(rank, epoch, steps, 40.0)
            self.say(self.host_of(rank), tested, done, host_events.Exited(rank, 0))
        self.close()

    def restart(self, *hosts: int, resumed: int = 0) -> None:
        """The next attempt, on these hosts, goes on after the step `resumed`."""
        self.attempt += 1
        self.say(SESSION, launcher.Restarted(hosts, "a host was lost"))
        slots = replace(self.plan, hosts=tuple(self.plan.hosts[index] for index in hosts)).slots
        self._hosts = [hosts[slot.host] for slot in slots]
        for index in hosts:
            ranks = tuple(rank for rank, host in enumerate(self._hosts) if host == index)
            self.say(index, host_events.Launched(ranks, hosts))
        for rank, host in enumerate(self._hosts):
            size = (1, 61_706, 400, 100, 1_437, 360, resumed)
            self.say(
                host,
                rank_events.Started(rank, 5_000 + rank, len(slots), "cpu", "gloo", "2.14.1", *size),
            )

    def fail(self, rank: int = 1) -> None:
        """The rank is killed; the others die of it."""
        self.say(self.host_of(rank), host_events.Exited(rank, -9, "SIGKILL"), after=0.1)
        for other in range(self.plan.world_size):
            if other != rank:
                text = (
                    "Traceback (most recent call last):\n  line 9, in train\nRuntimeError: "
                    "Connection closed by peer"
                )
                self.say(
                    self.host_of(other),
                    host_events.OutputText(other, "stderr", text),
                    host_events.Exited(other, 1),
                    after=0.1,
                )
        self.say(SESSION, launcher.Stopping("a rank or host failed", False))
        self.close()

    def close(self) -> None:
        for index in range(len(self.plan.hosts)):
            self.say(index, host_events.AgentEnded(EndReason.ALL_ENDED))
        self.say(SESSION, launcher.SessionClosed(), after=0.1)
        self._queue.put(None)


async def until(pilot: Pilot[None], condition: Callable[[], bool]) -> None:
    """Tick and let the app work until the condition holds and all that was known then is drawn.

    A session's own thread changes its state at any time, so what is drawn may be older than a
    condition that reads the state.
    """
    for _ in looks("what the app is to show", shown=lambda: screen_text(pilot.app)):
        holds = condition()
        app = pilot.app
        if isinstance(app, Dashboard):
            app.tick()
        await pilot.pause(None if holds else 0.005)
        if holds:
            return
