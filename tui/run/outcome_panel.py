"""How the run ended: the cause of a failure and its last output, or the summary of a success."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import fmean

from rich.text import Text
from textual.app import ComposeResult
from textual.containers import VerticalScroll
from textual.widgets import Static

from remote.format import fixed, percent
from remote.record.classification import ClassificationReport
from remote.record.layout import REPORT
from remote.run.findings.alerts import describe_slow_spells
from remote.run.output.last_words import last_words
from remote.run.run_state import RunState
from remote.run.state.phases import Verdict
from remote.sanitise import plain
from tui.kit import palette
from tui.kit.draw_turn import DrawTurn
from tui.kit.widgets.phase import phase_cell
from tui.run import outcome
from tui.run.unfetched_files import describe_unfetched_files

FRAME_LINES = 4
"""Lines above the last output."""
MAX_SPELLS = 2
"""Slow ranks that are named at most."""
MIN_OUTPUT = 4
"""Lines of last output that even the lowest screen shows; the user can scroll."""

LOW_SCREEN = 30
"""Lines of a screen below which a success is told briefly: the charts need the room."""


class OutcomePanel(VerticalScroll):
    """How the run ended; hidden until then."""

    DEFAULT_CSS = """
    OutcomePanel {
        display: none; height: auto; max-height: 40%; padding: 0 1; scrollbar-size-vertical: 1;
        border-left: outer $success; background: $success 12%;
    }
    OutcomePanel.-warn { border-left: outer $warning; background: $warning 12%; }
    OutcomePanel.-bad { border-left: outer $error; background: $error 12%; }
    """

    def compose(self) -> ComposeResult:
        self._shown, self._turn = "", DrawTurn()
        yield Static(markup=False)

    def show(self, run: RunState) -> None:
        """Copy what is drawn from the run. What the ranks of one that has ended came to is looked
        at in turns."""
        # Before the end there is little to look at, and the panel has to appear without delay.
        if not self._turn.has_come_for(run, place=1) and run.verdict is not None:
            return
        height = self.screen.size.height
        text = _outcome_text(
            run, max(MIN_OUTPUT, height * 2 // 5 - FRAME_LINES), is_brief=height < LOW_SCREEN
        )
        if text == self._shown:
            return
        self._shown = text
        self.display = bool(text)
        self.set_class(run.progress.diverged is not None, "-warn")
        self.set_class(run.verdict is not Verdict.FINISHED, "-bad")
        self.query_one(Static).update(Text(text))


def _outcome_text(run: RunState, max_output: int, *, is_brief: bool) -> str:
    """Return how the run ended. `max_output`: lines for the last output."""
    lines: list[str] = []
    if run.cause is not None:
        tail = run.cause.tail
        output = last_words(tail, max_output) if max_output < len(tail) else tail
        lines = outcome.cause_lines(run.cause, run.plan, output, indent="  ")
    if run.verdict is not None:
        sign = phase_cell(run.verdict.word).text.split()[0]
        if run.verdict is Verdict.FINISHED and run.progress.diverged:
            sign = palette.sign("warn")
        lines.insert(bool(lines), f"{sign} {outcome.verdict_line(run)}")
    if run.verdict in (Verdict.FINISHED, Verdict.STOPPED):
        lines += _summary_lines(run, is_brief=is_brief)
    lines += describe_unfetched_files(run)
    return "\n".join(map(plain, lines))


def _summary_lines(run: RunState, *, is_brief: bool) -> list[str]:
    """List the ranks that were slow, the test accuracy, and the times of an iteration and of an
    epoch, which are nearly the same for all ranks. `is_brief`: no more than a line of the
    accuracy and of the times."""
    lines = _test_lines(run)[: 1 if is_brief else None]
    means = [rank.timing.early.seconds for rank in run.ranks]
    paces = [seconds for seconds in means if math.isfinite(seconds)]
    if paces:
        early = outcome.early_iterations(run)
        first = early.partition(" ")[0]
        others = "all but the first" if first == "2" else f"all from {first} on"
        whole = f"of {others} {fixed(run.means.seconds, 3)} s"
        epochs = [fmean(rank.epoch_seconds) for rank in run.ranks if rank.epoch_seconds]
        epoch_text = f"; of an epoch {fixed(fmean(epochs), 2)} s" if epochs and not is_brief else ""
        lines.append(f"mean of iterations {early}: {_format_range(paces, 3)}, {whole}{epoch_text}")
    sign = palette.sign("slow")
    return [*(f"{sign} {spell}" for spell in describe_slow_spells(run)[:MAX_SPELLS]), *lines]


def _test_lines(run: RunState) -> list[str]:
    """List the test figures: of the run, the means over classes, and of each rank's own model."""
    lines = outcome.describe_test(run)
    evaluations = run.progress.evaluations
    if lines and evaluations and evaluations[-1].confusion:
        mean = ClassificationReport.of(evaluations[-1].confusion).macro
        means = f"precision {percent(mean.precision, 1)}, recall {percent(mean.recall, 1)}"
        lines.append(f"mean over classes: {means}, F1 {percent(mean.f1, 1)}; all in {REPORT}")
    own_accuracies = [
        f"rank {rank.rank} {percent(rank.own_accuracy, 2)}"
        for rank in run.ranks
        if not math.isnan(rank.own_accuracy)
    ]
    if own_accuracies:
        lines.append(f"by each rank's own model: {', '.join(own_accuracies)}")
    return lines


def _format_range(values: Sequence[float], decimals: int) -> str:
    """The least and the greatest of the ranks' seconds."""
    low, high = (fixed(value, decimals) for value in (min(values), max(values)))
    return f"{low} s" if low == high else f"{low} to {high} s"
