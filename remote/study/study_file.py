"""Reads study files. All mistakes are reported at once, each with its line and what to write."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import tomllib

from remote.study.cell_reader import CellReader, read_axes
from remote.study.mistakes import StudyMistakes, format_toml
from remote.study.study import (
    METRIC_PREFIX,
    METRICS,
    SCRIPT_METRICS,
    Study,
    StudyAxis,
    StudyError,
    cell_key,
    named_metric,
)
from remote.study.tables import (
    CompareKeys,
    QuickKeys,
    StudyKeys,
    format_label,
    is_label,
    override,
    read_table,
)
from training.job import names_by_effect
from training.registry import did_you_mean
from training.setting import Effect

SUFFIX = ".toml"
BUNDLED = Path(__file__).parent / "bundled"
MOST_CELLS = 1_000


def read_bundled_studies() -> dict[str, str]:
    """Return the text of each study that comes with rankboard, by name."""
    return {path.stem: path.read_text("utf-8") for path in sorted(BUNDLED.glob("*.toml"))}


def read_study_text(name: str) -> tuple[str, str]:
    """Return the name and the text of a study: a bundled one, or a file. Raises: StudyError."""
    bundled = read_bundled_studies()
    path = Path(name)
    # A file of the user that has the name of a bundled study goes first.
    if name in bundled and not path.is_file():
        return name, bundled[name]
    study_name = path.name.removesuffix(SUFFIX)
    try:
        text = path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise StudyError(f"{name}: not a text in UTF-8 ({error.reason})") from None
    except OSError as error:
        nearest_text = did_you_mean(name, bundled)
        raise StudyError(
            f"{name}: {error.strerror}{nearest_text}: name a file such as study.toml, or a "
            f"bundled study: {', '.join(bundled)}"
        ) from None
    # The list of studies leaves hidden folders out.
    if not is_label(study_name) or study_name.startswith("."):
        raise StudyError(f"{name}: a study has the name of its file: give the file a name")
    return study_name, text


def parse_study(
    name: str,
    text: str,
    given: Mapping[str, Any] | None = None,
    *,
    file: str = "",
    quick: bool = False,
    num_hosts: int = 0,
) -> Study:
    """Return the study of a text. Raises: StudyError, with all mistakes.

    `given` are settings of the job from the command line, which override [job]. `file` names the
    study in mistakes. A cell that does not say on how many hosts it runs, runs on all `num_hosts`;
    0 if their number is not known.
    """
    mistakes = StudyMistakes(file or f"{name}{SUFFIX}", text)
    try:
        study_tables = tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        raise StudyError(f"{mistakes.file}: this is not TOML: {error}") from None
    keys = read_table(StudyKeys, study_tables, mistakes)
    # Read without --quick, too, so that its mistakes do not wait for that option.
    quick_keys = read_table(QuickKeys, keys.quick, mistakes, "quick")
    if quick:
        keys = _shorten(keys, quick_keys)
    num_cells = _count_cells(keys)
    if num_cells > MOST_CELLS:
        # Reading the values of so many cells could take very long.
        mistakes.add(f"{num_cells} cells: write fewer values, at most {MOST_CELLS}")
        mistakes.refuse()
    given = given or {}
    reader = CellReader(mistakes, given, num_hosts)
    study = _read_study(name, keys, reader, given, is_quick=quick)
    mistakes.refuse()
    return study


def _shorten(keys: StudyKeys, changes: QuickKeys) -> StudyKeys:
    """Return the keys with those of [quick]: tables key by key, all else as a whole."""
    updated_keys = {}
    for key in changes.model_fields_set:
        old_value = getattr(keys, key)
        new_value = getattr(changes, key)
        is_table = isinstance(old_value, dict) and isinstance(new_value, dict)
        updated_keys[key] = override(old_value, new_value) if is_table else new_value
    return keys.model_copy(update=updated_keys)


def _count_cells(keys: StudyKeys) -> int:
    """Return how many cells a study would have, from the lengths of its lists alone."""
    lengths = [len(values) for values in keys.axes.values() if isinstance(values, list)]
    return len(keys.cell) + math.prod(lengths)


def _read_study(
    name: str, keys: StudyKeys, reader: CellReader, given: Mapping[str, Any], *, is_quick: bool
) -> Study:
    """Return the study as far as it is free of mistakes."""
    mistakes = reader.mistakes
    num_mistakes = len(mistakes)
    axes = tuple(read_axes(keys.axes, mistakes))
    if len(mistakes) > num_mistakes:
        reader.has_all_labels = False
    cells = tuple(reader.read_cells(keys, axes))
    compare = read_table(CompareKeys, keys.compare, mistakes, "compare")
    axis = _read_compared_axis(compare, axes, mistakes)
    return Study(
        name=name,
        title=keys.title or name,
        question=keys.question,
        axes=axes,
        cells=cells,
        repetitions=keys.repetitions,
        seed=keys.seed,
        limit=keys.limit,
        metric=_read_metric(keys, mistakes),
        compare=axis,
        reference=_read_reference(compare, axis, reader) if axis else "",
        baseline=_read_baseline(compare, reader) if axis else "",
        target=keys.target,
        is_quick=is_quick,
        text=mistakes.text,
        among=_read_among(compare, axis, reader) if axis else (),
        overrides=tuple(
            f"{key} {format_label(value)}"
            for key, value in given.items()
            if key not in names_by_effect(Effect.NOTHING)
        ),
    )


def _read_metric(keys: StudyKeys, mistakes: StudyMistakes) -> str:
    known_metrics = list(METRICS)
    if keys.base is not None:
        known_metrics = [*SCRIPT_METRICS, f"{METRIC_PREFIX}NAME"]
        if "target" in keys.model_fields_set:
            mistakes.add_at("target", "a study of a script has no target: leave it out")
        if isinstance(keys.metric, str) and is_label(named_metric(keys.metric)):
            return keys.metric
    return _choose("metric", keys.metric, known_metrics, mistakes)


def _choose(
    key: str, value: object, choices: Sequence[str], mistakes: StudyMistakes, table: str = ""
) -> str:
    """Return the value of a key, and note a mistake if it is none of the choices."""
    if value not in choices:
        nearest_text = did_you_mean(str(value), choices)
        advice = f"write one of {', '.join(choices)}{nearest_text}"
        mistakes.add_at(key, f"{key} = {format_toml(value)}: {advice}", table)
    return str(value)


# [compare] ----------------------------------------------------------------------------------------


def _read_compared_axis(
    compare: CompareKeys, axes: Sequence[StudyAxis], mistakes: StudyMistakes
) -> str:
    """Return the axis along which cells are compared: without [compare], the first one."""
    axis_names = [axis.name for axis in axes]
    if compare.axis is None or not axis_names:
        return axis_names[0] if axis_names else ""
    axis_name = _choose("axis", compare.axis, axis_names, mistakes, "compare")
    return axis_name if axis_name in axis_names else ""


def _read_reference(compare: CompareKeys, axis: str, reader: CellReader) -> str:
    """Return the label of the reference: without [compare], the first value of the axis."""
    labels = list(dict.fromkeys(dict(cell_labels)[axis] for cell_labels in reader.all_labels))
    if compare.reference is None:
        return labels[0] if labels else ""
    reference_label = format_label(compare.reference)
    if reader.has_all_labels:
        _choose("reference", reference_label, labels, reader.mistakes, "compare")
    return reference_label


def _read_among(compare: CompareKeys, axis: str, reader: CellReader) -> tuple[str, ...]:
    """Return the labels of the axis of which the answer names the best alone."""
    labels = list(dict.fromkeys(dict(cell_labels)[axis] for cell_labels in reader.all_labels))
    among_labels = tuple(map(format_label, compare.among))
    if reader.has_all_labels:
        for label in among_labels:
            _choose("among", label, labels, reader.mistakes, "compare")
    return among_labels


def _read_baseline(compare: CompareKeys, reader: CellReader) -> str:
    """Return the key of the only cell that has the values of the baseline; "" if there is none."""
    if compare.baseline is None:
        return ""
    baseline_labels = {key: format_label(value) for key, value in compare.baseline.items()}
    matching_labels = [
        labels for labels in reader.all_labels if baseline_labels.items() <= dict(labels).items()
    ]
    if reader.has_all_labels and len(matching_labels) != 1:
        have_text = f"{len(matching_labels)} cells have" if matching_labels else "no cell has"
        labels_text = ", ".join(f"{key} = {value}" for key, value in baseline_labels.items())
        reader.mistakes.add_at(
            "baseline",
            f"baseline: {have_text} {labels_text}: write values that one cell has",
            "compare",
        )
    return cell_key(matching_labels[0]) if matching_labels else ""
