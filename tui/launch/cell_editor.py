"""The line in which the text of a field is edited, at its place in the form."""

from __future__ import annotations

from collections.abc import Callable

from textual.events import Key
from textual.geometry import Region
from textual.widgets import Input
from textual.widgets.input import Selection

ROWS_DOWN = {"enter": 0, "down": 1, "tab": 1, "up": -1, "shift+tab": -1}
"""The keys that end an edit, and how many rows they go down."""


class CellEditor(Input):
    """Hidden until a text is edited. What is typed counts at once; escape takes it back.

    Keys count in the order in which they were typed, however late they are handled. Textual handles
    characters at once, but keys with bindings only after they came to the app. So the keys that end
    an edit have no binding, and the editor itself runs the actions of keys that were typed after
    them.
    """

    DEFAULT_CSS = """
    CellEditor { position: absolute; layer: above; display: none; }
    CellEditor, CellEditor:focus {
        height: 1; padding: 0; border: none; background: $surface-lighten-2;
    }
    """

    def __init__(self) -> None:
        super().__init__(compact=True, select_on_focus=False)
        self._text_before = ""
        self._on_text: Callable[[str], object] | None = None
        self._on_end: Callable[[int], object] | None = None

    @property
    def is_editing(self) -> bool:
        """Return True while a text is edited."""
        return self._on_text is not None

    def edit(
        self,
        text: str,
        region: Region,
        on_text: Callable[[str], object],
        on_end: Callable[[int], object],
        typed: str = "",
        *,
        replaces_text: bool = False,
    ) -> None:
        """Edit a text in a region of the screen.

        `on_text` gets each other text, and `on_end` the number of rows to go down. `typed` takes
        the place of the text at once; if the edit `replaces_text`, the first key does.
        """
        self._text_before = text
        self._on_text = on_text
        self._on_end = on_end
        self.move(region)
        self.display = True
        # The text that was there before is no change.
        with self.prevent(Input.Changed):
            self.value = typed or text
        if typed:
            on_text(typed)
        end = len(self.value)
        self.selection = Selection(0 if replaces_text and not typed else end, end)
        self.screen.set_focus(self)

    def move(self, region: Region) -> None:
        """Go to another region of the screen."""
        self.styles.offset = (region.x, region.y)
        self.styles.width = region.width

    def on_input_changed(self, event: Input.Changed) -> None:
        event.stop()
        if self._on_text:
            self._on_text(event.value)

    async def _on_key(self, event: Key) -> None:
        if self.is_editing and event.key not in (*ROWS_DOWN, "escape"):
            await super()._on_key(event)
            return
        event.stop()
        event.prevent_default()
        if not self.is_editing:
            await self._run_key(event.key)
        elif event.key == "escape":
            self.value = self._text_before
            self.end()
        else:
            self.end(ROWS_DOWN[event.key])

    async def _run_key(self, key: str) -> None:
        """Run the action of a key that was typed after the end of the edit."""
        active = self.screen.active_bindings.get(key)
        if active and active.enabled:
            await self.app.run_action(active.binding.action, active.node)

    def on_blur(self) -> None:
        if self.app.app_focus and self.screen.focused is not self:  # the terminal may come back
            self.end()

    def end(self, rows_down: int = 0) -> None:
        """End the edit, if there is one, and keep the text."""
        on_text = self._on_text
        if on_text and self._on_end:
            # First, since what follows moves the focus, and a blur would end the edit once more.
            self._on_text = None
            # Changes are told by messages, and that of the last character may not have come yet.
            on_text(self.value)
            self._on_end(rows_down)
            self.display = False
