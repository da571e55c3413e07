"""The two lines on top: which run this is, and how far it is."""

from __future__ import annotations

from rich.text import Text
from textual.widgets import Static

from remote.plan import Plan
from remote.run import RunPhase, RunState
from training.job import Job
from tui.panels import figures
from tui.widgets import palette


class Header(Static):
    """Run, method, model and phase; progress, elapsed time and ETA."""

    DEFAULT_CSS = """
    Header { height: 2; padding: 0 1; background: $panel; color: $text; }
    """

    def __init__(self) -> None:
        super().__init__()
        self._shown = ("", "")

    def show(self, run: RunState) -> None:
        """Take over what is drawn from the run."""
        width = self.content_size.width
        lines = _justified(_what(run.plan), _phase(run), width), _progress(run, width)
        if lines != self._shown:
            self._shown = lines
            self.update(Text("\n".join(lines), no_wrap=True, overflow="ellipsis"), layout=False)


def _what(plan: Plan) -> str:
    ranks = f"{plan.world_size} rank{'s' * (plan.world_size > 1)}"
    if isinstance(plan.work, Job):
        return f"{plan.run}  {plan.work.sync}, {plan.work.model} on {plan.work.dataset}, {ranks}"
    return f"{plan.run}  {ranks}: {plan.work.command_line()}"


def _phase(run: RunState) -> str:
    name = run.verdict.name.lower() if run.verdict else str(run.phase)
    return figures.phase(name).text


def _justified(left: str, right: str, width: int) -> str:
    """`left` cut so that `right` has its place at the right edge."""
    room = max(0, width - len(right) - 2)
    return f"{left[:room]:<{room}}  {right}"[: max(width, 0)]


def _progress(run: RunState, width: int) -> str:
    """A bar as wide as the figures leave room for."""
    step = run.step
    epoch = max((rank.epoch for rank in run.ranks), default=0)
    total = run.total_steps
    facts = f"epoch {epoch}/{run.epochs or '?'}  step {step}/{total or '?'}"
    times = f"{figures.duration(run.elapsed)} elapsed"
    if run.phase is not RunPhase.ENDED:
        times += f"  ETA {figures.duration(run.eta)}"
    if width < len(facts) + len(times) + 2:
        return _justified(f"{step}/{total or '?'}", figures.duration(run.elapsed), width)
    room = width - len(facts) - len(times) - 4
    done = round(room * min(step / total, 1.0)) if total else 0
    bar = palette.sign("full") * done + palette.sign("rest") * (room - done) if room >= 6 else ""
    return f"{facts}  {bar}  {times}" if bar else _justified(facts, times, width)
