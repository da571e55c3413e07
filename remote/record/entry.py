"""A recorded run in a list of all runs: what it was, and what became of it.

It is read from the plan and the overview as they stand there. Both may be somebody else's work, and
a run is listed even if its plan could not be launched again.
"""

from __future__ import annotations

import shlex
from dataclasses import fields
from pathlib import Path
from typing import Any, NamedTuple

from remote.jsonl import load
from remote.limits import LIMITS
from remote.plan.variables import describe_variables
from remote.record import files, marks
from remote.record.layout import PLAN
from remote.record.overview import (
    ENDS,
    LARGEST,
    VERSION,
    Count,
    Figure,
    Loss,
    Overview,
    RunTimes,
    Trouble,
    check_number,
    read_overview,
    remake_overview,
)
from remote.record.step_notes import join_step_notes, read_step_notes
from remote.run.state.flaw import Flaw, FlawKind
from remote.run.state.phases import LEFT, RUNNING, UNREADABLE, Verdict
from training.job import SEVERAL, TYPES, Job
from training.wire.format import READABLE, READABLE_TEXT, format_of

FINISHED = Verdict.FINISHED.word
VERDICTS = (*ENDS, RUNNING, LEFT, UNREADABLE)
DEFAULTS: dict[str, Any] = {field.name: field.default for field in fields(Job)} | {
    "sync_option": []
}
"""The settings of a job, as JSON has them."""
LONGEST_SCRIPT = 300
"""Characters of a command line that a list keeps."""
LONGEST_VALUE = 100
"""Characters of the value of a variable that a list keeps."""


class Entry(NamedTuple):
    """One run of the list. What is not known is None, "" or 0. For the fields that are not
    described here, see `remote.record.overview.Overview`."""

    name: str
    problem: str = ""
    """Why nothing else is known."""
    job: dict[str, Any] | None = None
    """The settings that differ from `DEFAULTS`; None for a script."""
    script: str = ""
    """The command line of a script."""
    variables: dict[str, str] = {}  # noqa: RUF012
    """Those that are set for the ranks, see `describe_variables`."""
    hosts: tuple[str, ...] = ()
    ranks: Count = 0
    verdict: str = ""
    """One of `VERDICTS`; "" in an entry of `read_entry` if the run has not ended."""
    cause: str = ""
    diverged: bool = False
    flaws: tuple[Flaw, ...] = ()
    version: Count = 0
    step: Count = 0
    steps: Count = 0
    loss: Loss = None
    test_loss: Loss = None
    accuracy: Figure = None
    step_seconds: Figure = None
    started: Figure = None
    elapsed: Figure = None
    times: RunTimes | None = None
    ranks_started: bool = False
    trouble: Trouble = ""
    star: bool = False
    pinned: bool = False
    """Whether it is the baseline of the runs beside it."""
    note: str = ""
    step_notes: str = ""
    """The notes at steps, in one line."""
    label: str = ""
    """The name that a person gave the run."""
    study: str = ""
    """The study that made the run."""
    trial: str = ""
    """Which trial of the study it is."""

    def setting(self, name: str) -> Any:
        """Return a setting of its job; None if it has no job, or does not give the setting."""
        return None if self.job is None else self.job.get(name, DEFAULTS[name])

    @property
    def state(self) -> str:
        """Return what it does or what became of it, in a word or two: what is wrong with a run that
        is recorded now, else its `outcome`."""
        if self.problem:
            return UNREADABLE
        return self.trouble if self.verdict == RUNNING and self.trouble else self.outcome

    @property
    def outcome(self) -> str:
        """Return what became of it, in a word or two: its verdict, but of a finished run its worst
        flaw, if it has any."""
        if self.verdict != FINISHED:
            return self.verdict
        if self.flaws:
            return self.flaws[0].kind.value
        # Older versions have recorded no more of it, see `renew_entry`.
        return FlawKind.DIVERGED.value if self.diverged else self.verdict

    @property
    def ended(self) -> float:
        """Return when it ended, as a Unix time; 0 if it has not, or if that is not known."""
        if self.verdict not in ENDS or not self.started:
            return 0.0
        return self.started + (self.elapsed or 0.0)

    @property
    def made_no_step(self) -> bool:
        """Return True if it ended without a step. A script may have made steps that nobody knows
        of: its run counts only if none of its ranks was started."""
        if self.verdict not in ENDS or self.verdict == FINISHED or self.step:
            return False
        return self.job is not None or not self.ranks_started


OF_OVERVIEW = tuple(name for name in Overview.__struct_fields__ if name in Entry._fields)


def read_entry(folder: Path, on_failure: files.Failed = files.ignore) -> Entry:
    """Read a recorded run; only its name if it has no plan that this version reads. `on_failure` is
    called with the error of each file that cannot be read, also of one that is missing."""
    own_marks: dict[str, Any] = {
        "star": marks.is_starred(folder),
        "pinned": marks.is_pinned(folder),
        "note": marks.note(folder, on_failure),
        "step_notes": join_step_notes(read_step_notes(folder, on_failure)),
        "label": marks.name(folder, on_failure),
    }
    plan, problem = _read_plan(folder, on_failure)
    if problem:
        return Entry(folder.name, problem, **own_marks)
    overview = read_overview(folder, on_failure)
    outcome_fields = {field_name: getattr(overview, field_name) for field_name in OF_OVERVIEW}
    return Entry(folder.name, **_describe_plan(plan), **outcome_fields, **own_marks)


def is_outdated(run: Entry) -> bool:
    """Return True if an older version recorded the run, whose flaws and loss were other ones."""
    return (
        run.version < VERSION and run.verdict in ENDS and (run.verdict == FINISHED or run.step > 0)
    )


def renew_entry(folder: Path, run: Entry) -> Entry:
    """Return the run with the flaws and the loss that its records show. This takes a moment."""
    overview = remake_overview(folder)
    if overview.version < VERSION:  # its records cannot be read
        return run._replace(version=VERSION)
    return run._replace(
        flaws=overview.flaws,
        version=VERSION,
        diverged=run.diverged or overview.diverged,
        loss=overview.loss,
    )


def _read_plan(folder: Path, on_failure: files.Failed) -> tuple[dict[str, Any], str]:
    """Return the plan of a run, and why it cannot be read."""
    try:
        plan_data = load(files.read(folder / PLAN, LIMITS.plan)) or {}
    except OSError as error:
        on_failure(error)
        return {}, error.strerror or "it cannot be read"
    if not isinstance(plan_data.get("hosts"), list) or not isinstance(plan_data.get("work"), dict):
        return {}, "it is not a plan"
    plan_format = format_of(plan_data)
    return (
        plan_data,
        "" if plan_format in READABLE else f"it is in format {plan_format}, not {READABLE_TEXT}",
    )


def _describe_plan(plan: dict[str, Any]) -> dict[str, Any]:
    plan_hosts = [host for host in plan["hosts"] if isinstance(host, dict)]
    host_names = [host.get("name") for host in plan_hosts]
    job = plan["work"].get("job")
    script = plan["work"].get("script")
    script_words = script.get("words") if isinstance(script, dict) else script  # of an older plan
    if not isinstance(script_words, list):
        script_words = []
    host_slots = [host.get("slots") for host in plan_hosts]
    rank_count = sum(count for count in host_slots if type(count) is int and 0 <= count <= LARGEST)
    return {
        "job": _changed_settings(job) if isinstance(job, dict) else None,
        "script": shlex.join(
            script_word for script_word in script_words if isinstance(script_word, str)
        )[:LONGEST_SCRIPT],
        "variables": describe_variables([_read_variables(host) for host in plan_hosts]),
        "hosts": tuple(host_name for host_name in host_names if isinstance(host_name, str)),
        "ranks": min(rank_count, int(LARGEST)),
    }


def _read_variables(host: dict[str, Any]) -> dict[str, str]:
    variables = host.get("env")
    if not isinstance(variables, list):
        return {}
    return {
        name: value[:LONGEST_VALUE]
        for name, value in (pair for pair in variables if isinstance(pair, list) and len(pair) == 2)
        if isinstance(name, str) and isinstance(value, str)
    }


def _changed_settings(job_settings: dict[str, Any]) -> dict[str, Any]:
    """Return the settings of a job that this version knows and that differ from the defaults."""
    changed_settings = dict[str, Any]()
    for setting_name, default in DEFAULTS.items():
        setting_value = job_settings.get(setting_name, default)
        if setting_value != default and is_setting(setting_name, setting_value):
            changed_settings[setting_name] = setting_value
    return changed_settings


def is_setting(setting_name: str, setting_value: Any) -> bool:
    """Return True if a job has a setting of this name, and the value has its type."""
    if setting_name not in DEFAULTS:
        return False
    type_name = str(Job.__dataclass_fields__[setting_name].type)
    if type_name == SEVERAL:
        return isinstance(setting_value, list) and all(
            isinstance(word, str) for word in setting_value
        )
    if TYPES[type_name] in (int, float):
        return check_number(setting_value) is not None
    return type(setting_value) is TYPES[type_name]
