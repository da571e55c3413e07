"""Dialogs that return a choice from a list, or a line of text that is typed."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from typing import Generic, TypeVar

from textual.app import ComposeResult
from textual.containers import Vertical
from textual.content import Content
from textual.events import Key
from textual.screen import ModalScreen
from textual.widget import Widget
from textual.widgets import Input, OptionList, Static

from tui.kit import palette
from tui.kit.actions import KeyPlace
from tui.kit.bindings import bindings, key_of

PAUSE = 1.0
"""Seconds after which letters begin another word."""
ResultT = TypeVar("ResultT")


class BoxDialog(ModalScreen[ResultT | None], Generic[ResultT]):
    """A box in the middle of the screen. The result is None if the user leaves it."""

    DEFAULT_CSS = """
    BoxDialog { align: center middle; background: $background 50%; }
    BoxDialog Vertical {
        width: 76; max-width: 100%; height: auto; max-height: 100%; padding: 0 1;
        border: round $primary; background: $surface;
    }
    BoxDialog Static { width: 1fr; height: auto; color: $text-muted; }
    BoxDialog OptionList, BoxDialog OptionList:focus {
        height: auto; max-height: 20; border: none; padding: 0;
        background: $surface; background-tint: $surface 0%;
        scrollbar-size-vertical: 1;
    }
    """

    other_keys = ""
    """Keys that end the dialog, too, with a comma behind them."""

    def __init__(self, title: str) -> None:
        super().__init__()
        self._title = title

    def compose(self) -> ComposeResult:
        with Vertical() as box:
            box.border_title = self._title
            box.border_subtitle = f"{self.other_keys}{key_of(self.app, 'back')}"
            yield from self.compose_box()

    def compose_box(self) -> Iterable[Widget]:
        """Yield what is in the box."""
        raise NotImplementedError

    def action_move(self, action: str) -> None:
        """Move in the list by an action of `OptionList`, such as `cursor_down`."""
        # The methods of `OptionList` are its own actions, so its bounds and wrapping stay.
        move_cursor = getattr(self.query_one(OptionList), f"action_{action}")
        move_cursor()

    def action_back(self) -> None:
        self.dismiss(None)


class ChoiceDialog(BoxDialog[str]):
    """A choice from a list. Typing letters moves to the choice that begins with them."""

    place = KeyPlace.CHOICE
    BINDINGS = bindings(place)

    def __init__(self, title: str, help: str, choices: Sequence[str], current: str) -> None:
        super().__init__(title)
        self._help = help
        self._choices = choices
        self._current = current
        self._typed = ""
        self._typed_at = -PAUSE

    def compose_box(self) -> Iterable[Widget]:
        yield Static(self._help, markup=False)
        # As content, since brackets in a plain text would be markup.
        yield OptionList(*map(Content, self._choices))

    def on_mount(self) -> None:
        option_list = self.query_one(OptionList)
        option_list.focus()
        if self._current in self._choices:
            option_list.highlighted = self._choices.index(self._current)

    def on_key(self, event: Key) -> None:
        """Go to the choice that begins with what is typed. A letter that begins none is a key."""
        letter = (event.character or "").lower()
        if not letter.isprintable() or letter in ("", " "):
            return
        beginnings = [letter]
        if event.time - self._typed_at < PAUSE:
            beginnings.insert(0, self._typed + letter)
        for beginning in beginnings:
            choice_number = self._find_choice(beginning)
            if choice_number is not None:
                self._typed = beginning
                self._typed_at = event.time
                self.query_one(OptionList).highlighted = choice_number
                event.stop()
                # The list has keys of its own, such as j and k, which are letters, too.
                event.prevent_default()
                return

    def _find_choice(self, beginning: str) -> int | None:
        """Return the number of the next choice that begins so, from the present one on.

        A single letter goes on from the present choice, so that it can be typed again.
        """
        first_number = self.query_one(OptionList).highlighted or 0
        if len(beginning) == 1:
            first_number += 1
        num_choices = len(self._choices)
        for step in range(num_choices):
            choice_number = (first_number + step) % num_choices
            if self._choices[choice_number].lower().startswith(beginning):
                return choice_number
        return None

    def on_option_list_option_selected(self, event: OptionList.OptionSelected) -> None:
        self.dismiss(self._choices[event.option_index])


class CheckUse(Enum):
    """What is to be done with what has a check mark."""

    TAKE = "take"
    KEEP = "keep"
    RESET = "reset"


@dataclass(frozen=True)
class CheckChoice:
    """A line of a list with check marks."""

    name: str
    help: str
    is_checked: bool


@dataclass(frozen=True)
class Checked:
    """What has a check mark, in the order of the list."""

    use: CheckUse
    names: tuple[str, ...] = ()


class CheckListDialog(BoxDialog[Checked]):
    """A list of which any number of lines can have a check mark."""

    DEFAULT_CSS = """
    CheckListDialog #keys { margin-top: 1; }
    """
    place = KeyPlace.CHECK_LIST
    BINDINGS = bindings(place)

    def __init__(self, title: str, help: str, choices: Sequence[CheckChoice]) -> None:
        super().__init__(title)
        self._help = help
        self._choices = list(choices)

    def compose_box(self) -> Iterable[Widget]:
        yield Static(self._help, markup=False)
        yield OptionList(*map(self._draw_choice, self._choices))
        keys = {
            "check-mark": "show or hide",
            "take-checked": "done",
            "keep-layout": "done, and keep this layout",
            "reset-charts": "reset",
        }
        texts = [f"{key_of(self.app, name)} {text}" for name, text in keys.items()]
        yield Static("   ".join(texts), id="keys", markup=False)

    def on_mount(self) -> None:
        self.query_one(OptionList).focus()

    def _draw_choice(self, choice: CheckChoice) -> Content:
        sign = palette.sign("good") if choice.is_checked else " "
        width = max(len(other.name) for other in self._choices) + 2
        return Content.assemble(f"{sign} {choice.name:<{width}}", (choice.help, "$text-muted"))

    def action_check_mark(self) -> None:
        """Set or remove the check mark of the line with the cursor."""
        options = self.query_one(OptionList)
        number = options.highlighted
        if number is not None:
            choice = self._choices[number]
            self._choices[number] = replace(choice, is_checked=not choice.is_checked)
            options.replace_option_prompt_at_index(number, self._draw_choice(self._choices[number]))

    def action_take(self) -> None:
        """Take what has a check mark."""
        self._end(CheckUse.TAKE)

    def action_keep_layout(self) -> None:
        """Take it, and remember it."""
        self._end(CheckUse.KEEP)

    def action_reset_charts(self) -> None:
        """Go back to what is usual."""
        self.dismiss(Checked(CheckUse.RESET))

    def _end(self, use: CheckUse) -> None:
        names = tuple(choice.name for choice in self._choices if choice.is_checked)
        self.dismiss(Checked(use, names))

    def on_option_list_option_selected(self, event: OptionList.OptionSelected) -> None:
        """A click changes a check mark, as its key does."""
        self.action_check_mark()


class TextPrompt(BoxDialog[str]):
    """A line of text to type."""

    other_keys = "enter, "
    place = KeyPlace.TEXT
    BINDINGS = bindings(place)

    def __init__(self, title: str, help: str, text: str = "") -> None:
        super().__init__(title)
        self._help = help
        self._text = text

    def compose_box(self) -> Iterable[Widget]:
        yield Static(self._help, markup=False)
        yield Input(self._text, compact=True)

    def on_input_submitted(self, event: Input.Submitted) -> None:
        self.dismiss(event.value.strip())
