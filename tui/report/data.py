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
from typing import Any

from remote.metrics import doubt as doubting
from remote.metrics.run import RunFigures
from remote.metrics.settings import settings
from remote.record.summary import finite
from tui.report.document import Chapter
from tui.report.numbers.doubts import doubts
from tui.report.numbers.network import traffic
from tui.report.numbers.timing import Timing, timing
from tui.report.subject import Group, Subject

FORMULA = ("=", "+", "-", "@", "\t", "\r")
"""How a text begins that a spreadsheet takes for a formula."""
SERIES = ("time", "loss", "seconds", "data", "compute", "sync", "bytes_sent")


def table(subjects: Sequence[Subject]) -> str:
    """CSV: one row per run, those that failed too."""
    rows = [row for subject in subjects for row in _rows(subject)]
    names = list(dict.fromkeys(name for row in rows for name in row))
    text = io.StringIO()
    lines = csv.writer(text, lineterminator="\n")
    lines.writerow(names)
    lines.writerows([_cell(row.get(name)) for name in names] for row in rows)
    return text.getvalue()


def objects(subjects: Sequence[Subject], chapters: Sequence[Chapter]) -> str:
    """JSON: the cells with their intervals, and their runs with settings, summaries and curves."""
    found = [_subject(*one) for one in zip(subjects, chapters, strict=True)]
    return json.dumps(finite({"subjects": found}), indent=1, ensure_ascii=False) + "\n"


def _rows(subject: Subject) -> Iterator[dict[str, Any]]:
    for group in subject.groups:
        about = {"subject": subject.name, "cell": group.label}
        for number, run in sorted(group.runs.items()):
            yield about | {"repetition": number, "run": run.name} | values(run)
        for one in (*group.failures, *group.uncounted):
            yield about | asdict(one)


def values(run: RunFigures) -> dict[str, Any]:
    """The figures of a run, one number each. Times in seconds, sizes in bytes, accuracies are
    fractions; `started` is an ISO date."""
    early = run.steps.early()
    p50, p99, most = early.percentiles("seconds", (50, 99, 100))
    last = run.evaluations[-1] if run.evaluations else None
    return {
        "verdict": run.verdict.word if run.verdict else None,
        "cause": run.cause or run.diverged,
        "started": _date(run.started),
        "nodes": run.nodes,
        "ranks": run.world_size,
        "batch_size": run.job.batch_size if run.job else None,
        "seed": run.job.seed if run.job else None,
        "step_seconds": run.step_seconds(),
        "step_p50": p50,
        "step_p99": p99,
        "step_max": most,
        "data": early.mean("data"),
        "compute": early.mean("compute"),
        "sync": early.mean("sync"),
        "bytes_sent_per_step": early.mean("bytes_sent"),
        "samples_per_second": run.samples_per_second(),
        "training_loss": run.final_loss(),
        "test_loss": last.loss if last else None,
        "test_accuracy": last.accuracy if last else None,
        "training_seconds": run.summary["training_seconds"],
        "elapsed": run.elapsed,
    }


def _date(when: float) -> str | None:
    """A Unix time, which may be any number, as local date and time with its zone."""
    with suppress(OverflowError, ValueError, OSError):
        return datetime.fromtimestamp(when).astimezone().isoformat(timespec="seconds")
    return None


def _cell(value: Any) -> Any:
    """A value that no spreadsheet takes for a formula; empty where it is not known."""
    if isinstance(value, float):
        return repr(value) if math.isfinite(value) else ""
    if isinstance(value, str) and value.startswith(FORMULA):
        return f"'{value}"
    return value


def _subject(subject: Subject, chapter: Chapter) -> dict[str, Any]:
    timed = timing(subject)
    return {
        "name": subject.name,
        "title": subject.title,
        "question": subject.question,
        "quick": subject.is_quick,
        "metric": subject.metric,
        "verdict": [*chapter.doubts, *chapter.verdict],
        "alerts": chapter.alerts,
        "noise": timed.noise,
        "left_out": timed.left_out,
        "doubts": doubting.objects(doubts(subject, timed)),
        "cells": [_group(subject, group, timed) for group in subject.groups],
    }


def _group(subject: Subject, group: Group, timed: Timing) -> dict[str, Any]:
    row = timed.of(group)
    sent = traffic(group)
    at = subject.groups.index(group)
    other = subject.references[at]
    return {
        "cell": group.label,
        "nodes": group.nodes,
        "ranks": group.ranks,
        "batch_size": group.batch,
        "link_bytes_per_second": group.link or None,
        "state": group.state,
        "command": group.command,
        "seconds": asdict(row.seconds) if row else None,
        "variation": row.stability.variation if row else None,
        "reference": subject.groups[other].label if other is not None else None,
        "against": asdict(row.against) if row and row.against else None,
        "outcome": asdict(subject.outcomes[at]) if subject.outcomes else None,
        "speed_up": asdict(row.speed_up) if row and row.speed_up else None,
        "efficiency": asdict(row.efficiency) if row and row.efficiency else None,
        "blocked_seconds": sent.blocked if sent else None,
        "bus_bandwidth": sent.busbw if sent else None,
        "failures": [asdict(one) for one in group.failures],
        "uncounted": [asdict(one) for one in group.uncounted],
        "runs": [_run(number, run) for number, run in sorted(group.runs.items())],
    }


def _run(number: int, run: RunFigures) -> dict[str, Any]:
    steps = run.steps.mean_over_ranks("time")[0].tolist()
    series = {name: run.steps.mean_over_ranks(name)[1].tolist() for name in SERIES}
    return {
        "run": run.name,
        "repetition": number,
        **values(run),
        "settings": settings(run),
        "mean_over_ranks": {"step": steps} | series,
        "summary": run.summary,
    }
