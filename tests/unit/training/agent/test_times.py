"""Each time of an agent decides when something happens, and at no other moment."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields, replace

import pytest

from tests.unit.training.agent import test_decide
from tests.unit.training.agent.test_decide import (
    KILL,
    TERM,
    History,
    exited,
    start,
)
from training.agent.decide import Action, FollowerLeft
from training.agent.times import AgentTimes
from training.wire.commands import Close

SOON = 0.01
TIMES = AgentTimes()
ELSEWHERE = ("tick", "gather", "input")
"""Times that no decision depends on: tests/hosts/test_agent.py has tests of them."""


def closed() -> History:
    history = History().running()
    history.then(Close())
    return history


def killed() -> History:
    history = closed()
    history.then(None, after=history.state.kill_at - history.now)
    return history


def alone(keep: bool = False) -> History:
    history = History(keep=keep).running()
    history.then(FollowerLeft())
    return history


def failed() -> History:
    """A kept run whose ranks have failed, and which a launcher may start again."""
    history = History(keep=True)
    history.then(start(again=True))
    history.then(FollowerLeft())
    for rank in (0, 1):
        history.then(exited(rank, 1))
    return history


MOMENTS: dict[str, tuple[Callable[[], History], type | Action]] = {
    "grace": (closed, KILL),
    "last": (killed, test_decide.CLOSED),
    "reconnect": (alone, TERM),
    "lease": (lambda: History().running(), TERM),
    "restart": (failed, TERM),
}
"""A history, and what the agent does at the time of that name."""


@pytest.mark.parametrize("factor", [0.5, 1.0, 1.5])
@pytest.mark.parametrize("name", MOMENTS)
def test_a_time_decides_when_something_happens(
    name: str, factor: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    seconds = getattr(TIMES, name) * factor
    monkeypatch.setattr(test_decide, "TIMES", replace(TIMES, **{name: seconds}))
    make_history, action = MOMENTS[name]
    assert action not in make_history().then(None, after=seconds - SOON)
    assert action in make_history().then(None, after=seconds + SOON)


def test_the_times_are_these() -> None:
    """Users count on them: whoever changes one on purpose changes it here as well."""
    assert (
        AgentTimes(
            tick=1.0,
            gather=0.1,
            reconnect=2.0,
            lease=60.0,
            input=60.0,
            grace=2.0,
            last=8.0,
            restart=86400.0,
        )
        == TIMES
    )


def test_each_time_has_a_test() -> None:
    assert {field.name for field in fields(AgentTimes)} == {*MOMENTS, *ELSEWHERE}
