"""What limits the answer of a study: what is missing, failed, unstable or left out. Pure."""

from __future__ import annotations

from remote.format import count
from remote.run.state.progress import not_learned
from remote.study.progress import CellState, StudyProgress
from remote.study.results import StudyResult, is_per_sample
from remote.study.wording import first_names, is_outcome


def limit_lines(result: StudyResult) -> list[str]:
    """Return what limits the answer, a line each: its shortcomings, and remarks on runs."""
    remarks = dict.fromkeys(
        text for row in result.cells for end in row.runs for text in end.remarks
    )
    learned = not_learned(
        (end.trial, *end.losses) for row in result.cells for end in row.runs if end.losses
    )
    return [*shortcoming_lines(result), *([learned] if learned else []), *remarks]


def shortcoming_lines(result: StudyResult) -> list[str]:
    """Return what is missing, unstable or left out of a study, a line each."""
    found = ["compared per sample: global batches differ"] if is_per_sample(result.study) else []
    missing = [
        row.cell.key for row in result.cells if row.state in (CellState.FAILED, CellState.WAITING)
    ]
    if missing:
        total = count(len(result.cells), "cell")
        found.append(f"not complete: {len(missing)} of {total}: {first_names(missing)}")
    unstable = [row for row in result.cells if not row.stability.is_stable]
    if unstable and is_outcome(result.study):
        names = first_names([row.cell.key for row in unstable])
        found.append(f"differs from seed to seed by 10% or more: {names}")
    elif unstable:
        is_repeated = all(len(row.runs) > result.study.repetitions for row in unstable)
        advice = "" if is_repeated else ": repeat with --until-stable 5"
        names = first_names([row.cell.key for row in unstable])
        found.append(f"unstable from run to run: {names}{advice}")
    if result.left_out:
        found.append(f"left out of comparisons, as outliers: {first_names(result.left_out)}")
    return found


def failure_lines(progress: StudyProgress) -> list[str]:
    """Why cells failed, a line for each reason."""
    found: dict[str, tuple[str, list[str]]] = {}
    for cell in progress.cells.values():
        for reason, cause in {end.reason: end.cause for end in cell.failed.values()}.items():
            found.setdefault(reason or cause, (cause, []))[1].append(cell.cell.key)
    total = len(progress.cells)
    return [
        f"{f'all {total} cells' if len(keys) == total > 1 else first_names(keys)} failed: {cause}"
        for cause, keys in found.values()
        if cause
    ]
