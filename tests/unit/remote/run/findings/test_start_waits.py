"""Who is waited for while a run starts: named once it takes a while, the furthest behind only."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

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
from remote.plan.plan import Script
from remote.run.findings.start_waits import NAMED_AFTER, waiting
from remote.run.run_state import RunState
from tests.kit.histories import History, plan
from tests.kit.starts import HELLO, going, reached
from training.wire.host_events import BeforeEnded, BeforeStarted, Exited, Reserved


def texts(history: History, after: float = 12.0) -> list[str]:
    state = history.state()
    return [wait.text() for wait in waiting(state, state.now + after)]


def preparing() -> History:
    """A command runs on both hosts before the ranks of a script; it has ended on the first."""
    history = reached(2)
    work = Script(("train.py",), before="pip install x")
    history.plan = replace(history.plan, work=work)
    history.say(0, BeforeStarted(), BeforeEnded(0, 2.0))
    return history.say(1, BeforeStarted())


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
        "a command before the ranks",
        preparing,
        ["waiting for node2: before: pip install x (12 s)"],
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
    assert texts(going({2: "loading"}), NAMED_AFTER - 0.1) == []
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
