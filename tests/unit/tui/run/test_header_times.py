"""When a run will have ended, and that a replay is one, as the header says it."""

from __future__ import annotations

import re

import pytest

from remote.run.run_state import RunState
from tests.kit.histories import History, plan, stepped
from training.wire.rank_events import Evaluated
from tui.kit.widgets.verdict_strip import Severity
from tui.run.components.eta_text import describe_eta
from tui.run.components.header_lines import (
    NO_REPLAY,
    ReplayNote,
    RunLength,
    progress_line,
    title_line,
)

WIDTH = 120


def trained(step_seconds: float, *, varies: bool = False, total: int = 1000) -> RunState:
    """A run in the middle of its steps."""
    history = History(plan(1)).training(total=total)
    for step in range(1, total // 2):
        # Slow times last for a while.
        factor = 3.0 if varies and step // 40 % 2 else 1.0
        history.now += factor * step_seconds
        history.rank(0, stepped(0, step, seconds=factor * step_seconds))
    return history.state()


def progress(state: RunState, width: int = WIDTH) -> str:
    return progress_line(state, RunLength(100, 1000), width, state.now, Severity.NEUTRAL).plain


def test_a_point_comes_first_with_the_time_of_day() -> None:
    text = progress(trained(1.0))
    assert re.search(r"ETA ~8 min \(\d\d:\d\d\)$", text.rstrip()), "a steady pace has no range"


def test_soon_no_time_of_day_is_needed() -> None:
    eta = describe_eta(trained(0.1), trained(0.1).now)
    assert re.fullmatch(r"~\d+ s", eta.point)
    assert not eta.spread


@pytest.mark.parametrize(("width", "has_range"), [(120, True), (80, False)])
def test_a_range_follows_where_the_pace_varies_and_there_is_room(
    width: int, has_range: bool
) -> None:
    text = progress(trained(1.0, varies=True), width)
    assert re.search(r"ETA ~\d+ min \(\d\d:\d\d\)", text)
    assert bool(re.search(r"\)  \d+ to \d+ min", text)) is has_range


def test_a_replay_has_its_badge_and_no_eta() -> None:
    state = trained(1.0)
    live_title = title_line(state, NO_REPLAY, "", WIDTH, Severity.NEUTRAL)
    state.hold(state.now)
    note = ReplayNote("▶ REPLAY 8x", "ended: slow")
    title = title_line(state, note, "", WIDTH, Severity.NEUTRAL)
    assert title.plain.startswith(" ▶ REPLAY 8x  ended: slow  ddp, lenet5 on digits, 1 rank ")
    narrow_title = title_line(state, note, "", 52, Severity.NEUTRAL).plain
    assert narrow_title.rstrip() == " ▶ REPLAY 8x  ended: slow  ddp, lenet5 on digits"
    loud = [
        title.plain[span.start : span.end].strip() for span in title.spans if "rev" in str(span)
    ]
    assert loud == ["▶ REPLAY 8x"], "what it did then looks like no badge of a live run"
    assert "REPLAY" not in live_title.plain
    length = RunLength(100, 1000)
    text = progress_line(state, length, WIDTH, state.now, Severity.NEUTRAL, note).plain
    assert "elapsed" in text
    assert "──" not in text, "the slider is its bar"
    assert "ETA" not in text
    assert "step " in text
    paused = ReplayNote("‖ REPLAY paused at step 9 of 1000", has_step=True)
    text = progress_line(state, length, WIDTH, state.now, Severity.NEUTRAL, paused).plain
    assert "step " not in text, "the badge says it"


def inks(state: RunState, severity: Severity) -> set[str]:
    """The colours of the badge and of the bar."""
    title = title_line(state, NO_REPLAY, "", WIDTH, severity)
    bar = progress_line(state, RunLength(100, 1000), WIDTH, state.now, severity)
    styles = " ".join(str(span.style) for line in (title, bar) for span in line.spans)
    return set(re.findall(r"\$(success|warning|error)", styles))


def test_badge_and_bar_have_the_colour_of_the_verdict() -> None:
    state = trained(1.0)
    assert inks(state, Severity.NEUTRAL) == {"success"}
    assert inks(state, Severity.WARN) == {"warning"}
    assert inks(state, Severity.BAD) == {"error"}


@pytest.mark.parametrize(("width", "shown"), [(120, "step 49"), (70, "epoch 5/2000")])
def test_a_long_run_has_a_bar_where_its_numbers_are_large(width: int, shown: str) -> None:
    state = trained(1.0, total=100)
    text = progress_line(state, RunLength(2000, 460_000), width, state.now, Severity.NEUTRAL).plain
    assert "───" in text
    assert shown in text
    assert "ETA" in text


def test_a_healthy_run_says_that_there_is_nothing_to_do() -> None:
    state = trained(1.0)
    assert "no problems" in title_line(state, NO_REPLAY, "baseline", WIDTH, Severity.NEUTRAL).plain
    assert "no problems" not in title_line(state, NO_REPLAY, "baseline", WIDTH, Severity.WARN).plain
    assert "baseline" in title_line(state, NO_REPLAY, "baseline", 60, Severity.NEUTRAL).plain


@pytest.mark.parametrize(
    ("losses", "said"),
    [
        ([0.5, 0.3, *[0.31] * 8], "test loss no better since epoch 2"),
        ([0.5, 0.3, 0.31, 0.31], "no problems"),
        ([0.5, *[0.31] * 8, 0.3], "no problems"),
    ],
)
def test_a_run_that_learns_no_more_says_since_when(losses: list[float], said: str) -> None:
    history = History(plan(1)).training(total=1000)
    for step in range(1, 90):
        history.rank(0, stepped(0, step))
    for epoch, loss in enumerate(losses, 1):
        history.rank(0, Evaluated(0, epoch, 8 * epoch, loss, 0.9, 360, 0.1))
    assert said in title_line(history.state(), NO_REPLAY, "a", WIDTH, Severity.NEUTRAL).plain


def test_a_run_that_overfits_is_not_called_well() -> None:
    history = History(plan(1)).training(total=1000)
    for step in range(1, 90):
        history.rank(0, stepped(0, step))
    for epoch, loss in enumerate([0.5, 0.3, *[0.4 + epoch / 10 for epoch in range(9)]], 1):
        history.rank(0, Evaluated(0, epoch, 8 * epoch, loss, 0.9, 360, 0.1))
    title = title_line(history.state(), NO_REPLAY, "baseline", WIDTH, Severity.NEUTRAL)
    assert "▲ overfitting since epoch 2" in title.plain
    assert any("warning" in str(span.style) for span in title.spans)
    assert "no problems" not in title.plain
