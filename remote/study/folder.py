"""What a study keeps on disk: its directory beside those of its runs.

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
from dataclasses import asdict, dataclass, field
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
    """A run has begun for a trial."""

    trial: str
    run: str


@dataclass(frozen=True)
class RunEnded:
    """It has ended. `value` is what the study compares; `cause` says why it failed. `seconds` says
    how long it took; 0 where that is not known. `reason` is the cause without the host and rank
    that had it, equal for all runs that fail alike. `losses` are its first and last training
    loss, if known. `lacks`: it has finished, and failed only because it has no value of this
    metric. `conditions` are those under which its ranks computed."""

    trial: str
    run: str
    outcome: TrialOutcome
    value: float | None = None
    cause: str = ""
    remarks: tuple[str, ...] = field(default=())
    seconds: float = 0.0
    losses: tuple[float, float] | None = None
    reason: str = ""
    lacks: str = ""
    conditions: Conditions = UNKNOWN


JournalEntry = RunBegun | RunEnded
KINDS: Mapping[str, type[JournalEntry]] = {"begun": RunBegun, "ended": RunEnded}


@dataclass(frozen=True)
class StudyFolder:
    """The directory of a study."""

    path: Path

    @classmethod
    def of(cls, runs_dir: Path, name: str) -> StudyFolder:
        """That of the study of this name."""
        return cls(runs_dir / f"{name}{SUFFIX}")

    @property
    def name(self) -> str:
        """The name of the study."""
        return self.path.name.removesuffix(SUFFIX)

    @property
    def exists(self) -> bool:
        """Whether the study has been started."""
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
        """Say what cannot be written. Raises: StudyError."""
        try:
            yield
        except OSError as error:
            raise StudyError(
                f"cannot record the study in {self.path}: {error.strerror}; once it can be "
                "written, the same command continues the study"
            ) from error

    def _take(self, lock: int) -> None:
        """Take the lock, and say who has it. Raises: StudyError."""
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
        """The study as it was started. Raises: StudyError."""
        try:
            return files.read(self.path / STUDY, LIMITS.plan).decode()
        except (OSError, UnicodeDecodeError) as error:
            raise StudyError(f"{self.path} holds no study: {STUDY}: {error}") from None

    def place(self) -> dict[str, Any]:
        """How the study was called, as far as that is known: `given` are job fields, `places` are
        options for hosts, `nodes` is the number of hosts, `quick` says whether it is the short
        variant. `own`: this user called it so, and nobody has changed it since."""
        data = signed = b""
        with suppress(OSError):
            data = files.read(self.path / PLACE, LIMITS.plan)
            signed = files.read(self.path / SIGNATURE, LIMITS.small_file)
        said = load(data) or {}
        given, places = (
            found if isinstance(found := said.get(name), dict) else {}
            for name in ("given", "places")
        )
        return {
            "given": given,
            "places": {name: one for name, one in places.items() if type(one) is PLACES.get(name)},
            "nodes": nodes if type(nodes := said.get("nodes")) is int and nodes > 0 else 1,
            "quick": said.get("quick") is True,
            "own": trust.is_signed(data, signed),
        }

    def write(self, entry: JournalEntry) -> None:
        """Add a fact to the journal. It is on the disk on return. Raises: StudyError."""
        kind = next(name for name, one in KINDS.items() if isinstance(entry, one))
        line = dumps({"event": kind, "time": time.time()} | asdict(entry))
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
        """The facts of the journal, in order. A torn line is left out. Raises: StudyError."""
        if not (self.path / JOURNAL).exists():
            return
        try:
            for line in files.lines(self.path / JOURNAL):
                entry = _entry(load(line) or {})
                if entry:
                    yield entry
        except OSError as error:
            raise StudyError(f"{self.path} holds no study: {JOURNAL}: {error.strerror}") from None


def _entry(data: dict[str, Any]) -> JournalEntry | None:
    """The fact of a line; None where it holds none."""
    trial = data.get("trial")
    run = data.get("run")
    if not (isinstance(trial, str) and TRIAL.fullmatch(trial) and _is_name(run)):
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
        _pair(data.get("losses")),
        str(data.get("reason", "")),
        str(data.get("lacks", "")),
        _conditions(data.get("conditions")),
    )


def _conditions(value: Any) -> Conditions:
    """The conditions of a run, as far as they are known."""
    if not isinstance(value, dict):
        return UNKNOWN
    threads = value.get("threads")
    known = [one for one in threads if type(one) is int] if isinstance(threads, list) else []
    return Conditions(tuple(known), value.get("shares_machine") is True)


def _pair(value: Any) -> tuple[float, float] | None:
    """Two numbers; None where it is something else."""
    if not isinstance(value, list) or len(value) != 2:
        return None
    first, last = map(check_number, value)
    return None if first is None or last is None else (first, last)


def _is_name(run: Any) -> TypeGuard[str]:
    """Whether this is the name of a run, and leads nowhere else."""
    is_text = isinstance(run, str) and run.isprintable()
    return is_text and "/" not in run and run not in ("", ".", "..")
