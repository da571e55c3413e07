"""The dialogs over a screen: how to leave a live run, and that the terminal is too small."""

from __future__ import annotations

import math
from enum import Enum

from textual.app import ComposeResult
from textual.containers import Horizontal, VerticalScroll
from textual.content import Content
from textual.geometry import Size
from textual.message import Message
from textual.screen import ModalScreen, Screen
from textual.widgets import Button, Static

from remote.format import count
from tui.kit.actions import KeyPlace
from tui.kit.bindings import bindings, key_of

MIN_TERMINAL = (40, 10)
"""Columns and rows below which nothing is shown."""


def is_too_small(size: Size) -> bool:
    """Return True if nothing can be shown on a terminal of that size."""
    return size.width < MIN_TERMINAL[0] or size.height < MIN_TERMINAL[1]


MAX_TEXT_WIDTH = 120
"""Columns of a box with a text to read, at most."""
BORDER_WIDTH = len("│  │") + 1
"""Columns of the box that are not the text's."""


class Leave(Enum):
    """The answers to the question how to leave a live run."""

    STOP = "stop"
    STOP_AND_QUIT = "stop_and_quit"
    DETACH = "detach"
    NOW = "now"
    DELETE = "delete"
    DISCARD = "discard"
    ACCEPT = "accept"
    AS_IS = "as_is"
    STAY = "stay"


HARMLESS_ANSWERS = (Leave.STAY, Leave.DETACH, Leave.ACCEPT)
ANSWER_ACTIONS = {Leave.STAY: "back", Leave.DETACH: "detach", Leave.NOW: "leave-now"}
"""The actions of answers, see `tui.kit.actions`. To stop a run takes more than a key."""


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
    Dialog Button.-style-default { margin: 0 1; min-width: 8; background: $panel; color: $text; }
    Dialog Button.-style-default.-error { background: $panel; color: $text-error; }
    Dialog Button.-style-default:focus { text-style: bold reverse; background-tint: transparent; }
    """
    HORIZONTAL_BREAKPOINTS = [(0, "-narrow"), (66, "-wide")]  # noqa: RUF012
    # Enter alone changes nothing: it gives the answer that has the focus.
    AUTO_FOCUS = "#stay"
    place = KeyPlace.DIALOG
    BINDINGS = bindings(place)
    question: str
    answers: tuple[tuple[Leave, str], ...]
    of_live = True
    """Whether the question is about a live run, and goes with it."""
    drawn = math.inf
    """When the question was first on the screen, by the clock of events."""

    def on_mount(self) -> None:
        # Keys that were typed before this do not answer a question that nobody has read.
        self.call_after_refresh(self._see)

    def _see(self) -> None:
        self.drawn = Message().time

    def compose(self) -> ComposeResult:
        with VerticalScroll(can_focus=False):  # the arrow keys are for the answers
            yield Static(self.question, markup=False)
            with Horizontal():
                for answer, text in self.answers:
                    yield Button(
                        Content(self._label(answer, text)),
                        "default" if answer in HARMLESS_ANSWERS else "error",
                        id=answer.value,
                        compact=True,
                    )

    def on_button_pressed(self, event: Button.Pressed) -> None:
        self.action_answer(event.button.id or Leave.STAY.value)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Allow only the answers that the question offers."""
        offered_answers = [answer.value for answer, _ in self.answers]
        return action != "answer" or parameters[0] in offered_answers

    def action_back(self) -> None:
        """Close the dialog, and stay."""
        self.dismiss(Leave.STAY)

    def action_answer(self, answer: str) -> None:
        """Close the dialog with this answer."""
        self.dismiss(Leave(answer))

    def _label(self, answer: Leave, text: str) -> str:
        """Return an answer with its key, if it has one."""
        action_name = ANSWER_ACTIONS.get(answer)
        return f"{text} ({key_of(self.app, action_name)})" if action_name else text


class QuitDialog(Dialog):
    """The question how to leave a live run."""

    def __init__(
        self,
        keep: bool,
        ends: str,
        waits: bool,
        others: int = 0,
        *,
        this: bool = True,
        name: str = "RUN",
    ) -> None:
        """Word the question.

        `keep`: the run continues without a launcher. `ends`: why it cannot; "" if it can. `waits`:
        it may have to be restarted, which takes a launcher. `others`: how many more runs are live.
        `this`: the run that is shown is live. `name`: that of the only run.
        """
        super().__init__()
        num_live = others + this
        if num_live == 1:
            runs_text, pronoun, all_text = "The run is", "it", ""
            outcome_text = "continues" if keep else "stops"
        else:
            runs_text, pronoun, all_text = f"{num_live} runs are", "they", " all"
            outcome_text = "continue" if keep else "stop"
        question_lines = [
            f"{runs_text} still live. If this terminal is lost, {pronoun} {outcome_text}."
        ]
        if ends:
            question_lines.append(f"It cannot be left: {ends}.")
        else:
            restarts_text = "Until you reattach, a failed run is not restarted. " if waits else ""
            object_pronoun = "it" if num_live == 1 else "them"
            question_lines.append(
                f"Detach leaves {object_pronoun} running. {restarts_text}To reattach:"
            )
            question_lines.append(f"  rankboard attach {name}")
        question_lines.append("To stop, select Stop with the arrow keys and press enter.")
        self.question = "\n".join(question_lines)
        answers = [(Leave.STAY, "Watch")]
        if not ends:
            answers.append((Leave.DETACH, f"Detach{all_text}"))
        if this:
            answers.append((Leave.STOP, "Stop" if num_live == 1 else "Stop this"))
        answers.append((Leave.STOP_AND_QUIT, f"Stop{all_text} and quit"))
        self.answers = tuple(answers)


class StudyDialog(Dialog):
    """The question whether to stop a study."""

    answers = (
        (Leave.STAY, "Watch"),
        (Leave.STOP, "Stop"),
        (Leave.STOP_AND_QUIT, "Stop and quit"),
    )
    question = (
        "The study is still running. If you stop it, the run under way is stopped, too, and made "
        "again later: the same command continues the study.\n"
        "To stop it, select Stop with the arrow keys and press enter."
    )


class DeleteDialog(Dialog):
    """The question whether to delete a run."""

    answers = ((Leave.STAY, "Keep"), (Leave.DELETE, "Delete"))
    of_live = False

    def __init__(self, question: str) -> None:
        super().__init__()
        self.question = question


class DiscardDialog(Dialog):
    """The question whether to leave a form that was changed."""

    answers = ((Leave.STAY, "Stay"), (Leave.DISCARD, "Leave"))
    of_live = False

    def __init__(self, changed: int) -> None:
        super().__init__()
        self.question = f"Leave the form? {count(changed, 'changed setting')} would be lost."


class PastedDialog(Dialog):
    """The question whether to start a line with placeholders that was typed for one node."""

    answers = (
        (Leave.STAY, "Back"),
        (Leave.ACCEPT, "Start with placeholders"),
        (Leave.AS_IS, "Start as it is"),
    )
    of_live = False

    def __init__(self, problem: str, command_line: str) -> None:
        """`problem`: why the ranks cannot all have the line as it was typed."""
        super().__init__()
        self.question = f"{problem}. Each rank gets its own place with\n  {command_line}"


class LeaveDialog(Dialog):
    """The question whether to wait for a run that is stopping."""

    question = (
        "The run is stopping. Leave without waiting for its end? The hosts then stop it on their "
        "own."
    )
    answers = ((Leave.STAY, "Wait"), (Leave.NOW, "Leave now"))


class TextDialog(ModalScreen[None]):
    """A text to read, in the middle of the screen; the box is as wide as its lines, up to
    `MAX_TEXT_WIDTH`."""

    DEFAULT_CSS = """
    TextDialog { align: center middle; background: $background 50%; }
    TextDialog VerticalScroll {
        min-width: 76; max-width: 100%; height: auto; max-height: 100%; padding: 0 1;
        border: round $primary; background: $surface; scrollbar-size-vertical: 1;
    }
    """
    place = KeyPlace.TEXT
    BINDINGS = bindings(place)

    def __init__(self, title: str, text: str | Content) -> None:
        super().__init__()
        self._title = title
        self._text = Content(text) if isinstance(text, str) else text

    def compose(self) -> ComposeResult:
        with VerticalScroll() as box:
            box.styles.width = min(
                MAX_TEXT_WIDTH, max(map(len, self._text.plain.split("\n"))) + BORDER_WIDTH
            )
            box.border_title = self._title
            box.border_subtitle = key_of(self.app, "back")
            # Never markup: the text may be a host's.
            yield Static(self._text.rstrip(), markup=False)

    def action_back(self) -> None:
        self.dismiss()


class TooSmall(Screen[None]):
    """In place of everything while the terminal is smaller than `MIN_TERMINAL`."""

    CSS = """
    TooSmall { align: center middle; }
    TooSmall Static { width: 1fr; text-align: center; }
    """

    def on_screen_resume(self) -> None:
        """Go, where the terminal has grown while a dialog lay over this."""
        if not is_too_small(self.app.size):
            self.dismiss()

    def compose(self) -> ComposeResult:
        yield Static(
            f"terminal too small: it needs {MIN_TERMINAL[0]}x{MIN_TERMINAL[1]}", markup=False
        )
