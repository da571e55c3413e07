"""What the header says of a run: what it does, in which attempt, and how far its start is."""

from __future__ import annotations

from dataclasses import replace

import pytest

from remote.events import HostLost, SessionClosed
from remote.run.findings.rates import step_means
from remote.run.state.phases import RunPhase
from tests.kit.histories import START, History, plan, said, stepped
from tests.kit.scripts import line, script, seen, started
from training.wire.host_events import Exited, Launched
from tui.charts.chart_view import ChartView
from tui.charts.heading import heading
from tui.charts.kinds import KINDS
from tui.charts.make_drawing import make_drawing
from tui.kit import palette
from tui.kit.widgets.verdict_strip import Severity
from tui.run.components.header import script_notes
from tui.run.components.header_figures import HeaderFigure, header_figures
from tui.run.components.header_lines import (
    NO_TOTAL,
    RunLength,
    figure_lines,
    phase_text,
    progress_line,
)
from tui.run.components.phase_line import phase_line


@pytest.mark.parametrize(
    ("attempts", "text"), [(2, "lost (attempt 2 of 2)"), (0, "lost (attempt 2)")]
)
def test_an_attempt_of_another_launcher_is_counted_as_that_one_allows(
    attempts: int, text: str
) -> None:
    """Here no restart is allowed. A launcher of an older version does not tell (0)."""
    history = History(plan(1)).rank(0, Launched((0,), (0,), attempts=1), Exited(0, 1))
    history.attempt = 1
    history.rank(0, Launched((0,), (0,), attempts=attempts))
    history.session(HostLost(0, "no sign of life", True), SessionClosed())
    assert phase_text(history.state()).endswith(text)


@pytest.mark.parametrize("is_over", [False, True])
def test_a_step_takes_the_same_time_in_the_header_the_phases_and_the_chart(is_over: bool) -> None:
    history = History(plan(2)).training(steps=0, total=60)
    for step in range(1, 61):
        for rank in range(2):
            seconds = 0.2 if step < 30 else 0.5 + 0.02 * rank
            history.rank(rank, stepped(rank, step, seconds, compute=seconds))
    if is_over:
        history.closed()
    state = history.state()
    assert (state.phase is RunPhase.ENDED) is is_over
    (step_text,) = [figure.value for figure in header_figures(state) if figure.label == "step"]
    assert phase_line(step_means(state), 80).plain.startswith(f"step {step_text}  ")
    phases = next(kind for kind in KINDS if kind.id == "phases")
    view = ChartView()
    parts = heading(make_drawing(state, phases, view), phases, view, 60)
    assert parts[0][0] == step_text
    assert step_text == ("363 ms" if is_over else "510 ms")


@pytest.mark.parametrize(("loss", "has_bar"), [(0.5, True), (9_000.0, False)])
def test_no_full_bar_praises_a_run_that_has_diverged(loss: float, has_bar: bool) -> None:
    history = History(plan(1)).training(steps=0, total=20)
    for step in range(1, 21):
        history.rank(
            0, replace(stepped(0, step), loss=2.0 if step == 1 else loss * (1 + step / 100))
        )
    history.done(0).closed()
    line = progress_line(history.state(), RunLength(2, 20), 80, START, Severity.NEUTRAL).plain
    assert ("100%" in line) is has_bar
    assert (palette.sign("full") * 20 in line) is has_bar
    assert "step 20/20" in line


def test_a_script_says_why_it_has_no_end() -> None:
    history = started(script(watch=True))
    history.rank(0, stepped(0, 1, compute=0.01))
    line = progress_line(history.state(), RunLength(0, 0), 80, START, Severity.NEUTRAL).plain
    assert f"step 1  {NO_TOTAL}" in line
    line = progress_line(history.state(), RunLength(0, 60), 80, START, Severity.NEUTRAL).plain
    assert NO_TOTAL not in line
    assert "step 1/60" in line
    assert "ETA" not in line, "a single step has no pace"


def test_a_script_is_told_in_its_log_how_to_have_progress() -> None:
    history = started(script(watch=True))
    assert not list(script_notes(history.state())), "torch is watched, which is nothing to act on"
    for rank in range(4):
        history.rank(rank, seen(rank, 1, 1.0, compute=0.1))
    run = history.state()
    assert not list(script_notes(run)), "no line of the header for it"
    (note,) = (note.text for note in run.log.notes if "torch" in note.text)
    assert '"step 20/1000"' in note


def test_a_roomy_header_says_of_how_many_steps_the_loss_of_a_silent_script_is_the_mean() -> None:
    history = started(script(watch=True))
    for step in range(1, 25):
        for slot in history.plan.slots:
            history.say(slot.host, seen(slot.rank, step, 1.0 / step, compute=0.1, sync=0.2))
    figures = header_figures(history.state())

    def labels(figures: list[HeaderFigure], width: int) -> str:
        lines = figure_lines(figures, width, is_roomy=True, stale="")
        return lines[0].plain

    assert labels(figures, 118).startswith("mean loss of 20 steps   samples/s")
    assert labels(figures, 40).startswith("mean loss   samples/s"), "no figure goes for the words"
    own_figures = header_figures(History(plan(2)).training(24).state())
    assert labels(own_figures, 118).startswith("loss     test acc")
    for slot in history.plan.slots:
        history.say(slot.host, said(slot.rank, line(24, 0.5), "stdout"))
    printed_figures = header_figures(history.state())
    assert labels(printed_figures, 118).startswith("loss     samples/s"), "it is the printed one"
