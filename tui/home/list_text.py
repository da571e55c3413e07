"""Describe the list of runs, and the row under its cursor."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from remote.format import count, moment
from remote.record.entry import FINISHED, RUNNING, Entry
from remote.run.state.resume_point import ResumePoint
from remote.sanitise import plain
from tui.home.history import Answered, Listed
from tui.home.listing import settings_of
from tui.home.run_list import RowSelection, RunItem

GetKey = Callable[[str], str]
"""Returns the key of an action."""
SEVERAL = 2
"""More problems than these are summed up in two lines."""


def describe_item(item: RunItem | None, checkpoint_step: int, get_key: GetKey) -> str:
    """Describe the row under the cursor, in at most three lines. `checkpoint_step` is that of its
    newest checkpoint, 0 if none is known."""
    if item is None:
        return ""
    if item.study:
        study = item.study.study
        cells = count(len(item.study.cells), "cell")
        return f"study {item.name}: {cells}. {study.question or study.title}"
    if item.entry:
        return _describe_recorded(item, item.entry, checkpoint_step, get_key)
    name = item.title
    if item.is_live:
        text = f"{name}: live on its hosts, not recorded here. {get_key('open')} attaches to it."
    else:
        what = "has ended, as its hosts say; not recorded here."
        text = f"{name}: {what} {get_key('open')} opens it."
    return plain(text)


def _describe_recorded(item: RunItem, run: Entry, checkpoint_step: int, get_key: GetKey) -> str:
    study = f", of the study {run.study}: {run.trial}" if run.study else ""
    lines = [f"{item.title}, started {moment(run.started or 0)}{study}"]
    reasons = [run.problem or run.cause, *(flaw.text for flaw in run.flaws)]
    lines += filter(None, reasons)
    if checkpoint_step and run.verdict not in (FINISHED, RUNNING):
        lines.append(f"{get_key('resume')} {ResumePoint(checkpoint_step, run.step).text}")
    if run.note:
        lines.append(f"note: {run.note}")
    if run.step_notes:
        lines.append(f"notes: {run.step_notes}")
    settings = settings_of(run)
    if len(lines) == 1 and settings:
        lines.append(", ".join(settings))
    # The screen has room for three; the first ones say more.
    return "\n".join(plain(line) for line in lines[:3])


def count_listed(listed: Listed, selection: RowSelection, now: float, *, has_filter: bool) -> str:
    """Say how many runs and studies are listed, and how many are live or need a person."""
    recorded = len(listed.runs)
    if has_filter:
        matching = sum(not item.study for item in selection.items)
        parts = [f"{matching} of {count(recorded, 'run')}"]
    else:
        parts = [count(recorded - selection.hidden, "run")]
    parts.append(f"{sum(item.is_live for item in selection.items)} live")
    if listed.studies and not has_filter:
        parts.append(count(len(listed.studies), "study", "studies"))
    needy = sum(item.needs_care(now) for item in selection.items)
    if needy:
        parts.append(f"{needy} need{'s' * (needy == 1)} you")
    return ", ".join(parts)


def describe_problems(answered: Answered, listed: Listed) -> list[str]:
    """Say which hosts do not answer, and which files cannot be read: at most two lines of each."""
    hosts = answered.problems
    files = listed.problems
    if len(hosts) > SEVERAL:
        silent = ", ".join(problem.partition(":")[0] for problem in hosts)
        hosts = (f"{len(hosts)} hosts do not answer: {silent}", hosts[0])
    if len(files) > SEVERAL:
        files = (files[0], f"{len(files) - 1} more files cannot be read")
    return [plain(" ".join(problem.split())) for problem in (*hosts, *files)]


def describe_hidden(number: int, get_key: GetKey) -> str:
    """Say how many runs are left out of the list; "" if there are none."""
    if number == 0:
        return ""
    are, them = ("is", "it") if number == 1 else ("are", "them")
    runs = count(number, "run")
    return f"{runs} that made no step {are} hidden: {get_key('all-runs')} lists {them}"


def suggest(words: Sequence[str], folder: str, get_key: GetKey) -> str:
    """Say what to do if nothing is listed, with a filter of these words or without one."""
    if words:
        return f"No run matches the filter.\n{get_key('back')} removes it."
    return (
        f"No runs in {folder} yet. Press {get_key('new-run')} to set up the first one,\n"
        "or try: rankboard --local 4 --model lenet5 --dataset digits"
    )
