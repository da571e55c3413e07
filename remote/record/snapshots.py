"""Snapshots of a run: its state at a place of its record, so that a long record need not be read
from its beginning.

A snapshot is only a cache. It may be deleted, and where none is of use, the whole record is read.

It holds pickled objects, which may do anything when they are loaded, and a run directory may be
somebody else's work. So nothing is loaded but what this user has signed, for this run, this place
of this very record, and the code that runs now.
"""

from __future__ import annotations

import copyreg
import hashlib
import io
import os
import pickle
import platform
import sys
import threading
import time
import zlib
from contextlib import suppress
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from remote.limits import LIMITS
from remote.plan.plan import Plan, Policy
from remote.record import files, trust
from remote.record.layout import EVENTS, SNAPSHOTS
from remote.record.step_chunks import describe_last_chunk, measure_density
from remote.run.output.script_readings import Expand
from remote.run.run_state import RunState
from training.writing import PART, write_whole

APART = 1 << 20
"""Bytes of records, with the columns of steps, between two snapshots, at the least: they are
replayed in half a second."""
PAUSE = 100.0
"""A launcher makes the next snapshot after this many times the CPU time of the last one."""
FIRST_PAUSE = 10.0
"""Seconds until a launcher makes its first snapshot, so that a burst of output, with which many
programs begin, is not held up: as short a record is soon read."""
KEPT = 16
"""Snapshots of a run that are kept at the most, about evenly spaced in its record. The newest is
one of them; the others serve a replay that jumps back."""
SPREAD = 32 << 20
"""Bytes of records, with the columns of steps, for each of them, but for two."""
_KIND = "snapshot"
_LEVEL = 1
"""Of zlib: higher ones take several times as long to save little."""
_TAIL = 1 << 16
"""Bytes before the place of a snapshot by which its record is recognized."""
_HEAD = 1 << 12
"""Bytes of the signature and the header, at the most."""
_LEFT_OVER = 3600.0
"""Seconds after which a file that was not written to its end is nobody's any more."""
_LOADED_AT = time.time()


class RunMoment(NamedTuple):
    """A run up to a place of its record."""

    state: RunState
    expand: Expand
    """Expands the records behind that place, see `remote.run.output.script_readings`."""
    offset: int
    """The bytes of the record before that place, where a line begins."""


class _Header(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a snapshot says of itself."""

    offset: int
    now: float
    """The time of the newest record, by the session's clock."""
    size: int
    """Bytes of the state as it is stored."""
    digest: str
    """Their SHA-256."""


# States as bytes ----------------------------------------------------------------------------------


def freeze(state: RunState, expand: Expand) -> bytes:
    """Return a state and what expands the next records as bytes. The plan is not part of them."""
    buffer = io.BytesIO()
    _Pickler(buffer).dump((state, expand))
    return buffer.getvalue()


def thaw(data: bytes, plan: Plan) -> tuple[RunState, Expand]:
    """Return what was frozen in these bytes, as of a run with this plan.

    Only for bytes that this process has made, or that this user is known to have signed.
    """
    state, expand = _Unpickler(io.BytesIO(data), plan).load()
    return state, expand


def compress(data: bytes) -> bytes:
    """Return frozen bytes in less room: a quarter and less."""
    return zlib.compress(data, _LEVEL)


decompress = zlib.decompress


def _plan() -> Plan:
    """Stands for the plan in a frozen state."""
    raise pickle.UnpicklingError("a state belongs to a plan")


def _policy() -> Policy:
    """Stands for the policy of the plan in a frozen state."""
    raise pickle.UnpicklingError("a state belongs to a plan")


class _Pickler(pickle.Pickler):
    """Leaves out the plan: that of a command that returns to the run may have another policy, and
    other ways to the hosts."""

    def __init__(self, file: io.BytesIO) -> None:
        super().__init__(file, pickle.HIGHEST_PROTOCOL)
        self.dispatch_table = copyreg.dispatch_table | {
            Plan: lambda _: (_plan, ()),
            Policy: lambda _: (_policy, ()),
        }


class _Unpickler(pickle.Unpickler):
    def __init__(self, file: io.BytesIO, plan: Plan) -> None:
        super().__init__(file)
        self._plan = plan

    def find_class(self, module_name: str, name: str, /) -> Any:
        found_class = super().find_class(module_name, name)
        if found_class is _plan:
            return lambda: self._plan
        if found_class is _policy:
            return lambda: self._plan.policy
        return found_class


# Reading ------------------------------------------------------------------------------------------


def find_newest(
    folder: Path, plan: Plan, until: float = float("inf"), beyond: int = 0
) -> RunMoment | None:
    """Return the newest snapshot of a run that is not later than `until`, by the session's clock,
    and behind the offset `beyond`; None if there is none that can be used."""
    for path in _list_snapshots(folder):
        if int(path.name) <= beyond:
            break
        with suppress(OSError):
            moment = _load(folder, path, plan, until)
            if moment:
                return moment
    return None


def _list_snapshots(folder: Path) -> list[Path]:
    """Return the files of the snapshots of a run, the newest first."""
    snapshots_folder = folder / SNAPSHOTS
    if not files.is_folder(snapshots_folder):
        return []
    offsets = [name for name in os.listdir(snapshots_folder) if _is_offset(name)]
    # Somebody else may have put any number of files there.
    newest_offsets = sorted(offsets, key=int, reverse=True)[: 2 * KEPT]
    return [snapshots_folder / offset for offset in newest_offsets]


def _is_offset(name: str) -> bool:
    return name.isascii() and name.isdecimal() and len(name) <= len(str(2**63))


def _load(folder: Path, path: Path, plan: Plan, until: float) -> RunMoment | None:
    """Return the snapshot in a file; None if it is later than `until` or not to be trusted. Raises:
    OSError."""
    with files.opened(path) as file:
        signature, _, rest = file.read(_HEAD).partition(b"\n")
        header_line, _, _ = rest.partition(b"\n")
        header = _read_header(header_line)
        if header is None or header.now > until:
            return None
        message = _describe(folder, plan, header.offset) + header_line
        if not trust.is_signed(message, signature, _KIND):
            return None
        file.seek(len(signature) + len(header_line) + 2)
        data = file.read(header.size)
    if hashlib.sha256(data).hexdigest() != header.digest:
        return None
    state, expand = thaw(decompress(data), plan)
    state.is_held = False  # as whoever has written it may have held it
    return RunMoment(state, expand, header.offset)


def _read_header(line: bytes) -> _Header | None:
    try:
        return msgspec.json.decode(line, type=_Header)
    except msgspec.DecodeError:
        return None


# What a snapshot belongs to -----------------------------------------------------------------------


def _describe(folder: Path, plan: Plan, offset: int) -> bytes:
    """Return what must be the same where a snapshot is written and where it is read. Raises:
    OSError, also if the record is shorter, or the code of this process is not known."""
    parts = (_digest_code(), digest_plan(plan), _digest_record(folder, offset))
    return "\n".join(parts).encode() + b"\n"


def digest_plan(plan: Plan) -> str:
    """Return what tells plans apart whose records mean different states: not the ways to hosts, nor
    how often the run may restart, which flags of a command may change."""
    hosts = [(host.name, host.slots, host.threads, host.interface) for host in plan.hosts]
    policy = replace(plan.policy, max_restarts=0)
    content = repr((plan.run, hosts, plan.work, policy, plan.rules_left_out))
    return hashlib.sha256(content.encode(errors="backslashreplace")).hexdigest()


def _digest_record(folder: Path, offset: int) -> str:
    """Return what tells a record up to a place from another one: its file, what stands before the
    place, and the last chunk of steps in it. Raises: OSError, also if it is shorter."""
    path = folder / EVENTS
    with files.opened(path) as file:
        tail_size = min(offset, _TAIL)
        file.seek(offset - tail_size)
        tail = file.read(tail_size)
        if offset < 0 or len(tail) < tail_size:
            raise OSError(f"{path} is shorter")
        inode = os.fstat(file.fileno()).st_ino
    last_chunk = describe_last_chunk(folder, tail)
    return hashlib.sha256(f"{inode} {offset}\n".encode() + tail + last_chunk).hexdigest()


@cache
def _digest_code() -> str:
    """Return what tells this code from any other version of it. Raises: OSError, if that is not
    known: its files have changed since they were loaded."""
    import numpy as np  # which a state of steps needs anyway

    import remote
    import training

    digest = hashlib.sha256()
    for version in (platform.python_version(), np.__version__, msgspec.__version__):
        digest.update(f"{version}\n".encode())
    for package_path in (*remote.__path__, *training.__path__):
        source_paths = sorted(Path(package_path).rglob("*.py"))
        if not source_paths:
            raise OSError(f"{package_path} has no sources")
        for source_path in source_paths:
            # The time of the change, which no program can set, unlike that of the contents.
            if source_path.stat().st_ctime >= _LOADED_AT:
                raise OSError(f"{source_path} has changed")
            source = source_path.read_bytes()
            digest.update(f"{source_path.relative_to(package_path)} {len(source)}\n".encode())
            digest.update(source)
    return digest.hexdigest()


# Writing ------------------------------------------------------------------------------------------


def write_snapshot(folder: Path, plan: Plan, moment: RunMoment) -> int:
    """Write a snapshot of a run, whole or not at all; nothing in the directory of another user.
    Return its size in bytes. Raises: OSError."""
    frozen_state = freeze(moment.state, moment.expand)
    return _write(folder, plan, moment, moment.state.now, frozen_state)


def _write(folder: Path, plan: Plan, moment: RunMoment, now: float, frozen_state: bytes) -> int:
    """`moment.state` may have gone on since it was frozen. Raises: OSError."""
    files.make_folder(folder, exist_ok=True)  # refuses that of another user
    files.make_folder(folder / SNAPSHOTS, exist_ok=True)
    data = compress(frozen_state)
    if len(data) > LIMITS.snapshot:
        return len(data)
    data_digest = hashlib.sha256(data).hexdigest()
    header = _Header(moment.offset, now, len(data), data_digest)
    header_line = msgspec.json.encode(header)
    signature = trust.signature(_describe(folder, plan, moment.offset) + header_line, _KIND)
    if signature:
        content = b"\n".join((signature.encode(), header_line, data))
        write_whole(folder / SNAPSHOTS / str(moment.offset), content)
        _thin_out(folder, moment.offset)
    return len(data)


def _thin_out(folder: Path, newest_offset: int) -> None:
    """Delete the snapshots that are too many, and what a killed process has left. Raises:
    OSError."""
    for path in (folder / SNAPSHOTS).glob(f".*{PART}"):
        if path.lstat().st_mtime < time.time() - _LEFT_OVER:
            path.unlink(missing_ok=True)
    offsets = []
    for path in _list_snapshots(folder):
        if int(path.name) > newest_offset:  # of a record that was replaced
            path.unlink(missing_ok=True)
        else:
            offsets.append(int(path.name))
    offsets.sort()
    num_kept = min(KEPT, 2 + int(newest_offset * measure_density(folder) // SPREAD))
    while len(offsets) > num_kept:
        # The one without which the others are spaced most evenly. The newest one always stays.
        gaps = [
            following - previous
            for previous, following in zip([0, *offsets], offsets[1:], strict=False)
        ]
        needless_offset = offsets.pop(gaps.index(min(gaps)))
        (folder / SNAPSHOTS / str(needless_offset)).unlink(missing_ok=True)


class SnapshotKeeper:
    """Makes snapshots of a run while its record grows. Their CPU time and their bytes are bounded:
    `PAUSE` times their own time lies between them, and as many bytes of records as they have. The
    first one comes after `FIRST_PAUSE`."""

    def __init__(self, folder: Path, plan: Plan) -> None:
        self._folder = folder
        self._plan = plan
        self.newest_offset = 0
        """That of the newest snapshot; 0 if there is none."""
        self._size = 0
        self._due = time.monotonic() + FIRST_PAUSE
        self._writer: threading.Thread | None = None

    def is_due(self, offset: int) -> bool:
        """Return True if the next snapshot may be made, of a record that has so many bytes."""
        is_writing = self._writer is not None and self._writer.is_alive()
        if is_writing or time.monotonic() < self._due:
            return False
        new_bytes = (offset - self.newest_offset) * measure_density(self._folder)
        return new_bytes >= max(APART, self._size)

    def keep(self, moment: RunMoment) -> None:
        """Make a snapshot; return before it is written."""
        began = time.thread_time()
        try:
            frozen_state = freeze(moment.state, moment.expand)
        except Exception:  # noqa: BLE001 - a cache that cannot be made must not cost the run
            self.newest_offset = sys.maxsize
            return
        freezing_seconds = time.thread_time() - began
        now = moment.state.now

        def write() -> None:
            size = 0
            began = time.thread_time()
            with suppress(OSError):  # a disk that fails is reported with the records
                size = _write(self._folder, self._plan, moment, now, frozen_state)
            seconds = freezing_seconds + time.thread_time() - began
            self.newest_offset = moment.offset
            self._size = size
            self._due = time.monotonic() + PAUSE * seconds

        self._writer = threading.Thread(target=write, name="snapshot", daemon=True)
        self._writer.start()

    def finish(self, moment: RunMoment) -> None:
        """Make the last snapshot, if the record is long and is not that far already. Return once it
        is written."""
        if self._writer:
            self._writer.join()
        is_long = moment.offset * measure_density(self._folder) >= APART
        if is_long and moment.offset > self.newest_offset:
            self.keep(moment)
        if self._writer:
            self._writer.join()
