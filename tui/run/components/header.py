"""The lines on top: the run, its progress, its pace, and what it waits for."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from rich.text import Text
from textual.widgets import Static

from remote.format import between, count, duration, percent, rate, seconds, size
from remote.plan.expected import expect_work
from remote.plan.plan import Plan
from remote.run.findings import script_visibility as seen
from remote.run.findings.flaws import outcome_word
from remote.run.findings.rates import bytes_per_second, sync_share, throughput
from remote.run.findings.start_waits import waiting
from remote.run.run_state import RunState
from remote.run.state.phases import RunPhase
from remote.sanitise import plain
from tui.kit import palette
from tui.kit.draw_turn import DrawTurn
from tui.kit.session_clock import SessionClock
from tui.kit.text_table import justify, progress_line
from tui.kit.widgets.phase import phase_cell
from tui.run.components.exchange_text import describe_exchange

GAP = "  "
MIN_WIDTH = 20
"""Columns that a text is folded to at least."""
_TIE = "\xa0"
"""A space that no line is broken at."""


class RunLength(NamedTuple):
    """Epochs and steps of a whole run; 0 where they are not known."""

    epochs: int
    steps: int


class RunHeader(Static):
    """Phase, method, model and run; progress, elapsed time and ETA; how fast it trains and how well
    it has tested; then what the run waits for."""

    DEFAULT_CSS = """
    RunHeader {
        height: 2; max-height: 6; padding: 0 1; background: $panel; color: $text;
    }
    """

    def __init__(self) -> None:
        super().__init__()
        self._shown: tuple[str, ...] = ()
        self._clock = SessionClock()
        self._turn = DrawTurn()
        self._facts: list[str] = []
        self._advice = ""
        self._planned: RunLength | None = None

    def show(self, run: RunState, given_name: str = "") -> None:
        """Copy what is drawn from the run. A person has `given_name` it so."""
        width = self.content_size.width
        # Before the first layout the width is 0, which textwrap refuses.
        text_width = max(width, MIN_WIDTH)
        now = self._clock.now(run)
        # The facts look at every rank, so those of many ranks are not taken at each tick.
        if self._turn.has_come_for(run) or not self._facts:
            self._facts = list(filter(None, pace_facts(run)))
            self._advice = seen.advice(run, now)
        head_lines = (
            _title_line(
                f"{_phase_text(run)}  {_work_text(run)}",
                run.plan.run,
                plain(given_name),
                width,
            ),
            _progress_line(run, self._run_length(run), width, now),
            *_fitting_facts(self._facts, width),
            *(line for wait in waiting(run, now) for line in _fold_text(wait.text(), text_width)),
        )
        stall_lines = _fold_text(_stall_text(run, now), text_width)
        lines = (*head_lines, *stall_lines, *textwrap.wrap(plain(self._advice), text_width))
        if lines != self._shown:
            self._shown = lines
            self.styles.height = len(lines)  # and not `auto`: lines of another width are no measure
            header_text = Text("\n".join(lines), no_wrap=True, overflow="ellipsis")
            stall_start = len("\n".join(head_lines)) + 1
            header_text.stylize("bold", stall_start, stall_start + len("\n".join(stall_lines)))
            self.update(header_text, layout=False)

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


def _stall_text(run: RunState, now: float) -> str:
    """Say why no rank makes progress, and for how long."""
    if not run.stall or run.phase is RunPhase.ENDED:
        return ""
    stall_age = duration(max(0.0, now - run.stall.since))
    return f"{palette.sign('bad')} stalled: {run.stall.text} ({stall_age})"


def _fold_text(text: str, width: int) -> list[str]:
    """Fold a text; the age at its end stays in one piece."""
    text_before, bracket, age_text = plain(text).rpartition(" (")
    lines = textwrap.wrap(f"{text_before}{bracket}{age_text.replace(' ', _TIE)}", width)
    return [line.replace(_TIE, " ") for line in lines]


def _work_text(run: RunState) -> str:
    plan = run.plan
    ranks_text = count(len(run.ranks) if run.has_workers else plan.world_size, "rank")
    hosts_text = f" on {count(len(plan.hosts), 'host')}" if len(plan.hosts) > 1 else ""
    if plan.job:
        return f"{plan.what}, {ranks_text}{hosts_text}"
    # A command line may be long, and what does not fit is cut off at the end.
    return f"{ranks_text}{hosts_text}: {plan.what}"


def _title_line(left: str, run: str, given_name: str, width: int) -> str:
    """The run at the right edge: by the name that a person gave it, and by its own where there is
    room for both."""
    both_names = justify(left, f"{given_name} ({run})" if given_name else run, width)
    # Without room for both, `justify` has left the names out, and cut the rest.
    has_room = not given_name or both_names.endswith(")")
    return both_names if has_room else justify(left, given_name, width)


def _phase_text(run: RunState) -> str:
    phase_name = outcome_word(run) or run.doing
    allowed = run.launcher.attempts_allowed
    allowed_text = f" of {allowed}" if allowed else ""
    attempt_text = f" (attempt {run.attempt + 1}{allowed_text})" if run.attempt else ""
    return f"{phase_cell(phase_name).text}{attempt_text}"


def _fitting_facts(facts: Sequence[str], width: int) -> list[str]:
    """A line of as many of the facts as there is room for; none where not even the first fits."""
    fitting = [fact for fact in facts if fact]
    while fitting and len(GAP.join(fitting)) > width:
        fitting.pop()
    return [GAP.join(fitting)] if fitting else []


def pace_facts(run: RunState) -> Iterator[str]:
    """How fast a run trains and how well it has tested, the most important first; "" for what is
    not known."""
    throughput, step_seconds, sync_share, bytes_sent = _pace(run)
    each = " each" if run.trains_apart else ""
    yield _known_fact(f"{{}} samples/s{each}", throughput, rate)
    yield _known_fact("{} s/iter", step_seconds, seconds)
    yield _known_fact("sync {}", sync_share, percent)
    # Of ranks that have come to a halt, the last second says nothing.
    if not run.stall:
        is_over = run.phase is RunPhase.ENDED
        yield describe_exchange(run.exchanging_ranks, is_over=is_over)
    yield GAP.join(seen.ways(run))
    yield _printed_rate(run)
    accuracies = [evaluation.accuracy for evaluation in run.progress.evaluations]
    if accuracies:
        best_accuracy, newest_accuracy = max(accuracies), accuracies[-1]
        yield f"test {percent(newest_accuracy, 1)}" + (
            f", best {percent(best_accuracy, 1)}" if best_accuracy > newest_accuracy else ""
        )
    yield _known_fact("{}/s sent", bytes_sent, size)
    yield _known_fact("checkpoint {:.0f}", max((rank.saved_step for rank in run.ranks), default=0))


def _pace(run: RunState) -> tuple[float, float, float, float]:
    """Return samples per second, the seconds of a step, the share of `sync`, and the bytes that are
    sent per second.

    These are of the last steps; once the run has ended, of all iterations but the first.
    """
    if run.phase is RunPhase.ENDED:
        means = run.means
        return means.throughput, means.seconds, means.share(means.sync), math.nan
    if run.stall:  # figures of the last steps say nothing of ranks that have come to a halt
        return (math.nan,) * 4
    return throughput(run), run.step_seconds, sync_share(run), bytes_per_second(run)


def _known_fact(text: str, value: float, format_value: Callable[[float], object] = float) -> str:
    # What is not known is 0 or NaN, and neither is over 0.
    return text.format(format_value(value)) if value > 0 else ""


def _printed_rate(run: RunState) -> str:
    """Samples or tokens per second of all ranks, as a user's own program prints them."""
    for name, unit in (("samples_per_second", "samples/s"), ("tokens_per_second", "tokens/s")):
        metric = run.metrics.named.get(name)
        if metric and not run.stall:
            return _known_fact(f"{{}} {unit}", metric.last, rate)
    return ""


def _script_progress(epoch: int, step: int, total: int) -> str:
    """How far a user's own program has come, as far as it tells."""
    known_parts = [f"epoch {epoch}"] if epoch else []
    if step:
        known_parts.append(f"step {step}/{total}" if total else f"step {step}")
    return "  ".join(known_parts) or "no steps seen"


def _progress_line(run: RunState, run_length: RunLength, width: int, now: float) -> str:
    """Draw a bar as wide as the figures leave room for."""
    step = run.step
    epoch = max((rank.epoch for rank in run.ranks), default=0)
    total_steps = run_length.steps
    is_job = run.plan.job is not None
    facts_text = _script_progress(epoch, step, total_steps)
    if is_job:
        facts_text = f"epoch {epoch}/{run_length.epochs or '?'}  step {step}/{total_steps or '?'}"
    # While no record arrives, `run.elapsed` stands still, and the clock goes on.
    elapsed_text = duration(max(run.elapsed, now - run.started) if run.started else 0.0)
    times_text = f"{elapsed_text} elapsed"
    if run.phase is not RunPhase.ENDED and (is_job or total_steps):
        times_text += f"  ETA {between(*run.eta_between(now))}"
    if not is_job and not run.elapsed:  # of log files, whose lines have no times
        times_text = ""
    bar_width = width - len(facts_text) - len(times_text) - 4
    if bar_width < -2:
        return justify(f"{step}/{total_steps or '?'}", elapsed_text, width)
    if not (is_job or total_steps):
        return justify(facts_text, times_text, width)
    return progress_line(facts_text, step / total_steps if total_steps else 0.0, times_text, width)
