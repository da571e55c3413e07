"""What every dashboard does: signals, time, dialogs, and the ways to leave."""

from __future__ import annotations

import asyncio
import gc
import os
import signal
import sys
from collections.abc import Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, Generic, Protocol, TypeVar

from rich.console import RenderableType
from textual._compositor import ChopsUpdate
from textual.actions import ActionParseResult
from textual.dom import DOMNode
from textual.events import Event, Key, MouseDown, Resize
from textual.screen import Screen

from remote.record.lock import STOP
from tui.exit import STOPPED
from tui.keyed import Keyed
from tui.messages import CompareRuns, ReadRecord, ShowRank
from tui.saving import Saving
from tui.screens.dialogs import (
    Dialog,
    Leave,
    LeaveDialog,
    TooSmall,
    too_small,
)
from tui.view import Drawn, Session
from tui.widgets.changes import Changes, Written

TICK = 0.5
"""Seconds between two drawings."""
BLURRED = 4
"""Without focus, the terminal is drawn only at one of this many ticks."""
GARBAGE = 50_000
"""New objects after which Python looks for garbage: searching all lines of a log takes as long as
several frames."""
SWITCH = 0.001
"""Seconds for which another thread, such as the one that reads records, may keep a frame waiting.
Drawing gives way to it many times a frame, so that Python's 5 ms would add up."""
MOUNTING = 0.01
"""Seconds between two looks at whether a screen has its widgets."""


class Work(Protocol):
    """What a dashboard shows."""

    @property
    def session(self) -> Session | None:
        """The run that is shown, or was last."""

    @property
    def live(self) -> bool:
        """Whether there is anything to stop."""

    @property
    def kept(self) -> bool:
        """Whether what is live continues when the dashboard is gone."""

    @property
    def folder(self) -> Path:
        """Where screenshots are saved."""

    @property
    def runs_dir(self) -> Path:
        """Where the runs are recorded."""

    def raise_errors(self) -> None:
        """Raise the error of a thread."""

    def stop(self, *, now: bool = False) -> None:
        """Stop what is live; returns at once."""

    def finish(self, *, stop: bool, abandon: bool) -> None:
        """After the dashboard: end what is live, and wait for it a moment."""

    def exit_code(self, return_code: int) -> int:
        """The exit code of the command; `return_code` is the app's own."""


W = TypeVar("W", bound=Work)


class Dashboard(Keyed, Saving, Generic[W]):
    """A dashboard over some work. After `run`, `exit_code` is that of the command."""

    TITLE = "rankboard"
    CSS = "ToastRack { align-horizontal: right; }"

    acts: ClassVar[bool] = True
    """Whether anything can be asked of the runs."""

    def __init__(self, runs: W) -> None:
        super().__init__()
        self.runs = runs
        self._leaving = self._abandoned = self._exiting = False
        self._ticks = 0
        self._written = Written()

    @property
    def exit_code(self) -> int:
        """The exit code of the command, see `Work.exit_code`."""
        return self.runs.exit_code(self.return_code or 0)

    def on_mount(self) -> None:
        gc.set_threshold(GARBAGE, *gc.get_threshold()[1:])
        sys.setswitchinterval(SWITCH)
        if not self.is_headless:
            self._handle_signals()
        self.open()
        self.tell_remarks()
        self.set_interval(TICK, self._on_time)

    def open(self) -> None:
        """Show the first screen."""
        raise NotImplementedError

    def _handle_signals(self) -> None:
        for number, act in (
            (signal.SIGINT, self._interrupt),
            (STOP, self._interrupt),
            (signal.SIGQUIT, self._stop_now),
            (signal.SIGTERM, self._terminate),
            (signal.SIGHUP, self._hang_up),
        ):
            asyncio.get_running_loop().add_signal_handler(number, act)

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
            if isinstance(screen, Drawn) and not hidden:
                screen.tick()
        if not live and self.is_left:
            self.exit()

    @property
    def folder(self) -> Path:
        """Where screenshots, charts and texts are saved."""
        return self.runs.folder

    @property
    def is_left(self) -> bool:
        """Whether the user has left, and only the end of the work is missing."""
        return self._leaving

    def on_resize(self, event: Resize) -> None:
        small = too_small(event.size)
        if small and not isinstance(self.screen, TooSmall):
            self.push_screen(TooSmall())
        elif not small and isinstance(self.screen, TooSmall):
            self.pop_screen()

    # Screens

    def on_show_checks(self) -> None:
        from tui.screens.doctor import DoctorScreen
        from tui.screens.run import RunScreen

        if isinstance(self.screen, RunScreen) and not self._exiting:
            self.push_screen(DoctorScreen(self.screen.session))

    def on_show_rank(self, message: ShowRank) -> None:
        from tui.screens.rank import RankScreen
        from tui.screens.run import RunScreen

        if isinstance(self.screen, RunScreen) and not self._exiting:
            self.push_screen(RankScreen(self.screen.session, message.rank, asks=self.acts))

    def on_show_stacks(self) -> None:
        from tui.screens.run import RunScreen
        from tui.screens.stacks import StacksScreen

        if isinstance(self.screen, RunScreen) and not self._exiting:
            self.push_screen(StacksScreen(self.screen.session, asks=self.acts))

    def on_compare_run(self) -> None:
        from tui.screens.alike import PickAlike

        session, runs_dir = self.runs.session, self.runs.runs_dir
        if session and not self._exiting:
            run = session.plan.run
            self.push_screen(PickAlike(run, runs_dir), partial(self._compare, runs_dir, run))

    def _compare(self, runs_dir: Path, run: str, other: str | None) -> None:
        """Compare a run with the one that the user has chosen, if any. The other one is the
        reference: what has changed since?"""
        if other:
            self.post_message(CompareRuns((runs_dir / other, runs_dir / run)))

    def on_compare_runs(self, message: CompareRuns) -> None:
        from tui.screens.compare import CompareScreen  # whose figures take a while to load

        if not self._exiting:
            self.push_screen(CompareScreen(message.folders))

    def on_read_record(self, message: ReadRecord) -> None:
        self.run_worker(self._read_record(message))

    async def _read_record(self, message: ReadRecord) -> None:
        found = None
        with suppress(OSError):
            found = await asyncio.to_thread(message.read, self.runs.runs_dir / message.name)
        message.take(found)

    # Leaving

    async def run_action(
        self,
        action: str | ActionParseResult,
        default_namespace: DOMNode | None = None,
        namespaces: Mapping[str, DOMNode] | None = None,
    ) -> bool:
        """Run an action, unless its key comes after `exit`."""
        return not self._exiting and await super().run_action(action, default_namespace, namespaces)

    def exit(
        self, result: None = None, return_code: int = 0, message: RenderableType | None = None
    ) -> None:
        """End the dashboard, once all screens have their widgets: without them they would fail."""
        self._exiting = True
        if all(screen.is_mounted for screen in self.screen_stack):
            super().exit(result, return_code, message)
        else:
            self.set_timer(MOUNTING, partial(self.exit, result, return_code, message))

    async def on_event(self, event: Event) -> None:
        """Handle an event, unless it is a key or button pressed before its dialog was drawn."""
        if not (
            isinstance(event, (Key, MouseDown))
            and isinstance(self.screen, Dialog)
            and event.time < self.screen.drawn
        ):
            await super().on_event(event)

    async def action_quit(self) -> None:
        """Quit; ask first while a run is live. A key that is pressed twice does not answer."""
        if not self.runs.live:
            self.exit()
        elif isinstance(self.screen, LeaveDialog):
            self._abandon()
        elif not isinstance(self.screen, Dialog):
            self.push_screen(LeaveDialog() if self._leaving else self.question(), self.answered)

    def question(self) -> Dialog:
        """How to leave what is live."""
        raise NotImplementedError

    def answered(self, answer: Leave | None) -> None:
        """Do what the user has answered."""
        match answer:
            case Leave.STOP:
                self.runs.stop()
            case Leave.STOP_AND_QUIT:
                self.runs.stop()
                self._leaving = True
            case Leave.NOW:
                self._abandon()

    def _interrupt(self) -> None:
        """Handle SIGINT: stop the run and exit when it has ended; the second time, exit at once."""
        if self._leaving or not self.runs.live:
            self._abandon()
            return
        self._leaving = True
        self.runs.stop()
        self.notify("stopping the run; ctrl+c exits without waiting for its end")

    def _stop_now(self) -> None:
        """Handle SIGQUIT: stop the run without a grace period, and exit when it has ended."""
        if self.runs.live:
            self._leaving = True
            self.runs.stop(now=True)
        else:
            self._abandon()

    def _terminate(self) -> None:
        """Handle SIGTERM, as at a shutdown of this machine: a run that is kept continues."""
        if self.runs.kept and not self._leaving:
            self.exit()  # see `finish`
        else:
            self._interrupt()

    def _hang_up(self) -> None:
        """Handle SIGHUP: end the run, then the process. Textual's exit would wait forever."""
        self.finish()
        os._exit(STOPPED)

    def _abandon(self) -> None:
        """Exit without waiting for the end of the run; its hosts end it on their own."""
        self._abandoned = True
        self.exit()

    def finish(self) -> None:
        """After `run`: end the runs that are live although the dashboard is gone."""
        self.runs.finish(stop=self._leaving, abandon=self._abandoned)
