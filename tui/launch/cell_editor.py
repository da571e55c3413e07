"""The line in which the text of a field is edited, at its place in the form."""

from __future__ import annotations

from collections.abc import Callable

from textual.events import Key
from textual.geometry import Region
from textual.widgets import Input
from textual.widgets.input import Selection

STEPS = {"enter": 0, "down": 1, "tab": 1, "up": -1, "shift+tab": -1}
"""The keys that end an edit, and how many rows they go down."""


class CellEditor(Input):
    """Hidden until a text is edited. What is typed counts at once; escape takes it back.

    Keys count in the order in which they were typed, however late they are handled: Textual handles
    characters at once, but keys with bindings only after they came to the app. So those that end an
    edit have none, and what the keys behind them do is done here.
    """

    DEFAULT_CSS = """
    CellEditor { position: absolute; layer: above; display: none; }
    CellEditor, CellEditor:focus {
        height: 1; padding: 0; border: none; background: $surface-lighten-2;
    }
    """

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
        *,
        whole: bool = False,
    ) -> None:
        """Edit a text at a place of the screen.

        `typed` is told of each other text, and `left` of the end, with how many rows to go down.
        `begin` takes the place of the text; where it is `whole`, the first key does.
        """
        self._before = text
        self._typed = typed
        self._left = left
        self.move(at)
        self.display = True
        with self.prevent(Input.Changed):
            self.value = begin or text
        if begin:
            typed(begin)
        self.selection = Selection(0 if whole and not begin else len(self.value), len(self.value))
        self.screen.set_focus(self)

    def move(self, at: Region) -> None:
        """Go to another place of the screen."""
        self.styles.offset = (at.x, at.y)
        self.styles.width = at.width

    def on_input_changed(self, event: Input.Changed) -> None:
        event.stop()
        if self._typed:
            self._typed(event.value)

    async def _on_key(self, event: Key) -> None:
        if self._typed and event.key not in (*STEPS, "escape"):
            await super()._on_key(event)
            return
        event.stop()
        event.prevent_default()
        if not self._typed:
            await self._pass_on(event.key)
        elif event.key == "escape":
            self.value = self._before
            self.leave(0)
        else:
            self.leave(STEPS[event.key])

    async def _pass_on(self, key: str) -> None:
        """Do what a key does that was typed behind the end of the edit."""
        active = self.screen.active_bindings.get(key)
        if active and active.enabled:
            await self.app.run_action(active.binding.action, active.node)

    def on_blur(self) -> None:
        if self.app.app_focus and self.screen.focused is not self:  # the terminal may come back
            self.leave(0)

    def leave(self, step: int) -> None:
        """End, and keep the text; `step` is how many rows to go down."""
        typed = self._typed
        if typed:
            self._typed = None
            typed(self.value)
            self._left(step)
            self.display = False
