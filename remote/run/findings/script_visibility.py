"""What is seen of a user's own program, and how; in words. Pure."""

from __future__ import annotations

import shlex

from remote.format import count, ranks_text
from remote.plan.plan import LOG_FILES, Script
from remote.run.run_state import RunState
from remote.run.state.phases import RankPhase, RunPhase
from remote.run.state.progress import WATCHED
from remote.run.state.script_rank import ScriptRank

SOON = 120.0
"""Seconds that a program has to show something before anybody is told that it does not."""
FEW = 10
"""Lines below which a page says that they are not read, and not the run."""


def ranks_of(run: RunState) -> list[ScriptRank]:
    """The ranks of a user's own program; none of a job."""
    return [rank for rank in run.ranks if isinstance(rank, ScriptRank)]


def ways(run: RunState) -> list[str]:
    """How it is seen: "torch is watched", "read as: Megatron-LM, rank 3 prints", "reads
    metrics.csv"."""
    ranks = ranks_of(run)
    printing: dict[str, list[int]] = {}
    for rank in ranks:
        if rank.parsed and rank.parsed.format:
            printing.setdefault(rank.parsed.format, []).append(rank.rank)
    watched = [WATCHED] if run.progress.watched else []
    printed = (f"read as: {name}, {_prints(who)}" for name, who in printing.items())
    return [*watched, *printed, *_files(run)]


def _files(run: RunState) -> list[str]:
    """The files that are read, in a few words."""
    first, *more = run.progress.files or [""]
    others = f" and {count(len(more), 'other file')}" if more else ""
    return [f"reads {first}{others}"] if first else []


def unfollowed(run: RunState) -> str:
    """That a program has ended, and none of the files that it should write was read; "" where one
    was, or none is looked for."""
    work = run.plan.work
    if not isinstance(work, Script) or not work.follow or run.progress.files:
        return ""
    if not any(rank.exited for rank in run.ranks):
        return ""
    return f"nothing was read: no file was written that matches --follow {' '.join(work.follow)}"


def _prints(ranks: list[int]) -> str:
    return f"{ranks_text(ranks)} {'prints' if len(ranks) == 1 else 'print'}"


def unread(run: RunState) -> int:
    """Lines that bear numbers and were not read."""
    return sum(rank.parsed.unread for rank in ranks_of(run) if rank.parsed)


def sees_nothing(run: RunState) -> bool:
    """Whether a user's own program has shown neither steps nor values."""
    ranks = ranks_of(run)
    return bool(ranks) and not run.metrics.named and not any(rank.step for rank in ranks)


def unused_rules(run: RunState) -> list[str]:
    """Say which rules of the run's plan do not read its output, and why."""
    messages = []
    if run.plan.rules_left_out:
        rules = count(run.plan.rules_left_out, "rule")
        messages.append(
            f"left out, as you did not record this run: {rules} of its plan "
            "(rankboard parse --rule tries yours)"
        )
    work = run.plan.work
    for rule in work.rules if isinstance(work, Script) else ():
        problem = rule.problem
        if problem:
            messages.append(f"the rule {rule.line!r} is not used: {problem}")
    return messages


def advice(run: RunState, now: float) -> str:
    """What to do where nothing is seen, or lines with numbers were not read; "" where all is
    well."""
    unread_lines = _advice_on_lines(run, now)
    return "; ".join([unread_lines, *unused_rules(run)]) if unread_lines else ""


def _advice_on_lines(run: RunState, now: float) -> str:
    """What to do where nothing is seen, or lines with numbers were not read."""
    if _log_files(run):  # what they have is there at once
        is_due = run.log.count > 0
        few = 1
    else:
        is_due = _is_late(run, now)
        few = FEW
    how = _command(run)
    number = unread(run)
    if sees_nothing(run):
        return f"rankboard sees no steps and no values: {how} says why" if is_due else ""
    if number < few:
        return ""
    return f"{count(number, 'line')} with numbers not read: {how} shows them"


def _is_late(run: RunState, now: float) -> bool:
    """Whether a program has had the time to show something."""
    since = [rank.since for rank in run.ranks if rank.phase is RankPhase.TRAINING]
    exits = [rank.exited.code for rank in run.ranks if rank.exited]
    if run.phase is RunPhase.ENDED:  # of one that failed at once, the cause is what counts
        return bool(exits) and (not any(exits) or run.elapsed >= SOON)
    return bool(since) and now - min(since) >= SOON


def _log_files(run: RunState) -> tuple[str, ...]:
    """The log files that are shown as a run; none of a real one."""
    work = run.plan.work
    return work.words if run.plan.run == LOG_FILES and isinstance(work, Script) else ()


def _command(run: RunState) -> str:
    """What shows how the lines are read, and which are not."""
    files = _log_files(run)
    if not files:
        return f"rankboard parse {run.plan.run}"
    rank = max(ranks_of(run), key=lambda rank: rank.parsed.unread if rank.parsed else 0)
    return f"rankboard parse {shlex.quote(files[rank.rank])}"
