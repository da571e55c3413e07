"""Says what is seen of a script, and how. Pure."""

from __future__ import annotations

import math
import shlex
from collections import defaultdict
from collections.abc import Iterator

from remote.format import count, listed, ranks_text
from remote.plan.plan import LOG_FILES
from remote.run.findings.start_halt import find_start_halt
from remote.run.run_state import RunState
from remote.run.state.phases import RunPhase, Verdict
from remote.run.state.progress import WATCHED

SOON = 120.0
"""Seconds that a script has to show something before rankboard says that it does not."""
IDLE_CPU = 5.0
"""Percent of a core, below which a rank does nothing."""
FEW = 10
"""Unread lines from which on the run says so; fewer are named on a page alone."""


def ways(run: RunState, *, names_watch: bool = True) -> list[str]:
    """Return how the script is seen. `names_watch`: also that torch is watched.

    Such as "counting the steps of torch's optimiser", "read as: Megatron-LM, rank 3 prints",
    "reads metrics.csv".
    """
    ranks_of_format = defaultdict[str, list[int]](list)
    for rank in run.script_ranks:
        if rank.parsed and rank.parsed.format:
            ranks_of_format[rank.parsed.format].append(rank.rank)
    remarks = [WATCHED] if run.progress.watched and names_watch else []
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
    script = run.plan.script
    has_ended = any(rank.exited for rank in run.processes)
    if not has_ended or not script or not script.follow or run.progress.files:
        return ""
    patterns = " ".join(script.follow)
    if run.progress.has_file_text:
        return (
            f"nothing was read in the files that match --follow {patterns}: rankboard parse FILE "
            "shows their lines"
        )
    return f"nothing was read: no file was written that matches --follow {patterns}"


def unread(run: RunState) -> int:
    """Count the lines that have numbers and were not read."""
    return sum(rank.parsed.unread for rank in run.script_ranks if rank.parsed)


def sees_calls(run: RunState) -> bool:
    """Return True if a script has called functions of torch.distributed, and made no steps."""
    ranks = run.script_ranks
    return any(rank.collectives.count for rank in ranks) and not run.step


def describe_sight(run: RunState) -> str:
    """Say what is seen of a live script, what is not, and which line it may print to show that.

    Return "" if nothing is seen yet, and if nothing is missing.
    """
    seen = list(_seen_things(run))
    if not seen or run.plan.job or run.phase is not RunPhase.TRAINING:
        return ""
    missing = []
    if not run.step:
        missing.append("steps")
    if not _has_loss(run):
        missing.append("loss")
    # That it is no more than the total is said where steps are first counted.
    if not missing:
        return ""
    if run.step and not run.progress.steps:
        missing.append("total of steps")
    loss_text = "" if _has_loss(run) else " loss 0.53"
    missing_text = " and ".join(f"no {name}" for name in missing)
    return (
        f"rankboard sees {listed(seen)}, but {missing_text}: print lines such as"
        f' "step 20/1000{loss_text}"'
    )


def _seen_things(run: RunState) -> Iterator[str]:
    """Yield what is seen of a script, in words."""
    if run.step:
        yield "steps"
    if _has_loss(run):
        yield "loss"
    if any(rank.pace.mean("compute") > 0 for rank in run.script_ranks if rank.pace):
        yield "waits"
    if sees_calls(run):
        yield "calls of torch.distributed"
    if run.metrics.named:
        yield count(len(run.metrics.named), "printed value")


def _has_loss(run: RunState) -> bool:
    return any(math.isfinite(rank.loss) for rank in run.script_ranks)


def sees_nothing(run: RunState) -> bool:
    """Return True if a script has shown neither steps, nor values, nor collectives."""
    ranks = run.script_ranks
    has_shown = any(rank.step or rank.collectives.count for rank in ranks)
    return bool(ranks) and not run.metrics.named and not has_shown


def describe_missing_steps(run: RunState) -> str:
    """Say when steps will be seen, of a run that has made none; once it is over, that none were."""
    script = run.plan.script
    if run.phase is RunPhase.ENDED:
        return "no steps were made" if script is None else "no steps were seen"
    if script is None:
        return "steps show once the ranks train"
    if sees_calls(run):
        return "no steps so far"
    # Most of the time before, it imports torch.
    source = "torch makes them" if script.watch else "the program prints them"
    return f"the program is starting: steps show once {source}"


def has_shown_start(run: RunState) -> bool:
    """Return True if a script has shown a step in this attempt, or a value.

    If torch is not watched in it, and it prints numbers that are not read, it may train unseen.
    """
    ranks = run.script_ranks
    is_watched = any(rank.meetings for rank in ranks)
    may_train_unseen = unread(run) > 0 and not is_watched
    return any(rank.pace for rank in ranks) or bool(run.metrics.named) or may_train_unseen


def ended_unseen(run: RunState) -> bool:
    """Return True if the ranks of a script have ended well, and no step or value was seen."""
    return run.verdict is Verdict.FINISHED and sees_nothing(run) and not _log_files(run)


def describe_unseen_end(run: RunState) -> str:
    """Return what is known of a script that has ended well without a step; "" of any other."""
    if not ended_unseen(run):
        return ""
    printed_lines = (
        line for line in reversed(run.log.lines) if line.rank >= 0 and line.text.strip()
    )
    last_line = next(printed_lines, None)
    if last_line is None:
        end_text = "it printed nothing"
    else:
        end_text = f"the last line of rank {last_line.rank}: {last_line.text.strip()}"
    return f"the program ended with exit code 0, and no step was seen; {end_text}"


def unused_rules(run: RunState) -> list[str]:
    """Return which rules of the run's plan do not read its output, and why."""
    messages = []
    if run.plan.rules_left_out:
        rules_text = count(run.plan.rules_left_out, "rule")
        messages.append(
            f"left out, as you did not record this run: {rules_text} of its plan "
            "(rankboard parse --rule tries yours)"
        )
    script = run.plan.script
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
    num_unread = unread(run)
    unread_text = f"{count(num_unread, 'line')} with numbers not read: {command} shows them"
    if sees_nothing(run) and has_log_files:
        # What log files have is there at once.
        is_due = run.log.count > 0
        return f"rankboard sees no steps and no values: {command} says why" if is_due else ""
    if sees_nothing(run) and run.phase is not RunPhase.ENDED:
        return _advice_on_silence(run, now)
    # A live script often prints a few numbers that are no values; a file is all there is, and so
    # is what was printed if nothing else was seen.
    is_all = has_log_files or ended_unseen(run)
    return unread_text if num_unread >= (1 if is_all else FEW) else ""


def _advice_on_silence(run: RunState, now: float) -> str:
    """Return why neither steps nor values of a live script are seen, if it has had the time."""
    spawned_at = [rank.spawned_at for rank in run.processes if rank.spawned_at]
    is_due = bool(spawned_at) and now - min(spawned_at) >= SOON
    if not is_due or run.stall:
        return ""
    # Who holds up the start is said elsewhere.
    halt = find_start_halt(run)
    if halt and (halt.waiting or halt.find_stopped()):
        return ""
    if _has_idle_workers(run):
        reason = (
            f"the {count(len(run.ranks), 'rank')} that the program has started are idle; if it "
            "forks them after torch has started threads, they hang, and OMP_NUM_THREADS=1 before "
            "the program helps"
        )
    elif unread(run):
        reason = f"{_command(run)} says why"
    else:
        script = run.plan.script
        is_watched = script is not None and script.watch
        reason = (
            "no optimiser of torch has made a step, and no line has numbers"
            if is_watched
            else "torch is not watched, and no line has numbers"
        )
    return f"rankboard sees no steps and no values: {reason}"


def _has_idle_workers(run: RunState) -> bool:
    """Return True if the ranks that a script has started itself do nothing, as in a deadlock."""
    # Of a rank that has not joined the others, the use is not known.
    return run.has_workers and all(rank.cpu < IDLE_CPU for rank in run.ranks)


def _log_files(run: RunState) -> tuple[str, ...]:
    """Return the log files that are shown as a run; none of a real run."""
    script = run.plan.script
    return script.words if script and run.plan.run == LOG_FILES else ()


def _command(run: RunState) -> str:
    """Return the command that shows how the lines are read, and which are not."""
    files = _log_files(run)
    if not files:
        return f"rankboard parse {run.plan.run}"
    rank = max(run.script_ranks, key=lambda rank: rank.parsed.unread if rank.parsed else 0)
    return f"rankboard parse {shlex.quote(files[rank.rank])}"
