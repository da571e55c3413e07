"""Alerts on the run screen and for programs: shown until the user has taken note of them."""

from __future__ import annotations

import io
import json
import math
from pathlib import Path

import pytest

from remote import events as launcher
from remote.format import clock, moment
from remote.run.findings.alerts import Alarm, Alert, find_alerts
from remote.run.state.advice import Advice, Remedy
from tests.kit.acted import until
from tests.kit.dashboard import Stage
from tests.kit.histories import History, plan, stepped
from training.wire.events import SESSION
from training.wire.host_events import Exited
from training.wire.rank_events import StepFinished
from tui.kit.dialogs import TextDialog
from tui.run.components.alerts import AlertLines, _alert_lines, list_alerts
from tui.run.json_printer import JsonPrinter


@pytest.mark.parametrize("size", [(80, 24), (120, 40), (60, 20)])
async def test_a_straggler_is_marked_and_named_until_it_is_acknowledged(
    size: tuple[int, int],
) -> None:
    stage = Stage()
    async with stage.app.run_test(size=size) as pilot:
        await stage.train(pilot, 20)
        stage.session.steps(21, 70, late=3)
        await until(pilot, lambda: "all ranks wait for rank 3" in stage.text())
        assert "a hide, ! list" in stage.text()
        assert "▶ s shows its stack" in stage.text()
        assert size[0] < 80 or "▲ SLOW 4.0x" in stage.text()
        await pilot.press("a")
        await until(pilot, lambda: not stage.screen.query_one(AlertLines).display)
        await pilot.press("exclamation_mark")
        await until(pilot, lambda: isinstance(stage.app.screen, TextDialog))
        assert "all ranks wait for rank 3" in " ".join(stage.text().split())
        await pilot.press("escape")
        await until(pilot, lambda: stage.app.screen is stage.screen)
        stage.session.finish(70, 1)
        await stage.ended(pilot)
        told = "".join(stage.text().split())
        assert "allrankswaitforrank3onnode2:" in told, "it is still said after the end"
        assert "slowfor" in told
        assert size[0] < 80 or "▲ SLOW 4.0x" in stage.text()


async def test_the_newest_alerts_are_shown_and_the_others_counted() -> None:
    stage = Stage()
    async with stage.app.run_test(size=(120, 40)) as pilot:
        await stage.train(pilot, 20)
        stage.session.say(SESSION, launcher.HostSilent(0, 10.0), launcher.HostSilent(1, 12.0))
        stage.session.say(0, StepFinished(0, 1, 21, math.nan, 0.1))
        await until(pilot, lambda: "1 more alert  a hide" in stage.text())
        stage.session.close()
        await stage.ended(pilot)
        assert not stage.screen.query_one(AlertLines).display, "the outcome takes their place"


async def test_a_run_whose_loss_was_nan_has_not_just_finished() -> None:
    stage = Stage(1, 1)
    async with stage.app.run_test(size=(80, 24)) as pilot:
        await stage.train(pilot, 3)
        stage.session.say(0, StepFinished(0, 1, 4, math.nan, 0.1))
        await until(pilot, lambda: "! loss is NaN at step 4 (rank 0)" in stage.text())
        stage.session.finish(4, 1)
        await stage.ended(pilot)
        assert "▲ diverged at step 4: loss 2.4 → NaN" in stage.text()


async def test_without_alerts_there_is_no_line() -> None:
    stage = Stage()
    async with stage.app.run_test(size=(80, 24)) as pilot:
        await stage.train(pilot, 60)
        assert not stage.screen.query_one(AlertLines).display
        await pilot.press("exclamation_mark")
        await until(pilot, lambda: "There are none." in stage.text())
        await pilot.press("escape")
        stage.session.finish(60, 1)
        await stage.ended(pilot)


def test_a_program_is_told_when_an_alert_comes_and_when_it_is_over(tmp_path: Path) -> None:
    history = History(plan(2)).training(3)
    out = io.StringIO()
    printer = JsonPrinter(out, io.StringIO(), folder=tmp_path)
    printer.batch([], history.state())
    printer.batch([], history.session(launcher.Stalled((0, 1), 30.0)).state())
    printer.batch([], history.state())
    printer.batch([], history.rank(0, stepped(0, 4)).rank(1, stepped(1, 4)).state())
    found = [json.loads(line) for line in out.getvalue().splitlines()]
    alerts = [one for one in found if one["event"] == "alert"]
    assert [(one["alarm"], one["over"] > 0) for one in alerts] == [
        ("stall", False),
        ("stall", True),
    ]
    assert alerts[0]["text"] == "stalled: ranks 0 and 1 have made no step for 30 s"


def test_an_alert_that_is_over_says_so() -> None:
    found = [Alert(Alarm.STALL, 1.0, "stalled: no step", over=2.0)]
    assert _alert_lines(found, 78, "a hide", "s")[0].startswith("✓ over: stalled: no step")


@pytest.mark.parametrize("width", [58, 78, 118, 135, 150, 198])
def test_why_a_rank_is_slow_is_seen(width: int) -> None:
    text = "all ranks wait for rank 2 on node3: busy 66 of 91 ms per step, others 23 ms; it has "
    alert = Alert(Alarm.STRAGGLER, 1.0, f"{text}0.2 cores, others 0.4")
    lines = _alert_lines([alert], width, "a hide, ! list", "s")
    assert len(lines) <= 2
    assert all(len(line) <= width for line in lines)
    assert "a hide, ! list" in lines[-1]
    shown = " ".join(" ".join(lines).split())
    assert "it has 0.2 cores" in shown or width < 78


@pytest.mark.parametrize("width", [78, 118, 198])
def test_below_a_slow_rank_stands_what_to_do_about_it(width: int) -> None:
    text = "all ranks wait for rank 2 on node3: busy 45 of 92 ms per step, others 7.3 ms; it has "
    brief = "all ranks wait for rank 2 on node3: it has 0.1 cores, others 0.4"
    advice = Advice(Remedy.EXCLUDE_HOST, "node3", 0.054)
    cores = "0.1 cores, others 0.4"
    alert = Alert(Alarm.STRAGGLER, 1.0, text + cores, brief=brief, advice=advice)
    above, below = _alert_lines([alert], width, "a hide, ! list", "s")
    assert above.endswith(cores)
    remedy = "▶ without node3: rankboard … --exclude node3, about 54 ms/step"
    assert below.strip().startswith(remedy)
    assert ("(a hide, ! list)" in below) == (width > 78)


def test_the_list_says_since_when_an_alert_holds_and_when_it_was_over() -> None:
    history = History(plan(2)).training(3).session(launcher.Stalled((0, 1), 30.0))
    text = "stalled: ranks 0 and 1 have made no step for 30 s"
    since = moment(find_alerts(history.state())[0].since, exact=True)
    assert list_alerts(history.state(), "s") == f"! since {since}  {text}"
    over = history.rank(0, stepped(0, 4)).rank(1, stepped(1, 4)).state()
    assert list_alerts(over, "s") == f"✓ {since} to {clock(find_alerts(over)[0].over)}  {text}"


def test_the_list_of_a_failed_run_begins_with_the_cause() -> None:
    state = History(plan(2)).training(3).rank(1, Exited(1, -9, "SIGKILL")).closed()
    assert (
        list_alerts(state, "s").splitlines()[0]
        == "✗ cause: node2, rank 1: killed by SIGKILL at step 3"
    )
