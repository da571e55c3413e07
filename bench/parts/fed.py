"""The dashboard over a run whose records come from a file, each at its time: a program that
`bench/dashboard.py` starts in a terminal. Writes what it has measured as JSON once it is left."""

from __future__ import annotations

import argparse
import json
import threading
import time
from collections.abc import Iterator
from pathlib import Path

from parts.streams import START, Stream
from remote.cluster.hosts import Cluster
from remote.events import SessionClosed, decode, expand
from remote.fair_lock import FairLock
from remote.run.apply import apply_record
from remote.run.run_state import RunState
from remote.session.session import BATCH
from training.job import Job
from training.wire.events import SESSION, Record
from tui.app.app import RankboardApp
from tui.kit.interpreter import collect_seldom, keep_loaded_modules
from tui.kit.runs import Launch

BATCHES = 20
"""A second."""


class Fed:
    """A run whose records come from a file."""

    detached = cut_off = keep = False

    def __init__(self, stream: Stream, path: Path) -> None:
        self.plan = stream.plan
        self.state = RunState(self.plan)
        self.lock = FairLock()
        self._path = path
        self._left = threading.Event()

    def batches(self) -> Iterator[list[Record]]:
        """Decode, expand and apply what is due, as a session does."""
        began = time.monotonic()
        with self._path.open("rb") as file:
            line = file.readline()
            record = decode(line)
            while record and not self._left.is_set():
                due, batch, taken = time.monotonic() - began + START, list[Record](), 0
                if record.time > due:
                    self._left.wait(1 / BATCHES)
                    continue
                with self.lock:
                    while record and record.time <= due and taken < BATCH:
                        for one in expand(record):
                            apply_record(self.state, one)
                            batch.append(one)
                        taken += len(line)
                        line = file.readline()
                        record = decode(line)
                yield batch
        with self.lock:
            apply_record(self.state, Record(SESSION, 0, 1, self.state.now, SessionClosed()))

    def stop(self, reason: str = "", *, now: bool = False) -> None:
        """End the run."""
        self._left.set()

    def detach(self) -> None:
        """End the run."""
        self._left.set()

    def ask_stacks(self) -> None:
        """Nobody answers."""


class Measured(RankboardApp):
    """A dashboard that measures how long its frames take: from the beginning of a tick until what
    it has changed is drawn."""

    def __init__(self, launch: Launch) -> None:
        super().__init__(launch)
        self.frames: list[float] = []

    def tick(self) -> None:
        began = time.perf_counter()
        super().tick()
        if self.is_running:
            self.screen.call_after_refresh(lambda: self.frames.append(time.perf_counter() - began))


def main() -> None:
    """Show the run until the user leaves it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("stream", type=json.loads)
    parser.add_argument("records", type=Path)
    parser.add_argument("results", type=Path)
    given = parser.parse_args()
    stream = Stream(**given.stream)
    session = Fed(stream, given.records)
    cluster = Cluster("bench", session.plan.hosts)
    app = Measured(
        Launch(
            cluster,
            cluster,
            Job(),
            lambda *_: session.plan,
            lambda _: session,
            attached=session,
            runs_dir=given.results.parent / "runs",
        )
    )
    collect_seldom()
    keep_loaded_modules()
    app.run()
    app.finish()
    made = [rank.timing.count for rank in session.state.ranks]
    given.results.write_text(
        json.dumps({"frames": app.frames, "least": min(made), "most": max(made)})
    )


if __name__ == "__main__":
    main()
