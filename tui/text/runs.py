"""The list of all recorded runs as a table."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from remote.format import UNKNOWN, loss, moment, or_unknown, percent, seconds
from remote.record.entry import DEFAULTS, Entry
from training.job import INCIDENTAL
from tui.text.table import Row, print_table, terminal_width, total_width

HEAD = (
    *("run", "method", "model", "data set", "hosts", "ranks", "verdict", "step", "loss"),
    *("accuracy", "s/iter", "started", "study", "settings", "note"),
)
FOLDED = ("method", "model", "data set", "hosts", "ranks", "study", "settings")
"""Columns that a narrow terminal shows as a line where all runs have the same there."""
DISPENSABLE = {
    "started": 1,
    "ranks": 2,
    "settings": 3,
    "study": 4,
    "data set": 5,
    "model": 6,
    "step": 7,
    "hosts": 8,
}
"""Columns that a narrow terminal leaves out, in this order: a run's name has its start."""
SHORTEST, LEAST = 15, 16
"""Characters of a run's name (its date and time) and of a note that are always shown."""
ELSEWHERE = INCIDENTAL | {"sync", "sync_option", "model", "dataset"}
"""Settings that the column of settings does not show by name."""


def show(runs: Sequence[Entry], everyone: Sequence[Entry]) -> list[str]:
    """Print a table of these runs, of all that are recorded. Returns what it does not show, as
    all of them have it."""
    settings = [_settings(run) for run in runs]
    rows = [_row(run, ", ".join(of)) for run, of in zip(runs, settings, strict=True)]
    head: Row = HEAD
    width, shared = terminal_width(), list[str]()
    if math.isfinite(width) and total_width([head, *rows]) > width:
        rows, common = _without_common(rows, settings)
        head, rows, shared = _folded(head, rows)
        shared += common
        rows = _shortened(rows, everyone)
        if head[-1] == "note":
            rows = _clipped(head, rows, int(width))
    print_table(head, rows, DISPENSABLE)
    return shared


def to_object(run: Entry) -> dict[str, Any]:
    """A run for a program: all settings of its job, and `run` for its name."""
    told = asdict(run)
    job = None if run.job is None else DEFAULTS | run.job
    return {"run": told.pop("name"), **told, "job": job}


def _row(run: Entry, settings: str) -> Row:
    job = run.job is not None
    step = f"{run.step}/{run.steps}" if run.step < run.steps else or_unknown(run.step)
    return (
        run.name,
        run.setting("sync") if job else "script" if run.script else UNKNOWN,
        run.setting("model") if job else UNKNOWN,
        run.setting("dataset") if job else UNKNOWN,
        or_unknown(len(run.hosts)),
        or_unknown(run.ranks),
        "unreadable" if run.problem else run.verdict,
        step if run.step else UNKNOWN,
        "nan" if run.diverged else UNKNOWN if run.loss is None else loss(run.loss, run.step),
        UNKNOWN if run.accuracy is None else percent(run.accuracy, 1),
        UNKNOWN if run.step_seconds is None else seconds(run.step_seconds),
        moment(run.started or 0),
        or_unknown(f"{run.study}: {run.trial}" if run.trial else run.study),
        or_unknown(settings),
        f"* {run.note}".strip() if run.star else run.note,
    )


def _settings(run: Entry) -> list[str]:
    """The settings that differ from the defaults and have no column, as filters have them."""
    job = run.job or {}
    others = [
        f"{name}={value}"
        for name, value in job.items()
        if name not in ELSEWHERE and value is not None
    ]
    return [*job.get("sync_option", ()), *others]


# Narrow terminals ---------------------------------------------------------------------------------


def _without_common(
    rows: Sequence[Row], settings: Sequence[Sequence[str]]
) -> tuple[list[Row], list[str]]:
    """The rows without the settings that all runs have, and those."""
    common = set(settings[0]).intersection(*settings[1:])
    column = HEAD.index("settings")
    left = [", ".join(one for one in of if one not in common) for of in settings]
    changed = [
        (*row[:column], cell, *row[column + 1 :]) for row, cell in zip(rows, left, strict=True)
    ]
    return changed, [one for one in settings[0] if one in common]


def _folded(head: Row, rows: Sequence[Row]) -> tuple[Row, list[Row], list[str]]:
    """The table without columns in which all rows are equal, and what these say."""
    shared, kept = [], []
    for index, name in enumerate(head):
        cells = {row[index] for row in rows}
        cell = next(iter(cells))
        is_empty = cells <= {"", UNKNOWN}
        if len(cells) > 1 or not (is_empty or name in FOLDED):
            kept.append(index)
        elif not is_empty:
            shared.append(f"{name} {cell}")
    table = [tuple(row[index] for index in kept) for row in (head, *rows)]
    return table[0], table[1:], shared


def _shortened(rows: Sequence[Row], everyone: Sequence[Entry]) -> list[Row]:
    """The rows with the beginnings of names that no other run has: enough for every command."""
    names = [run.name for run in everyone]  # sorted, so the nearest are neighbours
    short = {}
    for before, name, after in zip(["", *names], names, [*names[1:], ""], strict=False):
        same = max(_common(name, before), _common(name, after))
        short[name] = name[: max(SHORTEST, same + 1)]
    return [(short[row[0]], *row[1:]) for row in rows]


def _common(one: str, other: str) -> int:
    """The number of characters with which both begin."""
    pairs = enumerate(zip(one, other, strict=False))
    return next((index for index, (a, b) in pairs if a != b), min(len(one), len(other)))


def _clipped(head: Row, rows: Sequence[Row], width: int) -> list[Row]:
    """The rows with notes as long as there is room for."""
    bare = total_width([(*row[:-1], "") for row in (head, *rows)])
    most = max(LEAST, width - bare)
    return [
        (*row[:-1], note if len(note := row[-1]) <= most else f"{note[: most - 1]}…")
        for row in rows
    ]
