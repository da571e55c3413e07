"""`python -m tests.hostile.fuzz`: send random records, read mutated run directories."""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import tempfile
import time
import traceback
import warnings
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path
from random import Random

from tests.hostile.fuzz.budget import TooSlow, watched
from tests.hostile.fuzz.folders import draw, make_templates
from tests.hostile.fuzz.readers import case_of_way, read_all
from tests.hostile.fuzz.stories import OurMistake, Story

PART = 40
"""Cases that a process takes at a time."""


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


def main() -> int:
    """Run cases. Returns 1 where one fails."""
    parser = argparse.ArgumentParser(prog="python -m tests.hostile.fuzz", description=__doc__)
    parser.add_argument("--records", type=int, default=0, help="send about as many records")
    parser.add_argument("--folders", type=int, default=0, help="read as many run directories")
    parser.add_argument("--seed", type=int, default=1, help="the first seed")
    parser.add_argument("--story", type=int, help="tell the story of this seed alone")
    parser.add_argument("--folder", type=int, help="read the run directory of this seed alone")
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    parser.add_argument("--most", type=int, default=10, help="go on until as many have failed")
    given = parser.parse_args()
    warnings.simplefilter("error")  # which would stand in the middle of the dashboard
    warnings.simplefilter("ignore", ResourceWarning)
    if given.story is not None:
        return _tell(run_stories(given.story, 1).failures)
    if given.folder is not None:
        return _tell(read_folders(given.folder, 1).failures)
    failed = 0
    if given.records:
        failed += _run("records", run_stories, given, given.records)
    if given.folders:
        failed += _run("folders", read_folders, given, given.folders)
    return int(failed > 0)


def run_stories(first: int, count: int) -> Outcome:
    """Tell the stories of so many seeds."""
    records, failures = 0, []
    with watched() as budget:
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


def read_folders(first: int, count: int) -> Outcome:
    """Read the run directories of so many seeds."""
    failures = []
    with tempfile.TemporaryDirectory(prefix="rankboard-fuzz-", dir=_memory()) as name:
        place = Path(name)
        os.environ["XDG_CONFIG_HOME"] = str(place / "config")
        make_templates(place / "templates")
        with watched() as budget:
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


def _memory() -> str | None:
    """A folder that is no disk, where there is one."""
    return "/dev/shm" if os.path.isdir("/dev/shm") else None


def _run(
    what: str,
    run: Callable[[int, int], Outcome],
    given: argparse.Namespace,
    wanted: int,
) -> int:
    """Run cases part by part, and show how far that is. Returns how many have failed."""
    began, done, failed, next_seed = time.monotonic(), 0, 0, given.seed
    with ProcessPoolExecutor(given.jobs) as pool:
        running = set()
        while (done < wanted or running) and failed < given.most:
            while len(running) < given.jobs and done + len(running) * PART < wanted:
                running.add(pool.submit(run, next_seed, PART))
                next_seed += PART
            if not running:
                break
            finished = next(as_completed(running))
            running.discard(finished)
            outcome = finished.result()
            done += outcome.done
            failed += len(outcome.failures)
            _tell(outcome.failures)
            seconds = time.monotonic() - began
            print(
                f"{done:,} of {wanted:,} {what}, {failed} failed, {seconds:.0f} s, "
                f"next seed {next_seed}",
                flush=True,
            )
    return failed


def _tell(failures: tuple[Failure, ...]) -> int:
    for failure in failures:
        print(f"seed {failure.seed} fails; what it was given last:\n{failure.given}")
        print(failure.error, flush=True)
    return int(bool(failures))


if __name__ == "__main__":
    sys.exit(main())
