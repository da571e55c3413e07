"""What a study keeps on disk: its directory beside those of its runs.

RUNS_DIR/NAME.study/
    study.toml       the study as it was started
    place.json       where it runs, and how: hosts, lab, options of the command line
    journal.jsonl    one line per fact: a run has begun for a trial, or has ended
    launcher.pid     held by the process that runs the study

Its runs are ordinary runs in RUNS_DIR.
"""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any

from remote.limits import LIMITS
from remote.record import files
from remote.record.layout import LOCK
from remote.study.reader import StudyError
from training.wire.jsonl import dumps, load
from training.writing import write_all, write_whole

SUFFIX = ".study"
STUDY, PLACE, JOURNAL = "study.toml", "place.json", "journal.jsonl"


class Outcome(StrEnum):
    """What a run was for its trial."""

    COUNTED = "counted"
    FAILED = "failed"
    INTERRUPTED = "interrupted"


@dataclass(frozen=True)
class Begun:
    """A run has begun for a trial."""

    trial: str
    run: str


@dataclass(frozen=True)
class Ended:
    """It has ended. `value` is what the study compares; `cause` says why it failed."""

    trial: str
    run: str
    outcome: Outcome
    value: float | None = None
    cause: str = ""
    remarks: tuple[str, ...] = field(default=())


Entry = Begun | Ended
KINDS: Mapping[str, type[Entry]] = {"begun": Begun, "ended": Ended}


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
        self.path.mkdir(parents=True, exist_ok=True)
        lock = files.open_regular(self.path / LOCK, os.O_RDWR | os.O_CREAT)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            os.ftruncate(lock, 0)
            os.write(lock, str(os.getpid()).encode())
            yield
        except BlockingIOError:
            holder = os.pread(lock, LIMITS.small_file, 0).decode(errors="replace").strip()
            raise StudyError(
                f"{self.name} is running: process {holder}. Wait for it, or stop it with Ctrl+C "
                "where it runs"
            ) from None
        finally:
            os.close(lock)

    def keep(self, text: str, place: Mapping[str, Any]) -> None:
        """Write what the study is and where it runs."""
        self.path.mkdir(parents=True, exist_ok=True)
        write_whole(self.path / PLACE, f"{dumps(place)}\n".encode())
        write_whole(self.path / STUDY, text.encode())

    def text(self) -> str:
        """The study as it was started. Raises: StudyError."""
        try:
            return files.read(self.path / STUDY, LIMITS.plan).decode()
        except (OSError, UnicodeDecodeError) as error:
            raise StudyError(f"{self.path} holds no study: {STUDY}: {error}") from None

    def place(self) -> dict[str, Any]:
        """Where the study runs; empty where that is not known."""
        with suppress(OSError):
            return load(files.read(self.path / PLACE, LIMITS.plan)) or {}
        return {}

    def write(self, entry: Entry) -> None:
        """Add a fact to the journal. It is on the disk on return. Raises: OSError."""
        kind = next(name for name, one in KINDS.items() if isinstance(entry, one))
        line = {"event": kind, "time": time.time()} | asdict(entry)
        descriptor = files.open_regular(self.path / JOURNAL, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        try:
            write_all(descriptor, f"{dumps(line)}\n".encode())
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def entries(self) -> Iterator[Entry]:
        """The facts of the journal, in order. A torn line is left out."""
        if not (self.path / JOURNAL).exists():
            return
        for line in files.lines(self.path / JOURNAL):
            if entry := _entry(load(line) or {}):
                yield entry


def _entry(data: dict[str, Any]) -> Entry | None:
    """The fact of a line; None where it holds none."""
    trial, run = data.get("trial"), data.get("run")
    if not isinstance(trial, str) or not isinstance(run, str) or "/" in run or run in ("", ".."):
        return None
    if data.get("event") == "begun":
        return Begun(trial, run)
    if data.get("event") != "ended" or data.get("outcome") not in list(Outcome):
        return None
    value = data.get("value")
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return Ended(
        trial,
        run,
        Outcome(data["outcome"]),
        float(value) if is_number else None,  # type: ignore[arg-type]
        str(data.get("cause", "")),
        tuple(map(str, data.get("remarks", ()))),
    )
