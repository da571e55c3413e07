"""What all panels have: a title, a place on the screen, keys, and `show`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from textual.containers import Container
from textual.content import Content
from textual.geometry import Region

from remote.run.run_state import RunState
from tui.kit import palette
from tui.kit.actions import KeyPlace
from tui.kit.widgets.keys import ShownKey, border_keys, draw_border_keys
from tui.kit.widgets.lines import SteadyWidget

KEY_MARGIN = 6
"""Cells of the border around title and keys."""


class Panel(Container, SteadyWidget):
    """A part of the run screen: one file, and one entry in `tui.run.panels`.

    The title stands in the upper border, after the number of the key that focuses the panel.
    """

    DEFAULT_CSS = """
    Panel { border-top: solid $ink-rule; border-title-color: $text-muted; height: 1fr; }
    Panel:focus-within {
        border-top: heavy $primary; border-title-color: $text; border-title-style: bold;
    }
    """
    ALLOW_MAXIMIZE = True
    title: str
    help: ClassVar[str]
    """What the panel shows, for the help."""
    copies: ClassVar[int] = 1
    """How many of it there are: as many as the largest screen has room for."""
    place: ClassVar[KeyPlace]
    """Whose actions it has, see `tui.kit.actions`."""
    number = 0
    has_key_border: ClassVar[bool] = True
    """Its keys stand in its border while it has the focus, and not in the last line."""
    are_facts_minor: ClassVar[bool] = False
    """The facts of its caption get the room that its keys leave; else keys get what they leave."""
    _note: Content | str = ""
    _facts: Sequence[str] = ()
    _before_facts = ""
    _remark = ""
    _keys: Sequence[ShownKey] = ()

    def show(self, run: RunState) -> None:
        """Copy what is drawn from the run, whose lock is held; draw later."""
        raise NotImplementedError

    @property
    def layered(self) -> bool:
        """Whether there is a layer to leave before the screen, such as a zoom."""
        return False

    def leave(self) -> None:
        """Leave that layer."""

    @property
    def reads_note(self) -> bool:
        """Whether the note beside the title has room before keys; else they share it."""
        return True

    def on_mount(self) -> None:
        self.caption()
        self.screen.bindings_updated_signal.subscribe(self, self._show_keys)

    def _show_keys(self, _: object) -> None:
        # Once the focus has moved, from which it follows which keys work.
        self.call_after_refresh(self._take_keys)

    def _take_keys(self) -> None:
        if self.is_attached:
            self._keys = border_keys(self) if self.has_focus_within else ()
            self._draw_caption()

    def renumber(self, number: int) -> None:
        """Show that it has the key of this number."""
        if number != self.number:
            self.number = number
            self._draw_caption()

    def caption(
        self,
        note: Content | str = "",
        facts: Sequence[str] = (),
        *,
        before_facts: str = ", ",
        remark: str = "",
    ) -> None:
        """Write the title, and a note after it; then as many of the facts as fit as a whole, and
        the remark where there is room left."""
        self._note = note
        self._facts = facts
        self._before_facts = before_facts
        self._remark = remark
        self._draw_caption()

    def _draw_caption(self) -> None:
        """Write the title and the note, and at the right the keys of a panel with the focus."""
        number = palette.panel_number(self.number)
        note = self._note
        # A frame has blanks around its title of its own.
        blank = "" if self.styles.border_left[0] else " "
        room = self.size.width - KEY_MARGIN
        caption_content = Content.assemble(
            blank, (number, "bold $primary"), self.title, "  " if note else "", note
        )
        room_for_facts = room - caption_content.cell_length
        if self._keys and self.are_facts_minor:
            room_for_facts -= draw_border_keys(self._keys, room_for_facts).cell_length
        facts_text = self._fitting_facts(room_for_facts)
        caption_content = Content.assemble(caption_content, facts_text, blank)
        if self._keys:
            # Keys may have the say over the end of a long note, but not over all of it.
            least_for_keys = 0 if self.reads_note else room // 2
            room_for_keys = max(room - caption_content.cell_length, least_for_keys)
            keys = draw_border_keys(self._keys, room_for_keys)
            if keys:
                caption_content = caption_content.truncate(room - keys.cell_length, ellipsis=True)
                num_free = room - caption_content.cell_length - keys.cell_length
                rule = (palette.sign("focus") * num_free, "not bold $primary")
                caption_content = Content.assemble(caption_content, rule, keys)
        # `is_same` compares colours too: the theme may have changed
        if self._border_title is None:
            self.border_title = caption_content
        elif not caption_content.is_same(self._border_title):
            self._border_title = caption_content  # `border_title` draws the whole panel again
            # The border alone, which lies above the content.
            self.refresh(Region(0, -1, self.size.width, 1))

    def _fitting_facts(self, room: int) -> str:
        """Return as many facts as there is room for: half of one would be another one. The remark
        follows where all fit."""
        facts_text = ""
        for fact in self._facts:
            longer_text = f"{facts_text}, {fact}" if facts_text else f"{self._before_facts}{fact}"
            if len(longer_text) > room:
                return facts_text
            facts_text = longer_text
        remark_text = f"  {self._remark}" if self._remark else ""
        return facts_text + (remark_text if len(facts_text + remark_text) <= room else "")


class TablePanel(Panel):
    """A panel with a table that is not drawn at each tick. `is_asked`: there are rows in view that
    were not drawn yet, which cannot wait."""

    is_asked = True

    def on_cell_table_uncovered(self) -> None:
        self.is_asked = True

    def on_resize(self) -> None:
        self.is_asked = True
