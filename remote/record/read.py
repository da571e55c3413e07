"""Reads the directory of a run back. See `remote.record.layout`.

A run directory may be somebody else's work. What is read of it is data: no link is followed, no
file is read without a bound, and `remote.record.trust` says what its plan may decide.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

from remote.cluster.hosts import HOSTS
from remote.events import Restarted, decode, expand
from remote.jsonl import load
from remote.limits import LIMITS
from remote.plan import serialize
from remote.plan.plan import Plan
from remote.record import files, trust
from remote.record.layout import EVENTS, PLAN, SUMMARY
from remote.record.lock import launcher
from remote.run.output.script_readings import Expand
from training.wire.events import SESSION, Launched, Record, other_format


class RunFolderError(ValueError):
    """A folder that holds no run that can be read; the text says what is wrong with it."""


def verdict(folder: Path) -> str:
    """What became of a recorded run, in a word; "" where that is not known: it goes on, was left,
    or its launcher died."""
    word = summarized(folder).get("verdict")
    return word if isinstance(word, str) and word.isprintable() else ""


def summarized(folder: Path, failed: files.Failed = files.ignore) -> dict[str, Any]:
    """The summary of a recorded run, as it stands in the file; empty where there is none. `failed`
    is told why it cannot be read."""
    try:
        return load(files.read(folder / SUMMARY, LIMITS.summary)) or {}
    except OSError as error:
        failed(error)
        return {}


def is_settled(folder: Path) -> bool:
    """Whether a recorded run has ended, and its launcher knew that no rank of it was left."""
    return summarized(folder).get("unconfirmed") == []


def has_begun(folder: Path) -> bool:
    """Whether ranks of a recorded run have been started, or are being started now."""
    return launcher(folder) is not None or files.contains(folder / EVENTS, b'"event":"launched"')


def load_plan(folder: Path) -> Plan:
    """The plan of a recorded run: whole, where this user has recorded it, else what
    `trust.harmless` takes from it.

    Raises: OtherFormat; RunFolderError.
    """
    path = folder / PLAN
    try:
        data = files.read(path, LIMITS.plan)
        plan = serialize.parse(data)
    except OSError as error:
        raise RunFolderError(f"{folder} holds no run: {path.name}: {error.strerror}") from error
    except serialize.OtherFormat:
        raise
    except ValueError as error:
        raise RunFolderError(f"{path} is not a plan: {error}") from error
    return plan if trust.is_ours(folder, data) else trust.harmless(plan)


def records(
    folder: Path,
    hosts: int = HOSTS,
    remark: Callable[[str], object] = len,
    expand: Expand = expand,
) -> Iterator[Record]:
    """The records of a recorded run with so many hosts, expanded (see
    `remote.run.output.script_readings`), in order of arrival. `remark` is told what was left out.

    Raises: OtherFormat; RunFolderError.
    """
    path = folder / EVENTS
    sieve = Sieve(folder.name, hosts, expand)
    try:
        yield from sieve.records(files.lines(path))
    except OSError as error:
        raise RunFolderError(f"{folder} holds no run: {path.name}: {error.strerror}") from error
    sieve.tell(path, remark)


class Sieve:
    """Takes records out of lines, expanded, and leaves out those that no session and no host of the
    run can have written."""

    def __init__(self, run: str, hosts: int, expand: Expand = expand) -> None:
        self._run = run
        self._hosts = hosts
        self.expand = expand
        self._strange = 0

    def records(self, lines: Iterable[bytes]) -> Iterator[Record]:
        """The records of these lines."""
        for line in lines:
            record = decode(line)
            if record is None:  # a torn line, for one
                self._check_format(line)
                continue
            if self._fits(record):
                yield from self.expand(record)
            else:
                self._strange += 1

    def _fits(self, record: Record) -> bool:
        event = record.event
        named = {record.host, getattr(event, "on", SESSION)}
        listed = event.hosts if isinstance(event, Launched | Restarted) else ()
        return all(SESSION <= host < self._hosts for host in named) and all(
            0 <= host < self._hosts for host in listed
        )

    def _check_format(self, line: bytes) -> None:
        """Raises: OtherFormat, where it is a first record in another format."""
        number = other_format(load(line) or {})
        if number is not None:
            raise serialize.OtherFormat(self._run, number)

    def tell(self, path: Path, remark: Callable[[str], object]) -> None:
        """Remark on what was left out."""
        if self._strange:
            remark(
                f"{path}: {self._strange} records were left out: they name hosts that the run "
                "does not have"
            )
