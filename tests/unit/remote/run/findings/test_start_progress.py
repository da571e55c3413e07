"""How far each host is on the way to the first step, and what the start as a whole waits for."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from remote.events import HostPhaseChanged
from remote.run.findings.start_progress import (
    PATIENCE,
    SILENT_START,
    host_starts,
    is_starting,
    stage_times,
    start_stages,
    summarise_start,
)
from remote.run.run_state import RunState
from tests.kit.histories import History, plan, stepped
from tests.kit.scripts import script, seen, started
from tests.kit.starts import HELLO, going, reached
from training.wire.host_events import RankSample
from training.wire.rank_events import Entered


def stages_of(run: RunState) -> list[str]:
    """The stage that each host is in."""
    titles = [*(stage.title for stage in start_stages(run)), "ready"]
    return [titles[start.stage] for start in host_starts(run, run.now)]


CASES: list[tuple[str, Callable[[], History], list[str]]] = [
    ("nothing yet", lambda: History(plan(2)), ["connect", "connect"]),
    ("one is behind", lambda: reached(2, 1, {1: "deploying"}), ["import torch", "copy code"]),
    ("ranks load", lambda: going({0: "loading", 1: "importing"}, 2), ["load data", "import torch"]),
    ("one joins", lambda: going({0: "joining"}, 2), ["join", "ready"]),
    ("the last rank of a host counts", lambda: going({1: "loading"}, 1, 2), ["load data"]),
]


@pytest.mark.parametrize(
    ("history", "stages"), [case[1:] for case in CASES], ids=[case[0] for case in CASES]
)
def test_each_host_is_where_its_last_rank_is(
    history: Callable[[], History], stages: list[str]
) -> None:
    assert stages_of(history().state()) == stages


def test_a_stage_that_is_done_has_the_time_that_it_took_and_the_present_one_its_age() -> None:
    history = History(plan(1))
    history.session(HostPhaseChanged(0, "connecting"))
    history.session(HostPhaseChanged(0, "deploying"), after=2.0)
    history.say(0, HELLO).session(HostPhaseChanged(0, "ready"), after=3.0)
    history.rank(0, history.launched(0))
    history.say(0, Entered(0, "loading"), after=7.0)
    run = history.state()
    (start,) = host_starts(run, run.now + 4.0)
    times = [round(start.seconds[stage]) for stage in range(4)]
    assert times == [2, 3, 7, 4]
    assert 4 not in start.seconds


def test_what_the_start_waits_for_stands_with_the_number_of_hosts_that_are_ready() -> None:
    history = going({0: "joining", 1: "joining", 2: "importing"}, 3)
    run = history.state()
    summary = summarise_start(run, run.now + 12.0)
    assert summary.text == "waiting for node3: importing torch, 12 s; 2 of 3 hosts are ready"
    assert summary.usual.startswith("usually takes about 10 s, ")
    assert summary.usual.endswith(" on the others")
    assert not summary.is_late
    assert summarise_start(run, run.now + PATIENCE * 10 + 2).is_late


def test_what_the_last_run_took_stands_in_place_of_what_is_usual_everywhere() -> None:
    run = going({0: "importing"}, 1).state()
    last_times = {"import torch": 4.14, "load data": 0.02}
    summary = summarise_start(run, run.now + 1.0, last_times)
    assert summary.usual == "took 4.1 s in the last run"
    assert not summarise_start(run, run.now + 12.0, last_times).is_late
    assert summarise_start(run, run.now + 13.0, last_times).is_late, "three times as long"
    loading = going({0: "loading"}, 1).state()
    assert not summarise_start(loading, loading.now + 5.0, last_times).is_late, "of a moment"
    assert summarise_start(loading, loading.now + 1.0).usual == "usually takes about 5 s"


def test_a_start_on_one_host_names_no_host() -> None:
    run = going({0: "importing", 1: "importing"}, 1, 2).state()
    assert summarise_start(run, run.now + 2.0).text == "importing torch, 2 s"


def test_a_host_with_few_cores_is_late_because_of_them() -> None:
    run = going({0: "joining", 1: "joining", 2: "importing"}, 3).state()
    for host, cores in zip(run.hosts, (0.4, 0.4, 0.1), strict=True):
        host.hello = replace(HELLO, cores=cores)
    assert "node3 has 0.1 cores, others 0.4" in summarise_start(run, run.now).usual
    run.hosts[2].hello = replace(HELLO, cores=0.4)
    assert "cores" not in summarise_start(run, run.now).usual


def test_a_script_starts_until_something_is_seen_of_it_but_not_for_ever() -> None:
    history = started(script(1, 2)).session(HostPhaseChanged(0, "ready"))
    run = history.state()
    assert is_starting(run)
    assert "the script is starting" in summarise_start(run, run.now + 3.0).text
    for rank in range(2):
        history.rank(rank, seen(rank, 1, 1.0))
    assert not is_starting(history.state())
    silent = started(script(1, 2))
    silent.say(0, RankSample(0, 5.0, 1 << 20), after=SILENT_START + 1.0)
    assert not is_starting(silent.state())


def test_hosts_that_wait_for_the_last_one_to_join_are_not_late() -> None:
    history = going({0: "joining", 1: "importing"}, 2)
    for phase in ("loading", "rendezvous", "joining"):
        history.say(1, Entered(1, phase), after=30.0 if phase == "loading" else 0.1)
    run = history.state()
    assert not summarise_start(run, run.now + 1.0).is_late


def test_a_start_ends_with_the_first_step() -> None:
    history = going({}, 2)
    assert is_starting(history.state())
    history.rank(0, stepped(0, 1)).rank(1, stepped(1, 1))
    assert not is_starting(history.state())


def test_the_stages_of_a_start_have_the_time_of_the_slowest_host() -> None:
    history = History(plan(2))
    for host, seconds in ((0, 3.0), (1, 8.0)):
        history.session(HostPhaseChanged(host, "connecting"))
        history.session(HostPhaseChanged(host, "deploying"), after=seconds)
        history.say(host, HELLO).session(HostPhaseChanged(host, "ready"))
    times = stage_times(history.state())
    assert round(times["connect"]) == 8
    assert "join the others" not in times, "which no host has begun"


def test_a_script_imports_torch_until_its_ranks_meet_and_joins_as_often_as_they_do() -> None:
    history = started(script(1, 1)).session(HostPhaseChanged(0, "ready"))
    for seconds in (9.0, 1.0):
        history.say(0, Entered(0, "joining", "init_process_group"), after=seconds)
        history.say(0, Entered(0, "training"), after=2.0)
    history.rank(0, seen(0, 1, 1.0)).rank(0, seen(0, 2, 1.0))
    times = stage_times(history.done(0).closed())
    assert round(times["join the others"]) == 4
    assert round(times["import torch and start the script"]) >= 10
