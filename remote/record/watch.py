"""Watch a run by its record alone, as it grows; nothing is sent, and the record stays as it is."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import ClassVar

from remote.fair_lock import FairLock
from remote.format import percent
from remote.plan.plan import Plan, PlanError
from remote.record import lock, tape
from remote.record.events_file import LOOK, RunFolderError
from remote.record.lock import Holder
from remote.record.tape import Tape
from remote.run.state.phases import RunPhase
from training.wire.events import Record

RECORDS = 500
"""Records that are taken in at once while the lock is held: about so many, as those of a line come
together."""
FIRST = 1.0
"""Seconds that a run with an overview has to be drawn, before all of it is read."""
END = float("inf")


class WatchedRun:
    """A session over the record of a run, which it never changes. It shows the end of the record,
    and follows it: a launcher may go on with the run at any time, even once it has ended.

    Any number of them may watch a run. `state` is written only while `lock` is held, by the thread
    that iterates `batches`. It is another object where the record was replaced, and once all of a
    long one has been read behind its overview. `reading`: how much of it has been read, from 0 to
    1; None once `state` is that of all records. `launcher` is the process that records the run now;
    None where there is none.
    """

    detached = cut_off = keep = False
    rewinds: ClassVar[bool] = False
    """Whether it can show other times."""

    def __init__(self, folder: Path, plan: Plan) -> None:
        """Take in what is recorded so far, of a long record only an overview.

        Raises: OtherFormat; RunFolderError.
        """
        self.plan = plan
        self.folder = folder
        self.lock = FairLock()
        self.reading: float | None = None
        self.problem = ""
        """Why the record cannot be read any more."""
        self._wake = threading.Event()
        self._left = threading.Event()
        self._tape = Tape(folder, plan, rewinds=self.rewinds)
        self._preview: Tape | None = None
        self.state = self._tape.state
        self.launcher = lock.launcher(folder)
        try:
            self._begin()
        except BaseException:
            self._tape.close()
            raise

    def _begin(self) -> None:
        """Take in what is recorded so far. Raises: OtherFormat; RunFolderError."""
        if self._tape.is_far_behind:
            self._preview = tape.preview_tape(self.folder, self.plan)
            self.state = self._preview.state
            self.reading = 0.0
        else:
            self._tape.advance(END, sys.maxsize)
            self._save()
        self._hold(END, is_there=True)

    def _save(self) -> None:
        """Keep what was read of a long record, for the next reader; a launcher does so itself."""
        if self.launcher is None:
            with self.lock:
                self._tape.save()

    @property
    def has_ended(self) -> bool:
        """Return True if the record says that the run has ended."""
        return self.state.phase is RunPhase.ENDED

    @property
    def news(self) -> str:
        """Say in one sentence what a reader should know of the record; "" if the run has ended."""
        if self.problem:
            return self.problem
        if self.reading is not None:
            return f"this is an overview; {percent(self.reading)} of the record has been read"
        if self.has_ended:
            return ""
        if self.launcher:
            return f"watching beside its launcher, {self.launcher}: nothing here acts on the run"
        what_to_do = f"rankboard attach {self.plan.run} returns to it"
        if self.state.launcher.detached:
            return f"its launcher has left the run, which continues without a record: {what_to_do}"
        return f"its launcher is gone, and what became of the run is not recorded: {what_to_do}"

    def batches(self) -> Iterator[list[Record]]:
        """Bring `state` to what it is at the time to be shown, again and again, until `stop`. The
        batches are empty. Where the record cannot be read any more, `news` says why.
        """
        if self.reading is not None:  # the screen comes first
            self._wake.wait(FIRST)
        try:
            while not self._left.is_set():
                self._wake.clear()
                is_more = self._follow()
                yield []
                if not is_more:
                    self._wake.wait(self._pause)
        except (PlanError, RunFolderError) as error:
            self.problem = str(error)
        finally:
            self._tape.close()
            self._close_preview()

    def _close_preview(self) -> None:
        if self._preview:
            self._preview.close()
            self._preview = None

    @property
    def _until(self) -> float:
        """Return the time to be shown, by the session's clock."""
        return END

    @property
    def _pause(self) -> float | None:
        """Return the seconds until there may be more to apply; None: not before a jump."""
        return LOOK

    def _follow(self) -> bool:
        """Apply the next lines. Return True if there may be more up to the time to be shown."""
        shown_time = self._until
        holder = lock.launcher(self.folder)  # before the read: what it wrote last is read yet
        self._tape.renew()
        if self._tape.state.now > shown_time:
            self._tape.rewind(shown_time)
        # While the whole record is still being read, the screen stays on what it has: the
        # overview, or the state before a jump.
        if self._tape.state is not self.state and self._tape.advance(shown_time, RECORDS):
            self.reading = self._tape.share  # it is shown once it has come as far
            if self._preview and shown_time == END:
                self._go_on(self._preview, shown_time, holder)
            return True
        is_more = self._go_on(self._tape, shown_time, holder)
        self.reading = None
        self._close_preview()
        if shown_time == END and not is_more:
            self._save()
        if shown_time == END and not self.has_ended and not self.folder.is_dir():
            raise RunFolderError(f"{self.folder} is gone: somebody has deleted the run")
        return is_more

    def _go_on(self, shown_tape: Tape, shown_time: float, holder: Holder | None) -> bool:
        """Show this tape, with the next lines. Return True if there may be more."""
        with self.lock:
            is_more = shown_tape.advance(shown_time, RECORDS)
            self.state = shown_tape.state
            self.launcher = holder
            self._hold(shown_time, is_there=not is_more)
        return is_more

    def _hold(self, shown_time: float, *, is_there: bool) -> None:
        """Let the run's clock go on or stop. `is_there`: `state` has come to this time; else it is
        on its way."""
        self.state.is_held = self.launcher is None  # nobody knows what goes on

    def stop(self, reason: str = "", *, now: bool = False) -> None:
        """Stop watching. The run is not told."""
        self._left.set()
        self._wake.set()

    def detach(self) -> None:
        """Stop watching."""
        self.stop()

    def ask_stacks(self) -> None:
        """Ask nobody: the stacks of the record are all that there are."""
