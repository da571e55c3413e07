"""Settings of a study between which no run shows a difference, and why. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from remote.study.results import CellResult, StudyResult
from remote.study.study import Cell, StudyAxis, split_trial_key
from training.job import Job

ALIKE = 1e-3
"""Values that differ by at most this share are alike."""


@dataclass(frozen=True)
class AlikeSettings:
    """Two labels of an axis that is not compared, with alike values in all pairs of runs."""

    axis: str
    label: str
    earlier_label: str
    """The first label of the axis with these values."""
    difference: float
    """The largest difference between two runs that differ in nothing else."""
    is_split_only: bool
    """True if the two differ at most in which rank has which images, and every step averages the
    gradients of all ranks."""


def find_alike_settings(result: StudyResult) -> list[AlikeSettings]:
    """Return the labels with alike losses, accuracies or metrics, each with the first such label.

    Equal times are chance, so a study of times has none.
    """
    study = result.study
    if study.compares_times:
        return []
    alike_settings = []
    for axis in study.axes:
        if axis.name != study.compare:
            alike_settings += _find_along_axis(result.cells, axis)
    return alike_settings


def find_alike_setting(cell: Cell, alike_settings: Sequence[AlikeSettings]) -> AlikeSettings | None:
    """Return the earlier setting that gives a cell its value, too; None if there is none."""
    for alike in alike_settings:
        if cell.label(alike.axis) == alike.label:
            return alike
    return None


def _find_along_axis(rows: Sequence[CellResult], axis: StudyAxis) -> list[AlikeSettings]:
    alike_settings: list[AlikeSettings] = []
    for number, label in enumerate(axis.labels):
        for earlier_label in axis.labels[:number]:
            alike = _compare_labels(rows, axis.name, earlier_label, label)
            if alike:
                alike_settings.append(alike)
                break
    return alike_settings


def _compare_labels(
    rows: Sequence[CellResult], axis: str, earlier_label: str, label: str
) -> AlikeSettings | None:
    """Return how two labels are alike; None if a pair of runs differs, or there is none."""
    rows_by_labels = {row.cell.labels: row for row in rows}
    differences = []
    is_split_only = True
    for row in rows:
        if row.cell.label(axis) != label:
            continue
        earlier_labels = tuple(
            (name, earlier_label if name == axis else own) for name, own in row.cell.labels
        )
        earlier_row = rows_by_labels.get(earlier_labels)
        if earlier_row is None:
            continue
        for value, earlier_value in _pair_values(row, earlier_row):
            differences.append(abs(value - earlier_value))
            if differences[-1] > ALIKE * abs(earlier_value):
                return None
        is_split_only = is_split_only and _differ_in_split_only(row.cell.job, earlier_row.cell.job)
    if not differences:
        return None
    return AlikeSettings(axis, label, earlier_label, max(differences), is_split_only)


def _pair_values(row: CellResult, other: CellResult) -> list[tuple[float, float]]:
    """Return the values of the repetitions that both cells have."""
    other_values = {split_trial_key(end.trial)[1]: end.value for end in other.runs}
    pairs = []
    for end in row.runs:
        other_value = other_values.get(split_trial_key(end.trial)[1])
        if end.value is not None and other_value is not None:
            pairs.append((end.value, other_value))
    return pairs


def _differ_in_split_only(job: Job | None, other: Job | None) -> bool:
    """Return True if two jobs train on equal batches of all ranks together, but for their order."""
    if job is None or other is None or replace(job, partition=other.partition) != other:
        return False
    traits = job.traits()
    return traits.exact and not traits.stale
