"""Workers that a script starts itself are the ranks of its run: their steps, lines and ends."""

from __future__ import annotations

import pickle

import pytest

from remote.record.summary import summarize
from remote.run.apply import apply_record
from remote.run.findings.stall import find_stall
from remote.run.output.script_readings import expander
from remote.run.run_state import RunState
from remote.run.state.phases import RankPhase, Verdict
from tests.kit.histories import GLOO, START, TRACEBACK, History, said
from tests.kit.scripts import script, started
from training.wire.events import PREFIX, WORKER, to_object
from training.wire.host_events import (
    Exited,
    GpuSample,
    HostSample,
    OutputText,
    RankSample,
    Spawned,
    Stack,
    WorkerExited,
    WorkerJoined,
)
from training.wire.jsonl import dumps
from training.wire.rank_events import StepFinished

PIDS = range(500, 504)


def joined(hosts: int = 1, workers: int = 4) -> History:
    """A program on each host, each of which has started its share of the workers."""
    history = started(script(hosts, 1, watch=True))
    share = workers // hosts
    for rank in range(workers):
        process = rank // share
        history.rank(process, WorkerJoined(rank, process, workers, PIDS[rank]))
    return history


def stepped(process: int, rank: int, step: int, loss: float = 0.5) -> OutputText:
    """A worker's step, as its watch tells it in the pipe of the program."""
    event = StepFinished(rank, 0, step, loss, 0.5, 0.1, 0.3, 0.1)
    return OutputText(
        process, "stdout", PREFIX + WORKER + dumps({"time": START} | to_object(event))
    )


def state_of(history: History) -> RunState:
    """The state, whose text is read."""
    run, take = RunState(history.plan), expander(history.plan)
    for record in history.records:
        for one in take(record):
            apply_record(run, one)
    return run


def printed(text: str, process: int = 0) -> OutputText:
    return said(process, text, "stdout")


def curve(run: RunState, series: str, rank: int) -> list[float]:
    return [float(value) for value in run.curves.of(series, rank).mean]


# Steps and samples


def test_each_worker_has_its_own_series_below_its_process() -> None:
    history = joined(hosts=2)
    for rank in range(4):
        history.rank(rank // 2, stepped(rank // 2, rank, 1, loss=1.0 + rank))
    run = state_of(history)
    assert [(rank.rank, rank.process, rank.host, rank.pid) for rank in run.ranks] == [
        (rank, rank // 2, rank // 2, PIDS[rank]) for rank in range(4)
    ]
    assert [rank.loss for rank in run.ranks] == [1.0, 2.0, 3.0, 4.0]
    assert [curve(run, "loss", rank) for rank in range(4)] == [[1.0], [2.0], [3.0], [4.0]]
    assert [process.step for process in run.processes] == [0, 0]
    assert {rank.phase for rank in run.ranks} == {RankPhase.TRAINING}
    found = [(rank["rank"], rank["process"]) for rank in summarize(run)["ranks"]]
    assert found == [(0, 0), (1, 0), (2, 1), (3, 1)]


def test_without_workers_the_ranks_are_the_processes() -> None:
    run = state_of(started(script(1, 2)))
    assert run.ranks is run.processes
    assert "process" not in summarize(run)["ranks"][0]


def test_samples_and_stacks_are_of_the_process_unless_they_say_otherwise() -> None:
    history = joined()
    history.rank(0, RankSample(0, 300.0, 9), RankSample(0, 80.0, 5, worker=True))
    history.rank(0, Stack(0, "kernel", "waits"), Stack(0, "kernel", "steps", worker=True))
    history.rank(0, GpuSample(0, 50.0, 1, 2))
    run = state_of(history)
    process, rank = run.processes[0], run.ranks[0]
    assert (process.cpu, rank.cpu) == (300.0, 80.0)
    assert process.stack
    assert process.stack.text == "waits"
    assert rank.stack
    assert rank.stack.text == "steps"
    assert run.hosts[0].loads == {0: 300.0}
    assert rank.gpu is None


@pytest.mark.parametrize(
    "event",
    [
        WorkerJoined(0, 7, 4, 1),  # there is no such process
        WorkerJoined(4, 0, 4, 1),  # nor such a rank in a group of 4
        WorkerJoined(0, 0, 10**9, 1),
        WorkerJoined(0, 1, 4, 1),  # the process of another host
    ],
)
def test_a_worker_that_cannot_be_changes_nothing(event: WorkerJoined) -> None:
    run = state_of(started(script(2, 1)).rank(0, event))
    assert not run.has_workers


def test_of_two_groups_with_the_same_ranks_only_the_first_one_is_seen() -> None:
    history = started(script(2, 1))
    history.rank(0, WorkerJoined(0, 0, 4, 1)).rank(1, WorkerJoined(0, 1, 4, 2))
    run = state_of(history.rank(1, stepped(1, 0, 9)))
    assert (run.ranks[0].process, run.ranks[0].pid, run.ranks[0].step) == (0, 1, 0)


def test_a_restart_begins_with_the_processes_and_keeps_the_times_of_workers() -> None:
    from remote.events import Restarted

    history = joined()
    for rank in range(4):
        history.rank(0, stepped(0, rank, 1))
    history.session(Restarted((0,), "killed"))
    history.attempt = 1
    history.rank(0, history.launched(0), Spawned(0, 200))
    assert not state_of(history).has_workers
    history.rank(0, *(WorkerJoined(rank, 0, 4, 600) for rank in range(4)))
    run = state_of(history.rank(0, stepped(0, 3, 2)))
    assert [rank.timing.count for rank in run.ranks] == [1, 1, 1, 2]
    assert run.ranks[3].pid == 600


# Lines


def test_lines_that_name_a_rank_are_of_that_worker() -> None:
    history = joined()
    for rank in range(4):
        history.rank(0, stepped(0, rank, 10))
    lines = "\n".join(
        f"Rank {rank}, step 10/20 loss 0.5 grad_norm {rank + 1}.0" for rank in range(4)
    )
    run = state_of(history.rank(0, printed(lines)))
    assert [rank.metrics["grad_norm"] for rank in run.ranks] == [1.0, 2.0, 3.0, 4.0]  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    "prefix", ["Rank {},", "[rank {}]", "[rank{}]:", "rank{}:", "[default{}]:"]
)
def test_ranks_in_one_stdout_never_become_one_series(prefix: str) -> None:
    """Also where nobody watches: then the lines themselves tell of the workers."""
    history = started(script(1, 1, watch=True))
    for step in range(1, 4):
        for rank in (2, 0, 3, 1):
            line = f"{prefix.format(rank)} step {step}/9 loss {rank + step / 10}"
            history.rank(0, printed(line))
    run = state_of(history.say(0, HostSample((1.0,), 1, 2), after=2.0))
    assert [rank.step for rank in run.ranks] == [3, 3, 3, 3]
    assert [rank.loss for rank in run.ranks] == [0.3, 1.3, 2.3, 3.3]
    assert curve(run, "loss", 1) == [1.1, 1.2, 1.3]
    assert curve(run, "loss", 0) == [0.1, 0.2, 0.3]


def test_lines_of_two_ranks_behind_each_other_are_of_both() -> None:
    """Each process ends its line by another write."""
    history = joined(workers=2)
    for rank in range(2):
        history.rank(0, stepped(0, rank, 1))
    lines = "Rank 0, step 1 acc: 11.5%Rank 1, step 1 acc: 12.5%\n\n"
    run = state_of(history.rank(0, printed(lines)))
    accuracies = [rank.accuracy for rank in run.ranks]
    assert accuracies == pytest.approx([0.115, 0.125])


def test_workers_that_are_only_known_by_their_lines_end_with_their_process() -> None:
    history = started(script(1, 1)).rank(0, printed("Rank 0 starts\nRank 1 starts"))
    run = state_of(history.rank(0, Exited(0, 0)).ended())
    assert [rank.phase for rank in run.ranks] == [RankPhase.FINISHED, RankPhase.FINISHED]
    assert run.verdict is Verdict.FINISHED


def test_a_program_that_names_one_rank_has_no_workers() -> None:
    run = state_of(started(script(1, 1)).rank(0, printed("[rank7]: step 3 loss 0.5\n" * 3)))
    assert not run.has_workers
    assert run.ranks[0].step == 3


@pytest.mark.parametrize(
    "lines",
    [
        "Rank-0: 0.8\nRank-1: 0.9\nRank-5: 0.95",  # shares of right answers
        "rank=8 step 1 loss 0.5\nrank=16 step 2 loss 0.4",  # of matrices
        "default 0\ndefault 1",
    ],
)
def test_other_things_that_are_called_rank_are_no_ranks(lines: str) -> None:
    assert not state_of(started(script(1, 1)).rank(0, printed(lines))).has_workers


def test_values_that_several_workers_print_without_a_name_are_no_series() -> None:
    history = joined()
    history.rank(0, stepped(0, 0, 10))
    history.rank(0, printed("step 10/20 loss 0.5 lr 0.5"))
    for value in (0.1, 0.2, 0.3, 0.4):
        history.rank(0, printed(f"step 10/20 grad_norm {value} loss 0.5"))
    run = state_of(history)
    metrics = run.ranks[0].metrics  # type: ignore[attr-defined]
    assert (metrics["lr"], metrics["grad_norm"]) == (0.5, 0.1)


def test_what_splits_lines_can_be_kept() -> None:
    take = expander(script(1, 1))
    for record in joined().rank(0, printed("Rank 0 step 1\nRank 1 step 1")).records:
        take(record)
    pickle.loads(pickle.dumps(take))


# Ends


def exited(rank: int, **more: object) -> WorkerExited:
    return WorkerExited(rank, **{"code": 1, **more})  # type: ignore[arg-type]


def test_a_killed_worker_is_the_cause_though_its_process_ends_well() -> None:
    history = joined()
    history.rank(0, exited(2, code=-9, signal="SIGKILL"))
    run = state_of(history)
    assert run.log.notes[-1].text == "node1, rank 2 (pid 502): killed by SIGKILL"
    assert run.cause is None  # the process may start it again
    history.rank(0, *(exited(rank, error=TRACEBACK + GLOO) for rank in (0, 1, 3)), Exited(0, 0))
    run = state_of(history.ended())
    assert run.cause
    assert run.cause.text() == (
        "node1, rank 2 (pid 502): killed by SIGKILL; ranks 0, 1 and 3 followed"
    )
    assert run.verdict is Verdict.FAILED


def test_the_worker_that_raised_is_the_cause_not_those_that_were_terminated_then() -> None:
    history = joined()
    history.rank(0, exited(1, error=TRACEBACK + "ValueError: bad batch"))
    history.rank(0, *(exited(rank, code=-15, signal="SIGTERM") for rank in (0, 2, 3)))
    history.rank(0, said(0, TRACEBACK + "ProcessRaisedException: 1"), Exited(0, 1))
    run = state_of(history.ended())
    assert run.cause
    assert (run.cause.rank, run.cause.problem) == (1, "ValueError: bad batch")
    assert [rank.phase for rank in run.ranks].count(RankPhase.VICTIM) == 3


def test_a_worker_that_is_gone_without_a_word_counts_if_its_process_fails() -> None:
    for code, rank in ((0, None), (1, 2)):
        history = joined().rank(0, exited(2, code=0, known=False), Exited(0, code))
        cause = state_of(history.ended()).cause
        assert (cause.rank if cause else None) == rank


def test_a_worker_that_is_gone_after_its_program_was_stopped_needs_no_word() -> None:
    run = state_of(joined().rank(0, exited(2, code=0, known=False, stopped=True)))
    assert run.ranks[2].death
    assert run.ranks[2].death.problem == "stopped"
    assert not [line.text for line in run.log.notes if "gone" in line.text]


def test_a_worker_that_is_gone_without_a_word_explains_why_others_failed() -> None:
    for error, cause in ((GLOO, 2), ("ValueError: 1", 1)):
        history = joined().rank(0, exited(2, code=0, known=False))
        history.rank(0, exited(1, error=TRACEBACK + error), Exited(0, 0))
        found = state_of(history.ended()).cause
        assert found
        assert found.rank == cause


def test_a_worker_that_is_started_again_is_no_cause() -> None:
    history = joined().rank(0, exited(2, code=-9, signal="SIGKILL"))
    history.rank(0, WorkerJoined(2, 0, 4, 777), *(exited(rank, code=0) for rank in range(4)))
    run = state_of(history.rank(0, Exited(0, 0)).ended())
    assert run.cause is None
    assert run.verdict is Verdict.FINISHED
    assert run.ranks[2].pid == 777


def test_workers_that_make_no_step_any_more_have_stalled() -> None:
    history = joined()
    for step in range(1, 12):
        history.rank(0, *(stepped(0, rank, step) for rank in range(4)))
    for _ in range(40):
        history.say(0, HostSample((1.0,), 1, 2), after=1.0)
    run = state_of(history)
    from remote.run.state.phases import HostPhase

    run.hosts[0].phase = HostPhase.READY
    stalled = find_stall(run, run.now)
    assert stalled
    assert stalled.ranks == (0, 1, 2, 3)


def test_those_that_are_ended_once_one_was_killed_are_its_victims() -> None:
    history = joined().rank(0, exited(2, code=-9, signal="SIGKILL"))
    history.rank(0, exited(0, code=0, known=False), exited(1, code=-15, signal="SIGTERM"))
    run = state_of(history.rank(0, Exited(0, 1)).ended())
    assert [rank.phase for rank in run.ranks[:3]] == [
        RankPhase.VICTIM,
        RankPhase.VICTIM,
        RankPhase.FAILED,
    ]
    assert [line.text for line in run.log.notes if "gone" in line.text] == []
