"""What is told at the end of a run, as plain text: the cause of a failure, each rank's fate, the table, the verdict."""

from __future__ import annotations

import math
from collections.abc import Sequence

from remote.run import Cause, RankPhase, RankState, RunState, Verdict
from remote.state import FATES

NOTHING = "-"
"""Stands for what is not known."""


def figure(value: float, form: str, unit: str = "") -> str:
    """A number with its unit, or `NOTHING`."""
    return f"{value:{form}}{unit}" if math.isfinite(value) else NOTHING


def clock(seconds: float) -> str:
    """A time span such as 0:07 or 2:03:45, or `NOTHING`."""
    if not math.isfinite(seconds):
        return NOTHING
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


_HEAD = ("node", "rank", "average batch duration", "epoch duration", "timing rule", "final loss", "test accuracy")


def head(state: RunState) -> tuple[str, ...]:
    """The heads of the table's columns."""
    return (*_HEAD, "own accuracy") if _own_accuracies(state) else _HEAD


def table(state: RunState) -> list[tuple[str, ...]]:
    """The table of a run, one row per rank under `head`, and the averages over the ranks where there are several."""
    ranks = state.ranks
    rows: list[tuple[str, ...]] = [
        (state.host_name(rank.host), str(rank.rank), *_times(rank), *_results(rank)) for rank in ranks
    ]
    own = _own_accuracies(state)
    if len(ranks) > 1:
        mean, rule = (_average([getattr(rank.timing, name) for rank in ranks]) for name in ("mean", "rule"))
        epoch = _average([seconds for rank in ranks for seconds in rank.epoch_seconds])
        loss = _average([rank.loss for rank in ranks])
        accuracy = _average([rank.test_accuracy for rank in ranks])
        figures = (figure(mean, ".3f", " s"), figure(epoch, ".2f", " s"), figure(rule, ".3f", " s"))
        rows.append(("average", "", *figures, figure(loss, ".4f"), figure(100 * accuracy, ".2f", " %")))
        own = own and [*own, _average(own)]
    return [(*row, figure(100 * one, ".2f", " %")) for row, one in zip(rows, own, strict=True)] if own else rows


def _own_accuracies(state: RunState) -> list[float]:
    """Of each rank, by its own model or BatchNorm statistics; none at all where the ranks have nothing of their own."""
    own = [rank.own_accuracy for rank in state.ranks]
    return own if any(map(math.isfinite, own)) else []


def _times(rank: RankState) -> tuple[str, str, str]:
    done = rank.epoch_seconds
    epoch = figure(math.fsum(done) / len(done), ".2f", " s") if done else NOTHING
    return figure(rank.timing.mean, ".3f", " s"), epoch, figure(rank.timing.rule, ".3f", " s")


def _results(rank: RankState) -> tuple[str, str]:
    return figure(rank.loss, ".4f"), figure(100 * rank.test_accuracy, ".2f", " %")


def _average(values: Sequence[float]) -> float:
    """The mean of those that are known."""
    known = [value for value in values if math.isfinite(value)]
    return math.fsum(known) / len(known) if known else math.nan


def trained(state: RunState) -> bool:
    """Whether there is anything to put into the table."""
    return any(rank.timing.count for rank in state.ranks)


def columns(head: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """The lines of a table in plain text."""
    widths = [max(len(row[column]) for row in (head, *rows)) for column in range(len(head))]
    lines = [" | ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in (head, *rows)]
    return [lines[0], "-+-".join("-" * width for width in widths), *lines[1:]]


def cause(state: RunState) -> list[str]:
    """The lines that say why a run failed, the last words of what failed, and what became of each rank; none if it did not."""
    found = state.cause
    if found is None:
        return []
    advice = [f"what to do: {found.advice}"] if found.advice else []
    words = [f"last words of {whose(found)}:", *(f"    {line}" for line in found.tail)] if found.tail else []
    ends = fates(state) if any(rank.phase in FATES for rank in state.ranks) else []
    return [f"cause: {found.text()}", *advice, *words, *ends]


def whose(found: Cause) -> str:
    """Of whom a cause tells."""
    return f"rank {found.rank}" if found.rank >= 0 else found.host or "the launcher"


def fates(state: RunState) -> list[str]:
    """The lines of the table of the ranks' fates."""
    rows = [
        (state.host_name(rank.host), str(rank.rank), _fate(rank), str(rank.step or NOTHING), rank.exit or NOTHING)
        for rank in state.ranks
    ]
    return columns(("node", "rank", "fate", "step", "exit"), rows)


def _fate(rank: RankState) -> str:
    return "stopped by us" if rank.phase is RankPhase.STOPPED else rank.phase.value


def told(state: RunState) -> list[str]:
    """What a run leaves on the terminal when its dashboard is gone: the cause of a failure, and how it ended."""
    return [*cause(state), f"rankboard: {verdict(state)}"]


def verdict(state: RunState) -> str:
    """The last line: how the run ended, and how long it took."""
    spent = clock(state.elapsed)
    match state.verdict:
        case Verdict.FINISHED:
            training, again = state.training_seconds, len(state.restarts)
            restarted = f" after {again} restart{'s' * (again > 1)}" if again else ""
            return f"finished in {spent}{restarted}" + (f"; training took {training:.2f} s of it" if training else "")
        case Verdict.STOPPED:
            return f"stopped after {spent}: {state.stop_reason or 'the operator is gone'}"
        case Verdict.REFUSED:
            return "not started"
        case Verdict.LOST:
            return f"a host could not be reached, or it or its agent was lost, after {spent}"
        case Verdict.FAILED:
            return f"failed after {spent}"
        case None:
            come_back = f"goes on: rankboard attach {state.plan.run} comes back to it" if state.detached else "may go on"
            return f"left after {spent}; the run {come_back}"
