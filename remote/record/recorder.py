"""The run directory: everything that a run said, on the operator's disk, and how to read it back.

    plan.json       the plan, and with which versions it was launched
    plan.mac        shows to the user who recorded it that plan.json is as it was
    events.jsonl    every record, in order of arrival
    logs/           rank-N.log: every line of a rank; host-N.log: what a host's agent itself printed
    summary.json    what became of it, at the end
    report.txt      the classification report of the last evaluation, if there was one

It must not know what a record means, but for text. A disk that fails costs records, never the run.

A run directory may be somebody else's work. What is read of it is data: no link is followed, no
file is read without a bound, and `remote.record.trust` says what its plan may decide.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from remote.cluster.hosts import HOSTS
from remote.limits import LIMITS
from remote.plan import serialize
from remote.plan.plan import Plan, PlanError
from remote.record import files, lock, summary, trust
from remote.record.lock import LOCK, launcher
from remote.run.state import RunState
from remote.transport.line_cutter import LineCutter, LineTooLong
from training.agent.errands.run_folders import LAST
from training.wire.events import SESSION, Launched, Record, Restarted, Text, decode, encode, expand
from training.wire.jsonl import load

PLAN, EVENTS, SUMMARY, REPORT, LOGS = (
    "plan.json",
    "events.jsonl",
    "summary.json",
    "report.txt",
    "logs",
)
SIGNATURE = "plan.mac"
LOOK = 0.2
"""Seconds between two looks at what another launcher has recorded."""
LISTED = 5
"""Runs that are named where several are meant."""


class RunFolderError(ValueError):
    """A folder that holds no run that can be read; the text says what is wrong with it."""


class Recorder:
    """Writes one run's directory. Records gather in memory until `flush`; no file stays open in
    between."""

    def __init__(self, runs_dir: Path, plan: Plan, again: bool = False) -> None:
        """`again`: the directory is there, and is gone on with. Raises: PlanError, where the
        directory cannot be made."""
        self.folder = runs_dir / plan.run
        self._world_size = plan.world_size
        self._waiting: dict[Path, list[bytes]] = {}
        self._torn: set[Path] = set()
        self._problem = ""
        try:
            with suppress(FileExistsError):
                runs_dir.mkdir(mode=0o700, parents=True)
                files.write(
                    runs_dir / ".gitignore", b"*\n"
                )  # for git, and for uploads of the folder that it lies in
            files.make_folder(self.folder, exist_ok=again)
            files.make_folder(self.folder / LOGS, exist_ok=again)
            self._lock = lock.take(self.folder / LOCK)
            if not (self.folder / PLAN).exists():  # else it stays what it is, and whose it is
                _write_plan(self.folder, plan)
        except OSError as error:
            raise PlanError(
                f"cannot record the run in {self.folder}: {error.strerror}; give another --runs-dir"
            ) from error
        self._events = self.folder / EVENTS
        self._torn |= {
            path
            for path in (self._events, *(self.folder / LOGS).iterdir())
            if again and _is_torn(path)
        }

    def raw(self, lines: bytes) -> None:
        """Keep records that an agent has encoded, whole lines."""
        self._put(self._events, lines)

    def write(self, record: Record) -> None:
        """Keep a record of the session's own."""
        self._put(self._events, _bytes(encode(record)))

    def text(self, record: Record) -> None:
        """Keep a rank's lines in its log; other records are none of its business. Expects expanded
        records."""
        text = record.event
        if isinstance(text, Text):
            whose = (
                f"rank-{text.rank}" if 0 <= text.rank < self._world_size else f"host-{record.host}"
            )
            self._put(self.folder / LOGS / f"{whose}.log", _bytes(text.text + "\n"))

    def flush(self) -> str:
        """Write all that has gathered. Returns, the first time that this fails, what there is to
        tell of it; else ""."""
        waiting, self._waiting = self._waiting, {}
        told = self._problem
        for path, chunks in waiting.items():
            try:
                self._append(path, b"".join(chunks))
            except OSError as error:
                self._torn.add(path)
                problem = (
                    f"cannot write {path}: {error.strerror}; the run goes on, but its record has "
                    "gaps"
                )
                self._problem = self._problem or problem
        return "" if told else self._problem

    def close(self, state: RunState) -> str:
        """Write what is left, the summary and the report. Returns what `flush` does."""
        problem = self.flush()
        self.release()
        for name, text in ((SUMMARY, _json(summary.of(state))), (REPORT, summary.report(state))):
            try:
                if text:
                    files.write(self.folder / name, _bytes(text))
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
        """Append to a file. After a write that failed, perhaps in the middle of a line, the next
        begins a line of its own."""
        with files.append(path) as file:
            left = memoryview(b"\n" + data if path in self._torn else data)
            while left:
                left = left[file.write(left) :]
        self._torn.discard(path)


class _Sieve:
    """Takes records out of lines, expanded, and leaves out those that no session and no host of the
    run can have written."""

    def __init__(self, hosts: int) -> None:
        self._hosts = hosts
        self._strange = 0

    def records(self, lines: Iterable[bytes]) -> Iterator[Record]:
        """The records of these lines."""
        for line in lines:
            record = decode(line)
            if record is None:  # a torn line, for one
                continue
            if self._fits(record):
                yield from expand(record)
            else:
                self._strange += 1

    def _fits(self, record: Record) -> bool:
        event = record.event
        named = {record.host, getattr(event, "on", SESSION)}
        listed = event.hosts if isinstance(event, Launched | Restarted) else ()
        return all(SESSION <= host < self._hosts for host in named) and all(
            0 <= host < self._hosts for host in listed
        )

    def tell(self, path: Path, remark: Callable[[str], object]) -> None:
        """Remark on what was left out."""
        if self._strange:
            remark(
                f"{path}: {self._strange} records were left out: they tell of hosts that the run "
                "does not have"
            )


def _is_torn(path: Path) -> bool:
    """Whether a file ends in the middle of a line."""
    try:
        with files.opened(path) as file:
            return (
                file.seek(0, os.SEEK_END) > 0
                and file.seek(-1, os.SEEK_END) >= 0
                and file.read(1) != b"\n"
            )
    except OSError:
        return False


def recorded(runs_dir: Path) -> list[Path]:
    """The folders of the runs that are recorded here, the newest last."""
    return sorted(path.parent for path in runs_dir.glob(f"*/{PLAN}"))


def find(run: str, runs_dir: Path) -> Path | None:
    """The folder of the run that is recorded here by this name, by one that begins so, or (`last`)
    as the newest that has begun; None where there is none. Raises: PlanError, where several begin
    so."""
    folders = recorded(runs_dir)
    if run == LAST and not (runs_dir / LAST / PLAN).exists():
        return next(filter(has_begun, reversed(folders)), next(reversed(folders), None))
    name = meant(run, [folder.name for folder in folders])
    return runs_dir / name if name else None


def meant(run: str, names: Sequence[str]) -> str:
    """Which of these names, the newest last, somebody means by `run`: that one, the one that
    begins so, or (`last`) the newest; "" where there is none. Raises: PlanError, where several
    begin so."""
    if run == LAST or run in names:
        return run if run in names else next(reversed(names), "")
    fits = [name for name in names if name.startswith(run)]
    if len(fits) > 1:
        newest = "".join(f"\n  {name}" for name in fits[: -LISTED - 1 : -1])
        more = (
            f"\n  and {len(fits) - LISTED} more; rankboard ps lists them"
            if len(fits) > LISTED
            else ""
        )
        raise PlanError(f"{run}: {len(fits)} runs begin so; write more of the name:{newest}{more}")
    return next(iter(fits), "")


def verdict(folder: Path) -> str:
    """What became of a recorded run, in a word; "" where that is not known: it goes on, was left,
    or its launcher died."""
    word = summarized(folder).get("verdict")
    return word if isinstance(word, str) and word.isprintable() else ""


def summarized(folder: Path) -> dict[str, Any]:
    """The summary of a recorded run, as it stands in the file; empty where there is none."""
    try:
        return load(files.read(folder / SUMMARY, LIMITS.summary)) or {}
    except OSError:
        return {}


def has_begun(folder: Path) -> bool:
    """Whether ranks of a recorded run have been started, or are being started now."""
    return launcher(folder) is not None or files.contains(folder / EVENTS, b'"event":"launched"')


def load_plan(folder: Path) -> Plan:
    """The plan of a recorded run: whole, where this user has recorded it, else what
    `trust.harmless` takes from it.

    Raises: RunFolderError.
    """
    path = folder / PLAN
    try:
        data = files.read(path, LIMITS.plan)
        plan = serialize.parse(data)
    except OSError as error:
        raise RunFolderError(f"{folder} holds no run: {path.name}: {error.strerror}") from error
    except ValueError as error:
        raise RunFolderError(f"{path} is no plan: {error}") from error
    try:
        is_signed = trust.is_signed(data, files.read(folder / SIGNATURE, LIMITS.small_file))
    except OSError:
        is_signed = False
    return plan if is_signed else trust.harmless(plan)


def read(
    folder: Path, hosts: int = HOSTS, remark: Callable[[str], object] = len
) -> Iterator[Record]:
    """The records of a recorded run with so many hosts, expanded, in order of arrival. `remark` is
    told what was left out.

    Raises: RunFolderError.
    """
    path, sieve = folder / EVENTS, _Sieve(hosts)
    try:
        yield from sieve.records(files.lines(path))
    except OSError as error:
        raise RunFolderError(f"{folder} holds no run: {path.name}: {error.strerror}") from error
    sieve.tell(path, remark)


def follow(folder: Path, hosts: int, remark: Callable[[str], object] = len) -> Iterator[Record]:
    """What is recorded of a run and what its launcher goes on to record, expanded, as long as it
    does. See `read`.

    Raises: RunFolderError.
    """
    path, sieve, cutter = folder / EVENTS, _Sieve(hosts), LineCutter()
    while not path.exists() and launcher(folder):  # it has just begun
        time.sleep(LOOK)
    try:
        with files.opened(path) as file:
            over = False
            while not over:
                over = not launcher(
                    folder
                )  # looked up before the read: what it wrote last is read yet
                while block := file.read(1 << 16):
                    yield from sieve.records(cutter.feed(block))
                if not over:
                    time.sleep(LOOK)
    except OSError as error:
        raise RunFolderError(f"{folder} holds no run: {path.name}: {error.strerror}") from error
    except LineTooLong as error:
        raise RunFolderError(f"{path}: {error}") from error
    sieve.tell(path, remark)


def _bytes(text: str) -> bytes:
    # A lone surrogate, which JSON may bring, is no UTF-8; its escape is what JSON wrote.
    return text.encode("utf-8", "backslashreplace")


def _json(data: dict[str, Any]) -> str:
    return json.dumps(data, indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def _write_plan(folder: Path, plan: Plan) -> None:
    data = _bytes(serialize.dump(plan))
    files.write(folder / PLAN, data)
    files.write(folder / SIGNATURE, trust.signature(data).encode())
