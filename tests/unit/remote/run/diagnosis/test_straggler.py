"""Ranks that hold the others up are named, and no others; and why they do."""

from __future__ import annotations

import random
import statistics
from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest

from remote.events import Restarted
from remote.plan.plan import Plan
from remote.run.diagnosis.straggler import STRAGGLER_RULE, _median_without
from remote.run.findings.alerts import find_alerts
from remote.run.run_state import RunState
from remote.run.state.advice import Advice, Remedy
from tests.kit.histories import History, block_of, plan, stepped
from training.job import Job
from training.wire.host_events import Exited, GpuSample, Hello, HostSample, RankSample

HELLO = Hello("box", "me", 1, "3.11.2", "/usr/bin/python3", "Linux", "b", 2.0, 8 << 30, "2.14.1")
FAST = 0.05
SURE = STRAGGLER_RULE.least + STRAGGLER_RULE.every * (STRAGGLER_RULE.checks - 1)
"""Steps after which a rank that was late from the start is known to be slow."""


def made(
    history: History,
    ready: Callable[[int, int], float],
    steps: int,
    *,
    first: int = 1,
    step: float = 0.45,
    **more: float,
) -> History:
    """All ranks make steps of `step` seconds; `ready` is by rank and step."""
    ranks = range(len(history.plan.slots))
    for number in range(first, first + steps):
        for rank in ranks:
            history.rank(
                rank, stepped(rank, number, seconds=step, ready=ready(rank, number), **more)
            )
    return history


def slow_rank(slow: int, seconds: float = 0.36) -> Callable[[int, int], float]:
    return lambda rank, _: seconds if rank == slow else FAST


def begun(of: Plan | None = None) -> History:
    return History(of or plan(4)).training(total=4000)


def notes(state: RunState) -> list[str]:
    return [note.text for note in state.log.notes]


def test_a_slow_rank_is_suspected_then_sure() -> None:
    history = made(begun(), slow_rank(2), 9)
    assert not history.state().stragglers.by_rank, "too few steps"
    made(history, slow_rank(2), 1, first=10)
    (found,) = history.state().stragglers.by_rank.values()
    assert (found.rank, found.mark, found.is_slow) == (2, "slow?", False)
    assert not notes(history.state())
    made(history, slow_rank(2), SURE - 10, first=11)
    state = history.state()
    (found,) = state.stragglers.slow
    assert (found.rank, found.mark, found.first_late_step) == (2, "SLOW 7.2x", 10)
    assert notes(state) == [
        "all ranks wait for rank 2 on node3: busy 360 of 450 ms per step, others 50 ms"
    ]
    assert SURE <= 40, "within 40 steps"


def test_one_that_is_no_longer_late_is_forgotten_little_by_little() -> None:
    history = made(begun(), slow_rank(2), 60)
    made(history, slow_rank(-1), 5, first=61)
    assert history.state().stragglers.slow, "most of its last steps were late"
    made(history, slow_rank(-1), 15, first=66)
    state = history.state()
    assert state.stragglers.by_rank, "the checks have to agree"
    assert not state.stragglers.slow, "its times, as they are shown, are those of the others"
    assert state.stragglers.current(2) is None
    made(history, slow_rank(-1), 30, first=81)
    state = history.state()
    assert not state.stragglers.by_rank
    assert notes(state)[-1] == "rank 2 no longer holds up the others"
    (episode,) = state.stragglers.episodes
    assert episode.since < episode.over


def test_two_slow_ranks_are_named_together() -> None:
    late = {1: 0.2, 3: 0.3}
    history = made(begun(plan(8)), lambda rank, _: late.get(rank, FAST), SURE)
    state = history.state()
    assert [one.rank for one in state.stragglers.slow] == [3, 1]
    assert notes(state)[0].startswith(
        "all ranks wait for ranks 1 and 3 on node4 and node2: rank 3 is busy 300 of 450 ms"
    )


@pytest.mark.parametrize(
    "ready",
    [
        pytest.param(lambda rank, step: 0.05, id="equal"),
        pytest.param(lambda rank, step: 0.09 if rank == 2 else 0.05, id="little of a step"),
        pytest.param(lambda rank, step: 0.37 if rank == 2 else 0.31, id="little against others"),
        pytest.param(lambda rank, step: 0.4 if step % 15 == 0 else 0.05, id="now and then"),
        pytest.param(lambda rank, step: 0.4 if step % 4 == rank else 0.05, id="in turn"),
        pytest.param(lambda rank, step: 0.05 if rank == 2 else 0.36, id="one is faster"),
        pytest.param(lambda rank, step: 0.0, id="not known"),
        pytest.param(lambda rank, step: float("nan"), id="no numbers"),
    ],
)
def test_nobody_is_accused_where(ready: Callable[[int, int], float]) -> None:
    assert not made(begun(), ready, 100).state().stragglers.slow


def test_noise_accuses_nobody() -> None:
    chance = random.Random(3)
    history = made(begun(plan(8)), lambda *_: FAST * chance.lognormvariate(0, 0.3), 1000, step=0.1)
    assert not history.state().stragglers.episodes


def test_only_the_same_steps_of_all_ranks_are_compared() -> None:
    """All ranks are slow for 30 steps. Those of rank 0 come first, in a block."""
    history = made(begun(), lambda *_: FAST, 30, step=0.4)
    slow_steps = range(31, 61)
    for rank in range(4):
        steps = [stepped(rank, number, seconds=0.4, ready=0.3) for number in slow_steps]
        history.rank(rank, block_of(steps, history.now + 10.0))
        assert not history.state().stragglers.by_rank


def test_a_rank_that_reports_no_more_steps_holds_no_check_up_once_it_is_gone() -> None:
    history = made(begun(), slow_rank(2), 5)
    history.rank(3, Exited(3, 0))
    for number in range(6, SURE + 1):
        for rank in range(3):
            history.rank(rank, stepped(rank, number, seconds=0.45, ready=slow_rank(2)(rank, 0)))
    assert [one.rank for one in history.state().stragglers.slow] == [2]


def test_ranks_that_do_not_wait_for_each_other_hold_nobody_up() -> None:
    job = replace(Job(), sync="parameter_server", sync_option=("mode=async",))
    assert not made(begun(replace(plan(4), work=job)), slow_rank(2), 60).state().stragglers.by_rank


def test_a_restart_begins_anew() -> None:
    history = made(begun(), slow_rank(2), 60)
    history.session(Restarted((0, 1, 2, 3), "killed"))
    state = history.state()
    assert (state.stragglers.by_rank, [bool(one.over) for one in state.stragglers.episodes]) == (
        {},
        [True],
    )


@pytest.mark.parametrize("values", [(1.0, 2.0), (1.0, 2.0, 3.0), (1.0, 2.0, 2.0, 7.0, 9.0)])
def test_the_median_of_the_others(values: Sequence[float]) -> None:
    for place, value in enumerate(values):
        others = [*values[:place], *values[place + 1 :]]
        assert _median_without(values, value) == statistics.median(others)


# Why ----------------------------------------------------------------------------------------------


def reason(history: History) -> str:
    (found,) = history.state().stragglers.slow
    return found.reason


def advice(history: History) -> Advice | None:
    (alert,) = find_alerts(history.state())
    return alert.advice


def with_hosts(cores: Sequence[float] = (2.0,) * 4, machines: str = "abcd") -> History:
    history = History(plan(4))
    for host, (many, boot) in enumerate(zip(cores, machines, strict=True)):
        history.say(host, replace(HELLO, cores=many, boot_id=boot))
    return history.training(total=4000)


def test_it_waits_for_its_data() -> None:
    history = begun()
    for step in range(1, SURE + 1):
        for rank in range(4):
            ready, data = (0.36, 0.3) if rank == 2 else (FAST, 0.001)
            history.rank(rank, stepped(rank, step, seconds=0.45, ready=ready, data=data))
    assert reason(history) == "it waits for its data: 300 ms per step, others 1.0 ms"


def test_it_has_fewer_cores() -> None:
    history = made(with_hosts((0.3, 0.3, 0.05, 0.3)), slow_rank(2), SURE)
    assert reason(history) == "it has 0.05 cores, others 0.3"
    # A step takes 450 ms, of which the rank keeps the others waiting for 310 ms.
    assert advice(history) == Advice(Remedy.EXCLUDE_HOST, "node3", step_seconds=pytest.approx(0.14))


def test_other_programs_use_its_cores() -> None:
    history = with_hosts()
    for rank in range(4):
        busy = (95.0, 97.0) if rank == 2 else (50.0, 2.0)
        history.say(rank, HostSample(busy, 1, 2)).rank(rank, RankSample(rank, 50.0, 1))
    assert reason(made(history, slow_rank(2), SURE)) == (
        "other programs use 1.4 of the 2 cores of its host"
    )
    assert advice(history) == Advice(Remedy.END_PROGRAMS, "node3", step_seconds=pytest.approx(0.14))


@pytest.mark.parametrize(("own_cpu", "matters"), [(140.0, True), (145.0, False)])
def test_other_programs_matter_from_a_quarter_of_the_cores_on(
    own_cpu: float, matters: bool
) -> None:
    history = with_hosts()
    for rank in range(4):
        busy = (95.0, 97.0) if rank == 2 else (50.0, 2.0)
        history.say(rank, HostSample(busy, 1, 2)).rank(rank, RankSample(rank, own_cpu, 1))
    assert ("other programs" in reason(made(history, slow_rank(2), SURE))) is matters


def test_ranks_of_the_same_machine_are_no_other_programs() -> None:
    history = with_hosts(machines="aaaa")
    for rank in range(4):
        history.say(rank, HostSample((95.0, 97.0), 1, 2)).rank(rank, RankSample(rank, 45.0, 1))
    assert reason(made(history, slow_rank(2), SURE)) == ""


def gpu(rank: int, clock: int, reasons: int = 0) -> GpuSample:
    return GpuSample(rank, 99.0, 1, 2, clock, 1980, reasons)


@pytest.mark.parametrize(
    ("own", "said"),
    [
        (gpu(2, 1155, 0x44), "its GPU runs at 1155 MHz because of heat, others at 1935 MHz"),
        (gpu(2, 1155, 0x04), "its GPU runs at 1155 MHz because of its power limit, others at"),
        (gpu(2, 345), "its GPU runs at 345 MHz, others at 1935 MHz"),
        (gpu(2, 1905, 0x40), ""),
        (gpu(2, 0), ""),
        (None, ""),
    ],
)
def test_the_clock_of_its_gpu_is_lower(own: GpuSample | None, said: str) -> None:
    history = History(plan(4)).training(total=4000, device="cuda:0")
    for rank, clock in enumerate((1965, 1935, 0, 1920)):
        if sample := gpu(rank, clock) if rank != 2 else own:
            history.rank(rank, sample)
    found = reason(made(history, slow_rank(2), SURE))
    assert found.startswith(said)
    assert bool(found) == bool(said)


@pytest.mark.parametrize(
    ("machines", "cores", "steps"),
    [
        pytest.param("aaaa", (2.0,) * 4, 70, id="one machine"),
        pytest.param("aaaa", (0.4, 0.4, 0.2, 0.4), SURE, id="it has fewer cores"),
        pytest.param("abcd", (2.0,) * 4, SURE, id="a machine of its own"),
    ],
)
def test_ranks_beside_other_programs_are_late_in_turn_so_that_takes_longer_to_be_sure(
    machines: str, cores: Sequence[float], steps: int
) -> None:
    history = with_hosts(cores, machines)
    for rank in range(4):
        history.say(rank, HostSample((99.0, 97.0), 1, 2)).rank(rank, RankSample(rank, 15.0, 1))
    made(history, slow_rank(2), steps - 1)
    assert not history.state().stragglers.slow
    made(history, slow_rank(2), 1, first=steps)
    assert [one.rank for one in history.state().stragglers.slow] == [2]


@pytest.mark.parametrize(
    ("machines", "cores", "steps"),
    [
        pytest.param("aaaa", (2.0,) * 4, 60, id="one machine"),
        pytest.param("aaaa", (0.4, 0.4, 0.2, 0.4), SURE, id="it has fewer cores"),
        pytest.param("abcd", (2.0,) * 4, SURE, id="a machine of its own"),
    ],
)
def test_fast_steps_have_to_be_late_for_longer_where_ranks_share_their_cores(
    machines: str, cores: Sequence[float], steps: int
) -> None:
    history = with_hosts(cores, machines)
    made(history, slow_rank(2, 0.09), steps - 1, step=0.1)
    assert not history.state().stragglers.slow
    made(history, slow_rank(2, 0.09), 1, first=steps, step=0.1)
    assert [one.rank for one in history.state().stragglers.slow] == [2]


def test_its_cores_are_slower() -> None:
    history = begun()
    for step in range(1, SURE + 1):
        for rank in range(4):
            ready = 0.36 if rank == 2 else FAST
            history.rank(
                rank, stepped(rank, step, seconds=0.45, ready=ready, cpu_seconds=2 * ready)
            )
    assert reason(history) == (
        "slower cores or more work: 720 ms of CPU time per step, others 100 ms"
    )


def test_between_two_checks_its_times_are_those_of_its_last_steps() -> None:
    history = made(begun(), slow_rank(2), SURE)
    made(history, slow_rank(2, 0.2), 14, first=SURE + 1)
    run = history.state()
    straggler = run.stragglers.current(2)
    assert straggler
    assert straggler.ready == run.ranks[2].pace.median("ready") == 0.2
    assert straggler.ready != run.stragglers.by_rank[2].ready, "the last check was earlier"
    (alert,) = find_alerts(run)
    assert "busy 200 of 450 ms" in alert.reasons[0]
    assert straggler.mark == "SLOW 4.0x"
    assert run.stragglers.current(1) is None
