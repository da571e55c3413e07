"""How the run ended: the cause of a failure and its last output, or the summary of a success."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from statistics import fmean
from typing import NamedTuple

from textual.app import ComposeResult
from textual.containers import VerticalScroll
from textual.content import Content
from textual.widgets import Static

from remote.format import fixed, percent, ranks_text, step_time
from remote.record.classification import ClassificationReport
from remote.record.entry import Entry
from remote.record.layout import REPORT
from remote.record.step_notes import StepNote, join_step_notes
from remote.run.findings import script_visibility as seen
from remote.run.findings.alerts import describe_slow_spells
from remote.run.findings.find_advice import advise_flaw
from remote.run.findings.find_resume_point import find_resume_point
from remote.run.findings.flaws import find_flaws, outcome_word
from remote.run.findings.memory import find_memory_at_death
from remote.run.output.last_words import last_words
from remote.run.run_state import RunState
from remote.run.state.flaw import FlawKind
from remote.run.state.phases import Verdict
from remote.run.state.types import Cause
from remote.sanitise import plain
from remote.statistics.mean import finite_mean
from tui.kit import palette
from tui.kit.background import run_in_background
from tui.kit.draw_turn import DrawTurn
from tui.kit.widgets.phase import phase_cell
from tui.run import outcome
from tui.run.components.advice_text import describe_advice
from tui.run.components.link_text import describe_bound
from tui.run.failure_advice import failure_advice
from tui.run.unfetched_files import describe_unfetched_files

FRAME_LINES = 4
"""Lines above the last output."""
MAX_SPELLS = 2
"""Slow ranks that are named at most."""
MIN_OUTPUT = 4
"""Lines of last output that even the lowest screen shows; the user can scroll."""

LOW_SCREEN = 30
"""Lines of a screen below which a success is told briefly: the charts need the room."""
BAD = "bold $text-error"
FLAWED = "bold $text-warning"
DIM = "$text-muted"
ACCENT = "bold $text-accent"


class OutcomeLine(NamedTuple):
    """A line of the panel."""

    text: str
    style: str = ""
    parts: tuple[tuple[str, str], ...] = ()
    """The text in parts, each with its style, if they differ."""

    @property
    def content(self) -> Content:
        """Return it as it is drawn."""
        if self.parts:
            return Content.assemble(*self.parts)
        return Content.styled(plain(self.text), self.style)


class OutcomeKeys(NamedTuple):
    """The keys that help after the end, as people write them; "" where they do nothing."""

    resume: str = ""
    new_run: str = ""
    compare: str = ""
    first_error: str = ""


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

    def __init__(self, find_previous: Callable[[], Entry | None] = lambda: None) -> None:
        """`find_previous` returns the last run with the same settings, after a while."""
        super().__init__()
        self._find_previous = find_previous
        self._previous: Entry | None = None
        self._has_asked = False

    def _ask_for_previous(self) -> None:
        self._has_asked = True

        def take(previous: Entry | None) -> None:
            self._previous = previous

        # Without it, a line is missing.
        run_in_background(self, self._find_previous, take, lambda error: None)

    def compose(self) -> ComposeResult:
        self._shown = list[OutcomeLine]()
        self._turn = DrawTurn()
        yield Static(markup=False)

    def show(self, run: RunState, keys: OutcomeKeys, notes: Sequence[StepNote] = ()) -> None:
        """Copy what is drawn from the run. What the ranks of one that has ended came to is looked
        at in turns."""
        # Before the end there is little to look at, and the panel has to appear without delay.
        if not self._turn.has_come_for(run, place=1) and run.verdict is not None:
            return
        if run.verdict is Verdict.FINISHED and not self._has_asked:
            self._ask_for_previous()
        height = self.screen.size.height
        max_output = max(MIN_OUTPUT, height * 2 // 5 - FRAME_LINES)
        is_brief = height < LOW_SCREEN
        lines = outcome_lines(run, max_output, keys, self._previous, is_brief=is_brief)
        if lines and notes:
            lines.append(OutcomeLine(f"notes: {join_step_notes(notes)}"))
        if lines == self._shown:
            return
        self._shown = lines
        self.display = bool(lines)
        self.set_class(outcome_word(run) != Verdict.FINISHED.word, "-warn")
        self.set_class(run.verdict is not Verdict.FINISHED, "-bad")
        self.query_one(Static).update(Content("\n").join(line.content for line in lines))


def outcome_lines(
    run: RunState,
    max_output: int,
    keys: OutcomeKeys,
    previous: Entry | None = None,
    *,
    is_brief: bool,
) -> list[OutcomeLine]:
    """Return how the run ended, the most important first. `max_output`: lines for the last
    output; `previous`: the last run with the same settings."""
    lines = list(_title_lines(run))
    if run.cause is not None:
        lines += _failure_lines(run, run.cause, keys, max_output)
    if run.verdict in (Verdict.FINISHED, Verdict.STOPPED):
        lines += _summary_lines(run, is_brief=is_brief)
        lines += map(OutcomeLine, filter(None, [seen.describe_unseen_end(run)]))
        if run.verdict is Verdict.FINISHED and previous:
            lines += map(OutcomeLine, describe_change(run, previous))
        lines += _way_on(run, keys)
    lines += map(OutcomeLine, describe_unfetched_files(run))
    return lines


def _title_lines(run: RunState) -> Iterator[OutcomeLine]:
    """The verdict, and whom or what it is due to."""
    culprit_text = run.cause.culprit_text if run.cause else ""
    if run.verdict is None:  # others get a moment for their last words
        if culprit_text:
            yield OutcomeLine(culprit_text, "bold")
        return
    sign = phase_cell(run.verdict.word).text.split()[0]
    flaws = find_flaws(run)
    for flaw in flaws:
        yield OutcomeLine(f"{palette.sign('slow')} {flaw.text}", FLAWED)
    end_text = outcome.end_line(run)
    if flaws and run.verdict is Verdict.FINISHED:
        yield OutcomeLine(end_text)
    elif culprit_text:
        yield OutcomeLine(f"{sign} {end_text}: {culprit_text}", BAD)
    else:
        yield OutcomeLine(f"{sign} {end_text}", "bold")


def _failure_lines(
    run: RunState, cause: Cause, keys: OutcomeKeys, max_output: int
) -> Iterator[OutcomeLine]:
    """What is known of the culprit, who followed, and the way out; then the last output."""
    memory = find_memory_at_death(run)
    if memory:
        yield OutcomeLine(memory.text)
    if cause.victims:
        yield OutcomeLine(f"{ranks_text(cause.victims)} followed", DIM)
    advice = failure_advice(cause, run.plan)
    if advice:
        yield OutcomeLine(f"what to do: {advice}")
    yield from _way_on(run, keys)
    output_lines = cause.tail
    if max_output < len(cause.tail):
        output_lines = last_words(cause.tail, max_output)
    if output_lines:
        yield OutcomeLine(f"last output of {outcome.output_source(cause)}:", DIM)
    for line in output_lines:
        yield OutcomeLine(f"  {line}")


def _way_on(run: RunState, keys: OutcomeKeys) -> Iterator[OutcomeLine]:
    """What a new run should do otherwise, or how this one can go on from its newest checkpoint;
    then the keys that help next."""
    if run.verdict is None:
        return
    for flaw in find_flaws(run) if run.verdict is Verdict.FINISHED else ():
        advice = advise_flaw(run, flaw)
        if advice:
            text = describe_advice(advice, new_run_key=keys.new_run)
            yield OutcomeLine(text, ACCENT)
    resume_point = find_resume_point(run)
    if keys.resume and resume_point and run.verdict is not Verdict.FINISHED:
        sign = palette.sign("playing")
        yield OutcomeLine(f"{sign} {keys.resume} {resume_point.text}", ACCENT)
    next_keys = [(keys.new_run, "new run"), (keys.compare, "compare")]
    if run.cause:
        next_keys.append((keys.first_error, "first error"))
    parts: list[tuple[str, str]] = []
    for key, word in next_keys:
        if key:
            parts += [("   " if parts else "", DIM), (key, ACCENT), (f" {word}", DIM)]
    if parts:
        yield OutcomeLine("".join(text for text, _ in parts), parts=tuple(parts))


def _summary_lines(run: RunState, *, is_brief: bool) -> Iterator[OutcomeLine]:
    """List the ranks that were slow, the test accuracy, and the times of a step and of an epoch.
    `is_brief`: no more than a line of the accuracy and of the times."""
    flaws = find_flaws(run)
    named_ranks = {flaw.rank for flaw in flaws if flaw.kind is FlawKind.SLOW}
    for spell in describe_slow_spells(run, named_ranks)[:MAX_SPELLS]:
        yield OutcomeLine(f"{palette.sign('slow')} {spell}")
    for line in _test_lines(run)[: 1 if is_brief else None]:
        yield OutcomeLine(line)
    # How fast a run came to a useless model matters to nobody.
    is_useless = any(flaw.kind is not FlawKind.SLOW for flaw in flaws)
    speed_text = "" if is_useless else _describe_speed(run, is_brief=is_brief)
    if speed_text:
        yield OutcomeLine(speed_text)


def _describe_speed(run: RunState, *, is_brief: bool) -> str:
    """Say how long a step took: "20 ms/step (2 to 40), 19 ms all but the first; bound by sync, 59%
    of a step"."""
    early_seconds = finite_mean(rank.timing.early.seconds for rank in run.ranks)
    if not math.isfinite(early_seconds):
        return ""
    parts = [f"{step_time(early_seconds)}/step ({outcome.early_iterations(run)})"]
    if math.isfinite(run.means.seconds) and not is_brief:
        parts.append(f"{step_time(run.means.seconds)} all but the first")
    epoch_means = [fmean(rank.epoch_seconds) for rank in run.ranks if rank.epoch_seconds]
    if epoch_means and not is_brief:
        parts.append(f"{fixed(fmean(epoch_means), 2)} s/epoch")
    return "; ".join([", ".join(parts), *describe_bound(run)])


def describe_change(run: RunState, previous: Entry) -> list[str]:
    """Compare a run with the last one that has the same settings, in a line: "vs baseline, the last
    run like it: test +0.6 points, 14% less time per step"."""
    changes = []
    evaluations = run.progress.evaluations
    if evaluations and previous.accuracy is not None:
        points = 100 * (evaluations[-1].accuracy - previous.accuracy)
        changes.append(f"test {points:+.1f} points")
    step_seconds = run.means.seconds
    if step_seconds > 0 and previous.step_seconds:
        change = step_seconds / previous.step_seconds - 1
        changes.append(f"{change:+.0%} time per step")
    name = previous.label or previous.name
    return [f"vs {name}, the last run like it: {', '.join(changes)}"] if changes else []


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
