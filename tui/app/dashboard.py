"""What every dashboard does: it draws what has changed, and opens the screens."""

from __future__ import annotations

import asyncio
import sys
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

from rich.console import RenderableType
from textual._compositor import ChopsUpdate
from textual.events import Event, Resize
from textual.message import Message
from textual.screen import Screen

from remote.plan.serialize import OtherFormat
from remote.record.events_file import RunFolderError
from tui.app.file_saving import Saving
from tui.app.key_bindings import Keyed
from tui.app.quitting import Leaving, W
from tui.kit.dialogs import Dialog, Leave, TooSmall, is_too_small
from tui.kit.messages import CompareRuns, ReadRecord, ScreenRequest, ShowChecks, ShowRank
from tui.kit.run_session import LiveScreen
from tui.kit.widgets.changes import Changes, Written

TICK = 0.5
"""Seconds between two drawings."""
BLURRED = 4
"""Without focus, the terminal is drawn only at one of this many ticks."""
SWITCH = 0.001
"""Seconds for which another thread, such as the one that reads records, may keep a frame waiting.
Drawing gives way to it many times a frame, so that Python's 5 ms would add up."""


class Dashboard(Keyed, Saving, Leaving[W]):
    """A dashboard over some work."""

    TITLE = "rankboard"
    CSS = "ToastRack { align-horizontal: right; margin-bottom: 2; }"

    acts: ClassVar[bool] = True
    """Whether anything can be asked of the runs."""

    def __init__(self, runs: W) -> None:
        super().__init__(runs)
        self._ticks = 0
        self._turned = 0.0
        self._written = Written()

    def on_mount(self) -> None:
        sys.setswitchinterval(SWITCH)
        if not self.is_headless:
            self.handle_signals()
        self.open()
        self.tell_remarks()
        self.screen_change_signal.subscribe(self, self._turn, immediate=True)
        self.set_interval(TICK, self._on_time)

    def open(self) -> None:
        """Show the first screen."""
        raise NotImplementedError

    def _display(self, screen: Screen[Any], renderable: RenderableType | None) -> None:
        """Draw an update, of which only changed cells are written."""
        if isinstance(renderable, ChopsUpdate):
            renderable = Changes(renderable, self._written)
        elif renderable is not None:
            self._written.forget()
        super()._display(screen, renderable)

    # Time

    def _on_time(self) -> None:
        self._ticks += 1
        if self.app_focus or self._leaving or self._ticks % BLURRED == 0:
            self.tick()

    def tick(self) -> None:
        """Draw what has changed, and exit once the work that the user wants to leave has ended."""
        if not self.is_running:
            return
        self.runs.raise_errors()
        live = self.runs.live
        if not live and isinstance(self.screen, Dialog) and self.screen.of_live:  # out of date
            self.screen.dismiss(Leave.STAY)
        for screen in self.screen_stack:
            hidden = isinstance(self.screen, TooSmall) or not screen.is_mounted
            if isinstance(screen, LiveScreen) and not hidden:
                screen.tick()
        if not live and self.is_left:
            self.exit()

    @property
    def folder(self) -> Path:
        return self.runs.folder

    def folder_of(self, run: str) -> Path | None:
        return self.runs.folder_of(run)

    def on_resize(self, event: Resize) -> None:
        small = is_too_small(event.size)
        if small and not isinstance(self.screen, TooSmall):
            self.push_screen(TooSmall())
        elif not small and isinstance(self.screen, TooSmall):
            self.pop_screen()

    # Screens

    def _turn(self, screen: Screen[Any]) -> None:
        """Another screen is shown: what was asked before does not count any more."""
        self._turned = Message().time

    async def on_event(self, event: Event) -> None:
        """Handle an event, unless it asks, too late, for another screen."""
        if not (isinstance(event, ScreenRequest) and (self._exiting or event.time < self._turned)):
            await super().on_event(event)

    def on_show_checks(self, message: ShowChecks) -> None:
        from tui.doctor.screen import DoctorScreen

        session = self.shown
        if session:
            self.push_screen(DoctorScreen(session))

    def on_show_rank(self, message: ShowRank) -> None:
        from tui.run.rank_screen import RankScreen

        session = self.shown
        if session:
            self.push_screen(RankScreen(session, message.rank, asks=self.acts))

    def on_show_stacks(self) -> None:
        from tui.run.stacks_screen import StacksScreen

        session = self.shown
        if session:
            self.push_screen(StacksScreen(session, asks=self.acts))

    def on_compare_run(self) -> None:
        from tui.compare.alike import PickAlike

        session = self.shown
        runs_dir = self.runs.runs_dir
        if session:
            run = session.plan.run
            self.push_screen(PickAlike(run, runs_dir), partial(self._compare, runs_dir, run))

    def _compare(self, runs_dir: Path, run: str, other: str | None) -> None:
        """Compare a run with the one that the user has chosen, if any. The other one is the
        reference: what has changed since?"""
        if other:
            self.post_message(CompareRuns((runs_dir / other, runs_dir / run)))

    def on_compare_runs(self, message: CompareRuns) -> None:
        from tui.compare.screen import CompareScreen  # whose figures take a while to load

        self.push_screen(CompareScreen(message.folders))

    def on_read_record(self, message: ReadRecord) -> None:
        self.run_worker(self._read_record(message))

    async def _read_record(self, message: ReadRecord) -> None:
        found = None
        with suppress(RunFolderError, OtherFormat):  # a coarse chart stays
            found = await asyncio.to_thread(message.read, self.runs.runs_dir / message.name)
        message.take(found)
