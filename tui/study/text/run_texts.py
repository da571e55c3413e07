"""The sentences on single runs of a study."""

from __future__ import annotations

from remote.study.folder import RunEnded, TrialOutcome
from remote.study.runner import StudyRun, StudyRunner


def describe_run(runner: StudyRunner, run: StudyRun) -> str:
    """Return which run this is: "run 3 of 18: sync=ring #1"."""
    if run.is_left:
        return f"ending {run.session.plan.run}, which an earlier call left: {run.trial.key}"
    return f"run {run_number(runner)}: {run.trial.key}"


def run_number(runner: StudyRunner) -> str:
    """Return the number of the next run: "3 of 18". Runs that failed count, too."""
    number = runner.progress.num_settled + 1
    total = len(runner.study.trials())
    return f"{number} of {total}" if number <= total else f"{number}, {number - total} more"


def describe_end(end: RunEnded, causes: dict[str, str]) -> str:
    """Return what became of a run that does not count.

    `causes` are those that were shown before, with the first run of each; each is shown once.
    """
    what = "failed" if end.outcome is TrialOutcome.FAILED else "was interrupted"
    first = causes.setdefault(end.cause, end.trial)
    if end.cause and first != end.trial:
        return f"{end.trial} {what} for the same reason as {first}"
    return f"{end.trial} {what}{f': {end.cause}' if end.cause else ''}"


def describe_done(runner: StudyRunner) -> str:
    """Return how many runs earlier calls made: "3 of 12 runs are there"; "" if none."""
    trials = runner.study.trials()
    made = sum(runner.progress.is_settled(trial) for trial in trials)
    are = "is" if made == 1 else "are"
    return f"{made} of {len(trials)} runs {are} there" if made else ""
