"""The format of study.toml. All mistakes are reported at once, each with its line and what to write
instead."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from importlib import resources
from pathlib import Path
from typing import Any

import tomllib

from remote.statistics import REPETITIONS
from remote.study.axes import read_axes
from remote.study.cells import MOST, Cells, Labels, count_cells
from remote.study.reader import TOP, Reader, StudyError, is_label, label_of, overridden
from remote.study.study import (
    METRICS,
    NAMED,
    SCRIPT_METRICS,
    WITHOUT_EFFECT,
    Cell,
    CellPlace,
    Study,
    StudyAxis,
)
from training.job import Job
from training.registry import did_you_mean

SUFFIX = ".toml"
LIMIT = "1 h"
TABLES = ("job", "base", "axes", "cell", "compare", "quick")
QUICK = ("repetitions", "limit", "target", "job", "base", "axes", "cell", "compare")
COMPARE = ("axis", "reference", "baseline")


def read_bundled_studies() -> dict[str, str]:
    """The text of each study that comes with rankboard, by name."""
    folder = resources.files("remote.study") / "bundled"
    files = sorted(
        (file for file in folder.iterdir() if file.name.endswith(SUFFIX)),
        key=lambda file: file.name,
    )
    return {file.name.removesuffix(SUFFIX): file.read_text("utf-8") for file in files}


def read_study_text(name: str) -> tuple[str, str]:
    """The name and text of a study: a bundled one, or that of a file. Raises: StudyError."""
    known = read_bundled_studies()
    path = Path(name)
    if name in known and not path.is_file():
        return name, known[name]
    try:
        title = path.name.removesuffix(SUFFIX)
        text = path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise StudyError(f"{name}: not a text in UTF-8 ({error.reason})") from None
    except OSError as error:
        near = did_you_mean(name, known)
        raise StudyError(
            f"{name}: {error.strerror}{near}: name a file such as study.toml, or a bundled study: "
            f"{', '.join(known)}"
        ) from None
    if not is_label(title) or title.startswith("."):
        raise StudyError(f"{name}: a study has the name of its file: give the file a name")
    return title, text


def parse_study(
    name: str,
    text: str,
    given: Mapping[str, Any] | None = None,
    *,
    file: str = "",
    quick: bool = False,
    nodes: int = 0,
) -> Study:
    """The study of this text. `given` are job fields from the command line, which override [job].
    `nodes` are the hosts that there are, on all of which a cell runs that does not say on how many;
    0 where that is not known. Raises: StudyError, with all mistakes; `file` names it there."""
    reader = Reader(file or f"{name}{SUFFIX}", text)
    try:
        data = tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        raise StudyError(f"{reader.file}: this is not TOML: {error}") from None
    reader.check_keys(data, (*TOP, *TABLES), "")
    _check_tables(reader, data, "")
    _check_tables(reader, data.get("quick", {}), "quick.")
    reader.check_keys(data.get("quick", {}), QUICK, "quick")
    reader.check_keys(data.get("compare", {}), COMPARE, "compare")
    whole = _quicker(data) if quick else data
    total = count_cells(whole)
    if total > MOST:  # before any value is looked at, which may take long of so many
        reader.add(f"{total} cells: write fewer values, at most {MOST}")
        raise StudyError(reader.told())
    given = given or {}
    study = _study(reader, name, whole, Cells(reader, given, nodes), quick)
    if reader.mistakes:
        raise StudyError(reader.told())
    told = tuple(
        f"{key} {label_of(value)}" for key, value in given.items() if key not in WITHOUT_EFFECT
    )
    return replace(study, overrides=told)


def _check_tables(reader: Reader, data: dict[str, Any], within: str) -> None:
    """Note what should be a table and is none, and leave it out."""
    for table in ("job", "base", "axes", "compare", "quick"):
        if not isinstance(data.get(table, {}), dict):
            reader.say(table, f"write the keys of {table} below a line [{within}{table}]")
            del data[table]


def _quicker(data: Mapping[str, Any]) -> dict[str, Any]:
    """The data with what [quick] changes: tables key by key, all else as a whole."""
    changes = data.get("quick", {})
    merged = {key: value for key, value in data.items() if key != "quick"}
    for key, value in changes.items():
        before = merged.get(key)
        if isinstance(before, dict) and isinstance(value, dict):
            merged[key] = overridden(before, value)
        else:
            merged[key] = value
    return merged


def _study(reader: Reader, name: str, data: Mapping[str, Any], reads: Cells, quick: bool) -> Study:
    """The study, as far as it is free of mistakes."""
    before = len(reader.mistakes)
    axes = tuple(read_axes(reader, data.get("axes", {})))
    if len(reader.mistakes) > before:
        reads.all_labels.append(None)
    cells = tuple(reads.read(data, axes))
    target = reader.target(data.get("target"))
    metric = _metric(reader, data, is_script=reads.script is not None)
    compare, reference, baseline = _compare(reader, data.get("compare", {}), axes, reads.all_labels)
    return Study(
        name,
        reader.one_line(data, "title", name),
        reader.one_line(data, "question", ""),
        axes,
        cells,
        reader.number(data, "repetitions", REPETITIONS, 1, 1_000),
        reader.number(data, "seed", 1, 0, 2**32 - 1),
        reader.seconds(data.get("limit", LIMIT)),
        metric,
        compare,
        reference,
        baseline,
        target,
        quick,
        reader.text,
    )


def _metric(reader: Reader, data: Mapping[str, Any], *, is_script: bool) -> str:
    """What is compared."""
    value = data.get("metric", "")
    if not is_script:
        return reader.choice(data, "metric", "step_seconds", METRICS)
    if "target" in data:
        reader.say("target", "a study of a script has no target: leave it out")
    if isinstance(value, str) and value.startswith(NAMED) and is_label(value.removeprefix(NAMED)):
        return value
    return reader.choice(
        data, "metric", "step_seconds", {**SCRIPT_METRICS, f"{NAMED}NAME": "a metric of its own"}
    )


def _compare(
    reader: Reader,
    table: Mapping[str, Any],
    axes: Sequence[StudyAxis],
    all_labels: Sequence[Labels | None],
) -> tuple[str, str, str]:
    """The axis along which cells are compared, the label of its reference, and the key of the
    baseline. Without [compare]: the first axis, and its first value. `all_labels` are those of each
    cell, None where a mistake leaves them unknown."""
    names = [axis.name for axis in axes]
    if not names:
        return "", "", ""
    name = table.get("axis", names[0])
    if name not in names:
        near = did_you_mean(str(name), names)
        reader.say("axis", f"axis = {name!r}: write one of {', '.join(names)}{near}", "compare")
        return "", "", ""
    is_known = bool(all_labels) and None not in all_labels
    cells = [Cell(one, Job(), CellPlace()) for one in all_labels if one]
    labels = list(dict.fromkeys(cell.label(name) for cell in cells))
    reference = label_of(table.get("reference", next(iter(labels), "")))
    if is_known and reference not in labels:
        near = did_you_mean(reference, labels)
        reader.say(
            "reference",
            f"reference = {reference!r}: write one of {', '.join(labels)}{near}",
            "compare",
        )
    return name, reference, _baseline(reader, table.get("baseline"), cells, is_known)


def _baseline(reader: Reader, wanted: object, cells: Sequence[Cell], is_known: bool) -> str:
    """The key of the one of these cells that has the `wanted` values; "" where there is none.
    `is_known`: these are all cells."""
    if wanted is None:
        return ""
    if not isinstance(wanted, dict):
        reader.say("baseline", "baseline: write a value of each axis: { nodes = 1 }", "compare")
        return ""
    chosen = {key: label_of(value) for key, value in wanted.items()}
    fits = [cell for cell in cells if chosen.items() <= dict(cell.labels).items()]
    if is_known and len(fits) != 1:
        have = f"{len(fits)} cells have" if fits else "no cell has"
        values = ", ".join(f"{key} = {value}" for key, value in chosen.items())
        known = [label for cell in cells for axis, label in cell.labels if axis in chosen]
        near = "" if fits else did_you_mean(" ".join(chosen.values()), known)
        reader.say(
            "baseline",
            f"baseline: {have} {values}{near}: write values that one cell has",
            "compare",
        )
    return fits[0].key if fits else ""
