"""How good the forecast of the end is: recorded runs are replayed, and at every tick of half a
second the time that is left by the forecast is compared with the time that was left in truth.

    python -m tests.kit.forecasts runs

Looks at a run from 5 % of its training on, to its end, when the last rank has finished its last
step or test; in a run of few steps, from the first forecast on: two steps have been timed. The
error of a forecast is its difference from the truth, as a share of the whole training; a jump is by
how much more or less than the tick the forecast changes, as a share of itself, where that is more
than half a second. Prints the worst of each run, then the worst of all, with their bounds.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from remote.record import events_file, read
from remote.record.layout import EVENTS
from remote.run.apply import apply_record
from remote.run.run_state import RunState
from training.wire.events import Record
from training.wire.rank_events import Finished, Started

TICK = 0.5
AFTER = 0.05
LEAST = 0.5
"""Seconds of a change that nobody sees."""
ERROR, JUMP = 0.20, 0.05


@dataclass(frozen=True)
class Tick:
    """The seconds that were left by the forecast, `passed` seconds after training began."""

    passed: float
    left: float


@dataclass(frozen=True)
class Found:
    """The forecasts of a run whose training took so many `seconds`."""

    seconds: float
    ticks: tuple[Tick, ...]

    def error(self, tick: Tick) -> float:
        """By how much a forecast was wrong."""
        return abs(tick.left - (self.seconds - tick.passed)) / self.seconds

    @property
    def errors(self) -> list[float]:
        """Of all ticks."""
        return [self.error(tick) for tick in self.ticks]

    @property
    def jumps(self) -> list[float]:
        """From tick to tick."""
        return [_jump(*pair) for pair in pairwise(self.ticks)]


def _jump(before: Tick, after: Tick) -> float:
    change = abs(after.left - (before.left - (after.passed - before.passed)))
    return change / before.left if change > LEAST else 0.0


def forecasts(state: RunState, records: Iterable[Record]) -> Iterator[tuple[float, float]]:
    """The time of every tick of a run, and how much was left by the forecast."""
    tick = math.nan
    for record in records:
        when = record.time
        if math.isnan(tick) and isinstance(record.event, Started):
            tick = when
        while tick < when:
            yield tick, state.eta(tick)
            tick += TICK
        apply_record(state, record)


def found(state: RunState, records: Iterable[Record]) -> Found | None:
    """The forecasts of a run; None where it did not finish."""
    all_records = list(records)
    began = min((one.time for one in all_records if isinstance(one.event, Started)), default=0.0)
    ends = [one.time for one in all_records if isinstance(one.event, Finished)]
    if len(ends) < len(state.ranks):
        return None
    seconds = max(ends) - began
    ticks = (Tick(when - began, left) for when, left in forecasts(state, all_records))
    known = (tick for tick in ticks if math.isfinite(tick.left))
    return Found(
        seconds, tuple(tick for tick in known if AFTER * seconds <= tick.passed <= seconds)
    )


def main() -> None:
    """Look at the runs of some folders."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", nargs="+", type=Path, help="of runs")
    given = parser.parse_args()
    errors, jumps = [], []
    for folder in sorted(path.parent for one in given.folder for path in one.glob(f"*/{EVENTS}")):
        plan = read.load_plan(folder)
        run = found(RunState(plan), events_file.read_records(folder, len(plan.hosts)))
        if not run or len(run.ticks) < 2:
            continue
        errors.append(max(run.errors))
        jumps.append(max(run.jumps))
        print(
            f"{folder.name}: {run.seconds:.0f} s, known after {run.ticks[0].passed:.1f} s, error "
            f"at most {errors[-1]:.1%}, jump at most {jumps[-1]:.1%}",
            flush=True,
        )
    print(f"{len(errors)} runs: error at most {max(errors):.1%} (bound {ERROR:.0%})")
    print(f"jump at most {max(jumps):.1%} (bound {JUMP:.0%})")


if __name__ == "__main__":
    main()
