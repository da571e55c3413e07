"""A study as JSON, an object per line."""

from __future__ import annotations

import sys
from dataclasses import asdict
from typing import Any

from remote.study.folder import RunEnded
from remote.study.runner import StudyRun, StudyRunner
from remote.study.study import Trial
from tui.kit.narrate import narrate
from tui.kit.output import json_line


class StudyJsonPrinter:
    """One object when a run begins and one when it has ended, and the results at the end."""

    def __init__(self, runner: StudyRunner) -> None:
        self._runner = runner

    def begin(self, run: StudyRun) -> None:
        """See `StudyPrinter`."""
        event_name = "ending" if run.is_left else "begun"
        write({"event": event_name} | named(run.trial) | {"run": run.session.plan.run})

    def batch(self, run: StudyRun) -> None:
        """See `StudyPrinter`."""

    def ended(self, end: RunEnded) -> None:
        """See `StudyPrinter`."""
        trial = self._runner.study.trial(end.trial)
        write({"event": "ended"} | (named(trial) if trial else {}) | asdict(end))

    def tell(self, text: str) -> None:
        """See `StudyPrinter`."""
        narrate(text)

    def end(self) -> None:
        """See `StudyPrinter`."""
        # These need numpy, which takes a while to import, and only the end does.
        from remote.study.conclusion import answer_text, effect_lines, guess_text
        from remote.study.results import compute_results, results_to_json
        from remote.study.shortcomings import limit_lines

        study_result = compute_results(self._runner.progress)
        answer_facts = {
            "answer": answer_text(study_result),
            "warning": guess_text(study_result),
            "effects": effect_lines(study_result),
            "limits": limit_lines(study_result),
        }
        write({"event": "results"} | results_to_json(study_result) | answer_facts)


def named(trial: Trial) -> dict[str, Any]:
    """A run as objects name it."""
    return {
        "trial": trial.key,
        "cell": dict(trial.cell.labels),
        "repetition": trial.repetition,
    }


def write(item: dict[str, Any]) -> None:
    """Write an object."""
    # Not flushed here: `Guarded` does so after each call, where a pipe that is gone is noticed.
    sys.stdout.write(json_line(item))
