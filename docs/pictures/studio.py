"""A folder of runs, in which the dashboard is looked at: nothing of the user's own is read."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from drawing import draw_cells
from terminal import Terminal

BIN = Path(sys.executable).parent
RANKBOARD = str(BIN / "rankboard")
HERE = ("--local", "4")
SLOW_LAB = (*HERE, "--link", "1gbit", "--cpus", "0.5,0.5,0.15,0.5")
"""Four hosts, of which the third has less than a third of the others' cores."""
NAMED = r"wait\w* for rank 2"
"""What the dashboard says of it."""
KILLED_AT = 150
"""The step at which a rank is killed."""
NORMAL_SIZE, SMALL_SIZE = (120, 40), (80, 24)
"""Columns and rows."""

Event = dict[str, Any]


class Studio:
    """A folder with runs, in which the dashboard is looked at."""

    def __init__(self, folder: Path, figures: Path) -> None:
        self.folder = folder
        self.figures = figures
        self.variables = {
            "HOME": str(folder / "home"),
            "XDG_STATE_HOME": str(folder / "state"),
            "XDG_CONFIG_HOME": str(folder / "config"),
            "PATH": f"{BIN}:{os.environ['PATH']}",
            "PS1": "$ ",
            "TZ": "UTC",
        }

    def run(self, *words: str) -> None:
        """Run rankboard without the dashboard."""
        # What becomes of it is recorded, and the runs of some pictures fail.
        subprocess.run(
            [RANKBOARD, *words],
            cwd=self.folder,
            env=os.environ | self.variables,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            check=False,
        )

    def train(self, name: str, *words: str, watch: Callable[[Event], None] | None = None) -> None:
        """Train without the dashboard, and show `watch` each event."""
        command = [RANKBOARD, "--run", "--json", "--name", name, *words]
        with subprocess.Popen(
            command,
            cwd=self.folder,
            env=os.environ | self.variables,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        ) as process:
            assert process.stdout
            for line in process.stdout:
                if watch:
                    watch(json.loads(line))
        print(f"{name}: trained", flush=True)

    def has_ended(self, name: str) -> bool:
        """Return whether the run of this name has ended."""
        # The runs of a study have no names.
        names = self.folder.glob("runs/*/name.txt")
        return any(
            path.read_text().strip() == name and path.with_name("summary.json").exists()
            for path in names
        )

    @contextmanager
    def terminal(
        self, words: Sequence[str], size: tuple[int, int] = NORMAL_SIZE
    ) -> Iterator[Terminal]:
        """Start a program in a terminal, and end it afterwards."""
        terminal = Terminal(words, self.folder, size, self.variables)
        try:
            yield terminal
        finally:
            terminal.close()

    def save(self, name: str, terminal: Terminal) -> None:
        """Save what a terminal shows now as a picture of this name."""
        path = self.figures / f"{name}.png"
        draw_cells(terminal.cells).save(path, optimize=True)
        report(path)


class RankKiller:
    """Kills a rank of a run in the middle of its training."""

    def __init__(self, rank: int) -> None:
        self._rank = rank
        self._pid = 0

    def watch(self, event: Event) -> None:
        """Take an event of the run."""
        if event.get("rank") != self._rank:
            return
        if event["event"] == "spawned":
            self._pid = event["pid"]
        elif event["event"] == "step" and event["step"] == KILLED_AT and self._pid:
            os.kill(self._pid, signal.SIGKILL)


def report(path: Path) -> None:
    """Print the size of a file."""
    print(f"{path}: {path.stat().st_size / 1e3:.0f} kB", flush=True)
