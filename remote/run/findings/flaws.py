"""Finds what spoils the result of a run that may have done all its work: what the verdict alone
does not say. Pure.

A run is a plain success if it has finished and `find_flaws` returns nothing.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import pairwise
from statistics import median

from remote.run.diagnosis.straggler import Straggler
from remote.run.findings.alerts import end_of_rank
from remote.run.findings.isolation import isolated_ranks
from remote.run.findings.training_loss import find_loss_rise
from remote.run.run_state import RunState
from remote.run.state.flaw import Flaw, FlawKind, Measure
from remote.run.state.phases import Verdict
from remote.run.state.script_metrics import ValidationLoss
from training.wire.rank_events import Evaluated

LEAST_STEPS = 100
"""Steps after which a model that has learned nothing should have."""
LEAST_TESTS = 6
"""Tests from which on it is known whether the test loss has risen."""
RISEN = 1.1
"""The test loss has risen if that of the last tests is more than so many times the best one."""
WAVERING = 3.0
"""The validation loss of a script has risen if it is so many times as far up as it wavers."""
MOST_OF_RISE = 0.75
"""A loss that makes more of its rise in one step has begun anew, rather than become worse."""
DEVIATIONS = 3.0
"""Standard deviations by which a guess may be better than chance."""
LEARNED = 0.25
"""A model has learned something once it has come so much of the way from chance to no mistake."""
MOST_OF_TRAINING = 0.5
"""A run was slow if all waited for the same rank for this share of its training."""


def find_flaws(run: RunState) -> tuple[Flaw, ...]:
    """Return all flaws of a run, the most important first. At most one is of a kind."""
    return (*_learning_flaws(run), *_isolation_flaws(run), *_overfit_flaws(run), *_slow_flaws(run))


def outcome_word(run: RunState) -> str:
    """Return how a run has ended, in a word or two: its verdict, but of a finished run its worst
    flaw, if it has any; "" if it has not ended."""
    if run.verdict is None:
        return ""
    flaws = find_flaws(run) if run.verdict is Verdict.FINISHED else ()
    return flaws[0].kind.value if flaws else run.verdict.word


# How well it has learned --------------------------------------------------------------------------


def _learning_flaws(run: RunState) -> Iterator[Flaw]:
    """Yield that it diverged, or else that it has learned nothing."""
    not_finite = run.progress.diverged
    rise = find_loss_rise(run)
    is_lost = _ends_at_chance(run.progress.evaluations)
    if not_finite:
        first_loss = run.divergence.first
        before = first_loss if math.isfinite(first_loss) else None
        yield Flaw(FlawKind.DIVERGED, not_finite.step, 0, Measure.LOSS, before, not_finite.what)
    elif rise and rise.over and is_lost:
        # The loss came back, the model did not.
        accuracy = run.progress.evaluations[-1].accuracy
        yield Flaw(FlawKind.DIVERGED, rise.step, 0, Measure.TEST_ACCURACY, None, accuracy)
    elif rise and not rise.over:
        yield Flaw(FlawKind.DIVERGED, rise.step, 0, Measure.LOSS, rise.first, rise.loss)
    elif is_lost:
        yield from _chance_flaws(run)


def _chance_flaws(run: RunState) -> Iterator[Flaw]:
    """Yield what is known of a run whose last test is no better than chance."""
    evaluations = run.progress.evaluations
    last_accuracy = evaluations[-1].accuracy
    learned = _learned_accuracy(len(evaluations[-1].confusion))
    best = max(evaluations, key=lambda evaluation: evaluation.accuracy)
    measure = Measure.TEST_ACCURACY
    if best.accuracy >= learned:
        first_lost = next(
            evaluation
            for evaluation in evaluations
            if evaluation.step > best.step and evaluation.accuracy < learned
        )
        yield Flaw(FlawKind.DIVERGED, first_lost.step, 0, measure, best.accuracy, last_accuracy)
    elif run.step >= LEAST_STEPS:
        yield Flaw(FlawKind.LEARNED_NOTHING, measure=measure, after=last_accuracy)


def _ends_at_chance(evaluations: Sequence[Evaluated]) -> bool:
    """Return True if the last test is not better than guesses."""
    return len(evaluations) >= 2 and is_at_chance(evaluations[-1])


def is_at_chance(test: Evaluated) -> bool:
    """Return True if a test is not better than guesses."""
    num_classes = len(test.confusion)  # 0 if the test has told no classes
    if num_classes < 2 or not test.samples:
        return False
    chance = 1 / num_classes
    deviation = math.sqrt(chance * (1 - chance) / test.samples)
    is_guess = test.accuracy <= chance + DEVIATIONS * deviation
    # Of a few samples, even guesses may often be right.
    return is_guess and test.accuracy < _learned_accuracy(num_classes)


def _learned_accuracy(num_classes: int) -> float:
    """Return the accuracy from which on a model has surely learned something."""
    chance = 1 / num_classes
    return chance + LEARNED * (1 - chance)


def _isolation_flaws(run: RunState) -> Iterator[Flaw]:
    """Yield that the ranks of a script trained alone, to the end."""
    if isolated_ranks(run) and run.trains_apart:
        yield Flaw(FlawKind.ALONE)


def _overfit_flaws(run: RunState) -> Iterator[Flaw]:
    """Yield that the loss on data that it does not train on was best long ago, and has risen
    since."""
    measure = Measure.TEST_LOSS
    tests = [
        ValidationLoss(test.step, test.epoch, test.loss)
        for test in run.progress.evaluations
        if math.isfinite(test.loss)
    ]
    if not tests:
        measure = Measure.VALIDATION_LOSS
        tests = run.metrics.validation_losses
        if not _rises_gradually([test.loss for test in tests]):
            return
    best = _find_best_before_rise(tests)
    if best:
        yield Flaw(FlawKind.OVERFITTED, best.step, best.epoch, measure, best.loss, tests[-1].loss)


def _find_best_before_rise(tests: Sequence[ValidationLoss]) -> ValidationLoss | None:
    """Return the best test if the loss has risen since; None if it has not, or may not have."""
    if len(tests) < LEAST_TESTS:
        return None
    best = min(tests, key=lambda test: test.loss)
    third = len(tests) // 3
    if len(tests) - 1 - tests.index(best) < third:
        return None
    # A single test may be an outlier.
    last_losses = [test.loss for test in tests[-third:]]
    has_risen = median(last_losses) > RISEN * best.loss > 0 and min(last_losses) > best.loss
    return best if has_risen else None


def _rises_gradually(losses: Sequence[float]) -> bool:
    """Return True if losses rise from their least one to their end more than they waver, and in
    many steps.

    The validation loss of a script may be of a few samples each time, begin anew with each fold or
    task, or have several sets in turn.
    """
    least_place = min(range(len(losses)), key=losses.__getitem__, default=0)
    later_losses = losses[least_place:]
    if len(later_losses) < 3:
        return False
    rise = min(median(later_losses[-3:]), later_losses[-1]) - median(
        losses[max(0, least_place - 1) : least_place + 2]
    )
    # How far a loss is from the line between its neighbours: 0 for a curve that is smooth.
    residuals = [
        abs(middle - (before + after) / 2)
        for before, middle, after in zip(losses, losses[1:], losses[2:], strict=False)
    ]
    largest_jump = max(after - before for before, after in pairwise(later_losses))
    return rise > WAVERING * median(residuals) and largest_jump <= MOST_OF_RISE * rise


# How fast it was ----------------------------------------------------------------------------------


def _slow_flaws(run: RunState) -> Iterator[Flaw]:
    """Yield that the ranks waited for one of them for most of the training."""
    seconds_of_rank: dict[int, float] = {}
    newest_straggler: dict[int, Straggler] = {}
    for episode in run.stragglers.episodes:
        number = episode.straggler.rank
        seconds = (episode.over or end_of_rank(run, number)) - episode.since
        seconds_of_rank[number] = seconds_of_rank.get(number, 0.0) + seconds
        newest_straggler[number] = episode.straggler
    if not seconds_of_rank:
        return
    number = max(seconds_of_rank, key=seconds_of_rank.__getitem__)
    training_seconds = run.training_seconds
    if not seconds_of_rank[number] >= MOST_OF_TRAINING * training_seconds > 0:
        return
    # While it is slow, its reason may change.
    straggler = run.stragglers.by_rank.get(number) or newest_straggler[number]
    yield Flaw(
        FlawKind.SLOW,
        rank=number,
        host=run.host_name(straggler.host),
        # Evaluations are part of the one, not of the other.
        seconds=min(seconds_of_rank[number], training_seconds),
        training_seconds=training_seconds,
        reason=straggler.reason,
    )
