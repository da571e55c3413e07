"""The chart of the seconds of every rank's iterations, by step."""

from __future__ import annotations

from tui.panels.parts.curves import Curves
from tui.widgets.frame import Look


class Seconds(Curves):
    """The seconds of every rank's iterations, by step."""

    title = "s/iteration"
    help = "how long every rank's iterations take"
    look = Look("step", from_zero=True)
    series = "seconds"
