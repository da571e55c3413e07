"""The values of a report as CSV and JSON: one row per run, and all of it."""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict
from datetime import datetime
from pathlib import Path
from typing import Any

from remote.metrics import doubt as doubting
from remote.metrics.run import RunFigures
from remote.metrics.settings import settings
from remote.record.summary import to_strict_json
from remote.study.results import cell_to_json
from tui.report.document import Chapter
from tui.report.local_paths import shorten_paths
from tui.report.subject import ReportSubject, RunGroup
from tui.report.timing import SubjectTiming, find_doubts, measure_timing
from tui.report.topics.network import measure_traffic

FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r")
"""The beginnings of a text that a spreadsheet takes for a formula."""
LOCAL_FACTS = (
    *("executable", "folder", "data_folder"),
    *("user", "pid", "boot_id", "interfaces"),
)
"""Facts of a host that mean nothing on another machine: paths, and what others need not know."""
SERIES = ("time", "loss", "seconds", "data", "compute", "sync", "bytes_sent")


def to_csv(subjects: Sequence[ReportSubject]) -> str:
    """Return one row per run as CSV, with those that failed."""
    rows = [shorten_paths(row) for subject in subjects for row in _csv_rows(subject)]
    # Runs that do not count have fewer columns.
    column_names = list(dict.fromkeys(column_name for row in rows for column_name in row))
    csv_text = io.StringIO()
    writer = csv.writer(csv_text, lineterminator="\n")
    writer.writerow(column_names)
    for row in rows:
        writer.writerow([_csv_cell(row.get(column_name)) for column_name in column_names])
    return csv_text.getvalue()


def to_json(subjects: Sequence[ReportSubject], chapters: Sequence[Chapter]) -> str:
    """Return the cells with their intervals as JSON, and their runs with settings, summaries and
    curves."""
    pairs = zip(subjects, chapters, strict=True)
    objects = [_subject_object(subject, chapter) for subject, chapter in pairs]
    # NaN is no JSON: what is not known becomes null.
    return (
        json.dumps(
            shorten_paths(to_strict_json({"subjects": objects})), indent=1, ensure_ascii=False
        )
        + "\n"
    )


def read_run_names(path: Path) -> set[str]:
    """Return the names of the runs that a data.json has; none if it is no such file."""
    with suppress(OSError, ValueError, RecursionError, LookupError, TypeError):
        subjects = json.loads(path.read_bytes())["subjects"]
        cells = [cell for subject in subjects for cell in subject["cells"]]
        return {str(run["run"]) for cell in cells for run in cell["runs"]}
    return set()


def _csv_rows(subject: ReportSubject) -> Iterator[dict[str, Any]]:
    for group in subject.groups:
        group_columns = {"subject": subject.name, "cell": group.label}
        for repetition, run in sorted(group.by_repetition.items()):
            yield group_columns | {"repetition": repetition, "run": run.name} | run_values(run)
        # In the same table, with empty figures, so that nobody misses a run.
        for uncounted_run in (*group.failures, *group.uncounted):
            yield group_columns | asdict(uncounted_run)


def run_values(run: RunFigures) -> dict[str, Any]:
    """Return the figures of a run, one number each.

    Times are in seconds, sizes in bytes, accuracies are fractions; `started` is an ISO date.
    """
    early_steps = run.steps.early()
    step_p50, step_p99, step_max = early_steps.percentiles("seconds", (50, 99, 100))
    last_test = run.evaluations[-1] if run.evaluations else None
    return {
        "verdict": run.verdict.word if run.verdict else None,
        "cause": run.cause or ", ".join(flaw.text for flaw in run.flaws),
        "started": _iso_date(run.started),
        "nodes": run.nodes,
        "ranks": run.world_size,
        "batch_size": run.job.batch_size if run.job else None,
        "seed": run.job.seed if run.job else None,
        "step_seconds": run.step_seconds(),
        "step_p50": step_p50,
        "step_p99": step_p99,
        "step_max": step_max,
        **{phase: early_steps.mean(phase) for phase in ("data", "compute", "sync")},
        "bytes_sent_per_step": early_steps.mean("bytes_sent"),
        "samples_per_second": run.samples_per_second(),
        "training_loss": run.training_loss,
        "test_loss": last_test.loss if last_test else None,
        "test_accuracy": last_test.accuracy if last_test else None,
        "training_seconds": run.summary["training_seconds"],
        "elapsed": run.elapsed,
    }


def _iso_date(when: float) -> str | None:
    """Return a Unix time, which may be any number, as local date and time with its zone."""
    with suppress(OverflowError, ValueError, OSError):
        return datetime.fromtimestamp(when).astimezone().isoformat(timespec="seconds")
    return None


def _csv_cell(value: Any) -> Any:
    """Return a value that no spreadsheet takes for a formula; empty if it is not known."""
    if isinstance(value, float):
        return repr(value) if math.isfinite(value) else ""
    # Causes and names come from hosts: a spreadsheet would run a formula in them.
    if isinstance(value, str) and value.startswith(FORMULA_STARTS):
        return f"'{value}"
    return value


def _subject_object(subject: ReportSubject, chapter: Chapter) -> dict[str, Any]:
    timing = measure_timing(subject)
    study = subject.study
    return {
        "name": subject.name,
        "title": subject.title,
        "question": chapter.question,
        "quick": subject.is_quick,
        "metric": study.metric if study else "step_seconds",
        "verdict": [*chapter.doubts, *chapter.verdict],
        "alerts": chapter.alerts,
        "command": subject.command,
        "noise": timing.noise,
        "left_out": timing.left_out,
        "doubts": doubting.objects(find_doubts(subject, timing), subject.labels),
        "cells": [_group_object(subject, group, timing) for group in subject.groups],
    }


def _group_object(subject: ReportSubject, group: RunGroup, timing: SubjectTiming) -> dict[str, Any]:
    group_timing = timing.find(group)
    traffic = measure_traffic(group)
    reference = subject.reference_of(group)
    repeated_runs = sorted(group.by_repetition.items())
    group_values: dict[str, Any] = {
        "cell": group.label,
        "key": group.name,
        "nodes": group.nodes,
        "ranks": group.ranks,
        "batch_size": group.batch,
        "link_bytes_per_second": group.link or None,
        "state": group.state,
        "reference": reference.label if reference else None,
        "variation": group_timing.stability.variation if group_timing else None,
        "blocked_seconds": traffic.blocked if traffic else None,
        "bus_bandwidth": traffic.bus_bandwidth if traffic else None,
        "failures": [asdict(run) for run in group.failures],
        "uncounted": [asdict(run) for run in group.uncounted],
        "runs": [_run_object(repetition, run) for repetition, run in repeated_runs],
    }
    for field_name in ("seconds", "against", "speed_up", "efficiency"):
        field_value = getattr(group_timing, field_name, None)
        group_values[field_name] = asdict(field_value) if field_value else None
    if subject.result:
        result = subject.result.cells[subject.groups.index(group)]
        group_values["outcome"] = cell_to_json(result)
    return group_values


def _run_object(repetition: int, run: RunFigures) -> dict[str, Any]:
    columns = {"step": run.steps.mean_over_ranks("time")[0].tolist()}
    for series_name in SERIES:
        columns[series_name] = run.steps.mean_over_ranks(series_name)[1].tolist()
    return {
        "run": run.name,
        "repetition": repetition,
        **run_values(run),
        "settings": settings(run),
        "mean_over_ranks": columns,
        "summary": _drop_local_facts(run.summary),
    }


def _drop_local_facts(summary: dict[str, Any]) -> dict[str, Any]:
    """Return a summary without the facts of hosts that belong to them alone."""
    hosts = []
    for host in summary["hosts"]:
        facts = host["facts"] or {}
        kept_facts = {name: fact for name, fact in facts.items() if name not in LOCAL_FACTS}
        hosts.append(host | {"facts": kept_facts or None})
    return summary | {"hosts": hosts}
