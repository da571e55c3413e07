"""Dialogs that return a choice from a list, or a line of text that is typed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.events import Key
from textual.screen import ModalScreen
from textual.widgets import Input, OptionList, Static
from textual.widgets.option_list import Option

from tui.kit.actions import Place
from tui.kit.bindings import bindings, key_of

CSS = """
{0} {{ align: center middle; background: $background 50%; }}
{0} Vertical {{
    width: 76; max-width: 100%; height: auto; max-height: 100%; padding: 0 1;
    border: round $primary; background: $surface;
}}
{0} Static {{ width: 1fr; height: auto; color: $text-muted; }}
{0} OptionList, {0} OptionList:focus {{
    height: auto; max-height: 20; border: none; padding: 0;
    background: $surface; background-tint: $surface 0%;
    scrollbar-size-vertical: 1;
}}
"""


PAUSE = 1.0
"""Seconds after which letters begin another word."""


class ChoiceDialog(ModalScreen[str | None]):
    """A choice out of a list, which one may type; the result is None where the user leaves it."""

    DEFAULT_CSS = CSS.format("ChoiceDialog")
    place = Place.CHOICE
    BINDINGS: ClassVar[list[BindingType]] = bindings(place)

    def __init__(self, title: str, help: str, choices: Sequence[str], current: str) -> None:
        super().__init__()
        self._title = title
        self._help = help
        self._choices = choices
        self._current = current
        self._typed = ""
        self._typed_at = -PAUSE

    def compose(self) -> ComposeResult:
        with Vertical() as box:
            box.border_title = self._title
            box.border_subtitle = key_of(self.app, "back")
            yield Static(self._help, markup=False)
            yield OptionList(*(Option(Content(one), id=f"at-{n}") for n, one in self._numbered()))

    def _numbered(self) -> Sequence[tuple[int, str]]:
        return list(enumerate(self._choices))

    def on_mount(self) -> None:
        shown = self.query_one(OptionList)
        shown.focus()
        if self._current in self._choices:
            shown.highlighted = self._choices.index(self._current)

    def on_key(self, event: Key) -> None:
        """Go to the choice that begins with what is typed. A letter that begins none is a key."""
        letter = (event.character or "").lower()
        if not letter.isprintable() or letter in ("", " "):
            return
        is_on = event.time - self._typed_at < PAUSE
        for typed in (self._typed + letter, letter) if is_on else (letter,):
            found = self._beginning(typed)
            if found is not None:
                self._typed = typed
                self._typed_at = event.time
                self.query_one(OptionList).highlighted = found
                event.stop()
                event.prevent_default()
                return

    def _beginning(self, typed: str) -> int | None:
        """The next choice that begins so; one letter goes on from the present choice."""
        here = (self.query_one(OptionList).highlighted or 0) + (len(typed) == 1)
        places = [*range(here, len(self._choices)), *range(here)]
        places = [at % len(self._choices) for at in places]
        return next((at for at in places if self._choices[at].lower().startswith(typed)), None)

    def on_option_list_option_selected(self, event: OptionList.OptionSelected) -> None:
        self.dismiss(self._choices[event.option_index])

    def action_move(self, action: str) -> None:
        getattr(self.query_one(OptionList), f"action_{action}")()

    def action_back(self) -> None:
        self.dismiss(None)


class TextPrompt(ModalScreen[str | None]):
    """A name to type; the result is None where the user leaves it."""

    DEFAULT_CSS = CSS.format("TextPrompt")
    place = Place.TEXT
    BINDINGS: ClassVar[list[BindingType]] = bindings(place)

    def __init__(self, title: str, help: str, text: str = "") -> None:
        super().__init__()
        self._title = title
        self._help = help
        self._text = text

    def compose(self) -> ComposeResult:
        with Vertical() as box:
            box.border_title = self._title
            box.border_subtitle = f"enter, {key_of(self.app, 'back')}"
            yield Static(self._help, markup=False)
            yield Input(self._text, compact=True)

    def on_input_submitted(self, event: Input.Submitted) -> None:
        self.dismiss(event.value.strip())

    def action_back(self) -> None:
        self.dismiss(None)
