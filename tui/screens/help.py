"""The help of the dashboard: its keys. The panels describe themselves."""

from __future__ import annotations

import textwrap
from typing import ClassVar

from textual.binding import Binding, BindingType

from tui.panels import PANELS, panel_keys
from tui.screens.dialogs import TextDialog

WIDTH = 13
"""Columns of the names of keys."""
LINE = 55
"""Columns of what a panel shows."""
MOVING = """\
1, 2, ...    focus a panel; tab and shift+tab: the next and previous
c            next of hosts and charts
z            zoom the focused panel
arrows       scroll; also page up, page down, home and end
"""
RUN = """\
s            stacks: where every rank is
D            results of the checks before the start
e            save the screen as SVG in the folder of the run
x            hide the alerts, as noted
!            all alerts of the run
n            back to the launch form, once the run has ended
q            quit; asks first while a run is live
ctrl+c       like q: no key stops a run without a question
ctrl+p       all commands, and the themes
"""
FORM = """\
In the launch form, tab and shift+tab move, enter opens a
choice, ctrl+s or f5 starts the run, f2 checks the hosts,
f1 shows this help, ctrl+q quits.

A rank is waiting, importing, loading, in the rendezvous,
joining, training (or serving parameters), evaluating or
saving; then it is finished, failed, a victim of another
rank's failure, stopped or lost.
"""


def help_text() -> str:
    """Describe the keys of the run screen, of its panels, and of the launch form."""
    keys = "".join(f"{key.key:<{WIDTH}}{key.help}\n" for key in panel_keys())
    panels = "".join(_described(kind.title, kind.help) for kind in PANELS)
    return f"{MOVING}{keys}{RUN}\nThe panels:\n{panels}\n{FORM}"


def _described(title: str, text: str) -> str:
    """A title, and its text in a column beside it."""
    first, *more = textwrap.wrap(text, LINE)
    return "".join(
        f"{name:<{WIDTH + 4}}{line}\n"
        for name, line in ((title, first), *(("", line) for line in more))
    )


class HelpDialog(TextDialog):
    """The keys; first those of a screen beside the run screen and the form."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("question_mark,f1", "dismiss")]

    def __init__(self, first: str = "") -> None:
        above = f"{first}\nOver a run:\n" if first else ""
        super().__init__("keys", f"{above}{help_text()}")
