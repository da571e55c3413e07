"""The settings of all runs: what was trained, and how."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import fields

from remote.format import UNKNOWN
from remote.metrics.run import RunFigures
from remote.metrics.settings import differing
from remote.metrics.settings import settings as read_settings
from remote.plan.variables import VARIABLE
from training.job import Job, names_by_effect
from training.options import format_value
from training.setting import Effect, Shown
from tui.report.document import ReportTable, Section, make_table
from tui.report.formatting import format_link
from tui.report.local_paths import shorten_paths
from tui.report.subject import ReportSubject
from tui.report.timing import SubjectTiming

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
"""The settings that are shown, in order, and what they are called. Those of a job are called like
their flags in `remote.metrics.settings`."""
SEVERAL_VALUES = (
    "Where a setting has several values, cells differ in it; in the seed, repetitions do, too."
)


def make_section(subject: ReportSubject, timing: SubjectTiming) -> Section | None:
    """Make the tables: what all runs have in common, and in what cells differ."""
    if not subject.runs:
        return None
    rows = [row for row in _rows(subject) if row[1] != UNKNOWN]
    table_title = "Settings of all runs" if len(subject.runs) > 1 else "Settings"
    note = SEVERAL_VALUES if subject.study else ""
    table = make_table(table_title, ("setting", "value"), rows, note)
    return Section("settings", "Settings", (), [table, *_tables_of_differences(subject)])


def _rows(subject: ReportSubject) -> Iterator[tuple[str, str]]:
    settings_of_runs = [shorten_paths(read_settings(run)) for run in subject.runs]
    unremarkable_values = {
        setting.name.replace("_", "-"): format_value(setting.default)
        for setting in fields(Job)
        if setting.metadata["shown"] is Shown.IF_CHANGED
    }
    for name, setting_title in NAMES.items():
        setting_values = dict.fromkeys(settings.get(name, UNKNOWN) for settings in settings_of_runs)
        known_values = [value for value in setting_values if value != UNKNOWN]
        if known_values != [unremarkable_values.get(name)]:
            yield setting_title, _join(known_values)
        yield from _derived_rows(subject, name)
    for name in dict.fromkeys(name for settings in settings_of_runs for name in settings):
        if name.startswith(VARIABLE):
            yield name, _join(settings.get(name, UNKNOWN) for settings in settings_of_runs)


def _derived_rows(subject: ReportSubject, name: str) -> Iterator[tuple[str, str]]:
    """Yield what follows from a setting, to stand below it."""
    runs = subject.runs
    jobs = [run.job for run in runs if run.job]
    match name:
        case "dataset":
            yield "images", _join(_describe_images(run) for run in runs)
        case "sync":
            method_options = {job.sync_option for job in jobs}
            yield (
                "options of the method",
                _join(*method_options) if len(method_options) == 1 else UNKNOWN,
            )
        case "batch-size":
            yield "batch of a rank", _join(_describe_rank_batch(run) for run in runs)
        case "ranks":
            link_texts = [format_link(group.link) for group in subject.measured if group.link]
            yield "link of a host", _join(link_texts)


def _describe_images(run: RunFigures) -> str:
    """Return how many images there were to train and to test with."""
    if run.job is None:
        return ""
    images_text = f"at most {run.job.limit} for training" if run.job.limit else "all for training"
    num_tested = run.evaluations[-1].samples if run.evaluations else 0
    return f"{images_text}, {num_tested} for testing" if num_tested else images_text


def _describe_rank_batch(run: RunFigures) -> str:
    if run.job is None:
        return ""
    num_trainers = len(run.job.trainers(run.world_size))
    smallest_batch, remainder = divmod(run.job.batch_size, num_trainers)
    return f"{smallest_batch} to {smallest_batch + 1}" if remainder else f"{smallest_batch}"


def _join(values: Iterable[str]) -> str:
    """Return the values, each once."""
    return ", ".join(dict.fromkeys(filter(None, values))) or UNKNOWN


def _tables_of_differences(subject: ReportSubject) -> list[ReportTable]:
    """Return the table of settings in which groups differ, with the options of sync methods."""
    labels = []
    runs = []
    for group in subject.groups:
        if group.first_run:
            labels.append(group.label)
            runs.append(group.first_run)
    values_by_name = shorten_paths(differing(runs))
    # No cell differs in what it trains by where it ran, its random numbers, or its lines.
    ignored_names = {"hosts", "machines"}
    for name in names_by_effect(Effect.REPETITION, Effect.LOG, Effect.NOTHING):
        ignored_names.add(name.replace("_", "-"))
    setting_names = [name for name in values_by_name if name not in ignored_names]
    if len(runs) < 2 or not setting_names:
        return []
    columns = [values_by_name[name] for name in setting_names]
    table_head = ("cell", *(NAMES.get(name, name) for name in setting_names))
    return [
        make_table("Settings that differ", table_head, list(zip(labels, *columns, strict=True)))
    ]
