"""Each time of the table decides when something happens, and at no other moment."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import pytest

from remote.events import Detached, HostLost, HostSilent, StallExplained, Stopping
from remote.run.findings.stall import STALL_LIMITS
from remote.session.controller import Controller
from remote.session.decide import decide
from remote.session.decision_input import DecisionInput
from remote.session.times import TIMES, Times
from remote.transport.failure import Failure, FailureCause
from tests.kit.stage import Stage, hasten, running, to_the_end, trains
from tests.kit.wait import wait
from tests.unit.remote.session.test_decide import (
    SAMPLE,
    STOPPED_AGAIN,
    Case,
    asked,
    failed,
    kept_run,
    kinds,
    stalled,
    stopping,
    without,
)
from training.agent.times import AgentTimes
from training.wire.commands import Lease
from training.wire.events import SESSION

SOON = 0.01
BELOW = ("lease", "tick", "retry")
ELSEWHERE = ("settling", "grace", "stall")
"""Times that have tests in test_decide.py and test_stall.py."""


def stopped_while_host_1_is_silent() -> Case:
    return asked(Case().started().later(9).say(SESSION, STOPPED_AGAIN))


MOMENTS: dict[str, tuple[Callable[[float], Case], type]] = {
    "evidence": (lambda seconds: failed(Case()).later(seconds), Stopping),
    "closing": (lambda seconds: asked(stopping(Case())).later(seconds).heard(), HostLost),
    "away": (lambda seconds: asked(stopping(Case())).later(seconds).say(0, SAMPLE), HostLost),
    "moment": (
        lambda seconds: stopped_while_host_1_is_silent().later(seconds).say(0, SAMPLE),
        HostLost,
    ),
    "unheard": (lambda seconds: kept_run().started().later(seconds), Detached),
    "silent": (lambda seconds: Case().started().later(seconds), HostSilent),
    "lost": (lambda seconds: Case().started().later(seconds).say(0, SAMPLE), HostLost),
    "parted": (
        lambda seconds: without(Case().started().later(seconds), 1).say(0, SAMPLE),
        HostLost,
    ),
    "stacks": (lambda seconds: stalled(Case()).later(seconds).heard(), StallExplained),
}
"""A case so many seconds after it began, and what is done at the time of that name."""


def happens(name: str, seconds: float, times: Times) -> bool:
    """Return True if the event of a time is among what is done after so many seconds."""
    make_case, event = MOMENTS[name]
    case = make_case(seconds)
    return event in kinds(decide(DecisionInput(case.run, case.links, {}, times, case.now)))


@pytest.mark.parametrize("factor", [0.5, 1.0, 1.5])
@pytest.mark.parametrize("name", MOMENTS)
def test_a_time_decides_when_something_happens(name: str, factor: float) -> None:
    seconds = getattr(TIMES, name) * factor
    times = replace(TIMES, **{name: seconds})
    assert not happens(name, seconds - SOON, times)
    assert happens(name, seconds + SOON, times)


@pytest.mark.parametrize("lease", [0.01, 60.0])
def test_hosts_get_leases_in_time(
    lease: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hasten(monkeypatch, lease=lease)
    stage = Stage(trains)
    session, batches = running(stage, tmp_path)
    if lease < 1:
        wait(lambda: count_leases(stage) > 10, "leases")
    session.stop()
    to_the_end(batches)
    assert (count_leases(stage) == 0) is (lease > 1)


def count_leases(stage: Stage) -> int:
    commands = [command for line in stage.lines.values() for command in line.commands]
    return sum(isinstance(command, Lease) for command in commands)


@pytest.mark.parametrize("tick", [0.05, 0.5])
def test_an_idle_session_looks_at_the_clock_in_time(
    tick: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hasten(monkeypatch, tick=tick, lease=60.0)
    session, batches = running(Stage(trains), tmp_path)
    while next(batches):
        continue
    before = time.monotonic()
    assert next(batches) == []
    assert time.monotonic() - before >= tick * 0.9
    session.stop()
    to_the_end(batches)


@pytest.mark.parametrize("retry", [0.5, 2.0])
def test_a_host_that_refuses_is_tried_again_in_time(retry: float) -> None:
    records: Any = None
    controller = Controller(Case().plan, records, {}, replace(TIMES, retry=retry))
    failure = Failure(FailureCause.REFUSED, "connection refused")
    link = controller.links[0]
    link.reported_problem = failure
    controller.take_broken(0, failure, 100.0, in_use=False, fed=False)
    assert link.retry_at == 100.0 + retry


def test_each_time_has_a_test() -> None:
    assert {field.name for field in fields(Times)} == {*MOMENTS, *BELOW, *ELSEWHERE}


def test_the_times_are_these() -> None:
    """Users count on them: whoever changes one on purpose changes it here as well."""
    assert (
        Times(
            lease=1.0,
            tick=0.1,
            evidence=1.0,
            closing=8.0,
            away=3.0,
            moment=0.5,
            unheard=600.0,
            silent=10.0,
            lost=60.0,
            parted=10.0,
            retry=1.0,
            settling=10.0,
            stacks=5.0,
            grace=2.0,
            stall=STALL_LIMITS,
        )
        == TIMES
    )


def test_the_times_of_launchers_and_agents_fit_together() -> None:
    agent = AgentTimes()
    assert TIMES.tick < TIMES.lease, "a lease is sent in time"
    assert agent.gather < agent.tick < TIMES.silent / 5, "a live host is not silent"
    assert TIMES.silent < TIMES.lost
    assert agent.reconnect + agent.grace < TIMES.parted, "a host that is given up has stopped"
    assert TIMES.lease * 10 < agent.lease, "some leases may get lost"
    assert TIMES.grace < TIMES.closing
    assert TIMES.lost < TIMES.unheard < agent.restart
