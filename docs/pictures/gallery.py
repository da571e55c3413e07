"""Make a picture of every screen of the dashboard, to look at them beside each other.

    python docs/pictures/gallery.py DIR                     # all screens
    python docs/pictures/gallery.py DIR study script        # some of them
    python docs/pictures/gallery.py DIR study --size 160x48

What is needed is the same as for the pictures of the README. Screens of live runs are those of runs
that are started for them and stopped again. The others show runs that are recorded once (in some
minutes) and kept in a folder of their own (`--kept`): remove it to record them anew.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import signal
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from studio import (
    HERE,
    NAMED,
    NORMAL_SIZE,
    RANKBOARD,
    SLOW_LAB,
    SMALL_SIZE,
    RankKiller,
    Studio,
)
from terminal import Terminal

SCRIPT = Path(__file__).parents[2] / "examples" / "ddp.py"
STUDY = ("study", "lenet-ring", "--quick", "--local", "4", "--dataset", "digits")
LIVE_NAME = "homework-2"
LIVE_RUNS = "live-runs"
"""The folder of the runs that are made for a picture only."""
KEPT = Path(tempfile.gettempdir()) / "rankboard-gallery"
PAGE_UP = "\x1b[5~"
HIDE_ALERTS = "a"
LOAD = "other processes on"
"""What the dashboard says of a machine that other programs keep busy."""
MAX_TRIES = 5
"""How often the moment of interest is waited for, if it is over before the picture is made."""
TRAINING = "training(?s:.*)step"
ENDLESS = ("--epochs", "1000")
"""So long that no run ends by itself before its picture is made."""


def record_failed(studio: Studio) -> None:
    """Train, and kill a rank."""
    killer = RankKiller(rank=2)
    studio.train(
        "60-epochs", *HERE, "--epochs", "60", "--checkpoint-every", "25", watch=killer.watch
    )


RECORDERS: dict[str, Callable[[Studio], None]] = {
    "baseline": lambda studio: studio.train("baseline", *HERE, "--epochs", "20"),
    "lr-0.3": lambda studio: studio.train("lr-0.3", *HERE, "--epochs", "20", "--lr", "0.3"),
    "ring": lambda studio: studio.train("ring", *HERE, "--epochs", "10", "--sync", "ring"),
    "lr-1000": lambda studio: studio.train("lr-1000", *HERE, "--epochs", "2", "--lr", "1000"),
    "slow-node3": lambda studio: studio.train("slow-node3", *SLOW_LAB, "--epochs", "12"),
    "my-ddp": lambda studio: studio.train("my-ddp", *HERE, "--", "ddp.py", "--steps", "400"),
    "batch-0": lambda studio: studio.train("batch-0", *HERE, "--", "ddp.py", "--batch-size", "0"),
    "60-epochs": record_failed,
}
"""How each run is recorded, in this order. None has the name of a state, as which it would be
read."""


def record_runs(studio: Studio) -> None:
    """Record the runs that are not there yet, and the study."""
    shutil.copy(SCRIPT, studio.folder)
    for name, record in RECORDERS.items():
        if not studio.has_ended(name):
            record(studio)
    # Of a study that is there, no run is made again.
    studio.run(*STUDY, "--run")


class GalleryScreen(NamedTuple):
    """A screen, and how it comes about."""

    words: tuple[str, ...]
    """The arguments of the command that opens it."""
    pattern: str
    """What it shows at the moment of interest, as a regular expression."""
    size: tuple[int, int] = NORMAL_SIZE
    keys: tuple[tuple[str, str], ...] = ()
    """What is typed then, each with what the screen shows after it."""
    is_live: bool = False
    """True if the command starts a run, which is stopped after the picture."""
    seconds: float = 0.0
    """How long a live run is watched from the moment of interest on."""
    paused_rank: int | None = None
    """A rank whose process is paused after some training."""


SCREENS = {
    "live": GalleryScreen((*HERE, *ENDLESS), TRAINING, is_live=True, seconds=25.0),
    "straggler": GalleryScreen((*SLOW_LAB, *ENDLESS), NAMED, SMALL_SIZE, is_live=True, seconds=4.0),
    "start": GalleryScreen((*HERE, *ENDLESS), "importing", is_live=True, seconds=0.8),
    "stalled": GalleryScreen(
        (*HERE, *ENDLESS), "stalled for", SMALL_SIZE, is_live=True, seconds=2.0, paused_rank=2
    ),
    "failed": GalleryScreen(("open", "60-epochs"), "sigkill", SMALL_SIZE),
    "diverged": GalleryScreen(("open", "lr-1000"), "diverged"),
    "finished": GalleryScreen(("open", "baseline"), "finished", SMALL_SIZE),
    "script": GalleryScreen(
        (*HERE, "--", SCRIPT.name, "--steps", "20000"), TRAINING, is_live=True, seconds=20.0
    ),
    "home": GalleryScreen((), "baseline", SMALL_SIZE),
    "study": GalleryScreen(STUDY, "test loss of "),
    "compare": GalleryScreen(("compare", "baseline", "lr-0.3", "--dashboard"), "time per step"),
    "replay": GalleryScreen(("open", "baseline"), "finished", keys=((PAGE_UP * 4, "replay"),)),
    "form": GalleryScreen(("--form", *HERE), "new run", SMALL_SIZE),
    "doctor": GalleryScreen(
        ("--form", *SLOW_LAB), "new run", keys=(("c", "all checks"), ("D", "again"))
    ),
}


class Gallery:
    """Makes pictures of screens."""

    def __init__(self, studio: Studio) -> None:
        self._studio = studio

    def picture(self, name: str, screen: GalleryScreen) -> None:
        """Save a picture of a screen."""
        words = screen.words
        if screen.is_live:
            words = ("--name", LIVE_NAME, "--runs-dir", LIVE_RUNS, *screen.words)
        with self._studio.terminal([RANKBOARD, *words], screen.size) as terminal:
            try:
                self._show(screen, terminal)
                columns, rows = screen.size
                self._studio.save(f"{name}-{columns}x{rows}", terminal)
            finally:
                if screen.is_live:
                    self._studio.run("stop", LIVE_NAME, "--now", "--runs-dir", LIVE_RUNS)
                    shutil.rmtree(self._studio.folder / LIVE_RUNS, ignore_errors=True)

    def _show(self, screen: GalleryScreen, terminal: Terminal) -> None:
        """Bring a screen to its moment of interest."""
        if screen.paused_rank is not None:
            terminal.wait_for(TRAINING)
            terminal.read_for(10.0)
            os.kill(self._find_process(screen.paused_rank), signal.SIGSTOP)
        terminal.wait_for(screen.pattern)
        if screen.is_live:
            self._watch(screen, terminal)
            return
        terminal.settle()
        for key, pattern in screen.keys:
            terminal.type(key)
            terminal.wait_for(pattern)
            terminal.settle()

    def _watch(self, screen: GalleryScreen, terminal: Terminal) -> None:
        """Watch a live run. What other programs on this machine do is no part of a picture."""
        for _ in range(MAX_TRIES):
            terminal.wait_for(screen.pattern)
            terminal.read_for(screen.seconds)
            if re.search(screen.pattern, terminal.text, re.IGNORECASE):
                break
        if LOAD in terminal.text:
            terminal.type(HIDE_ALERTS)
            terminal.read_for(2.0)

    def _find_process(self, rank: int) -> int:
        """Return the process of a rank of the live run."""
        [path] = self._studio.folder.glob(f"{LIVE_RUNS}/*/events.jsonl")
        events = map(json.loads, path.read_text().splitlines())
        return next(
            int(event["pid"])
            for event in events
            if event["event"] == "spawned" and event["rank"] == rank
        )


def read_size(text: str) -> tuple[int, int]:
    """Return columns and rows out of a text such as 80x24."""
    columns, rows = map(int, text.split("x"))
    return columns, rows


def main() -> None:
    """Make the pictures that are asked for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", type=Path, help="the folder of the pictures")
    parser.add_argument("screens", nargs="*", metavar="SCREEN", help=f"one of {', '.join(SCREENS)}")
    parser.add_argument("--size", type=read_size, help="columns and rows, such as 80x24")
    parser.add_argument("--kept", type=Path, default=KEPT, help=f"the folder of runs ({KEPT})")
    given = parser.parse_args()
    unknown_names = set(given.screens) - set(SCREENS)
    if unknown_names:
        parser.error(f"no such screen: {', '.join(sorted(unknown_names))}")
    for folder in (given.out, given.kept / "home"):
        folder.mkdir(parents=True, exist_ok=True)
    studio = Studio(given.kept.absolute(), given.out.absolute())
    record_runs(studio)
    gallery = Gallery(studio)
    for name in given.screens or SCREENS:
        screen = SCREENS[name]
        if given.size:
            screen = screen._replace(size=given.size)
        gallery.picture(name, screen)


if __name__ == "__main__":
    main()
