"""The additive model of a study: a value is the sum of its cell's effect, its block's and noise.

A table has a row per block (repetition) and a column per cell, NaN where there is no run.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from remote.statistics import student
from remote.statistics.interval import SEED, Numbers
from remote.statistics.stability import UNUSUAL, scores

DRAWS = 100_000
"""Studies without a difference that are drawn: a probability of 0.05 is known to 0.0007."""
FEW_DRAWS = 2_000
"""So many while runs are missing: 0.05 is known to 0.005, and 100 cells take 50 ms, not 1 s."""
SHARED = 4.0
"""Degrees of freedom that the noise of all cells adds to a cell's own. With fewer, few runs find
less. With more, a comparison relies on equal noise: where the reference is three times as noisy as
six other cells, 15 % of studies without a difference report one, not 5 %; with all, 29 %."""

Pair = tuple[int, int]
"""A cell and its reference, as columns of the table."""


@dataclass(frozen=True, eq=False)
class Layout:
    """Which runs there are, and what least squares makes of their values."""

    present: NDArray[np.bool_]
    """Blocks × cells."""
    design: Numbers
    """Runs × (cells, then blocks): 1 where the effect is part of the run's value."""
    solve: Numbers
    """(Cells, then blocks) × runs: the effects from the values."""
    rest: Numbers
    """Runs × runs: the residuals from the values."""

    @property
    def kept(self) -> Numbers:
        """Per run, the share of its noise that is left in its residual."""
        return self.rest.diagonal().clip(0)

    @property
    def member(self) -> Numbers:
        """Runs × cells: 1 where the run is of the cell."""
        return self.design[:, : self.present.shape[1]]

    @property
    def freedoms(self) -> Numbers:
        """Per cell, the degrees of freedom of its residuals."""
        return self.kept @ self.member

    @property
    def freedom(self) -> int:
        """Degrees of freedom of all residuals."""
        return round(float(self.kept.sum()))

    def without(self, block: int, cell: int) -> Layout:
        """The layout where one run is left out."""
        present = self.present.copy()
        present[block, cell] = False
        return layout(present)

    def contrasts(self, pairs: Sequence[Pair]) -> Numbers:
        """Pairs × runs: the difference of each pair's cells from the values. NaN for a pair that no
        chain of common blocks connects."""
        wanted = np.zeros((len(pairs), self.design.shape[1]))
        for row, (cell, reference) in zip(wanted, pairs, strict=True):
            row[cell] += 1
            row[reference] -= 1
        weights = wanted @ self.solve
        unknown = abs(weights @ self.design - wanted).max(axis=1, initial=0) > 1e-9
        weights[unknown] = np.nan
        return weights


def layout(present: NDArray[np.bool_]) -> Layout:
    """The layout of the runs that are present: bool, blocks × cells."""
    return _layout(present.tobytes(), *present.shape)


@lru_cache(maxsize=16)  # of 1,000 runs, each takes 8 MB
def _layout(packed: bytes, blocks: int, cells: int) -> Layout:
    present = np.frombuffer(packed, dtype=np.bool_).reshape(blocks, cells)
    block_of, cell_of = np.nonzero(present)
    runs = np.arange(len(block_of))
    design = np.zeros((len(runs), cells + blocks))
    design[runs, cell_of] = 1
    design[runs, cells + block_of] = 1
    solve = np.asarray(np.linalg.pinv(design), dtype=np.float64)
    return Layout(present, design, solve, np.eye(len(runs)) - design @ solve)


# Noise --------------------------------------------------------------------------------------------


def variances(plan: Layout, residuals: Numbers, shared: float = SHARED) -> Numbers:
    """The noise's variance in each cell: from its own residuals, and with the weight of `shared`
    degrees of freedom from those of all cells, so that a few runs suffice (a moderated variance, as
    in Smyth, "Linear models and empirical Bayes methods", Statistical Applications in Genetics and
    Molecular Biology 3, 2004)."""
    return _moderated(residuals**2 @ plan.member, plan.freedoms, shared)


def _moderated(squares: Numbers, freedoms: Numbers, shared: float) -> Numbers:
    """From sums of squares: … × cells."""
    common = squares.sum(axis=-1, keepdims=True) / freedoms.sum()
    moderated: Numbers = (squares + shared * common) / (freedoms + shared)
    return moderated


def errors(plan: Layout, weights: Numbers, cells: Numbers) -> Numbers:
    """The standard errors of contrasts, given the variance in each cell: … × cells."""
    found: Numbers = np.sqrt(cells @ (weights**2 @ plan.member).T)
    return found


def yardstick(
    plan: Layout,
    pairs: Sequence[Pair],
    together: bool,
    shared: float = SHARED,
    draws: int = DRAWS,
) -> Numbers:
    """|t| of each pair in studies without a difference, drawn, sorted: pairs × draws. With
    `together` it is the largest of a study for all pairs, as in Dunnett, "A multiple comparison
    procedure for comparing several treatments with a control" (JASA 50, 1955). The noise of the
    cells is drawn as if it were independent, which makes the bound about 1 % too wide."""
    key = plan.present.tobytes(), *plan.present.shape
    return _yardstick(key, tuple(pairs), together, shared, draws)


@lru_cache(maxsize=4)
def _yardstick(
    key: tuple[bytes, int, int], pairs: tuple[Pair, ...], together: bool, shared: float, draws: int
) -> Numbers:
    plan = _layout(*key)
    weights = plan.contrasts(pairs)
    generator = np.random.default_rng(SEED)
    values, vectors = np.linalg.eigh(weights @ weights.T)
    factor = vectors * np.sqrt(values.clip(0))
    differences = generator.standard_normal((draws, len(pairs))) @ factor.T
    freedoms = plan.freedoms.clip(1e-9)
    squares = generator.chisquare(freedoms, (draws, len(freedoms)))
    drawn = abs(differences / errors(plan, weights, _moderated(squares, freedoms, shared)))
    if together:
        drawn = drawn.max(axis=1, keepdims=True)
    return np.broadcast_to(np.sort(drawn.T), (len(pairs), draws))


def outlier(plan: Layout, runs: Numbers, residuals: Numbers, alpha: float) -> int | None:
    """Which run does not fit: its studentised deleted residual is so large that of all studies
    without an outlier at most `alpha` have one (Cook and Weisberg, "Residuals and influence in
    regression", 1982), and it is unusual in its cell, which may be noisier than others. None if all
    fit."""
    if plan.freedom < 2:
        return None
    kept = plan.kept
    squares = residuals**2
    own = np.divide(squares, kept, out=np.zeros_like(kept), where=kept > 1e-9)
    alike = np.flatnonzero(own >= own.max() * (1 - 1e-9))  # the two of a block of two, for one
    worst = max(alike.tolist(), key=lambda run: _strangeness(plan, runs, run))
    others = max(0.0, float(squares.sum() - own[worst])) / (plan.freedom - 1)
    if not others:
        return None
    t = float(np.sqrt(own[worst] / others))
    if student.outside(t, plan.freedom - 1) * len(kept) >= alpha:
        return None
    siblings = residuals[_siblings(plan, worst)]
    return worst if abs(scores(siblings, siblings)).max() > UNUSUAL else None


def _siblings(plan: Layout, run: int) -> NDArray[np.bool_]:
    """Which runs are of the same cell."""
    return plan.member[:, plan.member[run].argmax()] > 0


def _strangeness(plan: Layout, runs: Numbers, run: int) -> float:
    """How far a run is from those of its cell."""
    return float(abs(scores(runs[run], runs[_siblings(plan, run)])))
