"""Make the pictures of the dashboard in the README, from real runs.

    pip install -c constraints.txt '.[report]' pyte
    python docs/pictures --out docs/figures

Takes about four minutes on two cores. One of four hosts is slow: they are a lab with CPU quotas,
which needs root on Linux (see docs/tutorials/lab.md). A quiet machine makes better pictures.
Nothing of the user's own is read: runs, settings and state are in a folder that is deleted at the
end.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shlex
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from drawing import draw_cells
from film import Film
from terminal import Terminal

BIN = Path(sys.executable).parent
RANKBOARD = str(BIN / "rankboard")
HERE = ("--local", "4")
SLOW_LAB = (*HERE, "--link", "1gbit", "--cpus", "0.5,0.5,0.15,0.5")
"""Four hosts, of which the third has less than a third of the others' cores."""
NAMED = re.compile(r"wait\w* for rank 2")
"""What the dashboard says of it."""
KILLED_AT = 150
"""The step at which a rank is killed."""
FILM_SIZE, NORMAL_SIZE, SMALL_SIZE = (104, 32), (120, 40), (80, 24)
"""Columns and rows."""

Event = dict[str, Any]


class Studio:
    """A folder with runs, in which the dashboard is looked at."""

    def __init__(self, folder: Path, figures: Path) -> None:
        self.folder = folder
        self.figures = figures
        self.variables = {
            "XDG_STATE_HOME": str(folder / "state"),
            "XDG_CONFIG_HOME": str(folder / "config"),
            "PATH": f"{BIN}:{os.environ['PATH']}",
            "PS1": "$ ",
            "TZ": "UTC",
        }

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
        summaries = self.folder.glob("runs/*/summary.json")
        return name in (path.with_name("name.txt").read_text().strip() for path in summaries)

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
        """Save what a terminal shows now."""
        path = self.figures / f"dashboard-{name}.png"
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


def film_straggler(studio: Studio) -> None:
    """Film a run with a slow host, from the command to what the shell says in the end."""
    command = f"rankboard {shlex.join(SLOW_LAB)} --epochs 24 --name straggler"
    with studio.terminal(["bash", "--norc", "--noprofile"], FILM_SIZE) as terminal:
        terminal.wait_for("$")
        film = Film(terminal)
        for word in command.split(" "):
            terminal.type(f"{word} ")
            film.film_for(0.2, 0.2)
        film.film_for(1.0, 1.5)
        terminal.type("\r")
        film.film_until(lambda text: "training" in text.lower(), 5.0)
        film.film_until(lambda text: bool(NAMED.search(text)), 4.0)
        film.film_for(4.0, 3.0)
        studio.save("run", terminal)
        film.film_until(lambda _: studio.has_ended("straggler"), 5.0)
        film.film_for(3.0, 4.5)
        terminal.type("q")
        film.film_until(lambda text: text.rstrip().endswith("$"), 1.0)
        film.film_for(1.0, 3.0)
    film.save(studio.figures / "straggler.webp")
    report(studio.figures / "straggler.webp")


def make_runs(studio: Studio) -> None:
    """Train what the pictures show besides the straggler."""
    studio.train("baseline", *HERE, "--epochs", "20")
    studio.train("lr-0.3", *HERE, "--epochs", "20", "--lr", "0.3")
    studio.train("diverged", *HERE, "--epochs", "2", "--lr", "1000")
    killer = RankKiller(rank=2)
    studio.train("failed", *HERE, "--epochs", "60", "--checkpoint-every", "25", watch=killer.watch)


def picture_screens(studio: Studio) -> None:
    """Save pictures of the screens that show runs which have ended."""
    comparison = [RANKBOARD, "compare", "baseline", "lr-0.3", "--dashboard"]
    screens = {
        "home": ([RANKBOARD], NORMAL_SIZE, "baseline", ""),
        "failed": ([RANKBOARD, "open", "failed"], NORMAL_SIZE, "sigkill", ""),
        "80x24": ([RANKBOARD, "open", "straggler"], SMALL_SIZE, "finished", ""),
        "compare": (comparison, NORMAL_SIZE, "time per step", ""),
    }
    for name, (command, size, text, keys) in screens.items():
        with studio.terminal(command, size) as terminal:
            terminal.wait_for(text)
            terminal.settle()
            for key in keys:
                terminal.type(key)
                terminal.settle()
            studio.save(name, terminal)


def report(path: Path) -> None:
    """Print the size of a file."""
    print(f"{path}: {path.stat().st_size / 1e3:.0f} kB", flush=True)


def main() -> None:
    """Make all pictures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True, help="the folder of the pictures")
    given = parser.parse_args()
    figures = given.out.absolute()
    figures.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        studio = Studio(Path(folder), figures)
        make_runs(studio)
        film_straggler(studio)
        picture_screens(studio)


if __name__ == "__main__":
    main()
