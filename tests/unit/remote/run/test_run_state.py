"""The state that records come to: phases, figures, curves, times, log, and that replaying is the
same as watching."""

from __future__ import annotations

import math
import pickle
import random
import statistics
from dataclasses import asdict, fields, replace
from typing import Any

import pytest

from remote.events import (
    Attached,
    AttemptFailing,
    CheckFinished,
    ClockMeasured,
    Detached,
    HostLost,
    HostPhaseChanged,
    HostSilent,
    RemarkMade,
    Restarted,
    SessionClosed,
    SessionClosing,
    StartRefused,
    Stopping,
    expand,
)
from remote.format import duration
from remote.plan.plan import OnNan, Policy
from remote.record import summary
from remote.run.apply import apply_record
from remote.run.findings.alerts import find_alerts
from remote.run.run_state import RunState
from remote.run.state.phases import HostPhase, RankPhase, RunPhase, Verdict
from remote.sanitise import shown
from tests.kit.histories import (
    GLOO,
    START,
    History,
    from_file,
    plan,
    raised,
    said,
    state_of,
    stepped,
)
from training.wire.enums import EndReason, Phase, Reach
from training.wire.events import EVENTS, PREFIX, SESSION, Event, Record, dumps, to_object
from training.wire.host_events import (
    AgentEnded,
    Exited,
    Hello,
    HostSample,
    Launched,
    RankSample,
    RecordsDropped,
    Reserved,
    Spawned,
)
from training.wire.rank_events import Entered, Epoch, Evaluated, Started, StepFinished
from training.wire.step_block import StepBlock
from tui.run import outcome

HELLO = Hello("box", "me", 1, "3.11.2", "/usr/bin/python3", "Linux", "b", 2.0, 8 << 30, "2.14.1")


def facts(state: RunState) -> bytes:
    """All of a state, to compare."""
    return pickle.dumps([vars(state), *state.hosts, *state.ranks])


# Phases -------------------------------------------------------------------------------------------


def test_the_way_of_a_run() -> None:
    history = History(plan(2))
    state = RunState(history.plan)

    def then(host: int, *events: Event) -> tuple[RunPhase, HostPhase, RankPhase]:
        start = len(history.records)
        history.say(host, *events)
        for record in history.records[start:]:
            apply_record(state, record)
        return state.phase, state.hosts[1].phase, state.ranks[1].phase

    assert (state.phase, state.hosts[1].phase, state.ranks[1].phase) == (
        "starting",
        "waiting",
        "waiting",
    )
    assert then(SESSION, HostPhaseChanged(1, "connecting")) == ("starting", "connecting", "waiting")
    assert then(SESSION, HostPhaseChanged(1, "deploying")) == ("starting", "deploying", "waiting")
    assert then(1, HELLO) == ("starting", "deploying", "waiting")
    assert then(SESSION, ClockMeasured(1, 0.0), HostPhaseChanged(1, "ready")) == (
        "starting",
        "ready",
        "waiting",
    )
    assert then(1, Launched((1,)), Spawned(1, 77)) == ("starting", "ready", "importing")
    assert then(1, Entered(1, "loading")) == ("starting", "ready", "loading")
    assert then(1, Entered(1, "rendezvous")) == ("starting", "ready", "rendezvous")
    assert then(1, Entered(1, "training")) == ("training", "ready", "training")
    assert then(SESSION, HostSilent(1, 10.0)) == ("training", "silent", "training")
    assert then(1, HostSample((1.0,), 1, 2)) == ("training", "ready", "training")
    assert then(1, Entered(1, "evaluating")) == ("training", "ready", "evaluating")
    assert then(SESSION, Stopping("enough", True)) == ("stopping", "ready", "evaluating")
    assert then(1, Exited(1, -15, "SIGTERM", stopped=True)) == ("stopping", "ready", "stopped")
    assert then(1, Entered(1, "training")) == ("stopping", "ready", "stopped")
    assert then(1, AgentEnded(EndReason.CLOSED)) == ("stopping", "ended", "stopped")
    assert state.verdict is None
    assert (state.ranks[1].pid, state.ranks[1].exit, state.hosts[1].hello) == (77, "SIGTERM", HELLO)
    closed = history.closed()
    assert (closed.phase, closed.verdict, closed.ended) == ("ended", Verdict.STOPPED, history.now)


def test_a_script_trains_from_its_first_moment() -> None:
    history = History(plan(2, script=True)).rank(0, Launched((0,)), Spawned(0, 1))
    state = history.state()
    assert (state.phase, state.ranks[0].phase) == ("training", "training")
    for rank in range(2):
        history.rank(rank, Exited(rank, 0))
    assert history.closed().verdict is Verdict.FINISHED


@pytest.mark.parametrize(
    ("value", "later", "text", "verdict"),
    [
        (
            math.nan,
            0.5,
            "loss is NaN at step 12 (rank 1)",
            "finished in 0 s, but diverged at step 12: loss 2 → NaN",
        ),
        (
            math.inf,
            math.nan,
            "loss is infinite at step 12 (rank 1)",
            "finished in 0 s, but diverged at step 12: loss 2 → infinite",
        ),
    ],
)
def test_a_loss_that_is_no_number_is_warned_of_once(
    value: float, later: float, text: str, verdict: str
) -> None:
    history = (
        History(plan(2))
        .training(steps=11)
        .rank(1, StepFinished(1, 2, 12, value, 0.1))
        .rank(0, StepFinished(0, 2, 12, value, 0.1))
    )
    history.rank(1, StepFinished(1, 2, 13, later, 0.1)).done(0, 1)
    state = history.closed()
    told = [note.text for note in state.log.notes if "loss" in note.text]
    assert told == [f"{text}; training continues. Lower --lr, or stop such runs with --on-nan stop"]
    assert outcome.verdict_line(state).startswith(verdict)
    assert summary.summarize(state)["diverged"] == {"rank": 1, "step": 12, "loss": str(value)}


def test_a_loss_that_is_nan_fails_a_run_that_is_to_stop_then() -> None:
    history = History(replace(plan(2), policy=Policy(on_nan=OnNan.STOP))).training(steps=11)
    history.rank(1, StepFinished(1, 2, 12, math.nan, 0.1)).done(0, 1)
    state = history.closed()
    assert state.verdict is Verdict.FAILED
    assert state.cause is not None
    assert state.cause.text() == "node2, rank 1: loss is NaN at step 12"
    assert state.refused  # no restart mends it


def test_a_restart_from_before_the_divergence_forgets_it() -> None:
    history = History(plan(2)).training(steps=5).rank(0, StepFinished(0, 1, 6, math.nan, 0.1))
    state = started_again(history, 4)
    assert state.progress.diverged is None
    assert started_again(history, 6).progress.diverged is not None


def test_records_dropped_from_a_journal_may_have_held_the_end() -> None:
    history = History(plan(1)).training(steps=3).rank(0, RecordsDropped(4, 9), Exited(0, 0))
    state = history.closed()
    assert state.verdict is Verdict.FINISHED
    assert "records 4 to 9 are missing" in state.log.notes[0].text


def test_a_rank_whose_end_is_among_missing_records_is_lost_and_has_not_failed() -> None:
    history = History(plan(2)).training(steps=3).done(0)
    history.say(0, AgentEnded(EndReason.ALL_ENDED))
    history.say(1, RecordsDropped(4, 9), AgentEnded(EndReason.ALL_ENDED))
    state = history.closed()
    assert state.verdict is Verdict.LOST
    assert state.cause is not None
    assert (state.cause.host, state.cause.rank) == ("node2", -1)
    assert "rank 1" in state.cause.problem
    assert [rank.phase for rank in state.ranks] == ["finished", "lost"]


def test_an_end_among_missing_records_hides_no_failure_that_is_known() -> None:
    history = History(plan(2)).training(steps=3).rank(0, Exited(0, 3))
    history.say(0, AgentEnded(EndReason.ALL_ENDED))
    history.say(1, RecordsDropped(4, 9), AgentEnded(EndReason.ALL_ENDED))
    state = history.closed()
    assert state.verdict is Verdict.FAILED
    assert state.cause is not None
    assert state.cause.rank == 0


def test_a_rank_whose_words_are_missing_may_have_followed_another() -> None:
    history = History(plan(2)).training(steps=3).rank(0, RecordsDropped(4, 9), Exited(0, 1))
    alone = history.state()
    assert alone.cause is not None
    assert alone.cause.rank == 0, "nothing else is known"
    state = history.rank(1, *raised(1, "ValueError: the labels are wrong")).closed()
    assert state.cause is not None
    assert (state.cause.rank, state.cause.victims) == (1, (0,))


def test_a_person_has_stopped_a_run_though_records_are_missing() -> None:
    history = History(plan(1)).training(steps=3).session(Stopping("stopped", by_person=True))
    history.say(0, RecordsDropped(4, 9), AgentEnded(EndReason.CLOSED))
    assert history.closed().verdict is Verdict.STOPPED


def test_dropped_text_is_told_once_and_hides_no_end() -> None:
    gone = [RecordsDropped(4, 9, text_only=True), RecordsDropped(11, 19, text_only=True)]
    state = History(plan(1)).training(steps=3).rank(0, *gone, Exited(0, 0)).closed()
    assert state.verdict is Verdict.FAILED, "its rank has ended without a word"
    notes = [note.text for note in state.log.notes if "dropped" in note.text]
    assert len(notes) == 1
    assert "from record 4 on" in notes[0]


def test_what_is_told_again_after_records_were_dropped_changes_nothing() -> None:
    history = History(plan(1, slots=2)).training(steps=3).rank(0, Exited(0, 3))
    known = history.state()
    told = history.rank(0, Launched((0, 1), (0,)), Exited(0, 3)).state()
    assert pickle.dumps(told.ranks) == pickle.dumps(known.ranks)
    assert (told.hosts[0].running, told.hosts[0].attempt) == ({1}, 0)


def test_who_missed_how_ranks_began_and_ended_learns_it_from_what_is_told_again() -> None:
    history = History(plan(1, slots=2)).rank(0, RecordsDropped(1, 9), Launched((0, 1), (0,)))
    state = history.rank(1, Exited(1, 3)).state()
    assert state.hosts[0].running == {0}
    assert state.ranks[1].exit == "exit code 3"


def test_a_lost_host_stays_lost() -> None:
    state = (
        History(plan(2))
        .training()
        .session(HostLost(1, "no sign of life", True))
        .say(1, AgentEnded(EndReason.CLOSED))
        .state()
    )
    assert (state.hosts[1].phase, state.ranks[1].phase) == ("lost", "lost")


# Figures ------------------------------------------------------------------------------------------


def test_steps() -> None:
    history = History(plan(1)).training(total=40)
    for step in range(1, 26):
        history.rank(
            0, stepped(0, step, seconds=0.1 * step, sync=0.05 * step, samples=8, correct=step % 8)
        )
    state = history.state()
    rank = state.ranks[0]
    assert (rank.epoch, rank.step, rank.loss, rank.seconds) == (3, 25, 2 / 25, pytest.approx(2.5))
    assert rank.epoch_seconds == [pytest.approx(5.5), pytest.approx(15.5)]
    assert rank.epoch_so_far == pytest.approx(0.1 * sum(range(21, 26)))
    assert rank.accuracy == pytest.approx(sum(step % 8 for step in range(21, 26)) / 40)
    assert rank.pace.means.share(rank.pace.means.sync) == pytest.approx(0.5)
    assert rank.timing.count == 25
    assert rank.timing.early.seconds == pytest.approx(0.1 * statistics.mean(range(2, 26)))
    assert list(state.curves.of("loss", 0).step) == list(range(1, 26))
    assert list(state.curves.of("seconds", 0).mean) == pytest.approx(
        [0.1 * step for step in range(1, 26)]
    )
    assert (state.progress.steps, state.progress.epochs) == (40, 4)


def test_the_share_of_sync_is_that_of_the_last_20_steps() -> None:
    history = History(plan(1)).training()
    for step in range(1, 41):
        history.rank(0, stepped(0, step, seconds=1.0, sync=0.9 if step <= 20 else 0.25))
    assert history.state().ranks[0].pace.means.sync == pytest.approx(0.25)


def test_an_epoch_ends_where_its_last_step_does() -> None:
    history = History(plan(1)).training(steps=10)
    assert history.state().ranks[0].epoch_seconds == [pytest.approx(1.0)]
    assert history.state().ranks[0].epoch_so_far == 0


def test_what_is_not_known_is_nan() -> None:
    state = RunState(plan(1))
    rank = state.ranks[0]
    figures = (
        rank.loss,
        rank.accuracy,
        rank.seconds,
        rank.cpu,
        rank.test_loss,
        rank.test_accuracy,
        rank.pace.seconds,
        *asdict(rank.pace.means).values(),
    )
    times = (
        rank.timing.early.seconds,
        rank.timing.median,
        rank.timing.p95,
        rank.timing.whole.seconds,
        state.eta(0.0),
    )
    assert all(math.isnan(figure) for figure in (*figures, *times))
    assert (state.elapsed, state.progress.steps, state.progress.epochs) == (0, 0, 0)


def test_samples_and_tests() -> None:
    history = (
        History(plan(1))
        .training()
        .rank(0, RankSample(0, 95.5, 1 << 20, 2), HostSample((1.0, 2.0), 3, 4, 5, 6))
    )
    history.rank(0, Evaluated(0, 1, 10, 0.5, 0.9, 100, 0.2))
    state = history.state()
    rank, host = state.ranks[0], state.hosts[0]
    assert (rank.cpu, rank.memory, rank.test_loss, rank.test_accuracy) == (95.5, 1 << 20, 0.5, 0.9)
    assert host.sample == HostSample((1.0, 2.0), 3, 4, 5, 6)
    assert list(state.curves.of("cpu", 0).mean) == [pytest.approx(0.955)]
    assert list(state.curves.of("cpu", 0).time) == [pytest.approx(0.03)]


def test_a_host_is_ready_as_soon_as_it_is_heard_again_whichever_way() -> None:
    """The first connection revives while another one is being made."""
    history = (
        History(plan(1))
        .session(HostPhaseChanged(0, "starting"))
        .say(0, HELLO)
        .session(HostPhaseChanged(0, "ready"))
    )
    history.session(HostSilent(0, 10.0), HostPhaseChanged(0, "connecting"))
    state = state_of(history.plan, history.records)
    assert state.hosts[0].phase is HostPhase.CONNECTING
    apply_record(state, Record(0, 0, 900, history.now + 1, HostSample((), 1, 1)))
    assert state.hosts[0].phase is HostPhase.READY


@pytest.mark.parametrize(
    "told", [(SESSION, Restarted((0, 2), "a rank failed")), (2, Launched((1,), (0, 2)))]
)
def test_curves_go_on_over_a_restart_with_a_mark(told: tuple[int, Event]) -> None:
    """Whether the session says so, or only the hosts, as to who was not there."""
    state = state_of(plan(3), History(plan(3)).training(steps=20).records)
    host, event = told
    apply_record(state, Record(host, 1, 900, START + 60, event))
    assert [(rank.host, rank.step) for rank in state.ranks] == [(0, 20), (2, 20)]
    again = Started(1, 77, 2, "cpu", "gloo", "2.14.1", 1, 61_706, 40, 10, 640, 100, resumed=15)
    for at, said_again in enumerate([again, *(stepped(1, step) for step in range(16, 26))]):
        apply_record(state, Record(2, 1, 901 + at, START + 61 + at, said_again))
    assert list(state.curves.of("loss", 1).step) == list(range(1, 26))
    ((seconds, step),) = [(restart.seconds, restart.step) for restart in state.progress.restarts]
    assert (round(seconds), step) == (60, 15)


def test_hosts_that_were_left_out_may_come_back() -> None:
    state = state_of(plan(3), History(plan(3)).training(steps=20).records)
    apply_record(state, Record(SESSION, 1, 900, START + 60, Restarted((0, 2), "a host was lost")))
    assert (len(state.ranks), state.rank(2), state.rank(-1)) == (2, None, None)
    apply_record(state, Record(2, 2, 901, START + 70, Launched((2,), (0, 1, 2))))
    assert [(rank.rank, rank.host, rank.step) for rank in state.ranks] == [
        (0, 0, 20),
        (1, 1, 20),
        (2, 2, 20),
    ]
    assert state.rank(2) is state.ranks[2]


def test_a_loss_of_a_rank_that_was_left_out_is_still_told() -> None:
    history = History(plan(2)).training(steps=20)
    history.rank(1, replace(stepped(1, 21), loss=math.nan))
    history.session(Restarted((0,), "node2 was lost"))
    history.attempt = 1
    begins = Started(0, 77, 1, "cpu", "gloo", "2.14.1", 1, 61_706, 40, 10, 640, 100, resumed=30)
    state = history.rank(0, begins, stepped(0, 40)).done(0).closed()
    assert "but diverged at step 21: loss 2 → NaN" in outcome.verdict_line(state)


def test_the_end_of_a_run_that_failed_again_tells_of_its_restart() -> None:
    history = History(plan(2)).training(steps=5)
    history.session(Restarted((0, 1), "rank 1 was killed"))
    history.attempt = 1
    history.now += 30
    history.rank(1, Exited(1, 1)).rank(0, Exited(0, 1))
    state = history.closed()
    assert state.verdict is Verdict.FAILED
    assert outcome.verdict_line(state) == f"failed after {duration(state.elapsed)} and 1 restart"


def started_again(history: History, resumed: int, *said_then: Event) -> RunState:
    """The state of a history after which all is started again, and its one rank says these."""
    state = state_of(history.plan, history.records)
    begins = Started(
        0, 77, 1, "cpu", "gloo", "2.14.1", 1, 61_706, 40, 10, 640, 100, resumed=resumed
    )
    apply_record(state, Record(SESSION, 1, 900, START + 60, Restarted((0,), "a rank failed")))
    for at, event in enumerate((begins, *said_then)):
        apply_record(state, Record(0, 1, 901 + at, START + 61 + at, event))
    return state


def epoch(
    number: int, loss: float, confusion: tuple[tuple[int, ...], ...] = ((1,),)
) -> tuple[Event, Event]:
    """What rank 0 says at the end of an epoch."""
    at = 10 * number
    return Epoch(0, number, at, loss, 0.5, 10, 1.0), Evaluated(
        0, number, at, loss, 0.5, 10, 0.1, confusion
    )


def steps(first: int, last: int, seconds: float = 0.1) -> list[StepFinished]:
    return [stepped(0, step, seconds) for step in range(first, last + 1)]


def test_an_epoch_that_begins_anew_stands_once() -> None:
    history = (
        History(plan(1))
        .training()
        .rank(0, *steps(1, 10), *epoch(1, 3.0), *steps(11, 20), *epoch(2, 2.0), *steps(21, 25))
    )
    state = started_again(
        history, 15, *steps(16, 20, 0.2), *epoch(2, 1.9), *steps(21, 30, 0.2), *epoch(3, 1.0)
    )
    rank = state.ranks[0]
    assert [(one.epoch, one.loss) for one in rank.epochs] == [(1, 3.0), (2, 1.9), (3, 1.0)]
    assert [(one.epoch, one.loss, one.confusion) for one in state.progress.evaluations] == [
        (1, 3.0, ()),
        (2, 1.9, ()),
        (3, 1.0, ((1,),)),
    ]
    assert rank.epoch_seconds == pytest.approx([1.0, 1.0, 2.0]), (
        "only epochs that were timed from their first step on"
    )


def test_where_all_begins_anew_nothing_of_later_epochs_stays() -> None:
    history = (
        History(plan(1))
        .training()
        .rank(0, *steps(1, 10), *epoch(1, 3.0), *steps(11, 20), *epoch(2, 2.0))
    )
    state = started_again(history, 0, *steps(1, 10, 0.2), *epoch(1, 2.5))
    assert (
        [one.loss for one in state.ranks[0].epochs]
        == [one.loss for one in state.progress.evaluations]
        == [2.5]
    )
    assert state.progress.evaluations[-1].confusion
    assert state.ranks[0].epoch_seconds == pytest.approx([2.0])


@pytest.mark.parametrize(("steps", "verdict"), [(5, Verdict.FAILED), (0, Verdict.REFUSED)])
def test_a_run_that_has_trained_before_a_restart_is_not_refused(
    steps: int, verdict: Verdict
) -> None:
    state = state_of(
        plan(1), (History(plan(1)).training(steps) if steps else History(plan(1))).records
    )
    apply_record(state, Record(SESSION, 1, 900, START + 60, Restarted((0,), "a rank failed")))
    assert state.has_begun == (steps > 0)
    error = said(
        0, "python -m training: error: --resume a-run: none of its checkpoints was completed"
    )
    for at, event in enumerate((error, Exited(0, 2))):
        apply_record(state, Record(0, 1, 901 + at, START + 61 + at, event))
    apply_record(state, Record(SESSION, 1, 903, START + 63, SessionClosed()))
    assert state.verdict is verdict
    assert state.cause is not None
    assert (
        state.cause.problem == "--resume a-run: none of its checkpoints was completed (exit code 2)"
    )


@pytest.mark.parametrize("steps", [3, 0])
def test_a_restart_that_the_checks_refuse_is_no_run_that_was_not_started(steps: int) -> None:
    state = state_of(
        plan(1), (History(plan(1)).training(steps) if steps else History(plan(1))).records
    )
    apply_record(state, Record(SESSION, 1, 900, START + 60, Restarted((0,), "a rank failed")))
    apply_record(state, Record(SESSION, 1, 901, START + 61, StartRefused(0, "its port is taken")))
    apply_record(state, Record(SESSION, 1, 902, START + 62, SessionClosed()))
    assert state.verdict is Verdict.LOST
    assert state.cause is not None
    assert state.cause.problem == "its port is taken"


@pytest.mark.parametrize("before", [True, False])
def test_a_run_that_ended_before_its_launcher_returned_took_until_then(before: bool) -> None:
    """Where agents end only once it is there, or a host is lost, it takes until it is closed."""
    history = History(plan(2)).training(steps=4).session(Detached())
    history.done(0).say(0, AgentEnded(EndReason.ALL_ENDED))
    if before:
        history.done(1).say(1, AgentEnded(EndReason.ALL_ENDED))
    took = history.now - history.records[0].time
    history.session(Attached(), after=500.0)
    if not before:
        history.session(HostLost(1, "node2: gone", reached=True))
    history.session(SessionClosing())
    state = history.closed()
    whole = history.now - history.records[0].time
    assert state.elapsed == pytest.approx(took if before else whole)
    assert (state.verdict is Verdict.FINISHED) == before
    assert summary.summarize(state)["elapsed"] == state.elapsed
    if before:
        assert outcome.verdict_line(state).startswith(f"finished in {duration(took)}")


def test_an_older_attempt_is_ignored() -> None:
    state = RunState(plan(1))
    for attempt, step in ((1, 5), (0, 9), (1, 6)):
        apply_record(state, Record(0, attempt, step, START, stepped(0, step)))
    assert (state.ranks[0].step, state.ranks[0].timing.count) == (6, 2)


def test_a_rank_is_heard_from_its_own_host_only() -> None:
    state = RunState(plan(2))
    for host, rank in ((0, 1), (1, 0), (0, -1), (0, 99), (SESSION, 0), (7, 0)):
        apply_record(state, Record(host, 0, 1, START, stepped(rank, 5)))
    assert [rank.step for rank in state.ranks] == [0, 0]


# Times --------------------------------------------------------------------------------------------


def test_times_are_by_the_sessions_clock() -> None:
    state = RunState(plan(2))
    records = [
        Record(SESSION, 0, 1, START, HostPhaseChanged(0, "connecting")),
        Record(0, 0, 1, START + 3601, HELLO),  # an hour ahead, and nobody knows it yet
        Record(SESSION, 0, 2, START + 2, ClockMeasured(0, 3600.0)),
        Record(0, 0, 2, START + 3605, RankSample(0, 50.0, 1)),
        Record(1, 0, 1, START + 4, HostSample((), 0, 0)),
    ]
    for record in records:
        apply_record(state, record)
    assert (state.started, state.now, state.elapsed) == (START, START + 5, 5)
    assert state.hosts[0].heard >= START + 5
    assert list(state.curves.of("cpu", 0).time) == [5.0]


def test_time_does_not_run_backwards() -> None:
    state = RunState(plan(1))
    for when in (START, START + 9, START + 3):
        apply_record(state, Record(0, 0, 1, when, HostSample((), 0, 0)))
    assert (state.now, state.elapsed, state.hosts[0].heard) == (START + 9, 9, START + 9)


# Log ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("plain", ["plain"]),
        ("one\n\ntwo", ["one", "", "two"]),
        ("\x1b[31mred\x1b[0m and \x1b[1;4mbold", ["red and bold"]),
        ("\x1b]0;title\x07text", ["text"]),
        ("\x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\", ["link"]),
        ("10%\r50%\r100%", ["100%"]),
        ("50%\r100%\r", ["100%"]),
        ("windows\r", ["windows"]),
        ("a\tb", ["a       b"]),
        ("bell\x07 back\x08 nul\x00 del\x7f c1\x9b31m", ["bell back nul del c1"]),
        ("\x1b", [""]),
        ("[bold]no markup[/bold] {x}", ["[bold]no markup[/bold] {x}"]),
        ("ä🏖️", ["ä🏖️"]),
    ],
)
def test_text_as_a_terminal_would_leave_it(text: str, lines: list[str]) -> None:
    assert shown(text) == lines


def test_the_log_counts_all_and_keeps_the_last() -> None:
    history = History(plan(2)).session(RemarkMade(1, "Welcome\nto node2"))
    for _ in range(3):
        history.rank(1, said(1, "\n".join(["line"] * 9_000), "stdout"))
    state = history.rank(1, said(1, "\n".join(map(str, range(30_000))), "stderr")).state()
    assert state.log.count == 2 + 27_000 + 30_000
    assert len(state.log.lines) == 20_000
    assert (state.log.lines[0].number, state.log.lines[0].text) == (2 + 27_000 + 10_000, "10000")
    assert (state.log.lines[-1].number, state.log.lines[-1].text) == (state.log.count - 1, "29999")
    assert {(line.host, line.rank, line.stream) for line in state.log.lines} == {
        ("node2", 1, "stderr")
    }
    assert [
        (note.number, note.host, note.rank, note.stream, note.text) for note in state.log.notes
    ] == [
        (0, "node2", -1, "note", "Welcome"),
        (1, "node2", -1, "note", "to node2"),
    ]


def test_what_an_agent_prints_is_the_hosts() -> None:
    state = History(plan(2)).say(1, said(-1, "no memory")).state()
    assert [(line.host, line.rank, line.text) for line in state.log.lines] == [
        ("node2", -1, "no memory")
    ]


def test_a_warning_of_a_check_is_noted_once_though_a_restart_checks_again() -> None:
    warning = CheckFinished(0, "load", "warning", "the host is busy", "see top there")
    history = History(plan()).session(warning, warning, replace(warning, text="it is busier"))
    notes = [note.text for note in history.state().log.notes]
    assert [note for note in notes if "bus" in note] == [
        "node1: load: the host is busy (see rankboard doctor)"
    ]
    news = [line.text for line in history.state().log.lines]
    assert not [text for text in news if "bus" in text], "the dashboard has it on top"


def test_a_warning_of_many_hosts_names_some_of_them() -> None:
    hosts = tuple(range(39))
    history = History(from_file(plan(40), "lab.toml"))
    for on in hosts:
        text = "the same machine (2 cores): such hosts do not make training faster"
        history.session(CheckFinished(on, "address", "warning", text, "keep node1 alone", hosts))
    (note,) = [one.text for one in history.state().log.notes if "same machine" in one.text]
    assert note == (
        "node1, node2 and 37 more: address: the same machine (2 cores): such hosts do not "
        "make training faster (see rankboard doctor --hosts lab.toml)"
    )


def test_a_warning_of_all_hosts_names_none_of_them() -> None:
    history = History(plan(4))
    history.session(CheckFinished(0, "load", "warning", "the host is busy", same=(0, 1, 2, 3)))
    (note,) = [one.text for one in history.state().log.notes if "busy" in one.text]
    assert note.startswith("all 4 hosts: load: the host is busy")


def test_notes_tell_what_the_session_did() -> None:
    history = History(plan(2)).session(
        HostSilent(0, 10.4), HostLost(1, "gone", True), Stopping("enough", True)
    )
    history.say(0, Reserved("", 0, "port 29500 is in use"))
    told = [(note.host, note.text) for note in history.state().log.notes]
    assert told == [
        ("node1", "silent for 10 s"),
        ("node2", "gone"),
        ("", "enough"),
        ("node1", "port 29500 is in use"),
    ]


# Replay -------------------------------------------------------------------------------------------


def whole_run() -> History:
    history = (
        History(plan())
        .session(*(HostPhaseChanged(host, "connecting") for host in range(4)))
        .training(steps=25)
    )
    wire = PREFIX + dumps({"time": START + 7} | to_object(stepped(2, 26)))
    history.rank(2, said(2, f"before\n{wire}\nafter", "stdout"), RankSample(2, 99.0, 5))
    history.rank(1, Exited(1, -9, "SIGKILL")).rank(0, *raised(0, GLOO)).session(
        Stopping("a rank failed", False)
    )
    return history


def test_replaying_comes_to_the_same_state() -> None:
    history = whole_run()
    state, again = history.closed(), state_of(history.plan, history.records)
    assert facts(state) == facts(again)
    assert state.ranks[2].step == 26


def test_a_record_that_fits_nothing_changes_nothing_and_raises_nothing() -> None:
    """Every event, with numbers of ranks and hosts and texts that fit nowhere, seeded."""
    dice = random.Random(3)
    values: dict[str, tuple[Any, ...]] = {
        "int": (0, -1, 3, 99, 2**40),
        "float": (0.0, -1.0, 0.5, 1e300, float("nan"), float("inf")),
        "bool": (True, False),
        "str": ("", "training", "failed", "ready", "stderr", "x\ny", "\ud800"),
        "tuple[int, ...]": ((), (0, -5, 99)),
        "tuple[float, ...]": ((), (1.0, float("nan"))),
        "Phase": tuple(Phase),
        "Reach": tuple(Reach),
        "EndReason": tuple(EndReason),
    }
    state = RunState(plan())
    for _ in range(3_000):
        # A block that holds other numbers than steps may have is no record: it is not decoded.
        cls = dice.choice([event for event in EVENTS if event is not StepBlock])
        event = cls(
            **{field.name: dice.choice(values.get(str(field.type), ((),))) for field in fields(cls)}
        )
        record = Record(
            dice.choice((-1, 0, 1, 3, 4, -7)), dice.randint(0, 1), 1, START + dice.random(), event
        )
        for one in expand(record):
            apply_record(state, one)
        assert state.elapsed >= 0
    assert state.cause is None or state.cause.text()


def test_a_step_of_nan_does_not_raise() -> None:
    state = RunState(plan(1))
    apply_record(state, Record(0, 0, 1, START, StepFinished(0, 1, 1, float("nan"), 0.1)))
    assert math.isnan(state.ranks[0].loss)
    assert math.isnan(state.curves.of("loss", 0).mean[0])


@pytest.mark.parametrize(("unfit", "verdict"), [(True, Verdict.REFUSED), (False, Verdict.LOST)])
def test_a_host_with_a_wrong_python_is_refused_and_not_lost(unfit: bool, verdict: Verdict) -> None:
    history = History(plan(2)).session(
        HostLost(1, "node2: no /x there", reached=False, unfit=unfit), SessionClosed()
    )
    assert history.state().verdict is verdict


def test_hosts_that_were_not_reached_for_the_same_reason_are_named_together() -> None:
    history = History(plan(4))
    for on in (2, 0, 1):
        history.session(
            HostLost(
                on, f"node{on + 1}: its key is unknown\nrankboard trust node{on + 1}", reached=False
            )
        )
    state = history.session(
        HostLost(3, "node4: refused the connection", reached=False), SessionClosed()
    ).state()
    assert state.cause is not None
    assert state.cause.text() == "node1, node2 and node3: its key is unknown\nrankboard trust --all"
    assert state.verdict is Verdict.LOST


def of_two_launchers(ahead: float, *ends: AgentEnded) -> tuple[RunState, RunState]:
    """A run of two hosts as its first launcher has recorded it, and as one did that came later, on
    a machine whose clock is ahead. The first one fetches results for a while after the end."""
    first, second = History(plan(2)), History(plan(2))
    first.session(RemarkMade(SESSION, "the run stops if this terminal disconnects"))
    for host in (0, 1):
        first.session(ClockMeasured(host, 0.0), after=4.0)
        first.say(host, Launched((host,), (0, 1), age=4.0 * (host + 1)), after=0.0)
    for host, end in enumerate(ends):
        first.say(host, Exited(host, 0), end, after=20.0)
    theirs = [record for record in first.records if record.host != SESSION]
    first.session(SessionClosing(), SessionClosed(), after=15.0)
    second.now = first.now + ahead
    for host in (0, 1):
        second.session(ClockMeasured(host, -ahead))
    second.records += theirs
    second.session(Attached(), SessionClosing(), SessionClosed(), after=300.0)
    return first.state(), second.state()


@pytest.mark.parametrize(
    ("ends", "elapsed"),
    [
        ((AgentEnded(EndReason.CLOSED, age=48.0), AgentEnded(EndReason.CLOSED, age=88.0)), 88.0),
        (
            (AgentEnded(EndReason.CLOSED, age=48.0), AgentEnded(EndReason.AGENT_DIED, "SIGKILL")),
            88.0,
        ),
        ((AgentEnded(EndReason.ALL_ENDED, age=48.0),), 48.0),
    ],
)
def test_all_launchers_say_that_a_run_took_as_long(
    ends: tuple[AgentEnded, ...], elapsed: float
) -> None:
    """It ends with its last agent, not when a launcher has fetched its results."""
    for state in of_two_launchers(3600.0, *ends):
        assert state.elapsed == pytest.approx(elapsed, abs=1e-3)
        assert summary.summarize(state)["elapsed"] == state.elapsed


def test_a_run_whose_agents_do_not_tell_its_age_ends_with_its_record() -> None:
    """As an older version has recorded it."""
    first, _ = of_two_launchers(0.0, AgentEnded(EndReason.CLOSED), AgentEnded(EndReason.CLOSED))
    history = History(plan(1)).session(RemarkMade(SESSION, "begun")).training().done(0)
    history.say(0, AgentEnded(EndReason.CLOSED)).session(
        SessionClosing(), SessionClosed(), after=15.0
    )
    assert history.state().ended == history.now
    assert first.elapsed == pytest.approx(88.0, abs=1e-3)


def test_attempts_are_those_of_the_launcher_that_has_started_the_last_one() -> None:
    history = History(plan(1)).session(RemarkMade(SESSION, "begun"))
    history.rank(0, Launched((0,), (0,), attempts=1), Exited(0, 1))
    history.session(
        Attached(), AttemptFailing(), Stopping("a rank or host failed", by_person=False)
    )
    history.attempt = 1
    history.rank(0, Launched((0,), (0,), attempts=3))  # another launcher allows more
    state = history.state()
    assert (state.attempt, state.launcher.attempts_allowed) == (1, 3)
    (restarted,) = find_alerts(state)
    assert restarted.text == "restart 1 of 2: node1, rank 0: exit code 1"


def test_of_an_attempt_more_than_allowed_nobody_says_of_how_many() -> None:
    """As where a launcher of an older version has started it."""
    history = History(plan(1)).rank(0, Launched((0,), (0,)), Exited(0, 1))
    history.attempt = 1
    state = history.rank(0, Launched((0,), (0,))).state()
    assert (state.attempt, state.launcher.attempts_allowed) == (1, 0)
    (restarted,) = find_alerts(state)
    assert restarted.text == "restart: node1, rank 0: exit code 1"


def test_a_restart_of_which_only_consequences_are_known_tells_no_reason() -> None:
    """The host that was lost tells nothing to who comes later."""
    history = History(plan(2)).training().rank(0, *raised(0, GLOO))
    history.attempt = 1
    state = history.rank(0, Launched((0,), (0,), attempts=2)).state()
    (restarted,) = find_alerts(state)
    assert restarted.text == "restart 1 of 1"
    assert "restarted, attempt 2" in [note.text for note in state.log.notes]


def test_no_host_can_spoil_the_time_that_a_run_took() -> None:
    """One that tells a wild age counts for nothing."""
    honest, wild = AgentEnded(EndReason.CLOSED, age=48.0), AgentEnded(EndReason.CLOSED, age=1e9)
    first, second = of_two_launchers(0.0, honest, wild)
    assert first.elapsed == second.elapsed == 48.0
    alone = History(plan(1)).rank(0, Launched((0,), (0,), age=1e9)).done(0)
    assert alone.closed().elapsed < 100.0
