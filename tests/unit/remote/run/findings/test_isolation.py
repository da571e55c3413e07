"""Ranks of a script that exchange nothing: what is said, and that their samples do not add up."""

from __future__ import annotations

from dataclasses import replace

import pytest

from remote.events import Restarted
from remote.record import summary
from remote.run.findings.alerts import Alarm, find_alerts
from remote.run.findings.isolation import describe_isolation
from remote.run.findings.rates import step_means
from remote.run.run_state import RunState
from tests.kit.histories import History, plan
from tests.kit.scripts import ended, script, seen, started
from training.wire.rank_events import Isolation
from tui.run.outcome import result_captions, result_table

ALONE = Isolation(0, 20)


def trained(*alone: int, steps: int = 3, event: Isolation = ALONE) -> History:
    """Four ranks make steps of 8 samples, and these say that they train alone."""
    history = started(script(watch=True))
    for step in range(1, steps + 1):
        for rank in range(4):
            history.rank(rank, seen(rank, step, 1.0, compute=0.1, samples=8))
    for rank in alone:
        history.rank(rank, replace(event, rank=rank))
    return history


def notes(run: RunState) -> list[str]:
    return [line.text for line in run.log.notes if "exchange" in line.text]


def test_it_is_said_once_all_ranks_say_it() -> None:
    assert not find_alerts(trained(0, 1, 2).state())
    run = trained(0, 1, 2, 3).state()
    (alert,) = find_alerts(run)
    assert (alert.alarm, alert.since, alert.over, alert.subject) == (Alarm.ALONE, run.now, 0.0, -1)
    assert alert.text.startswith("each rank trains alone: nothing was exchanged in 20 steps; ")
    assert notes(run) == [alert.text]


def test_it_is_over_once_one_exchanges_something() -> None:
    history = trained(0, 1, 2, 3)
    history.rank(2, replace(ALONE, rank=2, over=True)).rank(1, replace(ALONE, rank=1, over=True))
    run = history.state()
    (alert,) = find_alerts(run)
    assert alert.since < alert.over < run.now
    assert not run.trains_apart
    assert notes(run)[1:] == ["rank 2 exchanges something with other ranks now"]


def test_it_is_not_said_where_one_had_exchanged_something_before_the_last_came_so_far() -> None:
    history = trained(0, 1, 2)
    history.rank(1, replace(ALONE, rank=1, over=True)).rank(3, replace(ALONE, rank=3))
    assert not find_alerts(history.state())


def test_a_restart_forgets_it() -> None:
    history = trained(0, 1, 2, 3).session(Restarted((0, 1), "why"))
    run = history.state()
    assert not run.trains_apart
    assert run.curves.whole("throughput").mean[-1] == pytest.approx(4 * 16)
    assert [alert.alarm for alert in find_alerts(run)] == [Alarm.RESTART]


def test_a_single_rank_is_not_alone_and_neither_is_one_of_a_job() -> None:
    history = started(script(1, 1, watch=True)).rank(0, seen(0, 1, 1.0), ALONE)
    assert not find_alerts(history.state())
    job = History(plan(2)).training(3).rank(0, ALONE).rank(1, replace(ALONE, rank=1))
    assert not find_alerts(job.state())


@pytest.mark.parametrize(
    ("event", "words"),
    [
        (ALONE, "there is no process group"),
        (Isolation(0, 20, has_group=True), "DistributedDataParallel"),
        (Isolation(0, 20, driver="fabric"), "Fabric(devices=2, num_nodes=2) and fabric.launch()"),
        (Isolation(0, 20, driver="lightning"), "devices=2 and num_nodes=2"),
        (Isolation(0, 20, driver="accelerate"), "ACCELERATE_USE_CPU=true"),
        (Isolation(0, 20, driver="another"), "there is no process group"),
    ],
)
def test_the_usual_reason_is_asked_for(event: Isolation, words: str) -> None:
    assert words in describe_isolation(trained(0, 1, 2, 3, event=event).state())


def test_their_samples_per_second_do_not_add_up() -> None:
    together = trained(steps=5).state()
    apart = trained(0, 1, 2, 3, steps=5).state()
    assert step_means(together).throughput == pytest.approx(4 * 16)
    assert step_means(apart).throughput == apart.means.throughput == pytest.approx(16)
    for run, factor in ((together, 4), (apart, 1)):
        curve = run.curves.whole("throughput").mean
        assert list(curve) == pytest.approx([16 * factor] * len(curve))
        means = summary.summarize(run)["means"]["iterations_from_2"]
        assert means["samples_per_second"] == pytest.approx(16 * factor)
        columns, rows = result_table(run)
        column = columns.index("samples/s")
        assert [row[column] for row in rows[:-1]] == ["16"] * 4 + [f"{16 * factor}"]
        assert any("mean" in line for line in result_captions(run)[2:]) == (factor == 1)
        remarks = summary.summarize(run)["remarks"]
        assert remarks == ([describe_isolation(run)] if factor == 1 else [])


def test_a_summary_of_a_run_that_tells_no_collectives_is_as_it_was() -> None:
    found = summary.summarize(ended(trained()).closed())
    assert "collectives" not in found["ranks"][0]
