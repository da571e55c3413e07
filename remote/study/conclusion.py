"""What came out of a study, in a sentence, and how sure that is. Pure."""

from __future__ import annotations

import math

from remote.format import percent, seconds
from remote.statistics.interval import Interval
from remote.statistics.ratio import Finding
from remote.study.progress import CellState
from remote.study.results import CellResult, StudyResult
from remote.study.study import METRICS, Study

SHOWN = {Finding.FASTER, Finding.SLOWER, Finding.HIGHER, Finding.LOWER}


def conclusion(result: StudyResult) -> list[str]:
    """One sentence with the answer, then what limits it, a line each."""
    return [_answer(result), *_limits(result)]


def _answer(result: StudyResult) -> str:
    study = result.study
    rows = [row for row in result.cells if row.value]
    if not rows:
        return "nothing was measured: every run failed or is missing"
    best = _best(study, rows)
    compared = [row for row in rows if row.comparison]
    if not compared:
        what = METRICS[study.metric]
        return f"best {what}: {best.cell.key}, {_value(best.value, study)}"
    groups = [_group(study, row) for row in compared]
    return "; ".join(dict.fromkeys(groups)) + _certainty(compared)


def _best(study: Study, rows: list[CellResult]) -> CellResult:
    sign = -1 if study.metric == "accuracy" else 1
    return min(rows, key=lambda row: sign * row.value.value if row.value else math.inf)


def _group(study: Study, row: CellResult) -> str:
    """A cell against its reference: "ring is 1.52 times as fast as all_reduce (1.4 to 1.7) at
    nodes=4"."""
    assert row.comparison
    others = [f"{name}={label}" for name, label in row.cell.labels if name != study.compare]
    where = f" at {' '.join(others)}" if others else ""
    label, ratio = row.cell.label(study.compare), row.comparison.ratio
    match row.comparison.finding:
        case Finding.FASTER:
            text = f"{_times(ratio.inverse())} as fast as"
        case Finding.SLOWER:
            text = f"{_times(ratio)} as slow as"
        case Finding.HIGHER | Finding.LOWER as found:
            text = f"has a {found.value} {METRICS[study.metric]} than {study.reference}{where}"
            return f"{label} {text} ({_difference(study, ratio)})"
        case _:
            return f"no difference shown between {label} and {study.reference}{where}"
    return f"{label} is {text} {study.reference}{where}"


def _times(ratio: Interval) -> str:
    return f"{ratio.value:.3g} times ({ratio.low:.3g} to {ratio.high:.3g})"


def _difference(study: Study, interval: Interval) -> str:
    if study.metric == "accuracy":
        return f"{interval.low:+.1%} to {interval.high:+.1%}"
    return f"{interval.low:+.3g} to {interval.high:+.3g}"


def _value(value: Interval | None, study: Study) -> str:
    if value is None:
        return ""
    if study.metric == "accuracy":
        return percent(value.value, 1)
    return f"{value.value:.4f}" if study.metric == "loss" else f"{seconds(value.value)} s"


def _certainty(compared: list[CellResult]) -> str:
    """How sure the comparisons are, all together."""
    runs = min(row.comparison.ratio.runs for row in compared if row.comparison)
    if runs < 2:
        return "; one run of each cell shows nothing about chance: repeat it"
    return f"; 95% sure of all comparisons together, from {runs} runs of each cell"


def _limits(result: StudyResult) -> list[str]:
    found = []
    missing = [
        row.cell.key for row in result.cells if row.state in (CellState.FAILED, CellState.WAITING)
    ]
    if missing:
        found.append(f"not complete: {', '.join(missing)}")
    unstable = [row.cell.key for row in result.cells if not row.stability.stable]
    if unstable:
        found.append(
            f"unstable from run to run: {', '.join(unstable)}: repeat with --until-stable 5"
        )
    remarks = dict.fromkeys(
        text for row in result.cells for end in row.runs for text in end.remarks
    )
    return [*found, *remarks]
