"""What a dashboard shows that has nothing live."""

from __future__ import annotations

from pathlib import Path

from tui.kit.run_session import RunSession


class NoLiveRuns:
    """See `tui.app.quitting.Shown`."""

    session: RunSession | None = None
    live = kept = False

    @property
    def folder(self) -> Path:
        """The current folder."""
        return Path.cwd()

    def folder_of(self, run: str) -> Path | None:
        """Nothing is written to the record of a run that somebody else has started."""

    @property
    def runs_dir(self) -> Path:
        """No runs are recorded: the current folder."""
        return Path.cwd()

    def raise_errors(self) -> None:
        """There is no thread."""

    def stop(self, *, now: bool = False) -> None:
        """There is nothing to stop."""

    def finish(self, *, stop: bool, abandon: bool, within: float) -> None:
        """There is nothing to end."""

    def exit_code(self, return_code: int) -> int:
        """That of the app."""
        return return_code
