"""The dashboard that compares recorded runs."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from tui.app.dashboard import Dashboard
from tui.compare.screen import CompareScreen
from tui.kit.no_live_runs import NoLiveRuns


class CompareApp(Dashboard[NoLiveRuns]):
    """Shows one screen, and ends with it."""

    def __init__(self, folders: Sequence[Path]) -> None:
        super().__init__(NoLiveRuns())
        self._folders = folders

    def open(self) -> None:
        self.push_screen(CompareScreen(self._folders), lambda _: self.exit())
