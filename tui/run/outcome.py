"""The end of a run as plain text: the cause of a failure, the fates of the ranks, the results, the
verdict."""

from __future__ import annotations

import math
import signal
from collections.abc import Sequence

from remote.format import (
    UNKNOWN,
    count,
    duration,
    fixed,
    listed,
    loss,
    or_unknown,
    percent,
    rate,
    size,
    step_time,
)
from remote.plan.plan import Plan
from remote.run.findings import script_visibility as seen
from remote.run.findings.advise_success import advise_success
from remote.run.findings.find_advice import advise_flaw
from remote.run.findings.find_resume_point import find_resume_point
from remote.run.findings.flaws import find_flaws
from remote.run.findings.memory import find_memory_at_death
from remote.run.findings.start_load import describe_start_load
from remote.run.findings.training_loss import join_losses
from remote.run.output.last_words import HEADER
from remote.run.run_state import RunState
from remote.run.series.step_times import RECENT, join_means
from remote.run.state.host_state import is_trust_command
from remote.run.state.phases import FATES, Verdict
from remote.run.state.rank_state import RankState
from remote.run.state.script_rank import ScriptRank, join_totals
from remote.run.state.types import Cause
from remote.sanitise import one_line
from remote.statistics.mean import finite_mean
from tui.kit.text_table import rule_lines
from tui.run import failure_advice as hints
from tui.run.components.advice_text import describe_advice
from tui.run.components.link_text import PHASES, describe_bound
from tui.run.unfetched_files import describe_unfetched_files

MIN_LENGTH = 8
"""Shorter lines are too common to mean the same as a cause."""

WITHOUT_CHECKPOINT = (
    "no checkpoint was saved, so it can only start anew; with --checkpoint-every epoch, "
    "--max-restarts 1 goes on after such a failure"
)
"""What is said of a failed job that cannot go on."""

NAMES = ("host", "rank")
"""The columns of the table of results that say what a row is of."""


def early_iterations(state: RunState) -> str:
    """Return which iterations the rule of the assignment counts: "2 to 40", or what there is of
    them."""
    timings = [rank.timing for rank in state.ranks if rank.timing.count]
    first_iteration = min((timing.first_early for timing in timings), default=2)
    last_iteration = max((timing.last_early for timing in timings), default=0)
    if last_iteration <= first_iteration:
        return str(first_iteration)
    return f"{first_iteration} to {last_iteration}"


def result_table(state: RunState) -> tuple[list[str], list[tuple[str, ...]]]:
    """Return the names of the columns of the table of results, and its rows.

    There is a row per rank, one for all, and the shares of an iteration. `result_captions` explains
    the columns. Columns that tell nothing are left out.
    """
    ranks = state.ranks
    early_name = f"iter {early_iterations(state).replace(' to ', '-')}"
    table_rows = [
        {"host": state.host_name(rank.host), "rank": str(rank.rank)}
        | _result_cells([rank], early_name)
        for rank in ranks
    ]
    if len(ranks) > 1:
        all_cells = _result_cells(ranks, early_name, are_apart=state.trains_apart)
        table_rows.append({"host": "all", "rank": ""} | all_cells)
    # Shares are of the mean over all ranks, as the times of single ranks differ by their waits.
    # They are of the same steps as those of `describe_bound`, which stand below the table.
    means = state.means
    has_split = not math.isnan(means.seconds) and (means.compute or means.sync)
    if has_split:
        phase_shares = {name: percent(means.share(getattr(means, name))) for name in PHASES}
        table_rows.append({"host": "share"} | phase_shares)
    columns = [
        name
        for name in table_rows[0]
        if name in NAMES or any(row.get(name, "") not in ("", UNKNOWN) for row in table_rows)
    ]
    return columns, [tuple(row.get(name, "") for name in columns) for row in table_rows]


def _result_cells(
    ranks: Sequence[RankState], early_name: str, *, are_apart: bool = False
) -> dict[str, str]:
    """Return the figures of one rank, or of all of them, as cells by the names of their columns.

    `are_apart`: see `join_means`.
    """
    means = join_means((rank.timing.warm for rank in ranks), are_apart=are_apart)
    early_means = join_means(rank.timing.early for rank in ranks)
    phase_seconds = [getattr(means, name) for name in PHASES]
    # A script may tell none of them, or `data` alone, which splits nothing.
    if not any(phase_seconds[1:]):
        phase_seconds = [math.nan] * len(phase_seconds)
    epoch_seconds = [seconds for rank in ranks for seconds in rank.epoch_seconds]
    exchanging_ranks = [
        rank for rank in ranks if isinstance(rank, ScriptRank) and rank.only_exchanges
    ]
    totals = join_totals(exchanging_ranks)
    own_accuracy = finite_mean(rank.own_accuracy for rank in ranks)
    return {
        early_name: step_time(early_means.seconds),
        # The phases stand beside the time that they add up to.
        "per step": step_time(means.seconds),
        **dict(zip(PHASES, map(step_time, phase_seconds), strict=True)),
        "samples/s": rate(means.throughput) if means.throughput else UNKNOWN,
        "epoch": fixed(finite_mean(epoch_seconds), 2, " s"),
        "loss": loss(join_losses(ranks)),
        "own accuracy": percent(own_accuracy, 1),
        "collectives": f"{totals.count:,}" if totals.count else UNKNOWN,
        "exchanged": size(totals.bytes) if totals.bytes else UNKNOWN,
        "blocked": fixed(totals.seconds, 2, " s") if totals.count else UNKNOWN,
    }


def closing_advice(state: RunState) -> list[str]:
    """Say what to do where a script was not seen, or in part, which of its files stay, and what
    helps against what spoils the result."""
    has_run = state.verdict not in (None, Verdict.REFUSED)
    visibility = describe_visibility(state) if has_run else []
    flaws = find_flaws(state) if state.verdict is Verdict.FINISHED else ()
    advices = [advise_success(state), *(advise_flaw(state, flaw) for flaw in flaws)]
    advice_lines = [describe_advice(state, advice) for advice in advices if advice]
    return [*visibility, *describe_unfetched_files(state), *advice_lines]


def describe_visibility(state: RunState) -> list[str]:
    """Say what was not seen of a script that has ended: its steps, or some of its lines."""
    return list(filter(None, (seen.describe_unseen_end(state), seen.advice(state, state.now))))


def result_captions(state: RunState) -> list[str]:
    """Explain the columns of the table, and give the test accuracy of the run."""
    caption_lines = []
    iterations = early_iterations(state)
    # A script that tells no phases lacks most of the columns that need words.
    if "sync" in result_table(state)[0]:
        caption_lines += [
            f"iter {iterations.replace(' to ', '-')}: mean of iterations {iterations}; "
            f"loss: {_describe_loss_column(state)}",
            "per step, data, compute, sync, samples/s: means of all iterations but the first",
        ]
    if state.trains_apart and "samples/s" in result_table(state)[0]:
        caption_lines.append("samples/s of all: the mean, as each rank trains a model of its own")
    load_text = describe_start_load(state)
    if load_text:
        caption_lines.append(load_text)
    return caption_lines + describe_bound(state) + describe_stalls(state) + describe_test(state)


def describe_stalls(state: RunState) -> list[str]:
    """Return a line on the stalls that the mean times of steps hold; none if they hold none."""
    longest = max((rank.timing.longest for rank in state.ranks), default=0.0)
    # The step of a stall that a restart ended was not made, and an evaluation is no step.
    stalls = [stall for stall in state.stalls if stall.over and longest >= stall.seconds]
    if not stalls:
        return []
    seconds = duration(sum(stall.over - stall.since for stall in stalls))
    subject = f"a stall of {seconds} is"
    if len(stalls) > 1:
        subject = f"{len(stalls)} stalls of {seconds} together are"
    medians = [rank.timing.median for rank in state.ranks]
    return [
        f"{subject} in the means of steps: the median is {step_time(finite_mean(medians))} per step"
    ]


def _describe_loss_column(state: RunState) -> str:
    """Say which loss the table has, the same of all ranks."""
    if state.progress.prints_other_loss:
        return "the newest that each rank prints, which is another quantity than that of its steps"
    if any(rank.shows_printed_loss for rank in state.ranks):
        return "the newest that each rank prints"
    mean_text = f"mean of the last {RECENT} steps"
    is_printed = any(rank.prints_loss for rank in state.ranks)
    return f"{mean_text} of each rank, not the printed one" if is_printed else mean_text


def describe_test(state: RunState) -> list[str]:
    """Return a line with the test accuracy and the test loss of the run, if it was tested."""
    tested_ranks = [rank for rank in state.ranks if math.isfinite(rank.test_accuracy)]
    if not tested_ranks:
        return []
    rank = tested_ranks[0]
    best_text = ""
    best = max(state.progress.evaluations, key=lambda test: test.accuracy, default=None)
    if best and best.accuracy > rank.test_accuracy:
        best_text = f"; best {percent(best.accuracy, 1)} in epoch {best.epoch}"
    accuracy_text = f"test accuracy {percent(rank.test_accuracy, 1)}"
    return [f"{accuracy_text}, test loss {loss(rank.test_loss)}{best_text}"]


def has_results(state: RunState) -> bool:
    """Whether the run has ended and there is anything to put into the table."""
    return state.verdict is not None and any(
        rank.timing.count or rank.only_exchanges for rank in state.ranks
    )


def opening_line(state: RunState) -> str:
    """Make the first line: "run NAME: 4 ranks on node0 to node3, ddp, lenet5 on digits"."""
    plan = state.plan
    host_names = [host.name for host in state.plan.hosts]
    hosts_text = " and ".join(host_names)
    if len(host_names) > 2:
        hosts_text = f"{host_names[0]} to {host_names[-1]}"
    ranks_text = f"{count(plan.world_size, 'rank')} on {hosts_text}"
    return f"run {plan.run}: {ranks_text}, {plan.what}"


def repeats_cause(line: str, cause: Cause | None) -> bool:
    """Return True if a line says no more than the cause, which is printed at the end."""
    cause_core = cause.problem.partition(" (exit code ")[0].rstrip("…") if cause else ""
    if not cause_core:
        return False
    if cause_core in line or (len(line) > MIN_LENGTH and line in cause_core):
        return True
    # The line is the advice for one host, and the cause has it for all hosts.
    return is_trust_command(line) and any(map(is_trust_command, cause_core.splitlines()))


def describe_cause(state: RunState) -> list[str]:
    """Explain why a run failed: the cause, its last output, the fate of each rank, and how the run
    goes on.

    Empty for a run that did not fail.
    """
    cause = state.cause
    if cause is None:
        return []
    # Output that only repeats the cause is left out. A traceback says more: where it was raised.
    is_traceback = HEADER in cause.tail
    is_repeated = any(repeats_cause(line, cause) for line in cause.tail)
    explanation = cause_lines(
        cause, state.plan, cause.tail if is_traceback or not is_repeated else ()
    )
    memory = find_memory_at_death(state)
    if memory:
        explanation.append(memory.text)
    if state.has_begun and any(rank.phase in FATES for rank in state.ranks):
        explanation += fate_table(state)
    return explanation + _describe_way_on(state)


def _describe_way_on(state: RunState) -> list[str]:
    """Say how a failed run goes on from its newest checkpoint, with the command, or that it has
    none. A script has ways of its own."""
    resume_point = find_resume_point(state)
    plan = state.plan
    if resume_point is None:
        if plan.job and state.step:
            return [WITHOUT_CHECKPOINT]
        return []
    command = f"rankboard --run{plan.selection_option} --resume {plan.run}"
    return [f"{resume_point.text}: {command}"]


def cause_lines(cause: Cause, plan: Plan, output: Sequence[str], indent: str = "    ") -> list[str]:
    """Explain a cause: what to do about it, and the last output that is worth showing."""
    # The command that mends a cause stands on a line of its own.
    explanation = f"cause: {cause.text()}".splitlines()
    hint = hints.failure_advice(cause, plan)
    if hint:
        explanation.append(f"what to do: {hint}")
    if output:
        explanation += [
            f"last output of {output_source(cause)}:",
            *(f"{indent}{line}" for line in output),
        ]
    return explanation


def output_source(cause: Cause) -> str:
    """Name the rank, agent, host or launcher whose last output is known of a failure."""
    if cause.of_agent:
        return f"the agent on {cause.host}"
    return f"rank {cause.rank}" if cause.rank >= 0 else cause.host or "the launcher"


def fate_table(state: RunState) -> list[str]:
    """Make the table of the ranks' fates."""
    rows = [
        (
            state.host_name(rank.host),
            str(rank.rank),
            rank.phase.value,
            or_unknown(rank.step),
            or_unknown(rank.exit),
        )
        for rank in state.ranks
    ]
    return rule_lines(("host", "rank", "fate", "step", "exit"), rows)


def _except_on(state: RunState) -> str:
    """Name the hosts on which ranks may still run."""
    host_names = [host.name for host in state.unconfirmed]
    return f", except perhaps on {listed(host_names)}" if host_names else ""


def advise_stop(run: str, hosts: Sequence[str]) -> list[str]:
    """Say which command to repeat where ranks may still run on these hosts."""
    if not hosts:
        return []
    it_answers = "it answers" if len(hosts) == 1 else "they answer"
    return [
        f"ranks may still run on {listed(hosts)}: once {it_answers}, repeat rankboard stop {run}"
    ]


def _lost_host(state: RunState) -> str:
    """Say whether the host, or only records of it, were lost, or it was never reached."""
    host_name = state.cause.host if state.cause else ""
    cause_hosts = [host for host in state.hosts if host.name == host_name]
    if any(host.ended and not host.gone for host in cause_hosts):
        return f"lost records of {host_name}"
    was_reached = state.has_begun or any(host.hello for host in cause_hosts)
    return f"{'lost' if was_reached else 'could not reach'} {host_name or 'a host'}"


def _describe_flaws(state: RunState) -> str:
    """Say what spoils the result of a finished run."""
    flaws = [flaw.text for flaw in find_flaws(state)]
    return f", but {' and '.join(flaws)}" if flaws else ""


def describe_signal(number: int) -> str:
    """Explain why this signal stops a run."""
    return (
        "interrupted (Ctrl+C)"
        if number == signal.SIGINT
        else f"rankboard received {signal.Signals(number).name}"
    )


def verdict_line(state: RunState) -> str:
    """Make the last line: how the run ended, what spoils its result, and how long it took."""
    return _describe_end(state, names_flaws=True)


def end_line(state: RunState) -> str:
    """Say how the run ended, and how long it took. What spoils its result stands elsewhere."""
    return _describe_end(state, names_flaws=False)


def headline(state: RunState) -> str:
    """Say in one line which run ended how, and why it failed: "a-run: failed after 12 s: node1: …".

    The cause is its first line, as advice may follow it.
    """
    end_text = f"{state.plan.run}: {verdict_line(state)}"
    if state.cause:
        cause_text = state.cause.text().partition("\n")[0]
        end_text = f"{end_text}: {cause_text}"
    return one_line(end_text)


def _describe_training(state: RunState) -> str:
    training_seconds = state.training_seconds
    return f"; training took {fixed(training_seconds, 2)} s of it" if training_seconds else ""


def _describe_end(state: RunState, *, names_flaws: bool) -> str:
    elapsed = duration(state.elapsed)
    num_restarts = len(state.progress.restarts)
    restarts_text = count(num_restarts, "restart")
    after_restarts = ""
    elapsed_and_restarts = elapsed
    if num_restarts:
        after_restarts = f" after {restarts_text}"
        elapsed_and_restarts = f"{elapsed} and {restarts_text}"
    match state.verdict:
        case Verdict.FINISHED:
            unseen_text = "; no step was seen" if seen.ended_unseen(state) else ""
            flaws_text = _describe_flaws(state)
            finish_text = f"finished in {elapsed}{after_restarts}"
            if names_flaws:
                return f"{finish_text}{flaws_text}{_describe_training(state)}{unseen_text}"
            if flaws_text:
                # To have finished sounds well.
                finish_text = f"ended after {elapsed_and_restarts}"
            return f"{finish_text}{unseen_text}"
        case Verdict.STOPPED:
            stop_reason = state.stop_reason or "its launcher is gone"
            return f"stopped after {elapsed_and_restarts}{_except_on(state)}: {stop_reason}"
        case Verdict.REFUSED:
            has_tried = any(rank.exited for rank in state.ranks)
            moment_text = "before the first step" if has_tried else "before the start"
            return f"{Verdict.REFUSED.word} {moment_text}{after_restarts}"
        case Verdict.LOST:
            return f"{_lost_host(state)} after {elapsed_and_restarts}"
        case Verdict.FAILED:
            return f"failed after {elapsed_and_restarts}"
        case None:
            if not state.launcher.detached:
                return f"left after {elapsed}; the run may still be live"
            return (
                f"detached after {elapsed}: the run continues; rankboard attach {state.plan.run} "
                "reattaches to it"
            )
