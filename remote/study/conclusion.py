"""What came out of a study, in a sentence, and how sure that is. Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence

from remote.format import count, listed
from remote.metrics.doubt import Doubt, sentences
from remote.statistics.comparison import Finding, judge_ratio
from remote.statistics.interval import Interval, ValueScale
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
    is_outcome,
    other_values,
    ratio_text,
    value_text,
)

CHANCE = "one run of a cell cannot show whether that is more than chance: repeat it"


def conclusion_lines(result: StudyResult) -> list[str]:
    """What is in doubt, the answer, what the other axes change, and what limits it, a line each."""
    return [*doubt_lines(result), answer_text(result), *effect_lines(result), *limit_lines(result)]


def doubt_lines(result: StudyResult) -> list[str]:
    """Which figures cannot be what more nodes bring, and why, a line each."""
    return sentences(result.doubts, _names(result.study))


def doubt_text(study: Study, doubt: Doubt) -> str:
    """Why a figure of a study cannot be used, in words."""
    return sentences([doubt], _names(study))[0]


def _names(study: Study) -> dict[str, str]:
    """How sentences on doubts call the cells: "nodes=4" says more there than "4"."""
    names = {cell.key: cell_name(study, cell) for cell in study.cells}
    return {key: key if name[:1].isdecimal() else name for key, name in names.items()}


def answer_text(result: StudyResult) -> str:
    """One sentence: what is best and by how much, how many comparisons show a difference, and how
    sure that is."""
    study = result.study
    rows = [row for row in result.cells if row.value]
    if not rows:
        return "nothing was measured: every run failed or is missing"
    compared = [row for row in rows if row.comparison and math.isfinite(row.comparison.ratio.value)]
    if not compared:
        return f"best {study.measured}: {_best(study, rows)}"
    if is_outcome(study) and all(row.is_same for row in compared):
        labels = dict.fromkeys(row.cell.label(study.compare) for row in compared)
        same = [*labels, study.reference]
        names = listed(same, len(same))
        return f"{names} have the same {study.measured} in every run, within rounding"
    in_doubt = {row.cell.label(study.compare) for row in compared if row.doubt}
    if in_doubt and _leader(result)[0] in in_doubt:
        doubtful = sum(row.doubt is not None for row in compared)
        return f"no answer: {doubtful} of {count(len(compared), 'comparison')} cannot be used"
    compared = [row for row in compared if not row.doubt]
    if not any(map(_has_bounds, compared)):
        return f"as measured, {_measured(result)}; {CHANCE}"
    if len(compared) == 1:
        return (
            comparison_text(study, compared[0]) + _certainty(compared) + _against_baseline(result)
        )
    shown = [row for row in compared if row.finding is not Finding.NOT_SHOWN]
    number = f"{len(shown)} of {len(compared)} comparisons"
    lead = _lead(result, compared)
    verb = "shows" if len(shown) == 1 else "show"
    said = f"{lead}; {number} {verb} a difference" if shown else lead
    return said + _certainty(compared) + _against_baseline(result)


def effect_lines(result: StudyResult) -> list[str]:
    """What the answer leaves out, a line each: the speed-up of each value of the compared axis, and
    what other axes change in a loss or an accuracy."""
    study = result.study
    others = [axis for axis in study.axes if axis.name != study.compare]
    if study.compare and is_outcome(study):
        return [f"{study.measured} by {axis.name}: {_means(result, axis)}" for axis in others]
    return _speed_ups(result, others) if len(others) < 2 else []


def _speed_ups(result: StudyResult, others: Sequence[StudyAxis]) -> list[str]:
    """How many times as fast as the baseline cells are: in one line, or where there is another
    axis, one for each value of the compared axis."""
    study = result.study
    baseline = study.cell(study.baseline)
    found: dict[str, list[str]] = {}
    for row in result.cells:
        is_baseline = row.cell == baseline
        if baseline and not is_baseline and row.speed_up and not row.speed_up_doubt:
            label = row.cell.label(study.compare)
            of, at = (label, row.cell.label(others[0].name)) if others else ("", label)
            found.setdefault(of, []).append(f"{row.speed_up.value:.2f} ({at})")
    by = f" by {others[0].name}" if others else ""
    return [
        f"speed-up against {cell_name(study, baseline)}{f' of {of}{by}' if of else ''}: "
        f"{', '.join(values)}"
        for of, values in found.items()
        if baseline
    ]


def _means(result: StudyResult, axis: StudyAxis) -> str:
    """The mean value of the cells at each label of an axis."""
    found = []
    for label in axis.labels:
        cells = [row.value for row in result.cells if row.cell.label(axis.name) == label]
        values = [value.value for value in cells if value]
        if values:
            found.append(f"{value_text(finite_mean(values), result.study)} ({label})")
    return ", ".join(found) or "not measured"


def _lead(result: StudyResult, compared: Sequence[CellResult]) -> str:
    """Which value of the compared axis is best, and by how much."""
    study = result.study
    reference = result.study.reference
    better = _better(study)
    label, mean = _leader(result)
    own = [row for row in compared if row.cell.label(study.compare) == label]
    if judge_ratio(mean, value_scale(study)) is better:
        over = f", averaged over {count(len(own), 'cell')}" if len(own) > 1 else ""
        worse = [row for row in own if row.finding not in (better, Finding.NOT_SHOWN)]
        places = first_names([other_values(study, row) for row in worse])
        but = f", but not at {places}" if worse else ""
        if value_scale(study) is ValueScale.RATIO:
            gain = ratio_text(mean.inverse())
            on = next(filter(None, (_on_of(study, row) for row in own)), "")
            return f"{label} is fastest: {gain} as fast as {reference}{on}{over}{but}"
        best = f"has the {'highest' if better is Finding.HIGHER else 'lowest'}"
        apart = f"{change_range(study, mean)} against {reference}"
        return f"{label} {best} {study.measured}: {apart}{over}{but}"
    if all(row.finding is Finding.NOT_SHOWN for row in compared):
        number = count(len(compared), "comparison")
        bound = _bound(study, compared)
        return f"no difference shown between {reference} and any other in {number}{bound}"
    is_time = value_scale(study) is ValueScale.RATIO
    what = "be faster than" if is_time else f"have a {better.value} {study.measured} than"
    all_over = " everywhere" if any(row.finding is better for row in compared) else ""
    return f"no {study.compare} is shown to {what} {reference}{all_over}"


def _better(study: Study) -> Finding:
    """What a comparison shows of a cell that is better."""
    if value_scale(study) is ValueScale.RATIO:
        return Finding.FASTER
    return Finding.HIGHER if study.is_higher_better else Finding.LOWER


def _measured(result: StudyResult) -> str:
    """Which value of the compared axis is best, where nothing says whether that is chance."""
    study = result.study
    label, mean = _leader(result)
    is_time = value_scale(study) is ValueScale.RATIO
    gain = 1 / mean.value if is_time else mean.value * (1 if study.is_higher_better else -1)
    is_other = gain > (1 if is_time else 0)
    best = label if is_other else study.reference
    if not is_time:
        extreme = "highest" if study.is_higher_better else "lowest"
        apart = f" ({change_text(study, mean.value)} against {study.reference})" if is_other else ""
        return f"{best} has the {extreme} {study.measured}{apart}"
    own = [row for row in result.cells if row.cell.label(study.compare) == best and row.comparison]
    over = f", averaged over {len(own)} cells" if len(own) > 1 else ""
    than = f": {gain:.3g} times as fast as {study.reference}{over}" if is_other else ""
    on = next(filter(None, (_on_of(study, row) for row in own)), "") if than else ""
    return f"{best} is fastest{than}{on}{_against_baseline(result)}"


def _against_baseline(result: StudyResult) -> str:
    """How many times as fast as the baseline the fastest cell is; "" without a baseline, where the
    comparison with the reference says it, or where a speed-up is in doubt: that is said before."""
    study = result.study
    rows = [
        row
        for row in result.cells
        if row.speed_up and math.isfinite(row.speed_up.value) and row.cell.key != study.baseline
    ]
    baseline = study.cell(study.baseline)
    if not rows or not baseline or any(row.speed_up_doubt for row in rows):
        return ""
    best = max(rows, key=lambda row: row.speed_up.value if row.speed_up else -math.inf)
    assert best.speed_up
    other = study.counterpart(best.cell)
    if other and other.key == baseline.key:
        return ""
    name = cell_name(study, best.cell)
    than = cell_name(study, baseline)
    times = best.speed_up
    if times.high < 1 or (times.value < 1 and not is_bounded(times)):
        slower = f"the fastest, {name}, takes {ratio_text(times.inverse())} as long"
        return f"; none is as fast as {than}: {slower}"
    if times.low <= 1:
        return f"; no difference shown between the fastest, {name}, and {than}"
    return f"; the fastest, {name}, is {ratio_text(times)} as fast as {than}{_on(best, baseline)}"


def _on(row: CellResult, other: Cell) -> str:
    """Say that more nodes were faster although they share one machine; "" where they do not."""
    is_shared = any(end.conditions.shares_machine for end in row.runs)
    has_more = row.cell.place.nodes > other.place.nodes
    return ", on hosts that share one machine" if is_shared and has_more else ""


def _on_of(study: Study, row: CellResult) -> str:
    """Say the same of a cell that is compared with its reference."""
    other = study.counterpart(row.cell)
    return _on(row, other) if other else ""


def _leader(result: StudyResult) -> tuple[str, Interval]:
    """The best value of the compared axis beside the reference."""
    sign = -1 if result.study.is_higher_better else 1

    def rank(comparison_text: tuple[str, Interval]) -> float:
        value = sign * comparison_text[1].value
        return value if math.isfinite(value) else math.inf

    return min(result.overall.items(), key=rank)


def _bound(study: Study, compared: Sequence[CellResult]) -> str:
    """How large a difference may still be; "" where that is not known."""
    ratios = [row.comparison.ratio for row in compared if row.comparison]
    same = 1.0 if value_scale(study) is ValueScale.RATIO else 0.0
    if not all(map(is_bounded, ratios)):
        return ""
    reach = max(max(abs(ratio.high - same), abs(ratio.low - same)) for ratio in ratios)
    if value_scale(study) is ValueScale.RATIO and reach >= 1:
        return " (the runs vary too much to exclude a factor of 2)"
    is_share = value_scale(study) is ValueScale.RATIO or study.metric == "accuracy"
    text = f"{reach:.1%}" if is_share else f"{reach:.2g}"
    return f" (differences of up to {text} cannot be excluded)"


def comparison_text(study: Study, row: CellResult) -> str:
    """A cell against its reference: "ring is 1.52 times (1.4 to 1.7) as fast as all_reduce at
    nodes=4"."""
    assert row.comparison
    if row.doubt:
        return doubt_text(study, row.doubt)
    where = other_values(study, row)
    other = f"{study.reference}{f' at {where}' if where else ''}"
    label = row.cell.label(study.compare)
    ratio = row.comparison.ratio
    if is_outcome(study) and row.is_same:
        return f"{label} has the same {study.measured} as {other}, within rounding"
    if math.isnan(ratio.value):
        return f"{label} and {other} have no repetition in common"
    if not is_bounded(ratio):
        if value_scale(study) is ValueScale.DIFFERENCE:
            said = f"the {study.measured} of {label} is {change_text(study, ratio.value)}"
            return f"as measured, {said} against {other}; {CHANCE}"
        is_faster = ratio.value < 1
        verb = (
            f"is {ratio_text(ratio.inverse())} as fast"
            if is_faster
            else f"takes {ratio_text(ratio)} as long"
        )
        return f"as measured, {label} {verb} as {other}; {CHANCE}"
    match row.comparison.finding:
        case Finding.FASTER:
            gain = ratio_text(ratio.inverse())
            return f"{label} is {gain} as fast as {other}{_on_of(study, row)}"
        case Finding.SLOWER:
            return f"{label} takes {ratio_text(ratio)} as long as {other}"
        case Finding.HIGHER | Finding.LOWER as found:
            apart = change_range(study, ratio)
            return f"{label} has a {found.value} {study.measured} than {other} ({apart})"
        case _:
            return f"no difference shown between {label} and {other}"


def _best(study: Study, rows: list[CellResult]) -> str:
    """The best cell and its value."""
    sign = -1 if study.is_higher_better else 1
    best = min(rows, key=lambda row: sign * row.value.value if row.value else math.inf)
    return f"{best.cell.key}, {value_text(best.value.value, study)}" if best.value else ""


def _has_bounds(row: CellResult) -> bool:
    return row.comparison is not None and is_bounded(row.comparison.ratio)


def _certainty(compared: Sequence[CellResult]) -> str:
    """How sure the comparisons are, all together."""
    ratios = [row.comparison.ratio for row in compared if row.comparison and _has_bounds(row)]
    together = " of all together" if len(ratios) > 1 else ""
    least = min(ratio.runs for ratio in ratios)
    most = max(ratio.runs for ratio in ratios)
    runs = count(most, "run") if least == most else f"{least} to {most} runs"
    return f"; 95% sure{together}, from {runs} of each cell"
