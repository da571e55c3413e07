"""A study as lines."""

from __future__ import annotations

import sys

from rich.console import Console

from remote.format import count
from remote.sanitise import one_line
from remote.study.folder import Ended, Outcome
from remote.study.runner import Runner, StudyRun
from tui.kit.narrate import echo, narrate
from tui.kit.text_table import align_lines
from tui.study.text.words import fate, opening


class StudyLinePrinter:
    """A line when a run begins and one when it has ended, then the results."""

    def __init__(self, runner: Runner) -> None:
        self._runner = runner
        self._causes: dict[str, str] = {}

    def begin(self, run: StudyRun) -> None:
        """See `StudyPrinter`."""
        recorded = "" if run.is_left else f", recorded as {run.session.plan.run}"
        self.tell(f"{opening(self._runner, run)}{recorded}")

    def batch(self, run: StudyRun) -> None:
        """See `StudyPrinter`."""

    def ended(self, end: Ended) -> None:
        """See `StudyPrinter`."""
        from tui.study.cells import unit, value

        study = self._runner.study
        if end.outcome is Outcome.COUNTED:
            echo(f"{end.trial}: {value(end.value, study.metric)} {unit(study)}")
        else:
            self.tell(fate(end, self._causes))

    def tell(self, text: str) -> None:
        """See `StudyPrinter`."""
        narrate(text)

    def end(self) -> None:
        """See `StudyPrinter`."""
        finish(self._runner)


def finish(runner: Runner) -> None:
    """Print the table of cells, why cells failed, the answer, and how to go on."""
    from remote.study.conclusion import conclusion
    from remote.study.limits import failures
    from remote.study.results import results
    from tui.study.cells import cells

    progress = runner.progress
    found = results(progress)
    room = Console().width if sys.stdout.isatty() else float("inf")
    shown = cells(found, room)
    for line in align_lines([shown.head, *(tuple(map(one_line, row)) for row in shown.rows)]):
        echo(line if len(line) <= room else f"{line[: int(room) - 1]}…")
    if runner.study.given:
        narrate(runner.study.given)
    narrate(*failures(progress))
    if any(row.value for row in found.cells):
        narrate(*conclusion(found))
    left = [one for one in runner.study.trials() if not progress.is_settled(one)]
    failed = sum(len(cell.failed) for cell in progress.cells.values())
    why = f" ({runner.stop_reason})" if runner.stop_reason else ""
    if runner.is_refused:
        missing = count(len(left) + failed, "run")
        narrate(f"{missing} left{why}: correct this, then repeat the same command")
    else:
        if left:
            narrate(f"{count(len(left), 'run')} left{why}: the same command continues the study")
        if failed:
            narrate(f"{count(failed, 'run')} failed: the same command repeats them")
    narrate(f"report: rankboard report {runner.folder.name}")
