"""When a run will have ended, and that a replay is one, as the header says it."""

from __future__ import annotations

import re

import pytest
from textual.content import Content

from remote.run.run_state import RunState
from tests.kit.histories import History, plan, stepped
from tui.kit.widgets.verdict_strip import Severity
from tui.run.components.eta_text import describe_eta
from tui.run.components.header_lines import (
    DIM,
    NO_REPLAY,
    TRACK_INK,
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


def test_the_rest_of_the_bar_has_the_ink_of_rules() -> None:
    line = progress_line(trained(1.0), RunLength(100, 1000), WIDTH, 0.0, Severity.NEUTRAL)
    styles = {line.plain[span.start : span.end][:1]: span.style for span in line.spans}
    assert styles["━"] == "$success"
    assert styles["─"] == TRACK_INK == "$ink-rule"


@pytest.mark.parametrize(("width", "shown"), [(120, "step 49"), (70, "epoch 5/2000")])
def test_a_long_run_has_a_bar_where_its_numbers_are_large(width: int, shown: str) -> None:
    state = trained(1.0, total=100)
    text = progress_line(state, RunLength(2000, 460_000), width, state.now, Severity.NEUTRAL).plain
    assert "───" in text
    assert shown in text
    assert "ETA" in text


@pytest.mark.parametrize(
    ("width", "end"),
    [
        (150, "stops if this terminal closes  baseline (20261120-093000-ddp-lenet5-3f9a)"),
        (WIDTH, "stops if this terminal closes  baseline"),
        (84, "stops if terminal closes  baseline"),
        (70, "1 rank         baseline"),
    ],
)
def test_a_run_that_stops_with_its_terminal_says_so_in_the_ink_of_its_work(
    width: int, end: str
) -> None:
    def title(*, stops_with_terminal: bool) -> Content:
        return title_line(
            trained(1.0),
            NO_REPLAY,
            "baseline",
            width,
            Severity.NEUTRAL,
            stops_with_terminal=stops_with_terminal,
        )

    line = title(stops_with_terminal=True)
    assert line.plain.endswith(end)
    dim_texts = [line.plain[span.start : span.end] for span in line.spans if span.style == DIM]
    assert dim_texts == [line.plain[line.plain.index("baseline") :]]
    assert "terminal" not in title(stops_with_terminal=False).plain


def test_a_healthy_run_says_that_there_is_nothing_to_do() -> None:
    state = trained(1.0)

    def title(width: int = WIDTH, *, has_finding: bool = False) -> str:
        severity = Severity.NEUTRAL
        line = title_line(state, NO_REPLAY, "baseline", width, severity, has_finding=has_finding)
        return line.plain

    assert title().startswith(" ● training, no alerts  ddp, lenet5 on digits")
    assert title(has_finding=True).startswith(" ● training  ddp")
    assert title(50).startswith(" ● training  ddp"), "the work matters more"
    assert "baseline" in title(80)
    state.hold(state.now)
    assert "no alerts" not in title(), "nobody records what goes on"
