"""What came out of a study, in a sentence, and how sure that is. Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence

from remote.format import count, percent, seconds
from remote.run.progress import not_learned
from remote.statistics.interval import Interval, Scale
from remote.statistics.ratio import Finding, finding
from remote.study.progress import CellState, Progress
from remote.study.results import CellResult, StudyResult, is_per_sample, scale
from remote.study.study import METRICS, Axis, Cell, Study

BETTER = {"step_seconds": Finding.FASTER, "elapsed": Finding.FASTER, "loss": Finding.LOWER}
"""What a comparison shows of a cell that is better; of an accuracy it is higher."""
NAMED = 3
"""The most cells that a line names."""
CHANCE = "one run of a cell cannot show whether that is more than chance: repeat it"


def conclusion(result: StudyResult) -> list[str]:
    """The answer, what the other axes change, and what limits it, a line each."""
    return [answer(result), *effects(result), *limits(result)]


def answer(result: StudyResult) -> str:
    """One sentence: what is best and by how much, how many comparisons show a difference, and how
    sure that is."""
    study = result.study
    rows = [row for row in result.cells if row.value]
    if not rows:
        return "nothing was measured: every run failed or is missing"
    compared = [row for row in rows if row.comparison and math.isfinite(row.comparison.ratio.value)]
    if not compared:
        return f"best {METRICS[study.metric]}: {_best(study, rows)}"
    if _is_outcome(study) and all(row.is_same for row in compared):
        labels = dict.fromkeys(row.cell.label(study.compare) for row in compared)
        names = _listed([*labels, study.reference])
        return f"{names} have the same {METRICS[study.metric]} in every run, within rounding"
    if not any(map(_has_bounds, compared)):
        return f"as measured, {_measured(result)}; {CHANCE}"
    if len(compared) == 1:
        return pair(study, compared[0]) + _certainty(compared) + _against_baseline(result)
    shown = [row for row in compared if row.finding is not Finding.NOT_SHOWN]
    number = f"{len(shown)} of {len(compared)} comparisons"
    lead, verb = _lead(result, compared), "shows" if len(shown) == 1 else "show"
    said = f"{lead}; {number} {verb} a difference" if shown else lead
    return said + _certainty(compared) + _against_baseline(result)


def effects(result: StudyResult) -> list[str]:
    """What the answer leaves out, a line each: the speed-up of each value of the compared axis, and
    what other axes change in a loss or an accuracy."""
    study = result.study
    others = [axis for axis in study.axes if axis.name != study.compare]
    if study.compare and _is_outcome(study):
        return [
            f"{METRICS[study.metric]} by {axis.name}: {_means(result, axis)}" for axis in others
        ]
    return _speed_ups(result, others) if len(others) < 2 else []


def _speed_ups(result: StudyResult, others: Sequence[Axis]) -> list[str]:
    """How many times as fast as the baseline cells are: in one line, or where there is another
    axis, one for each value of the compared axis."""
    study = result.study
    baseline = study.cell(study.baseline)
    found: dict[str, list[str]] = {}
    for row in result.cells:
        if baseline and row.cell != baseline and row.speed_up:
            label = row.cell.label(study.compare)
            of, at = (label, row.cell.label(others[0].name)) if others else ("", label)
            found.setdefault(of, []).append(f"{row.speed_up.value:.2f} ({at})")
    by = f" by {others[0].name}" if others else ""
    return [
        f"speed-up against {_name(study, baseline)}{f' of {of}{by}' if of else ''}: "
        f"{', '.join(values)}"
        for of, values in found.items()
        if baseline
    ]


def _means(result: StudyResult, axis: Axis) -> str:
    """The mean value of the cells at each label of an axis."""
    found = []
    for label in axis.labels:
        cells = [row.value for row in result.cells if row.cell.label(axis.name) == label]
        if values := [value.value for value in cells if value]:
            found.append(f"{_text(math.fsum(values) / len(values), result.study)} ({label})")
    return ", ".join(found) or "not measured"


def limits(result: StudyResult) -> list[str]:
    """What limits the answer, a line each: what is missing or unstable, and remarks on runs."""
    found = ["compared per sample: global batches differ"] if is_per_sample(result.study) else []
    missing = [
        row.cell.key for row in result.cells if row.state in (CellState.FAILED, CellState.WAITING)
    ]
    if missing:
        total = count(len(result.cells), "cell")
        found.append(f"not complete: {len(missing)} of {total}: {_some(missing)}")
    unstable = [row for row in result.cells if not row.stability.stable]
    if unstable and _is_outcome(result.study):
        names = _some([row.cell.key for row in unstable])
        found.append(f"differs from seed to seed by 10% or more: {names}")
    elif unstable:
        is_repeated = all(len(row.runs) > result.study.repetitions for row in unstable)
        advice = "" if is_repeated else ": repeat with --until-stable 5"
        names = _some([row.cell.key for row in unstable])
        found.append(f"unstable from run to run: {names}{advice}")
    if result.left_out:
        found.append(f"left out of comparisons, as outliers: {_some(result.left_out)}")
    remarks = dict.fromkeys(
        text for row in result.cells for end in row.runs for text in end.remarks
    )
    learned = not_learned(
        (end.trial, *end.losses) for row in result.cells for end in row.runs if end.losses
    )
    return [*found, *([learned] if learned else []), *remarks]


def failures(progress: Progress) -> list[str]:
    """Why cells failed, a line for each reason."""
    found: dict[str, tuple[str, list[str]]] = {}
    for cell in progress.cells.values():
        for reason, cause in {end.reason: end.cause for end in cell.failed.values()}.items():
            found.setdefault(reason or cause, (cause, []))[1].append(cell.cell.key)
    total = len(progress.cells)
    return [
        f"{f'all {total} cells' if len(keys) == total > 1 else _some(keys)} failed: {cause}"
        for cause, keys in found.values()
        if cause
    ]


def _lead(result: StudyResult, compared: Sequence[CellResult]) -> str:
    """Which value of the compared axis is best, and by how much."""
    study, reference = result.study, result.study.reference
    better = BETTER.get(study.metric, Finding.HIGHER)
    label, mean = _leader(result)
    own = [row for row in compared if row.cell.label(study.compare) == label]
    if finding(mean, scale(study)) is better:
        over = f", averaged over {count(len(own), 'cell')}" if len(own) > 1 else ""
        worse = [row for row in own if row.finding not in (better, Finding.NOT_SHOWN)]
        places = _some([_where(study, row) for row in worse])
        but = f", but not at {places}" if worse else ""
        if scale(study) is Scale.RATIO:
            return f"{label} is fastest: {_times(mean.inverse())} as fast as {reference}{over}{but}"
        best = f"has the {'highest' if better is Finding.HIGHER else 'lowest'}"
        apart = f"{_difference(study, mean)} against {reference}"
        return f"{label} {best} {METRICS[study.metric]}: {apart}{over}{but}"
    if all(row.finding is Finding.NOT_SHOWN for row in compared):
        number = count(len(compared), "comparison")
        bound = _bound(study, compared)
        return f"no difference shown between {reference} and any other in {number}{bound}"
    is_time = scale(study) is Scale.RATIO
    what = "be faster than" if is_time else f"have a {better.value} {METRICS[study.metric]} than"
    all_over = " everywhere" if any(row.finding is better for row in compared) else ""
    return f"no {study.compare} is shown to {what} {reference}{all_over}"


def _measured(result: StudyResult) -> str:
    """Which value of the compared axis is best, where nothing says whether that is chance."""
    study = result.study
    label, mean = _leader(result)
    is_time = scale(study) is Scale.RATIO
    gain = 1 / mean.value if is_time else mean.value * (1 if study.metric == "accuracy" else -1)
    is_other = gain > (1 if is_time else 0)
    best = label if is_other else study.reference
    if not is_time:
        extreme = "highest" if study.metric == "accuracy" else "lowest"
        apart = f" ({_apart(study, mean.value)} against {study.reference})" if is_other else ""
        return f"{best} has the {extreme} {METRICS[study.metric]}{apart}"
    own = [row for row in result.cells if row.cell.label(study.compare) == best and row.comparison]
    over = f", averaged over {len(own)} cells" if len(own) > 1 else ""
    than = f": {gain:.3g} times as fast as {study.reference}{over}" if is_other else ""
    return f"{best} is fastest{than}{_against_baseline(result)}"


def _against_baseline(result: StudyResult) -> str:
    """How many times as fast as the baseline the fastest cell is; "" without a baseline, or where
    the comparison with the reference says it."""
    study = result.study
    rows = [
        row
        for row in result.cells
        if row.speed_up and math.isfinite(row.speed_up.value) and row.cell.key != study.baseline
    ]
    baseline = study.cell(study.baseline)
    if not rows or not baseline:
        return ""
    best = max(rows, key=lambda row: row.speed_up.value if row.speed_up else -math.inf)
    assert best.speed_up
    other = study.counterpart(best.cell)
    if other and other.key == baseline.key:
        return ""
    name, than, times = _name(study, best.cell), _name(study, baseline), best.speed_up
    if times.high < 1 or (times.value < 1 and not _is_bounded(times)):
        slower = f"the fastest, {name}, takes {_times(times.inverse())} as long"
        return f"; none is as fast as {than}: {slower}"
    if times.low <= 1:
        return f"; no difference shown between the fastest, {name}, and {than}"
    return f"; the fastest, {name}, is {_times(times)} as fast as {than}"


def _name(study: Study, cell: Cell) -> str:
    """A cell in a sentence: its value of the compared axis, where no other cell has that."""
    label = cell.label(study.compare)
    alone = sum(other.label(study.compare) == label for other in study.cells) == 1
    return label if alone else cell.key


def _leader(result: StudyResult) -> tuple[str, Interval]:
    """The best value of the compared axis beside the reference."""
    sign = -1 if result.study.metric == "accuracy" else 1

    def rank(pair: tuple[str, Interval]) -> float:
        value = sign * pair[1].value
        return value if math.isfinite(value) else math.inf

    return min(result.overall.items(), key=rank)


def _bound(study: Study, compared: Sequence[CellResult]) -> str:
    """How large a difference may still be; "" where that is not known."""
    ratios = [row.comparison.ratio for row in compared if row.comparison]
    same = 1.0 if scale(study) is Scale.RATIO else 0.0
    if not all(map(_is_bounded, ratios)):
        return ""
    reach = max(max(abs(ratio.high - same), abs(ratio.low - same)) for ratio in ratios)
    if scale(study) is Scale.RATIO and reach >= 1:
        return " (the runs vary too much to exclude a factor of 2)"
    text = f"{reach:.2g}" if study.metric == "loss" else f"{reach:.1%}"
    return f" (any is at most {text})"


def pair(study: Study, row: CellResult) -> str:
    """A cell against its reference: "ring is 1.52 times (1.4 to 1.7) as fast as all_reduce at
    nodes=4"."""
    assert row.comparison
    where = _where(study, row)
    other = f"{study.reference}{f' at {where}' if where else ''}"
    label, ratio = row.cell.label(study.compare), row.comparison.ratio
    if _is_outcome(study) and row.is_same:
        return f"{label} has the same {METRICS[study.metric]} as {other}, within rounding"
    if math.isnan(ratio.value):
        return f"{label} and {other} have no repetition in common"
    if not _is_bounded(ratio):
        if scale(study) is Scale.DIFFERENCE:
            said = f"the {METRICS[study.metric]} of {label} is {_apart(study, ratio.value)}"
            return f"as measured, {said} against {other}; {CHANCE}"
        is_faster = ratio.value < 1
        verb = (
            f"is {_times(ratio.inverse())} as fast"
            if is_faster
            else f"takes {_times(ratio)} as long"
        )
        return f"as measured, {label} {verb} as {other}; {CHANCE}"
    match row.comparison.finding:
        case Finding.FASTER:
            return f"{label} is {_times(ratio.inverse())} as fast as {other}"
        case Finding.SLOWER:
            return f"{label} takes {_times(ratio)} as long as {other}"
        case Finding.HIGHER | Finding.LOWER as found:
            apart = _difference(study, ratio)
            return f"{label} has a {found.value} {METRICS[study.metric]} than {other} ({apart})"
        case _:
            return f"no difference shown between {label} and {other}"


def _where(study: Study, row: CellResult) -> str:
    """The cell's values of the other axes."""
    pairs = [f"{name}={label}" for name, label in row.cell.labels if name != study.compare]
    return " ".join(pairs)


def _is_outcome(study: Study) -> bool:
    """Whether the study compares what training leads to, which may be equal."""
    return study.metric in ("loss", "accuracy")


def _best(study: Study, rows: list[CellResult]) -> str:
    """The best cell and its value."""
    sign = -1 if study.metric == "accuracy" else 1
    best = min(rows, key=lambda row: sign * row.value.value if row.value else math.inf)
    return f"{best.cell.key}, {_text(best.value.value, study)}" if best.value else ""


def _times(ratio: Interval) -> str:
    bounds = f" ({ratio.low:.3g} to {ratio.high:.3g})" if _is_bounded(ratio) else ""
    return f"{ratio.value:.3g} times{bounds}"


def _is_bounded(ratio: Interval) -> bool:
    """Whether chance is known."""
    return math.isfinite(ratio.low) and math.isfinite(ratio.high)


def _has_bounds(row: CellResult) -> bool:
    return row.comparison is not None and _is_bounded(row.comparison.ratio)


def _difference(study: Study, interval: Interval) -> str:
    return f"{_apart(study, interval.low)} to {_apart(study, interval.high)}"


def _apart(study: Study, value: float) -> str:
    return f"{value:+.1%}" if study.metric == "accuracy" else f"{value:+.3g}"


def _text(value: float, study: Study) -> str:
    """A value of the study's metric."""
    if study.metric == "accuracy":
        return percent(value, 1)
    return f"{value:.4f}" if study.metric == "loss" else f"{seconds(value)} s"


def _certainty(compared: Sequence[CellResult]) -> str:
    """How sure the comparisons are, all together."""
    ratios = [row.comparison.ratio for row in compared if row.comparison and _has_bounds(row)]
    together = " of all together" if len(ratios) > 1 else ""
    least, most = min(ratio.runs for ratio in ratios), max(ratio.runs for ratio in ratios)
    runs = count(most, "run") if least == most else f"{least} to {most} runs"
    return f"; 95% sure{together}, from {runs} of each cell"


def _some(names: Sequence[str]) -> str:
    """The first of these names, and how many more there are."""
    if len(names) <= NAMED:
        return ", ".join(names)
    return f"{', '.join(names[:NAMED])} and {len(names) - NAMED} more"


def _listed(names: Sequence[str]) -> str:
    *most, last = names
    return f"{', '.join(most)} and {last}"
