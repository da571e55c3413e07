"""The phases of runs, hosts and ranks, each as a sign and a word."""

from __future__ import annotations

from typing import NamedTuple

from remote.run.state.flaw import FlawKind
from tui.kit import palette
from tui.kit.rank_looks import RANK_LOOKS
from tui.kit.widgets.table import TableCell

PHASE_STYLES = {phase.value: (look.sign, look.style) for phase, look in RANK_LOOKS.items()} | {
    "connecting": ("work", ""),
    "deploying": ("work", ""),
    "starting": ("work", ""),
    "ready": ("live", "table--good"),
    "silent": ("wait", "table--warn"),
    "stalled": ("bad", "table--bad"),
    "halted": ("bad", "table--bad"),
    "stopping": ("work", ""),
    "ended": ("ended", "table--dim"),
    "running": ("live", "table--good"),
    "unstable": ("warn", "table--warn"),
    "interrupted": ("ended", "table--dim"),
    "refused": ("bad", "table--bad"),
    "left": ("wait", "table--dim"),
    "unreadable": ("warn", "table--warn"),
    "too short": ("slow", "table--warn"),
    "nothing learned": ("slow", "table--warn"),
    **{kind.value: ("slow", "table--warn") for kind in FlawKind},
}
"""The sign and the colour of every phase of a study, a cell of it, a run, a host and a rank."""


class PhaseLook(NamedTuple):
    """How a phase is shown: a sign, a word and the style of both."""

    sign: str
    word: str
    style: str

    @property
    def text(self) -> str:
        """Return the sign and the word."""
        return f"{self.sign} {self.word}"

    @property
    def cell(self) -> TableCell:
        """Return both as a cell of a table."""
        return TableCell(self.text, self.style)


def phase_look(name: str) -> PhaseLook:
    """Return how a phase is shown."""
    sign_name, style = PHASE_STYLES[name]
    return PhaseLook(palette.sign(sign_name), name, style)


def phase_cell(name: str) -> TableCell:
    """Return a phase as a cell with a sign and a word."""
    return phase_look(name).cell
