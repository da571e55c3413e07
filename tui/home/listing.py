"""Print the list of all recorded runs as a table.

The columns of figures are those of `remote.record.figures`; the others stand in `COLUMNS`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from itertools import takewhile
from typing import Any

from remote.format import UNKNOWN, or_unknown
from remote.record.entry import DEFAULTS, Entry
from remote.record.figures import FIGURES_WITH_COLUMN, RunFigure
from training.job import SEVERAL, Job
from training.setting import TRAINED
from tui.kit import palette
from tui.kit.text_table import (
    Row,
    clean_row,
    drop_columns,
    print_table,
    terminal_width,
    total_width,
)

DATED_NAME = re.compile(r"\d{8}-\d{6}-")
"""How a run's name begins unless a person made the folder."""
DATE_LENGTHS = (13, 15)
"""Characters of such a name that are shown if no other begins so: its date and time, without and
with the seconds. It is cut at no other place."""
SHORTEST_NOTE = 8
"""Characters of a note that are shown at least."""
SIGNS_OF_TROUBLE = {"stalled": "bad", "diverged": "slow", "slow": "slow", "waiting": "wait"}
"""What stands before the word of a live run with which something is wrong, as in the dashboard."""
NOT_NAMED = {
    setting.name
    for setting in fields(Job)
    if setting.metadata["effect"] not in TRAINED
    or setting.metadata["folder"]
    or setting.type == SEVERAL
}
"""Settings that the column of settings does not show by name: they change nothing of what is
trained, or have a column (what a folder holds), or are names with values already (options)."""


# Columns ------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class RunRow:
    """What a row of the table is made of."""

    run: Entry
    name: str
    """The run's name, perhaps abbreviated."""
    settings: Sequence[str]


@dataclass(frozen=True)
class RunColumn:
    """A column of the table. A terminal that is wide enough shows all of them."""

    title: str
    get_text: Callable[[RunRow], str]
    is_foldable: bool = False
    """A narrow terminal shows it as a line below the table if all runs have the same there."""


def _get_verdict(row: RunRow) -> str:
    run = row.run
    sign_name = SIGNS_OF_TROUBLE.get(run.trouble) if run.state == run.trouble else None
    return f"{palette.sign(sign_name)} {run.state}" if sign_name else run.state


def _get_method(row: RunRow) -> str:
    if row.run.job is None:
        return "script" if row.run.script else UNKNOWN
    return str(row.run.setting("sync"))


def _make_figure_column(figure: RunFigure) -> RunColumn:
    return RunColumn(figure.title, lambda row: figure.get_text(row.run))


COLUMNS = (
    RunColumn("run", lambda row: row.name),
    RunColumn("name", lambda row: or_unknown(row.run.label)),
    RunColumn("method", _get_method, is_foldable=True),
    RunColumn("model", lambda row: row.run.setting("model") or UNKNOWN, is_foldable=True),
    RunColumn("data set", lambda row: row.run.setting("dataset") or UNKNOWN, is_foldable=True),
    RunColumn("hosts", lambda row: or_unknown(len(row.run.hosts)), is_foldable=True),
    RunColumn("ranks", lambda row: or_unknown(row.run.ranks), is_foldable=True),
    RunColumn("verdict", _get_verdict, is_foldable=True),
    *map(_make_figure_column, FIGURES_WITH_COLUMN),
    RunColumn("study", lambda row: or_unknown(row.run.study), is_foldable=True),
    RunColumn("settings", lambda row: or_unknown(", ".join(row.settings))),
    RunColumn("*", lambda row: "*" * row.run.star + "p" * row.run.pinned or UNKNOWN),
    RunColumn("note", lambda row: "; ".join(filter(None, (row.run.note, row.run.step_notes)))),
)
TITLES = tuple(column.title for column in COLUMNS)
FOLDABLE = {column.title for column in COLUMNS if column.is_foldable}
DROP_ORDER = (
    "started",  # a run's name says when it began
    "ranks",
    "study",
    "data set",
    "step",
    "settings",
    "model",
    "note",
    "hosts",
    "name",
)
"""A narrow terminal leaves out these columns, the first one first, and never the others."""
DROP_ORDER_OF_STUDY = (*DROP_ORDER, "accuracy", "method", "trial")
"""The same if all runs are of one study. Its trials name all that differs."""


def make_row(run: Entry, name: str, settings: Sequence[str]) -> Row:
    """Return the text of each of `COLUMNS`."""
    row = RunRow(run, name, settings)
    return clean_row(tuple(column.get_text(row) for column in COLUMNS))


def settings_of(run: Entry) -> list[str]:
    """Return the settings that differ from the defaults and have no column, as filters have
    them."""
    if run.script:
        return [run.script, *(f"{name}={value}" for name, value in run.variables.items())]
    job = run.job or {}
    settings = list[str](job.get("sync_option", ()))
    for name, value in job.items():
        if name not in NOT_NAMED and value is not None:
            settings.append(f"{name}={value}")
    return settings


def to_object(run: Entry) -> dict[str, Any]:
    """Return a run for a program: all settings of its job, and `run` for its name."""
    values = run._asdict()
    del values["times"]  # which only estimates need
    values["flaws"] = [asdict(flaw) | {"text": flaw.text} for flaw in run.flaws]
    # The job of an entry lacks the settings that have their defaults.
    job = None if run.job is None else DEFAULTS | run.job
    return {"run": values.pop("name"), **values, "job": job}


# The table ----------------------------------------------------------------------------------------


def show(runs: Sequence[Entry], all_runs: Sequence[Entry]) -> list[str]:
    """Print a table of these runs, of all that are recorded. Return what it does not show, as all
    of them have it."""
    settings = [settings_of(run) for run in runs]
    table = _make_table(runs, settings, {})
    shared = list[str]()
    width = terminal_width()
    if total_width(table) > width:
        table, shared = _make_narrow_table(runs, all_runs, settings, width)
    print_table(table[0], table[1:])
    return shared


def _make_table(
    runs: Sequence[Entry], settings: Sequence[Sequence[str]], names: Mapping[str, str]
) -> list[Row]:
    """Return the table of runs, with these settings, and with other names for theirs."""
    table: list[Row] = [TITLES]
    for run, own_settings in zip(runs, settings, strict=True):
        table.append(make_row(run, names.get(run.name, run.name), own_settings))
    return table


def _make_narrow_table(
    runs: Sequence[Entry], all_runs: Sequence[Entry], settings: list[list[str]], width: float
) -> tuple[list[Row], list[str]]:
    """Return the table as it fits into a width, and what it does not show as all have it."""
    shared_settings = set[str]()
    # All settings of a single run would be shared, and none would stand in its row.
    if len(runs) > 1:
        shared_settings = set(settings[0]).intersection(*settings[1:])
        settings = [
            [setting for setting in own_settings if setting not in shared_settings]
            for own_settings in settings
        ]
    study = runs[0].study
    is_study = len(runs) > 1 and all(run.trial and run.study == study for run in runs)
    if is_study:
        settings = [[trial] for trial in _short_trials(runs)]
    # Names are shortened among all recorded runs, as a command that gets one looks at all of them.
    table, folded = _fold_columns(_make_table(runs, settings, shorten_names(all_runs)))
    drop_order: Sequence[str] = DROP_ORDER
    if is_study:
        drop_order = DROP_ORDER_OF_STUDY
        table[0] = tuple("trial" if title == "settings" else title for title in table[0])
    return _fit_table(table, width, drop_order), folded + sorted(shared_settings)


def _fold_columns(table: Sequence[Row]) -> tuple[list[Row], list[str]]:
    """Return the table without empty columns and, if it has several rows, without those in which
    all are equal; and what these say."""
    folded = list[str]()
    shown = list[int]()
    for index, title in enumerate(table[0]):
        cells = {row[index] for row in table[1:]}
        if cells <= {"", UNKNOWN}:
            continue
        if title in FOLDABLE and len(cells) == 1 and len(table) > 2:
            folded.append(f"{title} {cells.pop()}")
        else:
            shown.append(index)
    return [tuple(row[index] for index in shown) for row in table], folded


def _short_trials(runs: Sequence[Entry]) -> list[str]:
    """Return the trial of each run, without the name of the first axis if all begin with it."""
    axes = {run.trial.partition("=")[0] for run in runs}
    prefix = f"{axes.pop()}=" if len(axes) == 1 else ""
    return [run.trial.removeprefix(prefix) for run in runs]


def shorten_names(runs: Sequence[Entry]) -> dict[str, str]:
    """Return the date and time of each run's name if no other has them, else the whole name: enough
    for every command."""
    names = ["", *(run.name for run in runs), ""]  # sorted, so the nearest are neighbours
    short_names = dict[str, str]()
    for before, name, after in zip(names, names[1:], names[2:], strict=False):
        same = max(_count_common(name, before), _count_common(name, after))
        lengths = [length for length in DATE_LENGTHS if length > same]
        is_cut = lengths and DATED_NAME.match(name)
        short_names[name] = name[: lengths[0]] if is_cut else name
    return short_names


def _count_common(name: str, other: str) -> int:
    """Return the number of characters with which both begin."""
    pairs = zip(name, other, strict=False)
    return len(list(takewhile(lambda pair: pair[0] == pair[1], pairs)))


def _fit_table(table: list[Row], width: float, drop_order: Sequence[str]) -> list[Row]:
    """Return the table without the columns for which there is no room. If it has notes, the
    terminal shows at least their beginnings."""
    if table[0][-1] != "note":
        return drop_columns(drop_order, table, width)
    clipped = [(*row[:-1], row[-1][:SHORTEST_NOTE]) for row in table]
    fitted = drop_columns(drop_order, clipped, width)
    if fitted[0][-1] != "note":
        return fitted
    # The printer cuts lines at the edge of the terminal, where the notes stand.
    return [(*row[:-1], whole[-1]) for row, whole in zip(fitted, table, strict=True)]
