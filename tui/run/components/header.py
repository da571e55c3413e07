"""The lines on top: the run, its progress, its figures, and what it waits for."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator

from textual.content import Content
from textual.widgets import Static

from remote.plan.expected import expect_work
from remote.plan.plan import Plan
from remote.run.findings import script_visibility as seen
from remote.run.findings.rates import describe_staleness
from remote.run.findings.start_progress import is_starting
from remote.run.run_state import RunState
from remote.run.state.phases import RunPhase
from remote.sanitise import plain
from tui.kit import palette
from tui.kit.draw_turn import DrawTurn
from tui.kit.session_clock import SessionClock
from tui.kit.widgets.verdict_strip import Severity
from tui.run.components.exchange_text import describe_exchange
from tui.run.components.header_figures import HeaderFigure, header_figures
from tui.run.components.header_lines import (
    DIM,
    NO_REPLAY,
    ReplayNote,
    RunLength,
    figure_lines,
    progress_line,
    title_line,
)

MIN_WIDTH = 20
"""Columns that a text is folded to at least."""
ROOMY_HEIGHT = 36
"""Lines of a screen from which on figures stand below their labels."""


class RunHeader(Static):
    """A badge of the state, method, model and run; progress, elapsed time and ETA; how well and how
    fast it trains; then what the run waits for."""

    DEFAULT_CSS = """
    RunHeader {
        height: 3; max-height: 8; padding: 0 1; background: $panel; color: $text;
    }
    """

    def __init__(self) -> None:
        super().__init__()
        self._shown = Content()
        self._clock = SessionClock()
        self._turn = DrawTurn()
        self._figures: list[HeaderFigure] = []
        self._script_notes: list[str] = []
        self._advice = ""
        self._planned: RunLength | None = None

    def show(
        self,
        run: RunState,
        given_name: str = "",
        replay: ReplayNote = NO_REPLAY,
        severity: Severity = Severity.NEUTRAL,
        *,
        has_finding: bool = False,
        stops_with_terminal: bool = False,
    ) -> None:
        """Copy what is drawn from the run. A person has `given_name` it so. `replay`: what is
        to be said if this is a moment of one. `severity` is that of the verdict below, if it
        `has_finding`. `stops_with_terminal`: the run ends if this program is hung up."""
        now = self._clock.now(run)
        # The figures look at every rank, so those of many ranks are not taken at each tick.
        if self._turn.has_come_for(run) or not self._figures:
            self._figures = header_figures(run)
            self._script_notes = list(script_notes(run))
            self._advice = seen.advice(run, now)
        width = self.content_size.width
        title = title_line(
            run,
            replay,
            plain(given_name),
            width,
            severity,
            has_finding=has_finding,
            stops_with_terminal=stops_with_terminal,
        )
        header_lines = [title, *self._lines(run, replay, severity, now)]
        header_content = Content("\n").join(header_lines)
        if not header_content.is_same(self._shown):
            self._shown = header_content
            self.styles.height = len(header_lines)  # not `auto`: lines of another width mislead
            self.update(header_content, layout=False)

    def _lines(
        self, run: RunState, replay: ReplayNote, severity: Severity, now: float
    ) -> Iterator[Content]:
        """Yield the lines below the title."""
        width = self.content_size.width
        # Before the first layout the width is 0, which textwrap refuses.
        text_width = max(width, MIN_WIDTH)
        run_length = self._run_length(run)
        yield progress_line(run, run_length, width, now, severity, replay)
        # Before the first step there are no figures, and in a script there may never be any.
        if not is_starting(run) and any(figure.is_known for figure in self._figures):
            is_roomy = self.app.size.height >= ROOMY_HEIGHT
            yield from figure_lines(
                self._figures, width, is_roomy=is_roomy, stale=describe_staleness(run)
            )
        for note in self._script_notes:
            for line in textwrap.wrap(plain(note), text_width):
                yield Content.styled(line, DIM)
        yield from map(Content, textwrap.wrap(plain(self._advice), text_width))

    def _run_length(self, run: RunState) -> RunLength:
        """How long the run is, as its ranks say; before that, as far as it follows from its
        plan."""
        if run.progress.begun or not run.plan.job:
            return RunLength(run.progress.epochs, run.progress.steps)
        self._planned = self._planned or _planned_length(run.plan)
        return self._planned


def _planned_length(plan: Plan) -> RunLength:
    expected_work = expect_work(plan)
    if expected_work is None or plan.job is None:
        return RunLength(0, 0)
    steps_per_epoch = expected_work.steps_per_epoch
    steps = plan.job.total_steps(steps_per_epoch)
    # Rounded up, as an epoch that is only begun counts, too.
    return RunLength(-(-steps // steps_per_epoch) if steps_per_epoch else 0, steps)


def _fold_notice(notice: str, width: int) -> list[str]:
    """Fold a notice; where it does not fit, what helps has lines of its own, so that a command can
    be copied."""
    if len(notice) <= width:
        return [notice]
    sign = palette.sign("playing")
    text, _, remedy = notice.partition(f" {sign} ")
    return [*textwrap.wrap(text, width), *textwrap.wrap(f"  {sign} {remedy}", width)]


def script_notes(run: RunState) -> Iterator[str]:
    """How a user's own program is seen, and what its ranks exchange, if that is all."""
    # Of ranks that have come to a halt, the last second says nothing.
    exchange_text = ""
    if not run.stall:
        is_over = run.phase is RunPhase.ENDED
        exchange_text = describe_exchange(run.exchanging_ranks, is_over=is_over)
    if exchange_text:
        yield exchange_text
    yield from seen.ways(run, names_watch=False)
    # A stall matters more.
    sight_text = "" if run.stall else seen.describe_sight(run)
    if sight_text:
        yield sight_text
