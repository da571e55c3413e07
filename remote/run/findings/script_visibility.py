"""Says what is seen of a script, and how. Pure."""

from __future__ import annotations

import shlex
from collections import defaultdict

from remote.format import count, ranks_text
from remote.plan.plan import LOG_FILES, Script
from remote.run.run_state import RunState
from remote.run.state.phases import RankPhase, RunPhase
from remote.run.state.progress import WATCHED
from remote.run.state.script_rank import ScriptRank

SOON = 120.0
"""Seconds that a script has to show something before rankboard says that it does not."""
FEW = 10
"""Unread lines from which on the run says so; fewer are named on a page alone."""


def script_ranks(run: RunState) -> list[ScriptRank]:
    """Return the ranks of a script; none of a job."""
    return [rank for rank in run.ranks if isinstance(rank, ScriptRank)]


def ways(run: RunState) -> list[str]:
    """Return how the script is seen.

    Such as "torch is watched", "read as: Megatron-LM, rank 3 prints", "reads metrics.csv".
    """
    ranks_of_format = defaultdict[str, list[int]](list)
    for rank in script_ranks(run):
        if rank.parsed and rank.parsed.format:
            ranks_of_format[rank.parsed.format].append(rank.rank)
    remarks = [WATCHED] if run.progress.watched else []
    for format_name, ranks in ranks_of_format.items():
        verb = "prints" if len(ranks) == 1 else "print"
        remarks.append(f"read as: {format_name}, {ranks_text(ranks)} {verb}")
    if run.progress.files:
        first_file, *other_files = run.progress.files
        others_text = f" and {count(len(other_files), 'other file')}" if other_files else ""
        remarks.append(f"reads {first_file}{others_text}")
    return remarks


def unfollowed(run: RunState) -> str:
    """Return a remark if the script has ended, and none of its files was read; else ""."""
    script = _script(run)
    has_ended = any(rank.exited for rank in run.processes)
    if not has_ended or not script or not script.follow or run.progress.files:
        return ""
    return f"nothing was read: no file was written that matches --follow {' '.join(script.follow)}"


def _script(run: RunState) -> Script | None:
    return run.plan.work if isinstance(run.plan.work, Script) else None


def unread(run: RunState) -> int:
    """Count the lines that have numbers and were not read."""
    return sum(rank.parsed.unread for rank in script_ranks(run) if rank.parsed)


def sees_nothing(run: RunState) -> bool:
    """Return True if a script has shown neither steps, nor values, nor collectives."""
    ranks = script_ranks(run)
    has_shown = any(rank.step or rank.collectives.count for rank in ranks)
    return bool(ranks) and not run.metrics.named and not has_shown


def unused_rules(run: RunState) -> list[str]:
    """Return which rules of the run's plan do not read its output, and why."""
    messages = []
    if run.plan.rules_left_out:
        rules_text = count(run.plan.rules_left_out, "rule")
        messages.append(
            f"left out, as you did not record this run: {rules_text} of its plan "
            "(rankboard parse --rule tries yours)"
        )
    script = _script(run)
    for rule in script.rules if script else ():
        if rule.problem:
            messages.append(f"the rule {rule.line!r} is not used: {rule.problem}")
    return messages


def advice(run: RunState, now: float) -> str:
    """Return what to do if nothing is seen, or lines with numbers were not read; else ""."""
    unread_lines = _advice_on_lines(run, now)
    return "; ".join([unread_lines, *unused_rules(run)]) if unread_lines else ""


def _advice_on_lines(run: RunState, now: float) -> str:
    has_log_files = bool(_log_files(run))
    command = _command(run)
    if sees_nothing(run):
        # What log files have is there at once.
        is_due = run.log.count > 0 if has_log_files else _is_late(run, now)
        return f"rankboard sees no steps and no values: {command} says why" if is_due else ""
    num_unread = unread(run)
    # A live script often prints a few numbers that are no values; a file is all there is.
    if num_unread < (1 if has_log_files else FEW):
        return ""
    return f"{count(num_unread, 'line')} with numbers not read: {command} shows them"


def _is_late(run: RunState, now: float) -> bool:
    """Return True if a script has had the time to show something."""
    training_since = [rank.since for rank in run.ranks if rank.phase is RankPhase.TRAINING]
    exit_codes = [rank.exited.code for rank in run.processes if rank.exited]
    if run.phase is RunPhase.ENDED:  # of one that failed at once, the cause is what counts
        return bool(exit_codes) and (not any(exit_codes) or run.elapsed >= SOON)
    return bool(training_since) and now - min(training_since) >= SOON


def _log_files(run: RunState) -> tuple[str, ...]:
    """Return the log files that are shown as a run; none of a real run."""
    script = _script(run)
    return script.words if script and run.plan.run == LOG_FILES else ()


def _command(run: RunState) -> str:
    """Return the command that shows how the lines are read, and which are not."""
    files = _log_files(run)
    if not files:
        return f"rankboard parse {run.plan.run}"
    rank = max(script_ranks(run), key=lambda rank: rank.parsed.unread if rank.parsed else 0)
    return f"rankboard parse {shlex.quote(files[rank.rank])}"
