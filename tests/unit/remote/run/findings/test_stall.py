"""Which ranks have come to a halt, and by their stacks for whom the others wait."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

import pytest

from remote.events import (
    ClockMeasured,
    HostPhaseChanged,
    HostSilent,
    Restarted,
    SessionClosed,
    Stalled,
    StallExplained,
    Stopping,
)
from remote.format import duration
from remote.record import summary
from remote.run.diagnosis import stall_causes
from remote.run.diagnosis.stacks import Presence, locate_rank
from remote.run.findings import stall
from remote.run.findings.stall import (
    STALL_LIMITS,
    StallLimits,
    find_silent_exchange,
    find_stall,
    has_all_stacks,
)
from remote.run.run_state import RunState
from remote.run.state.phases import RankPhase, Verdict
from remote.run.state.rank_state import RankState
from tests.kit.dumps import C10D, LOADS, OUTER, SITE, STOPPED, WAITS, by, dump
from tests.kit.histories import History, block_of, plan, raised, stepped
from tests.kit.scripts import script, started
from training.wire.events import SESSION, Event
from training.wire.host_events import Exited, HostSample, Launched, Spawned, Stack
from training.wire.rank_events import Collectives, Entered, Finished, Started, StepFinished

ON_GPU = dump(
    (f"{SITE}/torch/cuda/streams.py", "synchronize", "super().synchronize()"),
    ("/w/code/ab12/training/meter.py", "phases", "self.end.synchronize()"),
    ("/w/code/ab12/training/reports.py", "report"),
)
MUTE = Stack(
    0,
    "kernel",
    "state: S (sleeping), in pipe_read; process 7, train\nno Python stack: it is no Python program",
)
SPIED = Stack(
    0,
    "py-spy",
    "state: S (sleeping), in futex_do_wait; process 7, python\n"
    "Process 7: python train.py\nPython v3.11.7 (/usr/bin/python3.11)\n\n"
    'Thread 8 (idle): "Thread-1"\n    wait (/usr/lib/python3.11/threading.py:331)\n\n'
    'Thread 7 (idle): "MainThread"\n    all_reduce '
    f"({SITE}/torch/distributed/distributed_c10d.py:3913)\n"
    "    <module> (/home/me/train.py:20)",
)


TIMED_OUT = (
    "RuntimeError: [/gloo/transport/tcp/unbound_buffer.cc:78] Timed out waiting 60000ms for recv "
    "operation to complete"
)


def waiting(history: History, seconds: float) -> History:
    """All hosts tell of themselves, and no rank of a step."""
    for _ in range(round(seconds)):
        for index in range(len(history.plan.hosts)):
            history.say(index, HostSample((1.0,), 1, 2), after=1.0 / len(history.plan.hosts))
    return history


def trained(steps: int = 12, slots: int = 1, script: bool = False) -> History:
    history = History(plan(4, slots, script))
    history.session(*(HostPhaseChanged(index, "ready") for index in range(4)))
    return history.training(steps) if not script else history


def found(history: History) -> Stalled | None:
    return find_stall(history.state(), history.now)


# Which ranks --------------------------------------------------------------------------------------


def test_ranks_without_a_step_for_half_a_minute_are_stalled_and_said_to_be_once() -> None:
    history = waiting(trained(), STALL_LIMITS.least - 4)
    assert found(history) is None
    waiting(history, 6)
    said = found(history)
    assert said
    assert said.ranks == (0, 1, 2, 3)
    assert STALL_LIMITS.least - 3 <= said.seconds <= STALL_LIMITS.least + 3
    state = history.session(said).state()
    assert {rank.doing for rank in state.ranks} == {"stalled"}
    assert find_stall(state, history.now) is None
    assert "stalled: ranks 0 to 3 have made no step for 3" in state.log.notes[-1].text


def test_slow_steps_have_ten_times_as_long() -> None:
    history = trained(0)
    for step in range(1, 4):
        for rank in range(4):
            history.rank(rank, stepped(rank, step, seconds=5.0))
    assert found(waiting(history, 46)) is None
    assert found(waiting(history, 6))


def test_a_rank_that_goes_on_alone_is_not_stalled() -> None:
    history = trained()
    for step in range(13, 50):
        waiting(history.rank(1, stepped(1, step)), 1)
    said = found(history)
    assert said
    assert said.ranks == (0, 2, 3)


def test_while_all_ranks_step_nothing_is_worked_out_for_each(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[int] = []

    def limit(rank: RankState, *_: object) -> float:
        asked.append(rank.rank)
        return STALL_LIMITS.least

    monkeypatch.setattr(stall, "stall_limit", limit)
    assert not found(waiting(trained(), STALL_LIMITS.near - 1))
    assert not asked, "it is asked for every batch of records"
    assert not found(waiting(trained(), STALL_LIMITS.least - 4))
    assert found(waiting(trained(), STALL_LIMITS.least + 2))
    assert asked


@pytest.mark.parametrize("seconds", [10.0, 20.0, 45.0])
def test_no_other_limit_counts_beside_the_limit_of_a_rank(
    monkeypatch: pytest.MonkeyPatch, seconds: float
) -> None:
    monkeypatch.setattr(stall, "stall_limit", lambda *_: seconds)
    assert not found(waiting(trained(), seconds - 4))
    assert found(waiting(trained(), seconds + 2))


@pytest.mark.parametrize("seconds", [10.0, 20.0, 45.0])
def test_the_least_limit_is_the_one_that_is_given(seconds: float) -> None:
    limits = replace(STALL_LIMITS, least=seconds)
    early = waiting(trained(), seconds - 4)
    assert not find_stall(early.state(), early.now, limits)
    late = waiting(trained(), seconds + 2)
    assert find_stall(late.state(), late.now, limits)


@pytest.mark.parametrize("phase", ["evaluating", "saving"])
def test_a_halt_while_all_evaluate_or_save_is_found_later(phase: str) -> None:
    history = trained()
    for rank in range(4):
        history.rank(rank, Entered(rank, phase))
    assert found(waiting(history, STALL_LIMITS.compiling - 4)) is None
    said = found(waiting(history, 6))
    assert said
    assert said.ranks == (0, 1, 2, 3)
    state = history.session(said).state()
    assert {rank.doing for rank in state.ranks} == {"stalled"}
    assert (
        f"stalled: ranks 0 to 3 have made no step for {duration(said.seconds)} while {phase}"
        in state.log.notes[-1].text
    )
    for rank in range(4):
        assert history.state().stall
        history.rank(rank, Entered(rank, "training"))
    assert history.state().stall is None


def test_who_waits_at_an_evaluation_for_a_slow_rank_has_not_come_to_a_halt() -> None:
    history = trained()
    for rank in (0, 1, 3):
        history.rank(rank, Entered(rank, "evaluating"))
    for step in range(13, 53):
        waiting(history.rank(2, stepped(2, step, seconds=10.0)), 10)
    assert found(history) is None
    history.rank(2, Entered(2, "evaluating"))
    assert found(waiting(history, STALL_LIMITS.compiling - 4)) is None
    assert found(waiting(history, 6))


def test_an_evaluation_has_as_long_as_training_on_its_samples_would_take() -> None:
    history = trained(0)
    for rank in range(4):
        slow = Started(rank, 100 + rank, 4, "cpu", "gloo", "2.14.1", 1, 61_706, 40, 10, 640, 6_400)
        history.rank(rank, slow, stepped(rank, 1, seconds=5.0), Entered(rank, "evaluating"))
    assert found(waiting(history, 490)) is None  # 100 steps of 5 s
    object.__setattr__(history.plan.work, "batch_norm", "local")
    assert found(waiting(history, 500)) is None
    object.__setattr__(history.plan.work, "batch_norm", "broadcast")
    assert found(history)


def test_an_evaluation_that_was_said_to_have_halted_and_ends_the_run_is_no_stall_any_more() -> None:
    history = trained()
    for rank in range(4):
        history.rank(rank, Entered(rank, "evaluating"))
    said = found(waiting(history, STALL_LIMITS.compiling + 5))
    assert said
    history.session(said)
    for rank in range(4):
        assert history.state().stall
        history.rank(rank, Finished(rank, 2, 12, 400.0))
    assert history.state().stall is None
    assert found(waiting(history, 5)) is None


@pytest.mark.parametrize("phase", ["evaluating", "saving", "serving", "loading"])
def test_what_takes_its_time_is_no_stall_and_the_clock_begins_anew_after_it(phase: str) -> None:
    history = trained()
    history.rank(2, Entered(2, phase))
    said = found(waiting(history, 60))
    assert said
    assert said.ranks == (0, 1, 3)
    history.rank(2, Entered(2, "training"))
    history.session(said)
    assert found(waiting(history, STALL_LIMITS.least - 2)) is None
    assert (again := found(waiting(history, 4)))
    assert again.ranks == (0, 1, 2, 3)


def test_nothing_is_claimed_while_a_host_is_not_heard_nor_for_the_time_it_was_not() -> None:
    history = trained()
    history.session(HostSilent(1, 5.0))
    for _ in range(60):
        for index in (0, 2, 3):
            history.say(index, HostSample((1.0,), 1, 2), after=1 / 3)
    said = found(history)
    assert said
    assert said.ranks == (0, 2, 3)
    history.session(said)
    assert found(waiting(history, STALL_LIMITS.least - 4)) is None  # it was asleep, as its rank was
    assert found(waiting(history, 8))


def test_nothing_is_claimed_for_a_while_after_a_link_was_cut_behind_which_the_agent_went_on() -> (
    None
):
    history = trained()
    cut = history.now
    history.session(HostSilent(1, 10.0))
    for _ in range(27):
        for index in (0, 2, 3):
            history.say(index, HostSample((1.0,), 1, 2), after=1 / 3)
    healed = history.now
    for second in range(27):  # which nobody could hear
        history.now = cut + second
        history.say(1, HostSample((1.0,), 1, 2))
    history.now = healed
    assert found(waiting(history, STALL_LIMITS.least - 4)) is None
    said = found(waiting(history, 8))
    assert said
    assert said.ranks == (0, 1, 2, 3)
    assert said.seconds < STALL_LIMITS.least + 5


def test_nothing_is_claimed_while_the_session_is_behind() -> None:
    history = waiting(trained(), 60)
    assert find_stall(history.state(), history.now + 20) is None


def test_clocks_that_differ_make_no_stall() -> None:
    history = trained()
    history.session(ClockMeasured(1, -3600.0))
    assert found(waiting(history, 5)) is None


def test_nothing_is_claimed_of_scripts_that_print_no_steps_nor_of_a_run_that_is_stopped() -> None:
    script = (
        History(plan(1, script=True))
        .session(HostPhaseChanged(0, "ready"))
        .rank(0, Launched((0,)), Spawned(0, 100))
    )
    assert found(waiting(script, 100)) is None
    assert found(waiting(script.rank(0, stepped(0, 1)), 100))
    stopped = trained().session(Stopping("enough", True))
    assert found(waiting(stopped, 100)) is None


def test_a_first_step_that_compiles_the_model_may_take_minutes() -> None:
    history = trained(0)
    assert found(waiting(history, 40))
    object.__setattr__(history.plan.work, "compile", True)
    assert found(history) is None
    assert found(waiting(history, STALL_LIMITS.compiling - 35))


@pytest.mark.parametrize("seconds", [60.0, 90.0])
def test_the_limit_of_a_first_step_that_compiles_is_the_one_that_is_given(seconds: float) -> None:
    limits = replace(STALL_LIMITS, compiling=seconds)
    history = trained(0)
    object.__setattr__(history.plan.work, "compile", True)
    waiting(history, seconds - 5)
    assert find_stall(history.state(), history.now, limits) is None
    waiting(history, 10)
    assert find_stall(history.state(), history.now, limits)


@pytest.mark.parametrize(("near", "ranks"), [(1.0, (1, 2, 3)), (10.0, (0, 1, 2, 3))])
def test_ranks_that_came_to_a_halt_near_each_other_are_stalled_together(
    near: float, ranks: tuple[int, ...]
) -> None:
    history = waiting(trained(), 5).rank(0, stepped(0, 13))
    limits = replace(STALL_LIMITS, near=near)
    waiting(history, STALL_LIMITS.least - 4)
    stalled = find_stall(history.state(), history.now, limits)
    assert stalled
    assert stalled.ranks == ranks


def test_the_limits_of_a_stall_are_these() -> None:
    """Whoever changes one on purpose changes it here as well."""
    assert StallLimits(least=30.0, factor=10.0, compiling=300.0, near=3.0) == STALL_LIMITS


def test_a_first_step_after_a_restart_compiles_the_model_again() -> None:
    history = again(trained())
    assert found(waiting(history, 40))
    object.__setattr__(history.plan.work, "compile", True)
    assert found(history) is None
    assert found(waiting(history, STALL_LIMITS.compiling - 35))


def test_nothing_is_claimed_of_a_script_after_a_restart_until_it_prints_steps_again() -> None:
    history = (
        History(plan(1, script=True))
        .session(HostPhaseChanged(0, "ready"))
        .rank(0, Launched((0,)), Spawned(0, 100))
    )
    again(history.rank(0, stepped(0, 1)))
    assert found(waiting(history, 100)) is None
    assert found(waiting(history.rank(0, stepped(0, 1)), 100))


def again(history: History) -> History:
    """All ranks have failed, and are started again as another attempt."""
    history.attempt = 1
    history.session(Restarted(tuple(range(len(history.plan.hosts))), "rank 0 failed"))
    return history.training()


@pytest.mark.parametrize("event", [StallExplained, lambda text: Stopping(text, False)])
def test_what_stacks_said_before_a_stall_was_found_is_logged_once(
    event: Callable[[str], Event],
) -> None:
    history = waiting(trained(), 20)
    for rank in range(4):
        history.rank(rank, by(LOADS if rank == 1 else WAITS, rank))
    said = found(waiting(history, 20))
    assert said
    current = history.session(said).state().stall
    assert current
    state = history.session(event(current.text)).state()
    assert [note.text for note in state.log.notes if current.text in note.text] == [
        f"stalled: {current.text}"
    ]
    assert "is not inside a collective" in current.text


# For whom they wait -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("stack", "presence", "where"),
    [
        (WAITS, Presence.INSIDE, "all_reduce"),
        (SPIED, Presence.INSIDE, "all_reduce"),
        (LOADS, Presence.ELSEWHERE, "train.py:41, load_batch"),
        (STOPPED, Presence.STOPPED, ""),
        (MUTE, Presence.UNKNOWN, "state: S (sleeping), in pipe_read; process 7, train"),
        # DDP waits in C++, below backward; who computes there is busy
        (
            dump((f"{SITE}/torch/autograd/graph.py", "_engine_run_backward"), *OUTER),
            Presence.INSIDE,
            "backward",
        ),
        (
            dump(
                (f"{SITE}/torch/autograd/graph.py", "_engine_run_backward"),
                *OUTER,
                state="R (running)",
            ),
            Presence.ELSEWHERE,
            "train.py:41, step",
        ),
        # the model's own code, inside DDP's forward
        (
            dump(
                ("/home/me/model.py", "forward", "sleep()"),
                (f"{SITE}/torch/nn/parallel/distributed.py", "forward"),
                *OUTER,
            ),
            Presence.ELSEWHERE,
            "model.py:41, forward",
        ),
        # a loader that waits for its workers, by the standard library
        (
            dump(
                ("/usr/lib/python3.11/selectors.py", "select"),
                (f"{SITE}/torch/utils/data/dataloader.py", "_next_data"),
                ("/home/me/train.py", "batches"),
            ),
            Presence.ELSEWHERE,
            "train.py:41, batches",
        ),
        # torchrun's own frames around it all
        (
            dump(
                ("/home/me/train.py", "load"),
                (f"{SITE}/torch/distributed/elastic/multiprocessing/errors/__init__.py", "wrapper"),
            ),
            Presence.ELSEWHERE,
            "train.py:41, load",
        ),
        # an asynchronous collective, waited for
        (
            dump(("/home/me/train.py", "step", "work.wait()")),
            Presence.INSIDE,
            "wait at train.py:41, step",
        ),
        # our own methods, whose exchange is a thread's
        (
            dump(
                ("/usr/lib/python3.11/queue.py", "get"),
                ("/w/code/ab12/training/sync/common/bucketed.py", "reduce"),
                ("/w/code/ab12/training/sync/ring.py", "reduce"),
            ),
            Presence.INSIDE,
            "the exchange of ring",
        ),
        (ON_GPU, Presence.INSIDE, "a step on its GPU"),
        (
            dump(
                ("/w/code/ab12/training/datasets/digits.py", "batch"),
                ("/w/code/ab12/training/loop.py", "iterate"),
            ),
            Presence.ELSEWHERE,
            "training/datasets/digits.py:41, batch",
        ),
    ],
)
def test_whether_a_rank_is_inside_a_collective_is_read_off_its_newest_calls(
    stack: Stack, presence: Presence, where: str
) -> None:
    assert locate_rank(stack).presence is presence
    assert locate_rank(stack).where == where


def find_culprits(stacks: Mapping[int, Stack]) -> tuple[int, ...]:
    places = {rank: locate_rank(stack) for rank, stack in stacks.items()}
    return stall_causes.find_culprits(places)


def test_culprits_are_those_that_are_not_inside_while_others_are() -> None:
    assert find_culprits({0: WAITS, 1: WAITS, 2: LOADS, 3: WAITS}) == (2,)
    assert find_culprits({0: WAITS, 1: STOPPED, 2: LOADS}) == (1, 2)
    assert find_culprits({0: LOADS, 1: STOPPED}) == (1,)
    assert find_culprits({0: WAITS, 1: MUTE}) == (1,)
    assert find_culprits({0: WAITS, 1: MUTE, 2: LOADS}) == (2,)
    assert (
        find_culprits({0: WAITS, 1: WAITS})
        == find_culprits({0: LOADS, 1: LOADS})
        == find_culprits({})
        == ()
    )


def told(**stacks: Stack) -> RunState:
    """The state once these ranks (`_2` is rank 2) of four that stall have told their stacks."""
    history = waiting(trained(), 40)
    said = found(history)
    assert said
    history.session(said)
    for name, stack in stacks.items():
        history.rank(int(name[1:]), by(stack, int(name[1:])))
    return history.state()


@pytest.mark.parametrize(
    ("stacks", "text"),
    [
        (
            {"_0": WAITS, "_1": WAITS, "_2": LOADS, "_3": WAITS},
            "rank 2 on node3 is not inside a collective: it is in train.py:41, load_batch; "
            "ranks 0, 1 and 3 wait for it in all_reduce",
        ),
        (
            {"_0": WAITS, "_1": STOPPED, "_2": LOADS, "_3": WAITS},
            "rank 1 on node2 is stopped, by SIGSTOP or a debugger; rank 2 on node3 is not inside "
            "a collective: "
            "it is in train.py:41, load_batch; ranks 0 and 3 wait for them in all_reduce",
        ),
        (
            {"_0": WAITS, "_1": WAITS, "_2": WAITS},
            "ranks 0 to 2 wait in all_reduce; no stack came from rank 3 on node4",
        ),
        (
            {"_0": WAITS, "_1": WAITS, "_2": WAITS, "_3": dump((C10D[0][0], "barrier"), *OUTER)},
            "all ranks are inside collectives, but not the same: ranks 0 to 2 in all_reduce; rank "
            "3 in barrier",
        ),
        (
            {"_0": LOADS, "_1": LOADS, "_2": LOADS, "_3": LOADS},
            "no rank is seen inside a collective: ranks 0 to 3 in train.py:41, load_batch",
        ),
        (
            {"_0": LOADS, "_2": LOADS},
            "ranks 0 and 2 in train.py:41, load_batch; no stack came from ranks 1 and 3",
        ),
        (
            {"_0": ON_GPU, "_1": ON_GPU, "_2": ON_GPU, "_3": ON_GPU},
            "each rank waits for a step on its GPU: do nvidia-smi and dmesg show a failure, "
            "and does the network still work?",
        ),
        (
            {"_0": ON_GPU, "_1": ON_GPU, "_2": LOADS, "_3": ON_GPU},
            "rank 2 on node3 is not inside a collective: it is in train.py:41, load_batch; "
            "ranks 0, 1 and 3 wait for it in a step on its GPU",
        ),
    ],
)
def test_it_is_said_in_words_who_waits_for_whom(stacks: dict[str, Stack], text: str) -> None:
    state = told(**stacks)
    assert state.stall
    assert state.stall.text == text
    assert has_all_stacks(state) == (len(stacks) == 4)


def test_a_stall_that_has_grown_is_not_explained_by_the_stacks_of_some_ranks() -> None:
    """As where a launcher returns, which hears of one host before the others."""
    history = waiting(trained(), 40)
    history.session(Stalled((1,), 40.0))
    history.rank(1, by(LOADS, 1))
    history.session(Stalled((0, 1, 2, 3), 40.0))
    told = [line.text for line in history.state().log.lines if line.text.startswith("stalled")]
    assert told == [
        "stalled: rank 1 has made no step for 40 s",
        "stalled: ranks 0 to 3 have made no step for 40 s",
    ]


def test_a_stack_from_before_the_stall_says_nothing_of_it() -> None:
    history = trained(0)
    for rank in range(4):
        history.rank(rank, by(LOADS, rank), stepped(rank, 1))
    said = found(waiting(history, 40))
    assert said
    state = history.session(said).state()
    assert not has_all_stacks(state)
    assert state.stall
    assert state.stall.text.startswith("ranks 0 to 3 have made no step")


def test_a_stall_is_over_when_the_ranks_step_again_and_stays_in_the_summary() -> None:
    history = waiting(trained(), 40)
    said = found(history)
    assert said
    history.session(said)
    for rank in range(4):
        history.rank(rank, by(LOADS if rank == 2 else WAITS, rank))
    for rank in range(4):
        assert history.state().stall
        history.rank(rank, stepped(rank, 13))
    state = history.state()
    assert state.stall is None
    assert {rank.phase for rank in state.ranks} == {RankPhase.TRAINING}
    assert "the ranks continue after a stall of" in state.log.notes[-1].text
    (stall,) = summary.summarize(state)["stalls"]
    assert stall["culprits"] == [2]
    assert "rank 2 on node3 is not inside" in stall["text"]
    assert found(waiting(history, 40))


def stalled_for(history: History, culprit: int) -> History:
    """Find the stall of a history, and take the stacks: this rank is stopped, the others wait."""
    said = found(history)
    assert said
    history.session(said)
    for rank in range(4):
        history.rank(rank, by(STOPPED if rank == culprit else WAITS, rank))
    return history


def test_ranks_whose_collective_times_out_have_followed_the_rank_that_they_waited_for() -> None:
    history = stalled_for(waiting(trained(), 40), 1)
    for rank in (0, 2, 3):
        history.rank(rank, *raised(rank, TIMED_OUT))
    history.rank(1, Exited(1, -9, "SIGKILL", stopped=True))
    state = history.say(SESSION, SessionClosed()).state()
    assert state.verdict is Verdict.FAILED
    assert state.cause
    assert (state.cause.host, state.cause.rank) == ("node2", 1)
    assert state.cause.victims == (0, 2, 3)
    assert "SIGSTOP" in state.cause.problem


@pytest.mark.parametrize("exception", [TIMED_OUT, "MemoryError"])
def test_what_ended_without_a_stall_or_by_itself_is_blamed_on_no_stall(exception: str) -> None:
    history = waiting(trained(), 40)
    if exception != TIMED_OUT:
        stalled_for(history, 1)
    history.rank(2, *raised(2, exception))
    state = history.state()
    assert state.cause
    assert state.cause.rank == 2


def test_a_run_that_is_stopped_because_of_a_stall_has_failed_of_it() -> None:
    history = waiting(trained(), 40)
    said = found(history)
    assert said
    history.session(said)
    for rank in range(4):
        history.rank(rank, by(LOADS if rank == 2 else WAITS, rank))
    stall = history.state().stall
    assert stall
    history.session(Stopping(stall.text, False))
    for rank in range(4):
        history.rank(rank, Exited(rank, -15, "SIGTERM", stopped=True))
    state = history.say(SESSION, SessionClosed()).state()
    assert state.verdict is Verdict.FAILED
    assert state.cause
    assert (state.cause.host, state.cause.rank) == ("node3", 2)
    assert "train.py:41, load_batch" in state.cause.text()
    assert any("load_batch" in line for line in state.cause.tail)


@pytest.mark.parametrize(
    ("stacks", "problem"),
    [
        (
            {"_0": WAITS, "_1": STOPPED, "_2": LOADS, "_3": WAITS},
            "node2, rank 1: stalled: stopped, by SIGSTOP or a debugger; rank 2 on node3 is not "
            "inside a collective: it is in train.py:41, load_batch; ranks 0 and 3 wait for them "
            "in all_reduce at step 12",
        ),
        (
            {"_0": WAITS, "_1": WAITS, "_2": WAITS},
            "node1, rank 0: stalled: ranks 0 to 2 wait in all_reduce; no stack came from rank 3 "
            "on node4 at step 12",
        ),
    ],
)
def test_the_cause_names_the_first_culprit_of_the_stall_once(
    stacks: dict[str, Stack], problem: str
) -> None:
    history = waiting(trained(), 40)
    said = found(history)
    assert said
    history.session(said)
    for name, stack in stacks.items():
        history.rank(int(name[1:]), by(stack, int(name[1:])))
    stall = history.state().stall
    assert stall
    state = history.session(Stopping(stall.text, False)).say(SESSION, SessionClosed()).state()
    assert state.cause
    assert state.cause.text() == problem


@pytest.mark.parametrize(
    ("seconds", "moment"), [(0.002, "after step 40 or a little later"), (0.1, "at step 40")]
)
def test_of_a_script_with_quick_steps_the_last_ones_may_be_missing(
    seconds: float, moment: str
) -> None:
    history = started(script(4, 1, watch=True))
    history.session(*(HostPhaseChanged(index, "ready") for index in range(4)))
    for rank in range(4):
        steps = [
            StepFinished(rank, 0, step, 1.0, seconds, 0.0, seconds, seconds / 2)
            for step in range(1, 41)
        ]
        history.rank(rank, block_of(steps, history.now, seconds))
    said = found(waiting(history, 40))
    assert said
    history.session(said)
    for rank in range(4):
        history.rank(rank, by(LOADS if rank == 2 else WAITS, rank))
    stall = history.state().stall
    assert stall
    state = history.session(Stopping(stall.text, False)).say(SESSION, SessionClosed()).state()
    assert state.cause
    assert state.cause.text().startswith("node3, rank 2: stalled: ")
    assert state.cause.text().endswith(moment)


def test_a_run_that_is_stopped_for_something_else_during_a_stall_says_for_what() -> None:
    history = waiting(trained(), 40)
    said = found(history)
    assert said
    history.session(said)
    for rank in range(4):
        history.rank(rank, by(LOADS if rank == 2 else WAITS, rank))
    history.session(Stopping("no step 60 s after the start", False))
    state = history.say(SESSION, SessionClosed()).state()
    assert state.cause
    assert state.cause.text() == "node3, rank 2: stalled: no step 60 s after the start at step 12"


def test_stacks_from_a_node_reach_the_terminal_as_text_only() -> None:
    evil = dump(("/home/me/\x1b]0;x\x07train.py", "load\x1b[31m_batch"), *OUTER)
    state = told(_0=WAITS, _1=WAITS, _2=evil, _3=WAITS)
    assert state.stall
    assert "train.py:41, load_batch" in state.stall.text
    assert "\x1b" not in state.stall.text


# Ranks of which only collectives are seen ---------------------------------------------------------


def exchanging(seconds: int = 5) -> History:
    """Four ranks of a script exchange something each second."""
    history = trained(script=True)
    for rank in range(4):
        history.rank(rank, history.launched(rank), Spawned(rank, 100 + rank))
    for _ in range(seconds):
        waiting(history, 1)
        for rank in range(4):
            history.rank(rank, Collectives(rank, 10, 400, 0.5, 1.0, "recv"))
    return history


def stacked(history: History, *stacks: Stack) -> History:
    for rank, stack in enumerate(stacks):
        history.rank(rank, by(stack, rank))
    return history


def test_ranks_that_exchange_nothing_any_more_are_looked_at_once() -> None:
    history = waiting(exchanging(), STALL_LIMITS.least - 2)
    assert find_silent_exchange(history.state(), history.now) is None
    state = waiting(history, 4).state()
    silent_since = find_silent_exchange(state, history.now)
    assert silent_since == max(rank.stepped_at for rank in state.ranks)
    assert find_stall(state, history.now) is None, "they may compute"


def test_they_have_stalled_where_one_waits_for_others() -> None:
    history = stacked(waiting(exchanging(), 40), WAITS, LOADS, WAITS, WAITS)
    said = found(history)
    assert said
    assert said.ranks == (0, 1, 2, 3)
    state = history.session(said).state()
    assert state.stall
    assert state.stall.culprits == (1,)
    assert state.stall.text.startswith("rank 1 on node2 is not inside a collective: it is in train")
    assert "ranks 0, 2 and 3 wait for it in all_reduce" in state.stall.text
    for rank in range(4):
        history.rank(rank, Collectives(rank, 1, 4, 40.0, 41.0, "recv"))
    (stall_over,) = history.state().stalls
    assert stall_over.over


def test_they_have_not_where_all_compute_or_the_stacks_are_old() -> None:
    assert not found(stacked(waiting(exchanging(), 40), LOADS, LOADS, LOADS, LOADS))
    history = stacked(waiting(exchanging(), 40), WAITS, WAITS)
    for rank in range(4):
        history.rank(rank, Collectives(rank, 1, 4, 40.0, 41.0, "recv"))
    assert not found(waiting(history, 40))


def test_rare_collectives_have_ten_times_as_long() -> None:
    history = exchanging(0)
    for _ in range(4):
        waiting(history, 10)
        for rank in range(4):
            history.rank(rank, Collectives(rank, 1, 4, 1.0, 10.0, "recv"))
    assert find_silent_exchange(waiting(history, 60).state(), history.now) is None
    assert find_silent_exchange(waiting(history, 60).state(), history.now)


def test_ranks_that_make_steps_are_judged_by_these() -> None:
    history = exchanging()
    for rank in range(4):
        history.rank(rank, stepped(rank, 1))
    assert find_silent_exchange(waiting(history, 60).state(), history.now) is None
