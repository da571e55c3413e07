"""A study as lines, as a live table on a terminal, or as JSON."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol

import typer
from rich.console import Console
from rich.live import Live
from rich.table import Table
from rich.text import Text

from remote.format import UNKNOWN, count, fixed, percent, seconds
from remote.run.state import RunState
from remote.session.session import Session
from remote.study import estimate
from remote.study.progress import CellState, Progress
from remote.study.runner import Runner
from remote.study.study import METRICS, Study, Trial
from training.wire.events import Record
from training.wire.jsonl import dumps
from tui.narrate import narrate
from tui.text.table import print_table

EVERY = 0.5
"""Seconds between two drawings of the table."""
STYLES = {
    CellState.RUNNING: "green",
    CellState.DONE: "",
    CellState.WAITING: "dim",
    CellState.FAILED: "bold red",
    CellState.UNSTABLE: "yellow",
}


class StudyPrinter(Protocol):
    """Shows a study."""

    def begin(self, trial: Trial, session: Session) -> None:
        """A run begins."""

    def batch(self, records: list[Record], state: RunState) -> None:
        """Records of the run, which were applied to the state."""

    def end(self) -> None:
        """Show the results."""


@contextmanager
def printer(runner: Runner, json: bool) -> Iterator[StudyPrinter]:
    """Make the printer for this stdout."""
    if json:
        yield JsonPrinter(runner)
    elif sys.stdout.isatty():
        console = Console(highlight=False, emoji=False, markup=False)
        with Live(console=console, auto_refresh=False, transient=True) as live:
            yield LivePrinter(runner, live)
    else:
        yield LinePrinter(runner)


def describe(study: Study, progress: Progress, runs_dir: Path) -> None:
    """Print the runs of a study, in order, and how long they may take."""
    narrate(f"{study.title}: {study.question}")
    rows = []
    for number, trial in enumerate(study.trials(), start=1):
        done = "done" if progress.is_settled(trial) else CellState.WAITING.value
        place = trial.cell.place
        where = f"{count(place.nodes, 'host')}, {count(place.ranks, 'rank')}"
        rows.append((str(number), trial.key, where, done))
    print_table(("run", "cell", "where", "state"), rows)
    narrate(estimate.text(progress, runs_dir))


def head(study: Study) -> tuple[str, ...]:
    """The columns of the table of cells."""
    names = tuple(axis.name for axis in study.axes) or ("cell",)
    compared = (f"against {study.reference}",) if study.compare and len(study.cells) > 1 else ()
    faster = ("speed-up",) if study.baseline else ()
    return (*names, "state", "runs", METRICS[study.metric], *faster, *compared)


def rows(progress: Progress) -> list[tuple[tuple[str, ...], CellState]]:
    """A row per cell, with its state."""
    from remote.study.results import results

    found = []
    study = progress.study
    for row in results(progress).cells:
        labels = tuple(label for _, label in row.cell.labels) or ("all",)
        cells = [*labels, row.state.value, f"{len(row.runs)}/{study.repetitions}"]
        cells.append(measured(row.value, study) if row.value else UNKNOWN)
        if study.baseline:
            cells.append(f"{row.speed_up.value:.2f}" if row.speed_up else UNKNOWN)
        if study.compare and len(study.cells) > 1:
            cells.append(verdict(row.comparison) if row.comparison else UNKNOWN)
        found.append((tuple(cells), row.state))
    return found


def measured(value: Any, study: Study) -> str:
    """A value with its interval: "0.512 ±2%"."""
    if study.metric in ("accuracy", "loss"):
        middle = percent(value.value, 1) if study.metric == "accuracy" else f"{value.value:.4f}"
        reach = (value.high - value.low) / 2
        wide = percent(reach, 1) if study.metric == "accuracy" else fixed(reach, 4)
        return f"{middle} ±{wide}" if reach == reach else middle
    wide = f" ±{value.percent:.1f}%" if value.percent == value.percent else ""
    return f"{seconds(value.value)}{wide}"


def verdict(comparison: Any) -> str:
    """What a comparison shows: "1.52x slower"."""
    return f"{comparison.finding.value} ({comparison.ratio.value:.3g})"


class LinePrinter:
    """One line per run, then the results."""

    def __init__(self, runner: Runner) -> None:
        self._runner = runner
        self._current: Trial | None = None

    def begin(self, trial: Trial, session: Session) -> None:
        """See `StudyPrinter`."""
        self._close()
        self._current = trial
        settled = sum(len(cell.counted) for cell in self._runner.progress.cells.values())
        total = len(self._runner.study.trials())
        narrate(f"run {settled + 1} of {total}: {trial.key}, recorded as {session.plan.run}")

    def batch(self, records: list[Record], state: RunState) -> None:
        """See `StudyPrinter`."""

    def _close(self) -> None:
        """Say what became of the run before."""
        if self._current is None:
            return
        cell = self._runner.progress.cells[self._current.cell.key]
        number = self._current.repetition
        end = cell.counted.get(number) or cell.failed.get(number)
        if end and end.value is not None:
            typer.echo(f"{self._current.key}: {seconds(end.value)}")
        elif end:
            typer.echo(f"{self._current.key}: failed: {end.cause}")
        self._current = None

    def end(self) -> None:
        """See `StudyPrinter`."""
        self._close()
        finish(self._runner)


class LivePrinter:
    """The table of cells, and the run under way."""

    def __init__(self, runner: Runner, live: Live) -> None:
        self._runner, self._live = runner, live
        self._drawn = 0.0
        self._trial: Trial | None = None

    def begin(self, trial: Trial, session: Session) -> None:
        """See `StudyPrinter`."""
        self._trial = trial
        self._drawn = 0.0
        self._table = rows(self._runner.progress)

    def batch(self, records: list[Record], state: RunState) -> None:
        """See `StudyPrinter`."""
        if time.monotonic() - self._drawn < EVERY:
            return
        self._drawn = time.monotonic()
        self._live.update(self._picture(state), refresh=True)

    def _picture(self, state: RunState) -> Table:
        study = self._runner.study
        step, total = state.step, state.progress.steps
        caption = f"{self._trial.key if self._trial else ''}: {state.phase.value}"
        caption += f", step {step}/{total}" if total else ""
        table = Table(box=None, padding=(0, 1, 0, 0), header_style="bold", caption=caption)
        table.caption_justify = "left"
        for name in head(study):
            table.add_column(name, no_wrap=True)
        for cells, kind in self._table:
            table.add_row(*(Text(cell, style=STYLES[kind]) for cell in cells))
        return table

    def end(self) -> None:
        """See `StudyPrinter`."""
        self._live.stop()
        finish(self._runner)


class JsonPrinter:
    """One object per run that has ended, and the results at the end."""

    def __init__(self, runner: Runner) -> None:
        self._runner = runner
        self._told = 0

    def begin(self, trial: Trial, session: Session) -> None:
        """See `StudyPrinter`."""
        self._write({"event": "begun", "trial": trial.key, "run": session.plan.run})

    def batch(self, records: list[Record], state: RunState) -> None:
        """See `StudyPrinter`."""

    def end(self) -> None:
        """See `StudyPrinter`."""
        from remote.study.results import objects, results

        self._write({"event": "results"} | objects(results(self._runner.progress)))

    @staticmethod
    def _write(value: dict[str, Any]) -> None:
        sys.stdout.write(dumps(value) + "\n")
        sys.stdout.flush()


def finish(runner: Runner) -> None:
    """Print the table of cells, why cells failed, and the answer."""
    from remote.study.conclusion import conclusion
    from remote.study.results import results

    progress = runner.progress
    print_table(head(runner.study), [cells for cells, _ in rows(progress)])
    for cell in progress.cells.values():
        if cell.cause:
            narrate(f"{cell.cell.key} failed: {cell.cause}")
    narrate(*conclusion(results(progress)))
    left: Sequence[Trial] = [one for one in runner.study.trials() if not progress.is_settled(one)]
    if left or any(cell.failed for cell in progress.cells.values()):
        narrate(f"continue with: rankboard study {runner.folder.name}")
    narrate(f"report: rankboard report {runner.folder.name}")
