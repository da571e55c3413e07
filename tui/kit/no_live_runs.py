"""The runs of a dashboard that has nothing live."""

from __future__ import annotations

from pathlib import Path

from tui.kit.run_session import RunSession


class NoLiveRuns:
    """Implements `tui.app.quitting.DashboardRuns`: there is nothing to stop or to end."""

    session: RunSession | None = None
    live = kept = False

    @property
    def folder(self) -> Path:
        """Return the current folder."""
        return Path.cwd()

    def folder_of(self, run: str) -> Path | None:
        """Return None: nothing is written to the record of a run that somebody else started."""

    @property
    def runs_dir(self) -> Path:
        """Return the current folder, as no runs are recorded."""
        return Path.cwd()

    def raise_errors(self) -> None:
        """Do nothing: there is no thread."""

    def stop(self, *, now: bool = False) -> None:
        """Do nothing."""

    def finish(self, *, stop: bool, abandon: bool, within: float) -> None:
        """Do nothing."""

    def exit_code(self, return_code: int) -> int:
        """Return that of the app."""
        return return_code
