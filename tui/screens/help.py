"""The help of the dashboard: its keys. The panels describe themselves."""

from __future__ import annotations

from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.screen import ModalScreen
from textual.widgets import Static

from tui.panels import PANELS, panel_keys

WIDTH = 13
"""Columns of the names of keys."""
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
    panels = "".join(f"{kind.title:<{WIDTH + 4}}{kind.help}\n" for kind in PANELS)
    return f"{MOVING}{keys}{RUN}\nThe panels:\n{panels}\n{FORM}"


class HelpDialog(ModalScreen[None]):
    """The keys; first those of a screen beside the run screen and the form."""

    CSS = """
    HelpDialog { align: center middle; background: $background 50%; }
    HelpDialog VerticalScroll {
        width: 76; max-width: 100%; height: auto; max-height: 100%; padding: 0 1;
        border: round $primary; background: $surface; scrollbar-size-vertical: 1;
    }
    """
    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape,q,question_mark,f1,enter", "dismiss")]

    def __init__(self, first: str = "") -> None:
        super().__init__()
        self._first = f"{first}\nOver a run:\n" if first else ""

    def compose(self) -> ComposeResult:
        with VerticalScroll() as box:
            box.border_title = "keys"
            box.border_subtitle = "esc"
            yield Static(f"{self._first}{help_text()}".rstrip(), markup=False)
