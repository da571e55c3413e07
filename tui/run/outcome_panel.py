"""How the run ended: the cause of a failure and its last output, or the summary of a success."""

from __future__ import annotations

import math
from statistics import fmean

from rich.text import Text
from textual.app import ComposeResult
from textual.containers import VerticalScroll
from textual.widgets import Static

from remote.format import fixed, percent, step_time
from remote.record.classification import ClassificationReport
from remote.record.layout import REPORT
from remote.run.findings import script_visibility as seen
from remote.run.findings.alerts import describe_slow_spells
from remote.run.output.last_words import last_words
from remote.run.run_state import RunState
from remote.run.state.phases import Verdict
from remote.sanitise import plain
from tui.kit import palette
from tui.kit.draw_turn import DrawTurn
from tui.kit.widgets.phase import phase_cell
from tui.run import outcome
from tui.run.components.link_text import describe_bound
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
        outcome_text = _outcome_text(
            run, max(MIN_OUTPUT, height * 2 // 5 - FRAME_LINES), is_brief=height < LOW_SCREEN
        )
        if outcome_text == self._shown:
            return
        self._shown = outcome_text
        self.display = bool(outcome_text)
        self.set_class(run.progress.diverged is not None, "-warn")
        self.set_class(run.verdict is not Verdict.FINISHED, "-bad")
        self.query_one(Static).update(Text(outcome_text))


def _outcome_text(run: RunState, max_output: int, *, is_brief: bool) -> str:
    """Return how the run ended. `max_output`: lines for the last output."""
    outcome_lines: list[str] = []
    if run.cause is not None:
        tail = run.cause.tail
        output_lines = last_words(tail, max_output) if max_output < len(tail) else tail
        outcome_lines = outcome.cause_lines(run.cause, run.plan, output_lines, indent="  ")
    if run.verdict is not None:
        sign = phase_cell(run.verdict.word).text.split()[0]
        # A run whose loss is NaN has done all its steps, which is no success.
        if run.verdict is Verdict.FINISHED and run.progress.diverged:
            sign = palette.sign("warn")
        # Behind the line of the cause; without one, on top.
        outcome_lines.insert(bool(outcome_lines), f"{sign} {outcome.verdict_line(run)}")
    if run.verdict in (Verdict.FINISHED, Verdict.STOPPED):
        outcome_lines += _summary_lines(run, is_brief=is_brief)
        outcome_lines += filter(None, [seen.describe_unseen_end(run)])
    outcome_lines += describe_unfetched_files(run)
    return "\n".join(map(plain, outcome_lines))


def _summary_lines(run: RunState, *, is_brief: bool) -> list[str]:
    """List the ranks that were slow, the test accuracy, and the times of an iteration and of an
    epoch, which are nearly the same for all ranks. `is_brief`: no more than a line of the
    accuracy and of the times."""
    summary_lines = _test_lines(run)[: 1 if is_brief else None]
    rank_means = [rank.timing.early.seconds for rank in run.ranks]
    known_means = [seconds for seconds in rank_means if math.isfinite(seconds)]
    if known_means:
        iterations = outcome.early_iterations(run)
        first_iteration = iterations.partition(" ")[0]
        which_iterations = (
            "all but the first" if first_iteration == "2" else f"all from {first_iteration} on"
        )
        mean_text = f"{which_iterations} {step_time(run.means.seconds)}"
        epoch_means = [fmean(rank.epoch_seconds) for rank in run.ranks if rank.epoch_seconds]
        epoch_text = (
            f", {fixed(fmean(epoch_means), 2)} s/epoch" if epoch_means and not is_brief else ""
        )
        early_text = f"{step_time(fmean(known_means))}/step ({iterations})"
        summary_lines.append(f"{early_text}, {mean_text}{epoch_text}")
    summary_lines += describe_bound(run)
    sign = palette.sign("slow")
    return [
        *(f"{sign} {spell}" for spell in describe_slow_spells(run)[:MAX_SPELLS]),
        *summary_lines,
    ]


def _test_lines(run: RunState) -> list[str]:
    """List the test figures: of the run, the means over classes, and of each rank's own model."""
    test_lines = outcome.describe_test(run)
    evaluations = run.progress.evaluations
    if test_lines and evaluations and evaluations[-1].confusion:
        class_means = ClassificationReport.of(evaluations[-1].confusion).macro
        precision = percent(class_means.precision, 1)
        recall = percent(class_means.recall, 1)
        means_text = f"precision {precision}, recall {recall}, F1 {percent(class_means.f1, 1)}"
        test_lines.append(f"mean over classes: {means_text}; all in {REPORT}")
    own_accuracies = [
        f"rank {rank.rank} {percent(rank.own_accuracy, 2)}"
        for rank in run.ranks
        if not math.isnan(rank.own_accuracy)
    ]
    if own_accuracies:
        test_lines.append(f"by each rank's own model: {', '.join(own_accuracies)}")
    return test_lines
