"""The lines on top: the run, its progress, its pace, and what it waits for."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Callable, Sequence
from typing import NamedTuple

from rich.text import Text
from textual.widgets import Static

from remote.format import between, count, duration, percent, rate, seconds, size
from remote.plan.expected import expected, length
from remote.plan.plan import Plan
from remote.run.findings import script_visibility as seen
from remote.run.findings.start_waits import Wait, waiting
from remote.run.run_state import RunState
from remote.run.series.step_times import Means
from remote.run.state.phases import RunPhase, Verdict
from remote.sanitise import plain
from tui.kit import palette
from tui.kit.session_clock import SessionClock
from tui.kit.text_table import justified
from tui.kit.turn import Turn
from tui.kit.widgets.phase import phase_cell

GAP = "  "
_TIE = "\xa0"
"""A space that no line is broken at."""


class Length(NamedTuple):
    """Epochs and steps of a whole run; 0 where they are not known."""

    epochs: int
    steps: int


class Header(Static):
    """Phase, method, model and run; progress, elapsed time and ETA; how fast it trains and how well
    it has tested; then what the run waits for."""

    DEFAULT_CSS = """
    Header {
        height: 2; max-height: 6; padding: 0 1; background: $panel; color: $text;
    }
    """

    def __init__(self) -> None:
        super().__init__()
        self._shown: tuple[str, ...] = ()
        self._clock = SessionClock()
        self._turns = [Turn() for _ in PACE]
        self._facts = [""] * len(PACE)
        self._planned: Length | None = None
        self._seen_turn = Turn()
        self._seen = ""

    def show(self, run: RunState, called: str = "") -> None:
        """Copy what is drawn from the run. A person has `called` it so."""
        width = self.content_size.width
        now = self._clock.now(run)
        is_asked = not any(self._facts)
        for place, (turn, fact) in enumerate(zip(self._turns, PACE, strict=True)):
            if turn.has_come_for(run, place) or is_asked:
                self._facts[place] = fact(run)
        waits, stall = (
            [line for text in found for line in _folded(plain(text), max(width, 20))]
            for found in (map(Wait.text, waiting(run, now)), _stall(run, now))
        )
        if self._seen_turn.has_come_for(run, place=len(PACE)) or is_asked:
            self._seen = seen.advice(run, now)
        head = (
            _title(f"{_phase(run)}  {_what(run.plan)}", run.plan.run, plain(called), width),
            _progress(run, self._length(run), width, now),
            *_fitting(self._facts, width),
            *waits,
        )
        lines = (*head, *stall, *_folded_all(self._seen, width))
        if lines != self._shown:
            self._shown = lines
            self.styles.height = len(lines)  # and not `auto`: lines of another width are no measure
            text = Text("\n".join(lines), no_wrap=True, overflow="ellipsis")
            begin = len("\n".join(head)) + 1
            text.stylize("bold", begin, begin + len("\n".join(stall)))
            self.update(text, layout=False)

    def _length(self, run: RunState) -> Length:
        """How long the run is, as its ranks say; before that, as far as it follows from its
        plan."""
        if run.progress.begun or not run.plan.job:
            return Length(run.progress.epochs, run.progress.steps)
        if self._planned is None:
            self._planned = _planned(run.plan)
        return self._planned


def _planned(plan: Plan) -> Length:
    known = expected(plan)
    if known is None or plan.job is None:
        return Length(0, 0)
    steps = length(plan.job, known.steps)
    return Length(-(-steps // known.steps) if known.steps else 0, steps)


def _stall(run: RunState, now: float) -> list[str]:
    """Say why no rank makes progress, and for how long."""
    if not run.stall or run.phase is RunPhase.ENDED:
        return []
    return [
        f"{palette.sign('bad')} stalled: {run.stall.text} "
        f"({duration(max(0.0, now - run.stall.since))})"
    ]


def _folded(text: str, width: int) -> list[str]:
    """Fold a text; the age at its end stays in one piece."""
    words, _, age = text.rpartition(" (")
    lines = textwrap.wrap(f"{words} ({age.replace(' ', _TIE)}", width)
    return [line.replace(_TIE, " ") for line in lines]


def _folded_all(text: str, width: int) -> list[str]:
    return textwrap.wrap(plain(text), max(width, 20))


def _what(plan: Plan) -> str:
    ranks = count(plan.world_size, "rank")
    hosts = f" on {count(len(plan.hosts), 'host')}" if len(plan.hosts) > 1 else ""
    return f"{plan.what}, {ranks}{hosts}" if plan.job else f"{ranks}{hosts}: {plan.what}"


def _title(left: str, run: str, called: str, width: int) -> str:
    """The run at the right edge: by the name that a person gave it, and by its own where there is
    room for both."""
    both = justified(left, f"{called} ({run})" if called else run, width)
    return both if not called or both.endswith(")") else justified(left, called, width)


def _phase(run: RunState) -> str:
    name = run.verdict.word if run.verdict else run.doing
    allowed = run.launcher.attempts_allowed
    of = f" of {allowed}" if allowed else ""
    attempt = f" (attempt {run.attempt + 1}{of})" if run.attempt else ""
    text = phase_cell(name).text
    if run.verdict is Verdict.FINISHED and run.progress.diverged:
        text = f"{palette.sign('warn')} finished, loss {run.progress.diverged.what}"
    return f"{text}{attempt}"


def _fitting(facts: Sequence[str], width: int) -> list[str]:
    """A line of as many of the facts as there is room for; none where not even the first fits."""
    shown = [fact for fact in facts if fact]
    while shown and len(GAP.join(shown)) > width:
        shown.pop()
    return [GAP.join(shown)] if shown else []


def _known(value: float, written: Callable[[float], str], text: str) -> str:
    return text.format(written(value)) if value > 0 else ""


def _lasting(
    figure: str,
    written: Callable[[float], str],
    text: str,
    whole: Callable[[Means], float] = lambda _: math.nan,
) -> Callable[[RunState], str]:
    """A figure of the last steps, which says nothing of ranks that have come to a halt; once the
    run has ended, the `whole` of all its iterations but the first."""

    def told(run: RunState) -> str:
        if run.phase is RunPhase.ENDED:
            return _known(whole(run.means), written, text)
        return "" if run.stall else _known(getattr(run, figure), written, text)

    return told


def _printed_rate(run: RunState) -> str:
    """Samples or tokens per second of all ranks, as a user's own program prints them."""
    if run.stall:
        return ""
    for name, unit in (("samples_per_second", "samples/s"), ("tokens_per_second", "tokens/s")):
        metric = run.metrics.named.get(name)
        if metric:
            return _known(metric.last, rate, f"{{}} {unit}")
    return ""


def _tested(run: RunState) -> str:
    accuracies = [one.accuracy for one in run.progress.evaluations]
    if not accuracies:
        return ""
    best = f", best {percent(max(accuracies), 1)}" if max(accuracies) > accuracies[-1] else ""
    return f"test {percent(accuracies[-1], 1)}{best}"


def _saved(run: RunState) -> str:
    step = max((rank.saved_step for rank in run.ranks), default=0)
    return f"checkpoint {step}" if step else ""


PACE: Sequence[Callable[[RunState], str]] = (
    _lasting("throughput", rate, "{} samples/s", lambda whole: whole.throughput),
    _lasting("step_seconds", seconds, "{} s/iter", lambda whole: whole.seconds),
    _lasting("sync_share", percent, "sync {}", lambda whole: whole.share(whole.sync)),
    lambda run: "  ".join(seen.ways(run)),
    _printed_rate,
    _tested,
    _lasting("bytes_per_second", size, "{}/s sent"),
    _saved,
)
"""How fast a run trains and how well it has tested, the most important first; "" for what is not
known."""


def _so_far(epoch: int, step: int, total: int) -> str:
    """How far a user's own program has come, as far as it tells."""
    known = [f"epoch {epoch}"] if epoch else []
    if step:
        known.append(f"step {step}/{total}" if total else f"step {step}")
    return "  ".join(known) or "no steps seen"


def _progress(run: RunState, whole: Length, width: int, now: float) -> str:
    """Draw a bar as wide as the figures leave room for."""
    step = run.step
    epoch = max((rank.epoch for rank in run.ranks), default=0)
    total = whole.steps
    facts = f"epoch {epoch}/{whole.epochs or '?'}  step {step}/{total or '?'}"
    if not run.plan.job:
        facts = _so_far(epoch, step, total)
    elapsed = duration(max(run.elapsed, now - run.started) if run.started else 0.0)
    times = f"{elapsed} elapsed"
    if run.phase is not RunPhase.ENDED:
        times += f"  ETA {between(*run.eta_between(now))}" if run.plan.job or total else ""
    if not run.plan.job and not run.elapsed:  # of log files, whose lines have no times
        times = ""
    if width < len(facts) + len(times) + 2:
        return justified(f"{step}/{total or '?'}", elapsed, width)
    room = width - len(facts) - len(times) - 4
    done = round(room * min(step / total, 1.0)) if total else 0
    bar = palette.sign("full") * done + palette.sign("rest") * (room - done) if room >= 6 else ""
    if not run.plan.job and not total:
        bar = ""
    return f"{facts}  {bar}  {times}" if bar else justified(facts, times, width)
