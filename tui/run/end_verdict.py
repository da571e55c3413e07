"""How a run has ended: of a failure the culprit and the way out, of a success how well and how fast
it trained. What spoils a success comes first."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from statistics import fmean

from textual.content import Content

from remote.format import duration, fixed, percent, ranks_text, step_time
from remote.record.classification import ClassificationReport
from remote.record.entry import Entry
from remote.record.layout import REPORT
from remote.record.step_notes import StepNote, join_step_notes
from remote.run.findings import script_visibility as seen
from remote.run.findings.advise_success import advise_success
from remote.run.findings.alerts import describe_slow_spells
from remote.run.findings.find_advice import advise_flaw
from remote.run.findings.find_resume_point import find_resume_point
from remote.run.findings.flaws import find_flaws
from remote.run.findings.memory import find_memory_at_death
from remote.run.findings.start_load import describe_start_load
from remote.run.findings.start_progress import stage_times
from remote.run.output.last_words import find_raising_line, last_words
from remote.run.run_state import RunState
from remote.run.state.advice import Advice
from remote.run.state.flaw import FlawKind
from remote.run.state.phases import Verdict
from remote.run.state.types import Cause
from tui.kit import palette
from tui.kit.inks import MUTED
from tui.kit.widgets.verdict_strip import NextKey, Reason, Severity
from tui.run import outcome
from tui.run.components.link_text import describe_bound
from tui.run.failure_advice import failure_advice
from tui.run.learning_verdict import describe_plateau, find_plateau
from tui.run.run_verdict import RunVerdict, VerdictKeys, find_advised_key
from tui.run.unfetched_files import describe_unfetched_files

MAX_SPELLS = 2
"""Slow ranks that are named at most."""
MAX_OUTPUT = 4
"""Lines of last output that are shown where no line of a program is known; the log has all."""
SEVERITIES = {Verdict.FINISHED: Severity.GOOD, Verdict.STOPPED: Severity.NEUTRAL}
"""How bad an end is; others are bad."""
MAX_STAGES = 2
"""Stages of the start that are named at most."""
MIN_STAGE_SECONDS = 1.0
"""Seconds of a stage below which it is not named."""
MUCH_BETTER = 0.05
"""The accuracy in training is told if it is so much above that of the test."""
CHANCE = 0.1
"""The change of the time of a step up to which two runs are about as fast."""


def judge_ended_run(
    run: RunState,
    keys: VerdictKeys,
    previous: Entry | None = None,
    notes: Sequence[StepNote] = (),
    *,
    is_brief: bool,
) -> RunVerdict:
    """Return how a run has ended, the most important first.

    `previous` is the last run with the same settings. `is_brief` leaves out means over classes and
    the like.
    """
    if run.verdict is None:
        return RunVerdict()
    flaws = find_flaws(run) if run.verdict is Verdict.FINISHED else ()
    found_advices = [advise_success(run), *(advise_flaw(run, flaw) for flaw in flaws)]
    advices = [advice for advice in found_advices if advice]
    reasons: list[Reason] = []
    if flaws:
        severity = Severity.WARN
        title = flaws[0].title
        reasons += _list_flaw_reasons(run)
    else:
        severity = SEVERITIES.get(run.verdict, Severity.BAD)
        title = _make_title(run)
    if run.cause is not None:
        reasons += list_failure_reasons(run, run.cause)
    if run.verdict in (Verdict.FINISHED, Verdict.STOPPED):
        reasons += _list_result_reasons(run, previous, is_brief=is_brief)
    reasons += describe_unfetched_files(run)
    if notes:
        reasons.append(f"notes: {join_step_notes(notes)}")
    advice = advices[0] if advices else None
    return RunVerdict(severity, title, tuple(reasons), _list_keys(run, advices, keys), advice)


def _make_title(run: RunState) -> str:
    """Return the verdict, and whom or what it is due to, or what the run came to."""
    end_text = outcome.end_line(run)
    if run.cause:
        return f"{end_text}: {run.cause.culprit_text}"
    if run.verdict is Verdict.FINISHED and not _has_problem(run):
        end_text = f"{end_text} without problems"
    result = _describe_result(run)
    return f"{end_text}: {result}" if result else end_text


def _has_problem(run: RunState) -> bool:
    """Return True if a run that finished has left something to look at or to do."""
    return bool(
        seen.describe_unseen_end(run)
        or describe_slow_spells(run)
        or describe_unfetched_files(run)
        or _find_training_accuracy(run)
    )


def _list_keys(run: RunState, advices: Sequence[Advice], keys: VerdictKeys) -> tuple[NextKey, ...]:
    next_keys = [find_advised_key(run, advice, keys) for advice in advices]
    resume_point = find_resume_point(run)
    if resume_point and run.verdict is not Verdict.FINISHED:
        next_keys.append(NextKey(keys.resume, resume_point.text))
    if run.cause:
        # A rank that was killed has not printed why.
        is_silent = run.cause.of_agent or not run.cause.tail
        next_keys.append(NextKey(keys.first_error, "last output" if is_silent else "first error"))
    next_keys += [
        NextKey(keys.new_run, "new run"),
        NextKey(keys.compare, "compare"),
        NextKey(keys.copy, "copy the command"),
    ]
    # Of a key that an advice has named already, the general words say nothing more.
    first_of_key = {next_key.key: next_key for next_key in reversed(next_keys)}
    return tuple(next_key for next_key in next_keys if first_of_key[next_key.key] is next_key)


# A failure ----------------------------------------------------------------------------------------


def list_failure_reasons(run: RunState, cause: Cause) -> Iterator[Reason]:
    """Yield where the culprit failed, what is known of it, and who followed."""
    memory = find_memory_at_death(run)
    if memory:
        yield memory.text
    raising_line = find_raising_line(cause.tail)
    if raising_line:
        yield raising_line
    if cause.victims:
        yield Content.styled(f"it took down {ranks_text(cause.victims)}", MUTED)
    advice = failure_advice(cause, run.plan)
    if advice:
        yield f"what to do: {advice}"
    if cause.tail and not raising_line:
        yield Content.styled(f"last output of {outcome.output_source(cause)}:", MUTED)
        yield from (f"  {line}" for line in last_words(cause.tail, MAX_OUTPUT))


# A result -----------------------------------------------------------------------------------------


def _list_flaw_reasons(run: RunState) -> Iterator[Reason]:
    """Yield why the first flaw is there, the other flaws, and how the run has ended."""
    first_flaw, *other_flaws = find_flaws(run)
    if first_flaw.reason:
        yield first_flaw.reason
    for flaw in other_flaws:
        yield f"{palette.sign('slow')} {flaw.text}"
    result = _describe_result(run)
    end_text = outcome.end_line(run)
    yield f"{end_text}: {result}" if result else end_text


def _list_result_reasons(
    run: RunState, previous: Entry | None, *, is_brief: bool
) -> Iterator[Reason]:
    """Yield how fast the run was and what held it up, how it compares, and more of its tests."""
    flaws = find_flaws(run)
    named_ranks = {flaw.rank for flaw in flaws if flaw.kind is FlawKind.SLOW}
    for spell in describe_slow_spells(run, named_ranks)[:MAX_SPELLS]:
        yield f"{palette.sign('slow')} {spell}"
    plateau_epoch = 0 if flaws else find_plateau(run)
    if plateau_epoch:
        yield f"{describe_plateau(plateau_epoch)}: fewer epochs would do"
    # How fast a run came to a useless model matters to nobody.
    is_useless = any(flaw.kind is not FlawKind.SLOW for flaw in flaws)
    if not is_useless and run.means.seconds > 0:
        if is_brief:
            # The header has the time of a step, the title that of the run.
            yield from _describe_times_briefly(run)
        else:
            yield _describe_speed(run)
            yield from describe_bound(run)
        yield from outcome.describe_stalls(run)
    load_text = describe_start_load(run)
    if load_text:
        yield Content.styled(load_text, MUTED)
    if run.verdict is Verdict.FINISHED and previous:
        # The means of two runs do not say what is certain: a comparison does.
        yield from (Content.styled(line, MUTED) for line in describe_change(run, previous))
    if not is_brief and not any(flaw.kind is FlawKind.DIVERGED for flaw in flaws):
        yield from _list_test_means(run)
    unseen_text = seen.describe_unseen_end(run)
    if unseen_text:
        yield unseen_text


def _describe_result(run: RunState) -> str:
    """Return how well the model does on the test data: "test accuracy 90.6% (best 90.8% in epoch
    19), 9 points below training"; "" if it was not tested."""
    evaluations = run.progress.evaluations
    if not evaluations:
        return ""
    accuracy_text = percent(evaluations[-1].accuracy, 1)
    best = max(evaluations, key=lambda evaluation: evaluation.accuracy)
    best_text = percent(best.accuracy, 1)
    result = f"test accuracy {accuracy_text}"
    if best_text != accuracy_text:
        result += f" (best {best_text} in epoch {best.epoch})"
    training_accuracy = _find_training_accuracy(run)
    if training_accuracy:
        points = 100 * (training_accuracy - evaluations[-1].accuracy)
        result += f", {points:.0f} points below training"
    return result


def _find_training_accuracy(run: RunState) -> float:
    """Return the accuracy in training if that in tests is far below it; else 0."""
    evaluations = run.progress.evaluations
    training_accuracies = [rank.epochs[-1].accuracy for rank in run.ranks if rank.epochs]
    if not evaluations or not training_accuracies:
        return 0.0
    training_accuracy = fmean(training_accuracies)
    is_far = training_accuracy >= evaluations[-1].accuracy + MUCH_BETTER
    return training_accuracy if is_far else 0.0


def _describe_speed(run: RunState) -> str:
    """Say how long a step took, by the figure of the header, and where the time went: "16 ms/step,
    0.37 s/epoch; 7 s of training, 4 s of start and tests"."""
    parts = [f"{step_time(run.means.seconds)}/step"]
    epoch_means = [fmean(rank.epoch_seconds) for rank in run.ranks if rank.epoch_seconds]
    if epoch_means:
        parts.append(f"{fixed(fmean(epoch_means), 2)} s/epoch")
    time_texts = [f"{duration(run.training_seconds)} of training"] if run.training_seconds else []
    other_times = _other_times(run)
    if other_times:
        seconds, what = other_times
        time_texts.append(f"{duration(seconds)} of {what}{_describe_start(run)}")
    return "; ".join(", ".join(texts) for texts in (parts, time_texts) if texts)


def _describe_times_briefly(run: RunState) -> Iterator[str]:
    """Yield a line with what the seconds of the title went into: "15 s training (63% sync: a larger
    batch waits less), 11 s start and tests"."""
    bound_lines = describe_bound(run, is_brief=True)
    if not run.training_seconds:
        yield from (f"each step: {line}" for line in bound_lines)
        return
    bound_text = f" ({bound_lines[0]})" if bound_lines else ""
    other_times = _other_times(run)
    other_text = f", {duration(other_times[0])} {other_times[1]}" if other_times else ""
    yield f"{duration(run.training_seconds)} training{bound_text}{other_text}"


def _other_times(run: RunState) -> tuple[int, str] | None:
    """Return the seconds of a run that are no training, and what they were for, if it is known."""
    # Rounded first, so that both add up to what the title says.
    seconds = round(run.elapsed) - round(run.training_seconds)
    # After a restart, the steps that are lost are neither.
    if not run.training_seconds or seconds <= 0 or run.progress.restarts:
        return None
    return seconds, "start and tests" if run.progress.evaluations else "start and end"


def _describe_start(run: RunState) -> str:
    """Say which stages of the start took longest: " (12 s to import torch, 2 s to load data)"; ""
    if none took a second."""
    times = stage_times(run)
    long_goals = [goal for goal in times if times[goal] >= MIN_STAGE_SECONDS]
    longest_goals = sorted(long_goals, key=lambda goal: -times[goal])[:MAX_STAGES]
    texts = [f"{duration(times[goal])} to {goal}" for goal in longest_goals]
    return f" ({', '.join(texts)})" if texts else ""


def describe_change(run: RunState, previous: Entry) -> list[str]:
    """Compare a run with the last one that has the same settings, in a line: "vs the last run
    like it (baseline): test +0.6 points, -14% time per step (perhaps chance)". Small changes of
    speed surely are."""
    changes = []
    like_it = f"the last run like it ({previous.label or previous.name})"
    evaluations = run.progress.evaluations
    if evaluations and previous.accuracy is not None:
        points = 100 * (evaluations[-1].accuracy - previous.accuracy)
        changes.append(f"test {points:+.1f} points")
    step_seconds = run.means.seconds
    if step_seconds > 0 and previous.step_seconds:
        change = step_seconds / previous.step_seconds - 1
        if abs(change) > CHANCE:
            changes.append(f"{change:+.0%} time per step (perhaps chance)")
        elif changes:
            changes.append("as fast")
        else:
            return [f"as fast as {like_it}"]
    return [f"vs {like_it}: {', '.join(changes)}"] if changes else []


def _list_test_means(run: RunState) -> Iterator[str]:
    """Yield the means over classes, and the test accuracy of each rank's own model."""
    evaluations = run.progress.evaluations
    if evaluations and evaluations[-1].confusion:
        class_means = ClassificationReport.of(evaluations[-1].confusion).macro
        precision = percent(class_means.precision, 1)
        recall = percent(class_means.recall, 1)
        means_text = f"precision {precision}, recall {recall}, F1 {percent(class_means.f1, 1)}"
        yield f"mean over classes: {means_text}; all in {REPORT}"
    own_accuracies = [
        f"rank {rank.rank} {percent(rank.own_accuracy, 1)}"
        for rank in run.ranks
        if not math.isnan(rank.own_accuracy)
    ]
    if own_accuracies:
        yield f"by each rank's own model: {', '.join(own_accuracies)}"
