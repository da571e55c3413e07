"""Who is waited for while a run starts: named once it takes a while, the furthest behind only, and
told in every front end."""

from __future__ import annotations

import io
from collections.abc import Callable

import pytest

from remote.events import (
    Attached,
    ConnectionLost,
    HostLost,
    HostPhaseChanged,
    HostSilent,
    Restarted,
)
from remote.events import Stopping as StoppingEvent
from remote.run.apply import apply_record
from remote.run.findings.start_waits import PATIENCE, waiting
from remote.run.run_state import RunState
from tests.kit.acted import until
from tests.kit.dashboard import Stage
from tests.kit.histories import History, plan
from training.wire.events import (
    SESSION,
    Entered,
    Event,
    Exited,
    Hello,
    Launched,
    Reserved,
    Spawned,
    Started,
)
from tui.kit.session_clock import SessionClock
from tui.run import narration
from tui.run.plain_printer import PlainPrinter

HELLO = Hello("box", "me", 1, "3.11.2", "/usr/bin/python3", "Linux", "b", 2.0, 8 << 30, "2.14.1")
WORK = ("importing", "loading", "rendezvous", "joining")


def started(rank: int, size: int = 4) -> Event:
    return Started(rank, 100 + rank, size, "cpu", "gloo", "2.14.1", 1, 61_706, 40, 10, 640, 100)


def reached(
    hosts: int = 4, slots: int = 1, behind: dict[int, str] | None = None, transport: str = "ssh"
) -> History:
    """Every host is ready but those that are behind, in their phases."""
    history = History(plan(hosts, slots, transport=transport))
    for index in range(hosts):
        history.session(HostPhaseChanged(index, "connecting" if transport == "ssh" else "starting"))
        if phase := (behind or {}).get(index):
            history.session(HostPhaseChanged(index, phase))
        else:
            history.say(index, HELLO).session(HostPhaseChanged(index, "ready"))
    return history


def going(
    phases: dict[int, str], hosts: int = 4, slots: int = 1, transport: str = "ssh"
) -> History:
    """The port is reserved, and every rank has come to its phase; those that are not named
    train."""
    history = reached(hosts, slots, transport=transport).say(
        0, Reserved("10.10.1.1", 29500), after=0.1
    )
    for slot in history.plan.slots:
        phase = phases.get(slot.rank, "training")
        history.rank(slot.rank, history.launched(slot.rank), Spawned(slot.rank, 100 + slot.rank))
        passed = WORK[1 : WORK.index(phase) + 1] if phase in WORK else WORK[1:]
        history.rank(slot.rank, *(Entered(slot.rank, each) for each in passed))
        if phase == "training":
            history.rank(slot.rank, started(slot.rank, history.plan.world_size))
    return history


def texts(history: History, after: float = 12.0) -> list[str]:
    state = history.state()
    return [wait.text() for wait in waiting(state, state.now + after)]


CASES: list[tuple[str, Callable[[], History], list[str]]] = [
    (
        "a host that does not answer",
        lambda: reached(3, 1, {1: "connecting"}),
        ["waiting for node2: connecting, no answer yet (12 s)"],
    ),
    (
        "nobody answers",
        lambda: History(plan(4)).session(
            *(HostPhaseChanged(index, "connecting") for index in range(4))
        ),
        ["waiting for all 4 hosts: connecting, no answer yet (12 s)"],
    ),
    (
        "one is connecting, another deploying: only the first",
        lambda: reached(3, 1, {2: "deploying", 1: "connecting"}),
        ["waiting for node2: connecting, no answer yet (12 s)"],
    ),
    (
        "deploying",
        lambda: reached(3, 1, {2: "deploying"}),
        ["waiting for node3: ssh ok, the code is on its way (12 s)"],
    ),
    (
        "python sleeps",
        lambda: reached(3, 1, {0: "starting", 2: "starting"}),
        ["waiting for node1 and node3: ssh ok, its Python has not answered yet (12 s)"],
    ),
    (
        "many",
        lambda: reached(8, 1, dict.fromkeys(range(1, 8), "connecting")),
        ["waiting for node2, node3, node4 and 4 more: connecting, no answer yet (12 s)"],
    ),
    (
        "all are ready, nothing starts",
        lambda: reached(2),
        ["waiting for all 2 hosts: ssh ok, ready, but no rank is started yet (12 s)"],
    ),
    (
        "one cannot reach the port",
        lambda: going({0: "joining", 1: "joining", 2: "rendezvous", 3: "joining"}),
        ["waiting for node3: ssh ok, python started, has not reached 10.10.1.1:29500 (12 s)"],
    ),
    (
        "a rank of several imports",
        lambda: going({4: "joining", 5: "importing", 2: "loading"}, 4, 2),
        ["waiting for rank 5 on node3: importing torch (12 s)"],
    ),
    (
        "a whole host and a part of another",
        lambda: going({0: "loading", 1: "loading", 3: "loading"}, 2, 2),
        [
            "waiting for node1: loading digits (12 s)",
            "waiting for rank 3 on node2: loading digits (12 s)",
        ],
    ),
    (
        "on this machine there is no ssh",
        lambda: going({1: "rendezvous"}, 1, 2, transport="local"),
        ["waiting for rank 1 on node1: python started, has not reached 10.10.1.1:29500 (12 s)"],
    ),
    (
        "the group does not form",
        lambda: going(dict.fromkeys(range(4), "joining")),
        [
            "waiting for all 4 hosts: has reached 10.10.1.1:29500, connects to the other ranks "
            "(12 s)"
        ],
    ),
    (
        "a host goes silent before its ranks train",
        lambda: going({2: "loading"}).session(HostSilent(2, 10.0)),
        ["waiting for node3: no sign of life (12 s)"],
    ),
    (
        "a broken connection, at any time",
        lambda: going({}).session(ConnectionLost(2, "reset"), HostPhaseChanged(2, "connecting")),
        ["waiting for node3: the connection broke, no answer yet (12 s)"],
    ),
    ("all train", lambda: going({}), []),
    ("a silent host whose ranks train", lambda: going({}).session(HostSilent(2, 10.0)), []),
    (
        "it is being stopped",
        lambda: going({2: "loading"}).session(StoppingEvent("enough", True)),
        [],
    ),
    ("one has ended", lambda: going({2: "loading"}).rank(2, Exited(2, 1)), []),
    (
        "one was never reached: the others wait for its end",
        lambda: reached(2).session(HostLost(1, "no answer", False)),
        ["waiting for node1: ssh ok, ready, but no rank is started yet (12 s)"],
    ),
]


@pytest.mark.parametrize(
    ("make", "told"), [row[1:] for row in CASES], ids=[row[0] for row in CASES]
)
def test_who_is_waited_for(make: Callable[[], History], told: list[str]) -> None:
    assert texts(make()) == told


def test_nobody_is_named_at_once_and_everybody_within_five_seconds() -> None:
    assert texts(going({2: "loading"}), PATIENCE - 0.1) == []
    assert texts(going({2: "loading"}), 4.99) == ["waiting for node3: loading digits (5 s)"]


def test_a_run_of_which_nothing_is_known_waits_for_nobody() -> None:
    assert waiting(RunState(plan(2)), 1e9) == ()


def test_the_port_is_the_one_on_the_first_host_that_is_left() -> None:
    history = (
        reached(3)
        .say(1, Reserved("10.10.1.2", 7))
        .say(0, Reserved("10.10.1.1", 29500), Reserved("", 0, "taken"))
    )
    assert history.state().rendezvous == "10.10.1.1:29500"
    history.session(HostLost(0, "gone", True)).say(1, Reserved("10.10.1.2", 8)).say(
        2, Reserved("10.10.1.3", 9)
    )
    assert history.state().rendezvous == "10.10.1.2:8"


# The time between records -------------------------------------------------------------------------


class Hand:
    """A clock that a test sets."""

    def __init__(self) -> None:
        self.time = 50.0

    def __call__(self) -> float:
        return self.time


def test_the_clock_goes_on_without_records_and_stands_still_after_the_end() -> None:
    hand = Hand()
    clock, history = SessionClock(hand), reached(2)
    state = history.state()
    assert clock.now(state) == state.now
    hand.time += 7
    assert clock.now(state) == state.now + 7
    later = history.session(HostPhaseChanged(1, "connecting"), after=30.0).state()
    assert clock.now(later) == later.now
    closed = history.closed()
    hand.time += 100
    assert clock.now(closed) == closed.ended


# Told ---------------------------------------------------------------------------------------------


def test_after_a_restart_it_is_the_restart_since_which_ranks_wait() -> None:
    history = going({}, 2).session(Restarted((0, 1), "rank 1 died"), after=60.0)
    state = history.state()
    assert waiting(state, state.now + 1) == ()
    (wait,) = waiting(state, state.now + 5)
    assert wait.text() == "waiting for all 2 hosts: ssh ok, ready, but no rank is started yet (5 s)"


@pytest.mark.parametrize("phase", ["", "connecting", "deploying", "starting"])
def test_who_returns_to_a_run_has_waited_for_a_host_since_then(phase: str) -> None:
    history = going({}, 3)
    if phase:
        history.session(HostPhaseChanged(1, phase))
    else:
        history = History(plan(3)).say(0, HELLO)  # nothing is known of the other hosts
    history.session(Attached(), after=60.0)
    if phase == "connecting":
        history.session(HostPhaseChanged(1, phase))
    state = history.state()
    assert waiting(state, state.now + 1) == ()
    (wait,) = waiting(state, state.now + 5)
    assert wait.seconds == pytest.approx(5, abs=0.1)


def test_without_a_dashboard_it_is_said_when_it_changes_and_now_and_then(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    hand = Hand()
    monkeypatch.setattr(narration, "SessionClock", lambda: SessionClock(hand))
    err = io.StringIO()
    printer = PlainPrinter(io.StringIO(), err)
    history = going({1: "rendezvous", 0: "joining"}, 2)
    state = history.state()
    for _ in range(22):  # as the session's empty batches come
        printer.batch([], state)
        hand.time += 1.0
    history.say(1, Entered(1, "joining"), after=22.0)
    state = history.state()
    for _ in range(6):
        printer.batch([], state)
        hand.time += 1.0
    lines = [line for line in err.getvalue().splitlines() if "waiting" in line]
    whom = "rankboard: waiting for node2: ssh ok, python started, has not reached 10.10.1.1:29500"
    assert lines == [
        f"{whom} (4 s)",
        f"{whom} (19 s)",
        "rankboard: waiting for all 2 hosts: has reached 10.10.1.1:29500, connects to the other "
        "ranks (4 s)",
    ]


def test_without_a_dashboard_a_wait_that_comes_again_is_not_said_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As of a host that is reached again and again, but says nothing."""
    hand = Hand()
    monkeypatch.setattr(narration, "SessionClock", lambda: SessionClock(hand))
    err = io.StringIO()
    printer = PlainPrinter(io.StringIO(), err)
    history = History(plan(2)).say(0, Launched((0,)))
    history.session(HostPhaseChanged(0, "ready"))
    for _ in range(5):
        for phase in ("connecting", "starting"):
            state = history.session(HostPhaseChanged(1, phase), after=6.0).state()
            for _ in range(6):
                printer.batch([], state)
                hand.time += 1.0
    lines = [line for line in err.getvalue().splitlines() if "waiting for node2" in line]
    assert len(lines) == len(set(lines)) == 2, lines


def test_without_a_dashboard_the_phases_of_the_ranks_are_told_once_all_have_come_there() -> None:
    history, err = History(plan(2)), io.StringIO()
    printer, state = PlainPrinter(io.StringIO(), err, verbose=True), RunState(plan(2))
    history.rank(0, Launched((0,)), Entered(0, "loading"), Entered(0, "rendezvous")).rank(
        1, Launched((1,))
    )
    history.rank(1, Entered(1, "rendezvous")).rank(0, Entered(0, "joining")).rank(
        1, Entered(1, "joining"), started(1, 2)
    )
    for record in history.records:
        apply_record(state, record)
        printer.batch([record], state)
    told = [
        line.removeprefix("rankboard: ").split(" after")[0] for line in err.getvalue().splitlines()
    ]
    assert told == [
        "importing",
        "rendezvous",
        "joining",
        "training: 2 ranks, 40 steps, 61,706 parameters, 640 samples, gloo on cpu",
    ]


@pytest.mark.parametrize("size", [(80, 24), (160, 48)])
async def test_the_dashboard_names_it_with_ages_that_grow_without_records(
    size: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    hand = Hand()
    for panel in ("components.header", "hosts_panel", "ranks_panel"):
        monkeypatch.setattr(f"tui.run.{panel}.SessionClock", lambda: SessionClock(hand))
    stage = Stage()
    async with stage.shown(size=size) as pilot:
        for index in range(2):
            stage.session.say(SESSION, HostPhaseChanged(index, "connecting"))
        await until(pilot, lambda: stage.text().count("connecting") >= 2)
        assert "waiting for" not in stage.text()
        assert "connecting 0 s" in stage.text()
        hand.time += 6.0
        await until(
            pilot,
            lambda: "waiting for all 2 hosts: connecting, no answer yet (6 s)" in stage.text(),
        )
        assert "connecting 6 s" in stage.text()
        for index in range(2):
            stage.session.say(SESSION, HostPhaseChanged(index, "ready"))
        stage.session.say(0, Reserved("10.10.1.1", 29500), Launched((0, 1)))
        stage.session.say(1, Launched((2, 3)), *(Entered(rank, "rendezvous") for rank in (2, 3)))
        stage.session.say(0, *(Entered(rank, "joining") for rank in (0, 1)), after=0.1)
        await until(pilot, lambda: "rendezvous" in stage.text() and "joining" in stage.text())
        hand.time += 9.0
        whom = "waiting for node2: ssh ok, python started, has not reached 10.10.1.1:29500 (9 s)"
        await until(pilot, lambda: whom in " ".join(stage.text().split()))
        assert "joining 9 s" in stage.text()
        assert "rendezvous 9 s" in stage.text()
        for rank in range(4):
            stage.session.say(stage.session.host_of(rank), started(rank))
        await until(
            pilot, lambda: "waiting for" not in stage.text() and "● training" in stage.text()
        )
