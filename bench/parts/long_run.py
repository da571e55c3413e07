"""A run of millions of steps, made by the code of ranks, agent and launcher, without processes:
rows of steps, blocks, journals of hosts, and the record of a launcher that hears them."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from io import StringIO
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import numpy as np

from remote.cluster.hosts import Host
from remote.events import Preparing, SessionClosed, SessionClosing, Starting, decode
from remote.limits import LIMITS
from remote.plan.plan import Plan
from remote.record.write import Recorder
from remote.session.ledger import Ledger
from training.agent import journal
from training.agent.journal import Journal, JournalReader
from training.agent.ranks.step_rows import gather_steps
from training.job import Job
from training.wire.enums import EndReason
from training.wire.events import PREFIX, Event, to_object
from training.wire.host_events import (
    AgentEnded,
    Exited,
    HostSample,
    Launched,
    OutputText,
    RankSample,
    Spawned,
)
from training.wire.jsonl import dumps
from training.wire.rank_events import Epoch, Evaluated, Finished, Started
from training.wire.step_block import STEP_ROW
from tui.run.json_printer import JsonPrinter

RUN = "20261120-093000-ddp-lenet5-week"
START = 1.795e9
STEPS_PER_EPOCH = 10_000
FLUSH_EVERY = 100
"""Blocks of each host between two writes of the launcher, some 0.1 s of a quick run."""
ROW = np.dtype(
    [("rank", "<i4"), ("time", "<f8")]
    + [
        (name, "<f8")
        for name in ("loss", "seconds", "data", "compute", "sync", "ready", "cpu_seconds")
    ]
    + [(name, "<i8") for name in ("epoch", "step", "samples", "correct", "bytes_sent", "staleness")]
    + [("known", "?")]
)
"""A row of `training.wire.step_block`."""


@dataclass
class Costs:
    """CPU seconds that making a run has taken of each part."""

    agent: float = 0.0
    """To read lines, pack them and write the journal."""
    launcher: float = 0.0
    """To decode records, take them in and record them."""
    json: float = 0.0
    """To print them as `--run --json` does."""


@dataclass(frozen=True)
class LongRun:
    """So many steps of each rank, each on a host of its own, `rate` a second, in blocks of
    `block`."""

    folder: Path
    steps: int
    ranks: int = 4
    rate: float = 100.0
    block: int = 100

    @property
    def plan(self) -> Plan:
        """The plan of the run. Its hosts are folders of this machine."""
        hosts = tuple(
            Host(
                f"node{rank}",
                "localhost",
                transport="local",
                workdir=str(self.folder / f"node{rank}"),
            )
            for rank in range(self.ranks)
        )
        return Plan(RUN, hosts, Job(epochs=-(-self.steps // STEPS_PER_EPOCH)))

    @property
    def runs_dir(self) -> Path:
        """Where the launcher records it."""
        return self.folder / "runs"

    def make(self) -> Costs:
        """Make the journals and the run directory."""
        costs = Costs()
        plan = self.plan
        now: float = START
        clock = SimpleNamespace(time=lambda: now)
        journals, readers = [], []
        for rank in range(self.ranks):
            folder = Path(plan.folder(rank))
            folder.mkdir(parents=True)
            journals.append(Journal(str(folder), rank))
            readers.append(JournalReader(str(folder), rank, 0))
        recorder = Recorder(self.runs_dir, plan)
        ledger = Ledger(plan, recorder, LIMITS)
        printer = JsonPrinter(Nowhere(), Nowhere(), folder=recorder.folder)
        hosts = tuple(range(self.ranks))
        ledger.say(Preparing(hosts), now)
        ledger.say(Starting(), now)
        with patch.object(journal, "time", clock):
            for number, batches in enumerate(zip(*map(self._batches, hosts), strict=True)):
                now = START + number * self.block / self.rate
                began = time.process_time()
                for rank, batch in enumerate(batches):
                    journals[rank].write(0, (one for event in batch for one in _gathered(event)))
                costs.agent += time.process_time() - began
                if number % FLUSH_EVERY == 0:
                    _hear(readers, ledger, recorder, printer, costs)
        _hear(readers, ledger, recorder, printer, costs)
        ledger.say(SessionClosing(), now)
        ledger.say(SessionClosed(), now)
        recorder.close(ledger.state, ledger.expand)
        return costs

    def _batches(self, rank: int) -> Iterator[list[Event]]:
        """What the agent of a rank reads or measures, turn by turn: at first the start, then a
        block each, at last the end."""
        draw = np.random.default_rng(rank)
        epochs = -(-self.steps // STEPS_PER_EPOCH)
        started = Started(
            *(rank, 100 + rank, self.ranks, "cpu", "gloo", "2.14.1", 1, 61_706),
            *(epochs * STEPS_PER_EPOCH, STEPS_PER_EPOCH, 320_000, 10_000),
        )
        everybody = tuple(range(self.ranks))
        yield [Launched((rank,), everybody), Spawned(rank, 100 + rank), _report(started, START)]
        sampled = 0.0
        for first in range(1, self.steps + 1, self.block):
            last = min(self.steps, first + self.block - 1)
            rows = self._rows(draw, rank, first, last)
            events: list[Event] = [OutputText(rank, "stdout", _lines(rows))]
            now = float(rows["time"][-1])
            if last % STEPS_PER_EPOCH == 0:
                epoch = last // STEPS_PER_EPOCH
                loss = float(rows["loss"].mean())
                events += [
                    OutputText(rank, "stdout", f"epoch {epoch}: loss {loss:.4f}"),
                    _report(Epoch(rank, epoch, last, loss, 0.8, 320_000, 100.0), now),
                    _report(Evaluated(rank, epoch, last, loss, 0.8, 10_000, 1.0), now),
                ]
            if now - START >= sampled + 1.0:
                sampled = now - START
                events.append(RankSample(rank, float(draw.uniform(50, 100)), 500 << 20))
                cores = tuple(float(cpu) for cpu in draw.uniform(0, 100, 4).round(1))
                events.append(HostSample(cores, 3 << 30, 16 << 30, 800_000, 790_000, 50 << 30))
            yield events
        end = START + self.steps / self.rate
        finished = Finished(rank, epochs, self.steps, self.steps / self.rate)
        yield [_report(finished, end), Exited(rank, 0), AgentEnded(EndReason.CLOSED)]

    def _rows(self, draw: np.random.Generator, rank: int, first: int, last: int) -> Any:
        count = last - first + 1
        rows = np.zeros(count, ROW)
        step = np.arange(first, last + 1)
        seconds = draw.lognormal(0.0, 0.15, count) / self.rate
        rows["rank"], rows["step"], rows["known"] = rank, step, 1
        rows["epoch"] = (step - 1) // STEPS_PER_EPOCH + 1
        rows["time"] = START + (step + draw.uniform(-0.1, 0.1, count)) / self.rate
        rows["loss"] = 2.3 / (1 + step / 1e5) + draw.uniform(0, 0.2, count)
        rows["seconds"] = seconds
        rows["data"] = seconds * draw.uniform(0.01, 0.05, count)
        rows["sync"] = seconds * draw.uniform(0.2, 0.4, count)
        rows["compute"] = rows["seconds"] - rows["data"] - rows["sync"]
        rows["ready"] = rows["data"] + rows["compute"] * draw.uniform(0.9, 1.0, count)
        rows["cpu_seconds"] = seconds * draw.uniform(0.8, 1.2, count)
        rows["samples"], rows["bytes_sent"] = 32, 246_824
        rows["correct"] = draw.integers(20, 33, count)
        return rows


def _lines(rows: Any) -> str:
    """The lines in which a rank reports these rows."""
    from binascii import b2a_base64

    rows_bytes = rows.tobytes()
    size = ROW.itemsize
    texts = [
        b2a_base64(rows_bytes[start : start + size], newline=False).decode()
        for start in range(0, len(rows_bytes), size)
    ]
    return "\n".join(f"{PREFIX}{STEP_ROW}{text}" for text in texts)


def _report(event: Event, now: float) -> OutputText:
    """An event as a rank reports it."""
    rank: int = getattr(event, "rank")  # noqa: B009 - each has one, which its base does not know
    return OutputText(rank, "stdout", PREFIX + dumps({"time": now} | to_object(event)))


def _gathered(event: Event) -> Iterator[Event]:
    """What an agent makes of what it has read."""
    if isinstance(event, OutputText):
        yield from gather_steps(event)
    else:
        yield event


class Nowhere(StringIO):
    """A stream that keeps nothing."""

    def write(self, text: str, /) -> int:
        """Take a text."""
        return len(text)


def _hear(
    readers: list[JournalReader],
    ledger: Ledger,
    recorder: Recorder,
    printer: JsonPrinter,
    costs: Costs,
) -> None:
    """Let the launcher hear what is new, as it hears it of a connection, and print it."""
    lines = [
        line for reader in readers for block in reader.blocks() for line in block.splitlines(True)
    ]
    began = time.process_time()
    for line in lines:
        record = decode(line)
        if record is None:
            raise SystemExit(f"no record: {line[:200]!r}")
        ledger.take(record, line)
    recorder.flush()
    batch = ledger.take_batch()
    recorder.update_overview(ledger.state)
    recorder.keep_snapshot(ledger.state, ledger.expand)
    heard = time.process_time()
    costs.launcher += heard - began
    printer.batch(batch, ledger.state)
    costs.json += time.process_time() - heard
