"""Print the list of all recorded runs as a table."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from remote.format import UNKNOWN, loss, moment, or_unknown, percent, seconds
from remote.record.entry import DEFAULTS, Entry
from training.job import INCIDENTAL
from tui.kit.text_table import Row, clean, print_table, terminal_width, total_width, without

HEAD = (
    *("run", "name", "method", "model", "data set", "hosts", "ranks", "verdict", "step", "loss"),
    *("accuracy", "s/iter", "started", "study", "settings", "*", "note"),
)
FOLDED = ("method", "model", "data set", "hosts", "ranks", "verdict", "study")
"""Columns that a narrow terminal shows as a line where all runs have the same there."""
DISPENSABLE = {
    "started": 1,
    "ranks": 2,
    "study": 3,
    "data set": 4,
    "step": 5,
    "settings": 6,
    "model": 7,
    "note": 8,
    "hosts": 9,
    "name": 10,
}
"""Columns that a narrow terminal leaves out, in this order: a run's name has its start. What tells
runs apart goes last."""
OF_STUDY = DISPENSABLE | {"accuracy": 11, "method": 12, "trial": 13}
"""The same where all runs are of one study: a trial names all that differs."""
SHORTEST = 13
LEAST = 8
"""Characters of a run's name (its date and time) that are shown at least, and of a note."""
ELSEWHERE = INCIDENTAL | {"sync", "sync_option", "model", "dataset"}
"""Settings that the column of settings does not show by name."""


def show(runs: Sequence[Entry], everyone: Sequence[Entry]) -> list[str]:
    """Print a table of these runs, of all that are recorded. Return what it does not show, as all
    of them have it."""
    settings = [settings_of(run) for run in runs]
    table = _table(runs, settings, {})
    width = terminal_width()
    shared = list[str]()
    if math.isfinite(width) and total_width(table) > width:
        if len(runs) > 1:
            common = set(settings[0]).intersection(*settings[1:])
            settings = [[one for one in of if one not in common] for of in settings]
            shared = sorted(common)
        is_study = len(runs) > 1 and all(run.trial and run.study == runs[0].study for run in runs)
        if is_study:
            settings = _trials(runs)
        table, folded = _folded(_table(runs, settings, beginnings(everyone)))
        if is_study:
            table[0] = tuple("trial" if name == "settings" else name for name in table[0])
        table = _fitted(table, width, OF_STUDY if is_study else DISPENSABLE)
        shared = folded + shared
    print_table(table[0], table[1:])
    return shared


def to_object(run: Entry) -> dict[str, Any]:
    """Return a run for a program: all settings of its job, and `run` for its name."""
    values = run._asdict()
    job = None if run.job is None else DEFAULTS | run.job
    return {"run": values.pop("name"), **values, "job": job}


def _table(
    runs: Sequence[Entry], settings: Sequence[Sequence[str]], names: Mapping[str, str]
) -> list[Row]:
    """Return the table of runs, with these settings, and with other names for theirs."""
    rows = (
        row(run, names.get(run.name, run.name), of) for run, of in zip(runs, settings, strict=True)
    )
    return [HEAD, *rows]


def row(run: Entry, name: str, settings: Sequence[str]) -> Row:
    job = run.job is not None
    step = f"{run.step}/{run.steps}" if run.step < run.steps else or_unknown(run.step)
    cells = (
        name,
        or_unknown(run.label),
        run.setting("sync") if job else "script" if run.script else UNKNOWN,
        run.setting("model") if job else UNKNOWN,
        run.setting("dataset") if job else UNKNOWN,
        or_unknown(len(run.hosts)),
        or_unknown(run.ranks),
        "unreadable" if run.problem else _verdict(run),
        step if run.step else UNKNOWN,
        "nan" if run.diverged else UNKNOWN if run.loss is None else loss(run.loss, run.step),
        UNKNOWN if run.accuracy is None else percent(run.accuracy, 1),
        UNKNOWN if run.step_seconds is None else seconds(run.step_seconds),
        moment(run.started or 0),
        or_unknown(run.study),
        or_unknown(", ".join(settings)),
        "*" if run.star else UNKNOWN,
        run.note,
    )
    return clean(cells)


def _verdict(run: Entry) -> str:
    """Say how a run has ended; one whose loss was no number has not just finished."""
    return f"{run.verdict}, NaN" if run.verdict == "finished" and run.diverged else run.verdict


def settings_of(run: Entry) -> list[str]:
    """Return the settings that differ from the defaults and have no column, as filters have
    them."""
    if run.script:
        return [run.script]
    job = run.job or {}
    others = [
        f"{name}={value}"
        for name, value in job.items()
        if name not in ELSEWHERE and value is not None
    ]
    return [*job.get("sync_option", ()), *others]


# Narrow terminals ---------------------------------------------------------------------------------


def _folded(table: Sequence[Row]) -> tuple[list[Row], list[str]]:
    """Return the table without empty columns and, if it has several rows, without those in which
    all are equal; and what these say."""
    shared = []
    kept = []
    for index, name in enumerate(table[0]):
        cells = {row[index] for row in table[1:]}
        if cells <= {"", UNKNOWN}:
            continue
        if name in FOLDED and len(cells) == 1 and len(table) > 2:
            shared.append(f"{name} {cells.pop()}")
        else:
            kept.append(index)
    return [tuple(row[index] for index in kept) for row in table], shared


def _trials(runs: Sequence[Entry]) -> list[list[str]]:
    """Return the trial of each run, without the name of the first axis if all begin with it."""
    axes = {run.trial.partition("=")[0] for run in runs}
    begin = f"{axes.pop()}=" if len(axes) == 1 else ""
    return [[run.trial.removeprefix(begin)] for run in runs]


def beginnings(everyone: Sequence[Entry]) -> dict[str, str]:
    """Return the beginning of each run's name that no other has: enough for every command."""
    names = [run.name for run in everyone]  # sorted, so the nearest are neighbours
    found = {}
    for before, name, after in zip(["", *names], names, [*names[1:], ""], strict=False):
        same = max(_common(name, before), _common(name, after))
        found[name] = name[: max(SHORTEST, same + 1)]
    return found


def _common(one: str, other: str) -> int:
    """Return the number of characters with which both begin."""
    pairs = enumerate(zip(one, other, strict=False))
    return next((index for index, (a, b) in pairs if a != b), min(len(one), len(other)))


def _fitted(table: list[Row], width: float, turns: Mapping[str, int]) -> list[Row]:
    """Return the table with as much of the notes and of these columns as there is room for."""
    clipped = without(turns, _clipped(table, LEAST), width)
    if clipped[0][-1] != "note":
        return clipped
    notes = [row[-1] for row in table]
    whole = [(*row[:-1], note) for row, note in zip(clipped, notes, strict=True)]
    bare = total_width([(*row[:-1], "") for row in whole])
    return _clipped(whole, int(width) - bare)


def _clipped(table: Sequence[Row], most: int) -> list[Row]:
    """Return the table with notes of so many characters at most."""
    if table[0][-1] != "note":
        return list(table)
    return [
        row if len(row[-1]) <= most else (*row[:-1], f"{row[-1][: most - 1]}…") for row in table
    ]
