"""The list of 5,000 recorded runs: `rankboard runs`, the whole command, with a pipe for its output.

The runs have plans, summaries and records as four ranks leave them. Cold is the first call, which
reads all of them and writes the index; warm are the calls after it. The page cache is warm in both.
Prints the seconds of each call with its CPU time, and the median of the warm ones last.
"""

from __future__ import annotations

import argparse
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from remote.cluster.hosts import Host
from remote.events import SessionClosed
from remote.format import size
from remote.plan.plan import Plan
from remote.record.layout import EVENTS, INDEX, OVERVIEW, PLAN, SUMMARY
from remote.record.write import Recorder
from remote.run.apply import apply_record
from remote.run.run_state import RunState
from training.job import Job
from training.wire.events import SESSION, Event, Record, encode
from training.wire.host_events import Exited, Launched, Spawned
from training.wire.rank_events import Evaluated, Finished, Started, StepFinished

RANKS, STEPS, CLASSES = 4, 40, 10
METHODS = ("ddp", "ring", "all_reduce", "local_sgd")
RANKBOARD = Path(sys.executable).with_name("rankboard")
BOUND = 0.5
NAME = "20261120-093000-ddp-lenet5-0000"


def events(rank: int) -> list[Event]:
    """What one rank, and its agent, say of a whole run."""
    started = Started(rank, 9, RANKS, "cpu", "gloo", "2.14.1", 1, 61_706, STEPS, 20, 640, 100)
    confusion = tuple((10,) * CLASSES for _ in range(CLASSES)) if rank == 0 else ()
    return [
        Launched((rank,)),
        Spawned(rank, 9),
        started,
        *(
            StepFinished(
                rank, 1 + step // 20, step + 1, 2 / (step + 1), 0.1, 0.01, 0.06, 0.03, samples=16
            )
            for step in range(STEPS)
        ),
        Evaluated(rank, 2, STEPS, 0.5, 0.9, 1000, 0.1, confusion),
        Finished(rank, 2, STEPS, 4.0),
        Exited(rank, 0),
    ]


def record(folder: Path) -> Path:
    """Record one run as a launcher does."""
    plan = Plan(NAME, tuple(Host(f"node{rank}", "") for rank in range(RANKS)), Job(lr=0.05))
    into, state = Recorder(folder, plan), RunState(plan)
    told = [(rank, event) for rank in range(RANKS) for event in events(rank)]
    for seq, (host, event) in enumerate([*told, (SESSION, SessionClosed())], 1):
        one = Record(host, 0, seq, 1.8e9 + seq / 100, event)
        into.raw(encode(one).encode()) if host >= 0 else into.write(one)
        apply_record(state, one)
    into.close(state)
    return into.folder


def fill(runs_dir: Path, count: int) -> None:
    """Make so many runs, all of an hour ago."""
    with tempfile.TemporaryDirectory() as folder:
        made = record(Path(folder))
        texts = {name: (made / name).read_text() for name in (PLAN, OVERVIEW, SUMMARY, EVENTS)}
    long_ago = time.time() - 3600
    for index in range(count):
        method = METHODS[index % len(METHODS)]
        when = time.strftime("%Y%m%d-%H%M%S", time.gmtime(1.8e9 + 60 * index))
        run = runs_dir / f"{when}-{method}-lenet5-{index:04x}"
        run.mkdir()
        for name, text in texts.items():
            own = text.replace(NAME, run.name).replace('"ddp"', f'"{method}"')
            (run / name).write_text(own.replace('"seed": 42', f'"seed": {index}'))
            os.utime(run / name, (long_ago, long_ago))
        os.utime(run, (long_ago, long_ago))


@dataclass(frozen=True)
class Listed:
    """One call: its seconds, the CPU time of these, and how many runs it listed."""

    seconds: float
    cpu: float
    runs: int

    def __str__(self) -> str:
        return f"{self.runs} runs in {self.seconds:.3f} s, {self.cpu:.3f} s of CPU time"


def cpu_seconds() -> float:
    """CPU time of all processes that have been waited for."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def listed(runs_dir: Path, *words: str) -> Listed:
    """Call the command."""
    used, began = cpu_seconds(), time.perf_counter()
    done = subprocess.run(
        [RANKBOARD, "runs", "--runs-dir", runs_dir, *words],
        capture_output=True,
        text=True,
        check=True,
    )
    seconds = time.perf_counter() - began
    return Listed(seconds, cpu_seconds() - used, len(done.stdout.splitlines()) - 1)


def main() -> None:
    """Make the runs and list them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=5000)
    parser.add_argument("--rounds", type=int, default=15)
    given = parser.parse_args()
    warm = []
    with tempfile.TemporaryDirectory() as folder:
        runs_dir = Path(folder)
        fill(runs_dir, given.runs)
        cold = listed(runs_dir)
        if cold.runs != given.runs:
            raise SystemExit(f"{cold.runs} runs are listed")
        print(f"cold: {cold}; the index has {size((runs_dir / INDEX).stat().st_size)}")
        for turn in range(given.rounds):
            chosen = listed(runs_dir, "sync=ring", "seed<1000", "--sort", "loss")
            warm.append(listed(runs_dir))
            print(f"round {turn + 1:2}: {warm[-1]}; {chosen}", flush=True)
    seconds, cpu = (
        statistics.median(getattr(one, of) for one in warm) for of in ("seconds", "cpu")
    )
    print(
        f"{given.runs:,} runs listed, median: {seconds:.3f} s (bound {BOUND} s), "
        f"{cpu:.3f} s of CPU time"
    )


if __name__ == "__main__":
    main()
