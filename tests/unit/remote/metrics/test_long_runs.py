"""Figures of runs whose steps come by the million: read in bounded memory, and the same as if all
were kept."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from random import Random

import numpy as np
import pytest

from remote.events import ClockMeasured, Restarted, SessionClosed
from remote.metrics import gather, step_collector, step_index
from remote.metrics.run import RunFigures, read_figures
from remote.metrics.step_collector import WINDOW, StepCollector
from remote.metrics.step_index import read_part
from remote.metrics.step_rows import ArrivedBlock, HostClock, unpack_rows
from remote.metrics.steps import COLUMNS, SERIES, StepTable, join_tables
from remote.record import snapshots
from remote.record.snapshots import find_newest
from remote.record.write import Recorder
from remote.run.apply import apply_record
from remote.run.output.script_readings import expander
from remote.run.run_state import RunState
from tests.kit.histories import START, History, block_of, plan, stepped
from tests.kit.recorded import record, recorded
from training.wire.host_events import HostSample, RankSample
from training.wire.rank_events import Started, StepFinished
from training.wire.records import Record
from training.wire.step_block import StepBlock, pack_columns

CLOCK = HostClock(offset=0.5, began=0.0)


def drawn_steps(random: Random, rank: int, first: int, count: int) -> list[StepFinished]:
    """Steps one after the other, with numbers of any kind."""
    steps = []
    for step in range(first, first + count):
        seconds = random.uniform(0.01, 2.0)
        steps.append(
            StepFinished(
                *(rank, step // 100, step, random.choice([random.gauss(1, 1), float("nan")])),
                *(seconds, seconds / 8, seconds / 2, seconds / 4, seconds / 2, seconds),
                *(random.randrange(1000), random.randrange(1000), random.randrange(2**40), 1),
            )
        )
    return steps


def drawn_blocks(seed: int) -> list[StepBlock]:
    random = Random(seed)
    counts = [random.choice((1, 2, 3, 16, 100)) for _ in range(12)]
    return [block_of(drawn_steps(random, 1, 7, count), START, 0.25) for count in counts]


# Blocks -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(10))
def test_many_blocks_have_the_numbers_that_each_has(seed: int) -> None:
    blocks = drawn_blocks(seed)
    rows, places = unpack_rows([ArrivedBlock(block, 3, START, CLOCK) for block in blocks])
    assert places.tolist() == [
        place for place, block in enumerate(blocks) for _ in range(block.count)
    ]
    expected = [columns for block in blocks if (columns := block.unpack())]
    for name, column in zip(SERIES, rows.figures[:, 1:].T, strict=True):
        numbers = [number for columns in expected for number in getattr(columns, name)]
        np.testing.assert_array_equal(column, numbers)
    for name, column in zip(("step", "epoch"), rows.whole_numbers[:, 1:3].T, strict=True):
        assert column.tolist() == [n for columns in expected for n in getattr(columns, name)]
    times = [time - CLOCK.offset for columns in expected for time in columns.times]
    np.testing.assert_array_equal(rows.figures[:, 0], times)


def invalid_blocks() -> Iterator[StepBlock]:
    good = block_of(drawn_steps(Random(1), 0, 1, 20), START)
    yield replace(good, columns=good.columns[:-8])
    yield replace(good, columns="no base64")
    yield replace(good, count=19)
    yield replace(good, count=4096)
    # The packer takes what is within bounds, so what is not is made behind its back.
    for name, number in (("seconds", -1.0), ("seconds", float("nan")), ("sync", float("inf"))):
        yield packed_unchecked(name, number)
    for name, whole_number in (("step", -1), ("samples", 2**60), ("loss_known", 2)):
        yield packed_unchecked(name, whole_number)
    yield packed_unchecked("times", 2.0**34)


def packed_unchecked(name: str, number: float) -> StepBlock:
    """A block with a number that is out of bounds."""
    columns = block_of(drawn_steps(Random(1), 0, 1, 20), START).unpack()
    column = list(getattr(columns, name))
    column[7] = number
    return pack_columns(replace(columns, **{name: column}))


@pytest.mark.parametrize("block", [*invalid_blocks()])
def test_an_invalid_block_has_no_steps(block: StepBlock) -> None:
    with pytest.raises(ValueError, match=r"\w"):
        block.unpack()
    good = block_of([stepped(0, 1), stepped(0, 2)], START)
    arrived = [ArrivedBlock(each, 0, START, CLOCK) for each in (good, block, good)]
    rows, places = unpack_rows(arrived)
    assert (rows.step.tolist(), places.tolist()) == ([1, 2, 1, 2], [0, 0, 2, 2])


# The sample ---------------------------------------------------------------------------------------


def collect(steps_per_rank: int) -> StepCollector:
    """Steps of two ranks in blocks."""
    collector = StepCollector()
    for begin in range(1, 1 + steps_per_rank, 50):
        for rank in (0, 1):
            steps = [stepped(rank, step) for step in range(begin, begin + 50)]
            block = block_of(steps, START + begin)
            collector.add_block(block, Record(0, 0, 1, START + begin, block), CLOCK)
    return collector


@pytest.fixture
def few_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    """A run with more than 4,000 steps is a long one."""
    monkeypatch.setattr(step_collector, "MOST_ROWS", 4_000)
    monkeypatch.setattr(step_collector, "PACKED", 500)


@pytest.mark.usefixtures("few_rows")
def test_a_long_run_is_sampled_at_the_same_steps_of_all_ranks() -> None:
    collector = collect(20_000)
    steps, _ = collector.table(START)
    assert len(steps) <= 4_000
    assert collector.stride == 16
    of_first, of_second = steps.by_rank(0).step, steps.by_rank(1).step
    assert of_first.tolist() == of_second.tolist()
    # Whole windows, evenly spaced, from the first step on.
    windows = np.unique((of_first - 1) // WINDOW)
    assert windows.tolist() == [*range(0, 20_000 // WINDOW, 16)]
    assert np.count_nonzero(of_first <= WINDOW) == WINDOW


@pytest.mark.usefixtures("few_rows")
def test_a_short_run_is_kept_whole() -> None:
    collector = collect(2_000)
    assert collector.stride == 1
    assert len(collector.table(START)[0]) == 4_000


@pytest.mark.usefixtures("few_rows")
def test_the_first_iterations_of_a_rank_that_comes_later_are_kept() -> None:
    collector = collect(20_000)
    for step in range(10_001, 10_101):
        collector.add(stepped(2, step), 0, START + step)
    steps = collector.table(START)[0].by_rank(2).step
    assert steps[:WINDOW].tolist() == [*range(10_001, 10_001 + WINDOW)]


# From the record ----------------------------------------------------------------------------------


@pytest.fixture
def small_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    """A run of some thousand steps is a long one, and records of any length have snapshots."""
    monkeypatch.setattr(step_collector, "MOST_ROWS", 1_000)
    monkeypatch.setattr(step_index, "PART_ROWS", 700)
    monkeypatch.setattr(gather, "MOST_ROWS", 64)
    monkeypatch.setattr(snapshots, "APART", 1)


def long_history(seed: int = 1) -> History:
    """A run that was restarted after step 1000 of 1500, with steps in blocks and one by one."""
    random = Random(seed)
    history = History(plan(2)).training(2, 3_000)
    history.session(ClockMeasured(1, 0.25))
    add_steps(history, random, 3, 1_500)
    history.attempt = 1
    history.session(Restarted((0, 1), "once more"))
    started = Started(0, 1, 2, "cpu", "gloo", "2.14", 1, 9, 3_000, 100, 64, 10, resumed=1_000)
    for rank in (0, 1):
        history.rank(rank, replace(started, rank=rank))
    add_steps(history, random, 1_001, 3_000)
    return history.done(0, 1).session(SessionClosed())


def add_steps(history: History, random: Random, first: int, last: int) -> None:
    step = first
    while step <= last:
        count = min(random.choice((1, 30, 30, 64)), last - step + 1)
        for rank in (0, 1):
            steps = [stepped(rank, step + number, 0.01, samples=32) for number in range(count)]
            is_alone = count == 1
            history.rank(rank, steps[0] if is_alone else block_of(steps, history.now, 0.001))
            history.rank(
                rank, RankSample(rank, random.uniform(0, 100), 5), HostSample((1.0,), 3, 4)
            )
        step += count


def whole(folder: Path, monkeypatch: pytest.MonkeyPatch) -> RunFigures:
    """The figures of a run, as if it were a short one."""
    with monkeypatch.context() as patched:
        patched.setattr(step_collector, "MOST_ROWS", 1 << 19)
        patched.setattr(gather, "MOST_ROWS", 1 << 15)
        figures = read_figures(folder)
    assert figures.step_stride == 1
    return figures


def assert_same(steps: StepTable, others: StepTable) -> None:
    for name in COLUMNS:
        np.testing.assert_array_equal(getattr(steps, name), getattr(others, name), name)


@pytest.mark.usefixtures("small_limits")
def test_all_steps_of_a_long_run_are_read_part_by_part(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = recorded(tmp_path, long_history())
    expected = whole(folder, monkeypatch)
    figures = read_figures(folder, keeps_all=True)
    assert figures.step_stride > 1
    assert figures.all_steps is not None
    parts = [read_part(part) for part in figures.all_steps()]
    assert len(parts) > 4
    assert max(map(len, parts)) < 1_000
    last_steps = [part.step.max() for part in parts]
    assert last_steps == sorted(last_steps)
    assert_same(join_tables(parts), expected.steps)
    np.testing.assert_array_equal(figures.ranks[0].usage.cpu, expected.ranks[0].usage.cpu)


@pytest.mark.usefixtures("small_limits")
def test_what_a_script_does_not_tell_is_unknown_in_all_parts(tmp_path: Path) -> None:
    history = History(plan(2, script=True)).training(steps=2_000, samples=32)
    figures = read_figures(recorded(tmp_path, history), keeps_all=True)
    assert figures.all_steps is not None
    for part in figures.all_steps():
        steps = read_part(part)
        assert np.isnan(steps.correct).all()
        assert (steps.samples == 32).all()


@pytest.mark.usefixtures("small_limits")
def test_a_sample_of_a_long_run_has_its_figures(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = recorded(tmp_path, long_history())
    expected = whole(folder, monkeypatch)
    figures = read_figures(folder)
    assert figures.all_steps is None
    assert len(figures.steps) <= 1_000
    is_kept = np.isin(expected.steps.step, figures.steps.step)
    assert_same(figures.steps, expected.steps.where(is_kept))
    assert_same(figures.steps.early(), expected.steps.early())
    assert figures.summary == expected.summary
    assert 32 <= len(figures.ranks[0].usage.cpu) <= 64 < len(expected.ranks[0].usage.cpu)
    assert [remark.is_warning for remark in figures.remarks if "many steps" in remark.text] == [
        False
    ]


@pytest.mark.usefixtures("small_limits")
@pytest.mark.parametrize("is_complete", [True, False])
def test_what_a_snapshot_knows_is_not_worked_out_again(
    is_complete: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    history = long_history()
    if not is_complete:
        history.records = history.records[: len(history.records) // 2]
    state = RunState(history.plan)
    into = Recorder(tmp_path, history.plan)
    record(into, history, state)
    into.leave(state, expander(history.plan))
    assert find_newest(into.folder, history.plan)
    expected = whole(into.folder, monkeypatch)
    applied: list[Record] = []

    def note_and_apply(run: RunState, one: Record) -> None:
        applied.append(one)
        apply_record(run, one)

    monkeypatch.setattr("remote.metrics.read_record.apply_record", note_and_apply)
    figures = read_figures(into.folder, keeps_all=True)
    assert figures.all_steps is not None
    assert_same(join_tables(read_part(part) for part in figures.all_steps()), expected.steps)
    assert figures.summary == expected.summary
    assert not any(isinstance(one.event, StepBlock) for one in applied)


@pytest.mark.usefixtures("small_limits")
def test_records_behind_a_snapshot_count(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    history = long_history()
    records = history.records
    history.records = records[: len(records) // 2]
    state = RunState(history.plan)
    into = Recorder(tmp_path, history.plan)
    record(into, history, state)
    into.leave(state, expander(history.plan))
    monkeypatch.setattr(snapshots, "APART", 1 << 30)
    history.records = records[len(records) // 2 :]
    record(into, history, state)
    expected = whole(into.folder, monkeypatch)
    figures = read_figures(into.folder, keeps_all=True)
    assert figures.all_steps is not None
    assert_same(join_tables(read_part(part) for part in figures.all_steps()), expected.steps)
    assert figures.summary == expected.summary
