"""The process that draws a run for one visitor: `python -m tui.serve.visitor FOLDER`.

It reads the record of the run, as `rankboard watch` does, and can write to no file. It ends with
the server, whatever that ends of.
"""

from __future__ import annotations

import os
import resource
import sys
from pathlib import Path

from textual.drivers.web_driver import WebDriver
from textual.messages import ExitApp

from remote.record import read
from remote.record.watch import WatchedRun
from remote.sanitise import one_line
from training.agent.local_api import die_with
from tui.app.watch_app import WatchApp
from tui.kit import palette
from tui.kit.exit import MISTAKES


class Driver(WebDriver):
    """Ends the dashboard when its input ends: the server is gone."""

    def write(self, data: str) -> None:
        """Write what is drawn."""
        super().write(palette.to_terminal(data))

    def run_input_thread(self) -> None:
        """Wait for input."""
        super().run_input_thread()
        self._app.post_message(ExitApp())


def main(folder: Path) -> None:
    """Draw the run that is recorded in a folder, until the page is closed."""
    # The end of its input ends it as well, but only behind all keys that wait before that.
    die_with(os.getppid())
    # Visitors only read: a fault in drawing must not be able to change a record.
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
    server_stderr = os.dup(2)
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)  # what Textual prints may hold texts of hosts
    try:
        app = WatchApp(WatchedRun(folder, read.load_plan(folder)))
        app.run()
        app.finish()
        problem = "its dashboard failed" if app.return_code else ""
    except MISTAKES as error:
        problem = str(error)
    if problem:
        problem_line = (
            f"rankboard: a page of {folder.name}: {problem}; rankboard watch may show why"
        )
        os.write(server_stderr, one_line(problem_line).encode(errors="replace") + b"\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
