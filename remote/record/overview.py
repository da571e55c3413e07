"""What lists need to know of a run, in one small file beside its record.

The launcher rewrites `overview.json` every few seconds. A run of an older version has none: its
overview is made of its record, which takes a moment.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import msgspec
from msgspec import Meta

from remote.limits import LIMITS
from remote.record import files
from remote.record.events_file import RunFolderError
from remote.record.layout import OVERVIEW
from remote.record.read import load_plan
from remote.run.state.flaw import Flaw, FlawKind
from remote.run.state.phases import RankPhase, Verdict

if TYPE_CHECKING:  # which takes a while to import, and most lists read overviews alone
    from remote.run.run_state import RunState

VERSION = 4
"""Increase it if flaws are found otherwise, or the loss is another one."""
ENDS = tuple(verdict.word for verdict in Verdict)
LARGEST = 1e15
"""The largest time or count that a list shows: no run can have a larger one."""
LARGEST_LOSS = 1e40
"""The largest loss that a list shows: a number of 32 bits is smaller."""
LONGEST_TEXT = 300
"""Characters of a cause that a list keeps."""

Figure = Annotated[float, Meta(ge=-LARGEST, le=LARGEST)] | None
Loss = Annotated[float, Meta(ge=-LARGEST_LOSS, le=LARGEST_LOSS)] | None
Count = Annotated[int, Meta(ge=0, le=int(LARGEST))]
Trouble = Literal["", "stalled", "diverged", "slow", "waiting"]
LONG_WAIT = 30.0
"""Seconds that a start waits for the same host or rank until the list says so: most are shorter."""


Seconds = Annotated[float, Meta(ge=0, le=LARGEST)]


class RunTimes(msgspec.Struct, frozen=True):
    """When a run began and ended to make steps, in seconds since its start."""

    stages: dict[str, Seconds]
    """What each stage of the start took on the slowest host, by its title."""
    first_step: Seconds
    """When the last rank had made its first step."""
    last_step: Seconds
    """When the last rank had made its last step. A test and the end of the ranks follow."""
    test: Seconds
    """The mean time of a test; 0 if there was none."""


class Overview(msgspec.Struct, frozen=True, kw_only=True):
    """What became of a run so far. What is not known is None, "" or 0."""

    verdict: str = ""
    """One of `ENDS`; "" if the run has not ended."""
    cause: Annotated[str, Meta(max_length=LONGEST_TEXT)] = ""
    diverged: bool = False
    flaws: tuple[Flaw, ...] = ()
    """What spoils its result, the most important first."""
    version: Count = 0
    """`VERSION` as it was when this was made: of older ones, flaws and the loss are outdated."""
    step: Count = 0
    """The newest step of any rank; of a run that failed, see `_find_last_step`."""
    steps: Count = 0
    """How many steps the whole run has."""
    loss: Loss = None
    """See `find_training_loss`; None as well if that is no number."""
    test_loss: Loss = None
    accuracy: Figure = None
    """Of the last evaluation, as a fraction."""
    step_seconds: Figure = None
    """The mean time of the last steps; once the run has ended, of all but the first, which warms
    up."""
    started: Figure = None
    """A Unix time."""
    elapsed: Figure = None
    """Seconds from the start to the newest record."""
    attempts: Count = 0
    """How many times the ranks were started."""
    times: RunTimes | None = None
    """Of a run that has ended with all its ranks in one attempt."""
    ranks_started: bool = False
    """The process of a rank may have been started."""
    checkpoint_step: Count = 0
    """The step of the newest complete checkpoint."""
    trouble: Trouble = ""
    """What is wrong with a run that goes on, in a word; "" if nothing is, or if it has ended."""


def make_overview(state: RunState) -> Overview:
    """Return the overview of a run, by its records so far."""
    from remote.run.findings.flaws import find_flaws
    from remote.run.findings.rates import step_means
    from remote.run.findings.training_loss import find_training_loss

    progress = state.progress
    ranks = state.ranks
    last_evaluation = progress.evaluations[-1] if progress.evaluations else None
    cause_text = state.cause.text() if state.cause else ""
    flaws = find_flaws(state)
    has_diverged = any(flaw.kind is FlawKind.DIVERGED for flaw in flaws)
    are_started = any(rank.phase is not RankPhase.WAITING for rank in ranks)
    return Overview(
        verdict=state.verdict.word if state.verdict else "",
        cause=cause_text[:LONGEST_TEXT],
        diverged=has_diverged,
        flaws=flaws,
        version=VERSION,
        step=_find_last_step(state),
        steps=progress.steps,
        loss=check_number(find_training_loss(state), LARGEST_LOSS),
        test_loss=check_number(last_evaluation.loss, LARGEST_LOSS) if last_evaluation else None,
        accuracy=check_number(last_evaluation.accuracy) if last_evaluation else None,
        step_seconds=check_number(step_means(state).seconds),
        started=check_number(state.started) if state.started else None,
        elapsed=check_number(state.elapsed) if state.started else None,
        attempts=state.attempt + 1 if state.started else 0,
        times=_measure_times(state),
        # The ranks of the last attempt may be waiting, though those of one before have trained.
        ranks_started=are_started or bool(progress.restarts),
        checkpoint_step=max((rank.saved_step for rank in ranks), default=0),
        trouble=_find_trouble(state, has_diverged=has_diverged),
    )


def _find_last_step(state: RunState) -> int:
    """Return the newest step of any rank. Of a run that failed it is that of the rank that failed
    first, which the cause names: the others may have been one step further."""
    newest_step = max((rank.step for rank in state.ranks), default=0)
    failed_step = state.cause.step if state.cause else 0
    return failed_step if failed_step == newest_step - 1 else newest_step


def _measure_times(state: RunState) -> RunTimes | None:
    """Return the times of a run that has ended; None if it was restarted, or made no step."""
    step_times = [(rank.first_step_at, rank.stepped_at) for rank in state.ranks if rank.step]
    if state.verdict is None or state.progress.restarts or not step_times:
        return None
    from remote.run.findings.start_progress import title_times

    first_step, last_step = map(max, zip(*step_times, strict=True))
    tests = state.progress.evaluations
    test_seconds = sum(test.seconds for test in tests) / len(tests) if tests else 0.0
    stage_times = title_times(state)
    times = (first_step - state.started, last_step - state.started, test_seconds)
    # A host may send anything.
    if any(check_number(time) is None or time < 0 for time in (*stage_times.values(), *times)):
        return None
    return RunTimes(stage_times, *times)


def _find_trouble(state: RunState, *, has_diverged: bool) -> Trouble:
    if state.verdict:
        return ""
    from remote.run.findings.start_waits import find_waits

    if state.stall:
        return "stalled"
    if has_diverged:
        return "diverged"
    if state.stragglers.slow:
        return "slow"
    waits = find_waits(state, state.now)
    return "waiting" if any(wait.seconds >= LONG_WAIT for wait in waits) else ""


def encode_overview(overview: Overview) -> bytes:
    """Return an overview as its file holds it."""
    return msgspec.json.encode(overview) + b"\n"


def read_overview(folder: Path, on_failure: files.Failed = files.ignore) -> Overview:
    """Read the overview of a recorded run. `on_failure` is called with the error of each file that
    cannot be read, also of one that is missing."""
    try:
        overview = _decode(files.read(folder / OVERVIEW, LIMITS.small_file))
        if overview.verdict in ("", *ENDS):
            return overview
    except OSError as error:
        on_failure(error)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        pass
    return remake_overview(folder, on_failure)


_decode = msgspec.json.Decoder(Overview).decode


def remake_overview(folder: Path, on_failure: files.Failed = files.ignore) -> Overview:
    """Return the overview of a run of an older version, by its records.

    Of a long run `preview_tape` skips most steps: means are those of the steps that it reads.
    """
    from remote.plan.serialize import OtherFormat
    from remote.record.tape import preview_tape

    try:
        tape = preview_tape(folder, load_plan(folder))
    except (OtherFormat, RunFolderError) as error:
        if isinstance(error.__cause__, OSError):
            on_failure(error.__cause__)
        return Overview()
    tape.close()
    return make_overview(tape.state)


def check_number(raw_value: Any, largest: float = LARGEST) -> float | None:
    """Return the value if it is a number that a run can have, else None."""
    is_number = type(raw_value) in (int, float) and -largest <= raw_value <= largest
    return raw_value if is_number else None
