"""The two ways to show a study: as lines, or in the dashboard."""

from __future__ import annotations

import signal
import sys
from contextlib import suppress
from functools import partial

from remote.record.lock import STOP
from remote.study.folder import RunEnded
from remote.study.length import TrainingLength
from remote.study.runner import StudyRunner
from tui.app.second_signal import Watched, ended_by_second_signal
from tui.kit.exit import STOPPED
from tui.run import outcome
from tui.study.text.line_printer import finish
from tui.study.text.printer import Guarded, printer
from tui.study.text.run_texts import describe_done


def show_lines(runner: StudyRunner, json: bool) -> None:
    """Make the runs that are left, and print what becomes of them."""
    with ended_by_second_signal() as watched:

        def answer() -> None:
            if not _has_batches(runner):
                watched.answer()

        watched.on_asked = answer
        _handle_signals(runner)
        _print_study(runner, json, watched)


def _has_batches(runner: StudyRunner) -> bool:
    """Return whether a run is under way, whose batches come. Between two runs, and as one closes,
    a handler of signals is enough: it ends the study."""
    return runner.current is not None and not runner.current.session.is_closing


def _print_study(runner: StudyRunner, json: bool, watched: Watched) -> None:
    with suppress(OSError), printer(runner, json) as show:
        runner.ended = partial(_end, runner, show)
        is_stop_reported = False
        results_before = describe_done(runner)
        if results_before:
            show.tell(results_before)
        for run in runner.runs():
            show.begin(run)
            for _ in runner.batches(run):
                watched.answer()
                show.batch(run)
                _stop_unread(runner, show)
                if runner.is_stopped and not is_stop_reported:
                    is_stop_reported = True
                    hurry = "a second signal does not wait for its end"
                    show.tell(f"stopping the run ({runner.stop_reason}): {hurry}")
        show.end()


def _end(runner: StudyRunner, show: Guarded, end: RunEnded) -> None:
    show.ended(end)
    _stop_unread(runner, show)


def _stop_unread(runner: StudyRunner, show: Guarded) -> None:
    """Stop the study once nobody reads stdout any more, as with `| head`."""
    if show.gone and not runner.is_stopped:  # a second request would skip the hosts' end
        runner.stop("stdout was closed")


def _handle_signals(runner: StudyRunner) -> None:
    """Let a signal stop the study, and a second one, or SIGQUIT, stop it at once."""

    def stop(number: int, _: object) -> None:
        is_second = runner.is_stopped
        reason = "rankboard stop" if number == STOP else outcome.describe_signal(number)
        runner.stop(reason, now=is_second or number == signal.SIGQUIT)
        if is_second and not runner.current:
            sys.exit(STOPPED)

    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, STOP):
        signal.signal(number, stop)


def show_dashboard(runner: StudyRunner) -> TrainingLength | None:
    """Show the dashboard until the user quits; then print the results. Return how long the runs are
    to train if the user wants the study made again."""
    from tui.app.study_app import StudyApp

    app = StudyApp(runner)
    app.show()
    finish(runner)
    return app.next_length
