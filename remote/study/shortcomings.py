"""What limits the answer of a study: what is missing, failed, unstable or left out. Pure."""

from __future__ import annotations

from remote.format import count, listed
from remote.run.state.progress import not_learned
from remote.study.progress import CellState, StudyProgress
from remote.study.results import StudyResult, is_per_sample


def limit_lines(result: StudyResult) -> list[str]:
    """Return what limits the answer, a line each: its shortcomings, and remarks on runs."""
    lines = shortcoming_lines(result)
    runs = [end for row in result.cells for end in row.runs]
    learned = not_learned((end.trial, *end.losses) for end in runs if end.losses)
    if learned:
        lines.append(learned)
    remarks: dict[str, None] = {}
    for end in runs:
        remarks |= dict.fromkeys(end.remarks)
    return [*lines, *remarks]


def shortcoming_lines(result: StudyResult) -> list[str]:
    """Return what is missing, unstable or left out of a study, a line each."""
    study = result.study
    lines = []
    if is_per_sample(study):
        lines.append("compared per sample: global batches differ")
    missing_states = (CellState.FAILED, CellState.WAITING)
    missing = [row.cell.key for row in result.cells if row.state in missing_states]
    if missing:
        total = count(len(result.cells), "cell")
        lines.append(f"not complete: {len(missing)} of {total}: {listed(missing)}")
    unstable = [row for row in result.cells if not row.stability.is_stable]
    if unstable:
        names = listed([row.cell.key for row in unstable])
        if not study.compares_times:
            lines.append(f"differs from seed to seed by 10% or more: {names}")
        elif all(len(row.runs) > study.repetitions for row in unstable):
            lines.append(f"unstable from run to run: {names}")
        else:
            lines.append(f"unstable from run to run: {names}: repeat with --until-stable 5")
    if result.left_out:
        names = listed(result.left_out)
        lines.append(f"left out of comparisons, as outliers: {names}")
    return lines


def failure_lines(progress: StudyProgress) -> list[str]:
    """Return why cells failed, a line for each reason."""
    failures: dict[str, dict[str, str]] = {}
    for key, cell in progress.cells.items():
        for end in cell.failed.values():
            causes = failures.setdefault(end.reason or end.cause, {})
            causes.setdefault(key, end.cause)
    total = len(progress.cells)
    lines = []
    for causes in failures.values():
        is_all = len(causes) == total > 1
        names = f"all {total} cells" if is_all else listed(list(causes))
        # Hosts and ranks differ from cell to cell: those of the first one stand for all.
        cause = next(iter(causes.values()))
        if cause:
            lines.append(f"{names} failed: {cause}")
    return lines
