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
from typing import Any

from msgspec import Struct, ValidationError, convert

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
    conditions: Conditions = UNKNOWN
    """The conditions under which its ranks computed."""
    at_chance: bool = False
    """Its last test was no better than guesses."""


JournalEntry = RunBegun | RunEnded


class _Place(Struct):
    """What place.json says, which somebody may have changed."""

    given: dict[str, Any] = {}
    places: dict[str, Any] = {}
    nodes: int = 1
    quick: bool = False


@dataclass(frozen=True)
class StudyCall:
    """How a study is called."""

    text: str
    """The text of its file."""
    given: Mapping[str, Any]
    """Settings of the job that the command line gives."""
    places: Mapping[str, Any]
    """Options for hosts that the command line gives."""
    quick: bool
    origin: str = ""
    """The name of the file in mistakes."""
    num_hosts: int = 0
    """The number of hosts; 0 if it is not known."""
    is_trusted: bool = True
    """False if it was read from a file that this user has not written, or somebody has changed."""
    typed_name: str = ""
    """The study as the command line names it; "" if no command line does."""
    other_options: tuple[str, ...] = ()
    """Options of the command line that change no run, such as --run, in words."""


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
            self._make_folder()
            # The lock is the kernel's: it goes with the process, however that ends.
            lock = files.open_regular(self.path / LOCK, os.O_RDWR | os.O_CREAT)
        try:
            self._take_lock(lock)
            yield
        finally:
            os.close(lock)

    def _make_folder(self) -> None:
        # Both, since a study may be the first thing that is ever recorded here.
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

    def _take_lock(self, lock: int) -> None:
        """Take the lock and write who has it. Raises: StudyError, if another process has it."""
        if not try_lock(lock):
            holder_pid = os.pread(lock, LIMITS.small_file, 0).decode(errors="replace").strip()
            raise StudyError(
                f"{self.name} is running: process {holder_pid}. Wait for it, or stop it with "
                "Ctrl+C where it runs"
            )
        with self._writing():
            # The number of an earlier process may have had more digits.
            os.ftruncate(lock, 0)
            os.write(lock, str(os.getpid()).encode())

    def keep(self, call: StudyCall) -> None:
        """Write what the study is and how it was called. Raises: StudyError."""
        place = {
            "given": dict(call.given),
            "places": dict(call.places),
            "nodes": call.num_hosts,
            "quick": call.quick,
        }
        place_json = f"{dumps(place)}\n".encode()
        with self._writing():
            self._make_folder()
            write_whole(self.path / PLACE, place_json)
            write_whole(self.path / SIGNATURE, trust.signature(place_json).encode())
            # The text comes last: with it the study exists.
            write_whole(self.path / STUDY, call.text.encode())

    def text(self) -> str:
        """Return the text of the study as it was started. Raises: StudyError."""
        try:
            return files.read(self.path / STUDY, LIMITS.plan).decode()
        except (OSError, UnicodeDecodeError) as error:
            raise StudyError(f"{self.path} holds no study: {STUDY}: {error}") from None

    def call(self) -> StudyCall:
        """Return how the study was called, as far as that is known. Raises: StudyError."""
        place_json = b""
        signature = b""
        with suppress(OSError):
            place_json = files.read(self.path / PLACE, LIMITS.plan)
            signature = files.read(self.path / SIGNATURE, LIMITS.small_file)
        try:
            place = convert(load(place_json) or {}, _Place)
        except ValidationError:
            place = _Place()
        known_places = {}
        for option_name, value in place.places.items():
            # The exact type: a bool is an int, too, but no number of hosts.
            if type(value) is PLACES.get(option_name):
                known_places[option_name] = value
        return StudyCall(
            self.text(),
            place.given,
            known_places,
            place.quick,
            str(self.path / STUDY),
            max(1, place.nodes),
            trust.is_signed(place_json, signature),
        )

    def write(self, entry: JournalEntry) -> None:
        """Add an entry to the journal. It is on the disk on return. Raises: StudyError."""
        event_name = "begun" if isinstance(entry, RunBegun) else "ended"
        journal_line = dumps({"event": event_name, "time": time.time()} | asdict(entry))
        journal = self.path / JOURNAL
        with self._writing():
            # A crash may have left half a line, which must not take in this one.
            line_break = "\n" if files.is_torn(journal) else ""
            descriptor = files.open_regular(journal, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
            try:
                write_all(descriptor, f"{line_break}{journal_line}\n".encode())
                # Each line stands for a run of minutes or hours: it has to outlive a crash of the
                # machine.
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
    event_name = data.get("event")
    if event_name not in ("begun", "ended"):
        return None
    entry_type: type[RunBegun | RunEnded] = RunBegun if event_name == "begun" else RunEnded
    try:
        entry = convert(data, entry_type)
    except ValidationError:
        return None
    # The name leads to the folder of a run, and the journal may be somebody else's.
    if not TRIAL.fullmatch(entry.trial) or not _is_run_name(entry.run):
        return None
    is_counted = isinstance(entry, RunEnded) and entry.outcome is TrialOutcome.COUNTED
    if is_counted and check_number(data.get("value")) is None:
        return None
    return entry


def _is_run_name(run: str) -> bool:
    """Return whether this is the name of a run, and leads nowhere else."""
    return run.isprintable() and "/" not in run and run not in ("", ".", "..")
