"""A run that is watched beside its launcher: its record is read as it grows; nothing is sent."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

from remote.fair_lock import FairLock
from remote.plan.plan import Plan, PlanError
from remote.record.follow import LOOK, Tail
from remote.record.lock import Holder, launcher
from remote.record.read import RunFolderError
from remote.run.phases import RunPhase
from remote.run.state import RunState
from training.wire.events import Record


class WatchedRun:
    """A session over the record of a run, which it never changes. `launcher` is the process that
    records the run now; None where there is none.

    Any number of them may watch a run. `state` is written only while `lock` is held, by the thread
    that iterates `batches`; it is another object where the record was replaced.
    """

    detached = cut_off = False
    keep = True

    def __init__(self, folder: Path, plan: Plan) -> None:
        """Take in what is recorded so far. Raises: OtherFormat; RunFolderError."""
        self.plan, self.folder = plan, folder
        self.lock = FairLock()
        self.launcher: Holder | None = None
        self._tail = Tail(folder, len(plan.hosts))
        self._left = threading.Event()
        self._problem = ""
        self.state = RunState(plan)
        for _ in self._news():
            pass

    @property
    def has_ended(self) -> bool:
        """Whether the record says that the run has ended."""
        return self.state.phase is RunPhase.ENDED

    @property
    def news(self) -> str:
        """What is to be known of the record, in one sentence; "" where the run has ended."""
        if self._problem:
            return self._problem
        if self.has_ended:
            return ""
        if self.launcher:
            return f"watching beside its launcher, {self.launcher}: nothing here acts on the run"
        what_to_do = f"rankboard attach {self.plan.run} returns to it"
        if self.state.course.detached:
            return f"its launcher has left the run, which goes on unrecorded: {what_to_do}"
        return f"its launcher is gone, and what became of the run is not recorded: {what_to_do}"

    def batches(self) -> Iterator[list[Record]]:
        """Iterate over the records as they come, already applied to `state`, until the run has
        ended or `stop`. Goes on without a launcher, as another one may return to the run. Where the
        record cannot be read any more, `news` says why.
        """
        try:
            while not self.has_ended and not self._left.wait(LOOK):
                yield from self._news()
        except (PlanError, RunFolderError) as error:
            self._problem = str(error)
        finally:
            self._tail.close()

    def _news(self) -> Iterator[list[Record]]:
        """What has come since the last look, then an empty batch."""
        if not self.folder.is_dir():
            raise RunFolderError(f"{self.folder} is gone: somebody has deleted the run")
        holder = launcher(self.folder)  # before the read: what it wrote last is read yet
        if self._tail.is_replaced():
            with self.lock:
                self.state = RunState(self.plan)
        for batch in filter(None, self._tail.read()):
            with self.lock:
                for record in batch:
                    self.state.apply(record)
            yield batch
        with self.lock:
            self.launcher = holder
            self.state.is_held = holder is None  # its clock stops: nobody knows what goes on
        yield []

    def stop(self, reason: str = "", *, now: bool = False) -> None:
        """Stop watching. The run is not told."""
        self._left.set()

    def detach(self) -> None:
        """Stop watching."""
        self.stop()

    def ask_stacks(self) -> None:
        """Ask nobody: the stacks of the record are all that there are."""
