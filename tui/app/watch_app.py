"""The dashboard that watches a run which somebody else has started."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import ClassVar

from remote.record import marks
from remote.record.watch import WatchedRun
from tui.app.dashboard import Dashboard
from tui.kit.no_live_runs import NoLiveRuns
from tui.kit.open_runs import SessionListener
from tui.run.screen import RunScreen


class WatchedRuns(NoLiveRuns):
    """Listens to a watched run."""

    def __init__(self, run: WatchedRun) -> None:
        self.session = self.run = run
        self._listener = SessionListener(run)

    @property
    def runs_dir(self) -> Path:
        """Return the folder that the run lies in."""
        return self.run.folder.parent

    def start(self) -> None:
        """Begin to listen."""
        self._listener.start()

    def raise_errors(self) -> None:
        """Raise the error that ended the listener."""
        if self._listener.error:
            raise self._listener.error

    def finish(self, *, stop: bool, abandon: bool, within: float) -> None:
        """Stop watching; the run goes on."""
        self.run.stop()
        if self._listener.is_alive():
            self._listener.join()

    def exit_code(self, return_code: int) -> int:
        """Return the verdict of the run; 0 if it has not ended."""
        verdict = self.run.state.verdict
        if verdict and self.run.has_ended and verdict.value:
            return verdict.value
        return return_code


class WatchScreen(RunScreen):
    """The run screen of a run that is watched."""

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Start nothing here, and show no other run to a visitor in a browser."""
        if action in ("new", "resume") or (action == "compare" and self.app.is_web):
            return False
        return super().check_action(action, parameters)


class WatchApp(Dashboard[WatchedRuns]):
    """Shows a run, live, and never sends a command."""

    sends_commands: ClassVar[bool] = False

    def __init__(self, run: WatchedRun) -> None:
        super().__init__(WatchedRuns(run))

    def open(self) -> None:
        self.runs.start()
        run = self.runs.run
        self.push_screen(WatchScreen(run, called=partial(marks.name, run.folder)))
