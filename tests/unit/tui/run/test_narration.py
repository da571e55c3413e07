"""Who is waited for while a run starts, told in every front end."""

from __future__ import annotations

import io

import pytest

from remote.events import HostPhaseChanged
from remote.run.apply import apply_record
from remote.run.run_state import RunState
from tests.kit.acted import until
from tests.kit.dashboard import Stage
from tests.kit.histories import History, plan
from tests.kit.starts import going, reached, started
from training.wire.events import SESSION
from training.wire.host_events import Launched, Reserved
from training.wire.rank_events import Entered
from tui.kit.session_clock import SessionClock
from tui.run import narration
from tui.run.plain_printer import PlainPrinter

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


def test_without_a_dashboard_the_loading_of_the_data_is_told_with_its_time() -> None:
    history, err = History(plan(2)), io.StringIO()
    printer, state = PlainPrinter(io.StringIO(), err, verbose=True), RunState(plan(2))
    history.rank(0, Launched((0,)), Entered(0, "loading")).rank(1, Launched((1,)))
    history.say(1, Entered(1, "loading"), after=7.0)
    for record in history.records:
        apply_record(state, record)
        printer.batch([record], state)
    assert "rankboard: loading after 7.0 s" in err.getvalue().splitlines()


@pytest.mark.parametrize("size", [(80, 24), (160, 48)])
async def test_the_dashboard_names_it_with_ages_that_grow_without_records(
    size: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    hand = Hand()
    for panel in ("components.header", "start_strip", "hosts_panel", "ranks_panel"):
        monkeypatch.setattr(f"tui.run.{panel}.SessionClock", lambda: SessionClock(hand))
    stage = Stage()
    async with stage.shown(size=size) as pilot:
        for index in range(2):
            stage.session.say(SESSION, HostPhaseChanged(index, "connecting"))
        # Ages count from when the newest record was first drawn.
        await until(pilot, lambda: stage.session.state.version == 2)
        stage.app.tick()
        await until(pilot, lambda: stage.text().count("◐ 0 s") == 2)
        hand.time += 6.0
        await until(
            pilot,
            lambda: "waiting for all 2 hosts: connecting, no answer yet, 6 s" in stage.text(),
        )
        await until(pilot, lambda: stage.text().count("◐ 6 s") == 2)
        for index in range(2):
            stage.session.say(SESSION, HostPhaseChanged(index, "ready"))
        stage.session.say(0, Reserved("10.10.1.1", 29500), Launched((0, 1)))
        stage.session.say(1, Launched((2, 3)), *(Entered(rank, "rendezvous") for rank in (2, 3)))
        stage.session.say(0, *(Entered(rank, "joining") for rank in (0, 1)), after=0.1)
        await until(pilot, lambda: "rendezvous" in stage.text() and "joining" in stage.text())
        hand.time += 9.0
        whom = "waiting for node2: ssh ok, python started, has not reached 10.10.1.1:29500, 9 s"
        await until(pilot, lambda: whom in " ".join(stage.text().replace("▌", "").split()))
        assert "joining 9 s" in stage.text()
        assert "rendezvous 9 s" in stage.text()
        for rank in range(4):
            stage.session.say(stage.session.host_of(rank), started(rank))
        await until(
            pilot, lambda: "waiting for" not in stage.text() and "● training" in stage.text()
        )
