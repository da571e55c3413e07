"""What came out of a study, in sentences, and how sure that is. Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence

from remote.format import count, listed
from remote.metrics.doubt import Doubt, sentences
from remote.statistics.comparison import Finding
from remote.statistics.interval import Interval, IntervalMethod
from remote.statistics.mean import finite_mean
from remote.study.results import CellResult, StudyResult
from remote.study.shortcomings import limit_lines
from remote.study.study import Cell, Study, StudyAxis
from remote.study.wording import (
    cell_name,
    change_range,
    change_text,
    is_bounded,
    other_values,
    ratio_text,
    value_text,
)

UNKNOWN_INTERVAL = Interval(math.nan, math.nan, math.nan, 0, IntervalMethod.NONE)
CHANCE = "one run of a cell cannot show whether that is more than chance: repeat it"


def conclusion_lines(result: StudyResult) -> list[str]:
    """Return all that is said of the results, a line each.

    First what is in doubt, then the answer, what the other axes change, and what limits it.
    """
    return [
        *doubt_lines(result),
        answer_text(result),
        *effect_lines(result),
        *limit_lines(result),
    ]


def doubt_lines(result: StudyResult) -> list[str]:
    """Return which figures cannot be what more hosts bring, and why, a line each."""
    return sentences(result.doubts, _names_in_doubts(result.study))


def doubt_text(study: Study, doubt: Doubt) -> str:
    """Return why a figure of a study cannot be used."""
    return sentences([doubt], _names_in_doubts(study))[0]


def _names_in_doubts(study: Study) -> dict[str, str]:
    """Return what sentences on doubts call the cells: "nodes=4" says more there than "4"."""
    names = {}
    for cell in study.cells:
        name = cell_name(study, cell)
        names[cell.key] = cell.key if name[:1].isdecimal() else name
    return names


# The answer ---------------------------------------------------------------------------------------


def answer_text(result: StudyResult) -> str:
    """Return one sentence: what is best and by how much, and how sure that is."""
    study = result.study
    if not any(row.value for row in result.cells):
        return "nothing was measured: every run failed or is missing"
    compared = [row for row in result.cells if math.isfinite(_ratio_of(row).value)]
    if not compared:
        return f"best {study.measured}: {_best_cell(result)}"
    if not study.compares_times and all(row.is_same for row in compared):
        labels = dict.fromkeys(row.cell.label(study.compare) for row in compared)
        names = listed([*labels, study.reference], len(labels) + 1)
        return f"{names} have the same {study.measured} in every run, within rounding"
    best_label, mean = _best_label(result)
    doubtful = [row for row in compared if row.doubt]
    if any(row.cell.label(study.compare) == best_label for row in doubtful):
        comparisons = count(len(compared), "comparison")
        return f"no answer: {len(doubtful)} of {comparisons} cannot be used"
    usable = [row for row in compared if not row.doubt]
    if not any(is_bounded(_ratio_of(row)) for row in usable):
        best = _superlative(study, study.reference)
        if _advantage(study, mean.value) > 0:
            best = _praise(study, best_label, mean, compared)
        return f"as measured, {best}{_against_baseline(result)}; {CHANCE}"
    if len(usable) == 1:
        text = comparison_text(study, usable[0])
    else:
        text = _best_shown(study, best_label, mean, usable)
    return text + _certainty(usable) + _against_baseline(result)


def _ratio_of(row: CellResult) -> Interval:
    """Return the ratio or difference to the reference; NaN without a comparison."""
    return row.comparison.ratio if row.comparison else UNKNOWN_INTERVAL


def _advantage(study: Study, ratio: float) -> float:
    """Return how much better a ratio or difference is than that of the reference, which is 0."""
    if study.compares_times:
        return 1 - ratio
    return ratio if study.is_higher_better else -ratio


def _is_better(study: Study, ratio: Interval) -> bool:
    """Return whether the whole interval is better than the reference."""
    return _advantage(study, ratio.low) > 0 and _advantage(study, ratio.high) > 0


def _best_cell(result: StudyResult) -> str:
    """Return the best cell and its value."""
    study = result.study
    values = {row.cell.key: row.value.value for row in result.cells if row.value}
    best = max(values, key=lambda key: _advantage(study, values[key]))
    return f"{best}, {value_text(values[best], study)}"


def _best_label(result: StudyResult) -> tuple[str, Interval]:
    """Return the best value of the compared axis beside the reference, with its mean ratio."""
    # Labels without a repetition in common with the reference have no mean.
    known = {key: mean for key, mean in result.overall.items() if math.isfinite(mean.value)}
    means = known or result.overall
    best = max(means, key=lambda label: _advantage(result.study, means[label].value))
    return best, means[best]


def _best_shown(study: Study, label: str, mean: Interval, rows: Sequence[CellResult]) -> str:
    """Return which value of the compared axis is best, and by how much, as far as that is shown."""
    num_shown = sum(row.finding is not Finding.NOT_SHOWN for row in rows)
    comparisons = count(len(rows), "comparison")
    shown = f"; {num_shown} of {comparisons} {'shows' if num_shown == 1 else 'show'} a difference"
    if _is_better(study, mean):
        worse = []
        for row in rows:
            is_worse = row.finding is not Finding.NOT_SHOWN and not _is_better(
                study, _ratio_of(row)
            )
            if is_worse and row.cell.label(study.compare) == label:
                worse.append(other_values(study, row))
        exceptions = f", but not at {listed(worse)}" if worse else ""
        return _praise(study, label, mean, rows) + exceptions + (shown if num_shown else "")
    if not num_shown:
        text = f"no difference shown between {study.reference} and any other in {comparisons}"
        return text + _largest_possible(study, rows)
    better = "higher" if study.is_higher_better else "lower"
    aim = "be faster" if study.compares_times else f"have a {better} {study.measured}"
    everywhere = " everywhere" if any(_is_better(study, _ratio_of(row)) for row in rows) else ""
    return f"no {study.compare} is shown to {aim} than {study.reference}{everywhere}{shown}"


def _superlative(study: Study, label: str) -> str:
    if study.compares_times:
        return f"{label} is fastest"
    extreme = "highest" if study.is_higher_better else "lowest"
    return f"{label} has the {extreme} {study.measured}"


def _praise(study: Study, label: str, mean: Interval, rows: Sequence[CellResult]) -> str:
    """Return by how much a label is best. Some of `rows` are its cells."""
    text = _superlative(study, label)
    own_rows = [row for row in rows if row.cell.label(study.compare) == label]
    averaged = f", averaged over {count(len(own_rows), 'cell')}" if len(own_rows) > 1 else ""
    if study.compares_times:
        shared = max(_on_shared_machine(row, study.counterpart(row.cell)) for row in own_rows)
        gain = ratio_text(mean.inverse())
        return f"{text}: {gain} as fast as {study.reference}{shared}{averaged}"
    if is_bounded(mean):
        return f"{text}: {change_range(study, mean)} against {study.reference}{averaged}"
    return f"{text} ({change_text(study, mean.value)} against {study.reference})"


def _largest_possible(study: Study, rows: Sequence[CellResult]) -> str:
    """Return how large a difference may still be; "" if that is not known."""
    bounds = []
    for row in rows:
        ratio = _ratio_of(row)
        bounds += [abs(_advantage(study, ratio.low)), abs(_advantage(study, ratio.high))]
    if not all(map(math.isfinite, bounds)):
        return ""
    largest = max(bounds)
    if study.compares_times and largest >= 1:
        return " (the runs vary too much to exclude a factor of 2)"
    is_share = study.compares_times or study.metric == "accuracy"
    text = f"{largest:.1%}" if is_share else f"{largest:.2g}"
    return f" (differences of up to {text} cannot be excluded)"


def _certainty(rows: Sequence[CellResult]) -> str:
    """Return how sure the comparisons are, all together."""
    numbers = [_ratio_of(row).runs for row in rows if is_bounded(_ratio_of(row))]
    together = " of all together" if len(numbers) > 1 else ""
    least = min(numbers)
    most = max(numbers)
    runs = count(most, "run") if least == most else f"{least} to {most} runs"
    return f"; 95% sure{together}, from {runs} of each cell"


def _against_baseline(result: StudyResult) -> str:
    """Return how many times as fast as the baseline the fastest cell is.

    Return "" without a baseline, if the comparison with the reference says it, or if a speed-up is
    in doubt, which is said before.
    """
    study = result.study
    baseline = study.cell(study.baseline)
    speed_ups: list[tuple[Interval, CellResult]] = []
    for row in result.cells:
        if row.speed_up and row.cell != baseline and math.isfinite(row.speed_up.value):
            speed_ups.append((row.speed_up, row))
    if not speed_ups or not baseline or any(row.speed_up_doubt for _, row in speed_ups):
        return ""
    times, fastest = max(speed_ups, key=lambda pair: pair[0].value)
    if study.counterpart(fastest.cell) == baseline:
        return ""
    shared = _on_shared_machine(fastest, baseline)
    name = cell_name(study, fastest.cell)
    baseline_name = cell_name(study, baseline)
    return f"; the fastest, {name}, is {ratio_text(times)} as fast as {baseline_name}{shared}"


def _on_shared_machine(row: CellResult, other: Cell | None) -> str:
    """Return that more hosts were faster although they share one machine; "" if they do not."""
    is_shared = any(end.conditions.shares_machine for end in row.runs)
    has_more = other is not None and row.cell.place.nodes > other.place.nodes
    return ", on hosts that share one machine" if is_shared and has_more else ""


# What the answer leaves out -----------------------------------------------------------------------


def effect_lines(result: StudyResult) -> list[str]:
    """Return what the answer leaves out, a line each: what other axes change in a loss or an
    accuracy. The table of cells has all speed-ups."""
    study = result.study
    if not study.compare or study.compares_times:
        return []
    others = [axis for axis in study.axes if axis.name != study.compare]
    return [f"{study.measured} by {axis.name}: {_means(result, axis)}" for axis in others]


def _means(result: StudyResult, axis: StudyAxis) -> str:
    """Return the mean value of the cells at each label of an axis."""
    texts = []
    for label in axis.labels:
        rows = [row for row in result.cells if row.cell.label(axis.name) == label]
        values = [row.value.value for row in rows if row.value]
        if values:
            texts.append(f"{value_text(finite_mean(values), result.study)} ({label})")
    return ", ".join(texts) or "not measured"


# One comparison -----------------------------------------------------------------------------------


def comparison_text(study: Study, row: CellResult) -> str:
    """Return how a cell compares with its reference.

    For example "ring is 1.52 times (1.4 to 1.7) as fast as all_reduce at nodes=4".
    """
    assert row.comparison
    if row.doubt:
        return doubt_text(study, row.doubt)
    place = other_values(study, row)
    other = f"{study.reference} at {place}" if place else study.reference
    label = row.cell.label(study.compare)
    ratio = row.comparison.ratio
    if row.is_same and not study.compares_times:
        return f"{label} has the same {study.measured} as {other}, within rounding"
    if math.isnan(ratio.value):
        return f"{label} and {other} have no repetition in common"
    if is_bounded(ratio) and row.finding is Finding.NOT_SHOWN:
        return f"no difference shown between {label} and {other}"
    if study.compares_times:
        text = f"{label} takes {ratio_text(ratio)} as long as {other}"
        if ratio.value < 1:
            shared = _on_shared_machine(row, study.counterpart(row.cell))
            text = f"{label} is {ratio_text(ratio.inverse())} as fast as {other}{shared}"
    elif is_bounded(ratio):
        change = change_range(study, ratio)
        text = f"{label} has a {row.finding} {study.measured} than {other} ({change})"
    else:
        change = change_text(study, ratio.value)
        text = f"the {study.measured} of {label} is {change} against {other}"
    return text if is_bounded(ratio) else f"as measured, {text}; {CHANCE}"
