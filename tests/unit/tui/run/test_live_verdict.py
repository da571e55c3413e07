"""What is wrong with a run that trains: said in a strip until the user has taken note of it, with
the keys that help; and for programs."""

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
from tests.kit.dumps import LOADS, STOPPED, WAITS, by
from tests.kit.histories import History, plan, stepped
from training.wire.events import SESSION
from training.wire.host_events import Exited, Hello, Spawned
from training.wire.rank_events import Saved, StepFinished
from tui.kit.dialogs import TextDialog
from tui.kit.widgets.verdict_strip import NextKey, Severity
from tui.run.components.advice_text import make_command
from tui.run.json_printer import JsonPrinter
from tui.run.live_verdict import (
    NOTICE_SECONDS,
    PAST_SECONDS,
    find_load_notice,
    judge_live_run,
    list_alerts,
)
from tui.run.narration import Narration
from tui.run.run_verdict import RunVerdict, VerdictKeys, make_hide_key
from tui.run.verdict_panel import VerdictPanel

KEYS = VerdictKeys(copy="y", stacks="s", hide="a", alerts="!", stop="q")


def judge(history: History, *alerts: Alert) -> RunVerdict:
    run = history.state()
    return judge_live_run(run, alerts or find_alerts(run), KEYS, run.now)


@pytest.mark.parametrize("size", [(80, 24), (120, 40), (60, 20)])
async def test_a_straggler_is_marked_and_named_until_it_is_hidden(size: tuple[int, int]) -> None:
    stage = Stage()
    async with stage.app.run_test(size=size) as pilot:
        await stage.train(pilot, 20)
        stage.session.steps(21, 70, late=3)
        await until(pilot, lambda: "▲ slow: all ranks wait for rank 3" in stage.text())
        assert "▶ s shows where each rank is   a hide" in stage.text()
        foot = stage.text().splitlines()[-1]
        assert "? Help  s Stacks  a Hide alerts" in foot
        assert size[0] < 80 or "▲ SLOW 4.0x" in stage.text()
        await pilot.press("a")
        await until(pilot, lambda: not stage.screen.query_one(VerdictPanel).display)
        await pilot.press("exclamation_mark")
        await until(pilot, lambda: isinstance(stage.app.screen, TextDialog))
        assert "all ranks wait for rank 3" in " ".join(stage.text().split())
        await pilot.press("escape")
        await until(pilot, lambda: stage.app.screen is stage.screen)
        stage.session.finish(70, 1)
        await stage.ended(pilot)
        told = "".join(stage.text().replace("▌", "").split())
        assert "allrankswaitforrank3onnode2:" in told, "it is still said after the end"
        assert "slowfor" in told
        assert size[0] < 80 or "▲ SLOW 4.0x" in stage.text()


async def test_a_rank_that_is_as_fast_as_others_again_is_not_called_slow_beside_its_times() -> None:
    stage = Stage()
    async with stage.app.run_test(size=(120, 40)) as pilot:
        await stage.train(pilot, 20)
        stage.session.steps(21, 70, late=3)
        await until(pilot, lambda: "▲ slow: all ranks wait for rank 3" in stage.text())
        stage.session.steps(71, 85)
        await until(pilot, lambda: "rank 3 was slow for" in stage.text())
        assert stage.session.state.stragglers.by_rank, "the checks have to agree"
        assert "▲" not in stage.text()
        assert "no alerts" in stage.text()


def test_what_is_over_is_told_for_a_while() -> None:
    alert = Alert(Alarm.STRAGGLER, 1000.0, "all ranks wait for rank 1", over=1010.0, subject=1)
    run = History(plan(2)).training(5).state()
    verdict = judge_live_run(run, [alert], KEYS, 1020.0)
    assert verdict.is_past
    assert verdict.title.startswith("rank 1 was slow for 10 s, recovered at ")
    assert not judge_live_run(run, [alert], KEYS, 1010.0 + PAST_SECONDS + 1).title


async def test_y_copies_the_command_without_the_slow_host() -> None:
    stage = Stage(hosts=3, slots=1)
    stage_copied: list[str] = []
    stage.app.copy_to_clipboard = stage_copied.append  # type: ignore[method-assign]
    async with stage.shown(size=(120, 40), notifications=True) as pilot:
        for host in range(3):
            cores = 0.5 if host == 2 else 4.0
            hello = Hello("box", "me", 1, "3.11", "python3", "Linux 6", f"b{host}", cores, 1 << 30)
            stage.session.say(host, hello)
        await stage.train(pilot, 20)
        await pilot.press("y")
        await until(pilot, lambda: len(stage_copied) == 1)
        assert "--exclude" not in stage_copied[0], "nothing is wrong yet"
        stage.session.steps(21, 90, late=2)
        await until(pilot, lambda: "y copy the command without node3 (about " in stage.text())
        assert "q stop (the model is lost)   s stacks   a hide" in stage.text()
        await pilot.press("y")
        await until(pilot, lambda: len(stage_copied) == 2)
        assert stage_copied[1].startswith("rankboard ")
        assert "--exclude node3" in stage_copied[1]
        await until(pilot, lambda: "copied: rankboard" in stage.text())


async def test_the_worst_alert_comes_first_and_the_others_are_counted() -> None:
    stage = Stage()
    async with stage.app.run_test(size=(120, 40)) as pilot:
        await stage.train(pilot, 20)
        stage.session.say(SESSION, launcher.HostSilent(0, 10.0), launcher.HostSilent(1, 12.0))
        stage.session.say(0, StepFinished(0, 1, 21, math.nan, 0.1))
        await until(pilot, lambda: "▲ loss is NaN at step 21" in stage.text())
        assert "also: node2 has been silent" in stage.text()
        assert "▶ q stop (the model is lost)   a hide   ! list 1 more alert" in stage.text()
        stage.session.close()
        await stage.ended(pilot)
        assert "also:" not in stage.text(), "the outcome takes their place"


async def test_a_run_whose_loss_was_nan_has_not_just_finished() -> None:
    stage = Stage(1, 1)
    async with stage.app.run_test(size=(80, 24)) as pilot:
        await stage.train(pilot, 3)
        stage.session.say(0, StepFinished(0, 1, 4, math.nan, 0.1))
        await until(pilot, lambda: "▲ loss is NaN at step 4 (rank 0)" in stage.text())
        stage.session.finish(4, 1)
        await stage.ended(pilot)
        assert "▲ diverged at step 4: loss 2.4 → NaN" in stage.text()


async def test_without_alerts_there_is_no_strip() -> None:
    stage = Stage()
    async with stage.app.run_test(size=(80, 24)) as pilot:
        await stage.train(pilot, 60)
        assert not stage.screen.query_one(VerdictPanel).display
        await pilot.press("exclamation_mark")
        await until(pilot, lambda: "There are none." in stage.text())
        await pilot.press("escape")
        stage.session.finish(60, 1)
        await stage.ended(pilot)


def test_a_stall_says_who_holds_all_up_since_when_and_what_can_be_done() -> None:
    history = History(plan(3)).training(5)
    for rank in range(3):
        history.rank(rank, Spawned(rank, 4000 + rank))
    history.session(launcher.Stalled((0, 1, 2), 31.0))
    found = judge(history)
    assert found.severity is Severity.BAD
    assert found.title == "stalled for 31 s: ranks 0 to 2 make no steps"
    for rank in range(3):
        history.rank(rank, by(STOPPED if rank == 1 else WAITS, rank))
    history.now += 9
    found = judge(history)
    assert found.title.startswith("stalled for 31 s: rank 1 on node2 is stopped, by SIGSTOP")
    assert found.reasons[0] == "ranks 0 and 2 wait for it in all_reduce"
    assert found.next_keys[0] == NextKey("y", "copy the command to let rank 1 go on")
    assert [key.key for key in found.next_keys] == ["y", "s", "q", "a"]


def test_below_a_stall_stands_the_command_that_ends_it_once() -> None:
    history = History(plan(2)).training(5)
    for rank in range(2):
        history.rank(rank, Spawned(rank, 4000 + rank))
    narration = Narration()
    history.session(launcher.Stalled((0, 1), 31.0))
    assert not any("▶" in line for line in narration.lines([], history.state()))
    for rank in range(2):
        history.rank(rank, by(STOPPED if rank == 1 else WAITS, rank))
    history.session(launcher.StallExplained("rank 1 on node2 is stopped, by SIGSTOP or a debugger"))
    alert, command = narration.lines([], history.state())
    assert alert.startswith("rank 1 on node2 is stopped, by SIGSTOP")
    assert command.startswith("▶ let rank 1 go on: ssh ")
    assert command.endswith(" kill -CONT 4001")
    assert [*narration.lines([], history.state())] == []
    assert command in list_alerts(history.state(), "s")


def test_a_short_command_stands_beside_its_key() -> None:
    history = History(plan(1, slots=2, transport="local")).training(5)
    for rank in range(2):
        history.say(0, Spawned(rank, 4000 + rank))
    history.session(launcher.Stalled((0, 1), 31.0))
    for rank in range(2):
        history.say(0, by(STOPPED if rank == 1 else WAITS, rank), Saved(rank, 1, 3, 0.1, 1000))
    next_keys = judge(history).next_keys
    assert next_keys[0] == NextKey("y", 'copy "kill -CONT 4001"')
    assert NextKey("q", "stop (checkpoint 3)", "stop") in next_keys


def test_the_keys_of_a_stall_that_nothing_but_stacks_explain_lead_there() -> None:
    history = History(plan(2)).training(5).session(launcher.Stalled((0, 1), 31.0))
    history.rank(0, by(LOADS, 0)).rank(1, by(WAITS, 1))
    assert [key.key for key in judge(history).next_keys] == ["s", "q", "a"]


def test_programs_on_a_host_are_listed_by_a_whole_command() -> None:
    advice = Advice(Remedy.END_PROGRAMS, "node2", step_seconds=0.054)
    reason = "other programs use 3.2 of the 4 cores of its host"
    alert = Alert(Alarm.STRAGGLER, 1.0, "", title="all wait", reasons=(reason,), advice=advice)
    history = History(plan(2)).training(3)
    found = judge(history, alert)
    assert found.title == "slow: all wait"
    assert found.reasons == (reason,)
    key, text, *_ = found.next_keys[0]
    assert key == "y"
    assert "list the programs on node2" in text
    assert "54 ms/step" in text


def test_of_a_busy_machine_the_busiest_programs_are_named_and_a_key_copies_what_lists_them() -> (
    None
):
    text, advice = "about 4 other processes on 2 cores slow every rank down", "wait for python"
    history = History(plan(1, slots=2, script=True, transport="local"))
    history.session(launcher.CheckFinished(0, "load", "warning", text, advice))
    for step in range(1, 4):
        history.rank(0, stepped(0, step)).rank(1, stepped(1, step))
    run = history.state()
    found = judge_live_run(run, [], KEYS, run.now, find_load_notice(run))
    assert (found.title, found.reasons) == (text, (advice,)), "of a single host, without its name"
    assert found.next_keys[0] == NextKey("y", 'copy "top"')
    assert found.advice
    assert make_command(run, found.advice) == "top", "what the key copies"


def test_an_alert_that_is_over_says_so_quietly() -> None:
    found = judge(History(plan(2)), Alert(Alarm.SILENCE, 1.0, "node1 was silent", over=2.0))
    assert found.severity is Severity.NEUTRAL
    assert found.title == f"node1 was silent, until {clock(2.0)}"
    assert not found.next_keys, "a line of news, nothing to act on"


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


def test_the_list_says_since_when_an_alert_holds_and_when_it_was_over() -> None:
    history = History(plan(2)).training(3).session(launcher.Stalled((0, 1), 30.0))
    text = "stalled: ranks 0 and 1 have made no step for 30 s"
    since = moment(find_alerts(history.state())[0].since, exact=True)
    first, advice = list_alerts(history.state(), "s").splitlines()
    assert first == f"▲ since {since}  {text}"
    assert advice.strip().startswith("▶ s ")
    over = history.rank(0, stepped(0, 4)).rank(1, stepped(1, 4)).state()
    assert list_alerts(over, "s") == f"✓ {since} to {clock(find_alerts(over)[0].over)}  {text}"


def test_the_list_of_a_failed_run_begins_with_the_cause() -> None:
    state = History(plan(2)).training(3).rank(1, Exited(1, -9, "SIGKILL")).closed()
    assert (
        list_alerts(state, "s").splitlines()[0]
        == "✗ cause: node2, rank 1: killed by SIGKILL at step 3"
    )


def test_of_a_script_it_is_said_what_else_runs_there_and_how_to_end_it() -> None:
    text, command = "another run of yours trains there: old", "rankboard stop old"
    history = History(plan(2, script=True))
    check = launcher.CheckFinished(0, "load", "warning", text, "wait for its end", command=command)
    history.session(check)
    for step in range(1, 4):
        history.rank(0, stepped(0, step)).rank(1, stepped(1, step))
    run = history.state()
    found = judge_live_run(run, [], KEYS, run.now, find_load_notice(run))
    assert found.severity is Severity.WARN
    assert found.title == f"node1: {text}"
    assert found.next_keys == (NextKey("y", f'copy "{command}"'), make_hide_key(KEYS))
    history.now += 2 * NOTICE_SECONDS
    history.rank(0, stepped(0, 4))
    assert find_load_notice(history.state()) is None, "it may have ended since"
