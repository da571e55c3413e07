"""Ranks of a script that others wait for before the first step: named, and in the end a stall."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from remote.events import HostPhaseChanged, Restarted, Stalled, StallExplained
from remote.run.diagnosis.meeting_point import find_meeting_address
from remote.run.diagnosis.stall_causes import explain_stall
from remote.run.findings.late_ranks import find_late_ranks
from remote.run.findings.stall import STALL_LIMITS, find_stall, has_all_stacks
from remote.run.findings.start_waits import NAMED_AFTER, waiting
from remote.run.state.types import Stall
from tests.kit.dumps import LOADS, OUTER, SITE, STOPPED, WAITS, by, dump
from tests.kit.histories import START, History, stepped
from tests.kit.scripts import script, seen, started
from training.wire.enums import Phase
from training.wire.events import PREFIX, WORKER, Event, to_object
from training.wire.host_events import (
    Connected,
    Exited,
    HostSample,
    OutputText,
    Spawned,
    Stack,
    WorkerJoined,
)
from training.wire.jsonl import dumps
from training.wire.rank_events import Entered

INIT = "init_process_group"
DDP = "DistributedDataParallel"
IS_STOPPED = "is stopped, by SIGSTOP or a debugger"
SLEEPS = Stack(
    3,
    "kernel",
    "state: S (sleeping), in do_wait; process 7, bash\n"
    "no Python stack: it is no Python program\nruns: bash -c …: sleep 600",
)
MUTE = Stack(3, "kernel", "state: S (sleeping), in pipe_read\nno Python stack: it has just ended")
JOINS = dump(
    (f"{SITE}/torch/distributed/rendezvous.py", "_create_c10d_store"),
    (f"{SITE}/torch/distributed/distributed_c10d.py", INIT),
    (f"{SITE}/torch/distributed/c10d_logger.py", "wrapper"),
    *OUTER,
)


def comes(rank: int, call: str = INIT) -> Event:
    return Entered(rank, Phase.JOINING, call)


def leaves(rank: int) -> Event:
    return Entered(rank, Phase.TRAINING)


def going(*meetings: str, late: tuple[int, ...] = ()) -> History:
    """Four ranks on two hosts; all have left these meetings but the last one, where `late` ranks
    are missed."""
    history = started(script(watch=True))
    history.session(*(HostPhaseChanged(index, "ready") for index in range(2)))
    for call in meetings:
        is_last = call == meetings[-1]
        for rank in range(4):
            if not (is_last and rank in late):
                history.rank(rank, comes(rank, call))
        for rank in range(4) if not is_last else ():
            history.rank(rank, leaves(rank))
    return history


def lasting(history: History, seconds: float) -> History:
    """Both hosts report, and nothing else happens."""
    for _ in range(round(seconds)):
        for host in range(2):
            history.say(host, HostSample((1.0,), 1, 2), after=0.5)
    return history


def texts(history: History, after: float = 0.0) -> list[str]:
    state = history.state()
    return [wait.text() for wait in waiting(state, state.now + after)]


def of_workers(*, late: int, joined: bool = False) -> History:
    """A program that has started four workers, of which one has not come."""
    history = started(script(1, 1, watch=True)).session(HostPhaseChanged(0, "ready"))
    for rank in range(4):
        if rank != late or joined:
            history.rank(0, WorkerJoined(rank, 0, 4, 500 + rank))
        if rank != late:
            history.rank(0, by_worker(comes(rank)))
    return history


def by_worker(event: Event) -> OutputText:
    line = PREFIX + WORKER + dumps({"time": START} | to_object(event))
    return OutputText(0, "stdout", line)


CASES: list[tuple[str, Callable[[], History], list[str]]] = [
    (
        "one rank has not come",
        lambda: going(INIT, late=(3,)),
        [f"waiting for rank 3 on node2: has not called {INIT}; ranks 0 to 2 wait in it (12 s)"],
    ),
    (
        "several, on two hosts",
        lambda: going(INIT, late=(1, 2, 3)),
        [
            f"waiting for rank 1 on node1: has not called {INIT}; rank 0 waits in it (12 s)",
            f"waiting for ranks 2 and 3 on node2: have not called {INIT}; rank 0 waits in it "
            "(12 s)",
        ],
    ),
    (
        "several that do the same",
        lambda: going(INIT, late=(2, 3)).rank(2, by(LOADS, 2)).rank(3, by(LOADS, 3)),
        [
            f"waiting for ranks 2 and 3 on node2: have not called {INIT}, each is in "
            "train.py:41, load_batch; ranks 0 and 1 wait in it (12 s)"
        ],
    ),
    (
        "at a later meeting",
        lambda: going(INIT, "barrier", late=(0,)),
        ["waiting for rank 0 on node1: has not called barrier; ranks 1 to 3 wait in it (12 s)"],
    ),
    (
        "all have come",
        lambda: going(INIT),
        [f"waiting for all 2 hosts: all ranks are inside {INIT} (12 s)"],
    ),
    (
        "a worker of the program has not come",
        lambda: of_workers(late=3),
        [f"waiting for rank 3 on node1: has not called {INIT}; ranks 0 to 2 wait in it (12 s)"],
    ),
    (
        "its stack says where it is",
        lambda: of_workers(late=1).rank(0, replace(by(LOADS, 1), worker=True)),
        [
            f"waiting for rank 1 on node1: has not called {INIT}, is in train.py:41, load_batch; "
            "ranks 0, 2 and 3 wait in it (12 s)"
        ],
    ),
    ("nobody waits: a script may load for as long as it likes", lambda: going(), []),
    (
        "who has left a meeting is not late for it",
        lambda: going("gather").rank(1, leaves(1)),
        [],
    ),
    (
        "after the first step it is no start any more",
        lambda: going(INIT, late=(3,)).rank(3, seen(3, 1, 1.0)),
        [],
    ),
]


@pytest.mark.parametrize(
    ("make", "told"), [row[1:] for row in CASES], ids=[row[0] for row in CASES]
)
def test_who_is_late_is_named(make: Callable[[], History], told: list[str]) -> None:
    assert texts(make(), 12.0) == told


def test_a_worker_that_never_comes_is_a_stall_with_its_place() -> None:
    history = of_workers(late=3).rank(0, replace(by(LOADS, 3), worker=True))
    for _ in range(round(STALL_LIMITS.joining)):
        history.say(0, HostSample((1.0,), 1, 2), after=1.0)
    found = find_stall(history.state(), history.now)
    assert isinstance(found, Stalled)
    assert found.ranks == (0, 1, 2, 3)
    history.session(found)
    assert not has_all_stacks(history.state())
    for rank in range(4):
        stack = by(LOADS if rank == 3 else JOINS, rank)
        history.rank(0, replace(stack, worker=True))
    state = history.state()
    assert has_all_stacks(state)
    assert state.stall
    assert state.stall.culprits == (3,)
    assert "rank 3 on node1 is not inside a collective: it is in train.py:41" in state.stall.text


def test_a_worker_that_comes_at_last_ends_the_wait() -> None:
    history = of_workers(late=3)
    history.rank(0, WorkerJoined(3, 0, 4, 503), by_worker(comes(3)))
    assert find_late_ranks(history.state()) is None
    history.rank(0, *(by_worker(leaves(rank)) for rank in range(4)))
    assert texts(history, 12.0) == []


def test_it_is_named_within_five_seconds() -> None:
    history = going(INIT, late=(3,))
    assert texts(history, NAMED_AFTER - 0.1) == []
    assert texts(history, 4.9)


@pytest.mark.parametrize(
    ("event", "activity"),
    [
        (by(LOADS, 3), ", is in train.py:41, load_batch"),
        (SLEEPS, ", runs bash -c …: sleep 600"),
        (by(STOPPED, 3), ", is stopped, by SIGSTOP or a debugger"),
        (MUTE, ""),
        (Exited(3, 0), ", has ended with exit code 0"),
    ],
)
def test_what_a_late_rank_does_is_told(event: Event, activity: str) -> None:
    history = going(INIT, late=(3,)).rank(3, event)
    progress = f"has not called {INIT}{activity}; ranks 0 to 2 wait in it"
    assert texts(history, 12.0) == [f"waiting for rank 3 on node2: {progress} (12 s)"]


def test_a_stack_from_before_the_wait_says_nothing_of_it() -> None:
    history = going().rank(3, by(LOADS, 3)).rank(0, comes(0))
    assert "load_batch" not in "".join(texts(history, 12.0))


def test_a_rank_that_is_not_watched_is_late_for_the_first_meeting_alone() -> None:
    history = going(INIT, late=(3,))
    late_ranks = find_late_ranks(history.state())
    assert late_ranks
    assert [rank.rank for rank in late_ranks.late] == [3]
    for rank in range(3):
        history.rank(rank, leaves(rank))
    for rank in range(3):
        history.rank(rank, comes(rank, "barrier"))
    assert find_late_ranks(history.state()) is None


def test_where_ranks_meet_is_named_if_hosts_cannot_connect_to_it() -> None:
    def meets(rank: int, address: str = "10.10.1.1:9955") -> Event:
        return replace(comes(rank), address=address)

    history = going().rank(0, meets(0)).rank(1, meets(1)).rank(2, meets(2))
    assert find_meeting_address(history.state().ranks) is None
    history.rank(3, meets(3))
    assert find_meeting_address(history.state().ranks) == ("10.10.1.1", 9955)
    history.say(0, Connected("10.10.1.1", 9955, 0.1))
    history.say(1, Connected("10.10.1.1", 9955, 0.1, "Connection refused"))
    [text] = texts(history, 12.0)
    assert text.startswith(f"waiting for all 2 hosts: all ranks are inside {INIT}; ")
    assert "node2 cannot connect to 10.10.1.1:9955: Connection refused (" in text
    for rank in range(4):
        history.rank(rank, leaves(rank))
    assert find_meeting_address(history.state().ranks) is None


@pytest.mark.parametrize("address", ["", "node0:1", "10.10.1.1", "10.10.1.1:x", "\x1b:1"])
def test_an_address_that_cannot_be_tried_is_not_known(address: str) -> None:
    history = going()
    for rank in range(4):
        history.rank(rank, replace(comes(rank), address=address))
    assert find_meeting_address(history.state().ranks) is None


def test_workers_that_do_not_find_each_other_are_waited_for() -> None:
    history = of_workers(late=3)
    history.rank(0, WorkerJoined(3, 0, 4, 503), by_worker(comes(3)))
    assert texts(history, 12.0) == [f"waiting for node1: all ranks are inside {INIT} (12 s)"]


def test_a_name_that_a_host_makes_up_is_not_shown() -> None:
    history = going("\x1b[2J ", late=(3,))
    assert "has not called a collective;" in texts(history, 12.0)[0]


# As a stall ---------------------------------------------------------------------------------------


def explain(history: History, *stacks: Stack) -> Stall:
    """Return the stall that is found by now, once these stacks of the ranks have come."""
    stalled = find_stall(history.state(), history.now)
    assert stalled
    history.session(stalled)
    for rank, stack in enumerate(stacks):
        history.rank(rank, by(stack, rank))
    stall = history.state().stall
    assert stall
    return stall


def test_after_a_minute_it_is_a_stall_and_said_once() -> None:
    history = lasting(going(INIT, late=(3,)), STALL_LIMITS.joining - 3)
    assert find_stall(history.state(), history.now) is None
    said = find_stall(lasting(history, 5).state(), history.now)
    assert isinstance(said, Stalled)
    assert said.ranks == (0, 1, 2, 3)
    assert said.seconds >= STALL_LIMITS.joining
    history.session(said)
    state = history.state()
    assert find_stall(state, history.now) is None
    assert waiting(state, history.now + 30) == (), "the stall says it"
    for rank, stack in enumerate((JOINS, JOINS, JOINS, SLEEPS)):
        history.rank(rank, by(stack, rank))
    stall = history.state().stall
    assert stall
    assert stall.culprits == (3,)
    assert stall.text == (
        "rank 3 on node2 is perhaps not inside a collective: it runs bash -c …: sleep 600; "
        f"ranks 0 to 2 wait for it in {INIT}"
    )


def test_who_loads_data_for_minutes_may_take_twice_as_long_as_the_quickest() -> None:
    history = lasting(going(), 200)
    history.rank(0, comes(0))
    assert find_stall(lasting(history, 190).state(), history.now) is None
    assert find_stall(lasting(history, 20).state(), history.now)


def test_a_host_that_is_not_heard_is_no_stall() -> None:
    history = going(INIT, late=(3,))
    for _ in range(100):
        history.say(0, HostSample((1.0,), 1, 2), after=1.0)
    assert find_stall(history.state(), history.now) is None


@pytest.mark.parametrize("is_watched", [True, False])
def test_the_stall_is_over_once_all_have_met(*, is_watched: bool) -> None:
    history = lasting(going(INIT, late=(3,)), STALL_LIMITS.joining + 2)
    said = find_stall(history.state(), history.now)
    assert said
    history.session(said, StallExplained("so it is"))
    for rank in range(4) if is_watched else range(3):
        history.rank(rank, *([comes(3)] if rank == 3 else []), leaves(rank))
    state = history.state()
    assert state.stall is None
    assert not any(rank.stalled for rank in state.ranks)


def test_a_restart_begins_anew() -> None:
    history = going(INIT, "barrier", late=(3,))
    history.session(Restarted((0, 1), "rank 3 died"))
    for rank in range(4):
        history.rank(rank, Spawned(rank, 200 + rank))
    history.rank(0, comes(0))
    late_ranks = find_late_ranks(history.state())
    assert late_ranks
    assert late_ranks.call == INIT
    assert [rank.rank for rank in late_ranks.late] == [1, 2, 3]


def test_a_rank_that_says_that_it_waits_is_not_blamed_by_its_stack() -> None:
    history = lasting(going("DistributedDataParallel", late=(3,)), STALL_LIMITS.joining + 2)
    verifies = dump((f"{SITE}/torch/distributed/utils.py", "_verify_param_shape"), *OUTER)
    stall = explain(history, verifies, verifies, verifies, LOADS)
    assert stall.culprits == (3,)
    assert stall.text.endswith("ranks 0 to 2 wait for it in DistributedDataParallel")


def test_a_rank_that_has_ended_well_holds_up_the_others() -> None:
    history = going(INIT, late=(3,)).rank(3, Exited(3, 0))
    stall = explain(lasting(history, STALL_LIMITS.joining + 2), JOINS, JOINS, JOINS)
    assert stall.culprits == (3,)
    assert stall.text == (
        f"rank 3 on node2 has ended with exit code 0; ranks 0 to 2 wait for it in {INIT}"
    )


def test_a_rank_that_was_stopped_in_a_meeting_is_blamed_for_the_stall() -> None:
    history = lasting(going(INIT), STALL_LIMITS.joining + 2)
    state = history.rank(3, by(STOPPED, 3)).state()
    stall = Stall((0, 1, 2, 3), since=0.0, seconds=60.0)
    explained = explain_stall(stall, state.ranks, state.hosts)
    assert explained.culprits == (3,)
    assert explained.text.startswith(f"rank 3 on node2 {IS_STOPPED}, in {INIT}")


def test_a_rank_that_has_made_a_step_waits_in_no_meeting_of_the_start() -> None:
    history = going()
    for rank in range(4):
        history.rank(rank, replace(comes(rank), address="10.10.1.1:9955"))
    assert find_meeting_address(history.state().ranks)
    state = history.rank(0, stepped(0, 1)).state()
    assert [bool(rank.meeting) for rank in state.script_ranks] == [False, True, True, True]
    assert find_meeting_address(state.ranks) is None


# None is missing ----------------------------------------------------------------------------------


def test_ranks_that_are_all_inside_for_a_minute_have_stalled() -> None:
    history = lasting(going(INIT, DDP), STALL_LIMITS.joining - 3)
    assert find_stall(history.state(), history.now) is None
    stall = explain(lasting(history, 5), JOINS, JOINS, JOINS, JOINS)
    assert stall.ranks == (0, 1, 2, 3)
    assert stall.text == (
        f"all ranks are inside a collective, none is missing: ranks 0 to 3 in {DDP}; "
        "does the network between them still work?"
    )
    assert find_stall(history.state(), history.now) is None, "it is said once"
    assert texts(history, 30.0) == [], "the stall says it"


def test_the_stall_says_which_hosts_cannot_connect() -> None:
    history = going()
    for rank in range(4):
        history.rank(rank, replace(comes(rank), address="10.10.1.1:9955"))
    history.say(1, Connected("10.10.1.1", 9955, 0.1, "Connection refused"))
    stall = explain(lasting(history, STALL_LIMITS.joining + 2), JOINS, JOINS, JOINS, JOINS)
    assert stall.facts[-1] == "node2 cannot connect to 10.10.1.1:9955: Connection refused"


def test_who_loads_for_minutes_may_be_inside_as_long() -> None:
    history = lasting(going(), 200)
    for rank in range(4):
        history.rank(rank, comes(rank, DDP))
    assert find_stall(lasting(history, 190).state(), history.now) is None
    assert find_stall(lasting(history, 20).state(), history.now)


@pytest.mark.parametrize(("sent", "is_stall"), [(400_000, False), (4_000, True)])
def test_a_model_on_its_way_over_a_slow_network_is_no_stall(sent: int, *, is_stall: bool) -> None:
    history = going(INIT, DDP)
    for _ in range(round(STALL_LIMITS.joining) + 10):
        for host in range(2):
            history.say(host, HostSample((1.0,), 1, 2, sent, sent), after=0.5)
    assert bool(find_stall(history.state(), history.now)) is is_stall
    history = lasting(history, STALL_LIMITS.joining + 2)
    assert find_stall(history.state(), history.now), "since the last of it"


def test_a_function_that_imports_a_part_of_torch_first_is_no_stall() -> None:
    history = lasting(going(INIT, DDP), 32)
    imports = dump((f"{SITE}/torch/x.py", "<module>"), ("<frozen importlib._bootstrap>", "exec"))
    history.rank(3, by(imports, 3))
    lasting(history, STALL_LIMITS.joining - 3)
    assert find_stall(history.state(), history.now) is None
    assert find_stall(lasting(history, 5).state(), history.now)


@pytest.mark.parametrize("call", [INIT, DDP])
def test_a_rank_that_a_signal_has_stopped_is_named_at_once(call: str) -> None:
    history = lasting(going(call), 5).rank(3, by(STOPPED, 3))
    [text] = texts(history)
    assert text.startswith(
        f"waiting for rank 3 on node2: {IS_STOPPED}, in {call}; ranks 0 to 2 wait for it ("
    )
    lasting(history, STALL_LIMITS.least - 3)
    assert find_stall(history.state(), history.now) is None, "somebody may have let it go on"
    lasting(history, 5).rank(3, by(STOPPED, 3))
    stall = explain(history, JOINS, JOINS, JOINS, STOPPED)
    assert stall.culprits == stall.stopped == (3,)
    assert stall.text == (
        f"rank 3 on node2 {IS_STOPPED}, in {call}; ranks 0 to 2 wait for it in {call}"
    )
    for rank in range(4):
        history.rank(rank, leaves(rank))
    assert history.state().stall is None


def test_a_late_rank_that_a_signal_has_stopped_is_a_stall_sooner() -> None:
    history = lasting(going(INIT, DDP, late=(3,)), STALL_LIMITS.least + 2)
    assert find_stall(history.state(), history.now) is None
    history.rank(3, by(STOPPED, 3))
    assert find_stall(history.state(), history.now)


def test_a_rank_that_does_not_come_out_of_a_meeting_is_late_for_the_next_one() -> None:
    history = going(INIT)
    for rank in range(3):
        history.rank(rank, leaves(rank))
        history.rank(rank, comes(rank, DDP))
    history.rank(3, by(STOPPED, 3))
    [text] = texts(history, 5.0)
    assert text.startswith(f"waiting for rank 3 on node2: has not called {DDP}, {IS_STOPPED}; ")
    stall = explain(lasting(history, STALL_LIMITS.joining + 2), JOINS, JOINS, JOINS, STOPPED)
    assert stall.culprits == (3,)


@pytest.mark.parametrize("leaving", [(0, 1, 2), (0, 1, 2, 3)])
def test_only_who_is_stopped_makes_a_stall_of_the_first_step(leaving: tuple[int, ...]) -> None:
    history = going(INIT, DDP)
    for rank in leaving:
        history.rank(rank, leaves(rank))
    lasting(history, 400)
    assert find_stall(history.state(), history.now) is None, "it may be compiling"
    history.rank(3, by(STOPPED, 3))
    assert IS_STOPPED in texts(history)[0]
    stall = explain(history, WAITS, WAITS, WAITS, STOPPED)
    assert stall.culprits == (3,)
    assert "; ranks 0 to 2 wait for it in all_reduce" in stall.text
    for rank in range(4):
        history.rank(rank, *(leaves(3),) if rank == 3 else (), seen(rank, 1, 1.0))
    assert history.state().stall is None


def test_a_program_that_has_not_met_may_be_anything() -> None:
    history = lasting(going(), 400)
    for rank in range(4):
        history.rank(rank, by(STOPPED, rank))
    assert find_stall(history.state(), history.now) is None
