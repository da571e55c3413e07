"""A recorded run in a list of all runs: what it was, and what became of it.

It is read from the plan and the summary as they stand there. Both may be somebody else's work, and
a run is listed even if its plan could not be launched again.
"""

from __future__ import annotations

import shlex
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any, NamedTuple

from remote.cluster.hosts import RANKS
from remote.events import expand
from remote.jsonl import load
from remote.limits import LIMITS
from remote.plan.serialize import script_of
from remote.record import files, marks, trust
from remote.record.latest import latest
from remote.record.layout import PLAN
from remote.record.read import summarized
from remote.run.output.script_readings import Expand, Expander
from remote.run.state.phases import RankPhase, Verdict
from remote.statistics.mean import finite_mean
from training.job import SEVERAL, TYPES, Job
from training.wire.format import FORMAT, format_of

RUNNING = "running"
UNKNOWN = "unknown"
"""Verdicts of runs that have not ended: a launcher records it now, or it is live on this machine;
nobody here knows of it."""
ENDS = tuple(one.word for one in Verdict)
FINISHED = Verdict.FINISHED.word
VERDICTS = (*ENDS, RUNNING, UNKNOWN)
DEFAULTS: dict[str, Any] = {one.name: one.default for one in fields(Job)} | {"sync_option": []}
"""The settings of a job, as JSON has them."""
LARGEST = 1e15
"""Of the numbers in a list: more is no figure of a run."""
LONGEST = 300
"""Characters of a cause that a list keeps."""


class Entry(NamedTuple):
    """One run of the list. `job` are the settings that differ from `DEFAULTS`; None of a user's own
    program, whose command line is `script`. `verdict` is one of `VERDICTS`, and
    "" as `read` gives it, where the run has not ended.

    `loss` is the mean over the ranks of the last one in training, `test_loss` and `accuracy` are of
    the last evaluation, `step_seconds` is the mean over the ranks of all iterations but the first,
    which warms up; of a run that has not ended, see `remote.record.latest`. `started` is a Unix
    time, `elapsed` in seconds. What is not known is None, "" or 0. `label` is the name that a
    person gave the run.

    `ranks_started`: the process of a rank may have been started, as far as is known of a run that
    has ended.
    `problem`: why nothing else is known. `study` and `trial`: which study made the run, and what of
    it the run is.
    """

    name: str
    problem: str = ""
    job: dict[str, Any] | None = None
    script: str = ""
    hosts: tuple[str, ...] = ()
    ranks: int = 0
    verdict: str = ""
    cause: str = ""
    diverged: bool = False
    step: int = 0
    steps: int = 0
    loss: float | None = None
    test_loss: float | None = None
    accuracy: float | None = None
    step_seconds: float | None = None
    started: float | None = None
    elapsed: float | None = None
    ranks_started: bool = False
    star: bool = False
    note: str = ""
    label: str = ""
    study: str = ""
    trial: str = ""

    def setting(self, name: str) -> Any:
        """A setting of its job; None where it has no job, or does not give the setting."""
        return None if self.job is None else self.job.get(name, DEFAULTS[name])

    @property
    def ended(self) -> float:
        """When it ended, as a Unix time; 0 where it has not, or where that is not known."""
        if self.verdict not in ENDS or not self.started:
            return 0.0
        return self.started + (self.elapsed or 0.0)

    @property
    def made_no_step(self) -> bool:
        """Whether it ended without a step. Steps of a user's own program may be there and not be
        known: such a run counts only if none of its ranks was started."""
        if self.verdict not in ENDS or self.verdict == FINISHED or self.step:
            return False
        return self.job is not None or not self.ranks_started


def read(folder: Path, failed: files.Failed = files.ignore) -> Entry:
    """Read a recorded run; of one that has no plan which this version reads, only its name.
    `failed` is told of each file that cannot be read, also of one that is not there."""
    kept: dict[str, Any] = {
        "star": marks.is_starred(folder),
        "note": marks.note(folder, failed),
        "label": marks.name(folder, failed),
    }
    plan, text, problem = _plan(folder, failed)
    if problem:
        return Entry(folder.name, problem, **kept)
    summary = summarized(folder, failed)
    word = summary.get("verdict")
    if word not in ENDS:
        newest = latest(folder, failed, _expand(folder, plan["work"], text))
        return Entry(folder.name, **_of_plan(plan), **asdict(newest), **kept)
    return Entry(folder.name, verdict=word, **_of_plan(plan), **_of_summary(summary), **kept)


def _plan(folder: Path, failed: files.Failed) -> tuple[dict[str, Any], bytes, str]:
    """The plan of a run, its text, and why it cannot be read."""
    try:
        text = files.read(folder / PLAN, LIMITS.plan)
    except OSError as error:
        failed(error)
        return {}, b"", error.strerror or "it cannot be read"
    data = load(text) or {}
    if not isinstance(data.get("hosts"), list) or not isinstance(data.get("work"), dict):
        return {}, text, "it is not a plan"
    number = format_of(data)
    return data, text, "" if number == FORMAT else f"it is in format {number}, not {FORMAT}"


def _expand(folder: Path, work: dict[str, Any], text: bytes) -> Expand:
    """What takes the records of a run apart of which this is the work, in a plan of this text. Only
    rules that this user has recorded are used."""
    script = work.get("script")
    if script is None:
        return expand
    try:
        read = script_of(script)
    except (ValueError, TypeError, LookupError, AttributeError):
        return Expander(RANKS, watch=True)
    has_rules = bool(read.rules) and trust.is_ours(folder, text)
    return Expander(RANKS, watch=read.watch, rules=read.rules if has_rules else ())


def _of_plan(plan: dict[str, Any]) -> dict[str, Any]:
    hosts = [host for host in plan["hosts"] if isinstance(host, dict)]
    job = plan["work"].get("job")
    script = plan["work"].get("script")
    words = script.get("words") if isinstance(script, dict) else script  # of an older plan
    words = words if isinstance(words, list) else []
    return {
        "job": _settings(job) if isinstance(job, dict) else None,
        "script": shlex.join(word for word in words if isinstance(word, str))[:LONGEST],
        "hosts": tuple(name for host in hosts if isinstance(name := host.get("name"), str)),
        "ranks": sum(_whole(host.get("slots")) for host in hosts),
    }


def _settings(job: dict[str, Any]) -> dict[str, Any]:
    """The settings of a job that this version knows and that differ from the defaults."""
    return {
        name: value
        for name, default in DEFAULTS.items()
        if (value := job.get(name, default)) != default and is_setting(name, value)
    }


def is_setting(name: str, value: Any) -> bool:
    """Whether a job has a setting of this name, and the value its type."""
    if name not in DEFAULTS:
        return False
    kind = str(Job.__dataclass_fields__[name].type)
    if kind == SEVERAL:
        return isinstance(value, list) and all(isinstance(word, str) for word in value)
    if TYPES[kind] in (int, float):
        return number(value) is not None
    return type(value) is TYPES[kind]


def _of_summary(summary: dict[str, Any]) -> dict[str, Any]:
    ranks = [rank for rank in _list(summary.get("ranks")) if isinstance(rank, dict)]
    steps = [_whole(rank.get("step")) for rank in ranks]
    losses = [number(rank.get("loss")) for rank in ranks if _whole(rank.get("step"))]
    known = [loss for loss in losses if loss is not None]
    test = _dict(summary.get("test"))
    cause = _dict(summary.get("cause"))
    means = _dict(summary.get("means"))
    warm = _dict(
        means.get("iterations_from_2") or means.get("iterations_2_to_40")
    )  # which older summaries have
    text = cause.get("text")
    # The ranks of the last attempt may be waiting, though those of one before have trained.
    was_restarted = bool(_list(summary.get("restarts")))
    ranks_started = any(rank.get("fate") != RankPhase.WAITING for rank in ranks)
    return {
        "cause": text[:LONGEST] if isinstance(text, str) else "",
        "diverged": isinstance(summary.get("diverged"), dict),
        "step": max(steps, default=0),
        "steps": _whole(summary.get("steps")),
        "loss": finite_mean(known) if known else None,
        "test_loss": number(test.get("loss")),
        "accuracy": number(test.get("accuracy")),
        "step_seconds": number(warm.get("seconds")),
        "started": number(summary.get("started")),
        "elapsed": number(summary.get("elapsed")),
        "ranks_started": ranks_started or was_restarted,
    }


def number(value: Any) -> float | None:
    """The value, where it is a number that a run can have; else None."""
    is_number = type(value) in (int, float) and -LARGEST <= value <= LARGEST
    return value if is_number else None


def _whole(value: Any) -> int:
    return value if type(value) is int and 0 <= value <= LARGEST else 0


def _dict(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []
