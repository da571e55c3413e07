"""The end of a run as plain text: the cause of a failure, the fates of the ranks, the results, the
verdict."""

from __future__ import annotations

import math
import signal
from collections.abc import Sequence
from dataclasses import replace

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
    seconds,
)
from remote.run.findings import script_visibility as seen
from remote.run.output.last_words import HEADER
from remote.run.run_state import RunState
from remote.run.series.step_times import Means, join_means
from remote.run.state.host_state import is_trust_command
from remote.run.state.phases import FATES, Verdict
from remote.run.state.rank_state import RankState
from remote.run.state.types import Cause
from remote.statistics.mean import finite_mean
from tui.kit.text_table import rule_lines
from tui.run import failure_advice as hints

LEAST = 8
"""Shorter lines are too common to mean the same as a cause."""


_HEAD = (
    "host",
    "rank",
    "s/iter",
    "iter {}",
    "data",
    "compute",
    "sync",
    "samples/s",
    "epoch",
    "last loss",
)
_PHASES = ("data", "compute", "sync")


def result_columns(state: RunState) -> tuple[str, ...]:
    """Name the columns of the table of results."""
    names = tuple(name.format(early_iterations(state).replace(" to ", "-")) for name in _HEAD)
    return (*names, "own accuracy") if _own_accuracies(state) else names


def early_iterations(state: RunState) -> str:
    """Which iterations the means in the table are of: "2 to 40", or what there is of them."""
    timed = [rank.timing for rank in state.ranks if rank.timing.count]
    first = min((timing.first_early for timing in timed), default=2)
    last = max((timing.last_early for timing in timed), default=0)
    return f"{first} to {last}" if last > first else str(first)


def result_rows(state: RunState) -> list[tuple[str, ...]]:
    """Make the table of results: a row per rank, one for all, and the shares of an iteration.

    `result_columns` names its columns, and `result_captions` explains them.
    """
    ranks = state.ranks
    rows = [
        (
            state.host_name(rank.host),
            str(rank.rank),
            *_times(rank.timing.whole, rank.timing.early),
            _epoch([rank]),
            loss(rank.loss, rank.step),
        )
        for rank in ranks
    ]
    whole, early_iterations = (
        join_means(getattr(rank.timing, what) for rank in ranks) for what in ("whole", "early")
    )
    own = _own_accuracies(state)
    if len(ranks) > 1:
        made = [rank.loss for rank in ranks if rank.step]
        mean = loss(finite_mean(made), len(made))
        rows.append(("all", "", *_times(whole, early_iterations), _epoch(ranks), mean))
        own = own and [*own, finite_mean(own)]
    known = any(getattr(early_iterations, phase) for phase in _PHASES[1:])
    shares = [
        percent(early_iterations.share(getattr(early_iterations, phase))) if known else UNKNOWN
        for phase in _PHASES
    ]
    rows.append(("share", "", "", "", *shares, "", "", ""))
    if not own:
        return rows
    accuracies = [*(percent(one, 2) for one in own), ""]
    return [(*row, accuracy) for row, accuracy in zip(rows, accuracies, strict=True)]


def result_table(state: RunState) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    """Name the columns of the table of results, and make its rows. Of a user's own program, columns
    that tell nothing are left out, and so is the row of shares where none is known."""
    names = result_columns(state)
    rows = result_rows(state)
    if state.plan.job:
        return names, rows
    if all(cell in ("", UNKNOWN) for cell in rows[-1][1:]):
        rows = rows[:-1]
    kept = [
        place
        for place in range(len(names))
        if place < 2 or any(row[place] not in ("", UNKNOWN) for row in rows)
    ]
    return tuple(names[place] for place in kept), [
        tuple(row[place] for place in kept) for row in rows
    ]


def describe_visibility(state: RunState) -> list[str]:
    """Say what to do where a user's own program was not seen, or in part."""
    if state.verdict in (None, Verdict.REFUSED):
        return []
    return [text for text in [seen.advice(state, state.now)] if text]


def result_captions(state: RunState) -> list[str]:
    """Explain the columns of the table, and give the test accuracy of the run."""
    lines = [
        "s/iter: mean of all iterations; last loss: of each rank's last batch",
        f"{result_columns(state)[3]}, data, compute, sync, samples/s: means of iterations "
        f"{early_iterations(state)}",
    ]
    if not state.plan.job and "sync" not in result_table(state)[0]:
        lines = []
    tested = next((rank for rank in state.ranks if math.isfinite(rank.test_accuracy)), None)
    if tested:
        lines.append(
            f"test accuracy {percent(tested.test_accuracy, 2)}, test loss "
            f"{loss(tested.test_loss, tested.step)}"
        )
    return lines


def _own_accuracies(state: RunState) -> list[float]:
    """The accuracy by each rank's own model or BatchNorm statistics; empty without such."""
    own = [rank.own_accuracy for rank in state.ranks]
    return own if any(map(math.isfinite, own)) else []


def _times(whole: Means, early_iterations: Means) -> list[str]:
    phases = [getattr(early_iterations, phase) for phase in _PHASES]
    if not any(phases[1:]):  # of a script that does not tell them
        phases = [math.nan] * len(phases)
    spent = (whole.seconds, early_iterations.seconds, *phases)
    return [
        *map(seconds, spent),
        rate(early_iterations.throughput) if early_iterations.throughput else UNKNOWN,
    ]


def _epoch(ranks: Sequence[RankState]) -> str:
    return fixed(finite_mean([done for rank in ranks for done in rank.epoch_seconds]), 2, " s")


def has_results(state: RunState) -> bool:
    """Whether the run has ended and there is anything to put into the table."""
    return state.verdict is not None and any(rank.timing.count for rank in state.ranks)


def opening_line(state: RunState) -> str:
    """Make the first line: "run NAME: 4 ranks on node0 to node3, ddp, lenet5 on digits"."""
    plan = state.plan
    names = [host.name for host in state.plan.hosts]
    hosts = f"{names[0]} to {names[-1]}" if len(names) > 2 else " and ".join(names)
    ranks = f"{count(plan.world_size, 'rank')} on {hosts}"
    return f"run {plan.run}: {ranks}, {plan.what}"


def repeats_cause(line: str, cause: Cause | None) -> bool:
    """Return True if a line says no more than the cause, which is printed at the end."""
    core = cause.problem.partition(" (exit code ")[0].rstrip("…") if cause else ""
    if not core:
        return False
    if core in line or (len(line) > LEAST and line in core):
        return True
    # The line is the advice for one host, and the cause has it for all hosts.
    return is_trust_command(line) and any(map(is_trust_command, core.splitlines()))


def describe_cause(state: RunState) -> list[str]:
    """Explain why a run failed: the cause, its last output, and the fate of each rank.

    Empty for a run that did not fail.
    """
    found = state.cause
    if found is None:
        return []
    hint = hints.failure_advice(found, state.plan)
    advice = [f"what to do: {hint}"] if hint else []
    words: list[str] = []
    if found.tail and (
        HEADER in found.tail or not any(repeats_cause(line, found) for line in found.tail)
    ):
        words = [f"last output of {output_source(found)}:", *(f"    {line}" for line in found.tail)]
    ends = (
        fate_table(state)
        if any(rank.phase in FATES for rank in state.ranks) and state.has_begun
        else []
    )
    return [f"cause: {found.text()}", *advice, *words, *ends]


def output_source(found: Cause) -> str:
    """Name the rank, agent, host or launcher whose last output is known of a failure."""
    if found.of_agent:
        return f"the agent on {found.host}"
    return f"rank {found.rank}" if found.rank >= 0 else found.host or "the launcher"


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
    hosts = [host.name for host in state.unconfirmed]
    return f", except perhaps on {listed(hosts)}" if hosts else ""


def advise_stop(run: str, hosts: Sequence[str]) -> list[str]:
    """Say which command to repeat where ranks may still run on these hosts."""
    if not hosts:
        return []
    it_answers = "it answers" if len(hosts) == 1 else "they answer"
    return [
        f"ranks may still run on {listed(hosts)}: once {it_answers}, repeat rankboard stop {run}"
    ]


def _lost(state: RunState) -> str:
    """Say whether the host was lost or never reached."""
    name = state.cause.host if state.cause else ""
    reached = state.has_begun or any(host.name == name and host.hello for host in state.hosts)
    return f"{'lost' if reached else 'could not reach'} {name or 'a host'}"


def _diverged(state: RunState) -> str:
    """Say when the loss of a finished run was not a finite number."""
    first = state.progress.diverged
    if not first:
        return ""
    rank = state.rank(first.rank)
    if rank is None:  # a restart has left it out
        at = f"at step {first.step}, in attempt {_attempt(state, first.when)}"
        return f", but the loss was {first.what} {at}"
    newest = rank.loss
    if math.isfinite(newest):
        return f", but the loss was {first.what} at step {first.step}"
    return f", but the loss is {replace(first, value=newest).what} since step {first.step}"


def _attempt(state: RunState, when: float) -> int:
    """The number, from 1, of the attempt that was under way at this time."""
    return 1 + sum(state.started + one.seconds <= when for one in state.progress.restarts)


def describe_signal(number: int) -> str:
    """Explain why this signal stops a run."""
    return (
        "interrupted (Ctrl+C)"
        if number == signal.SIGINT
        else f"rankboard received {signal.Signals(number).name}"
    )


def verdict_line(state: RunState) -> str:
    """Make the last line: how the run ended, and how long it took."""
    length = duration(state.elapsed)
    again = len(state.progress.restarts)
    restarts = count(again, "restart")
    restarted, spent = (f" after {restarts}", f"{length} and {restarts}") if again else ("", length)
    match state.verdict:
        case Verdict.FINISHED:
            training = state.training_seconds
            took = f"; training took {fixed(training, 2)} s of it" if training else ""
            return f"finished in {length}{restarted}{_diverged(state)}{took}"
        case Verdict.STOPPED:
            why = state.stop_reason or "its launcher is gone"
            return f"stopped after {spent}{_except_on(state)}: {why}"
        case Verdict.REFUSED:
            tried = any(rank.exited for rank in state.ranks)
            when = "before the first step" if tried else "before the start"
            return f"{Verdict.REFUSED.word} {when}{restarted}"
        case Verdict.LOST:
            return f"{_lost(state)} after {spent}"
        case Verdict.FAILED:
            return f"failed after {spent}"
        case None:
            if not state.launcher.detached:
                return f"left after {length}; the run may still be live"
            return (
                f"detached after {length}: the run continues; rankboard attach {state.plan.run} "
                "reattaches to it"
            )
