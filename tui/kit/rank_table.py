"""The table of ranks, as a widget: its cursor stays on the rank or host that was chosen."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct
from textual import events
from textual.message import Message
from textual.strip import Strip

from remote.run.state.rank_state import RankState
from tui.kit.actions import KeyPlace
from tui.kit.bindings import bindings
from tui.kit.widgets.choices import ChoiceTable
from tui.kit.widgets.table import CellTable, TableColumn, TableRow


class RankTableLine(Struct, frozen=True):
    """One line of the table: a rank, or all ranks of a host.

    Of a host's ranks, the one that most needs attention comes first.
    """

    ranks: Sequence[RankState]
    of_host: int = -1
    """The host that the line shows as a whole, or -1 if it shows one rank."""
    is_process: bool = False
    """It shows a process that has started ranks itself: these stand in the lines below."""

    @property
    def key(self) -> int:
        """Return the rank's number, or a negative number that is unique to the host or process."""
        if self.is_process:
            return -1 - self.ranks[0].rank
        return -1 - self.of_host if self.of_host >= 0 else self.ranks[0].rank


class RankTable(ChoiceTable):
    """Lines that may change their places. The cursor is drawn while the table has the keys."""

    place = KeyPlace.ROWS
    BINDINGS = bindings(place)

    class Opened(Message):
        """The line under the cursor is to be opened."""

        def __init__(self, line: RankTableLine) -> None:
            super().__init__()
            self.line = line

    def __init__(self) -> None:
        super().__init__(())
        self._lines: Sequence[RankTableLine] = ()
        self._chosen: int | None = None

    def stand(
        self,
        columns: Sequence[TableColumn],
        lines: Sequence[RankTableLine],
        rows: Sequence[TableRow],
    ) -> None:
        """Show these lines, of which these are the rows."""
        self._lines = lines
        self.fill(rows, columns)
        line_keys = [line.key for line in lines]
        old_cursor = self.cursor
        new_cursor = self.validate_cursor(old_cursor)
        if self._chosen in line_keys:
            new_cursor = line_keys.index(self._chosen)
        if new_cursor != old_cursor:
            # Not by assignment: `watch_cursor` would take the new row for the user's choice.
            self.set_reactive(RankTable.cursor, new_cursor)
            self.show_cursor()

    @property
    def chosen_rank(self) -> RankState | None:
        """The rank that the user has gone to; of a host, the one that needs most to be seen."""
        chosen_line = next(
            (chosen_line for chosen_line in self._lines if chosen_line.key == self._chosen), None
        )
        if chosen_line is None or chosen_line.is_process:
            return None
        return chosen_line.ranks[0]

    def watch_cursor(self) -> None:
        super().watch_cursor()
        if self._lines:
            self._chosen = self._lines[self.cursor].key

    def render_line(self, y: int) -> Strip:
        return super().render_line(y) if self.has_focus else CellTable.render_line(self, y)

    def on_focus(self) -> None:
        self.refresh()

    def on_blur(self) -> None:
        self.refresh()

    def on_click(self, event: events.Click) -> None:
        super().on_click(event)
        # A double click, but not on the head.
        if event.y and event.chain > 1:
            self.action_open()

    def action_open(self) -> None:
        """Tell which line is to be opened."""
        if self._lines:
            self.post_message(self.Opened(self._lines[self.cursor]))
