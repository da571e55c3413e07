"""The chart of the CPU use of every rank's processes, by time."""

from __future__ import annotations

from tui.panels.parts.curves import Curves
from tui.widgets.frame import Look


class Cpu(Curves):
    """The CPU use of every rank's processes, by time."""

    title = "CPU % of a core"
    help = "CPU use of every rank's processes"
    look = Look("time", clock=True, from_zero=True)
    series = "cpu"
