"""`python -m tests.hostile.fuzz`: send random records, read mutated run directories."""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor, as_completed
from functools import partial
from pathlib import Path

from tests.hostile.fuzz.cases import Failure, Outcome, read_folders, run_stories
from tests.hostile.fuzz.folders import make_real

PART = 40
"""Cases that a process takes at a time."""


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
    with tempfile.TemporaryDirectory(prefix="rankboard-fuzz-") as name:
        return _run_all(given, Path(name))


def _run_all(given: argparse.Namespace, place: Path) -> int:
    """Run what is given. `place` is where real runs are made, of which folders are copies."""
    if given.folders or given.folder is not None:
        make_real(place)
    read = partial(read_folders, real=place)
    if given.folder is not None:
        return _tell(read(given.folder, 1).failures)
    failed = 0
    if given.records:
        failed += _run("records", run_stories, given, given.records)
    if given.folders:
        failed += _run("folders", read, given, given.folders)
    return int(failed > 0)


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
