"""What is said of how a user's own program is seen."""

from __future__ import annotations

from dataclasses import replace

from remote.formats.rules import Rule
from remote.plan.plan import Script
from remote.record import summary
from remote.record.trust import harmless
from remote.run.findings.script_visibility import (
    FEW,
    SOON,
    advice,
    describe_unseen_end,
    sees_nothing,
    unfollowed,
    unread,
    ways,
)
from tests.kit.histories import History, plan, said
from tests.kit.scripts import ended, logging, script, seen, started
from training.wire.enums import Phase
from training.wire.host_events import Exited, HostSample, RankSample, WorkerJoined
from training.wire.rank_events import Entered

SAMPLE = HostSample((10.0,), 1, 2)


def test_nothing_is_said_of_a_job() -> None:
    state = History(plan()).training(3).state()
    assert (ways(state), advice(state, state.now), sees_nothing(state)) == ([], "", False)
    assert "metrics" not in summary.summarize(state)


def test_who_prints_and_who_is_watched() -> None:
    history = started(script(watch=True))
    for step in range(1, 5):
        for rank in range(4):
            history.rank(rank, seen(rank, step, 1.0, compute=0.1))
    logging(history, 3, range(1, 4), 1.0)
    logging(history, 2, range(1, 4), 1.0)
    state = history.state()
    assert ways(state) == [
        "counting the steps of torch's optimiser",
        f"read as: {state.progress.formats[0]}, ranks 2 and 3 print",
    ]
    assert advice(state, state.now) == ""


def test_where_nothing_is_seen_it_is_said_after_a_while() -> None:
    history = started(script())
    state = history.state()
    assert sees_nothing(state)
    assert advice(state, state.now) == ""
    said_later = advice(state, state.now + SOON)
    nothing = "rankboard sees no steps and no values"
    assert said_later == f"{nothing}: torch is not watched, and no line has numbers"
    watched = started(script(watch=True)).state()
    told = f"{nothing}: no optimiser of torch has made a step, and no line has numbers"
    assert advice(watched, watched.now + SOON) == told
    state = history.say(0, said(0, "round 3 costs 0.5", "stdout")).state()
    told = f"{nothing}: rankboard parse {state.plan.run} says why"
    assert advice(state, state.now + SOON) == told


def test_ranks_of_its_own_that_are_idle_may_have_been_forked_too_late() -> None:
    history = started(script(1, 1, watch=True))
    history.rank(0, *(WorkerJoined(rank, 0, 2, 500 + rank) for rank in range(2)))
    state = history.rank(0, RankSample(0, 0.0, 1, worker=True)).state()
    later = state.now + SOON
    assert "OMP_NUM_THREADS" not in advice(state, later), "nothing is known of rank 1"
    state = history.rank(0, RankSample(1, 90.0, 1, worker=True)).state()
    assert "OMP_NUM_THREADS" not in advice(state, later), "rank 1 is busy"
    state = history.rank(0, RankSample(1, 1.0, 1, worker=True)).state()
    assert "the 2 ranks that the program has started are idle" in advice(state, later)
    assert "OMP_NUM_THREADS=1 before the program helps" in advice(state, later)


def test_while_others_wait_for_a_rank_it_is_no_matter_of_lines() -> None:
    history = started(script(watch=True)).rank(0, Entered(0, Phase.JOINING, "init_process_group"))
    state = history.say(0, said(0, "took 0.5", "stdout")).state()
    assert advice(state, state.now + SOON) == ""


def test_once_it_has_ended_only_lines_that_are_not_read_are_told() -> None:
    state = ended(started(script()).say(0, SAMPLE, after=SOON)).closed()
    assert advice(state, state.now) == ""
    history = started(script()).say(0, said(0, "round 3 costs 0.5", "stdout"))
    state = ended(history).closed()
    told = f"1 line with numbers not read: rankboard parse {state.plan.run} shows them"
    assert advice(state, state.now) == told


def test_where_a_program_failed_its_cause_is_enough() -> None:
    history = started(script()).say(0, said(0, "round 3 costs 0.5", "stdout"))
    history.say(0, Exited(0, 2), Exited(1, 2)).say(1, Exited(2, 2), Exited(3, 2))
    state = history.closed()
    assert sees_nothing(state)
    assert (advice(state, state.now), describe_unseen_end(state)) == ("", "")


def test_a_program_that_ends_well_without_a_step_is_said_to() -> None:
    history = ended(started(script(watch=True)))
    assert describe_unseen_end(history.state()) == "", "it may still go on"
    end = "the program ended with exit code 0, and no step was seen"
    assert describe_unseen_end(history.closed()) == f"{end}; it printed nothing"
    history = started(script()).rank(1, said(1, "this needs 2 GPUs\n\n", "stdout"))
    told = describe_unseen_end(ended(history).closed())
    assert told == f"{end}; the last line of rank 1: this needs 2 GPUs"
    history = ended(logging(started(script()), 3, range(1, 4), 1.0))
    assert describe_unseen_end(history.closed()) == ""
    assert describe_unseen_end(History(plan()).training(3).closed()) == ""


def test_a_program_without_a_step_runs_and_nobody_says_that_it_trains() -> None:
    history = started(script(watch=True))
    state = history.state()
    assert (state.doing, state.ranks[0].doing) == ("running", "running")
    state = history.rank(0, seen(0, 1, 1.0, compute=0.1)).state()
    assert (state.doing, state.ranks[0].doing) == ("training", "training")
    assert state.ranks[1].doing == "running"
    assert History(plan()).training().state().doing == "training"


def test_rules_that_are_not_used_are_said_where_lines_are_not_read() -> None:
    rules = (Rule("(?<!val )cost {loss}"), Rule("round {step}: cost {loss}"))
    ruled = replace(script(), work=Script(("train.py",), watch=False, rules=rules))
    history = logging(started(ruled), 0, range(1, 4), 1.0)
    assert advice(history.state(), history.state().now) == ""
    for number in range(FEW):
        history.say(0, said(0, f"loss of {number} things at 0.5", "stdout"))
    state = ended(history).closed()
    assert "the rule '(?<!val )cost {loss}' is not used: a rule cannot look" in advice(
        state, state.now
    )
    foreign = History(harmless(ruled))
    foreign.records = history.records
    state = foreign.state()
    assert "left out, as you did not record this run: 2 rules" in advice(state, state.now)


def test_lines_that_are_not_read_are_counted() -> None:
    history = logging(started(script()), 0, range(1, 4), 1.0)
    for number in range(FEW):
        history.say(0, said(0, f"loss of {number} things at 0.5", "stdout"))
    state = ended(history).closed()
    assert unread(state) == FEW
    shows = f"rankboard parse {state.plan.run} shows them"
    assert advice(state, state.now) == f"{FEW} lines with numbers not read: {shows}"
    found = summary.summarize(state)
    assert found["lines_not_read"] == FEW
    assert found["read_as"] == state.progress.formats


def test_the_summary_has_the_metrics() -> None:
    history = logging(started(script()), 3, (4, 8, 12), 1.0)
    found = summary.summarize(ended(history).closed())
    assert found["metrics"]["grad_norm"] == {
        "rank": 3,
        "count": 3,
        "last": 3.0,
        "step": 12,
        "least": 1.0,
        "least_step": 4,
        "most": 3.0,
        "most_step": 12,
    }
    assert found["metrics_beyond"] == 0
    assert [rank["metrics"] for rank in found["ranks"]] == [
        {},
        {},
        {},
        {"grad_norm": 3.0, "val_loss": 1.0},
    ]


def test_a_program_that_wrote_no_file_that_is_followed() -> None:
    work = Script(("train.py",), follow=("out/*.csv",))
    history = started(replace(script(), work=work))
    assert unfollowed(history.state()) == ""
    state = ended(history).state()
    assert unfollowed(state).endswith("no file was written that matches --follow out/*.csv")
    history.rank(0, said(0, "round three", "file:out/a.csv"))
    state = history.state()
    assert unfollowed(state).startswith("nothing was read in the files that match")
    state.progress.files.append("out/a.csv")
    assert unfollowed(state) == ""
    assert unfollowed(ended(started(script())).state()) == ""
