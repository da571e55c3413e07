"""The lines on top: the run, its progress, and what it waits for."""

from __future__ import annotations

import textwrap

from rich.text import Text
from textual.widgets import Static

from remote.format import count, duration
from remote.plan.plan import Plan
from remote.run.state import RunPhase, RunState
from remote.run.waiting import Wait, waiting
from tui import palette
from tui.panels.parts.phase import phase
from tui.session_clock import SessionClock
from tui.widgets.log_view import plain

_TIE = "\xa0"
"""A space that no line is broken at."""


class Header(Static):
    """Run, method, model and phase; progress, elapsed time and ETA; then what the run waits for."""

    DEFAULT_CSS = """
    Header {
        height: auto; min-height: 2; max-height: 5; padding: 0 1; background: $panel; color: $text;
    }
    """

    def __init__(self) -> None:
        super().__init__()
        self._shown: tuple[str, ...] = ()
        self._width = 0
        self._clock = SessionClock()

    def show(self, run: RunState) -> None:
        """Copy what is drawn from the run."""
        width = self.content_size.width
        now = self._clock.now(run)
        found = [*map(Wait.text, waiting(run, now)), *_stall(run, now)]
        waits = [line for text in found for line in _folded(plain(text), max(width, 20))]
        lines = (
            justified(_what(run.plan), _phase(run), width),
            _progress(run, width, now),
            *waits,
        )
        if lines != self._shown:
            grows = (len(lines), width) != (
                len(self._shown),
                self._width,
            )  # lines of another width take more rows, or fewer
            self._shown, self._width = lines, width
            self.update(Text("\n".join(lines), no_wrap=True, overflow="ellipsis"), layout=grows)


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


def _what(plan: Plan) -> str:
    ranks = count(plan.world_size, "rank")
    if plan.job:
        return f"{plan.run}  {plan.what}, {ranks}"
    return f"{plan.run}  {ranks}: {plan.what}"


def _phase(run: RunState) -> str:
    name = run.verdict.name.lower() if run.verdict else str(run.phase)
    return phase(name).text


def justified(left: str, right: str, width: int) -> str:
    """Put `right` at the right edge, and cut `left` to make room."""
    room = max(0, width - len(right) - 2)
    return f"{left[:room]:<{room}}  {right}"[: max(width, 0)]


def _progress(run: RunState, width: int, now: float) -> str:
    """Draw a bar as wide as the figures leave room for."""
    step = run.step
    epoch = max((rank.epoch for rank in run.ranks), default=0)
    total = run.progress.steps
    facts = f"epoch {epoch}/{run.progress.epochs or '?'}  step {step}/{total or '?'}"
    elapsed = duration(max(run.elapsed, now - run.started) if run.started else 0.0)
    times = f"{elapsed} elapsed"
    if run.phase is not RunPhase.ENDED:
        times += f"  ETA {duration(run.eta(now))}"
    if width < len(facts) + len(times) + 2:
        return justified(f"{step}/{total or '?'}", elapsed, width)
    room = width - len(facts) - len(times) - 4
    done = round(room * min(step / total, 1.0)) if total else 0
    bar = palette.sign("full") * done + palette.sign("rest") * (room - done) if room >= 6 else ""
    return f"{facts}  {bar}  {times}" if bar else justified(facts, times, width)
