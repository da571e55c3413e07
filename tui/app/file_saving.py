"""An app that saves what it shows: screenshots, charts and texts."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from pathlib import Path

from textual.app import App

from training.writing import write_whole
from tui.kit.exit import to_install
from tui.kit.messages import SaveChart, SaveText
from tui.kit.run_session import RunSession

NO_PNG = f"no PNG without matplotlib: {to_install('report')}"
"""What a user does for charts as PNG."""


class Saving(App[None]):
    """Saves in the folder of the run that it is about, and says where. Where that has none, it
    saves in `folder`, with the name of the run before that of the file."""

    @property
    def folder(self) -> Path:
        """Where files are saved that are not of one run."""
        raise NotImplementedError

    def folder_of(self, run: str) -> Path | None:
        """The folder of this run; None where there is none, or none of ours."""
        raise NotImplementedError

    def _file(self, run: str, name: str) -> Path:
        """Where a file about a run is saved."""
        folder = self.folder_of(run)
        return folder / name if folder else self.folder / f"{run}-{name}"

    @property
    def shown(self) -> RunSession | None:
        """The run on the screen, or under what lies over it."""
        from tui.run.screen import RunScreen

        shown = (one for one in reversed(self.screen_stack) if isinstance(one, RunScreen))
        return next((one.session for one in shown), None)

    def deliver_screenshot(
        self, filename: str | None = None, path: str | None = None, time_format: str | None = None
    ) -> str | None:
        """Save the screen as SVG in the folder of the run that it shows, else in `folder`."""
        if not self._may_write():
            return None
        folder = (self.shown and self.folder_of(self.shown.plan.run)) or self.folder
        try:
            saved = self.save_screenshot(filename, path or str(folder), time_format)
        except OSError as error:
            self.notify(f"cannot write a screenshot: {error}", severity="error", markup=False)
            return None
        self.notify(f"screenshot: {saved}", markup=False)
        return saved

    def _may_write(self) -> bool:
        """Whether files may be written: a visitor in a browser writes none here."""
        if self.is_web:
            self.notify("no files can be saved from a browser", severity="warning", markup=False)
        return not self.is_web

    def on_save_text(self, message: SaveText) -> None:
        if not self._may_write():
            return
        path = self._file(message.run, message.name)
        try:
            write_whole(path, message.text.encode(errors="backslashreplace"))
        except OSError as error:
            said = f"{message.done}; cannot write it to a file: {error}"
            self.notify(said, severity="error", markup=False)
        else:
            self.notify(f"{message.done}: {os.path.relpath(path)}", markup=False)

    def on_save_chart(self, message: SaveChart) -> None:
        if self._may_write():
            path = self._file(message.run, message.name)
            self.run_worker(self._save_chart(message.write, path), exit_on_error=True)

    async def _save_chart(self, write: Callable[[Path, str], list[Path]], at: Path) -> None:
        """Save a chart in files of this path without their endings, and say where."""
        try:
            paths = await asyncio.to_thread(write, at.parent, at.name)
        except OSError as error:
            self.notify(f"cannot write the chart: {error}", severity="error", markup=False)
            return
        names = ", ".join(path.name for path in paths)
        self.notify(f"chart: {names} in {at.parent}", markup=False)
        if not any(path.suffix == ".png" for path in paths):
            self.notify(NO_PNG, markup=False)
