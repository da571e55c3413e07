"""Simulated studies whose truth is known: how often they report a difference."""

from __future__ import annotations

from functools import cache

import numpy as np

from remote.statistics import REPETITIONS
from remote.statistics.comparison import Comparisons, Finding, compare_cells

NOISE = 0.03
"""Coefficient of variation from run to run."""
DRIFT = 0.05
"""The same of the machine, from one block to the next."""
SLOW = 0.02
"""Share of runs that something else slows down, by 10 % to 60 %."""
CELLS = (3, 4, 5, 6, 7)


@cache
def simulate(cells: int, count: int, slower: float = 1.0) -> list[Comparisons]:
    """Studies in which the last cell takes `slower` times as long as the others."""
    generator = np.random.default_rng([cells, int(100 * slower)])
    runs, blocks = (count, REPETITIONS, cells), (count, REPETITIONS, 1)
    times = generator.lognormal(0, NOISE, runs) * generator.lognormal(0, DRIFT, blocks)
    times *= np.where(generator.random(runs) < SLOW, generator.uniform(1.1, 1.6, runs), 1)
    times[..., -1] *= slower
    return [compare_cells(table, [(cell, 0) for cell in range(1, cells)]) for table in times]


def found(comparisons: Comparisons) -> set[Finding]:
    return {each.finding for each in comparisons.pairs} - {Finding.NOT_SHOWN}


def test_of_studies_without_a_difference_at_most_6_percent_report_any():
    studies = [study for cells in CELLS for study in simulate(cells, 160)]
    assert np.mean([bool(found(study)) for study in studies]) <= 0.06


def test_of_studies_with_a_difference_of_10_percent_at_least_90_percent_report_it():
    studies = [study for cells in CELLS for study in simulate(cells, 80, 1.1)]
    assert np.mean([study.pairs[-1].finding is Finding.SLOWER for study in studies]) >= 0.9


def test_a_cell_that_is_faster_is_reported_as_faster():
    studies = simulate(4, 100, 1 / 1.1)
    assert np.mean([study.pairs[-1].finding is Finding.FASTER for study in studies]) >= 0.85


def test_a_difference_of_one_cell_is_not_reported_of_others():
    studies = [study for cells in CELLS for study in simulate(cells, 80, 1.1)]
    others = [study.pairs[:-1] for study in studies]
    wrong = [any(each.finding is not Finding.NOT_SHOWN for each in pairs) for pairs in others]
    assert np.mean(wrong) <= 0.06
