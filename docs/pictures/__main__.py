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
import re
import shlex
import tempfile
from pathlib import Path

from film import Film
from studio import (
    HERE,
    NAMED,
    NORMAL_SIZE,
    RANKBOARD,
    SLOW_LAB,
    SMALL_SIZE,
    RankKiller,
    Studio,
    report,
)

FILM_SIZE = (104, 32)
"""Columns and rows of the film."""


def film_straggler(studio: Studio) -> None:
    """Film a run with a slow host, from the command to what the shell says in the end."""
    command = f"rankboard {shlex.join(SLOW_LAB)} --epochs 24 --name straggler"
    with studio.terminal(["bash", "--norc", "--noprofile"], FILM_SIZE) as terminal:
        terminal.wait_for(r"\$")
        film = Film(terminal)
        for word in command.split(" "):
            terminal.type(f"{word} ")
            film.film_for(0.2, 0.2)
        film.film_for(1.0, 1.5)
        terminal.type("\r")
        film.film_until(lambda text: "training" in text.lower(), 5.0)
        film.film_until(lambda text: bool(re.search(NAMED, text)), 4.0)
        film.film_for(4.0, 3.0)
        studio.save("dashboard-run", terminal)
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
    studio.train("lr-1000", *HERE, "--epochs", "2", "--lr", "1000")
    killer = RankKiller(rank=2)
    studio.train(
        "60-epochs", *HERE, "--epochs", "60", "--checkpoint-every", "25", watch=killer.watch
    )


def picture_screens(studio: Studio) -> None:
    """Save pictures of the screens that show runs which have ended."""
    comparison = [RANKBOARD, "compare", "baseline", "lr-0.3", "--dashboard"]
    screens = {
        "home": ([RANKBOARD], NORMAL_SIZE, "baseline", ""),
        "failed": ([RANKBOARD, "open", "60-epochs"], NORMAL_SIZE, "sigkill", ""),
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
            studio.save(f"dashboard-{name}", terminal)


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
