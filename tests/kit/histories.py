"""Histories of runs for the tests: a plan of a few hosts, and records with a clock that goes by
itself."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence

from remote.cluster.hosts import Host
from remote.events import SessionClosed
from remote.plan.plan import Plan, Script
from remote.run.apply import apply_record
from remote.run.output.script_readings import expander
from remote.run.run_state import RunState
from training.job import Job
from training.wire.events import SESSION, Event, Record
from training.wire.host_events import Exited, Launched, OutputText, Spawned
from training.wire.rank_events import Finished, Started, StepFinished
from training.wire.step_block import StepBlock, decode_rows, encode_row, pack_rows

GLOO = (
    "RuntimeError: [/gloo/transport/tcp/pair.cc:561] Connection closed by peer [127.0.0.1]:6320. "
    "This is typically caused by a "
    "remote worker crashing. Check the logs of the remote worker before reporting an error. GLHF! "
    "🏖️"
)
TRACEBACK = (
    'Traceback (most recent call last):\n  File "train.py", line 7, in <module>\n    main()\n'
)
START = 1_000.0


def from_file(plan: Plan, file: str) -> Plan:
    """The plan with its hosts from this hosts file."""
    hosts = tuple(dataclasses.replace(host, hosts_file=file) for host in plan.hosts)
    return dataclasses.replace(plan, hosts=hosts)


def plan(hosts: int = 4, slots: int = 1, script: bool = False, transport: str = "ssh") -> Plan:
    """`hosts` hosts node1, node2, … of `slots` ranks each."""
    return Plan(
        "20261120-093000-ddp-lenet5-3f9a",
        tuple(
            Host(f"node{index + 1}", f"127.0.0.{index + 1}", slots=slots, transport=transport)
            for index in range(hosts)
        ),
        Script(("train.py",)) if script else Job(),
    )


def said(rank: int, text: str, stream: str = "stderr") -> OutputText:
    """A rank's lines."""
    return OutputText(rank, stream, text)


def raised(rank: int, exception: str) -> tuple[Event, Event]:
    """A rank prints a traceback that ends in this, and exits."""
    return said(rank, TRACEBACK + exception), Exited(rank, 1)


def stepped(rank: int, step: int, seconds: float = 0.1, **more: float) -> StepFinished:
    """A rank's step in an epoch of 10."""
    return StepFinished(rank, (step - 1) // 10 + 1, step, 2.0 / step, seconds, **more)  # type: ignore[arg-type]


def block_of(steps: Sequence[StepFinished], time: float, seconds: float = 0.01) -> StepBlock:
    """Steps of a rank as one record, so many seconds apart, the last one at this time."""
    times = [time - (len(steps) - 1 - place) * seconds for place in range(len(steps))]
    rows = decode_rows("".join(map(encode_row, steps, times)))
    assert rows is not None
    return pack_rows(rows)


class History:
    """Records in order, 10 ms apart unless told."""

    def __init__(self, of: Plan) -> None:
        self.plan = of
        self.records: list[Record] = []
        self.now = START
        self.attempt = 0

    def say(self, host: int, *events: Event, after: float = 0.01) -> History:
        """A host's agent, or the session, says these."""
        for event in events:
            self.now += after
            self.records.append(Record(host, self.attempt, len(self.records), self.now, event))
        return self

    def session(self, *events: Event, after: float = 0.01) -> History:
        """The session says these."""
        return self.say(SESSION, *events, after=after)

    def rank(self, rank: int, *events: Event) -> History:
        """The agent of the rank's host says these."""
        return self.say(self.plan.slots[rank].host, *events)

    def launched(self, rank: int) -> Launched:
        """The agent of the rank's host starts all its ranks."""
        slots = self.plan.slots
        return Launched(tuple(slot.rank for slot in slots if slot.host == slots[rank].host))

    def training(
        self,
        steps: int = 0,
        total: int = 40,
        device: str = "cpu",
        threads: int = 1,
        **more: float,
    ) -> History:
        """All ranks have started, and made this many steps, with `more` of their figures than the
        times."""
        ranks = [slot.rank for slot in self.plan.slots]
        for rank in ranks:
            self.rank(rank, self.launched(rank), Spawned(rank, 100 + rank))
            self.rank(
                rank,
                Started(
                    rank,
                    100 + rank,
                    len(ranks),
                    device,
                    "gloo",
                    "2.14.1",
                    threads,
                    61_706,
                    total,
                    10,
                    640,
                    100,
                ),
            )
        for step in range(1, steps + 1):
            for rank in ranks:
                self.rank(rank, stepped(rank, step, **more))
        return self

    def done(self, *ranks: int) -> History:
        """These ranks finish and exit."""
        for rank in ranks:
            self.rank(rank, Finished(rank, 4, 40, 4.0), Exited(rank, 0))
        return self

    def ended(self) -> History:
        """The run has ended."""
        return self.session(SessionClosed())

    def closed(self) -> RunState:
        """The state that all of it, and the end, comes to."""
        self.ended()
        return state_of(self.plan, self.records)

    def state(self) -> RunState:
        """The state that all of it comes to."""
        return state_of(self.plan, self.records)


def state_of(of: Plan, records: Iterable[Record]) -> RunState:
    """The state that records come to."""
    state, expand = RunState(of), expander(of)
    for record in records:
        for one in expand(record):
            apply_record(state, one)
    return state
