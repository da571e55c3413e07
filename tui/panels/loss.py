"""The chart of the loss of every rank on its own samples, by step."""

from __future__ import annotations

from tui.panels.parts.curves import Curves
from tui.widgets.frame import Look


class Loss(Curves):
    """The loss of every rank on its own samples, by step."""

    title = "loss"
    help = "the loss of every rank on its own samples"
    look = Look("step")
    series = "loss"
