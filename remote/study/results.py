"""What came out of a study so far: its cells with intervals, and how they compare. Pure; imports
numpy."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import numpy as np

from remote.metrics import doubt as doubt_facts
from remote.metrics.conditions import join_conditions
from remote.metrics.doubt import Doubt, Side, differing_work, find_doubt
from remote.record.summary import to_strict_json
from remote.statistics.block_model import DRAWS, FEW_DRAWS
from remote.statistics.comparison import (
    Comparison,
    Comparisons,
    Finding,
    compare_cells,
    mean_ratio,
    measure_speed_ups,
)
from remote.statistics.equivalence import are_same
from remote.statistics.interval import Interval, ValueScale, mean_interval
from remote.statistics.stability import Stability, check_stability
from remote.study.folder import RunEnded
from remote.study.progress import CellProgress, CellState, StudyProgress
from remote.study.study import Cell, Study, Trial

LAB_SETTINGS = ("link", "cpus")
"""What a lab gives each host, of which more makes it faster."""


@dataclass(frozen=True)
class CellResult:
    """What came out of a cell."""

    cell: Cell
    state: CellState
    runs: tuple[RunEnded, ...]
    """The runs that count, in order of the repetitions."""
    cause: str
    """Why a run failed; "" if none did."""
    value: Interval | None
    """None without a run."""
    stability: Stability
    comparison: Comparison | None = None
    """The comparison with the reference; None if there is none."""
    speed_up: Interval | None = None
    """The speed-up against the baseline; None if there is none."""
    is_same: bool = False
    """True if all its values are those of the reference, within rounding."""
    repeats_itself: bool = False
    """True if the repetitions of each cell of the study have one value, so that they count once."""
    doubt: Doubt | None = None
    """Why the comparison shows nothing."""
    speed_up_doubt: Doubt | None = None
    """Why the speed-up is none."""

    @property
    def finding(self) -> Finding | None:
        """Return what the comparison with the reference shows."""
        return self.comparison.finding if self.comparison else None


@dataclass(frozen=True)
class StudyResult:
    """What came out of a study: its cells, in the order of the study."""

    study: Study
    cells: tuple[CellResult, ...]
    noise: float
    """The standard deviation from run to run, as a share of the value; NaN if it is not known."""
    overall: Mapping[str, Interval] = field(default_factory=dict)
    """For each value of the compared axis, its mean ratio or difference to the reference."""
    left_out: tuple[str, ...] = ()
    """The keys of the trials that count in no comparison, because they do not fit."""
    first_run: str = ""
    """The run that also started the hosts, so that its duration is no measure of its cell."""

    @property
    def doubts(self) -> list[Doubt]:
        """Return why comparisons and speed-ups show nothing, once for each two cells."""
        doubts = {}
        for row in self.cells:
            for doubt in (row.speed_up_doubt, row.doubt):
                if doubt:
                    doubts[doubt.pair] = doubt
        return list(doubts.values())


def value_scale(study: Study) -> ValueScale:
    """Return how values compare: times as ratios, losses and accuracies by their differences."""
    return ValueScale.RATIO if study.compares_times else ValueScale.DIFFERENCE


def is_per_sample(study: Study) -> bool:
    """Return whether cells are compared by the time of a sample: their global batches differ."""
    batches = {cell.job.batch_size for cell in study.cells if cell.job}
    return study.metric == "step_seconds" and len(batches) > 1


def compute_results(progress: StudyProgress) -> StudyResult:
    """Return the results of what has been measured so far.

    Bounds are rougher while runs are missing, so that showing them takes nothing from the run under
    way.
    """
    study = progress.study
    rows = list(progress.cells.values())
    states = [row.state(study.repetitions) for row in rows]
    is_under_way = CellState.WAITING in states or CellState.RUNNING in states
    draws = FEW_DRAWS if is_under_way else DRAWS
    scale = value_scale(study)
    blocks, table = _make_table(rows)
    repeats_itself = not study.compares_times and _repeats_itself(table)
    if repeats_itself:
        # Runs that are the same to the last bit show as much as one of them: nothing of chance.
        blocks, table = blocks[:1], _first_values(table)
    if is_per_sample(study):
        # A larger batch takes longer for a step, and trains more in it.
        table /= [row.cell.job.batch_size for row in rows if row.cell.job]
    column_pairs = _list_pairs(study, rows)
    all_comparisons = Comparisons((), noise=math.nan, left_out=())
    if column_pairs:
        all_comparisons = compare_cells(table, column_pairs, scale, draws=draws)
    comparisons = {comparison.cell: comparison for comparison in all_comparisons.pairs}
    speed_ups = _compute_speed_ups(study, rows, table, draws)
    cell_results = []
    for column, (row, state) in enumerate(zip(rows, states, strict=True)):
        cell_result = CellResult(
            row.cell,
            state,
            runs=tuple(row.counted_runs),
            cause=row.cause,
            value=_measure(row, scale, counts_once=repeats_itself),
            stability=check_stability(row.values),
            repeats_itself=repeats_itself,
        )
        if column in comparisons:
            comparison = comparisons[column]
            is_same = are_same(table[:, column], table[:, comparison.reference])
            cell_result = replace(cell_result, comparison=comparison, is_same=is_same)
            if study.compares_times:
                reference = rows[comparison.reference]
                cell_result = replace(
                    cell_result, doubt=_find_doubt(row, reference, comparison.ratio)
                )
        if column in speed_ups:
            cell_result = _add_speed_up(cell_result, study, row, progress, speed_ups[column])
        cell_results.append(cell_result)
    return StudyResult(
        study,
        tuple(cell_results),
        all_comparisons.noise,
        _compare_labels(study, rows, table, comparisons),
        tuple(
            Trial(rows[column].cell, blocks[block]).key
            for block, column in all_comparisons.left_out
        ),
        progress.first_run,
    )


def _add_speed_up(
    result: CellResult,
    study: Study,
    cell_progress: CellProgress,
    progress: StudyProgress,
    speed_up: Interval,
) -> CellResult:
    baseline = progress.cells[study.baseline]
    doubt = None
    if cell_progress is not baseline:
        doubt = _find_doubt(cell_progress, baseline, speed_up.inverse(), is_speed_up=True)
    return replace(result, speed_up=speed_up, speed_up_doubt=doubt)


def _compare_labels(
    study: Study, rows: list[CellProgress], table: np.ndarray, comparisons: dict[int, Comparison]
) -> dict[str, Interval]:
    """Return how each value of the compared axis does against the reference, over all its cells."""
    groups: dict[str, list[Comparison]] = {}
    for column, comparison in comparisons.items():
        label = rows[column].cell.label(study.compare)
        groups.setdefault(label, []).append(comparison)
    ratios = {}
    for label, group in groups.items():
        if len(group) == 1:
            ratios[label] = group[0].ratio
        else:
            column_pairs = [(comparison.cell, comparison.reference) for comparison in group]
            ratios[label] = mean_ratio(table, column_pairs, value_scale(study))
    return ratios


def _make_table(rows: list[CellProgress]) -> tuple[list[int], np.ndarray]:
    """Return the repetitions that have runs, and the values: repetitions × cells, or NaN."""
    repetitions = sorted({repetition for row in rows for repetition in row.counted})
    table = np.full((len(repetitions), len(rows)), np.nan)
    for column, row in enumerate(rows):
        for block, repetition in enumerate(repetitions):
            run_end = row.counted.get(repetition)
            if run_end and run_end.value is not None:
                table[block, column] = run_end.value
    return repetitions, table


def _repeats_itself(table: np.ndarray) -> bool:
    """Return whether cells have several runs, and all runs of each have the same value."""
    is_finite = np.isfinite(table)
    has_repetitions = bool((is_finite.sum(axis=0) > 1).any())
    highest = np.max(table, axis=0, initial=-math.inf, where=is_finite)
    lowest = np.min(table, axis=0, initial=math.inf, where=is_finite)
    spreads = highest - lowest
    return has_repetitions and not (spreads > 0).any()


def _first_values(table: np.ndarray) -> np.ndarray:
    """Return the first value of each cell as the only row; NaN of a cell without one."""
    firsts = np.full((1, table.shape[1]), np.nan)
    for column in range(table.shape[1]):
        finite_values = table[np.isfinite(table[:, column]), column]
        firsts[0, column] = finite_values[0] if finite_values.size else math.nan
    return firsts


def _measure(row: CellProgress, scale: ValueScale, *, counts_once: bool) -> Interval | None:
    """Return the value of a cell; None without a run."""
    values = row.values[:1] if counts_once else row.values
    return mean_interval(values, scale) if values else None


def _list_pairs(study: Study, rows: list[CellProgress]) -> list[tuple[int, int]]:
    """Return each cell and its counterpart as columns, if both have runs."""
    columns = {row.cell.key: column for column, row in enumerate(rows)}
    column_pairs = []
    for column, row in enumerate(rows):
        counterpart = study.counterpart(row.cell)
        if counterpart and row.values and rows[columns[counterpart.key]].values:
            column_pairs.append((column, columns[counterpart.key]))
    return column_pairs


def _compute_speed_ups(
    study: Study, rows: list[CellProgress], table: np.ndarray, draws: int
) -> dict[int, Interval]:
    """Return how many times faster than the baseline each cell is, by column."""
    keys = [row.cell.key for row in rows]
    # A speed-up is a ratio of times: losses and accuracies have none.
    if study.baseline not in keys or not study.compares_times:
        return {}
    baseline = keys.index(study.baseline)
    if not rows[baseline].values:
        return {}
    speed_ups = measure_speed_ups(table, baseline, draws)
    return {column: ratio for column, ratio in speed_ups.items() if rows[column].values}


# Doubts -------------------------------------------------------------------------------------------


def _find_doubt(
    row: CellProgress, other: CellProgress, ratio: Interval, *, is_speed_up: bool = False
) -> Doubt | None:
    """Return why the ratio of the times of two cells shows nothing; None if it may show it."""
    place = row.cell.place
    other_place = other.cell.place
    # A rank that is alone synchronises nothing, so its method makes no difference.
    is_alone = 1 in (place.ranks, other_place.ranks)
    differing_settings = differing_work(row.cell.work, other.cell.work, is_alone=is_alone)
    # They are no settings of the job, but make one of the two faster.
    for setting in LAB_SETTINGS:
        if getattr(place, setting) != getattr(other_place, setting):
            differing_settings += (setting,)
    return find_doubt(
        _make_side(row), _make_side(other), ratio, differing_settings, is_speed_up=is_speed_up
    )


def _make_side(row: CellProgress) -> Side:
    cell = row.cell
    ranks = cell.place.ranks
    return Side(
        cell.key,
        cell.place.nodes,
        ranks,
        len(cell.job.trainers(ranks)) if cell.job else ranks,
        join_conditions(end.conditions for end in row.counted.values()),
        cell.job.batch_size if cell.job else 0,
    )


# JSON ---------------------------------------------------------------------------------------------


def results_to_json(result: StudyResult) -> dict[str, Any]:
    """Return the results as JSON-ready objects."""
    objects: dict[str, Any] = to_strict_json(
        {
            "study": result.study.name,
            "metric": result.study.metric,
            "noise": result.noise,
            "left_out": result.left_out,
            "doubts": doubt_facts.objects(result.doubts),
            "cells": [cell_to_json(row) for row in result.cells],
        }
    )
    return objects


def cell_to_json(row: CellResult) -> dict[str, Any]:
    """Return the result of a cell as JSON-ready objects."""
    comparison = row.comparison
    return {
        "cell": dict(row.cell.labels),
        "state": row.state.value,
        "runs": [end.run for end in row.runs],
        "values": [end.value for end in row.runs],
        "cause": row.cause,
        "value": asdict(row.value) if row.value else None,
        "variation": row.stability.variation,
        "speed_up": asdict(row.speed_up) if row.speed_up else None,
        "ratio": asdict(comparison.ratio) if comparison else None,
        "finding": comparison.finding.value if comparison else None,
        "same": row.is_same,
    }
