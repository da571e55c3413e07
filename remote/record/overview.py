"""What lists need to know of a run, in one small file beside its record.

The launcher rewrites `overview.json` every few seconds. A run of an older version has none: its
overview is made of its summary, or of its record where it has not ended.
"""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
from msgspec import Meta

from remote.cluster.hosts import RANKS
from remote.limits import LIMITS
from remote.record import files
from remote.record.events_file import RunFolderError, read_samples
from remote.record.layout import EVENTS, OVERVIEW, SUMMARY
from remote.record.read import load_plan, summarized
from remote.run.output.script_readings import Expand, Expander
from remote.run.series.step_times import join_means
from remote.run.state.phases import RankPhase, Verdict
from remote.statistics.mean import finite_mean
from training.wire.events import Record, ScriptMetrics, StepFinished

if TYPE_CHECKING:  # which takes a while to import, and most lists read overviews alone
    from remote.run.run_state import RunState

ENDS = tuple(verdict.word for verdict in Verdict)
LARGEST = 1e15
"""The largest number that a list shows: no run can have a larger one."""
SAMPLE = 1 << 14
"""Bytes of records that are read at each place of the course of a loss: some twenty steps."""
OUTDATED = 15.0
"""Seconds by which records may be newer than the overview: a launcher writes one every
`remote.record.write.OVERVIEW_EVERY` seconds."""
LONGEST_TEXT = 300
"""Characters of a cause that a list keeps."""

Figure = Annotated[float, Meta(ge=-LARGEST, le=LARGEST)] | None
Count = Annotated[int, Meta(ge=0, le=int(LARGEST))]


class Overview(msgspec.Struct, frozen=True, kw_only=True):
    """What became of a run so far. What is not known is None, "" or 0."""

    verdict: str = ""
    """One of `ENDS`; "" if the run has not ended."""
    cause: Annotated[str, Meta(max_length=LONGEST_TEXT)] = ""
    diverged: bool = False
    step: Count = 0
    """The newest step of any rank."""
    steps: Count = 0
    """How many steps the whole run has."""
    loss: Figure = None
    """The mean over the ranks of their last loss in training."""
    test_loss: Figure = None
    accuracy: Figure = None
    """Of the last evaluation, as a fraction."""
    step_seconds: Figure = None
    """The mean time of all iterations but the first, which warms up."""
    started: Figure = None
    """A Unix time."""
    elapsed: Figure = None
    """Seconds from the start to the newest record."""
    attempts: Count = 0
    """How many times the ranks were started."""
    ranks_started: bool = False
    """The process of a rank may have been started."""
    checkpoint_step: Count = 0
    """The step of the newest complete checkpoint."""


NOT_KNOWN = Overview()


def make_overview(state: RunState) -> Overview:
    """Return the overview of a run, by its records so far."""
    losses = [rank.loss for rank in state.ranks if rank.step]
    last = state.progress.evaluations[-1] if state.progress.evaluations else None
    was_restarted = bool(state.progress.restarts)
    cause = state.cause.text() if state.cause else ""
    return Overview(
        verdict=state.verdict.word if state.verdict else "",
        cause=cause[:LONGEST_TEXT],
        diverged=state.progress.diverged is not None,
        step=max((rank.step for rank in state.ranks), default=0),
        steps=state.progress.steps,
        loss=check_number(finite_mean(losses)),
        test_loss=check_number(last.loss) if last else None,
        accuracy=check_number(last.accuracy) if last else None,
        step_seconds=check_number(join_means(rank.timing.warm for rank in state.ranks).seconds),
        started=check_number(state.started) if state.started else None,
        elapsed=check_number(state.elapsed) if state.started else None,
        attempts=state.attempt + 1 if state.started else 0,
        ranks_started=was_restarted
        or any(rank.phase is not RankPhase.WAITING for rank in state.ranks),
        checkpoint_step=max((rank.saved_step for rank in state.ranks), default=0),
    )


def encode_overview(overview: Overview) -> bytes:
    """Return an overview as its file holds it."""
    return msgspec.json.encode(overview) + b"\n"


def read_overview(
    folder: Path, failed: files.Failed = files.ignore
) -> tuple[Overview, tuple[str, ...]]:
    """Read the overview of a recorded run. Return it with the names of the files that say what it
    is: once they have changed, it is another one.

    `failed` is called with the error of each file that cannot be read, also of one that is missing.
    """
    overview = read_own_overview(folder, failed)
    if overview is not None and overview.verdict:
        return overview, (OVERVIEW,)
    if overview is not None:
        return overview, (OVERVIEW, EVENTS)
    overview = _from_summary(summarized(folder, failed))
    if overview.verdict:
        return overview, (SUMMARY,)
    return _from_events(folder, failed), (EVENTS,)


def read_written_overview(folder: Path) -> Overview | None:
    """Read the overview of a recorded run, as `read_overview` does, if it has one or has ended."""
    overview = read_own_overview(folder) or _from_summary(summarized(folder))
    return None if overview is NOT_KNOWN else overview


def read_own_overview(folder: Path, failed: files.Failed = files.ignore) -> Overview | None:
    """Read the overview that the launcher of a run wrote; None if there is none that is sound, or
    if the record has gone on without it."""
    if _is_outdated(folder):
        return None
    try:
        overview = _decode(files.read(folder / OVERVIEW, LIMITS.small_file))
    except OSError as error:
        failed(error)
        return None
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return None
    return overview if overview.verdict in ("", *ENDS) else None


def _is_outdated(folder: Path) -> bool:
    """Return True if records have come that the overview cannot know of: a launcher of an older
    version, which writes none, has continued the run."""
    try:
        written = os.lstat(folder / OVERVIEW).st_mtime
        recorded = os.lstat(folder / EVENTS).st_mtime
    except OSError:
        return False
    return recorded > written + OUTDATED


_decode = msgspec.json.Decoder(Overview).decode


def read_loss_course(folder: Path, places: int) -> list[float]:
    """Return the mean training loss at so many places of a run, evenly spaced in its record. Places
    without steps are left out. Raises: OtherFormat; RunFolderError."""
    course = list[float]()
    expand_script = Expander(RANKS, watch=False)
    for records in read_samples(folder, places, SAMPLE):
        losses = [record.event.loss for record in records if isinstance(record.event, StepFinished)]
        losses = losses or _find_printed_losses(records, expand_script)
        mean = finite_mean(losses)
        if math.isfinite(mean):
            course.append(mean)
    return course


def _find_printed_losses(records: Sequence[Record], expand: Expand) -> list[float]:
    """Return the losses that a script has printed among these records."""
    losses = list[float]()
    for record in records:
        for derived in expand(record):
            if isinstance(derived.event, StepFinished):
                losses.append(derived.event.loss)
            elif isinstance(derived.event, ScriptMetrics):
                losses += [value for name, value in derived.event.values if name == "loss"]
    return losses


def _from_events(folder: Path, failed: files.Failed) -> Overview:
    """Return the overview of a run of an older version that has not ended."""
    from remote.plan.serialize import OtherFormat
    from remote.record.tape import preview_tape

    try:
        tape = preview_tape(folder, load_plan(folder))
    except OtherFormat:
        return NOT_KNOWN
    except RunFolderError as error:
        if isinstance(error.__cause__, OSError):
            failed(error.__cause__)
        return NOT_KNOWN
    tape.close()
    return make_overview(tape.state)


def _from_summary(summary: dict[str, Any]) -> Overview:
    """Return the overview of a run of an older version that has ended; without a verdict if it has
    not. Nothing in the summary need be of the right type."""
    verdict = summary.get("verdict")
    if verdict not in ENDS:
        return NOT_KNOWN
    ranks = [rank for rank in _list(summary.get("ranks")) if isinstance(rank, dict)]
    losses = [check_number(rank.get("loss")) for rank in ranks if _count(rank.get("step"))]
    known_losses = [loss for loss in losses if loss is not None]
    test = _dict(summary.get("test"))
    means = _dict(summary.get("means"))
    warm = _dict(means.get("iterations_from_2") or means.get("iterations_2_to_40"))
    cause = _dict(summary.get("cause")).get("text")
    restarts = _list(summary.get("restarts"))
    # The ranks of the last attempt may be waiting, though those of one before have trained.
    has_rank = any(rank.get("fate") != RankPhase.WAITING for rank in ranks)
    return Overview(
        verdict=verdict,
        cause=cause[:LONGEST_TEXT] if isinstance(cause, str) else "",
        diverged=isinstance(summary.get("diverged"), dict),
        step=max((_count(rank.get("step")) for rank in ranks), default=0),
        steps=_count(summary.get("steps")),
        loss=check_number(finite_mean(known_losses)),
        test_loss=check_number(test.get("loss")),
        accuracy=check_number(test.get("accuracy")),
        step_seconds=check_number(warm.get("seconds")),
        started=check_number(summary.get("started")),
        elapsed=check_number(summary.get("elapsed")),
        attempts=len(restarts) + 1,
        ranks_started=has_rank or bool(restarts),
        checkpoint_step=max((_count(rank.get("checkpoint_step")) for rank in ranks), default=0),
    )


def check_number(value: Any) -> float | None:
    """Return the value if it is a number that a run can have, else None."""
    is_number = type(value) in (int, float) and -LARGEST <= value <= LARGEST
    return value if is_number else None


def _count(value: Any) -> int:
    return value if type(value) is int and 0 <= value <= LARGEST else 0


def _dict(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []
