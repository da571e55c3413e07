"""The run directory: everything that a run said, on the operator's disk, and how to read it back.

    plan.json       the plan, and with which versions it was launched
    events.jsonl    every record, in order of arrival
    logs/           rank-N.log: every line of a rank; host-N.log: what a host's agent itself printed
    summary.json    what became of it, written at the end
    report.txt      the classification report of the last evaluation, where there was one, written at the end

It must not know what a record means, but for text. A disk that fails costs records, never the run.
"""

from __future__ import annotations

import fcntl
import json
import os
import signal
import socket
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from remote import plan_json, summary
from remote.plan import Plan, PlanError
from remote.run import RunState
from training.agent.inventory import LAST
from training.events import Record, Text, decode, encode, expand

PLAN, EVENTS, SUMMARY, REPORT, LOGS = "plan.json", "events.jsonl", "summary.json", "report.txt", "logs"
LOCK = "launcher.pid"
"""Held, by the launcher whose number and machine are in it, as long as it records the run."""
STOP = signal.SIGUSR1
"""Tells that launcher to stop the run. SIGTERM also comes when the machine shuts down, over which a kept run goes on."""
LOOK = 0.2
"""Seconds between two looks at what another launcher has recorded."""


class RunFolderError(ValueError):
    """A folder that holds no run that can be read; the text says what is wrong with it."""


class Recorder:
    """Writes one run's directory. Records gather in memory until `flush`; no file stays open in between."""

    def __init__(self, runs_dir: Path, plan: Plan, again: bool = False) -> None:
        """`again`: the directory is there, and is gone on with. Raises: PlanError, where the directory cannot be made."""
        self.folder = runs_dir / plan.run
        self._world_size = plan.world_size
        self._waiting: dict[Path, list[bytes]] = {}
        self._torn: set[Path] = set()
        self._problem = ""
        try:
            with suppress(FileExistsError):
                runs_dir.mkdir(parents=True)
                with open(runs_dir / ".gitignore", "w", opener=_private) as file:
                    file.write("*\n")  # for git, and for uploads of the folder that it lies in
            self.folder.mkdir(mode=0o700, exist_ok=again)
            (self.folder / LOGS).mkdir(mode=0o700, exist_ok=again)
            self._lock = _locked(self.folder / LOCK)
            _write(self.folder / PLAN, plan_json.dump(plan))
        except OSError as error:
            raise PlanError(f"cannot record the run in {self.folder}: {error.strerror}; give another --runs-dir") from error
        self._events = self.folder / EVENTS
        self._torn |= {path for path in (self._events, *(self.folder / LOGS).iterdir()) if again and _is_torn(path)}

    def raw(self, lines: bytes) -> None:
        """Keep records that an agent has encoded, whole lines."""
        self._put(self._events, lines)

    def write(self, record: Record) -> None:
        """Keep a record of the session's own."""
        self._put(self._events, _bytes(encode(record)))

    def text(self, record: Record) -> None:
        """Keep a rank's lines in its log; other records are none of its business. Expects expanded records."""
        text = record.event
        if isinstance(text, Text):
            whose = f"rank-{text.rank}" if 0 <= text.rank < self._world_size else f"host-{record.host}"
            self._put(self.folder / LOGS / f"{whose}.log", _bytes(text.text + "\n"))

    def flush(self) -> str:
        """Write all that has gathered. Returns, the first time that this fails, what there is to tell of it; else ""."""
        waiting, self._waiting = self._waiting, {}
        told = self._problem
        for path, chunks in waiting.items():
            try:
                self._append(path, b"".join(chunks))
            except OSError as error:
                self._torn.add(path)
                problem = f"cannot write {path}: {error.strerror}; the run goes on, but its record has gaps"
                self._problem = self._problem or problem
        return "" if told else self._problem

    def close(self, state: RunState) -> str:
        """Write what is left, the summary and the report. Returns what `flush` does."""
        problem = self.flush()
        self.release()
        for name, text in ((SUMMARY, _json(summary.of(state))), (REPORT, summary.report(state))):
            try:
                if text:
                    _write(self.folder / name, text)
            except OSError as error:
                problem = problem or f"cannot write {self.folder / name}: {error.strerror}"
        return problem

    def release(self) -> None:
        """Let another launcher record the run."""
        with suppress(OSError):
            (self.folder / LOCK).unlink()
        if self._lock >= 0:
            os.close(self._lock)
        self._lock = -1

    def _put(self, path: Path, data: bytes) -> None:
        self._waiting.setdefault(path, []).append(data)

    def _append(self, path: Path, data: bytes) -> None:
        """Append to a file. After a write that failed, perhaps in the middle of a line, the next begins a line of its own."""
        with open(path, "ab", buffering=0, opener=_private) as file:
            left = memoryview(b"\n" + data if path in self._torn else data)
            while left:
                left = left[file.write(left) :]
        self._torn.discard(path)


class Unrecorded(Recorder):
    """Keeps nothing, for checks alone."""

    def __init__(self, runs_dir: Path, plan: Plan) -> None:
        self.folder = runs_dir / plan.run

    def text(self, record: Record) -> None:
        """Not kept."""

    def raw(self, lines: bytes) -> None:
        """Not kept."""

    def write(self, record: Record) -> None:
        """Not kept."""

    def flush(self) -> str:
        """Nothing to write."""
        return ""

    def close(self, state: RunState) -> str:
        """Nothing to end."""
        return ""


def follow(folder: Path) -> Iterator[Record]:
    """What is recorded of a run and what its launcher goes on to record, expanded, as long as it does."""
    rest = b""
    with (folder / EVENTS).open("rb") as file:
        while True:
            over = not launcher(folder)  # looked up before the read: what it wrote last is read yet
            while block := file.read(1 << 16):
                *lines, rest = (rest + block).split(b"\n")
                for record in filter(None, map(decode, lines)):
                    yield from expand(record)
            if over:
                return
            time.sleep(LOOK)


@dataclass(frozen=True)
class Holder:
    """The process that records a run: its number, and the name of its machine."""

    pid: int
    machine: str

    @property
    def is_here(self) -> bool:
        """Whether it runs on this machine; a folder may be seen from several."""
        return self.machine == socket.gethostname()

    def __str__(self) -> str:
        return f"process {self.pid}" + ("" if self.is_here else f" on {self.machine}")


def launcher(folder: Path) -> Holder | None:
    """Who records the run now; None where nobody does."""
    try:
        with (folder / LOCK).open() as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return _holder(folder / LOCK)
    except OSError:
        return None
    return None


def _holder(lock: Path) -> Holder:
    pid, _, machine = lock.read_text().strip().partition(" ")
    return Holder(int(pid or 0), machine or socket.gethostname())


def _locked(path: Path) -> int:
    """A descriptor of the file, which is ours alone as long as it is open. Raises: PlanError, where another launcher has it."""
    lock = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(lock)
        there = f"the launcher of {path.parent.name} is still there, {_holder(path)}"
        raise PlanError(
            f"{there}: leave it there (q and d in its dashboard), or watch with rankboard logs {path.parent.name} --follow"
        ) from None
    os.ftruncate(lock, 0)
    os.write(lock, f"{os.getpid()} {socket.gethostname()}\n".encode())
    os.fsync(lock)  # for who looks from another machine
    return lock


def _is_torn(path: Path) -> bool:
    """Whether a file ends in the middle of a line."""
    try:
        with path.open("rb") as file:
            return file.seek(0, os.SEEK_END) > 0 and file.seek(-1, os.SEEK_END) >= 0 and file.read(1) != b"\n"
    except OSError:
        return False


def recorded(runs_dir: Path) -> list[Path]:
    """The folders of the runs that are recorded here, the newest last."""
    return sorted(path.parent for path in runs_dir.glob(f"*/{PLAN}"))


def find(run: str, runs_dir: Path) -> Path | None:
    """The folder of the run that is recorded here by this name, by one that begins so, or (`last`) as the newest; None where
    there is none. Raises: PlanError, where several begin so."""
    name = meant(run, [folder.name for folder in recorded(runs_dir)])
    return runs_dir / name if name else None


def meant(run: str, names: Sequence[str]) -> str:
    """Which of these names, the newest last, somebody means by `run`: that one, the one that begins so, or (`last`) the newest;
    "" where there is none. Raises: PlanError, where several begin so."""
    if run == LAST or run in names:
        return run if run in names else next(reversed(names), "")
    fits = [name for name in names if name.startswith(run)]
    if len(fits) > 1:
        raise PlanError(f"{run}: several runs begin so: {', '.join(fits)}")
    return next(iter(fits), "")


def verdict(folder: Path) -> str:
    """What became of a recorded run, in a word; "" where that is not known: it goes on, was left, or its launcher died."""
    try:
        found = json.loads((folder / SUMMARY).read_bytes())
    except (OSError, ValueError):
        return ""
    return str(found.get("verdict") or "") if isinstance(found, dict) else ""


def load_plan(folder: Path) -> Plan:
    """The plan of a recorded run. Raises: RunFolderError."""
    path = folder / PLAN
    try:
        return plan_json.parse(path.read_bytes())
    except OSError as error:
        raise RunFolderError(f"{folder} holds no run: {path.name}: {error.strerror}") from error
    except ValueError as error:
        raise RunFolderError(f"{path} is no plan: {error}") from error


def read(folder: Path) -> Iterator[Record]:
    """The records of a recorded run, expanded, in order of arrival. Raises: RunFolderError."""
    path = folder / EVENTS
    try:
        with path.open("rb") as lines:
            for line in lines:
                record = decode(line)
                if record is not None:
                    yield from expand(record)
    except OSError as error:
        raise RunFolderError(f"{folder} holds no run: {path.name}: {error.strerror}") from error


def _bytes(text: str) -> bytes:
    # A lone surrogate, which JSON may bring, is no UTF-8; its escape is what JSON wrote.
    return text.encode("utf-8", "backslashreplace")


def _json(data: dict[str, Any]) -> str:
    return json.dumps(data, indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def _write(path: Path, text: str) -> None:
    """Write a file, whole or not at all."""
    beside = path.with_suffix(".part")
    with open(beside, "wb", opener=_private) as file:
        file.write(_bytes(text))
    beside.replace(path)


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)
