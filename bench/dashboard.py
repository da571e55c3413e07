"""What the dashboard costs, at 160x48: its CPU time, what it writes to the terminal, its frames.

The dashboard is the real one, in a terminal of its own. Records of made-up ranks come from a file,
each at its time, and are decoded and applied as a session does.

live    8 ranks on 4 hosts, 10 steps a second: CPU and bytes to the terminal
many    1,024 ranks on 128 hosts with 10 events a second each: frames, CPU, memory; nothing is lost
chart   one frame of a chart of 8 curves of 20,000 points
paint   CPU time from the start of `rankboard` until a screen is drawn, and from `q` to the end
open    a recorded run of 1,000,000 steps, by `rankboard open` and `watch`, until it is drawn

CPU times are those of the dashboard's process. Prints each round, then the medians with their
bounds.
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import runs
from parts.streams import START, Stream
from parts.terminal import COLUMNS, LINES, Terminal

from remote.events import SessionClosed
from remote.record.write import Recorder
from remote.run.apply import apply_record
from remote.run.run_state import RunState
from training.wire.events import SESSION, Record

RANKBOARD = str(Path(sys.executable).with_name("rankboard"))
FED = ("-m", "parts.fed")
WARM = 5.0
"""Seconds before anything is measured of a live run: its first frames, and the first curves."""
LIVE = Stream(hosts=4, slots=2, rate=10.0, seconds=40.0)
MANY = Stream(hosts=128, slots=8, rate=9.0, seconds=25.0)
LONG = Stream(hosts=4, slots=1, rate=10.0, seconds=25_000.0)
RUNS = 20
FLUSHED = 10_000
"""Records after which a record is written to disk."""
CURVES, POINTS, DRAWN = 8, 20_000, 50
PLOT = (COLUMNS - 2, LINES // 2)


@dataclass(frozen=True)
class Figure:
    """A figure of a round and its bound; a smaller one is better. `shown` formats it."""

    name: str
    value: float
    bound: float
    shown: str = "{:.2f}"
    unit: str = ""

    def __str__(self) -> str:
        return f"{self.name} {self.format(self.value)}"

    def format(self, value: float) -> str:
        """A value of it with its unit."""
        return f"{self.shown.format(value)} {self.unit}".strip()


def percentile(values: Sequence[float], share: float) -> float:
    """The smallest value that so many are not above."""
    return sorted(values)[math.ceil(share * len(values)) - 1]


# Live runs ----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Shown:
    """A live run in the dashboard: the share of a core, bytes a second to the terminal, seconds of
    frames, bytes of memory."""

    cpu: float
    written: float
    frames: list[float]
    memory: int


def show(stream: Stream, folder: Path) -> Shown:
    """Show a run for as long as records come, then leave it."""
    records, results = folder / "records", folder / "results.json"
    if not records.exists():
        stream.write(records)
    terminal = Terminal(
        (sys.executable, *FED, json.dumps(asdict(stream)), str(records), str(results)), folder
    )
    terminal.read_until("training")
    began = time.monotonic()
    terminal.read_for(WARM)
    since, cpu, written = time.monotonic(), terminal.cpu, terminal.written
    terminal.read_for(stream.seconds - WARM - 1)
    lasted = time.monotonic() - since
    cpu, written = terminal.cpu - cpu, terminal.written - written
    memory = _memory(terminal.pid)
    terminal.read_for(stream.seconds + 2 - (time.monotonic() - began))
    terminal.leave()
    result = json.loads(results.read_text())
    if (result["least"], result["most"]) != (stream.steps, stream.steps):
        raise SystemExit(f"steps are lost: {result['least']} to {result['most']} of {stream.steps}")
    return Shown(cpu / lasted, written / lasted, result["frames"], memory)


def _memory(pid: int) -> int:
    """The most memory that a process has had in RAM."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    peak = next(line for line in lines if line.startswith("VmHWM:"))
    return int(peak.split()[1]) << 10


def live(folder: Path) -> list[Figure]:
    """8 ranks."""
    found = show(LIVE, folder)
    return [
        Figure("8 ranks: CPU", 100 * found.cpu, 4.0, unit="% of a core"),
        Figure("8 ranks: to the terminal", found.written / 1e3, 10.0, unit="kB/s"),
    ]


def many(folder: Path) -> list[Figure]:
    """1,024 ranks."""
    found = show(MANY, folder)
    return [
        Figure("1,024 ranks: CPU", 100 * found.cpu, 25.0, unit="% of a core"),
        Figure("1,024 ranks: frames, p95", 1e3 * percentile(found.frames, 0.95), 50.0, unit="ms"),
        Figure("1,024 ranks: memory", found.memory / 1e6, 300.0, "{:.0f}", "MB"),
    ]


# A chart ------------------------------------------------------------------------------------------


def chart(folder: Path) -> list[Figure]:
    """Frames of a chart whose curves grow by a point each."""
    from tui.charts.plot_frame import PlotOptions, make_frame
    from tui.charts.raster import Curve

    chance = np.random.default_rng(7)
    x = np.arange(POINTS + DRAWN, dtype=float)
    values = 2.0 + chance.standard_normal((CURVES, len(x))).cumsum(axis=1) / 100
    spent = []
    for drawn in range(DRAWN):
        end = POINTS + drawn
        curves = [
            Curve(str(n), n, x[:end], of[:end] - 0.1, of[:end] + 0.1, of[:end])
            for n, of in enumerate(values)
        ]
        began = time.process_time()
        make_frame(curves, PlotOptions("step"), *PLOT)
        spent.append(time.process_time() - began)
    return [Figure("chart of 8 x 20,000 points", 1e3 * statistics.median(spent), 16.0, unit="ms")]


# Screens ------------------------------------------------------------------------------------------


def paint(folder: Path) -> list[Figure]:
    """The first frame of each screen, and quitting from it."""
    runs_dir = folder / "runs"
    if not runs_dir.exists():
        runs_dir.mkdir()
        runs.fill(runs_dir, RUNS)
    newest = max(path.name for path in runs_dir.iterdir())
    screens = {
        "home": ((), "finished", 0.8),
        "form": (("--local", "4", "--form"), "lenet5", 0.8),
        "run": (("attach", newest), "finished in", 0.7),
    }
    found, quits = [], []
    for name, (words, mark, bound) in screens.items():
        terminal = Terminal((RANKBOARD, *words), folder)
        terminal.read_until(mark)
        found.append(Figure(f"first paint of {name}", terminal.cpu, bound, unit="s of CPU time"))
        terminal.read_for(1.0)
        used = terminal.cpu
        terminal.leave()
        quits.append(terminal.cpu - used)
    return [*found, Figure("quit", max(quits), 0.3, unit="s of CPU time")]


def record(runs_dir: Path, stream: Stream) -> None:
    """Record a run of these steps that has ended."""
    runs_dir.mkdir()
    journal = runs_dir / "journal"
    stream.write(journal)
    into, state = Recorder(runs_dir, stream.plan), RunState(stream.plan)
    with journal.open("rb") as lines:
        for number, line in enumerate(lines):
            into.raw(line)
            if number % FLUSHED == 0:
                into.flush()
    journal.unlink()
    closed = Record(SESSION, 0, 1, START + stream.seconds + 1, SessionClosed())
    into.write(closed)
    apply_record(state, closed)
    into.close(state)


def opened(folder: Path) -> list[Figure]:
    """A long run that was recorded."""
    runs_dir = folder / "long"
    if not runs_dir.exists():
        record(runs_dir, LONG)
    found = []
    for command in ("open", "watch"):
        words = (RANKBOARD, command, LONG.plan.run, "--runs-dir", str(runs_dir))
        began, terminal = time.monotonic(), Terminal(words, folder)
        terminal.read_until(f"step {LONG.steps}/")
        seconds, cpu = time.monotonic() - began, terminal.cpu
        terminal.leave()
        found += [
            Figure(f"{command} of 1,000,000 steps", seconds, 2.0, unit="s"),
            Figure(f"{command}: CPU time", cpu, 2.0, unit="s"),
        ]
    return found


PARTS: dict[str, Callable[[Path], list[Figure]]] = {
    "live": live,
    "many": many,
    "chart": chart,
    "paint": paint,
    "open": opened,
}


def main() -> None:
    """Measure the parts in rounds."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", choices=PARTS, nargs="+", default=list(PARTS))
    given = parser.parse_args()
    made: dict[str, list[Figure]] = {}
    with tempfile.TemporaryDirectory() as folder:
        for turn in range(given.rounds):
            for part in given.only:
                where = Path(folder, part)
                where.mkdir(exist_ok=True)
                figures = PARTS[part](where)
                for one in figures:
                    made.setdefault(one.name, []).append(one)
                print(f"round {turn + 1}: {', '.join(map(str, figures))}", flush=True)
    for name, found in made.items():
        median, first = statistics.median(one.value for one in found), found[0]
        ratio = median / first.bound
        print(f"{name}: {first.format(median)} (bound {first.format(first.bound)}): {ratio:.2f}")


if __name__ == "__main__":
    main()
