"""What comes over a screen: the question at the end, the help, and the word that the terminal is
too small."""

from __future__ import annotations

import math
from enum import Enum
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, VerticalScroll
from textual.geometry import Size
from textual.message import Message
from textual.screen import ModalScreen, Screen
from textual.widgets import Button, Static

LEAST = (40, 10)
"""Columns and rows below which nothing is shown."""


def too_small(size: Size) -> bool:
    """Whether nothing can be shown on a terminal of that size."""
    return size.width < LEAST[0] or size.height < LEAST[1]


class Leave(Enum):
    """What a person answers to the question whether to leave a run that still goes on."""

    STOP = "stop"
    STOP_AND_QUIT = "stop_and_quit"
    DETACH = "detach"
    NOW = "now"
    STAY = "stay"


class Dialog(ModalScreen[Leave]):
    """A question in the middle of the screen. Escape stays. An answer that stops the run has no key
    of its own: it is chosen, then confirmed. What was typed before the question was drawn does not
    answer it."""

    DEFAULT_CSS = """
    Dialog { align: center middle; background: $background 50%; }
    Dialog > VerticalScroll {
        width: 76; max-width: 100%; height: auto; max-height: 100%; padding: 0 1;
        scrollbar-size-vertical: 1;
        border: round $primary; background: $surface;
    }
    Dialog Static { width: 1fr; margin: 0 1 1 1; }
    Dialog Horizontal { width: auto; height: auto; }
    Dialog.-narrow Static { margin: 0 1; }
    Dialog.-narrow Horizontal { layout: vertical; }
    Dialog Button { margin: 0 1; min-width: 8; }
    """
    HORIZONTAL_BREAKPOINTS = [(0, "-narrow"), (66, "-wide")]  # noqa: RUF012
    AUTO_FOCUS = "#stay"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "answer('stay')"),
        Binding("left,up,h", "app.focus_previous", show=False),
        Binding("right,down,l", "app.focus_next", show=False),
    ]
    question: str
    answers: tuple[tuple[Leave, str], ...]
    drawn = math.inf
    """When the question was first on the screen, by the clock of events."""

    def on_mount(self) -> None:
        self.call_after_refresh(self._see)

    def _see(self) -> None:
        self.drawn = Message().time

    def compose(self) -> ComposeResult:
        with VerticalScroll(can_focus=False):
            yield Static(self.question, markup=False)
            with Horizontal():
                for answer, text in self.answers:
                    yield Button(
                        text,
                        "primary" if answer is Leave.STAY else "error",
                        id=answer.value,
                        compact=True,
                    )

    def on_button_pressed(self, event: Button.Pressed) -> None:
        self.action_answer(event.button.id or Leave.STAY.value)

    def action_answer(self, answer: str) -> None:
        """Close the dialog with this answer."""
        self.dismiss(Leave(answer))


class QuitDialog(Dialog):
    """The run still goes on."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("d", "answer('detach')")]

    def __init__(self, keep: bool, leavable: bool, waits: bool) -> None:
        """`keep`: it is to go on without a launcher; `leavable`: it can; `waits`: it may have to be
        started again, for which a launcher is needed."""
        super().__init__()
        self._leavable = leavable
        gone = "goes on without it" if keep else "ends"
        self.question = f"The run still goes on; if this terminal is lost, it {gone}."
        self.answers = (
            (Leave.STAY, "Watch (esc)"),
            (Leave.STOP, "Stop"),
            (Leave.STOP_AND_QUIT, "Stop and quit"),
        )
        if leavable:
            self.question += "\nDetach leaves it to its hosts; rankboard attach comes back to it."
            self.question += " Until then it is not started again, should it fail." if waits else ""
            watch, *stops = self.answers
            self.answers = (watch, (Leave.DETACH, "Detach (d)"), *stops)
        self.question += "\nTo stop it, choose with the arrow keys and press enter."

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """No leaving where the run would not go on."""
        return self._leavable or parameters != ("detach",)


class LeaveDialog(Dialog):
    """The run is being stopped, and that takes its time."""

    question = (
        "The run is being stopped. Leave without waiting for its end? The hosts then end it by "
        "themselves."
    )
    answers = ((Leave.STAY, "Wait (esc)"), (Leave.NOW, "Leave now (q)"))
    BINDINGS: ClassVar[list[BindingType]] = [Binding("q", "answer('now')")]


HELP = """\
1 to 7       the panel of this number: ranks, hosts, loss, ...
tab          the next panel; shift+tab the one before
c            the next of hosts and charts
l            logarithmic y axis, on and off
z            the panel with the focus over the whole screen
arrows       scroll; page up and down, home, end
r            log of the next rank only; R of all ranks
f            follow the log; scrolling up pauses it
s            where every rank is: the stacks of all of them
D            what the checks before the start have found
e            save the screen as SVG in the run's folder
n            back to the launch form, once the run has ended
q            quit; asks first while a run goes on
ctrl+c       as q: no key stops a run by itself
ctrl+p       all commands of the screen, and the themes

In the launch form: tab and shift+tab move, enter opens a
choice, ctrl+s or f5 starts the run, f2 has the doctor check
the hosts, f1 helps, ctrl+q quits.
A rank's phases: waiting, importing, loading, rendezvous,
joining, training (or serving the others parameters),
evaluating, saving; then finished, failed (by itself),
victim (of another's failure), stopped or lost.
"""


class HelpDialog(ModalScreen[None]):
    """The keys."""

    CSS = """
    HelpDialog { align: center middle; background: $background 50%; }
    HelpDialog VerticalScroll {
        width: 67; max-width: 100%; height: auto; max-height: 100%; padding: 0 1;
        border: round $primary; background: $surface; scrollbar-size-vertical: 1;
    }
    """
    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape,q,question_mark,f1,enter", "dismiss")]

    def compose(self) -> ComposeResult:
        with VerticalScroll() as box:
            box.border_title = "keys"
            box.border_subtitle = "esc"
            yield Static(HELP.rstrip(), markup=False)


class TooSmall(Screen[None]):
    """In place of everything while the terminal is smaller than `LEAST`."""

    CSS = """
    TooSmall { align: center middle; }
    TooSmall Static { width: 1fr; text-align: center; }
    """

    def on_screen_resume(self) -> None:
        """Go, where the terminal has grown while a dialog lay over this."""
        if not too_small(self.app.size):
            self.dismiss()

    def compose(self) -> ComposeResult:
        yield Static(f"terminal too small: at least {LEAST[0]}x{LEAST[1]}", markup=False)
