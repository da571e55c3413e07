"""A study as lines."""

from __future__ import annotations

from remote.format import count
from remote.study.folder import RunEnded, TrialOutcome
from remote.study.runner import StudyRun, StudyRunner
from tui.kit.narrate import echo, narrate
from tui.kit.text_table import print_table, terminal_width
from tui.study.text.run_texts import describe_end, describe_run


class StudyLinePrinter:
    """A line when a run begins and one when it has ended, then the results."""

    def __init__(self, runner: StudyRunner) -> None:
        self._runner = runner
        self._causes: dict[str, str] = {}

    def begin(self, run: StudyRun) -> None:
        """See `StudyPrinter`."""
        recorded = "" if run.is_left else f", recorded as {run.session.plan.run}"
        self.tell(f"{describe_run(self._runner, run)}{recorded}")

    def batch(self, run: StudyRun) -> None:
        """See `StudyPrinter`."""

    def ended(self, end: RunEnded) -> None:
        """See `StudyPrinter`."""
        from tui.study.cell_table import format_value, metric_header

        study = self._runner.study
        if end.outcome is TrialOutcome.COUNTED:
            echo(f"{end.trial}: {format_value(end.value, study.metric)} {metric_header(study)}")
        else:
            self.tell(describe_end(end, self._causes))

    def tell(self, text: str) -> None:
        """See `StudyPrinter`."""
        narrate(text)

    def end(self) -> None:
        """See `StudyPrinter`."""
        finish(self._runner)


def finish(runner: StudyRunner) -> None:
    """Print the table of cells, why cells failed, the answer, and how to go on."""
    from remote.study.conclusion import conclusion_lines
    from remote.study.results import compute_results
    from remote.study.shortcomings import failure_lines
    from tui.study.cell_table import make_cell_table

    progress = runner.progress
    result = compute_results(progress)
    cell_table = make_cell_table(result, terminal_width())
    print_table(cell_table.head, cell_table.rows)
    if runner.study.overrides_text:
        narrate(runner.study.overrides_text)
    narrate(*failure_lines(progress))
    if any(row.value for row in result.cells):
        narrate(*conclusion_lines(result))
    num_missing = len(progress.missing_trials())
    num_failed = progress.num_failed
    reason_text = f" ({runner.stop_reason})" if runner.stop_reason else ""
    # A study that was refused fails again in the same way: only a correction helps.
    if runner.is_refused:
        num_missing += num_failed
        advice = "correct this, then repeat the same command"
        num_failed = 0
    else:
        advice = "the same command continues the study"
    if num_missing:
        narrate(f"{count(num_missing, 'run')} left{reason_text}: {advice}")
    if num_failed:
        narrate(f"{count(num_failed, 'run')} failed: the same command repeats them")
    narrate(f"report: rankboard report {runner.folder.name}")
