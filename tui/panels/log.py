"""The log pane."""

from __future__ import annotations

from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import BindingType

from remote.run.state import RunState
from tui.actions import Place, bindings
from tui.panels.parts.panel import Panel, ScreenRow
from tui.widgets.log_view import LogView


class Log(Panel):
    """The output of ranks and hosts, and what the session does."""

    title = "log"
    help = "the output of ranks and hosts, and what rankboard does"
    row = ScreenRow.BOTTOM
    place = Place.LOG
    BINDINGS: ClassVar[list[BindingType]] = bindings(place)

    def compose(self) -> ComposeResult:
        self._ranks = 0
        yield LogView()

    def show(self, run: RunState) -> None:
        self._ranks = len(run.ranks)
        self.query_one(LogView).show(run.log.lines, run.log.count)
        self._describe()

    def action_next_rank(self) -> None:
        """Show only the next rank; after the last one hosts and session, then all."""
        order = [None, *range(self._ranks), -1]
        view = self.query_one(LogView)
        view.rank = order[(order.index(view.rank) + 1) % len(order)]

    def action_all_ranks(self) -> None:
        """Show the lines of all ranks."""
        self.query_one(LogView).rank = None

    def action_follow(self) -> None:
        """Follow the newest line, or stop following."""
        view = self.query_one(LogView)
        view.follow = not view.follow

    def on_log_view_changed(self) -> None:
        self._describe()

    def _describe(self) -> None:
        view = self.query_one(LogView)
        match view.rank:
            case None:
                who = "all ranks"
            case -1:
                who = "hosts and session"
            case rank:
                who = f"rank {rank}"
        self.caption(f"{who}, " + ("following" if view.follow else f"paused, {view.unseen} new"))
