"""How a dashboard saves what it shows: screenshots, charts and texts."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from textual.app import App

from training.writing import write_whole
from tui.app.quitting import DashboardRuns
from tui.kit.exit import to_install
from tui.kit.messages import SaveChart, SaveText
from tui.kit.run_session import RunSession

NO_PICTURE = f"no SVG and PNG without matplotlib: {to_install('report')}"


def find_shown_session(app: App[None]) -> RunSession | None:
    """Return the run on the screen, or under what lies over it."""
    from tui.run.screen import RunScreen

    for screen in reversed(app.screen_stack):
        if isinstance(screen, RunScreen):
            return screen.session
    return None


class FileSaver:
    """Saves in the folder of the run that it is about, and says where.

    If a run has no folder of ours, the file lies in the folder of the dashboard, with the name of
    the run before its own.
    """

    def __init__(self, app: App[None], runs: DashboardRuns) -> None:
        self._app = app
        self._runs = runs

    def save_screenshot(
        self, filename: str | None, path: str | None, time_format: str | None
    ) -> str | None:
        """Save the screen as SVG in the folder of the run that it shows, else in that of all runs.
        Return its path."""
        session = find_shown_session(self._app)
        if session:
            folder = self._runs.folder_of(session.plan.run) or self._runs.folder
        else:
            runs_dir = self._runs.runs_dir
            folder = runs_dir if runs_dir.is_dir() else Path.cwd()
        with self._reporting("cannot write a screenshot"):
            self._check_may_write()
            saved = self._app.save_screenshot(filename, path or str(folder), time_format)
            self._app.notify(f"screenshot: {os.path.relpath(saved)}", markup=False)
            return saved
        return None

    def save_text(self, message: SaveText) -> None:
        """Write a text to a file."""
        with self._reporting(f"{message.done}; cannot write it to a file"):
            path = self._find_path(message.run, message.name)
            write_whole(path, message.text.encode(errors="backslashreplace"))
            self._app.notify(f"{message.done}: {os.path.relpath(path)}", markup=False)

    async def save_chart(self, message: SaveChart) -> None:
        """Write a chart to files, in the background."""
        with self._reporting("cannot write the chart"):
            path = self._find_path(message.run, message.name)
            paths = await asyncio.to_thread(message.write, path.parent, path.name)
            names = ", ".join(path.name for path in paths)
            text = f"chart: {names} in {os.path.relpath(path.parent)}"
            if not any(path.suffix == ".png" for path in paths):
                text = f"{text}\n{NO_PICTURE}"
            self._app.notify(text, markup=False)

    def _find_path(self, run: str, name: str) -> Path:
        """Return where a file about a run is saved. Raises: PermissionError."""
        self._check_may_write()
        folder = self._runs.folder_of(run)
        return folder / name if folder else self._runs.folder / f"{run}-{name}"

    def _check_may_write(self) -> None:
        """Let a visitor in a browser write no files here. Raises: PermissionError."""
        if self._app.is_web:
            raise PermissionError("no files can be saved from a browser")

    @contextmanager
    def _reporting(self, problem: str) -> Iterator[None]:
        """Say why a file was not written."""
        try:
            yield
        except OSError as error:
            # In a browser there is one reason, and it stands in one line.
            text = str(error) if self._app.is_web else f"{problem}: {error}"
            self._app.notify(text, severity="error", markup=False)
