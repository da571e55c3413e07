"""Records of runs that never were: as the agents of hosts send them, at a steady rate."""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from remote.cluster.hosts import Host
from remote.events import HostPhaseChanged, encode
from remote.plan.plan import Plan
from training.agent.ranks.ranks import FEW_STEPS
from training.job import Job
from training.wire.enums import Reach
from training.wire.events import PREFIX, SESSION, Event, Record, to_object
from training.wire.host_events import HostSample, Launched, OutputText, RankSample, Spawned
from training.wire.jsonl import dumps
from training.wire.rank_events import Started, StepFinished
from training.wire.step_block import decode_rows, encode_row, pack_rows

START = 1_000.0
LOG_EVERY = 20
STEPS_PER_EPOCH = 500


@dataclass(frozen=True)
class Stream:
    """Ranks that each make so many steps a second; beside them, each rank and host tells a sample a
    second."""

    hosts: int
    slots: int
    rate: float
    seconds: float

    @property
    def steps(self) -> int:
        """Steps of each rank."""
        return round(self.rate * self.seconds)

    @property
    def plan(self) -> Plan:
        """The plan of the run."""
        hosts = tuple(
            Host(f"node{index}", f"10.0.{index // 250}.{index % 250}", slots=self.slots)
            for index in range(self.hosts)
        )
        return Plan("20261120-093000-ddp-lenet5-3f9a", hosts, Job(dataset="mnist", model="lenet5"))

    def write(self, path: Path) -> None:
        """Write the journal lines of all hosts into a file, in order of time."""
        with path.open("w") as file:
            for number, (when, host, event) in enumerate(self._events()):
                file.write(encode(Record(host, 0, number + 1, START + when, event)))

    def _events(self) -> Iterator[tuple[float, int, Event]]:
        slots = self.plan.slots
        ranks = range(len(slots))
        for host in range(self.hosts):
            yield 0.0, SESSION, HostPhaseChanged(host, Reach.READY)
        for rank in ranks:
            yield 0.0, slots[rank].host, Launched((rank,))
            yield 0.0, slots[rank].host, Spawned(rank, 100 + rank)
            begun = Started(
                rank, 100 + rank, len(ranks), "cpu", "gloo", "2.14.1", 1, 61_706,
                2 * self.steps, STEPS_PER_EPOCH, 60_000, 10_000,
            )  # fmt: skip
            yield 0.0, slots[rank].host, _text(begun, rank)
        yield from heapq.merge(
            *(self._steps(rank, slots[rank].host) for rank in ranks),
            *(self._samples(rank, slots[rank].host) for rank in ranks),
            *(self._hosts(host) for host in range(self.hosts)),
            key=lambda item: item[0],
        )

    def _steps(self, rank: int, host: int) -> Iterator[tuple[float, int, Event]]:
        seconds = 1 / self.rate
        rows = b""
        together = max(1, int(self.rate)) if self.rate >= FEW_STEPS else 1
        for number in range(1, self.steps + 1):
            wave = (number * 7 + rank * 3) % 11 / 100
            when = number * seconds + rank * 1e-5
            epoch = (number - 1) // STEPS_PER_EPOCH + 1
            compute = seconds * (0.6 + wave)
            made = StepFinished(
                rank, epoch, number, 2.3 / (1 + number / 50) + wave, seconds, seconds * 0.02,
                compute, seconds * 0.98 - compute, compute, compute, 16, 12, 123_412,
            )  # fmt: skip
            rows += decode_rows(encode_row(made, START + when)) or b""
            # Agents report at moments of their own.
            if (number + host) % together == 0 or number == self.steps:
                yield when, host, pack_rows(rows)
                rows = b""
            if number % LOG_EVERY == 0:
                loss = f"loss {made.loss:.4f} acc 0.75 {seconds:.3f} s/iter"
                line = f"epoch {epoch} step {number}/{2 * self.steps} {loss}"
                yield when, host, OutputText(rank, "stdout", line)

    def _samples(self, rank: int, host: int) -> Iterator[tuple[float, int, Event]]:
        for second in range(1, int(self.seconds) + 1):
            busy = 50.0 + (second * 13 + rank) % 40
            yield second + rank * 1e-4, host, RankSample(rank, busy, 500 << 20)

    def _hosts(self, host: int) -> Iterator[tuple[float, int, Event]]:
        for second in range(1, int(self.seconds) + 1):
            cpu = tuple(50.0 + (second * 7 + host + core) % 45 for core in range(4))
            sample = HostSample(cpu, 3 << 30, 16 << 30, 800_000, 790_000, 50 << 30)
            yield second + host * 1e-3, host, sample


def _text(event: Event, rank: int, when: float = 0.0) -> OutputText:
    """An event as a rank writes it, and its agent forwards it."""
    return OutputText(rank, "stdout", PREFIX + dumps({"time": START + when} | to_object(event)))
