"""What came out of a study so far: its cells with intervals, and how they compare. Pure; imports
numpy."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from remote.metrics import doubt as doubting
from remote.metrics.conditions import join_conditions
from remote.metrics.doubt import Doubt, Side, differing_work, find_doubt
from remote.record.summary import to_strict_json
from remote.statistics.block_model import DRAWS, FEW_DRAWS
from remote.statistics.comparison import (
    Comparison,
    Finding,
    compare_cells,
    mean_ratio,
    measure_scaling,
)
from remote.statistics.equivalence import are_same
from remote.statistics.interval import Interval, ValueScale, mean_interval
from remote.statistics.stability import Stability, check_stability
from remote.study.folder import RunEnded
from remote.study.progress import CellProgress, CellState, StudyProgress
from remote.study.study import Cell, Study, Trial

SHAPE = ("link", "cpus")
"""What a lab gives each host, of which more makes it faster."""


@dataclass(frozen=True)
class CellResult:
    """One row. `value` is None without a run; `comparison` and `speed_up` where there is nothing to
    compare with. `runs` are those that count, in order of the repetitions; `cause` says why one
    failed, "" if none did. `is_same`: all its values are those of the reference, within rounding.
    `doubt` says why the comparison shows nothing, `speed_up_doubt` why the speed-up is none."""

    cell: Cell
    state: CellState
    runs: tuple[RunEnded, ...]
    cause: str
    value: Interval | None
    stability: Stability
    comparison: Comparison | None = None
    speed_up: Interval | None = None
    is_same: bool = False
    doubt: Doubt | None = None
    speed_up_doubt: Doubt | None = None

    @property
    def finding(self) -> Finding | None:
        """What the comparison with the reference shows."""
        return self.comparison.finding if self.comparison else None


@dataclass(frozen=True)
class StudyResult:
    """All rows, in the order of the study. `noise` is the standard deviation from run to run, as a
    share of the value; NaN where it is not known. `overall` has the mean ratio or difference to the
    reference of each value of the compared axis. `left_out` are the keys of the trials that count
    in no comparison, because they do not fit."""

    study: Study
    cells: tuple[CellResult, ...]
    noise: float
    overall: Mapping[str, Interval] = field(default_factory=dict)
    left_out: tuple[str, ...] = ()

    def of(self, cell: Cell) -> CellResult:
        """The row of a cell."""
        return next(row for row in self.cells if row.cell.key == cell.key)

    @property
    def doubts(self) -> list[Doubt]:
        """Why comparisons and speed-ups show nothing, once for each two cells."""
        both = (one for row in self.cells for one in (row.speed_up_doubt, row.doubt) if one)
        return list({one.pair: one for one in both}.values())

    @property
    def is_complete(self) -> bool:
        """Whether every cell has all its runs."""
        return all(row.state in (CellState.DONE, CellState.UNSTABLE) for row in self.cells)


def value_scale(study: Study) -> ValueScale:
    """How the values of the study compare: times as ratios, losses and accuracies as they are."""
    return (
        ValueScale.RATIO if study.metric in ("step_seconds", "elapsed") else ValueScale.DIFFERENCE
    )


def is_per_sample(study: Study) -> bool:
    """Whether cells are compared by the time of a sample: their global batches differ."""
    batches = {one.job.batch_size for one in study.cells if one.job}
    return study.metric == "step_seconds" and len(batches) > 1


def compute_results(progress: StudyProgress) -> StudyResult:
    """The results of what has been measured so far: bounds are rougher while runs are missing, so
    that showing them takes nothing from the run under way."""
    study = progress.study
    rows = list(progress.cells.values())
    states = {row.state(study.repetitions) for row in rows}
    draws = FEW_DRAWS if states & {CellState.WAITING, CellState.RUNNING} else DRAWS
    blocks, table = _table(rows)
    if is_per_sample(study):
        table /= [row.cell.job.batch_size for row in rows if row.cell.job]
    pairs = _pairs(study, rows)
    found = compare_cells(table, pairs, value_scale(study), draws=draws) if pairs else None
    comparisons = {one.cell: one for one in found.pairs} if found else {}
    left_out = found.left_out if found else ()
    speed_ups = _speed_ups(study, rows, table, draws)
    doubts = _doubts(study, rows, comparisons)
    speed_up_doubts = _speed_up_doubts(study, rows, speed_ups)
    return StudyResult(
        study,
        tuple(
            CellResult(
                row.cell,
                row.state(study.repetitions),
                tuple(row.counted[number] for number in sorted(row.counted)),
                row.cause,
                mean_interval(row.values, value_scale(study)) if row.values else None,
                check_stability(row.values),
                comparisons.get(column),
                speed_ups.get(column),
                _is_same(row, rows[comparisons[column].reference])
                if column in comparisons
                else False,
                doubts.get(column),
                speed_up_doubts.get(column),
            )
            for column, row in enumerate(rows)
        ),
        found.noise if found else math.nan,
        _overall(study, rows, table, comparisons),
        tuple(Trial(rows[column].cell, blocks[block]).key for block, column in left_out),
    )


def _is_same(row: CellProgress, reference: CellProgress) -> bool:
    """Whether the two have equal values in all repetitions that both have, within rounding."""
    both = sorted(row.counted.keys() & reference.counted.keys())
    values = ([one.counted[number].value for number in both] for one in (row, reference))
    found, expected = ([math.nan if one is None else one for one in each] for each in values)
    return are_same(found, expected)


def _overall(
    study: Study, rows: list[CellProgress], table: np.ndarray, comparisons: dict[int, Comparison]
) -> dict[str, Interval]:
    """How each value of the compared axis does against the reference, over all its cells."""
    groups: dict[str, list[Comparison]] = {}
    for column, one in comparisons.items():
        groups.setdefault(rows[column].cell.label(study.compare), []).append(one)
    found = {}
    for label, several in groups.items():
        pairs = [(one.cell, one.reference) for one in several]
        is_one = len(several) == 1
        found[label] = several[0].ratio if is_one else mean_ratio(table, pairs, value_scale(study))
    return found


def _table(rows: list[CellProgress]) -> tuple[list[int], np.ndarray]:
    """The repetitions of which there are runs, and repetitions × cells: NaN where there is none."""
    blocks = sorted({number for row in rows for number in row.counted})
    table = np.full((len(blocks), len(rows)), np.nan)
    for column, row in enumerate(rows):
        for place, number in enumerate(blocks):
            end = row.counted.get(number)
            if end and end.value is not None:
                table[place, column] = end.value
    return blocks, table


def _pairs(study: Study, rows: list[CellProgress]) -> list[tuple[int, int]]:
    """Each cell and its counterpart, as columns, where both have runs."""
    columns = {row.cell.key: column for column, row in enumerate(rows)}
    pairs = []
    for column, row in enumerate(rows):
        other = study.counterpart(row.cell)
        if other and row.values and rows[columns[other.key]].values:
            pairs.append((column, columns[other.key]))
    return pairs


def _speed_ups(
    study: Study, rows: list[CellProgress], table: np.ndarray, draws: int
) -> dict[int, Interval]:
    """How many times faster than the baseline each cell is, by column."""
    keys = [row.cell.key for row in rows]
    if study.baseline not in keys or study.metric not in ("step_seconds", "elapsed"):
        return {}
    baseline = keys.index(study.baseline)
    if not rows[baseline].values:
        return {}
    workers = [row.cell.place.ranks for row in rows]
    found = measure_scaling(table, baseline, workers, draws=draws)
    return {one.cell: one.speed_up for one in found if rows[one.cell].values}


def _doubts(
    study: Study, rows: list[CellProgress], comparisons: dict[int, Comparison]
) -> dict[int, Doubt]:
    """Why comparisons of times show nothing, by column."""
    if value_scale(study) is not ValueScale.RATIO:
        return {}
    found = {
        column: _doubt(rows[column], rows[one.reference], one.ratio)
        for column, one in comparisons.items()
    }
    return {column: one for column, one in found.items() if one}


def _speed_up_doubts(
    study: Study, rows: list[CellProgress], speed_ups: dict[int, Interval]
) -> dict[int, Doubt]:
    """Why speed-ups show nothing, by column."""
    baseline = next((row for row in rows if row.cell.key == study.baseline), None)
    if baseline is None:
        return {}
    found = {
        column: _doubt(rows[column], baseline, one.inverse(), is_speed_up=True)
        for column, one in speed_ups.items()
        if rows[column] is not baseline
    }
    return {column: one for column, one in found.items() if one}


def _doubt(
    row: CellProgress, other: CellProgress, ratio: Interval, *, is_speed_up: bool = False
) -> Doubt | None:
    """Why the ratio of the times of two cells shows nothing; None where it may show something."""
    sides = _side(row), _side(other)
    is_alone = min(side.ranks for side in sides) == 1
    names = differing_work(row.cell.work, other.cell.work, is_alone=is_alone)
    place = row.cell.place
    others = other.cell.place
    names += tuple(name for name in SHAPE if getattr(place, name) != getattr(others, name))
    return find_doubt(*sides, ratio, names, is_speed_up=is_speed_up)


def _side(row: CellProgress) -> Side:
    cell = row.cell
    place = row.cell.place
    return Side(
        cell.key,
        place.nodes,
        place.ranks,
        len(cell.job.trainers(place.ranks)) if cell.job else place.ranks,
        join_conditions(end.conditions for end in row.counted.values()),
        cell.job.batch_size if cell.job else 0,
    )


def results_to_json(result: StudyResult) -> dict[str, Any]:
    """The results as JSON-ready objects."""
    found: dict[str, Any] = to_strict_json(
        {
            "study": result.study.name,
            "metric": result.study.metric,
            "noise": result.noise,
            "left_out": result.left_out,
            "doubts": doubting.objects(result.doubts),
            "cells": [_object(row) for row in result.cells],
        }
    )
    return found


def _object(row: CellResult) -> dict[str, Any]:
    compared = row.comparison
    return {
        "cell": dict(row.cell.labels),
        "state": row.state.value,
        "runs": [end.run for end in row.runs],
        "values": [end.value for end in row.runs],
        "cause": row.cause,
        "value": asdict(row.value) if row.value else None,
        "variation": row.stability.variation,
        "speed_up": asdict(row.speed_up) if row.speed_up else None,
        "ratio": asdict(compared.ratio) if compared else None,
        "finding": compared.finding.value if compared else None,
        "same": row.is_same,
    }
