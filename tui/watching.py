"""A run that is watched, as a dashboard needs it: nothing here can act on it."""

from __future__ import annotations

from pathlib import Path

from remote.record.watch import WatchedRun
from tui.idle import Idle
from tui.runs import Listener


class Watching(Idle):
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

    def finish(self, *, stop: bool, abandon: bool) -> None:
        """Stop watching; the run goes on."""
        self.run.stop()
        if self._listener.is_alive():
            self._listener.join()

    def exit_code(self, return_code: int) -> int:
        """The verdict of the run; 0 where it has not ended."""
        verdict = self.run.state.verdict
        return (verdict.value if verdict and self.run.has_ended else 0) or return_code
