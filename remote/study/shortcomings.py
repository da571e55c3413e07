"""What limits the answer of a study: what is missing, failed, unstable or left out. Pure."""

from __future__ import annotations

from typing import NamedTuple

from remote.format import count, listed
from remote.run.state.progress import not_learned
from remote.study.progress import CellState, StudyProgress
from remote.study.results import StudyResult, is_per_sample
from remote.study.wording import shown_key


def limit_lines(result: StudyResult) -> list[str]:
    """Return what limits the answer, a line each: its shortcomings, and remarks on runs."""
    lines = shortcoming_lines(result)
    counted_runs = [run_end for row in result.cells for run_end in row.runs]
    learning_text = not_learned(
        (run_end.trial, *run_end.losses) for run_end in counted_runs if run_end.losses
    )
    if learning_text:
        lines.append(learning_text)
    remarks: dict[str, None] = {}
    for run_end in counted_runs:
        remarks |= dict.fromkeys(run_end.remarks)
    return [*lines, *remarks]


def shortcoming_lines(result: StudyResult) -> list[str]:
    """Return what is missing, unstable or left out of a study, a line each."""
    study = result.study
    lines = []
    if is_per_sample(study):
        lines.append("compared per sample: global batches differ")
    missing_states = (CellState.FAILED, CellState.WAITING)
    missing_keys = [
        shown_key(study, row.cell) for row in result.cells if row.state in missing_states
    ]
    if missing_keys:
        total_text = count(len(result.cells), "cell")
        lines.append(f"not complete: {len(missing_keys)} of {total_text}: {listed(missing_keys)}")
    unstable_rows = [row for row in result.cells if not row.stability.is_stable]
    if unstable_rows:
        names = listed([shown_key(study, row.cell) for row in unstable_rows])
        # Each repetition has another seed, so that more of them make a loss no steadier.
        if not study.compares_times:
            lines.append(f"differs from seed to seed by 10% or more: {names}")
        # They were repeated already, as --until-stable does.
        elif all(len(row.runs) > study.repetitions for row in unstable_rows):
            lines.append(f"unstable from run to run: {names}")
        else:
            lines.append(f"unstable from run to run: {names}: repeat with --until-stable 5")
    if result.left_out:
        names = listed(result.left_out)
        lines.append(f"left out of comparisons, as outliers: {names}")
    return lines


class CellFailure(NamedTuple):
    """Runs that failed for one reason."""

    cause: str
    """The cause of one of them. Hosts and ranks differ from cell to cell."""
    keys: tuple[str, ...]
    """The cells of these runs."""


def list_failures(progress: StudyProgress) -> list[CellFailure]:
    """Return why runs failed, and in which cells, once for each reason that is known."""
    failures: dict[str, dict[str, str]] = {}
    for key, cell in progress.cells.items():
        for failed_end in cell.failed.values():
            causes = failures.setdefault(failed_end.reason or failed_end.cause, {})
            causes.setdefault(key, failed_end.cause)
    cell_failures = []
    for causes in failures.values():
        # That of the first one stands for all.
        cause = next(iter(causes.values()))
        if cause:
            cell_failures.append(CellFailure(cause, tuple(causes)))
    return cell_failures


def failure_lines(progress: StudyProgress) -> list[str]:
    """Return why cells failed, and which, a line or two for each reason."""
    num_cells = len(progress.cells)
    lines = []
    for cause, keys in list_failures(progress):
        if len(keys) == num_cells > 1:
            lines.append(f"all {num_cells} cells failed: {cause}")
        else:
            # The cause says what to do. The names, which may be long, come behind it.
            lines.append(f"failed: {cause}")
            lines.append(f"  in {len(keys)} of {num_cells} cells: {listed(keys, 3)}")
    return lines
