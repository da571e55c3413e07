"""Reads the plan and the summary of a run back. See `remote.record.layout`.

A run directory may be somebody else's work. What is read of it is data: no link is followed, no
file is read without a bound, and `remote.record.trust` says what its plan may decide.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from remote.jsonl import load
from remote.limits import LIMITS
from remote.plan import serialize
from remote.plan.plan import Plan
from remote.record import files, trust
from remote.record.events_file import RunFolderError, read_records
from remote.record.layout import PLAN, SUMMARY
from remote.record.lock import launcher
from training.wire.host_events import Launched


def verdict(folder: Path) -> str:
    """Return what became of a recorded run, in a word; "" if that is not known: it goes on, was
    left, or its launcher died."""
    verdict_word = summarized(folder).get("verdict")
    return verdict_word if isinstance(verdict_word, str) and verdict_word.isprintable() else ""


def summarized(folder: Path) -> dict[str, Any]:
    """Return the summary of a recorded run, as it stands in the file; empty if there is none."""
    try:
        return load(files.read(folder / SUMMARY, LIMITS.summary)) or {}
    except OSError:
        return {}


def read_failed_output(folder: Path) -> tuple[str, ...]:
    """Return the last lines that the rank printed because of which a recorded run failed; empty if
    it did not fail, or if its summary has no such lines."""
    cause = summarized(folder).get("cause")
    lines = cause.get("tail") if isinstance(cause, dict) else None
    if not isinstance(lines, list):
        return ()
    return tuple(line for line in lines if isinstance(line, str))


def is_settled(folder: Path) -> bool:
    """Return True if a recorded run has ended, and its launcher knew that no rank of it was
    left."""
    return summarized(folder).get("unconfirmed") == []


def has_begun(folder: Path) -> bool:
    """Return True if ranks of a recorded run have been started, or are being started now."""
    if launcher(folder) is not None:
        return True
    try:
        return any(isinstance(record.event, Launched) for record in read_records(folder))
    except (serialize.OtherFormat, RunFolderError):
        return False


def load_plan(folder: Path) -> Plan:
    """Return the plan of a recorded run: whole, if this user has recorded it, else what
    `trust.harmless` takes from it.

    Raises: OtherFormat; RunFolderError.
    """
    plan_path = folder / PLAN
    try:
        plan_bytes = files.read(plan_path, LIMITS.plan)
        plan = serialize.parse(plan_bytes)
    except OSError as error:
        raise RunFolderError(
            f"{folder} holds no run: {plan_path.name}: {error.strerror}"
        ) from error
    except serialize.OtherFormat:
        raise
    except ValueError as error:
        raise RunFolderError(f"{plan_path} is not a plan: {error}") from error
    return plan if trust.is_ours(folder, plan_bytes) else trust.harmless(plan)
