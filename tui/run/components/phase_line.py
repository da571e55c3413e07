"""How a step splits, in one line: where there is no room for its chart."""

from __future__ import annotations

import math

from textual.content import Content
from textual.widgets import Static

from remote.format import percent, step_time
from remote.run.findings.rates import step_means
from remote.run.run_state import RunState
from remote.run.series.step_times import Means
from tui.kit import palette
from tui.run.components.header_lines import DIM
from tui.run.components.rank_cells import PHASES

INKS = {"data": "$ink-data", "compute": "$ink-compute", "sync": "$ink-sync"}
"""The ink of each phase."""
MIN_BARS = 10
"""Columns of all bars together below which shares are left out."""


class PhaseLine(Static):
    """The time of a step, and of data, compute and sync in it, each with a bar of its share."""

    DEFAULT_CSS = "PhaseLine { height: 1; padding: 0 1; }"

    def __init__(self) -> None:
        super().__init__()
        self._shown = Content()

    @staticmethod
    def has_phases(run: RunState) -> bool:
        """Return True if it is known how a step splits."""
        first_rank = next((rank for rank in run.ranks if rank.pace), None)
        return first_rank is not None and first_rank.pace.mean("compute") > 0

    def show(self, run: RunState) -> None:
        """Copy what is drawn from the run."""
        line = phase_line(step_means(run), self.content_size.width)
        if not line.is_same(self._shown):
            self._shown = line
            self.update(line, layout=False)


def phase_legend() -> Content:
    """Return the sign of each phase in its ink, with its name."""
    names = [Content.assemble((palette.sign(phase), INKS[phase]), f" {phase}") for phase in PHASES]
    return Content("  ").join(names)


def phase_line(means: Means, width: int) -> Content:
    """Return the line in so many columns: bars get what the texts leave. Shares are left out where
    they would take the room of the bars, that of sync last."""
    seconds = {phase: getattr(means, phase) for phase in PHASES}
    known = {phase: value for phase, value in seconds.items() if math.isfinite(value)}
    if not sum(known.values()) > 0 or not means.seconds > 0:
        return Content()
    head = f"step {step_time(means.seconds)}"
    texts: dict[str, str] = {}
    room = 0
    for phases_with_share in (PHASES, ("sync",), ()):
        texts = {phase: f"{phase} {step_time(value)}" for phase, value in known.items()}
        for phase in known.keys() & phases_with_share:
            texts[phase] += f" {percent(means.share(known[phase]))}"
        # A gap before each text, and a blank between it and its bar.
        room = width - len(head) - sum(len(text) + 3 for text in texts.values())
        if room >= MIN_BARS:
            break
    parts: list[str | tuple[str, str]] = [(head, "bold")]
    for phase, text in texts.items():
        # A phase that takes time is seen, however short it is.
        length = max(round(room * means.share(known[phase])), 1 if known[phase] else 0)
        bar = palette.sign(phase) * max(0, length) if room > 0 else ""
        parts += ["  ", (text, DIM), " ", (bar, INKS[phase])]
    return Content.assemble(*parts).truncate(width)
