"""An app that asks before it leaves what is live, and obeys signals."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Generic, Protocol, TypeVar

from rich.console import RenderableType
from textual.actions import ActionParseResult
from textual.app import App
from textual.dom import DOMNode
from textual.events import Event, Key, MouseDown

from remote.record.lock import STOP
from tui.app.second_signal import Watched, ended_by_second_signal
from tui.kit.dialogs import Dialog, Leave, LeaveDialog
from tui.kit.exit import STOPPED
from tui.kit.interpreter import keep_loaded_modules
from tui.kit.run_session import RunSession

ENDING = 15.0
"""Seconds that what is live has to end when its dashboard is gone."""
HANDLED = (signal.SIGINT, STOP, signal.SIGQUIT, signal.SIGTERM, signal.SIGHUP)
MOUNTING = 0.01
"""Seconds between two looks at whether a screen has its widgets."""


def _call_later(
    call: Callable[[Callable[[], object]], object], act: Callable[[], object], *_: object
) -> None:
    """Have the event loop do something: this is a handler of signals."""
    with suppress(RuntimeError):  # the loop has ended
        call(act)


class Shown(Protocol):
    """What a dashboard shows."""

    @property
    def session(self) -> RunSession | None:
        """The run that is shown, or was last."""

    @property
    def live(self) -> bool:
        """Whether there is anything to stop."""

    @property
    def kept(self) -> bool:
        """Whether what is live continues when the dashboard is gone."""

    @property
    def folder(self) -> Path:
        """Where files are saved that are not of one run."""

    def folder_of(self, run: str) -> Path | None:
        """The folder of this run; None where there is none, or none of ours."""

    @property
    def runs_dir(self) -> Path:
        """Where the runs are recorded."""

    def raise_errors(self) -> None:
        """Raise the error of a thread."""

    def stop(self, *, now: bool = False) -> None:
        """Stop what is live; returns at once."""

    def finish(self, *, stop: bool, abandon: bool, within: float) -> None:
        """After the dashboard: end what is live, and wait at most so many seconds for that."""

    def exit_code(self, return_code: int) -> int:
        """The exit code of the command; `return_code` is the app's own."""


W = TypeVar("W", bound=Shown)


class Leaving(App[None], Generic[W]):
    """An app over some work. After `run`, `exit_code` is that of the command, and `finish` ends
    what is live."""

    def __init__(self, runs: W) -> None:
        super().__init__()
        self.runs = runs
        self._leaving = self._abandoned = self._exiting = False
        self._watched: Watched | None = None

    @property
    def exit_code(self) -> int:
        """The exit code of the command, see `Shown.exit_code`."""
        return self.runs.exit_code(self.return_code or 0)

    @property
    def is_left(self) -> bool:
        """Whether the user has left, and only the end of the work is missing."""
        return self._leaving

    def show(self) -> None:
        """Show the dashboard until the user has left, then end what is live, see `finish`."""
        keep_loaded_modules()
        if not sys.stdin.isatty():  # a page of `serve`, which its server ends
            self._run_and_finish()
            return
        with ended_by_second_signal(has_keys=True) as watched:
            self._watched = watched
            self._run_and_finish()

    def _run_and_finish(self) -> None:
        before = {number: signal.getsignal(number) for number in HANDLED}
        try:
            self.run()
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)
            self.finish()

    def handle_signals(self) -> None:
        """Leave, or stop what is live, on a signal; the event loop runs.

        asyncio's own handlers would take the interpreter's pipe of signals, which belongs to
        `tui.app.second_signal`.
        """
        call = asyncio.get_running_loop().call_soon_threadsafe
        for number, act in (
            (signal.SIGINT, self._interrupt),
            (STOP, self._interrupt),
            (signal.SIGQUIT, self._stop_now),
            (signal.SIGTERM, self._terminate),
            (signal.SIGHUP, self._hang_up),
        ):
            signal.signal(number, partial(_call_later, call, act))
        if self._watched:
            self._watched.on_asked = partial(_call_later, call, self._watched.answer)

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
        self.runs.finish(stop=self._leaving, abandon=self._abandoned, within=ENDING)
