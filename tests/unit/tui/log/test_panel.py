"""The keys of the log: what they show, find, copy and save, and what the caption says of it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from textual.pilot import Pilot

from remote.limits import LIMITS
from tests.kit.acted import until
from tests.kit.dashboard import Stage
from tests.kit.histories import History, plan, stepped
from tests.kit.recorded import recorded
from training.wire import host_events
from tui.kit.replay import Replay
from tui.log.panel import COPY_FILE, LogPanel
from tui.log.pattern_prompt import PatternPrompt, compile_pattern
from tui.log.view import LogView

ROUTINE = "epoch 1 step 20/400 loss 0.3123 acc 0.91 0.041 s/iter"


@asynccontextmanager
async def trained(stage: Stage, size: tuple[int, int] = (109, 60)) -> AsyncIterator[Pilot[None]]:
    """A run over four ranks, with some lines; the log has the focus."""
    async with stage.shown(size=size, notifications=True) as pilot:
        stage.session.start()
        stage.session.steps(1, 10)
        for rank in range(4):
            said = f"{ROUTINE}\nloading shard\nreached (step) {rank * 7}"
            stage.session.say(
                stage.session.host_of(rank), host_events.OutputText(rank, "stdout", said)
            )
        await until(pilot, lambda: "[3] reached (step) 21" in stage.text())
        await pilot.press(str(stage.screen.query_one(LogPanel).number))
        yield pilot


def log(stage: Stage) -> list[str]:
    """The rows of the log, without their times."""
    view = stage.screen.query_one(LogView)
    rows = [view.render_line(row).text.rstrip() for row in range(view.size.height)]
    return [row[9:] for row in rows if row]


def caption(stage: Stage) -> str:
    rows = stage.text().splitlines()
    return next((row for row in rows if row[1:].startswith(" ²log")), "")


async def test_news_and_all_lines() -> None:
    stage = Stage()
    async with trained(stage) as pilot:
        assert log(stage)[-5:-3] == [f"[0-3] {'loading shard':90} x4", "  [0] reached (step) 0"]
        assert not any(ROUTINE in row for row in log(stage))
        assert "news, 4 lines hidden, all ranks, following" in caption(stage)
        await pilot.press("v")
        await until(pilot, lambda: "all lines, all ranks, following" in caption(stage))
        assert f"  [2] {ROUTINE}" in log(stage)
        await pilot.press("v", "r", "r")
        await until(pilot, lambda: "news, 1 line hidden, rank 1, following" in caption(stage))
        assert log(stage) == ["  [1] loading shard", "  [1] reached (step) 7"]


async def test_only_where_lines_come_there_is_something_to_follow() -> None:
    stage = Stage()
    async with trained(stage) as pilot:
        assert "all ranks, following" in caption(stage)
        stage.session.finish(40)
        await stage.ended(pilot)
        assert "all ranks" in caption(stage)
        assert "following" not in caption(stage)
        await pilot.press("f")
        await pilot.pause()
        assert "paused" not in caption(stage)


async def test_a_replay_follows_while_it_plays(tmp_path: Path) -> None:
    # However slow this machine is, ten minutes at a quarter of the speed still play.
    history = History(plan(2)).training(20, 40).say(0, stepped(0, 21), after=600.0)
    folder = recorded(tmp_path, history.done(0, 1).ended())
    stage = Stage(runs_dir=tmp_path)
    replay = Replay(folder, history.plan)
    launch = replace(stage.app.runs.launch, attached=replay, at_once=False)  # type: ignore[arg-type]
    stage.app.runs.launch = launch
    async with stage.app.run_test(size=(109, 60)) as pilot:
        await until(pilot, lambda: "all ranks" in caption(stage))
        assert "following" not in caption(stage)
        await pilot.press("home", "<", "<", "space")
        await until(pilot, lambda: "all ranks, following" in caption(stage))
        await pilot.press("space")
        await until(pilot, lambda: "following" not in caption(stage))
        assert "all ranks" in caption(stage)
        replay.stop()


async def test_behind_a_rank_that_a_restart_left_out_come_all() -> None:
    stage = Stage()
    async with trained(stage) as pilot:
        await pilot.press("r", "r", "r", "r")
        await until(pilot, lambda: "rank 3, following" in caption(stage))
        stage.session.restart(0)
        await until(pilot, lambda: len(stage.session.state.ranks) == 2)
        await pilot.press("r")
        await until(pilot, lambda: "all ranks, following" in caption(stage))


async def test_rows_have_the_local_time() -> None:
    stage = Stage()
    async with trained(stage) as pilot:
        view = stage.screen.query_one(LogView)
        assert view.render_line(0).text[2] == ":"
        await pilot.press("t")
        await pilot.pause()
        assert view.render_line(len(view.rows.lines) - 1).text.startswith("  [3] reached")


async def test_find_marks_and_goes_to_the_newest_match_above() -> None:
    stage = Stage()
    async with trained(stage) as pilot:
        view = stage.screen.query_one(LogView)
        await pilot.press("slash", *"STEP")
        assert view.search
        assert isinstance(stage.app.focused, PatternPrompt)
        await until(pilot, lambda: "STEP in 0 lines" in caption(stage))
        await pilot.press(*["backspace"] * 4, *r"p\) ")
        await until(pilot, lambda: r"p\)  in 4 lines" in caption(stage))
        await pilot.press("enter")
        await until(pilot, lambda: stage.app.focused is view)
        assert view.rows.lines[view.rows.row_of(view.current)].rank == 3
        assert not view.follow
        await until(pilot, lambda: r"p\)  4/4" in caption(stage))
        await until(pilot, lambda: "J next" in stage.text())
        await pilot.press("K", "K")
        assert view.rows.lines[view.rows.row_of(view.current)].rank == 1
        await until(pilot, lambda: r"p\)  2/4" in caption(stage))
        await pilot.press("J", "J", "J")
        assert view.rows.lines[view.rows.row_of(view.current)].rank == 0
        await pilot.press("escape")
        assert (view.search, view.current) == (None, -1)
        await until(pilot, lambda: "J next" not in stage.text())


async def test_what_is_typed_right_behind_the_key_is_the_expression() -> None:
    stage = Stage()
    async with trained(stage) as pilot:
        await pilot.press("slash", "q", "n", "1", "z")
        assert stage.screen.query_one(PatternPrompt).value == "qn1z"
        assert stage.app.screen is stage.screen


async def test_filter_shows_only_what_has_it_and_esc_takes_it_back() -> None:
    stage = Stage()
    async with trained(stage) as pilot:
        view = stage.screen.query_one(LogView)
        await pilot.press("ampersand", *"14|shard")
        await until(pilot, lambda: "matching 14|shard" in caption(stage))
        assert log(stage) == [f"[0-3] {'loading shard':90} x4", "  [2] reached (step) 14"]
        await pilot.press("enter")
        await until(pilot, lambda: stage.app.focused is view)
        await pilot.press("ampersand", *"|x", "escape")
        await until(pilot, lambda: stage.app.focused is view)
        assert view.filter.pattern
        assert view.filter.pattern.pattern == "14|shard"
        await pilot.press("escape")
        assert view.filter.pattern is None


async def test_what_is_no_expression_is_said_and_nothing_is_lost() -> None:
    stage = Stage()
    async with trained(stage) as pilot:
        view = stage.screen.query_one(LogView)
        await pilot.press("ampersand", *"14", "(")
        await until(pilot, lambda: "bad regex: missing ), unterminated" in stage.text())
        assert log(stage) == ["  [2] reached (step) 14"]
        await pilot.press("enter")
        await pilot.pause()
        assert stage.screen.query_one(PatternPrompt).value == "14("
        await pilot.press("backspace")
        await until(pilot, lambda: "bad regex" not in stage.text())
        assert view.filter.pattern


@pytest.mark.parametrize(
    "text",
    ["(", "[", "a**", "*", "\\", "(?P<", "x{2,1}", "x{99999999999}", "(" * 5_000, "[[a", "a)"],
)
def test_whatever_is_typed_is_an_expression_or_has_a_reason(
    text: str, recwarn: pytest.WarningsRecorder
) -> None:
    pattern, problem = compile_pattern(text)
    assert (pattern is None) == bool(problem)
    assert not recwarn.list


def test_capitals_count_where_there_are_any() -> None:
    small, large = compile_pattern("error")[0], compile_pattern("Error")[0]
    assert small
    assert large
    assert small.search("ERROR")
    assert not large.search("error")
    assert compile_pattern("") == (None, "")


async def test_levels_and_esc_leaves_one_layer_after_the_other() -> None:
    stage = Stage()
    async with trained(stage) as pilot:
        stage.session.say(0, host_events.OutputText(1, "stderr", "WARNING: slow\nValueError: bad"))
        await until(pilot, lambda: "ValueError" in stage.text())
        await pilot.press("L")
        await until(pilot, lambda: "warnings, all ranks" in caption(stage))
        assert log(stage) == ["  [1] WARNING: slow", "  [1] ValueError: bad"]
        await pilot.press("L", "r", "r", "z")
        await until(pilot, lambda: "errors, rank 1" in stage.text())
        assert log(stage) == ["  [1] ValueError: bad"]
        assert stage.screen.maximized
        for said in ("news, 1 line hidden, rank 1", "news, 4 lines hidden, all ranks"):
            await pilot.press("escape")
            await until(pilot, lambda said=said: said in stage.text())
        assert stage.screen.maximized
        await pilot.press("escape")
        assert stage.screen.maximized is None


async def test_the_first_error_is_the_culprits_from_any_panel_and_filter() -> None:
    stage = Stage()
    async with trained(stage) as pilot:
        session = stage.session
        broken = "Traceback (most recent call last):\nRuntimeError: Connection closed by peer"
        raised = "Traceback (most recent call last):\n  main()\nValueError: bad batch"
        for rank in (0, 2, 3):
            session.say(
                session.host_of(rank),
                host_events.OutputText(rank, "stderr", broken),
                host_events.Exited(rank, 1),
            )
        session.say(
            session.host_of(1),
            host_events.OutputText(1, "stderr", raised),
            host_events.Exited(1, 1),
            after=0.5,
        )
        await until(pilot, lambda: "node1, rank 1: ValueError" in stage.text())
        view = stage.screen.query_one(LogView)
        await pilot.press("r", "ampersand", *"no", "enter", "3", "E")
        await until(pilot, lambda: stage.app.focused is view)
        assert log(stage)[-3:] == [f"  [1] {line}" for line in raised.splitlines()]
        assert view.rows.row_of(view.current) == len(view.rows.lines) - 3
        assert view.filter.pattern is None
        await pilot.press("Y")
        assert stage.app.clipboard == raised


async def test_an_error_that_was_gone_to_stays_in_view_where_the_log_gets_smaller() -> None:
    stage = Stage()
    async with trained(stage) as pilot:
        raised = "Traceback (most recent call last):\n  main()\nValueError: bad batch"
        stage.session.say(0, host_events.OutputText(1, "stderr", raised))
        await until(pilot, lambda: "  [1] ValueError: bad batch" in log(stage))
        await pilot.press("E")
        view = stage.screen.query_one(LogView)
        before = view.size.height
        stage.session.say(0, host_events.Exited(1, 1))  # the cause of it takes rows from the log
        await until(pilot, lambda: view.size.height < before)
        assert log(stage)[-3:] == [f"  [1] {line}" for line in raised.splitlines()]
        assert not view.follow


async def test_where_there_is_no_room_for_an_error_the_log_is_zoomed() -> None:
    stage = Stage()
    async with trained(stage, (80, 24)) as pilot:
        raised = "Traceback (most recent call last):\n  main()\nValueError: bad batch"
        stage.session.say(0, host_events.OutputText(1, "stderr", raised), host_events.Exited(1, 1))
        await until(pilot, lambda: bool(stage.session.state.cause))
        stage.session.fail(1)
        await stage.ended(pilot)
        view = stage.screen.query_one(LogView)
        await until(pilot, lambda: view.size.height < 5)
        await pilot.press("E")
        await until(pilot, lambda: view.size.height > 15)
        await until(pilot, lambda: "  [1] ValueError: bad batch" in log(stage))
        await pilot.press("escape", "escape")
        assert stage.screen.maximized is None


async def test_of_a_rank_that_died_without_a_word_the_end_of_the_log_is_shown() -> None:
    stage = Stage()
    async with trained(stage) as pilot:
        stage.session.fail(1)
        await stage.ended(pilot)
        await pilot.press("E")
        await until(pilot, lambda: "rank 1 printed no error" in stage.text())
        view = stage.screen.query_one(LogView)
        line = view.rows.lines[view.rows.row_of(view.current)]
        assert line.stream == "cause"
        assert "rank 1: killed by SIGKILL" in line.text
        assert line is view.rows.lines[view.rows_in_view()[1]], "the end is in view"
        await pilot.press("A")
        assert view.filter.rank is None


async def test_without_an_error_nothing_is_gone_to() -> None:
    stage = Stage()
    async with trained(stage) as pilot:
        await pilot.press("E")
        await until(pilot, lambda: "no line reports an error" in stage.text())
        assert stage.screen.query_one(LogView).follow


async def test_copy_takes_the_selection_else_the_current_line_else_what_is_seen(
    tmp_path: Path,
) -> None:
    stage = Stage(runs_dir=tmp_path)
    async with trained(stage) as pilot:
        folder = tmp_path / stage.session.plan.run
        folder.mkdir()
        view = stage.screen.query_one(LogView)
        await pilot.press("y")
        await until(pilot, lambda: stage.app.clipboard.startswith("rankboard "))
        assert not (folder / COPY_FILE).exists(), "that key is for the run, also in its log"
        await pilot.press("t", "z", "Y")
        await until(pilot, lambda: (folder / COPY_FILE).exists())
        seen = [row for row in stage.app.clipboard.splitlines() if "shard" in row]
        assert seen == ["[0-3] loading shard x4"]
        await until(pilot, lambda: "copied" in stage.text())
        await pilot.press("slash", *"step", "enter")
        await until(pilot, lambda: stage.app.focused is view)
        await pilot.press("Y")
        await until(pilot, lambda: (folder / COPY_FILE).read_text() == "reached (step) 21\n")
        assert stage.app.clipboard == "reached (step) 21"
        row = len(view.rows.lines) - 1
        await pilot.mouse_down(LogView, offset=(6, row))
        await pilot.hover(LogView, offset=(12, row))
        await pilot.mouse_up(LogView, offset=(12, row))
        await pilot.press("Y")
        assert stage.app.clipboard == "reached"
        (folder / COPY_FILE).unlink()
        (tmp_path / "mine").write_text("mine")
        (folder / COPY_FILE).symlink_to(tmp_path / "mine")
        await pilot.press("Y")
        await until(pilot, lambda: not (folder / COPY_FILE).is_symlink())
        assert (tmp_path / "mine").read_text() == "mine", "a link in a run's folder is not followed"


async def test_save_writes_all_rows_and_says_where(tmp_path: Path) -> None:
    stage = Stage(runs_dir=tmp_path)
    async with trained(stage, (80, 24)) as pilot:
        folder = tmp_path / stage.session.plan.run
        folder.mkdir()
        await pilot.press("W")
        await until(pilot, lambda: bool(list(folder.glob("log-*.txt"))))
        (saved,) = folder.glob("log-*.txt")
        lines = saved.read_text().splitlines()
        assert len(lines) == len(stage.screen.query_one(LogView).rows.lines)
        assert lines[-1].endswith("  [3] reached (step) 21")
        await until(pilot, lambda: f"saved {len(lines)} lines" in stage.text())


async def test_what_cannot_be_written_is_said(tmp_path: Path) -> None:
    stage = Stage(runs_dir=tmp_path)
    async with trained(stage) as pilot:
        folder = tmp_path / stage.session.plan.run
        (folder / COPY_FILE).mkdir(parents=True)
        await pilot.press("z", "Y")
        await until(pilot, lambda: "cannot write it" in stage.text())


async def test_the_lines_of_a_replay_from_its_beginning_are_shown_anew() -> None:
    stage = Stage()
    async with trained(stage) as pilot:
        state = stage.session.state
        with stage.session.lock:
            state.log = type(state.log)(LIMITS)
            state.log.add(1000.0, "node1", 0, "stdout", "anew")
        await until(pilot, lambda: log(stage) == ["  [0] anew"])
