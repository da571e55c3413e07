"""Cases by seed: stories of random records, and mutated run directories that are read."""

from __future__ import annotations

import os
import shutil
import tempfile
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from random import Random
from unittest.mock import patch

from tests.hostile.fuzz.budget import PATIENCE, TooSlow, watched
from tests.hostile.fuzz.folders import draw, make_templates
from tests.hostile.fuzz.readers import case_of_way, read_all
from tests.hostile.fuzz.stories import OurMistake, Story


@dataclass(frozen=True)
class Failure:
    """A case that went wrong: what was given to the product last, and the traceback."""

    seed: int
    given: str
    error: str


@dataclass(frozen=True)
class Outcome:
    """What a part of the cases came to: `done` records or folders."""

    done: int
    failures: tuple[Failure, ...]


def run_stories(first: int, count: int, patience: float = PATIENCE) -> Outcome:
    """Tell the stories of so many seeds. `patience`: see `budget.watched`."""
    records, failures = 0, []
    with watched(patience=patience) as budget:
        for seed in range(first, first + count):
            story = Story(seed, budget)
            try:
                with budget.memory():
                    story.run()
            except (Exception, TooSlow, OurMistake):
                budget.stop()
                lines = "\n".join(ascii(line[:1_000]) for line in story.lines)
                failures.append(Failure(seed, lines, traceback.format_exc()))
            records += story.taken
    return Outcome(records, tuple(failures))


def read_folders(
    first: int, count: int, patience: float = PATIENCE, real: Path | None = None
) -> Outcome:
    """Read the run directories of so many seeds. `patience`: see `budget.watched`; `real`: where
    real runs are, see `folders.make_real`."""
    failures = []
    with tempfile.TemporaryDirectory(prefix="rankboard-fuzz-", dir=_memory()) as name, _at(name):
        place = Path(name)
        make_templates(place / "templates")
        if real:
            shutil.copytree(real, place / "templates", symlinks=True, dirs_exist_ok=True)
        with watched(patience=patience) as budget:
            for seed in range(first, first + count):
                shutil.rmtree(place / "out", ignore_errors=True)
                (place / "out").mkdir()
                mutation = draw(place / "templates", place / "runs", seed)
                case_of_way.clear()
                try:
                    with budget.memory():
                        read_all(place / "runs", place / "out", Random(seed), budget)
                except (Exception, TooSlow):
                    budget.stop()
                    told = f"{', '.join(mutation.told)}; {case_of_way[-1:]}"
                    failures.append(Failure(seed, told, traceback.format_exc()))
    return Outcome(count, tuple(failures))


@contextmanager
def _at(name: str) -> Iterator[None]:
    """Work in a folder, with a configuration there: neither the user's key nor hosts are used."""
    before = Path.cwd()
    os.chdir(name)
    try:
        with patch.dict(os.environ, XDG_CONFIG_HOME=f"{name}/config"):
            yield
    finally:
        os.chdir(before)


def _memory() -> str | None:
    """A folder that is no disk, where there is one."""
    return "/dev/shm" if os.path.isdir("/dev/shm") else None
