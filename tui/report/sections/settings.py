"""What was trained, and how: the settings of all runs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from remote.format import UNKNOWN
from remote.metrics.run import RunFigures
from remote.metrics.settings import differing, settings
from tui.report import text
from tui.report.document import Section, Table
from tui.report.numbers import machines
from tui.report.numbers.timing import Timing
from tui.report.subject import Subject

NAMES = {
    "program": "program",
    "model": "model",
    "dataset": "data set",
    "image-size": "size of the images",
    "partition": "split of the images over the ranks",
    "epochs": "epochs",
    "steps": "steps",
    "batch-size": "global batch",
    "accumulate": "batches per optimiser step",
    "lr": "learning rate (SGD)",
    "momentum": "momentum",
    "weight-decay": "weight decay",
    "seed": "seed",
    "sync": "sync method",
    "precision": "precision",
    "batch-norm": "batch norm",
    "compile": "torch.compile",
    "checkpoint-every": "checkpoint every",
    "nodes": "nodes",
    "ranks": "ranks",
    "cores": "cores of a host",
    "device": "device",
    "backend": "backend",
    "threads": "threads of a rank",
}
"""The settings that are shown, in order, and what they are called."""
USUAL = {"accumulate": "1", "image-size": "0", "compile": "no", "partition": "iid"}
"""Settings that are left out where all runs have these values."""
NO_SETTINGS = {"hosts", "machines", "seed", "log-every", "log-format", "data-dir", "verify-data"}
"""Settings by which no cell differs in what it trains."""


def section(subject: Subject, timing: Timing) -> Section | None:
    """The tables: what all runs have in common, and in what cells differ."""
    if not subject.runs:
        return None
    note = (
        "Where a setting has several values, cells differ in it; in the seed, repetitions do, too."
        if subject.is_study
        else ""
    )
    rows = [row for row in _rows(subject) if row[1] != UNKNOWN]
    title = "Settings of all runs" if len(subject.runs) > 1 else "Settings"
    tables = [Table(title, ("setting", "value"), rows, note)]
    return Section("settings", "Settings", (), [*tables, *_of_cells(subject)])


def _rows(subject: Subject) -> Iterator[tuple[str, str]]:
    runs = subject.runs
    found = [settings(run) for run in runs]
    for name, words in NAMES.items():
        values = dict.fromkeys(one[name] for one in found if one.get(name, UNKNOWN) != UNKNOWN)
        if list(values) != [USUAL.get(name)]:
            yield words, ", ".join(values) or UNKNOWN
        if name == "dataset":
            yield "images", _listed(_images(run) for run in runs)
        if name == "sync":
            given = {run.job.sync_option for run in runs if run.job}
            yield "options of the method", _listed(*given) if len(given) == 1 else UNKNOWN
        if name == "batch-size":
            yield "batch of a rank", _listed(_share(run) for run in runs)
        if name == "ranks":
            yield "machines", _listed(machines.where(subject))
            links = [text.link(group.link) for group in subject.measured if group.link]
            yield "link of a host", _listed(links)


def _images(run: RunFigures) -> str:
    """How many images there were to train and to test with."""
    if run.job is None:
        return ""
    training = f"at most {run.job.limit} for training" if run.job.limit else "all for training"
    tested = run.evaluations[-1].samples if run.evaluations else 0
    return f"{training}, {tested} for testing" if tested else training


def _share(run: RunFigures) -> str:
    if run.job is None:
        return ""
    least, over = divmod(run.job.batch_size, len(run.job.trainers(run.world_size)))
    return f"{least} to {least + 1}" if over else f"{least}"


def _listed(values: Iterable[str]) -> str:
    return ", ".join(dict.fromkeys(filter(None, values))) or UNKNOWN


def _of_cells(subject: Subject) -> list[Table]:
    """In what the groups differ: the options of their sync methods, too."""
    named = [(group.label, run) for group in subject.groups if (run := group.first)]
    found = differing([run for _, run in named])
    shown = {name: values for name, values in found.items() if name not in NO_SETTINGS}
    if len(named) < 2 or not shown:
        return []
    rows = [
        (label, *(values[at] for values in shown.values())) for at, (label, _) in enumerate(named)
    ]
    head = ("cell", *(NAMES.get(name, name) for name in shown))
    return [Table("Settings that differ", head, rows)]
