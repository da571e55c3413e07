"""What watching costs: the iteration time of four local ranks with the dashboard open at 160x48,
against the same ranks alone: one process per rank with torchrun's environment and no launcher.

Both jobs run at once and take turns. For a slice of 2 s or more all processes of one side are
stopped, the dashboard with its agent and ranks among them, while the other side trains; then the
other way round. One after another, jobs of a minute each would be compared over minutes, in which a
shared machine becomes 1.7 times faster or slower.

Two neighbouring slices are a pair, in changing order, so that a steady drift cancels. Its ratio is
that of their mean seconds per iteration, over all iterations of all ranks that lie wholly within
the slice: one that a stop cuts does not count. No stop is longer than 3.5 s: where nothing came of
a host for 5 s, the dashboard tells that it was silent.

Pairs of one run are not independent: neighbours share a slice, and all of them the memory that both
jobs happened to get. So both jobs start anew several times. A run counts as one number, the
geometric mean of its pairs, and the interval is that of the runs. A pair beside which other
programs take more than a fifth of a core does not count, and another one is made.

Needs CIFAR-10 and MNIST in --data-dir. Prints the dashboard's share of a core over its own slices,
and the ratio of each job with its 95 % interval, last.
"""

from __future__ import annotations

import argparse
import os
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from parts.cpu import used_by_others
from parts.terminal import Terminal
from parts.turns import Turns

from remote.record.events_file import read_records
from remote.record.read import load_plan, verdict
from remote.run.apply import apply_record
from remote.run.findings.alerts import Alarm, find_alerts
from remote.run.run_state import RunState
from remote.statistics.interval import mean_interval
from training.agent.host import processes
from training.wire.events import PREFIX, parse_report, split_steps
from training.wire.rank_events import StepFinished
from training.wire.step_block import STEP_ROW

RANKS = 4
BIN = Path(sys.executable).parent
JOBS = {
    "VGG-11 on CIFAR-10": "--model vgg11 --dataset cifar10 --batch-size 64",
    "LeNet-5 on MNIST": "--model lenet5 --dataset mnist --batch-size 256",
}
STEPS = 1_000_000
"""More than there is time for."""
PER_SLICE = 10
"""Iterations that a slice is to hold."""
SHORTEST, LONGEST = 2.0, 3.5
"""Seconds of a slice."""
BUSY = 0.2
"""CPU seconds per second that other programs may use beside a slice that counts."""
MOST = 20
"""Slices per pair that counts, from which a machine is too busy for a figure."""
PATIENCE = 180.0


@dataclass(frozen=True)
class Iteration:
    """An iteration of one rank: when it ended, and how long it took."""

    end: float
    seconds: float


@dataclass(frozen=True)
class Slice:
    """A side's turn."""

    watched: bool
    begin: float
    end: float
    others: float
    """CPU seconds of other programs meanwhile, per second."""

    def mean(self, iterations: Sequence[Iteration]) -> float:
        """Mean seconds of the iterations that lie wholly within. Ends the program without any."""
        within = [
            one.seconds
            for one in iterations
            if one.end - one.seconds >= self.begin and one.end <= self.end
        ]
        if not within:
            raise SystemExit("no iteration lies within a slice: give a longer --slice")
        return statistics.fmean(within)


@dataclass(frozen=True)
class Result:
    """Of one run: the ratio of each pair that counts, mean seconds per iteration alone, and the
    dashboard's CPU time as a fraction of a core."""

    ratios: tuple[float, ...]
    alone: float
    share: float


class Alone:
    """The ranks without any launcher. They write to files: a pipe that nobody empties would hold
    them up."""

    def __init__(self, job: Sequence[str], folder: Path) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        world = {"WORLD_SIZE": RANKS, "LOCAL_WORLD_SIZE": RANKS, "MASTER_PORT": port}
        world |= {"MASTER_ADDR": "127.0.0.1", "OMP_NUM_THREADS": 1, "GLOO_SOCKET_IFNAME": "lo"}
        self.outputs = [folder / f"rank-{rank}.txt" for rank in range(RANKS)]
        self.ranks = []
        for rank, path in enumerate(self.outputs):
            place = world | {"RANK": rank, "LOCAL_RANK": rank}
            env = os.environ | {key: str(value) for key, value in place.items()}
            command = [sys.executable, "-m", "training", *job]
            with path.open("w") as output:
                # In one session, as those of rankboard: Linux shares a busy machine among sessions.
                process = subprocess.Popen(
                    command, env=env, stdout=output, stderr=subprocess.DEVNULL
                )
            self.ranks.append(process)

    def trains(self) -> bool:
        """Whether all ranks have made a step. Ends the program where one has failed."""
        if any(process.poll() is not None for process in self.ranks):
            raise SystemExit("a rank without launcher failed")
        return all(f"{PREFIX}{STEP_ROW}" in path.read_text() for path in self.outputs)

    def iterations(self) -> Iterator[Iteration]:
        """Those of all ranks."""
        for path in self.outputs:
            for line in path.read_text().splitlines():
                report = parse_report(line.removeprefix(PREFIX))
                if report and isinstance(report[0], StepFinished):
                    yield Iteration(report[1] or 0.0, report[0].seconds)

    def stop(self) -> None:
        """End all ranks."""
        self.trains()
        for process in self.ranks:
            process.terminate()
        for process in self.ranks:
            process.wait()


class Watched:
    """The same job with the dashboard open in a terminal of its own."""

    def __init__(self, job: Sequence[str], folder: Path) -> None:
        self._runs = folder / "runs"
        command = [str(BIN / "rankboard"), "--local", str(RANKS), "--runs-dir", str(self._runs)]
        self.terminal = Terminal([*command, *job], folder)

    def trains(self) -> bool:
        """Whether rank 0 has printed the line of a step."""
        return any(" step 1/" in path.read_text() for path in self._runs.glob("*/logs/rank-0.log"))

    def iterations(self) -> Iterator[Iteration]:
        """Those of all ranks, from the record. Ends the program where the run was not as it should
        be."""
        (folder,) = (path.parent for path in self._runs.glob("*/events.jsonl"))
        state = RunState(load_plan(folder))
        for record in read_records(folder):
            apply_record(state, record)
            for part in split_steps(record):
                if isinstance(part.event, StepFinished):
                    yield Iteration(part.time, part.event.seconds)
        wrong = [
            one.text for one in find_alerts(state) if one.alarm in (Alarm.SILENCE, Alarm.STALL)
        ]
        if wrong or verdict(folder) != "stopped":
            raise SystemExit(f"the run ended as {verdict(folder)!r}; alerts: {wrong}")

    def stop(self) -> None:
        """Stop the run and leave."""
        self.terminal.end(signal.SIGTERM)


def run(job: Sequence[str], folder: Path, pairs: int, seconds: float, first: bool) -> Result:
    """Train both jobs for so many pairs of slices, of so many seconds; 0: as many as iterations
    need. `first`: whether the dashboard's side begins."""
    turns = Turns()
    try:
        alone, watched = Alone(job, folder), Watched(job, folder)
        turns.roots = [process.pid for process in alone.ranks]
        wait = watched.terminal.read_for
        _until(lambda: alone.trains() and watched.trains(), wait)
        seconds = seconds or _length(turns, alone, wait)
        slices = list[Slice]()
        cpu = watched.terminal.cpu
        while sum(map(_counts, pairwise(slices))) < pairs:
            if len(slices) > MOST * pairs:
                raise SystemExit("other programs use this machine: no figure")
            is_watched = first if len(slices) % 2 == 0 else not first
            turns.let(is_watched)
            slices.append(_slice(is_watched, lambda: wait(seconds)))
        cpu = watched.terminal.cpu - cpu
        turns.let_all()
        alone.stop()
        watched.stop()
    finally:
        processes.end_descendants(PATIENCE)
    own = sum(one.end - one.begin for one in slices if one.watched)
    made = {False: list(alone.iterations()), True: list(watched.iterations())}
    means = [(one, one.mean(made[one.watched])) for one in slices]
    ratios = tuple(
        before / after if one.watched else after / before
        for (one, before), (other, after) in pairwise(means)
        if _counts((one, other))
    )
    alone_for = statistics.fmean(mean for one, mean in means if not one.watched)
    return Result(ratios, alone_for, cpu / own)


def _counts(pair: tuple[Slice, Slice]) -> bool:
    return all(one.others < BUSY for one in pair)


def _until(true: Callable[[], bool], wait: Callable[[float], None]) -> None:
    until = time.monotonic() + PATIENCE
    while not true():
        if time.monotonic() > until:
            raise SystemExit("the ranks do not train")
        wait(0.25)


def _slice(is_watched: bool, wait: Callable[[], None]) -> Slice:
    begin, others = time.time(), used_by_others()
    wait()
    end = time.time()
    return Slice(is_watched, begin, end, (used_by_others() - others) / (end - begin))


def _length(turns: Turns, alone: Alone, wait: Callable[[float], None]) -> float:
    """Seconds of a slice, from a look at the ranks alone."""
    turns.let(False)
    step = _slice(False, lambda: wait(LONGEST)).mean(list(alone.iterations()))
    turns.let(True)
    wait(SHORTEST)  # else its stop would go on where the first slice is not its own
    return min(max(SHORTEST, PER_SLICE * step), LONGEST)


def main() -> None:
    """Run each job."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=8)
    parser.add_argument("--pairs", type=int, default=30, help="of each run")
    parser.add_argument("--slice", type=float, default=0.0, help="seconds (default: by the job)")
    parser.add_argument("--only", choices=JOBS, help="one of the jobs")
    parser.add_argument(
        "--data-dir", type=Path, default=Path(os.environ.get("RANKBOARD_DATA", "../shared/data"))
    )
    given = parser.parse_args()
    if given.slice > LONGEST:
        parser.error(f"--slice: at most {LONGEST:g} s, or the dashboard tells of a silent host")
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # what has been started ends, too
    data = ["--data-dir", str(given.data_dir.absolute()), "--no-verify-data"]
    lines = []
    for name in [given.only] if given.only else JOBS:
        job = ["--sync", "ddp", *JOBS[name].split(), "--steps", str(STEPS), *data]
        results = []
        for number in range(1, given.runs + 1):
            with tempfile.TemporaryDirectory() as folder:
                first = number % 2 == 0
                one = run(job, Path(folder), given.pairs, given.slice, first)
            results.append(one)
            print(
                f"{name}, run {number}: {one.alone:.4f} s alone, ratio "
                f"{statistics.geometric_mean(one.ratios):.4f}; dashboard {one.share:.1%} of a core",
                flush=True,
            )
        total = mean_interval([statistics.geometric_mean(one.ratios) for one in results])
        lines.append(
            f"{name}: dashboard {statistics.fmean(one.share for one in results):.1%} of a core; "
            f"iteration, dashboard / alone, {given.runs} runs of {given.pairs} pairs: "
            f"{total.value:.4f}, {total.low:.4f} to {total.high:.4f}"
        )
    print("\n".join(lines))


if __name__ == "__main__":
    main()
