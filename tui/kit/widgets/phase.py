"""The phases of runs, hosts and ranks, each as a sign and a word."""

from __future__ import annotations

from tui.kit import palette
from tui.kit.widgets.table import TableCell

PHASE_STYLES = {
    "waiting": ("wait", "table--dim"),
    "connecting": ("work", "table--work"),
    "deploying": ("work", "table--work"),
    "starting": ("work", "table--work"),
    "importing": ("work", "table--work"),
    "loading": ("work", "table--work"),
    "rendezvous": ("work", "table--work"),
    "joining": ("work", "table--work"),
    "ready": ("live", "table--good"),
    "training": ("live", "table--good"),
    "serving": ("live", "table--good"),
    "saving": ("live", "table--work"),
    "evaluating": ("live", "table--work"),
    "silent": ("wait", "table--work"),
    "stalled": ("bad", "table--bad"),
    "stopping": ("work", "table--work"),
    "stopped": ("ended", "table--dim"),
    "not started": ("ended", "table--dim"),
    "ended": ("ended", "table--dim"),
    "finished": ("good", "table--good"),
    "running": ("live", "table--good"),
    "done": ("good", "table--good"),
    "unstable": ("warn", "table--work"),
    "interrupted": ("ended", "table--dim"),
    "victim": ("bad", "table--work"),
    "failed": ("bad", "table--bad"),
    "refused": ("bad", "table--bad"),
    "lost": ("bad", "table--bad"),
    "unknown": ("wait", "table--dim"),
    "unreadable": ("warn", "table--work"),
}
"""The sign and the colour of every phase of a study's cell, a run, a host and a rank."""


def phase_cell(name: str) -> TableCell:
    """Return a phase as a cell with a sign and a word."""
    sign_name, cell_style = PHASE_STYLES[name]
    return TableCell(f"{palette.sign(sign_name)} {name}", cell_style)
