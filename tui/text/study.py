"""A study as lines, as a live table on a terminal, or as JSON."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import typer
from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text as Line

from remote.format import UNKNOWN, count, duration, seconds
from remote.record.summary import finite
from remote.run.state import RunState
from remote.sanitise import one_line
from remote.study import estimate
from remote.study.folder import Ended, Outcome
from remote.study.progress import CellState, Progress
from remote.study.runner import Runner, StudyRun
from remote.study.study import Study, Trial
from training.wire.jsonl import dumps
from tui.narrate import narrate
from tui.session_clock import SessionClock
from tui.text.plain import to_nowhere
from tui.text.table import aligned, print_table

if TYPE_CHECKING:  # numpy takes a while to import
    from remote.study.results import StudyResult

EVERY = 0.5
"""Seconds between two drawings of the table."""
STYLES = {
    CellState.RUNNING: "green",
    CellState.DONE: "",
    CellState.WAITING: "dim",
    CellState.FAILED: "bold red",
    CellState.UNSTABLE: "yellow",
}
STOPPING = "a second signal does not wait for its end"
BESIDE = 6
"""Lines of the live picture beside the rows of the table."""


class StudyPrinter(Protocol):
    """Shows a study."""

    def begin(self, run: StudyRun) -> None:
        """A run begins."""

    def batch(self, run: StudyRun) -> None:
        """The state of the run has changed, perhaps."""

    def ended(self, end: Ended) -> None:
        """A run has ended, or could not begin."""

    def tell(self, text: str) -> None:
        """Say something."""

    def end(self) -> None:
        """Show the results."""


class Guarded:
    """A printer that falls silent once nobody reads: `gone` is true then."""

    def __init__(self, printer: StudyPrinter) -> None:
        self._printer = printer
        self.gone = False

    def begin(self, run: StudyRun) -> None:
        """See `StudyPrinter`."""
        self._try(lambda: self._printer.begin(run))

    def batch(self, run: StudyRun) -> None:
        """See `StudyPrinter`."""
        self._try(lambda: self._printer.batch(run))

    def ended(self, end: Ended) -> None:
        """See `StudyPrinter`."""
        self._try(lambda: self._printer.ended(end))

    def tell(self, text: str) -> None:
        """See `StudyPrinter`."""
        self._try(lambda: self._printer.tell(text))

    def end(self) -> None:
        """See `StudyPrinter`."""
        self._try(self._printer.end)

    def _try(self, act: Callable[[], None]) -> None:
        if self.gone:
            return
        try:
            act()
            sys.stdout.flush()
        except OSError:  # a reader that went away, a full disk, a terminal that is gone
            self.gone = True
            to_nowhere(sys.stdout)


@contextmanager
def printer(runner: Runner, json: bool) -> Iterator[Guarded]:
    """Make the printer for this stdout."""
    if json:
        yield Guarded(JsonPrinter(runner))
    elif sys.stdout.isatty():
        console = Console(highlight=False, emoji=False, markup=False)
        with Live(console=console, auto_refresh=False, transient=True) as live:
            yield Guarded(LivePrinter(runner, live))
    else:
        yield Guarded(LinePrinter(runner))


def describe(study: Study, progress: Progress, runs_dir: Path, *, json: bool) -> None:
    """Print the runs of a study, in order, and how long they may take."""
    if json:
        for trial in study.trials():
            job = {"job": asdict(trial.job)}
            _write(_named(trial) | job | {"done": progress.is_settled(trial)})
        return
    narrate(f"{study.title}: {study.question}")
    rows = []
    for number, trial in enumerate(study.trials(), start=1):
        done = "done" if progress.is_settled(trial) else CellState.WAITING.value
        place = trial.cell.place
        where = f"{count(place.nodes, 'host')}, {count(place.ranks, 'rank')}"
        rows.append((str(number), trial.key, where, done))
    print_table(("run", "cell", "where", "state"), rows)
    narrate(estimate.text(progress, runs_dir))


def opening(runner: Runner, run: StudyRun) -> str:
    """Which run this is: "run 3 of 18: sync=ring #1"."""
    if run.is_left:
        return f"ending {run.session.plan.run}, which an earlier call left: {run.trial.key}"
    return f"run {ordinal(runner)}: {run.trial.key}"


def ordinal(runner: Runner) -> str:
    """The number of the next run: "3 of 18". Runs that failed count, too."""
    number, total = runner.progress.settled + 1, len(runner.study.trials())
    return f"{number} of {total}" if number <= total else f"{number}, {number - total} more"


class LinePrinter:
    """A line when a run begins and one when it has ended, then the results."""

    def __init__(self, runner: Runner) -> None:
        self._runner = runner

    def begin(self, run: StudyRun) -> None:
        """See `StudyPrinter`."""
        recorded = "" if run.is_left else f", recorded as {run.session.plan.run}"
        self.tell(f"{opening(self._runner, run)}{recorded}")

    def batch(self, run: StudyRun) -> None:
        """See `StudyPrinter`."""

    def ended(self, end: Ended) -> None:
        """See `StudyPrinter`."""
        from tui.text.cells import VALUES, value

        study = self._runner.study
        if end.outcome is Outcome.COUNTED:
            typer.echo(f"{end.trial}: {value(end.value, study.metric)} {VALUES[study.metric]}")
        else:
            self.tell(fate(end))

    def tell(self, text: str) -> None:
        """See `StudyPrinter`."""
        narrate(text)

    def end(self) -> None:
        """See `StudyPrinter`."""
        finish(self._runner)


class LivePrinter:
    """The table of cells, and the run under way; lines scroll above them."""

    def __init__(self, runner: Runner, live: Live) -> None:
        self._runner, self._live = runner, live
        self._drawn = 0.0
        self._changes = -1
        self._clock = SessionClock()

    def begin(self, run: StudyRun) -> None:
        """See `StudyPrinter`."""
        self._drawn = 0.0
        self._clock = SessionClock()
        if run.is_left:
            self.tell(opening(self._runner, run))

    def batch(self, run: StudyRun) -> None:
        """See `StudyPrinter`."""
        if time.monotonic() - self._drawn < EVERY:
            return
        self._drawn = time.monotonic()
        if self._changes != self._runner.changes:
            from remote.study.results import results

            self._changes = self._runner.changes
            self._result = results(self._runner.progress)
        self._live.update(self._picture(run), refresh=True)

    def _picture(self, run: StudyRun) -> Group:
        size = self._live.console.size
        state, progress = run.session.state, self._runner.progress
        now = self._clock.now(state)
        took = now - state.started if state.started else 0.0
        left = duration(estimate.remaining(progress, took))
        lines = (
            opening(self._runner, run),
            doing(state),
            f"study: {count(progress.settled, 'run')} ended, ETA {left}",
        )
        table = picture(self._result, size.width, max(1, size.height - BESIDE))
        return Group(table, "", *(_cropped(one_line(line)) for line in lines))

    def ended(self, end: Ended) -> None:
        """See `StudyPrinter`."""
        if end.outcome is not Outcome.COUNTED:
            self.tell(fate(end))

    def tell(self, text: str) -> None:
        """See `StudyPrinter`."""
        self._live.console.print(Line(f"rankboard: {one_line(text)}", style="dim"), soft_wrap=True)

    def end(self) -> None:
        """See `StudyPrinter`."""
        self._live.stop()
        finish(self._runner)


def picture(result: StudyResult, width: int, height: int) -> Table:
    """Draw as many cells as fit, with the one that runs among them."""
    from tui.text.cells import cells

    shown = cells(result, width)
    running = next((row for row, one in enumerate(shown.states) if one is CellState.RUNNING), 0)
    first = max(0, min(running - height // 2, len(shown.rows) - height))
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="bold")
    for name in shown.head:
        table.add_column(name, no_wrap=True, overflow="ellipsis")
    for row, state in list(zip(shown.rows, shown.states, strict=True))[first : first + height]:
        table.add_row(*(Line(text, style=STYLES[state]) for text in row))
    return table


def doing(state: RunState) -> str:
    """How far a run is: "training, step 12/40, 0.512 s/iter, ETA 14 s"."""
    parts = [state.phase.value]
    if state.step:
        pace = max((rank.pace for rank in state.ranks if rank.recent), default=float("nan"))
        parts += [
            f"step {state.step}/{state.progress.steps or UNKNOWN}",
            f"{seconds(pace)} s/iter",
            f"ETA {duration(state.eta)}",
        ]
    return ", ".join(parts)


def _cropped(text: str) -> Line:
    return Line(text, no_wrap=True, overflow="ellipsis")


class JsonPrinter:
    """One object when a run begins and one when it has ended, and the results at the end."""

    def __init__(self, runner: Runner) -> None:
        self._runner = runner

    def begin(self, run: StudyRun) -> None:
        """See `StudyPrinter`."""
        event = "ending" if run.is_left else "begun"
        _write({"event": event} | _named(run.trial) | {"run": run.session.plan.run})

    def batch(self, run: StudyRun) -> None:
        """See `StudyPrinter`."""

    def ended(self, end: Ended) -> None:
        """See `StudyPrinter`."""
        trial = self._runner.study.trial(end.trial)
        _write({"event": "ended"} | (_named(trial) if trial else {}) | asdict(end))

    def tell(self, text: str) -> None:
        """See `StudyPrinter`."""
        narrate(text)

    def end(self) -> None:
        """See `StudyPrinter`."""
        from remote.study.conclusion import answer, limits
        from remote.study.results import objects, results

        found = results(self._runner.progress)
        told = {"answer": answer(found), "limits": limits(found)}
        _write({"event": "results"} | objects(found) | told)


def _named(trial: Trial) -> dict[str, Any]:
    return {
        "trial": trial.key,
        "cell": dict(trial.cell.labels),
        "repetition": trial.repetition,
    }


def _write(item: Mapping[str, Any]) -> None:
    sys.stdout.write(dumps(finite(dict(item))) + "\n")


def fate(end: Ended) -> str:
    """What became of a run that does not count."""
    what = "failed" if end.outcome is Outcome.FAILED else "was interrupted"
    return f"{end.trial} {what}{f': {end.cause}' if end.cause else ''}"


def finish(runner: Runner) -> None:
    """Print the table of cells, why cells failed, the answer, and how to go on."""
    from remote.study.conclusion import conclusion
    from remote.study.results import results
    from tui.text.cells import cells

    progress = runner.progress
    found = results(progress)
    room = Console().width if sys.stdout.isatty() else float("inf")
    shown = cells(found, room)
    for line in aligned([shown.head, *(tuple(map(one_line, row)) for row in shown.rows)]):
        typer.echo(line if len(line) <= room else f"{line[: int(room) - 1]}…")
    for cell in progress.cells.values():
        if cell.cause:
            narrate(f"{cell.cell.key} failed: {cell.cause}")
    if any(row.value for row in found.cells):
        narrate(*conclusion(found))
    left = [one for one in runner.study.trials() if not progress.is_settled(one)]
    failed = sum(len(cell.failed) for cell in progress.cells.values())
    if left:
        why = f" ({runner.stop_reason})" if runner.stop_reason else ""
        narrate(f"{count(len(left), 'run')} left{why}: the same command goes on")
    if failed:
        narrate(f"{count(failed, 'run')} failed: the same command makes what failed again")
    narrate(f"report: rankboard report {runner.folder.name}")
