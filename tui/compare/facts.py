"""What compared runs came to, fact by fact: numbers, and how far two of them are apart."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from enum import Enum
from functools import partial
from typing import Any, NamedTuple

from remote.format import UNKNOWN, exact_duration, fixed, listed, percent, rate, size, step_time
from remote.metrics.compare import ComparedRun
from remote.metrics.run import EvaluationFigures
from remote.statistics.comparison import Finding
from training.formatting import format_loss

CLEAR_CHANGE = 0.05
"""The least change of a figure that is called better or worse where no interval is known."""
DEVIATIONS = 2.0
"""Standard errors by which accuracies have to differ to be called better or worse."""
LEAST_CHANGE = 0.0005
"""What is less would be told as 0.0%."""
MANY_TIMES = 3
"""From so many times on, a change is a number of times, and not a percentage."""
MOST_TIMES = 9999
"""More times than a number of a table has room for, and than anybody needs to know."""
TEST_ACCURACY = "test accuracy"
TRAINING_LOSS = "training loss"
TIME_PER_STEP = "time per step"
SAMPLES_PER_SECOND = "samples/s"
TRAINING_TIME = "training time"
TOTAL_TIME = "total time"
INTERVAL = "95% interval"
RESTATED = 0.1
"""By how much, as a share, a figure may be off what the times per step have it."""


class Better(Enum):
    """Which direction of a figure is better."""

    HIGHER = 1
    LOWER = -1
    NEITHER = 0


class Effect(Enum):
    """What a difference means."""

    BETTER = "better"
    WORSE = "worse"
    UNCERTAIN = "uncertain"
    """It may be chance."""
    PLAIN = "plain"
    """It is neither better nor worse."""


class Comparative(NamedTuple):
    """The words for a change of a figure."""

    more: str
    less: str
    as_much: str
    """Behind a number of times: 3.5x as much."""


AMOUNT = Comparative("more", "less", "as much")
HEIGHT = Comparative("higher", "lower", "as high")
LENGTH = Comparative("longer", "shorter", "as long")


class Difference(NamedTuple):
    """How far a run is from the first one."""

    text: str
    effect: Effect
    reason: str = ""
    """Why it says nothing of the run."""


def _format_training_time(seconds_of_steps: float) -> str:
    """Format the seconds of all steps; a run without steps has none."""
    return fixed(seconds_of_steps, 2, " s") if seconds_of_steps else UNKNOWN


class ComparedFact(NamedTuple):
    """A figure of a run."""

    label: str
    key: str
    """Its key in JSON."""
    write: Callable[[float], str]
    comparative: Comparative
    better: Better = Better.NEITHER
    is_share: bool = False
    """Whether differences are told in points of a percentage."""
    is_main: bool = False
    """Whether the verdict rests on it."""


FACTS = (
    ComparedFact(
        TEST_ACCURACY,
        "test_accuracy",
        partial(percent, decimals=1),
        HEIGHT,
        Better.HIGHER,
        is_share=True,
        is_main=True,
    ),
    ComparedFact("test loss", "test_loss", format_loss, HEIGHT, Better.LOWER),
    ComparedFact(TRAINING_LOSS, "loss", format_loss, HEIGHT),
    ComparedFact(
        TIME_PER_STEP,
        "step_seconds",
        partial(step_time, exact=True),
        LENGTH,
        Better.LOWER,
        is_main=True,
    ),
    ComparedFact(SAMPLES_PER_SECOND, "samples_per_second", rate, AMOUNT, Better.HIGHER),
    ComparedFact("sync share", "sync_share", percent, AMOUNT, is_share=True),
    ComparedFact("sent per step", "bytes_per_step", size, AMOUNT),
    ComparedFact(TRAINING_TIME, "training_seconds", _format_training_time, LENGTH),
    ComparedFact(TOTAL_TIME, "elapsed", exact_duration, LENGTH),
)
"""The figures in the order of the table."""
FACTS_OF_SPEED = (TIME_PER_STEP, SAMPLES_PER_SECOND)
POWERS_OF_STEP_TIME = {SAMPLES_PER_SECOND: -1, TRAINING_TIME: 1, TOTAL_TIME: 1}
"""How figures change with the time per step, all else being equal."""


def read_results(compared: ComparedRun) -> dict[str, Any]:
    """Return the figures of a run, by their keys in JSON. What is not known is NaN or None."""
    run = compared.run
    means = compared.steps
    step_seconds = means.mean("seconds")
    sync_seconds = means.mean("sync")
    sent_bytes = means.mean("bytes_sent")
    if not run.job:  # a script need not report it
        sync_seconds = sync_seconds or math.nan
    evaluation = read_last_test(compared)
    has_steps = len(run.steps) > 0
    return {
        "steps": len(run.steps.by_rank(run.steps.ranks[0])) if has_steps else 0,
        "loss": run.training_loss,
        "test_loss": evaluation.loss if evaluation else None,
        "test_accuracy": evaluation.accuracy if evaluation else None,
        "step_seconds": step_seconds,
        "samples_per_second": means.samples_per_second(are_apart=run.trains_apart),
        "sync_share": sync_seconds / step_seconds if step_seconds > 0 else math.nan,
        "bytes_per_step": sent_bytes,
        "training_seconds": run.summary["training_seconds"],
        "elapsed": run.elapsed,
    }


def read_last_test(compared: ComparedRun) -> EvaluationFigures | None:
    """Return the last test of a run, if it was tested."""
    evaluations = compared.run.evaluations
    return evaluations[-1] if evaluations else None


# In words -----------------------------------------------------------------------------------------


class FactRow(NamedTuple):
    """A fact of all compared runs."""

    label: str
    values: tuple[str, ...]
    differences: tuple[Difference | None, ...]
    """What each run is beside the first one; None where that says nothing."""
    numbers: tuple[float, ...] = ()
    """The values, for bars; none for a pair of bounds."""
    is_main: bool = False
    """Whether the verdict rests on it."""


def list_facts(compared: Sequence[ComparedRun]) -> Iterator[FactRow]:
    """Yield the facts that at least one of the runs has."""
    results = [read_results(run) for run in compared]
    is_tested = any(read_last_test(run) for run in compared)
    for fact in FACTS:
        # Beside tests, a lower one is not better by itself: an overfitted run has it, too.
        if fact.label == TRAINING_LOSS and not is_tested:
            fact = fact._replace(better=Better.LOWER)
        row = _make_row(fact, compared, [run_results[fact.key] for run_results in results])
        if any(value != UNKNOWN for value in row.values):
            yield row
        if fact.label == TRAINING_LOSS:
            yield from _time_to_goal(compared)
        elif fact.label == TIME_PER_STEP:
            yield from _time_interval(compared)


def restates_step_time(fact: FactRow, facts: Sequence[FactRow]) -> bool:
    """Return True if a fact says no more than the times per step, which are among the facts: it is
    their interval, or makes the runs differ by as much."""
    if fact.label == INTERVAL:
        return True
    power = POWERS_OF_STEP_TIME.get(fact.label)
    step_times = [other.numbers for other in facts if other.label == TIME_PER_STEP]
    if power is None or not step_times:
        return False
    restated = []
    for number, seconds in zip(fact.numbers, step_times[0], strict=True):
        restated.append(number / seconds**power)
    return all(math.isclose(ratio, restated[0], rel_tol=RESTATED) for ratio in restated)


def _write_fact(fact: ComparedFact, value: float | None) -> str:
    # The loss of a run that has diverged is known to be no number.
    is_known = value is not None and (fact.key == "loss" or not math.isnan(value))
    return fact.write(value) if is_known and value is not None else UNKNOWN


def _make_row(
    fact: ComparedFact, compared: Sequence[ComparedRun], results: Sequence[float | None]
) -> FactRow:
    values = tuple(_write_fact(fact, result) for result in results)
    numbers = [math.nan if result is None else result for result in results]
    first = numbers[0]
    differences: list[Difference | None] = [None]
    for run, number in zip(compared[1:], numbers[1:], strict=True):
        if fact.label in FACTS_OF_SPEED:
            differences.append(_differ_in_speed(fact, run, number, first))
        elif fact.key == "test_accuracy":
            differences.append(
                _differ_in_accuracy(read_last_test(run), read_last_test(compared[0]))
            )
        else:
            differences.append(_differ(fact, number, first))
    return FactRow(fact.label, values, tuple(differences), tuple(numbers), fact.is_main)


def _differ(fact: ComparedFact, value: float, first: float) -> Difference | None:
    change = value - first if fact.is_share else _find_change(value, first)
    if not math.isfinite(change):
        return None
    effect = Effect.PLAIN
    if fact.better is not Better.NEITHER and abs(change) >= LEAST_CHANGE:
        effect = Effect.UNCERTAIN
        if abs(change) >= CLEAR_CHANGE:
            effect = _judge(fact.better, change)
    text = format_change(change, fact.comparative, is_points=fact.is_share)
    return Difference(text, effect)


def _differ_in_speed(
    fact: ComparedFact, run: ComparedRun, value: float, first: float
) -> Difference | None:
    """Return how far two speeds are apart, as sure as the comparison of the times per step is."""
    change = _find_change(value, first)
    if run.against is None or not math.isfinite(change):
        return None
    text = format_change(change, fact.comparative)
    # Steps of other batches: what the comparison finds is the time per sample.
    if run.is_per_sample and fact.label == TIME_PER_STEP:
        return Difference(text, Effect.PLAIN)
    effect = Effect.UNCERTAIN if abs(change) >= LEAST_CHANGE else Effect.PLAIN
    if run.same_work_settings and effect is Effect.UNCERTAIN:
        if fact.label != TIME_PER_STEP:
            return Difference(text, Effect.PLAIN)
        return Difference(text, Effect.PLAIN, blame_machine(run.same_work_settings))
    if run.against.finding is not Finding.NOT_SHOWN and not run.doubt:
        is_faster = run.against.finding is Finding.FASTER
        effect = Effect.BETTER if is_faster else Effect.WORSE
        # Of a script's batches nobody knows, more samples may come with slower steps.
        if effect is not _judge(fact.better, change):
            effect = Effect.PLAIN
    return Difference(text, effect)


def blame_machine(settings: Sequence[str]) -> str:
    """Say what makes two times per step differ: settings that leave the work of a step as it is
    cannot."""
    return f"due to the machine, not to {listed(list(settings))}"


def _differ_in_accuracy(
    test: EvaluationFigures | None, first_test: EvaluationFigures | None
) -> Difference | None:
    """Return how far the accuracies of two tests are apart, and whether test sets of their sizes
    show so small a difference."""
    if test is None or first_test is None:
        return None
    difference = test.accuracy - first_test.accuracy
    if not math.isfinite(difference):
        return None
    effect = Effect.PLAIN
    if abs(difference) >= LEAST_CHANGE:
        is_sure = is_accuracy_different(test, first_test)
        effect = _judge(Better.HIGHER, difference) if is_sure else Effect.UNCERTAIN
    return Difference(format_change(difference, HEIGHT, is_points=True), effect)


def is_accuracy_different(test: EvaluationFigures, other: EvaluationFigures) -> bool:
    """Return True if test sets of these sizes show that two accuracies differ."""
    variance = _accuracy_variance(test) + _accuracy_variance(other)
    difference = abs(test.accuracy - other.accuracy)
    return difference >= max(LEAST_CHANGE, DEVIATIONS * math.sqrt(variance))


def _accuracy_variance(test: EvaluationFigures) -> float:
    accuracy = min(max(test.accuracy, 0.0), 1.0)
    return accuracy * (1 - accuracy) / max(test.samples, 1)


def _judge(better: Better, change: float) -> Effect:
    return Effect.BETTER if change * better.value > 0 else Effect.WORSE


def _find_change(value: float, first: float) -> float:
    if value == first:
        return 0.0
    return value / first - 1 if first > 0 else math.nan


def format_change(change: float, comparative: Comparative, *, is_points: bool = False) -> str:
    """Return a change by a share in words: "12.5% longer", a large one as "3.5x as long".

    `is_points`: of a figure that is a percentage itself, as "1.2 points higher".
    """
    if abs(change) < LEAST_CHANGE:
        return "the same"
    if change >= MANY_TIMES - 1 and not is_points:
        ratio = min(1 + change, MOST_TIMES)
        return f"{_format_times(ratio)} {comparative.as_much}"
    unit = " points" if is_points else "%"
    word = comparative.more if change > 0 else comparative.less
    return f"{100 * abs(change):,.1f}{unit} {word}"


def format_change_bounds(low: float, high: float) -> str:
    """Return two bounds of a change of a time in words: "12.5 to 14.0% longer"."""
    if low < 0 < high:
        return f"{format_change(low, LENGTH)} to {format_change(high, LENGTH)}"
    word = LENGTH.more if low >= 0 else LENGTH.less
    least, most = sorted((abs(low), abs(high)))
    return f"{100 * least:,.1f} to {100 * most:,.1f}% {word}"


def _format_times(ratio: float) -> str:
    return f"{ratio:,.1f}x" if ratio < 10 else f"{ratio:,.0f}x"


def _time_to_goal(compared: Sequence[ComparedRun]) -> Iterator[FactRow]:
    """Yield the time to an accuracy that all runs have reached."""
    goal = compared[0].goal
    if math.isnan(goal):
        return
    label = f"time to {percent(goal)}"
    fact = ComparedFact(label, "", exact_duration, LENGTH, Better.LOWER, is_main=True)
    yield _make_row(fact, compared, [run.seconds_to_goal for run in compared])


def _time_interval(compared: Sequence[ComparedRun]) -> Iterator[FactRow]:
    """Yield within which bounds the time per step is known."""
    values = [format_interval(run.seconds.low, run.seconds.high) for run in compared]
    if all(value == UNKNOWN for value in values):
        return
    differences = [_differ_in_bounds(run) for run in compared]
    yield FactRow(INTERVAL, tuple(values), tuple(differences))


def _differ_in_bounds(run: ComparedRun) -> Difference | None:
    if run.against is None or not math.isfinite(run.against.ratio.low) or run.is_per_sample:
        return None
    ratio = run.against.ratio
    return Difference(format_change_bounds(ratio.low - 1, ratio.high - 1), Effect.PLAIN)


def format_interval(low: float, high: float) -> str:
    """Format two bounds of a time per step, with their unit once: "15 to 17 ms"."""
    if not (math.isfinite(low) and math.isfinite(high)):
        return UNKNOWN
    low_text = step_time(low)
    high_text = step_time(high)
    if low_text == high_text:
        return low_text
    low_number, _, low_unit = low_text.partition(" ")
    if high_text.endswith(f" {low_unit}"):
        low_text = low_number
    return f"{low_text} to {high_text}"
