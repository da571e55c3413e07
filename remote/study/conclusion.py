"""What came out of a study, in sentences, and how sure that is. Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence

from remote.format import count, listed
from remote.metrics.doubt import Doubt, sentences
from remote.statistics.comparison import Finding, judge_ratio
from remote.statistics.interval import Interval
from remote.statistics.mean import finite_mean
from remote.study.results import CellResult, StudyResult, value_scale
from remote.study.shortcomings import limit_lines
from remote.study.study import Cell, Study, StudyAxis
from remote.study.wording import (
    cell_name,
    change_range,
    change_text,
    first_names,
    is_bounded,
    other_values,
    ratio_text,
    value_text,
)

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
    measured = [row for row in result.cells if row.value]
    if not measured:
        return "nothing was measured: every run failed or is missing"
    compared = [row for row in measured if _is_compared(row)]
    if not compared:
        return f"best {study.measured}: {_best_cell(study, measured)}"
    if not study.compares_times and all(row.is_same for row in compared):
        labels = dict.fromkeys(row.cell.label(study.compare) for row in compared)
        names = listed([*labels, study.reference], len(labels) + 1)
        return f"{names} have the same {study.measured} in every run, within rounding"
    doubtful = [row for row in compared if row.doubt]
    best_label, _ = _best_label(result)
    if any(row.cell.label(study.compare) == best_label for row in doubtful):
        comparisons = count(len(compared), "comparison")
        return f"no answer: {len(doubtful)} of {comparisons} cannot be used"
    usable = [row for row in compared if not row.doubt]
    if not any(_has_bounds(row) for row in usable):
        return f"as measured, {_best_as_measured(result)}; {CHANCE}"
    ending = _certainty(usable) + _against_baseline(result)
    if len(usable) == 1:
        return comparison_text(study, usable[0]) + ending
    text = _best_shown(result, usable)
    num_shown = sum(row.finding is not Finding.NOT_SHOWN for row in usable)
    if num_shown:
        verb = "shows" if num_shown == 1 else "show"
        text += f"; {num_shown} of {len(usable)} comparisons {verb} a difference"
    return text + ending


def _is_compared(row: CellResult) -> bool:
    return row.comparison is not None and math.isfinite(row.comparison.ratio.value)


def _has_bounds(row: CellResult) -> bool:
    return row.comparison is not None and is_bounded(row.comparison.ratio)


def _best_cell(study: Study, rows: Sequence[CellResult]) -> str:
    """Return the best cell and its value."""
    sign = -1 if study.is_higher_better else 1
    best = min(rows, key=lambda row: sign * row.value.value if row.value else math.inf)
    assert best.value
    return f"{best.cell.key}, {value_text(best.value.value, study)}"


def _best_label(result: StudyResult) -> tuple[str, Interval]:
    """Return the best value of the compared axis beside the reference, with its mean ratio."""
    sign = -1 if result.study.is_higher_better else 1

    def rank(pair: tuple[str, Interval]) -> float:
        value = sign * pair[1].value
        return value if math.isfinite(value) else math.inf

    return min(result.overall.items(), key=rank)


def _better_finding(study: Study) -> Finding:
    """Return what a comparison shows of a cell that is better."""
    if study.compares_times:
        return Finding.FASTER
    return Finding.HIGHER if study.is_higher_better else Finding.LOWER


def _best_shown(result: StudyResult, rows: Sequence[CellResult]) -> str:
    """Return which value of the compared axis is best, and by how much, as far as that is shown."""
    study = result.study
    better = _better_finding(study)
    label, mean = _best_label(result)
    if judge_ratio(mean, value_scale(study)) is better:
        own_rows = [row for row in rows if row.cell.label(study.compare) == label]
        worse = [row for row in own_rows if row.finding not in (better, Finding.NOT_SHOWN)]
        text = _praise(study, label, mean, own_rows)
        if not worse:
            return text
        return f"{text}, but not at {first_names([other_values(study, row) for row in worse])}"
    if all(row.finding is Finding.NOT_SHOWN for row in rows):
        comparisons = count(len(rows), "comparison")
        text = f"no difference shown between {study.reference} and any other in {comparisons}"
        return text + _largest_possible(study, rows)
    aim = "be faster" if study.compares_times else f"have a {better.value} {study.measured}"
    everywhere = " everywhere" if any(row.finding is better for row in rows) else ""
    return f"no {study.compare} is shown to {aim} than {study.reference}{everywhere}"


def _best_as_measured(result: StudyResult) -> str:
    """Return which value of the compared axis is best, if nothing says whether that is chance."""
    study = result.study
    label, mean = _best_label(result)
    is_lower = mean.value < (1 if study.compares_times else 0)
    is_equal = mean.value == (1 if study.compares_times else 0)
    if is_equal or is_lower == study.is_higher_better:
        text = _superlative(study, study.reference)
    else:
        rows = [row for row in result.cells if row.comparison]
        own_rows = [row for row in rows if row.cell.label(study.compare) == label]
        text = _praise(study, label, mean, own_rows)
    return text + (_against_baseline(result) if study.compares_times else "")


def _superlative(study: Study, label: str) -> str:
    if study.compares_times:
        return f"{label} is fastest"
    extreme = "highest" if study.is_higher_better else "lowest"
    return f"{label} has the {extreme} {study.measured}"


def _praise(study: Study, label: str, mean: Interval, rows: Sequence[CellResult]) -> str:
    """Return by how much a label is best. `rows` are its cells."""
    text = _superlative(study, label)
    averaged = f", averaged over {count(len(rows), 'cell')}" if len(rows) > 1 else ""
    if study.compares_times:
        shared = next(filter(None, (_on_shared_machine(study, row) for row in rows)), "")
        gain = ratio_text(mean.inverse())
        return f"{text}: {gain} as fast as {study.reference}{shared}{averaged}"
    if is_bounded(mean):
        return f"{text}: {change_range(study, mean)} against {study.reference}{averaged}"
    return f"{text} ({change_text(study, mean.value)} against {study.reference})"


def _largest_possible(study: Study, rows: Sequence[CellResult]) -> str:
    """Return how large a difference may still be; "" if that is not known."""
    ratios = [row.comparison.ratio for row in rows if row.comparison]
    if not all(is_bounded(ratio) for ratio in ratios):
        return ""
    same = 1.0 if study.compares_times else 0.0
    largest = max(max(abs(ratio.high - same), abs(ratio.low - same)) for ratio in ratios)
    if study.compares_times and largest >= 1:
        return " (the runs vary too much to exclude a factor of 2)"
    is_share = study.compares_times or study.metric == "accuracy"
    text = f"{largest:.1%}" if is_share else f"{largest:.2g}"
    return f" (differences of up to {text} cannot be excluded)"


def _certainty(rows: Sequence[CellResult]) -> str:
    """Return how sure the comparisons are, all together."""
    ratios = [row.comparison.ratio for row in rows if row.comparison and _has_bounds(row)]
    together = " of all together" if len(ratios) > 1 else ""
    least = min(ratio.runs for ratio in ratios)
    most = max(ratio.runs for ratio in ratios)
    runs = count(most, "run") if least == most else f"{least} to {most} runs"
    return f"; 95% sure{together}, from {runs} of each cell"


def _against_baseline(result: StudyResult) -> str:
    """Return how many times as fast as the baseline the fastest cell is.

    Return "" without a baseline, if the comparison with the reference says it, or if a speed-up is
    in doubt, which is said before.
    """
    study = result.study
    baseline = study.cell(study.baseline)
    speed_ups = {}
    for row in result.cells:
        if row.speed_up and math.isfinite(row.speed_up.value) and row.cell != baseline:
            speed_ups[row.cell.key] = row.speed_up
            if row.speed_up_doubt:
                return ""
    if not speed_ups or not baseline:
        return ""
    key = max(speed_ups, key=lambda key: speed_ups[key].value)
    fastest = next(row for row in result.cells if row.cell.key == key)
    if study.counterpart(fastest.cell) == baseline:
        return ""
    times = speed_ups[key]
    name = cell_name(study, fastest.cell)
    baseline_name = cell_name(study, baseline)
    if times.high < 1 or (times.value < 1 and not is_bounded(times)):
        slower = f"the fastest, {name}, takes {ratio_text(times.inverse())} as long"
        return f"; none is as fast as {baseline_name}: {slower}"
    if times.low <= 1:
        return f"; no difference shown between the fastest, {name}, and {baseline_name}"
    shared = _on_shared_with(fastest, baseline)
    return f"; the fastest, {name}, is {ratio_text(times)} as fast as {baseline_name}{shared}"


def _on_shared_with(row: CellResult, other: Cell) -> str:
    """Return that more hosts were faster although they share one machine; "" if they do not."""
    is_shared = any(end.conditions.shares_machine for end in row.runs)
    has_more = row.cell.place.nodes > other.place.nodes
    return ", on hosts that share one machine" if is_shared and has_more else ""


def _on_shared_machine(study: Study, row: CellResult) -> str:
    """Return the same of a cell that is compared with its reference."""
    other = study.counterpart(row.cell)
    return _on_shared_with(row, other) if other else ""


# What the answer leaves out -----------------------------------------------------------------------


def effect_lines(result: StudyResult) -> list[str]:
    """Return what the answer leaves out, a line each.

    These are the speed-ups of each value of the compared axis, or what other axes change in a loss
    or an accuracy.
    """
    study = result.study
    others = [axis for axis in study.axes if axis.name != study.compare]
    if study.compare and not study.compares_times:
        return [f"{study.measured} by {axis.name}: {_means(result, axis)}" for axis in others]
    return _speed_up_lines(result, others) if len(others) < 2 else []


def _speed_up_lines(result: StudyResult, others: Sequence[StudyAxis]) -> list[str]:
    """Return the speed-ups against the baseline.

    They stand in one line, or, with another axis, in one for each value of the compared axis.
    """
    study = result.study
    baseline = study.cell(study.baseline)
    if not baseline:
        return []
    lines: dict[str, list[str]] = {}
    for row in result.cells:
        if row.cell == baseline or not row.speed_up or row.speed_up_doubt:
            continue
        start = ""
        place = label = row.cell.label(study.compare)
        if others:
            start = f" of {label} by {others[0].name}"
            place = row.cell.label(others[0].name)
        lines.setdefault(start, []).append(f"{row.speed_up.value:.2f} ({place})")
    name = cell_name(study, baseline)
    return [f"speed-up against {name}{start}: {', '.join(texts)}" for start, texts in lines.items()]


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
    if not is_bounded(ratio):
        return f"as measured, {_difference_text(study, label, ratio, other)}; {CHANCE}"
    match row.comparison.finding:
        case Finding.NOT_SHOWN:
            return f"no difference shown between {label} and {other}"
        case Finding.FASTER | Finding.SLOWER:
            text = _difference_text(study, label, ratio, other)
            shared = _on_shared_machine(study, row) if ratio.value < 1 else ""
            return f"{text}{shared}"
        case finding:
            change = change_range(study, ratio)
            return f"{label} has a {finding.value} {study.measured} than {other} ({change})"


def _difference_text(study: Study, label: str, ratio: Interval, other: str) -> str:
    """Return by how much a cell is faster or slower, or by how much its value differs."""
    if not study.compares_times:
        change = change_text(study, ratio.value)
        return f"the {study.measured} of {label} is {change} against {other}"
    if ratio.value < 1:
        return f"{label} is {ratio_text(ratio.inverse())} as fast as {other}"
    return f"{label} takes {ratio_text(ratio)} as long as {other}"
