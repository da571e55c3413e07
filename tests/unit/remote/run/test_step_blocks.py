"""Blocks of steps: the state that they come to is that of their steps, one by one."""

from __future__ import annotations

import math
import random
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, fields, is_dataclass
from enum import Enum
from typing import Any

import pytest
from msgspec import Struct
from msgspec.structs import asdict

from remote.events import ClockMeasured, HostSilent, Restarted, Stalled
from remote.plan.plan import Plan
from remote.record import summary
from remote.run.apply import apply_record
from remote.run.findings.alerts import find_alerts
from remote.run.run_state import RunState
from remote.run.series.definitions import SERIES, STEP
from remote.run.series.step_times import RecentSteps, StepTotals
from remote.run.state.rank_state import RankState
from tests.kit.histories import START, plan
from training.wire.enums import Phase
from training.wire.events import SESSION, Event, Record, split_steps
from training.wire.host_events import HostSample, Launched, OutputText, RankSample, Spawned
from training.wire.rank_events import (
    Collectives,
    Entered,
    Epoch,
    Evaluated,
    Finished,
    Isolation,
    Saved,
    ScriptMetrics,
    Started,
    StepFinished,
)
from training.wire.step_block import StepBlock, StepColumns, pack_columns

FIGURES = ("loss", "seconds", "ready", "samples", "bytes_sent")


@dataclass
class MadeUpRank:
    """What a rank has come to, and how it goes on."""

    step: int = 0
    now: float = START
    slowness: float = 1.0
    loss_factor: float = 1.0
    has_losses: bool = True
    is_watched: bool = True


class Story:
    """Random records of a run whose ranks report blocks of steps, and much else between them."""

    def __init__(self, seed: int, of: Plan) -> None:
        self._dice = random.Random(seed)
        self._plan = of
        self._ranks = [MadeUpRank() for _ in of.slots]
        self._steps_per_epoch = self._dice.choice((40, 130, 1000))
        self._longest_block = self._dice.choice((3, 20, 60, 200))
        self._is_calm = self._dice.random() < 0.3
        self._seqs = dict.fromkeys(range(SESSION, len(of.hosts)), 0)
        self._attempt = 0
        self._now = START

    def tell(self, turns: int) -> Iterator[Record]:
        """Yield the records of so many turns, in each of which every rank makes some steps."""
        yield from self._start(resumed=0)
        for _ in range(turns):
            for number in range(len(self._ranks)):
                yield from self._turn(number)
        for number, rank in enumerate(self._ranks):
            yield self._say_rank(number, Finished(number, 4, rank.step, 4.0))

    def _start(self, resumed: int) -> Iterator[Record]:
        for number, slot in enumerate(self._plan.slots):
            self._ranks[number].step = resumed
            yield self._say(slot.host, Launched((number,), tuple(range(len(self._plan.hosts)))))
            yield self._say(slot.host, Spawned(number, 100 + number))
            if self._plan.job:
                counts = (61_706, 4_000, self._steps_per_epoch, 640, 100, resumed)
                started = Started(number, 1, len(self._ranks), "cpu", "gloo", "2.14", 1, *counts)
                yield self._say(slot.host, started)

    def _turn(self, number: int) -> Iterator[Record]:
        rank = self._ranks[number]
        self._change_course(rank)
        if not self._is_calm:
            for event in self._other_events(number, rank):
                yield self._say_rank(number, event)
            yield from self._events_of_session()
            if self._dice.random() < 0.02:
                yield from self._restart()
        block = self._block(number, rank, self._dice.randint(1, self._longest_block))
        # The clock of a rank may be ahead of that of its agent.
        self._now = max(self._now, rank.now - self._dice.choice((0.0, 0.0, 0.005)))
        yield self._say_rank(number, block)
        if rank.step % self._steps_per_epoch == 0 and self._plan.job:
            epoch = rank.step // self._steps_per_epoch
            yield self._say_rank(number, Epoch(number, epoch, rank.step, 1.0, 0.5, 640, 4.0))

    def _change_course(self, rank: MadeUpRank) -> None:
        if self._is_calm:
            return
        if self._dice.random() < 0.1:
            rank.slowness = self._dice.choice((1.0, 1.2, 3.0))
        if self._dice.random() < 0.1:
            rank.loss_factor = self._dice.choice((1.0, 1.0, 30.0, 2e4))
        if self._plan.script and self._dice.random() < 0.1:
            rank.has_losses = not rank.has_losses
            rank.is_watched = self._dice.random() < 0.9

    def _other_events(self, number: int, rank: MadeUpRank) -> Iterator[Event]:
        dice = self._dice
        if dice.random() < 0.3:
            yield RankSample(number, dice.uniform(1, 100), 1 << 20)
        if dice.random() < 0.1:
            yield HostSample((50.0,), 1, 2, 3, 4, 5)
        if dice.random() < 0.1:
            yield OutputText(number, "stdout", "a line")
        if self._plan.job:
            if dice.random() < 0.1:
                yield Entered(number, dice.choice((Phase.EVALUATING, Phase.TRAINING)))
            if dice.random() < 0.1:
                epoch = rank.step // self._steps_per_epoch
                yield Evaluated(number, epoch, rank.step, 1.0, 0.5, 100, 0.1)
            if dice.random() < 0.1:
                yield Saved(number, 1, rank.step, 0.1, 1 << 20)
            return
        if dice.random() < 0.2:
            values = (("loss", dice.choice((2.0, 2.0, 40.0))), ("lr", 0.1))
            yield ScriptMetrics(number, max(0, rank.step - dice.randint(0, 9)), 0.0, values)
        if dice.random() < 0.05:
            yield Isolation(number, rank.step, over=dice.random() < 0.5)
        if dice.random() < 0.05:
            yield Collectives(number, 3, 1 << 20, 0.1, 1.0)

    def _events_of_session(self) -> Iterator[Record]:
        host = self._dice.randrange(len(self._plan.hosts))
        if self._dice.random() < 0.03:
            yield self._say(SESSION, ClockMeasured(host, self._dice.uniform(-0.01, 0.01)))
        if self._dice.random() < 0.03:
            yield self._say(SESSION, HostSilent(host, 6.0))
        if self._dice.random() < 0.05:
            yield self._say(SESSION, Stalled((self._dice.randrange(len(self._ranks)),), 9.0))

    def _restart(self) -> Iterator[Record]:
        self._attempt += 1
        self._now = max([self._now, *(rank.now for rank in self._ranks)]) + 1.0
        hosts = tuple(range(len(self._plan.hosts)))
        yield self._say(SESSION, Restarted(hosts, "a rank failed"))
        yield from self._start(resumed=max(0, self._ranks[0].step - 10))

    def _block(self, number: int, rank: MadeUpRank, count: int) -> StepBlock:
        times, steps = zip(*(self._step(number, rank) for _ in range(count)), strict=True)
        columns = {
            name: [getattr(step, name) for step in steps]
            for name in StepFinished.__match_args__
            if name != "rank"
        }
        return pack_columns(StepColumns(number, times, **columns))

    def _step(self, number: int, rank: MadeUpRank) -> tuple[float, StepFinished]:
        dice = self._dice
        is_odd = not self._is_calm and dice.random() < 0.002
        rank.step += dice.choice((0, 2, 7)) if is_odd else 1
        seconds = 0.01 * dice.uniform(0.9, 1.1)
        rank.now = max(rank.now, START + 1.0) + seconds - (0.1 if is_odd else 0.0)
        loss = rank.loss_factor * (2.0 / (1 + rank.step / 300) + dice.uniform(-0.1, 0.1))
        if not rank.has_losses:
            loss = math.nan
        elif not self._is_calm and dice.random() < 0.0005:
            loss = dice.choice((math.nan, math.inf))
        busy = 0.0
        if self._plan.job or rank.is_watched:
            busy = 0.006 * rank.slowness * dice.uniform(0.95, 1.05)
        return rank.now, StepFinished(
            *(number, (rank.step - 1) // self._steps_per_epoch + 1 if self._plan.job else 0),
            *(rank.step, loss, seconds, 0.001, busy, busy / 2, busy, seconds),
            *(32, dice.randint(0, 32), 2**20, 0, rank.has_losses),
        )

    def _say_rank(self, number: int, event: Event) -> Record:
        return self._say(self._plan.slots[number].host, event)

    def _say(self, host: int, event: Event) -> Record:
        self._now += 0.001
        self._seqs[host] += 1
        return Record(host, self._attempt, self._seqs[host], self._now, event)


def describe(state: RunState) -> dict[str, Any]:
    """Return all that is shown of a run."""
    return {
        "summary": summary.summarize(state),
        "ranks": [describe_rank(rank) for rank in state.ranks],
        "hosts": state.hosts,
        "progress": state.progress,
        "phase": (state.phase, state.verdict, state.doing, state.step, state.cause),
        "times": (state.started, state.now, state.first_record_at),
        "lines": state.log.lines,
        "marks": state.marks.all(),
        "stalls": state.stalls,
        "stragglers": state.stragglers.by_rank,
        "episodes": state.stragglers.episodes,
        "rise": (state.divergence.rise, state.divergence.first),
        "alerts": find_alerts(state),
        "means": state.means,
        "metrics": state.metrics.beyond,
    }


def describe_rank(rank: RankState) -> dict[str, Any]:
    described = {field.name: getattr(rank, field.name) for field in fields(rank)}
    return described | {
        "timing": describe_timing(rank.timing),
        "pace": describe_pace(rank.pace),
        "doing": rank.doing,
        "recent_loss": rank.recent_loss,
        "between": rank.between,
    }


def describe_timing(timing: StepTotals) -> tuple[Any, ...]:
    quantiles = (timing.median, timing.p95, timing.total, timing.count)
    early = (timing.early, timing.first_early, timing.last_early)
    return (*quantiles, *early, timing.warm, timing.whole)


def describe_pace(pace: RecentSteps) -> tuple[Any, ...]:
    last_figures = {figure: [*pace.last(figure)] for figure in FIGURES}
    rates = (pace.means, pace.loss, pace.seconds, pace.median("ready"))
    return (*rates, pace.count, len(pace), last_figures)


def find_leaves(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Yield the numbers and texts in a value, each with where it is."""
    if isinstance(value, Struct):
        value = asdict(value)
    elif is_dataclass(value) and not isinstance(value, type):
        value = {field.name: getattr(value, field.name) for field in fields(value)}
    if isinstance(value, dict):
        for key, item in value.items():
            yield from find_leaves(item, f"{path}.{key}")
    elif isinstance(value, Iterable) and not isinstance(value, str | Enum):
        for place, item in enumerate(value):
            yield from find_leaves(item, f"{path}[{place}]")
    else:
        yield path, value


def curve_leaves(state: RunState) -> Iterator[tuple[str, Any]]:
    """Yield the numbers of the curves of steps. Which of two ranks that share the least value is
    named is left open."""
    for series_id, spec in SERIES.items():
        if spec.source is not STEP:
            continue
        curves = [("all", state.curves.whole(series_id))]
        curves += [
            (f"of {row}", state.curves.of(series_id, row)) for row in range(len(state.ranks))
        ]
        for name, points in curves:
            for column in ("step", "time", "low", "high", "mean"):
                yield from find_leaves(
                    getattr(points, column).tolist(), f"{series_id} {name} {column}"
                )


def assert_alike(ours: Iterable[tuple[str, Any]], theirs: Iterable[tuple[str, Any]]) -> None:
    our_leaves, their_leaves = dict(ours), dict(theirs)
    assert our_leaves.keys() == their_leaves.keys()
    for path, value in our_leaves.items():
        other = their_leaves[path]
        if isinstance(value, float) and isinstance(other, float):
            assert value == pytest.approx(other, rel=1e-9, abs=1e-9, nan_ok=True), path
        else:
            assert value == other, path


@pytest.mark.parametrize("seed", range(24))
def test_a_block_comes_to_the_state_of_its_steps(seed: int) -> None:
    dice = random.Random(seed)
    of = plan(dice.randint(1, 3), slots=dice.randint(1, 2), script=seed % 2 == 1)
    at_once, one_by_one = RunState(of), RunState(of)
    for record in Story(seed, of).tell(turns=8):
        apply_record(at_once, record)
        for part in split_steps(record):
            apply_record(one_by_one, part)
    assert_alike(find_leaves(describe(at_once)), find_leaves(describe(one_by_one)))
    assert_alike(curve_leaves(at_once), curve_leaves(one_by_one))
    later = at_once.now + 1.0
    assert at_once.eta(later) == pytest.approx(
        one_by_one.eta(later), rel=0.02, abs=1.0, nan_ok=True
    )
