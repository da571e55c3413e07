"""The sentences on single runs of a study."""

from __future__ import annotations

from remote.study.folder import RunEnded, TrialOutcome
from remote.study.progress import StudyProgress
from remote.study.runner import StudyRun, StudyRunner


def describe_run(runner: StudyRunner, run: StudyRun) -> str:
    """Return which run this is: "run 3 of 18: sync=ring #1"."""
    if run.is_left:
        return f"ending {run.session.plan.run}, which an earlier call left: {run.trial.key}"
    return f"run {run_number(runner.progress)}: {run.trial.key}"


def run_number(progress: StudyProgress) -> str:
    """Return the number of the next run: "3 of 18". Runs that failed count, too."""
    number = progress.num_settled + 1
    num_planned = len(progress.study.trials())
    # Repeats with --until-stable come on top of what was planned.
    return (
        f"{number} of {num_planned}"
        if number <= num_planned
        else f"{number}, {number - num_planned} more"
    )


def describe_end(end: RunEnded, causes: dict[str, str]) -> str:
    """Return what became of a run that does not count.

    `causes` are those that were shown before, with the first run of each; each is shown once.
    """
    outcome_text = "failed" if end.outcome is TrialOutcome.FAILED else "was interrupted"
    first_trial = causes.setdefault(end.cause, end.trial)
    if end.cause and first_trial != end.trial:
        return f"{end.trial} {outcome_text} for the same reason as {first_trial}"
    return f"{end.trial} {outcome_text}{f': {end.cause}' if end.cause else ''}"


def describe_done(runner: StudyRunner) -> str:
    """Return how many runs earlier calls made: "3 of 12 runs are there"; "" if none."""
    trials = runner.study.trials()
    num_settled = sum(runner.progress.is_settled(trial) for trial in trials)
    verb = "is" if num_settled == 1 else "are"
    return f"{num_settled} of {len(trials)} runs {verb} there" if num_settled else ""
