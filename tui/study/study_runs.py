"""The study of a dashboard: a thread makes its runs."""

from __future__ import annotations

import threading
from pathlib import Path

from remote.study.runner import StudyRunner
from tui.kit.exit import STOPPED
from tui.kit.run_session import RunSession


class StudyRuns:
    """Makes the runs of a study, in a thread that does not keep the process alive."""

    def __init__(self, runner: StudyRunner) -> None:
        self.runner = runner
        self._error: BaseException | None = None
        self._thread = self._make_thread()

    def _make_thread(self) -> threading.Thread:
        # A daemon, as a run that hangs must not keep the terminal from its user.
        return threading.Thread(target=self._make, name="study", daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def retry(self) -> None:
        """Make the failed runs again, once all others have ended."""
        if not self.live:
            self.runner.forget_failures()
            self._thread = self._make_thread()
            self._thread.start()

    def _make(self) -> None:
        try:
            for run in self.runner.runs():
                for _ in self.runner.batches(run):
                    pass
        except BaseException as error:  # noqa: BLE001 - `raise_errors` raises it elsewhere
            self._error = error

    @property
    def session(self) -> RunSession | None:
        """Return the run under way."""
        current_run = self.runner.current
        return current_run.session if current_run else None

    @property
    def live(self) -> bool:
        """Return whether the study has not ended."""
        return self._thread.is_alive()

    @property
    def kept(self) -> bool:
        """Return whether the run under way continues without this dashboard."""
        return bool(self.session and self.session.keep)

    @property
    def folder(self) -> Path:
        """Return the folder of the study."""
        return self.runner.folder.path

    def folder_of(self, run: str) -> Path | None:
        """Return the folder of a run of the study, or None if it is not recorded."""
        folder = self.runs_dir / run
        return folder if folder.is_dir() else None

    @property
    def runs_dir(self) -> Path:
        """Return the folder that the study and its runs lie in."""
        return self.folder.parent

    def raise_errors(self) -> None:
        """Raise the error that ended the thread."""
        if self._error:
            raise self._error

    def stop(self, *, now: bool = False) -> None:
        """Stop the run under way, and begin no other."""
        self.runner.stop("stopped by the user", now=now)

    def finish(self, *, stop: bool, abandon: bool, within: float) -> None:
        """End the study, because the dashboard is gone; wait at most `within` seconds for that.

        Nobody else goes on with it, so `stop` says nothing. With `abandon`, the run under way is
        left: its hosts end it and the next call judges it.
        """
        if self.live and not abandon:
            self.stop()
            self._thread.join(within)

    def exit_code(self, return_code: int) -> int:
        """Return the exit code of the app, or 130 if the study was left before its end."""
        return return_code or (STOPPED if self.runner.is_stopped else 0)
