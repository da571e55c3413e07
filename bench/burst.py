"""A burst of log lines: 4 hosts over SSH print 50,000 lines each at once, with the dashboard open
at 160x48. After every hundredth line one more tells a step, which is read: the last one must have
been.

The time is from the start of the burst until the last line is decoded, applied to the run's state
and on disk. Meanwhile the dashboard draws every 50 ms, ten times as often as usual; the time of a
frame is from the request until the change is shown. Every line has a number, and the logs must have
all of them, in order. Prints each round, then the medians, the bounds last.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import math
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from parts.loopback import Loopback, loopback

from remote.cluster.hosts import Cluster
from remote.plan.plan import Plan, Script
from remote.record.write import Recorder
from remote.session.session import Session
from remote.transport.ssh.transport import SshTransport
from training.job import Job
from training.wire.events import Record
from training.wire.host_events import OutputText
from tui.app.app import RankboardApp
from tui.kit.interpreter import collect_seldom, keep_loaded_modules
from tui.kit.open_runs import LaunchRequest

HOSTS, LINES, ROUNDS = 4, 50_000, 5
RATE, FRAME = 100_000, 0.05
SIZE = (160, 48)
BETWEEN = 0.05
EVERY = 100
"""Lines after which one tells a step."""
PROGRAM = """
import os, sys, time
go, lines, EVERY = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
rest = "of a burst that all hosts print at once, each as long as in a log\\n"
step = "step={0} loss={1:.4f} lr=0.001 grad_norm=1.25\\n"
text = "".join(
    f"line {number:06d} {rest}"
    + (step.format(number + 1, 1 / (number + 1)) if number % EVERY == 0 else "")
    for number in range(lines)
)
print("ready", flush=True)
while not os.path.exists(go):
    time.sleep(0.002)
sys.stdout.write(text)
"""


class Heard(Session):
    """A session whose batches are looked at as they pass: `ready` ranks, `lines` of the burst, and
    when the last came."""

    def __init__(self, plan: Plan, runs_dir: Path) -> None:
        super().__init__(plan, SshTransport(), Recorder(runs_dir, plan))
        self.ready = self.lines = 0
        self.last = 0.0
        self.over = threading.Event()

    def batches(self) -> Iterator[list[Record]]:
        """A batch is on disk when it is given."""
        for batch in super().batches():
            texts = [
                record.event.text
                for record in batch
                if isinstance(record.event, OutputText) and record.event.rank >= 0
            ]
            self.ready += sum("ready" in text.split("\n", 1)[0] for text in texts)
            if count := sum(text.count("\nline ") + text.startswith("line ") for text in texts):
                self.lines += count
                self.last = time.perf_counter()
            yield batch
        self.over.set()


@dataclass(frozen=True)
class Burst:
    """Lines per second, and the seconds of each frame meanwhile."""

    rate: float
    frames: list[float]

    @property
    def p95(self) -> float:
        """Of the frames."""
        return sorted(self.frames)[math.ceil(0.95 * len(self.frames)) - 1]


async def burst(server: Loopback, run: str, lines: int) -> Burst:
    """One run with the dashboard over it."""
    go = server.folder / f"go-{run}"
    plan = Plan(
        run,
        server.hosts(),
        Script((sys.executable, "-c", PROGRAM, str(go), str(lines), str(EVERY))),
    )
    heard = Heard(plan, server.folder / "runs")
    cluster = Cluster("loopback", plan.hosts)
    app = RankboardApp(
        LaunchRequest(cluster, cluster, Job(), lambda *_: plan, lambda _: heard, at_once=True)
    )
    frames: list[float] = []
    async with app.run_test(size=SIZE):
        while heard.ready < HOSTS and not heard.over.is_set():
            await asyncio.sleep(0.05)
        go.touch()
        began = time.perf_counter()
        while heard.lines < HOSTS * lines and not heard.over.is_set():
            frames.append(await frame(app))
            await asyncio.sleep(BETWEEN)
        while not heard.over.is_set():
            await asyncio.sleep(0.05)
        app.exit()
    check(server.folder / "runs" / run / "logs", lines)
    made, last = heard.state.step, (lines - 1) // EVERY * EVERY + 1
    if made != last:
        raise SystemExit(f"the steps of a rank were read up to {made}, not {last}")
    return Burst(HOSTS * lines / (heard.last - began), frames)


async def frame(app: RankboardApp) -> float:
    """Seconds that one takes."""
    shown = asyncio.Event()
    began = time.perf_counter()
    app.tick()
    app.screen.call_after_refresh(shown.set)
    await shown.wait()
    return time.perf_counter() - began


def check(logs: Path, lines: int) -> None:
    """Nothing is lost, doubled or out of order."""
    for rank in range(HOSTS):
        with (logs / f"rank-{rank}.log").open() as log:
            numbers = [int(line[5:11]) for line in log if line.startswith("line ")]
        wrong = next(
            (want for want, found in itertools.zip_longest(range(lines), numbers) if want != found),
            None,
        )
        if numbers != list(range(lines)):
            raise SystemExit(
                f"rank {rank} has {len(numbers)} lines of {lines}, and differs at line {wrong}"
            )


def main() -> None:
    """Run the rounds."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--lines", type=int, default=LINES, help="of each of the hosts")
    given = parser.parse_args()
    collect_seldom()
    keep_loaded_modules()
    made = []
    with tempfile.TemporaryDirectory() as folder, loopback(Path(folder), HOSTS) as server:
        for turn in range(given.rounds):
            made.append(asyncio.run(burst(server, f"burst-{turn}", given.lines)))
            one = made[-1]
            print(
                f"round {turn + 1}: {one.rate:,.0f} lines/s, {len(one.frames)} frames, p95 "
                f"{one.p95 * 1e3:.1f} ms",
                flush=True,
            )
    frames = Burst(0, [seconds for one in made for seconds in one.frames])
    print(f"nothing lost in {given.rounds} bursts of {HOSTS} x {given.lines:,} lines")
    print(
        f"frames: p95 {frames.p95 * 1e3:.1f} ms of {len(frames.frames)} (bound {FRAME * 1e3:.0f} "
        "ms)"
    )
    print(
        f"lines per second, median: {statistics.median(one.rate for one in made):,.0f} (bound "
        f"{RATE:,})"
    )


if __name__ == "__main__":
    main()
