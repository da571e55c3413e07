"""What a study is at, in a verdict: what it shows so far, what runs now, what failed. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from remote.format import approximate, count
from remote.study.conclusion import (
    answer_text,
    doubt_lines,
    effect_lines,
    guess_text,
    guesses_of,
    lack_text,
    proof_text,
)
from remote.study.equal_methods import EqualMethods, find_equal_methods
from remote.study.guessing import Guesses
from remote.study.progress import StudyProgress
from remote.study.results import StudyResult
from remote.study.shortcomings import limit_lines, list_failures
from remote.study.study import Cell, split_trial_key
from remote.study.wording import label_name
from tui.kit import palette
from tui.kit.widgets.verdict_strip import Severity

MOST_NAMED = 3
"""Cells that failed for one reason and are named."""


class StudyVerdict(NamedTuple):
    """What a study is at."""

    severity: Severity
    title: str
    reasons: tuple[str, ...] = ()
    badge: str = ""
    """The title in two words, for a place with little room; "" where the state says it."""
    brief_title: str = ""
    """The title where the screen is small; "" if it is the same."""
    brief_reasons: tuple[str, ...] = ()
    """The reasons below a brief title."""
    proof: str = ""
    """What is certain nevertheless. It stands above the title."""
    brief_proof: str = ""


def judge_study(result: StudyResult, progress: StudyProgress, *, stop_reason: str) -> StudyVerdict:
    """Return what came out of a study whose runs have ended. `stop_reason`: why it stopped before
    its end, "" if that is not known."""
    num_planned = len(result.study.trials())
    num_failed = progress.num_failed
    num_missing = len(progress.missing_trials())
    doubts = doubt_lines(result)
    findings = [*doubts, *describe_answer(result)]
    if (num_failed or num_missing) and sum(row.value is not None for row in result.cells) < 2:
        findings = doubts  # a single value is no answer
    if num_failed:
        causes = list(describe_failures(progress))
        runs = count(num_planned, "run")
        cause = f": {causes[0]}" if causes else ""
        title = f"{num_failed} of {runs} failed{cause}"
        missing = [f"{count(num_missing, 'run')} left: {stop_reason}"] if num_missing else []
        return StudyVerdict(Severity.BAD, title, (*causes[1:], *missing, *findings))
    if num_missing:
        reason = f": {stop_reason}" if stop_reason else ""
        verb = "is" if num_missing == 1 else "are"
        title = f"stopped{reason}; {num_missing} of {count(num_planned, 'run')} {verb} missing"
        return StudyVerdict(Severity.WARN, title, tuple(findings))
    limits = limit_lines(result)
    guesses = guesses_of(result)
    if guesses:
        # The table has the values, of which little more can be said.
        methods = find_equal_methods(result)
        if methods:
            return _judge_guesses_of_equal_methods(result, guesses, methods)
        return StudyVerdict(
            Severity.WARN,
            guesses.text,
            (*doubts, next(describe_answer(result)), *limits),
            badge=guesses.word,
            brief_title=f"{guesses.word}: {guesses.brief_text}",
            # The title of the screen has the number of runs.
            brief_reasons=(*doubts, answer_text(result), *limits),
        )
    reasons = [*findings, *limits]
    severity = Severity.WARN if doubts else Severity.GOOD
    return StudyVerdict(severity, reasons[0], tuple(reasons[1:]))


def _judge_guesses_of_equal_methods(
    result: StudyResult, guesses: Guesses, methods: EqualMethods
) -> StudyVerdict:
    """Return that methods compute the same numbers, which is certain however short the runs were,
    and what these do not show."""
    # Where all methods are equal, the proof is the answer.
    answer = [answer_text(result)] if methods.has_others else []
    reasons = (*doubt_lines(result), *answer, *limit_lines(result))
    return StudyVerdict(
        Severity.WARN,
        guess_text(result),
        reasons,
        badge=guesses.word,
        brief_title=f"{lack_text(guesses, methods)}: {guesses.clause}",
        brief_reasons=reasons,
        proof=proof_text(result.study, methods),
        brief_proof=proof_text(result.study, methods, is_brief=True),
    )


def judge_running(
    result: StudyResult, progress: StudyProgress, run_text: str, seconds_left: float
) -> StudyVerdict:
    """Return what a study does now: `run_text` is the run under way."""
    left_text = f"   {approximate(seconds_left)} left" if math.isfinite(seconds_left) else ""
    reasons = [
        f"{palette.sign('bad')} {count(progress.num_failed, 'run')} failed so far: {cause}"
        for cause in list(describe_failures(progress))[:1]
    ]
    doubts = doubt_lines(result)
    num_known = sum(row.value is not None for row in result.cells)
    if num_known > 1:
        reasons += [f"so far: {line}" for line in [*doubts, answer_text(result)][:1]]
    elif not num_known:
        reasons.append("no run has ended yet")
    severity = Severity.WARN if progress.num_failed else Severity.NEUTRAL
    sign = f"{palette.sign('live')} " if severity is Severity.NEUTRAL else ""
    return StudyVerdict(severity, f"{sign}{run_text}{left_text}", tuple(reasons))


def describe_answer(result: StudyResult) -> Iterator[str]:
    """Yield the answer, with the number of the runs that it rests on, and what else the axes
    change."""
    num_runs = sum(len(row.runs) for row in result.cells)
    yield f"{answer_text(result)} ({count(num_runs, 'run')})" if num_runs else answer_text(result)
    yield from effect_lines(result)


def describe_failures(progress: StudyProgress) -> Iterator[str]:
    """Yield why runs failed, and in which cells."""
    num_cells = len(progress.cells)
    for cause, keys in list_failures(progress):
        is_everywhere = len(keys) == num_cells > 1
        yield (
            f"{cause} (in all cells)"
            if is_everywhere
            else f"{cause} ({name_cells(progress, keys)})"
        )


def name_cells(progress: StudyProgress, keys: Sequence[str]) -> str:
    """Return the names of cells: "ring, batch 20; ring, batch 100 and 2 more"."""
    names = [name_cell(progress.cells[key].cell) for key in keys[:MOST_NAMED]]
    num_more = len(keys) - len(names)
    return "; ".join(names) + (f" and {num_more} more" if num_more else "")


def name_cell(cell: Cell) -> str:
    """Return what a cell is made with: "ring, batch 20"; a bare number has its axis: "ring, nodes
    4"."""
    return name_place(cell, "") or cell.key


def name_place(cell: Cell, compared_axis: str) -> str:
    """Return what a cell is made with, but for the compared axis."""
    names = [label_name(axis, label) for axis, label in cell.labels if axis != compared_axis]
    return ", ".join(names)


def name_trial(progress: StudyProgress, trial_key: str) -> str:
    """Return the name of the cell of a trial, and which repetition it is, but for the first."""
    key, repetition = split_trial_key(trial_key)
    name = name_cell(progress.cells[key].cell) if key in progress.cells else trial_key
    return f"{name} (repetition {repetition})" if repetition > 1 else name
