"""The dashboard that watches a run which somebody else has started."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import ClassVar

from remote.record import marks
from remote.record.watch import WatchedRun
from tui.app.dashboard import Dashboard
from tui.kit.dialogs import Dialog
from tui.kit.no_live_runs import NoLiveRuns
from tui.kit.runs import Listener
from tui.run.screen import RunScreen


class Watching(NoLiveRuns):
    """Listens to a watched run."""

    def __init__(self, run: WatchedRun) -> None:
        self.session = self.run = run
        self._listener = Listener(run)

    @property
    def runs_dir(self) -> Path:
        """The folder that the run lies in."""
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
        """The verdict of the run; 0 where it has not ended."""
        verdict = self.run.state.verdict
        return (verdict.value if verdict and self.run.has_ended else 0) or return_code


class WatchScreen(RunScreen):
    """The run screen of a run that is watched."""

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Nothing is started here, and a visitor in a browser sees no other run."""
        if action == "new" or (action == "compare" and self.app.is_web):
            return False
        return super().check_action(action, parameters)


class WatchApp(Dashboard[Watching]):
    """Shows a run, live, and never sends a command."""

    acts: ClassVar[bool] = False

    def __init__(self, run: WatchedRun) -> None:
        super().__init__(Watching(run))

    def open(self) -> None:
        self.runs.start()
        run = self.runs.run
        self.push_screen(WatchScreen(run, called=partial(marks.name, run.folder)))

    def question(self) -> Dialog:
        raise AssertionError("nothing is live that could be stopped here")
