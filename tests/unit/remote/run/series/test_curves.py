"""The curves of a run: what is kept of its series, and that it is right and bounded."""

from __future__ import annotations

import math
import random
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest

from remote.events import Restarted
from remote.run.apply import apply_record
from remote.run.run_state import RunState
from remote.run.series.curves import Curves
from remote.run.series.definitions import SERIES, Scope, Unit
from remote.run.series.downsampling import Downsampler, GatheredPoints, Points
from remote.run.series.source_history import CAPACITY, WAITING, SourceHistory
from tests.kit.histories import START, History, plan, state_of, stepped
from training.wire.events import SESSION, Record
from training.wire.host_events import GpuSample, HostSample, RankSample
from training.wire.rank_events import Evaluated, ScriptMetrics, Started, StepFinished


def steps_of(curves: Curves, rank: int, count: int, **figures: float) -> None:
    for step in range(1, count + 1):
        curves.take(replace(stepped(rank, step), **figures), rank, step, step / 10)


def as_lists(points: Points) -> list[list[float]]:
    return [list(column) for column in (points.step, points.low, points.high, points.mean)]


def add(buckets: Downsampler, values: list[float], first: int = 0) -> None:
    x = np.arange(first, first + len(values), dtype=float)
    rows = np.zeros(len(values), np.int64)
    buckets.add(GatheredPoints.gather(rows, rows, x, x / 10, np.array([values]).T))


@pytest.mark.parametrize("count", [1, 8, 9, 100, 1_000])
@pytest.mark.parametrize("block", [1, 7, 1_000])
def test_buckets_are_bounded_and_right(count: int, block: int) -> None:
    dice = random.Random(count)
    values = [math.nan if dice.random() < 0.3 else dice.gauss(0, 1) for _ in range(count)]
    buckets = Downsampler(1, 1, 8)
    for start in range(0, count, block):
        add(buckets, values[start : start + block], start)
    span = 1
    while span * 8 < count:
        span *= 2
    assert buckets.span == span
    parts = [values[start : start + span] for start in range(0, count, span)]
    x, other, filled = buckets.columns(0)
    low, high, _, _ = buckets.ends(0, 0)
    assert filled.all()
    assert other == pytest.approx(x / 10)
    for part, *found in zip(parts, low, high, buckets.mean(0, 0), strict=True):
        known = [value for value in part if not math.isnan(value)]
        wanted = [min(known), max(known), sum(known) / len(known)] if known else [math.nan] * 3
        assert found == pytest.approx(wanted, nan_ok=True)


def test_points_may_come_in_any_order() -> None:
    dice = random.Random(3)
    places = list(range(500, 900))
    dice.shuffle(places)
    shuffled, sorted_ = Downsampler(1, 1, 16), Downsampler(1, 1, 16)
    add(sorted_, [math.sin(place) for place in range(500, 900)], 500)
    for place in places:
        add(shuffled, [math.sin(place)], place)
    assert shuffled.span == sorted_.span
    assert shuffled.mean(0, 0) == pytest.approx(sorted_.mean(0, 0))
    assert list(shuffled.ends(0, 0)[0]) == list(sorted_.ends(0, 0)[0])


@pytest.mark.parametrize("recent", [False, True])
@pytest.mark.parametrize("seed", range(8))
def test_each_bucket_has_what_came_to_it_since_the_last_restart(seed: int, recent: bool) -> None:
    dice = random.Random(seed)
    buckets = Downsampler(1, 2, 8, recent=recent)
    came: list[tuple[int, int, float]] = []
    newest = dice.randrange(20)
    forgotten = -1  # up to here, recent buckets may be gone
    for _ in range(60):
        if came and dice.random() < 0.15:
            newest = max(0, newest - dice.randrange(6))
            buckets.rewind(newest)
            span = buckets.span
            came = [one for one in came if one[1] // span * span < newest]
        rows = [dice.randrange(2) for _ in range(dice.randrange(1, 6))]
        places = [max(0, newest + dice.randrange(-2, 5)) for _ in rows]
        values = [dice.gauss(0, 1) for _ in rows]
        came += zip(rows, places, values, strict=True)
        newest = max(newest, *places)
        if recent:
            forgotten = max(forgotten, newest - 4)
        x = np.array(places, float)
        row = np.array(rows)
        buckets.add(GatheredPoints.gather(row, row, x, x / 10, np.array([values]).T))
        for row_number in (0, 1):
            wanted: dict[int, list[float]] = {}
            for of, place, value in came:
                if of == row_number:
                    wanted.setdefault(place // buckets.span, []).append(value)
            _, _, filled = buckets.columns(row_number)
            low, high, *_ = buckets.ends(0, row_number)
            mean = buckets.mean(0, row_number)
            first = int(buckets.begin // buckets.span)
            found = {
                first + slot: (low[slot], high[slot], mean[slot])
                for slot in np.flatnonzero(filled).tolist()
                if first + slot > forgotten
            }
            assert found == {
                number: pytest.approx((min(values), max(values), sum(values) / len(values)))
                for number, values in wanted.items()
                if number > forgotten
            }


def test_recent_buckets_keep_each_of_the_last_points() -> None:
    buckets = Downsampler(1, 1, 64, recent=True)
    for start in range(0, 5_000, 10):
        add(buckets, [float(value) for value in range(start, start + 10)], start)
        assert buckets.span == 1
    x, _, _ = buckets.columns(0)
    assert list(x) == list(range(int(x[0]), 5_000))
    assert 32 <= len(x) <= 64
    assert list(buckets.mean(0, 0)) == list(x)


def test_a_rank_and_all_together() -> None:
    curves = Curves(3, 1)
    for rank, loss in enumerate((1.0, 4.0, 1.5)):
        steps_of(curves, rank, 4, loss=loss)
    assert curves.rows("loss") == (0, 1, 2)
    assert as_lists(curves.of("loss", 1)) == [[1, 2, 3, 4], *[[4.0] * 4] * 3]
    whole = curves.whole("loss")
    assert as_lists(whole)[:3] == [[1, 2, 3, 4], [1.0] * 4, [4.0] * 4]
    assert list(whole.mean) == pytest.approx([6.5 / 3] * 4)
    assert (list(whole.lowest), list(whole.highest)) == ([0] * 4, [1] * 4)
    assert list(whole.time) == pytest.approx([0.1, 0.2, 0.3, 0.4])


def test_rates_are_quotients_of_sums_and_add_up() -> None:
    curves = Curves(2, 1)
    for rank in range(2):
        for step, seconds in enumerate((0.5, 1.5), 1):
            curves.take(
                StepFinished(rank, 1, step, 1.0, seconds, samples=8, correct=2), rank, step, step
            )
    assert list(curves.of("throughput", 0).mean) == pytest.approx([16, 16 / 3])
    assert list(curves.whole("throughput").mean) == pytest.approx([32, 32 / 3])
    assert list(curves.whole("accuracy").mean) == [0.25, 0.25]


def test_rates_add_up_over_the_ranks_of_their_attempt() -> None:
    curves = Curves(4, 1)
    for ranks, first in ((4, 1), (2, 11), (3, 21)):
        curves.rewind(first - 1)
        for rank in range(ranks):
            for step in range(first, first + 15):  # of which the next attempt makes 5 anew
                one = StepFinished(rank, 1, step, 1.0, 0.5, samples=8)
                curves.take(one, rank, step, step)
    whole = curves.whole("throughput")
    assert whole.step.tolist() == [*range(1, 36)]
    assert whole.mean.tolist() == [64.0] * 10 + [32.0] * 10 + [48.0] * 15
    assert curves.rows("loss") == (0, 1, 2, 3)
    curves.rewind(0)
    curves.take(StepFinished(0, 1, 1, 1.0, 0.5, samples=8), 0, 1, 1)
    assert curves.whole("throughput").mean.tolist() == [16.0]
    assert curves.rows("loss") == (0,), "nothing of the others is left"


def test_a_long_run_stays_bounded_and_its_end_fine() -> None:
    curves = Curves(2, 1)
    for rank in range(2):
        steps_of(curves, rank, 30_000, loss=2.0)
    for points in (curves.of("loss", 1), curves.whole("loss")):
        assert CAPACITY // 4 < len(points) <= CAPACITY
        assert points.step[-1] > 29_900
    fine = curves.whole("loss", since=29_000)
    assert list(fine.step[-1_000:]) == list(range(29_001, 30_001))


def size_of(*kept: SourceHistory) -> int:
    """Bytes of the buckets of these."""
    return sum(
        part.nbytes
        for history in kept
        for buckets in (*history._each, *history._together)
        for part in vars(buckets).values()
        if isinstance(part, np.ndarray)
    )


def test_many_ranks_take_no_more_room() -> None:
    kept = [Curves(ranks, 1) for ranks in (128, 1_024)]
    for curves in kept:
        curves.take(stepped(0, 1), 0, 1, 0.1)
        curves.take(stepped(0, 5_000), 0, 5_000, 0.1)
    sizes = [size_of(curves._histories["step"]) for curves in kept if curves.rows("loss")]
    assert max(sizes) < 100 << 20


@pytest.mark.parametrize("reads", [0, 7, 1_000])
def test_who_appends_gives_single_ranks_their_points_and_not_who_reads(reads: int) -> None:
    curves, spread = Curves(2, 1), list[str]()
    history = curves._histories["step"]
    put = history._spread
    history._spread = lambda: (spread.append(doing), put())  # type: ignore[method-assign,assign,func-returns-value]
    doing = "appends"
    for step in range(1, WAITING + 1_100):
        curves.take(stepped(0, step), 0, step, step / 10)
        if reads and step % reads == 0:
            doing = "reads"
            curves.whole("loss")
            doing = "appends"
    assert spread == ["appends"]
    assert curves.of("loss", 0).step[-1] == pytest.approx(WAITING + 1_099, abs=20)


def test_a_restart_makes_steps_anew() -> None:
    state = state_of(plan(2), History(plan(2)).training(steps=20).records)
    test = Evaluated(0, 2, 20, 0.3, 0.9, 100, 0.1)
    sample = RankSample(0, 50.0, 1 << 20)
    records = [
        Record(0, 0, 800, START + 40, test),
        Record(0, 0, 801, START + 41, sample),
        Record(SESSION, 1, 900, START + 60, Restarted((0, 1), "a rank failed")),
    ]
    for rank in (0, 1):
        again = Started(rank, 7, 2, "cpu", "gloo", "2", 1, 6, 40, 10, 640, 100, resumed=15)
        said = [again, *(replace(stepped(rank, step), loss=7.0) for step in (16, 17))]
        records += [Record(rank, 1, 901 + at, START + 61 + at, one) for at, one in enumerate(said)]
    records.append(Record(0, 1, 950, START + 70, sample))
    for record in records:
        apply_record(state, record)
    whole = state.curves.whole("loss")
    assert list(whole.step) == list(range(1, 18))
    assert list(whole.mean[15:]) == [7.0, 7.0]
    assert not len(state.curves.whole("test_loss"))
    assert list(state.curves.of("cpu", 0).step) == [17.0], "that of step 20 was undone"


def test_samples_of_hosts_are_against_what_they_may_use() -> None:
    history = History(plan(1, slots=2)).training()
    state = history.state()
    cores = state.hosts[0].hello
    assert cores is None or cores.cores
    for seq, event in enumerate(
        (RankSample(0, 60.0, 1), RankSample(1, 30.0, 1), HostSample((20.0, 90.0), 5, 9, 1, 2))
    ):
        apply_record(state, Record(0, 0, 900 + seq, history.now + 1, event))
    machine = state.curves.of("cores", 0)
    assert as_lists(machine)[1:] == [[pytest.approx(0.2)], [pytest.approx(0.9)], [0.55]]
    assert machine.highest[0] == 1
    assert list(state.curves.of("host_memory", 0).mean) == [5.0]
    used = state.curves.of("host_cpu", 0).mean[0]
    assert math.isnan(used) if not cores else used == pytest.approx(0.9 / cores.cores)


def test_gpus_have_curves_where_ranks_train_on_them() -> None:
    for device, rows in (("cuda:0", (0, 1)), ("cpu", ())):
        history = History(plan(2)).rank(0, GpuSample(0, 3.0, 7, 8))
        history.training(device=device)
        for rank, use in ((0, 90.0), (1, math.nan)):
            history.rank(rank, GpuSample(rank, use, 5 << 30, 8 << 30))
        state = history.state()
        assert state.curves.rows("gpu") == state.curves.rows("gpu_memory") == rows
        assert [bool(rank.gpu) for rank in state.ranks] == [bool(rows)] * 2
    history = History(plan(2, script=True)).rank(1, GpuSample(1, 3.0, 7, 8))
    assert history.state().curves.rows("gpu") == (1,), "a script does not say where it trains"


def test_the_use_of_a_gpu_that_does_not_tell_it_is_a_gap() -> None:
    history = History(plan(1)).training(device="cuda:0")
    for use in (90.0, math.nan):
        history.say(0, GpuSample(0, use, 5 << 30, 8 << 30), after=1.0)
    curves = history.state().curves
    assert as_lists(curves.of("gpu", 0))[-1] == pytest.approx([0.9, math.nan], nan_ok=True)
    assert list(curves.of("gpu_memory", 0).mean) == [5 << 30] * 2


@pytest.mark.parametrize("odd", [math.nan, math.inf, -math.inf, 1e308, -1e308, 5e-324])
def test_odd_values_are_kept_apart(odd: float) -> None:
    curves = Curves(1, 1)
    for step, loss in enumerate((1.0, odd, 2.0), 1):
        curves.take(StepFinished(0, 1, step, loss, 0.1), 0, step, step)
    for points in (curves.of("loss", 0), curves.whole("loss")):
        assert list(points.mean) == pytest.approx([1.0, odd, 2.0], nan_ok=True)


def test_steps_far_apart_do_not_fill_the_memory() -> None:
    curves = Curves(1, 1)
    for step in (1, 2, 2**40, 3, 2**62, 2**63 - 1):
        curves.take(stepped(0, step), 0, step, 1.0)
    assert 1 <= len(curves.whole("loss")) <= CAPACITY
    assert len(curves.of("loss", 0, since=2**61)) >= 1


def test_every_series_can_be_read_before_there_is_anything() -> None:
    state = RunState(plan(2))
    for series in SERIES:
        assert not len(state.curves.whole(series))
        assert not len(state.curves.of(series, 0))
        assert state.curves.rows(series) == ()


def test_the_state_of_a_run_needs_no_numpy_before_its_first_step() -> None:
    program = "import sys; import remote.run.run_state; print('numpy' in sys.modules)"
    found = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert found.stdout == "False\n", found.stderr


def test_one_rank_is_seen_as_far_back_as_all_together() -> None:
    curves = Curves(2, 1)
    for rank in (0, 1):
        steps_of(curves, rank, 6_000)
    for since in (3_500, 4_500, 5_900):
        for points in (curves.whole("loss", since), curves.of("loss", 1, since)):
            assert points.step[0] <= since, since
            assert points.step[-1] == pytest.approx(6_000, abs=8)


def test_after_a_long_way_back_the_last_steps_are_kept_one_by_one_again() -> None:
    curves = Curves(1, 1)
    steps_of(curves, 0, 6_000)
    curves.rewind(100)
    for step in range(101, 401):
        curves.take(stepped(0, step), 0, step, 700 + step / 10)
    assert curves.of("loss", 0, 200).step.tolist()[-200:] == list(range(201, 401))


# Metrics ------------------------------------------------------------------------------------------


def told(curves: Curves, rank: int, step: int, **values: float) -> None:
    curves.take(ScriptMetrics(rank, step, 0.0, tuple(values.items())), rank, step, step / 10)


def test_a_metric_is_a_series_from_its_first_value_on() -> None:
    curves = Curves(4, 1)
    assert SERIES["metric:lr"].scope is Scope.RANK
    assert not len(curves.whole("metric:lr"))
    for step in (1, 2, 3):
        told(curves, 3, step, lr=step / 8, grad_norm=2.0)
    assert curves.metrics == ["metric:lr", "metric:grad_norm"]
    assert curves.rows("metric:lr") == (3,)
    assert as_lists(curves.of("metric:lr", 3))[0] == [1, 2, 3]
    assert list(curves.of("metric:lr", 3).mean) == [0.125, 0.25, 0.375]
    assert list(curves.of("metric:lr", 3).lowest) == [3, 3, 3]
    assert not len(curves.of("metric:lr", 0))
    assert list(curves.whole("metric:grad_norm").mean) == [2.0, 2.0, 2.0]
    curves.rewind(1)
    assert list(curves.whole("metric:lr").step) == [1]


def test_ranks_that_tell_a_metric_later_have_curves_too() -> None:
    curves = Curves(1_024, 1)
    for rank in (7, 900, *range(60)):
        for step in range(1, 2_000, 3):
            told(curves, rank, step, reward=rank + step)
        assert len(curves.of("metric:reward", rank))
    for rank in (7, 900, 59):
        points = curves.of("metric:reward", rank)
        assert points.mean == pytest.approx(points.step + rank)
        assert points.step[0] < 64
        assert points.step[-1] > 1_930
    assert len(curves.whole("metric:reward")) > 250


def test_metrics_of_many_ranks_take_little_room() -> None:
    curves, names = Curves(1_024, 1), [f"m{number}" for number in range(200)]
    for rank in range(1_024):
        for step in (1, 50_000):
            told(curves, rank, step, **dict.fromkeys(names, float(step)))
    assert curves.of("metric:m0", 3).mean.max() == 50_000
    assert len(curves.of("metric:m0", 255)), "the first 256 ranks have curves"
    assert not len(curves.of("metric:m0", 256)), "it counts in all together alone"
    assert curves.rows("metric:m0") == tuple(range(1_024))
    assert size_of(*(curves._histories[name] for name in curves.metrics)) < 64 << 20


def test_units_of_metrics() -> None:
    units = {name: SERIES[f"metric:{name}"].unit for name in ("data_seconds", "val_accuracy", "kl")}
    assert units == {"data_seconds": Unit.SECONDS, "val_accuracy": Unit.SHARE, "kl": Unit.NUMBER}
    assert SERIES["metric:tokens_per_second"].unit is Unit.PER_SECOND
    with pytest.raises(KeyError):
        SERIES["nothing"]
