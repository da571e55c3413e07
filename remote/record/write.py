"""Write the directory of a run: everything that the run reports, on the operator's disk. See
`remote.record.layout`.

It does not know what a record means, except for text. A disk that fails costs records, never the
run.
"""

from __future__ import annotations

import json
import math
import os
import time
from collections import defaultdict
from contextlib import suppress
from pathlib import Path
from typing import Any

from remote.events import encode
from remote.plan import serialize
from remote.plan.plan import Plan, PlanError
from remote.record import files, layout, lock, marks, step_chunks, summary, trust
from remote.record.classification import format_last_report
from remote.record.overview import encode_overview, make_overview
from remote.record.snapshots import RunMoment, SnapshotKeeper
from remote.run.output.script_readings import Expand
from remote.run.run_state import RunState
from training.wire.events import Record
from training.wire.host_events import OutputText
from training.writing import write_whole

OVERVIEW_EVERY = 5.0
"""Seconds between two overviews of a run that goes on."""


class Recorder:
    """Writes one run's directory. Records gather in memory until `flush`; no file stays open in
    between."""

    def __init__(self, runs_dir: Path, plan: Plan, continues: bool = False) -> None:
        """`continues`: continue the directory that is there. Raises: PlanError, if the directory
        cannot be made."""
        self.folder = runs_dir / plan.run
        self._events = self.folder / layout.EVENTS
        self._world_size = plan.world_size
        self._waiting: defaultdict[Path, list[bytes]] = defaultdict(list)
        self._problem = ""
        self._moves_columns = True
        """Whether columns of steps go into their own file. If lines name chunks that are missing,
        no others may take their place."""
        self._overview_due = -math.inf
        self._snapshots = SnapshotKeeper(self.folder, plan)
        try:
            self._lock = self._make(runs_dir, plan, continues)
        except OSError as error:
            problem_text = f"cannot record the run in {self.folder}: {error.strerror}"
            raise PlanError(f"{problem_text}; give another --runs-dir") from error
        existing_files = (self._events, *(self.folder / layout.LOGS).iterdir()) if continues else ()
        self._torn = set(filter(files.is_torn, existing_files))

    def _make(self, runs_dir: Path, plan: Plan, continues: bool) -> int:
        """Make the directory. Return the lock on it. Raises: OSError."""
        files.make_runs_dir(runs_dir)
        files.make_folder(self.folder, exist_ok=continues)
        files.make_folder(self.folder / layout.LOGS, exist_ok=continues)
        held_lock = lock.take(self.folder / layout.LOCK)
        if continues:
            with suppress(OSError):  # the first write says why
                self._moves_columns = step_chunks.cut_unfinished(self.folder)
        if not (self.folder / layout.PLAN).exists():  # else it keeps its contents and its owner
            if continues:
                # Continued without a plan: another machine began this run.
                write_whole(self.folder / layout.ELSEWHERE, b"")
            _write_plan(self.folder, plan)
        return held_lock

    def raw(self, lines: bytes) -> None:
        """Keep records that an agent has encoded, whole lines."""
        self._waiting[self._events].append(lines)

    def write(self, record: Record) -> None:
        """Keep a record of the session's own."""
        self.raw(_bytes(encode(record)))

    def text(self, record: Record) -> None:
        """Keep a rank's lines in its log; other records, and what is read of files, are none of its
        business. Expects expanded records."""
        output = record.event
        if isinstance(output, OutputText) and not output.path:
            log_path = layout.host_log(self.folder, record.host)
            if 0 <= output.rank < self._world_size:
                log_path = layout.rank_log(self.folder, output.rank)
            self._waiting[log_path].append(_bytes(output.text + "\n"))

    def flush(self) -> str:
        """Write all that has gathered. Return a message the first time that this fails, else ""."""
        was_reported = bool(self._problem)
        for path, chunks in self._waiting.items():
            try:
                data = b"".join(chunks)
                self._append(path, self._move_columns(data) if path == self._events else data)
            except OSError as error:
                self._torn.add(path)
                write_problem = f"cannot write {path}: {error.strerror}"
                gap_remark = "; the run continues, but its record has gaps"
                self._problem = self._problem or write_problem + gap_remark
        self._waiting.clear()
        return "" if was_reported else self._problem

    def _move_columns(self, lines: bytes) -> bytes:
        """Write the columns of steps to their own file. Return the lines that name them, or, if
        that file cannot be written, the lines as they are."""
        if self._moves_columns:
            with suppress(OSError):
                return step_chunks.move_columns(self.folder, lines)
        return lines

    def close(self, state: RunState, expand: Expand | None = None) -> str:
        """Write what is left, the overview, the summary and the report; with what expands the next
        records also a last snapshot. Return a message as `flush` does."""
        write_problem = self.flush()
        last_offset = self._measure_events()
        # First of all: what follows may take long, and no record comes any more.
        self.release()
        report_text = format_last_report(state)
        end_files = {
            layout.OVERVIEW: encode_overview(make_overview(state)),
            layout.SUMMARY: _bytes(_json(summary.summarize(state))),
            **({layout.REPORT: _bytes(report_text)} if report_text else {}),
        }
        for file_name, file_bytes in end_files.items():
            path = self.folder / file_name
            try:
                write_whole(path, file_bytes)
            except OSError as error:
                write_problem = write_problem or f"cannot write {path}: {error.strerror}"
        if expand:
            self._keep_last_snapshot(RunMoment(state, expand, last_offset))
        return write_problem

    def leave(self, state: RunState, expand: Expand) -> None:
        """Let another launcher record the run, to which this one has added nothing. What it has
        read of a long record need not be read again."""
        last_offset = self._measure_events()
        self.release()
        self._keep_last_snapshot(RunMoment(state, expand, last_offset))

    def continue_from(self, moment: RunMoment) -> None:
        """Make the next snapshot only once there is much behind this one."""
        self._snapshots.newest_offset = moment.offset

    def _keep_last_snapshot(self, moment: RunMoment) -> None:
        if not self._problem:  # else the state has records that could not be written
            self._snapshots.finish(moment)

    def update_overview(self, state: RunState) -> None:
        """Write the overview, unless it is only a few seconds old."""
        now = time.monotonic()
        if now < self._overview_due:
            return
        self._overview_due = now + OVERVIEW_EVERY
        with suppress(OSError):  # a disk that fails is reported by `flush`
            write_whole(self.folder / layout.OVERVIEW, encode_overview(make_overview(state)))

    def keep_snapshot(self, state: RunState, expand: Expand) -> None:
        """Keep a snapshot of the run, to which all records have led that are written, and no other;
        unless that would take much time or room."""
        # The state has records that could not be written.
        if self._problem:
            return
        offset = self._measure_events()
        if self._snapshots.is_due(offset):
            self._snapshots.keep(RunMoment(state, expand, offset))

    def _measure_events(self) -> int:
        """Return how many bytes of records there are; 0 if none."""
        try:
            return self._events.stat().st_size
        except OSError:
            return 0

    def release(self) -> None:
        """Let another launcher record the run."""
        with suppress(OSError):
            (self.folder / layout.LOCK).unlink()
        if self._lock >= 0:
            os.close(self._lock)
        self._lock = -1

    def _append(self, path: Path, data: bytes) -> None:
        """Append to a file. The write after a failed one begins a line of its own, since the failed
        one may have left half a line."""
        files.append(path, b"\n" + data if path in self._torn else data)
        self._torn.discard(path)


def _bytes(text: str) -> bytes:
    # A lone surrogate, which JSON may bring, is no UTF-8; its escape is what JSON wrote.
    return text.encode("utf-8", "backslashreplace")


def _json(data: dict[str, Any]) -> str:
    return json.dumps(data, indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def _write_plan(folder: Path, plan: Plan) -> None:
    plan_bytes = _bytes(serialize.dump(plan))
    write_whole(folder / layout.PLAN, plan_bytes)
    write_whole(folder / layout.SIGNATURE, trust.signature(plan_bytes).encode())
    if plan.label:
        marks.write_name(folder, plan.label)
