"""The line in which the text of a field is edited, at its place in the form."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

from textual.binding import Binding, BindingType
from textual.geometry import Region
from textual.widgets import Input


class Editor(Input):
    """Hidden until a text is edited. What is typed counts at once; escape takes it back."""

    DEFAULT_CSS = """
    Editor { position: absolute; layer: above; display: none; }
    Editor, Editor:focus { height: 1; padding: 0; border: none; background: $surface-lighten-2; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "leave(0)", show=False),
        Binding("down,tab", "leave(1)", show=False),
        Binding("up,shift+tab", "leave(-1)", show=False),
        Binding("escape", "undo", show=False),
    ]

    def __init__(self) -> None:
        super().__init__(compact=True, select_on_focus=False)
        self._before = ""
        self._typed: Callable[[str], object] | None = None
        self._left: Callable[[int], object] = abs

    def edit(
        self,
        text: str,
        at: Region,
        typed: Callable[[str], object],
        left: Callable[[int], object],
        begin: str = "",
    ) -> None:
        """Edit a text at a place of the screen.

        `typed` is told of each other text, and `left` of the end, with how many rows to go down.
        `begin` takes the place of the text.
        """
        self._before, self._typed, self._left = text, typed, left
        self.move(at)
        self.display = True
        with self.prevent(Input.Changed):
            self.value = begin or text
        if begin:
            typed(begin)
        self.cursor_position = len(self.value)
        self.focus()

    def move(self, at: Region) -> None:
        """Go to another place of the screen."""
        self.styles.offset = (at.x, at.y)
        self.styles.width = at.width

    def on_input_changed(self, event: Input.Changed) -> None:
        event.stop()
        if self._typed:
            self._typed(event.value)

    def on_blur(self) -> None:
        if self.app.app_focus:  # the terminal may come back
            self.action_leave(0)

    def action_leave(self, step: int) -> None:
        """End, and keep the text."""
        if self._typed:
            self._typed = None
            self.display = False
            self._left(step)

    def action_undo(self) -> None:
        """End, with the text of before."""
        if self._typed:
            self._typed(self._before)
        self.action_leave(0)
