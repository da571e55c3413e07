"""The files of a study on disk: its directory beside those of its runs.

RUNS_DIR/NAME.study/
    study.toml       the study as it was started
    place.json       where it runs, and how: hosts, how many, lab, options of the command line
    place.mac        proves to the user who called it that nobody has changed place.json
    journal.jsonl    one line per fact: a run has begun for a trial, or has ended
    launcher.pid     held by the process that runs the study

Its runs are ordinary runs in RUNS_DIR.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any, TypeGuard

from remote.jsonl import load
from remote.limits import LIMITS
from remote.metrics.conditions import UNKNOWN, Conditions
from remote.record import files, layout, trust
from remote.record.layout import LOCK
from remote.record.overview import check_number
from remote.study.study import StudyError
from training.file_locks import try_lock
from training.wire.jsonl import dumps
from training.writing import write_all, write_whole

SUFFIX = layout.STUDY
JOURNAL = layout.JOURNAL
STUDY = "study.toml"
PLACE = "place.json"
SIGNATURE = "place.mac"
TRIAL = re.compile(r".+ #[1-9][0-9]{0,4}")
"""The key of a trial."""
PLACES: Mapping[str, type] = {
    **dict.fromkeys(("local", "slots", "nodes"), int),
    **dict.fromkeys(("hosts", "host", "link", "cpus", "only", "exclude"), str),
    "slurm": bool,
}
"""The options for hosts, see `tui.flags.selection`."""


class TrialOutcome(StrEnum):
    """What a run was for its trial."""

    COUNTED = "counted"
    FAILED = "failed"
    INTERRUPTED = "interrupted"


@dataclass(frozen=True)
class RunBegun:
    """An entry of the journal: a run has begun for a trial."""

    trial: str
    run: str


@dataclass(frozen=True)
class RunEnded:
    """An entry of the journal: a run has ended, or could not begin.

    The names of the fields are those of the file.
    """

    trial: str
    run: str
    outcome: TrialOutcome
    value: float | None = None
    """What the study compares."""
    cause: str = ""
    """Why the run failed."""
    remarks: tuple[str, ...] = ()
    seconds: float = 0.0
    """How long it took; 0 if that is not known."""
    losses: tuple[float, float] | None = None
    """Its first and last training loss, if known."""
    reason: str = ""
    """The cause without the host and rank that had it, equal for all runs that fail alike."""
    lacks: str = ""
    """The metric without a value, if the run has finished and failed only because of that."""
    conditions: Conditions = UNKNOWN
    """The conditions under which its ranks computed."""


JournalEntry = RunBegun | RunEnded


@dataclass(frozen=True)
class RecordedCall:
    """How a study was called, by place.json."""

    given: Mapping[str, Any]
    """Settings of the job."""
    places: Mapping[str, Any]
    """Options for hosts."""
    num_hosts: int
    is_quick: bool
    is_trusted: bool
    """True if this user called it so, and nobody has changed the file since."""


@dataclass(frozen=True)
class StudyFolder:
    """The directory of a study."""

    path: Path

    @classmethod
    def of(cls, runs_dir: Path, name: str) -> StudyFolder:
        """Return the directory of the study of this name."""
        return cls(runs_dir / f"{name}{SUFFIX}")

    @property
    def name(self) -> str:
        """Return the name of the study."""
        return self.path.name.removesuffix(SUFFIX)

    @property
    def exists(self) -> bool:
        """Return whether the study has been started."""
        return (self.path / STUDY).exists()

    @contextmanager
    def held(self) -> Iterator[None]:
        """Keep other processes from running the study meanwhile. Raises: StudyError."""
        with self._writing():
            self._make()
            lock = files.open_regular(self.path / LOCK, os.O_RDWR | os.O_CREAT)
        try:
            self._take(lock)
            yield
        finally:
            os.close(lock)

    def _make(self) -> None:
        files.make_runs_dir(self.path.parent)
        files.make_folder(self.path, exist_ok=True)

    @contextmanager
    def _writing(self) -> Iterator[None]:
        """Turn an error of writing into a `StudyError`."""
        try:
            yield
        except OSError as error:
            raise StudyError(
                f"cannot record the study in {self.path}: {error.strerror}; once it can be "
                "written, the same command continues the study"
            ) from error

    def _take(self, lock: int) -> None:
        """Take the lock and write who has it. Raises: StudyError, if another process has it."""
        if not try_lock(lock):
            holder = os.pread(lock, LIMITS.small_file, 0).decode(errors="replace").strip()
            raise StudyError(
                f"{self.name} is running: process {holder}. Wait for it, or stop it with Ctrl+C "
                "where it runs"
            )
        with self._writing():
            os.ftruncate(lock, 0)
            os.write(lock, str(os.getpid()).encode())

    def keep(self, text: str, place: Mapping[str, Any]) -> None:
        """Write what the study is and how it was called. Raises: StudyError."""
        data = f"{dumps(place)}\n".encode()
        with self._writing():
            self._make()
            write_whole(self.path / PLACE, data)
            write_whole(self.path / SIGNATURE, trust.signature(data).encode())
            write_whole(self.path / STUDY, text.encode())

    def text(self) -> str:
        """Return the text of the study as it was started. Raises: StudyError."""
        try:
            return files.read(self.path / STUDY, LIMITS.plan).decode()
        except (OSError, UnicodeDecodeError) as error:
            raise StudyError(f"{self.path} holds no study: {STUDY}: {error}") from None

    def call(self) -> RecordedCall:
        """Return how the study was called, as far as that is known."""
        data = b""
        signature = b""
        with suppress(OSError):
            data = files.read(self.path / PLACE, LIMITS.plan)
            signature = files.read(self.path / SIGNATURE, LIMITS.small_file)
        content = load(data) or {}
        given = content.get("given")
        places = content.get("places")
        nodes = content.get("nodes")
        options = {}
        for name, value in places.items() if isinstance(places, dict) else ():
            if type(value) is PLACES.get(name):
                options[name] = value
        return RecordedCall(
            given=given if isinstance(given, dict) else {},
            places=options,
            num_hosts=nodes if type(nodes) is int and nodes > 0 else 1,
            is_quick=content.get("quick") is True,
            is_trusted=trust.is_signed(data, signature),
        )

    def write(self, entry: JournalEntry) -> None:
        """Add an entry to the journal. It is on the disk on return. Raises: StudyError."""
        event = "begun" if isinstance(entry, RunBegun) else "ended"
        line = dumps({"event": event, "time": time.time()} | asdict(entry))
        journal = self.path / JOURNAL
        with self._writing():
            begin = "\n" if files.is_torn(journal) else ""
            descriptor = files.open_regular(journal, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
            try:
                write_all(descriptor, f"{begin}{line}\n".encode())
                os.fsync(descriptor)
            finally:
                os.close(descriptor)

    def entries(self) -> Iterator[JournalEntry]:
        """Yield the entries of the journal, in order. Raises: StudyError.

        A torn line is left out.
        """
        if not (self.path / JOURNAL).exists():
            return
        try:
            for line in files.lines(self.path / JOURNAL):
                entry = _parse_entry(load(line) or {})
                if entry:
                    yield entry
        except OSError as error:
            raise StudyError(f"{self.path} holds no study: {JOURNAL}: {error.strerror}") from None


def _parse_entry(data: dict[str, Any]) -> JournalEntry | None:
    """Return the entry of a line, or None if it holds none."""
    trial = data.get("trial")
    run = data.get("run")
    if not (isinstance(trial, str) and TRIAL.fullmatch(trial) and _is_run_name(run)):
        return None
    if data.get("event") == "begun":
        return RunBegun(trial, run)
    if data.get("event") != "ended" or data.get("outcome") not in list(TrialOutcome):
        return None
    outcome = TrialOutcome(data["outcome"])
    value = check_number(data.get("value"))
    if outcome is TrialOutcome.COUNTED and value is None:
        return None
    remarks = data.get("remarks")
    return RunEnded(
        trial,
        run,
        outcome,
        value,
        str(data.get("cause", "")),
        tuple(map(str, remarks)) if isinstance(remarks, list) else (),
        max(0.0, check_number(data.get("seconds")) or 0.0),
        _parse_pair(data.get("losses")),
        str(data.get("reason", "")),
        str(data.get("lacks", "")),
        _parse_conditions(data.get("conditions")),
    )


def _parse_conditions(value: Any) -> Conditions:
    if not isinstance(value, dict):
        return UNKNOWN
    threads = value.get("threads")
    counts = threads if isinstance(threads, list) else []
    known = tuple(number for number in counts if type(number) is int)
    return Conditions(known, value.get("shares_machine") is True)


def _parse_pair(value: Any) -> tuple[float, float] | None:
    """Return two numbers, or None if the value is something else."""
    if not isinstance(value, list) or len(value) != 2:
        return None
    first = check_number(value[0])
    last = check_number(value[1])
    return None if first is None or last is None else (first, last)


def _is_run_name(run: Any) -> TypeGuard[str]:
    """Return whether this is the name of a run, and leads nowhere else."""
    is_text = isinstance(run, str) and run.isprintable()
    return is_text and "/" not in run and run not in ("", ".", "..")
