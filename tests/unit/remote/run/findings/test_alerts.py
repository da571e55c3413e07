"""What a user has to know while a run trains: since when, of whom, and whether it is over."""

from __future__ import annotations

import math
from dataclasses import replace

from remote.events import HostSilent, Restarted, Stalled
from remote.plan.plan import Policy
from remote.run.findings.alerts import (
    Alarm,
    Alert,
    describe_slow_spells,
    find_alerts,
    sort_by_urgency,
)
from remote.run.state.host_state import DISK_LOW
from tests.kit.histories import GLOO, START, History, plan, said, stepped
from training.wire.enums import Phase
from training.wire.host_events import Exited, HostSample
from training.wire.rank_events import Drifted, Entered, Started

STARTED = Started(0, 100, 2, "cpu", "gloo", "2.14.1", 1, 61_706, 40, 10, 640, 100)


def found(history: History) -> list[Alert]:
    return find_alerts(history.state())


def test_a_healthy_run_has_none() -> None:
    history = History(plan(2)).training(40)
    for host in range(2):
        history.say(host, HostSample((50.0,), 1, 2, disk_free=DISK_LOW))
    assert not found(history)
    assert not find_alerts(history.done(0, 1).closed())


def test_a_restart_says_why_and_from_which_step() -> None:
    history = History(replace(plan(2), policy=Policy(max_restarts=3))).training(9)
    history.session(Restarted((0, 1), "node2, rank 1: killed by SIGKILL at step 9"))
    (alert,) = found(history)
    assert alert.text == "restart 1 of 3: node2, rank 1: killed by SIGKILL at step 9"
    assert (alert.alarm, alert.over) == (Alarm.RESTART, 0.0)
    history.attempt = 1
    history.rank(0, replace(STARTED, resumed=5))
    (alert,) = found(history)
    assert alert.text.startswith("restart 1 of 3 from step 5: ")
    assert alert.over >= alert.since > START


def test_a_loss_that_is_no_number_and_models_that_differ_stay() -> None:
    history = History(plan(2)).training(3)
    history.rank(1, replace(stepped(1, 4), loss=math.nan)).rank(0, Drifted(0, 4, 0.25))
    assert [(one.alarm, one.text, one.over) for one in found(history)] == [
        (Alarm.DIVERGED, "loss is NaN at step 4 (rank 1)", 0.0),
        (Alarm.DRIFT, "the ranks' models differ by 2.5e-01, relatively, since step 4", 0.0),
    ]


def test_a_stall_is_over_once_the_ranks_go_on() -> None:
    history = History(plan(2)).training(3).session(Stalled((0, 1), 30.0))
    (alert,) = found(history)
    assert alert.text == "stalled: ranks 0 and 1 have made no step for 30 s"
    history.rank(0, stepped(0, 4)).rank(1, stepped(1, 4))
    (after,) = found(history)
    assert (after.key, bool(alert.over), bool(after.over)) == (alert.key, False, True)


def test_a_straggler_is_told_with_its_newest_figures() -> None:
    history = History(plan(2)).training()
    for step in range(1, 61):
        ready = (0.05, 0.2 if step < 30 else 0.4)
        for rank in range(2):
            history.rank(rank, stepped(rank, step, seconds=0.5, ready=ready[rank]))
    (alert,) = found(history)
    assert (alert.alarm, alert.subject, alert.over) == (Alarm.STRAGGLER, 1, 0.0)
    assert alert.text.startswith("all ranks wait for rank 1 on node2: busy 400 of 500 ms")


def test_a_straggler_that_a_restart_left_out_is_told_at_the_end() -> None:
    history = History(plan(2)).training()
    for step in range(1, 41):
        history.now += 0.5
        for rank in range(2):
            history.rank(rank, stepped(rank, step, seconds=0.5, ready=0.4 if rank else 0.05))
    history.session(Restarted((0,), "node2 was lost"))
    history.attempt = 1
    history.rank(0, replace(STARTED, world_size=1, resumed=40))
    (told,) = describe_slow_spells(history.done(0).closed())
    assert "all ranks wait for rank 1 on node2: busy 400 of 500 ms" in told


def test_urgent_ones_come_first_and_those_that_are_over_last() -> None:
    given = [
        Alert(Alarm.STALL, 1.0, "over", over=2.0),
        Alert(Alarm.STRAGGLER, 3.0, "slow", subject=1),
        Alert(Alarm.STRAGGLER, 4.0, "newer", subject=2),
        Alert(Alarm.DIVERGED, 2.0, "NaN"),
    ]
    assert [one.text for one in sort_by_urgency(given)] == ["NaN", "newer", "slow", "over"]


def test_after_the_end_ranks_are_told_that_were_slow_for_long() -> None:
    history = History(plan(2)).training()
    for step in range(1, 401):
        history.now += 0.5 - 0.02  # which its records take
        late = 0 if step < 60 else 1 if step >= 100 else -1
        for rank in range(2):
            ready = 0.4 if rank == late and (rank or 20 < step < 50) else 0.05
            history.rank(rank, stepped(rank, step, seconds=0.5, ready=ready))
    told = describe_slow_spells(history.done(0, 1).closed())
    assert len(told) == 1, "rank 0 was slow for a short time"
    assert told[0].startswith("slow for ")
    assert "all ranks wait for rank 1 on node2: busy 400 of 500 ms" in told[0]


def test_a_silent_host_is_over_when_it_is_heard_again() -> None:
    history = History(plan(2)).training(3).say(1, HostSample((1.0,), 1, 2))
    history.session(HostSilent(1, 10.0), after=10.0)
    (alert,) = found(history)
    assert (alert.alarm, alert.subject) == (Alarm.SILENCE, 1)
    assert alert.text == "node2 has been silent for 10 s"
    history.say(1, HostSample((1.0,), 1, 2), after=5.0)
    (after,) = found(history)
    assert (after.text, bool(after.over)) == ("node2 was silent for 15 s", True)
    assert after.key == alert.key


def test_a_disk_that_fills() -> None:
    history = History(plan(2)).training(3)
    history.say(0, HostSample((1.0,), 1, 2, disk_free=300 << 20))
    history.say(0, HostSample((1.0,), 1, 2, disk_free=200 << 20), after=4.0)
    (alert,) = found(history)
    assert alert.text == "node1 has only 200 MiB left on the disk of its runs"
    assert alert.since < history.now - 3, "since it began"
    history.say(0, HostSample((1.0,), 1, 2, disk_free=2 << 30))
    assert not found(history)


def test_a_checkpoint_that_cannot_be_saved() -> None:
    history = History(plan(2)).training(8)
    words = "python -m training: error: cannot save the checkpoint of step 8 in /x: No space left"
    for rank in range(2):
        history.rank(rank, Entered(rank, Phase.SAVING))
    history.rank(1, said(1, words), Exited(1, 1)).rank(0, said(0, GLOO), Exited(0, 1))
    (alert,) = found(history)
    assert (alert.alarm, alert.subject) == (Alarm.CHECKPOINT, 1)
    assert alert.text == (
        "checkpoint failed: rank 1 on node2: cannot save the checkpoint of step 8 in /x: No space "
        "left (exit code 1)"
    )
