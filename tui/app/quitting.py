"""How a dashboard is left: it asks before it leaves what is live, and obeys signals."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Protocol

from textual.app import App

from remote.record.lock import STOP
from tui.app.second_signal import Watched, ended_by_second_signal
from tui.kit.dialogs import Dialog, Leave, LeaveDialog
from tui.kit.exit import STOPPED
from tui.kit.run_session import RunSession

ENDING = 15.0
"""Seconds that what is live has to end when its dashboard is gone."""


class DashboardRuns(Protocol):
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
        """Return the folder of this run; None if there is none, or none of ours."""

    @property
    def runs_dir(self) -> Path:
        """Where the runs are recorded."""

    def raise_errors(self) -> None:
        """Raise the error of a thread."""

    def stop(self, *, now: bool = False) -> None:
        """Stop what is live; return at once."""

    def finish(self, *, stop: bool, abandon: bool, within: float) -> None:
        """After the dashboard: end what is live, and wait at most so many seconds for that."""

    def exit_code(self, return_code: int) -> int:
        """Return the exit code of the command; `return_code` is the app's own."""


class Quitting:
    """What becomes of the live runs of a dashboard when the user leaves it."""

    def __init__(self, app: App[None], runs: DashboardRuns) -> None:
        self._app = app
        self._runs = runs
        self._watched: Watched | None = None
        self._is_abandoned = False
        self.is_leaving = False
        """Whether the user has left, and only the end of the work is missing."""

    def run_app(self) -> None:
        """Run the dashboard until the user has left, then end what is live, see `finish`."""
        if not sys.stdin.isatty():  # a page of `serve`, which its server ends
            self._run_and_finish()
            return
        with ended_by_second_signal(has_keys=True) as watched:
            self._watched = watched
            self._run_and_finish()

    def _run_and_finish(self) -> None:
        handlers_before = {number: signal.getsignal(number) for number in self._handlers()}
        try:
            self._app.run()
        finally:
            # Ours hand their work to the loop of the app, which has ended by now.
            for number, handler in handlers_before.items():
                signal.signal(number, handler)
            self.finish()

    def finish(self) -> None:
        """After the app: end the runs that are live although the dashboard is gone."""
        self._runs.finish(stop=self.is_leaving, abandon=self._is_abandoned, within=ENDING)

    # Keys and answers

    def quit(
        self, make_dialog: Callable[[], Dialog], take_answer: Callable[[Leave | None], None]
    ) -> None:
        """Exit; ask first while a run is live. A key that is pressed twice does not answer."""
        screen = self._app.screen
        if not self._runs.live:
            self._app.exit()
        elif isinstance(screen, LeaveDialog):
            self.abandon()
        elif not isinstance(screen, Dialog):
            dialog = LeaveDialog() if self.is_leaving else make_dialog()
            self._app.push_screen(dialog, take_answer)

    def take_answer(self, answer: Leave | None) -> None:
        """Do what the user has answered."""
        match answer:
            case Leave.STOP:
                self._runs.stop()
            case Leave.STOP_AND_QUIT:
                self._runs.stop()
                self.is_leaving = True
            case Leave.NOW:
                self.abandon()

    def abandon(self) -> None:
        """Exit without waiting for the end of the run; its hosts end it on their own."""
        self._is_abandoned = True
        self._app.exit()

    # Signals

    def _handlers(self) -> dict[int, Callable[[], None]]:
        return {
            signal.SIGINT: self.interrupt,
            STOP: self.interrupt,
            signal.SIGQUIT: self.stop_now,
            signal.SIGTERM: self.terminate,
            signal.SIGHUP: self.hang_up,
        }

    def handle_signals(self) -> None:
        """Leave, or stop what is live, on a signal; the event loop runs.

        asyncio's own handlers would take the interpreter's pipe of signals, which belongs to
        `tui.app.second_signal`.
        """
        call_soon = asyncio.get_running_loop().call_soon_threadsafe
        for number, handler in self._handlers().items():
            signal.signal(number, partial(_call_in_loop, call_soon, handler))
        if self._watched:
            self._watched.on_asked = partial(_call_in_loop, call_soon, self._watched.answer)

    def interrupt(self) -> None:
        """Handle SIGINT: stop the run and exit when it has ended; the second time, exit at once."""
        if self.is_leaving or not self._runs.live:
            self.abandon()
            return
        self.is_leaving = True
        self._runs.stop()
        self._app.notify("stopping the run; ctrl+c exits without waiting for its end")

    def stop_now(self) -> None:
        """Handle SIGQUIT: stop the run without a grace period, and exit when it has ended."""
        if self._runs.live:
            self.is_leaving = True
            self._runs.stop(now=True)
        else:
            self.abandon()

    def terminate(self) -> None:
        """Handle SIGTERM, as at a shutdown of this machine: a run that is kept continues."""
        if self._runs.kept and not self.is_leaving:
            self._app.exit()  # see `finish`
        else:
            self.interrupt()

    def hang_up(self) -> None:
        """Handle SIGHUP: end the run, then the process. Textual's exit would wait forever."""
        self.finish()
        os._exit(STOPPED)


def _call_in_loop(
    call_soon: Callable[[Callable[[], object]], object], handler: Callable[[], object], *_: object
) -> None:
    """Let the event loop handle a signal: this is called between any two instructions."""
    with suppress(RuntimeError):  # the loop has ended
        call_soon(handler)
