"""Runs beside each other, as `rankboard compare` has them."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from rankboard import commands
from rankboard.commands import make_flags
from rankboard.progress_table import UNKNOWN, draw_table, format_number
from rankboard.runs import Run, find_folder


@dataclass(frozen=True)
class ComparedRun:
    """A run beside the first one. What is not known is None."""

    run: str
    verdict: str | None
    settings: Mapping[str, Any] = field(repr=False)
    steps: int
    loss: float | None
    """The training loss: the mean over ranks and the last 20 steps."""
    test_accuracy: float | None
    """A fraction."""
    step_seconds: float | None
    """The mean of all steps but the first."""
    samples_per_second: float | None
    finding: str | None
    """`faster` or `slower` than the first run, or that no difference is shown; None of the first
    run."""
    ratio: float | None
    """Its seconds per step / those of the first run; per sample if the batches differ."""
    interval: tuple[float, float] | None
    """The 95% interval of the ratio."""
    data: Mapping[str, Any] = field(repr=False)
    """All that `rankboard compare --json` says of it."""


@dataclass(frozen=True)
class Comparison:
    """Runs that are compared with the first of them."""

    runs: tuple[ComparedRun, ...]
    differing: Mapping[str, tuple[str, ...]]
    """The settings that differ, each with the texts of its values, in the order of the runs."""

    def _repr_html_(self) -> str:
        head = ("", *(run.run for run in self.runs))
        rows = [(name, *values) for name, values in self.differing.items()]
        rows.append(("verdict", *(run.verdict or UNKNOWN for run in self.runs)))
        for name in ("test_accuracy", "loss", "step_seconds", "samples_per_second", "ratio"):
            texts = (format_number(getattr(run, name)) for run in self.runs)
            rows.append((name.replace("_", " "), *texts))
        rows.append(("finding", *(run.finding or UNKNOWN for run in self.runs)))
        return draw_table(head, rows)


def compare(
    *runs: str | os.PathLike[str] | Run, runs_dir: str | os.PathLike[str] = "runs"
) -> Comparison:
    """Compare recorded runs, of one folder of runs, with the first of them.

    Raises: RefusedError, for example if one of them cannot be found.
    """
    folders = [find_folder(run, runs_dir) for run in runs]
    flags = make_flags({"runs_dir": folders[0].parent if folders else runs_dir})
    words = ["compare", "--json", *flags, *map(str, folders)]
    comparison = commands.call(words).get_object()
    return Comparison(
        runs=tuple(map(_read_run, comparison["runs"])),
        differing={name: tuple(values) for name, values in comparison["differing"].items()},
    )


def _read_run(run: Mapping[str, Any]) -> ComparedRun:
    against = run["against_first"] or {}
    interval = against.get("interval")
    return ComparedRun(
        run=run["run"],
        verdict=run["verdict"],
        settings=run["settings"],
        steps=run["steps"],
        loss=run["loss"],
        test_accuracy=run["test_accuracy"],
        step_seconds=run["step_seconds"],
        samples_per_second=run["samples_per_second"],
        finding=against.get("finding"),
        ratio=against.get("ratio"),
        interval=(interval[0], interval[1]) if interval else None,
        data=run,
    )
