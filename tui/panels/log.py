"""The log pane."""

from __future__ import annotations

from textual.app import ComposeResult

from remote.run.state import RunState
from tui.panels.panel import Panel
from tui.widgets.log_view import LogView


class Log(Panel):
    """What the ranks, the hosts and the session say."""

    title = "log"

    def compose(self) -> ComposeResult:
        self._ranks = 0
        yield LogView()

    def show(self, run: RunState) -> None:
        self._ranks = len(run.ranks)
        self.query_one(LogView).show(run.log.lines, run.log.count)
        self._describe()

    def cycle_rank(self) -> None:
        """Show the next rank's lines only; after the last one those of hosts and session, then
        all."""
        order = [None, *range(self._ranks), -1]
        view = self.query_one(LogView)
        view.rank = order[(order.index(view.rank) + 1) % len(order)]

    def all_ranks(self) -> None:
        """Show the lines of all ranks."""
        self.query_one(LogView).rank = None

    def toggle_follow(self) -> None:
        """Stay at the newest line, or stop doing so."""
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
