"""The figures of a run, read from its record."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from remote.events import Restarted, SessionClosed
from remote.metrics.run import RunFigures, read_figures
from remote.metrics.step_collector import StepCollector
from remote.metrics.steps import StepTable
from remote.metrics.waiting import measure_waits
from remote.record import layout
from remote.record.events_file import RunFolderError
from remote.record.read import summarized
from remote.run.state.phases import Verdict
from remote.statistics.mean import finite_mean
from tests.kit.histories import START, History, block_of, plan, stepped
from tests.kit.recorded import recorded
from training.job import Job
from training.wire.events import PREFIX, SESSION, to_object
from training.wire.host_events import Exited, GpuSample, Hello, HostSample, OutputText, RankSample
from training.wire.jsonl import dumps
from training.wire.rank_events import Evaluated, ScriptMetrics, Started, StepFinished
from training.wire.records import LAST_TIME


def started(rank: int, resumed: int = 0) -> Started:
    return Started(
        rank, 1, 2, "cpu", "gloo", "2.14.1", 1, 61_706, 40, 10, 640, 100, resumed=resumed
    )


def table(*steps: StepFinished) -> StepTable:
    """The table of these steps, one second apart."""
    columns = StepCollector()
    for number, step in enumerate(steps):
        columns.add(step, 0, START + number)
    return columns.table(START)[0]


def finished(runs_dir: Path, steps: int = 50, hosts: int = 2) -> RunFigures:
    history = History(plan(hosts))
    history.training(steps, data=0.01, compute=0.05, sync=0.04, samples=16, correct=4)
    return read_figures(recorded(runs_dir, history.done(*range(hosts)).session(SessionClosed())))


def test_a_run_is_summed_up(tmp_path: Path) -> None:
    run = finished(tmp_path)
    assert run.verdict is Verdict.FINISHED
    assert (run.name, run.description) == (plan().run, "ddp, lenet5 on digits")
    assert (run.world_size, run.nodes, len(run.steps)) == (2, 2, 100)
    assert run.steps.step.tolist() == [*range(1, 51), *range(1, 51)]
    assert run.steps.rank.tolist() == [0] * 50 + [1] * 50
    assert run.training_loss == pytest.approx(sum(2.0 / step for step in range(31, 51)) / 20)
    assert run.phases() == pytest.approx(
        {"seconds": 0.1, "data": 0.01, "compute": 0.05, "sync": 0.04}
    )
    assert run.samples_per_second() == pytest.approx(2 * 160)
    assert run.payload() == 4 * 61_706
    assert run.launched_with.keys() >= {"rankboard", "python", "platform"}


def test_the_figures_are_those_of_the_summary(tmp_path: Path) -> None:
    run = finished(tmp_path)
    assert run.summary == summarized(run.folder)
    timed = run.summary["means"]["iterations_2_to_40"]
    assert run.step_seconds() == pytest.approx(timed["seconds"])
    assert run.samples_per_second() == pytest.approx(timed["samples_per_second"])
    assert run.started == run.summary["started"]


def test_the_rule_leaves_out_the_first_iteration_and_those_after_the_40th() -> None:
    steps = [
        StepFinished(0, 1, step, 1.0, 9.0 if step in (1, 41) else step / 10)
        for step in range(1, 42)
    ]
    early = table(*steps).early()
    assert early.step.tolist() == [*range(2, 41)]
    assert early.mean("seconds") == pytest.approx(2.1)


def test_a_rank_with_more_steps_counts_no_more_than_another() -> None:
    steps = [StepFinished(0, 1, step, 1.0, 1.0) for step in range(1, 4)]
    assert table(*steps, StepFinished(1, 1, 1, 1.0, 3.0)).mean("seconds") == pytest.approx(2.0)


def test_steps_that_were_made_again_count_once(tmp_path: Path) -> None:
    history = History(plan(2)).training(steps=5)
    history.attempt = 1
    history.say(SESSION, Restarted((0, 1), "rank 1 was killed"))
    for rank in (0, 1):
        history.rank(rank, started(rank, resumed=3))
        history.rank(rank, StepFinished(rank, 1, 4, 7.0 + rank, 0.2))
    run = read_figures(recorded(tmp_path, history))
    assert run.steps.step.tolist() == [1, 2, 3, 4] * 2
    assert run.steps.by_rank(1).loss.tolist() == pytest.approx([2.0, 1.0, 2 / 3, 8.0])
    assert run.verdict is None
    assert [restart.step for restart in run.restarts] == [3]


def test_steps_in_blocks_are_those_that_come_one_by_one(tmp_path: Path) -> None:
    one_by_one, in_blocks = History(plan(2)).training(), History(plan(2)).training()
    for rank in (0, 1):
        steps = [stepped(rank, step, 0.25, samples=16, sync=0.125) for step in range(1, 60)]
        one_by_one.rank(rank, *steps)
        for part in (steps[:40], steps[40:]):
            in_blocks.say(rank, block_of(part, in_blocks.now + 1.0), after=1.0)
    found, expected = (
        read_figures(recorded(tmp_path / name, history)).steps
        for name, history in (("blocks", in_blocks), ("steps", one_by_one))
    )
    for name in ("rank", "step", "epoch", "loss", "seconds", "sync", "samples"):
        assert found.column(name).tolist() == pytest.approx(expected.column(name).tolist())
    times = np.diff(found.time[found.rank == 0])
    assert times.tolist() == pytest.approx([*[0.01] * 39, 1.0 - 18 * 0.01, *[0.01] * 18], rel=1e-3)


def test_a_rank_that_is_left_out_after_a_restart_keeps_what_counted(tmp_path: Path) -> None:
    history = History(plan(2)).training(steps=5)
    history.attempt = 1
    history.say(SESSION, Restarted((0,), "node2 was lost"))
    history.rank(0, started(0, resumed=3), StepFinished(0, 1, 4, 7.0, 0.2))
    run = read_figures(recorded(tmp_path, history))
    assert run.steps.by_rank(1).step.tolist() == [1, 2, 3]
    steps, losses = run.steps.mean_over_ranks("loss")
    assert steps.tolist() == [1, 2, 3, 4]
    assert losses[-1] == 7.0


def test_steps_of_an_attempt_that_is_over_do_not_count(tmp_path: Path) -> None:
    history = History(plan(2)).training(steps=2)
    history.attempt = 1
    history.say(SESSION, Restarted((0, 1), "rank 1 was killed"))
    history.attempt = 0
    history.rank(0, StepFinished(0, 1, 3, 7.0, 0.2))
    assert read_figures(recorded(tmp_path, history)).steps.by_rank(0).step.tolist() == [1, 2]


def test_steps_within_text_are_found_and_placed_in_time(tmp_path: Path) -> None:
    said = to_object(StepFinished(0, 1, 1, 2.5, 0.5)) | {"time": START + 10}
    later = to_object(StepFinished(0, 1, 2, 2.0, 0.5)) | {"time": START + 11}
    lines = f"{PREFIX}{dumps(said)}\nstep 1\n{PREFIX}{dumps(later)}"
    history = History(plan(1)).training().say(0, OutputText(0, "stdout", lines), after=100)
    run = read_figures(recorded(tmp_path, history))
    assert run.steps.loss.tolist() == [2.5, 2.0]
    assert run.steps.time.tolist() == pytest.approx([0.5, 1.5])
    assert run.zero == START + 9.5


def test_a_step_that_claims_to_be_endless_moves_no_other(tmp_path: Path) -> None:
    history = History(plan(1)).training()
    for step, seconds in ((1, math.inf), (2, 1e300), (3, LAST_TIME), (4, 0.1)):
        history.rank(0, StepFinished(0, 1, step, 1.0, seconds))
    run = read_figures(recorded(tmp_path, history))
    assert run.zero == run.started == START + 0.01
    assert run.steps.step.tolist() == [3, 4], "more than a record may say is no record"
    assert run.steps.time.tolist() == pytest.approx([0.05, 0.06])


def test_samples_become_curves_over_time(tmp_path: Path) -> None:
    history = History(plan(1)).training(device="cuda:0").rank(0, StepFinished(0, 1, 1, 1.0, 0.01))
    first = history.now - 0.01
    sample = HostSample((50.0, 100.0), 3, 8, 1000, 2000)
    history.say(0, sample, RankSample(0, 80.0, 5), after=1.0)
    history.say(0, GpuSample(0, 70.0, 3, 9, 1410))
    run = read_figures(recorded(tmp_path, history))
    host, rank = run.hosts[0].usage, run.ranks[0].usage
    assert host.cpu.tolist() == [75.0]
    assert (host.memory_used.tolist(), host.sent.tolist()) == ([3], [1000])
    assert host.time.tolist() == pytest.approx([history.now - 1.01 - first])
    assert (rank.cpu.tolist(), rank.memory.tolist()) == ([80.0], [5])
    gpu = run.ranks[0].gpu
    assert (gpu.use.tolist(), gpu.clock.tolist()) == ([70.0], [1410])
    assert (gpu.memory_used.tolist(), gpu.memory_total.tolist()) == ([3], [9])
    assert gpu.time.tolist() == pytest.approx([rank.time[0] + 0.01])


def test_facts_and_evaluations_are_kept(tmp_path: Path) -> None:
    hello = Hello("box", "me", 1, "3.11", "/usr/bin/python3", "Linux", "b", 2.0, 8 << 30)
    history = History(plan(1)).say(0, hello).training(steps=2)
    tests = [Evaluated(0, epoch, 10 * epoch, 2.0 / epoch, 0.3 * epoch, 9, 0.1) for epoch in (1, 2)]
    history.rank(0, tests[0]).rank(0, replace(tests[1], confusion=((5, 0), (0, 4))))
    run = read_figures(recorded(tmp_path, history))
    assert run.hosts[0].facts["hostname"] == "box"
    assert run.ranks[0].facts["torch"] == "2.14.1"
    assert [found.accuracy for found in run.evaluations] == [0.3, 0.6]
    assert run.evaluations[1].confusion == ((5, 0), (0, 4))
    assert run.evaluations[1].time - run.evaluations[0].time == pytest.approx(0.01)


def test_a_users_program_has_no_steps(tmp_path: Path) -> None:
    history = History(plan(2, script=True))
    for rank in (0, 1):
        history.rank(rank, OutputText(rank, "stdout", "hello"), Exited(rank, 0))
    run = read_figures(recorded(tmp_path, history.session(SessionClosed())))
    assert (run.job, run.script, run.description) == (None, ("train.py",), "train.py")
    assert (len(run.steps), run.steps.ranks) == (0, ())
    assert math.isnan(run.step_seconds())
    assert run.training_loss is None
    assert math.isnan(run.samples_per_second())
    assert math.isnan(run.steps.percentiles("seconds", (50,))[0])
    assert run.wait_times() is None
    assert run.zero == run.started


def test_a_script_that_tells_no_samples_has_no_rate_of_them(tmp_path: Path) -> None:
    history = History(plan(2, script=True)).training(steps=20, samples=0)
    run = read_figures(recorded(tmp_path, history.session(SessionClosed())))
    assert run.step_seconds() == pytest.approx(0.1)
    assert math.isnan(run.samples_per_second())


@pytest.mark.parametrize("script", [True, False])
def test_what_a_script_does_not_tell_is_not_known(tmp_path: Path, script: bool) -> None:
    told = {"samples": 32, "data": 0.01}
    history = History(plan(2, script=script)).training(steps=20, **told)
    steps = read_figures(recorded(tmp_path, history.session(SessionClosed()))).steps
    for name in ("samples", "data", "compute"):
        assert np.isfinite(steps.column(name)).all()
    for name in ("correct", "accuracy", "bytes_sent", "staleness"):
        assert np.isnan(steps.column(name)).all() == script


@pytest.mark.parametrize("script", [True, False])
def test_only_a_users_program_has_metrics(tmp_path: Path, script: bool) -> None:
    said = f"{PREFIX}{dumps(to_object(ScriptMetrics(0, 1, 0.0, (('val_loss', 2.5),))))}"
    history = History(plan(1, script=script)).rank(0, OutputText(0, "stdout", said))
    run = read_figures(recorded(tmp_path, history))
    assert [(one.name, one.value) for one in run.metrics] == [("val_loss", 2.5)] * script


def test_a_diverged_run_says_so(tmp_path: Path) -> None:
    history = History(plan(1)).training(steps=2)
    history.rank(0, StepFinished(0, 1, 3, math.nan, 0.1))
    run = read_figures(recorded(tmp_path, history))
    assert run.has_diverged
    assert [flaw.text for flaw in run.flaws] == ["diverged at step 3: loss 2 → NaN"]
    assert math.isnan(run.training_loss or 0.0)


def test_percentiles_and_means() -> None:
    steps = table(*(StepFinished(0, 1, step, 1.0, float(step)) for step in range(1, 102)))
    assert steps.percentiles("seconds", (50, 99, 100)) == (51.0, 100.0, 101.0)
    assert steps.warm().percentiles("seconds", (0,)) == (2.0,)
    assert steps.total("seconds") == sum(range(1, 102))


def test_a_column_of_what_all_ranks_made() -> None:
    two = [
        StepFinished(rank, 1, step, 10.0 * rank + step, 1.0) for rank in (0, 1) for step in (1, 2)
    ]
    numbers, losses = table(*two, StepFinished(0, 1, 3, 3.0, 1.0)).matrix("loss")
    assert numbers.tolist() == [1, 2]
    assert losses.tolist() == [[1.0, 11.0], [2.0, 12.0]]


def test_the_accuracy_of_a_batch() -> None:
    steps = table(
        StepFinished(0, 1, 1, 1.0, 1.0, samples=4, correct=3), StepFinished(0, 1, 2, 1.0, 1.0)
    )
    assert steps.column("accuracy")[0] == 0.75
    assert math.isnan(steps.column("accuracy")[1])


# Who waited for whom ------------------------------------------------------------------------------


def beaten(rank: int, step: int, ready: float, sync: float = 1.0) -> StepFinished:
    return StepFinished(rank, 1, step, 1.0, 2.0, sync=sync, ready=ready)


def test_all_wait_for_the_rank_whose_gradient_comes_last() -> None:
    steps = table(
        beaten(0, 1, 0.1), beaten(1, 1, 0.7), beaten(2, 1, 0.3),
        beaten(0, 2, 0.9), beaten(1, 2, 0.2), beaten(2, 2, 0.4),
    )  # fmt: skip
    found = measure_waits(steps)
    assert found.last.tolist() == [1, 0]
    np.testing.assert_allclose(found.seconds, [[0.6, 0.0, 0.4], [0.0, 0.7, 0.5]])
    np.testing.assert_allclose(found.for_whom(), [[0, 0.6, 0], [0.7, 0, 0], [0.5, 0.4, 0]])
    assert found.last_shares() == {0: 0.5, 1: 0.5, 2: 0.0}
    assert found.share == pytest.approx(2.2 / (2 * 4.0))


def test_a_rank_waits_no_longer_than_it_was_blocked() -> None:
    found = measure_waits(table(beaten(0, 1, 0.1, sync=0.2), beaten(1, 1, 0.7, sync=0.2)))
    np.testing.assert_allclose(found.seconds, [[0.2, 0.0]])


def test_steps_without_others_count_for_the_next_one_with_them() -> None:
    """As with local_sgd: rank 1's steps take twice as long, and rank 0 waits at the third."""
    steps = [
        StepFinished(rank, 1, step, 1.0, seconds, sync=sync, ready=0.5)
        for rank, seconds in ((0, 1.0), (1, 2.0))
        for step, sync in ((1, 0.0), (2, 0.0), (3, 5.0))
    ]
    found = measure_waits(table(*steps))
    assert found.last.tolist() == [-1, -1, 1]
    np.testing.assert_allclose(found.seconds, [[0, 0], [0, 0], [2.0, 0]])


def test_of_a_stale_method_nobody_waits(tmp_path: Path) -> None:
    job = Job(sync="parameter_server", sync_option=("mode=async",))
    history = History(replace(plan(2), work=job)).training(steps=2)
    assert read_figures(recorded(tmp_path, history)).wait_times() is None


# What cannot be read ------------------------------------------------------------------------------


def test_a_folder_without_a_run_is_named(tmp_path: Path) -> None:
    with pytest.raises(RunFolderError, match=r"holds no run: plan\.json"):
        read_figures(tmp_path)


def test_a_run_without_records_is_named(tmp_path: Path) -> None:
    folder = recorded(tmp_path, History(plan(1)).training())
    (folder / layout.EVENTS).unlink()
    with pytest.raises(RunFolderError, match=r"holds no run: events\.jsonl"):
        read_figures(folder)


def test_torn_and_strange_records_are_left_out_and_told_of(tmp_path: Path) -> None:
    folder = recorded(tmp_path, History(plan(1)).training(steps=3))
    with (folder / layout.EVENTS).open("ab") as file:
        file.write(b'{"host":7,"attempt":0,"seq":9,"time":1.0,"event":"closed"}\n{"host":0,"att')
    told: list[str] = []
    assert len(read_figures(folder, told.append).steps) == 3
    assert len(told) == 1
    assert "1 records were left out" in told[0]


def test_losses_that_are_too_large_for_a_mean_are_no_warning() -> None:
    steps = [StepFinished(0, 1, step, 1.7e308, 0.1) for step in (1, 2, 3)]
    assert math.isnan(table(*steps).mean("loss"))


def test_the_mean_of_the_largest_numbers_is_a_number() -> None:
    assert finite_mean([1.7e308, 1.7e308]) == 1.7e308
    assert finite_mean([1.0, math.inf, math.nan, 2.0]) == 1.5
    assert math.isnan(finite_mean([math.inf]))
