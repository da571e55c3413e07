"""What compared runs show, in a sentence: which one to take, why, and how certain that is."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from remote.format import UNKNOWN, exact_duration, figure, percent, step_time
from remote.metrics import doubt as doubting
from remote.metrics.compare import ComparedRun
from remote.metrics.run import EvaluationFigures, RunFigures
from remote.plan.main_program import find_main_program
from remote.run.state.flaw import FlawKind, Measure
from remote.run.state.phases import Verdict
from remote.statistics.comparison import Finding
from training.formatting import format_loss
from tui.compare.facts import (
    CLEAR_CHANGE,
    blame_machine,
    is_accuracy_different,
    read_last_test,
    read_results,
)
from tui.compare.verdict_text import format_ratio
from tui.kit.palette import RUN_LETTERS
from tui.kit.widgets.verdict_strip import Severity

LONGEST_NAME = 20
"""Characters of a run's name in a sentence; of a longer one, only the end tells runs apart."""
ALIKE = 1.15
"""Runs are as fast as each other if their ratio surely lies within so much."""
TIMES = 1.1
"""From this ratio on, a run is so many times as fast as another; below, some percent faster."""
SOONER = 1.1
"""The least ratio of times to an accuracy that is worth telling."""
SPOILED = (FlawKind.DIVERGED, FlawKind.LEARNED_NOTHING)
"""What makes a run the worse one, however fast it is."""
ENDED_BADLY = {
    Verdict.FAILED: "failed",
    Verdict.REFUSED: "was refused",
    Verdict.LOST: "lost a host",
}
"""Verdicts that make a run the worse one, too."""
SAME_LOSS = 0.001
"""Training losses that are never further apart are the same, up to rounding."""
UNPROVEN = "one run each, not yet proven"
"""What is said of a verdict that no repeated runs have confirmed."""


class Headline(NamedTuple):
    """The verdict on compared runs."""

    severity: Severity
    title: str
    warnings: tuple[str, ...] = ()
    """What spoils the better run, or the comparison."""
    caveat: str = ""
    """The flaw of the run to take; "" if it has none."""
    best: int = 0
    """The place of the run to take; the last one if it may be any."""
    needs_repeat: bool = False
    """Whether only repeated runs can confirm it: the title says so."""


class Advantage(NamedTuple):
    """What one of the runs does better than the others."""

    winner: int
    text: str
    """What was seen of the winner: "was 1.6x faster per step (100 ms, B 160 ms)"."""
    brief: str
    """The same without the numbers of both: "was 1.6x faster per step"."""
    is_shown: bool
    """Whether statistics show it of these runs."""
    is_certain: bool = False
    """Whether runs with equal settings have shown, too, how far the next ones may be apart."""


class Tie(NamedTuple):
    """Something in which no run is known to be better."""

    sentence: str
    """It alone: "Take either: B is as fast as A"."""
    clause: str
    """It behind what a run does better: "as fast per step"."""


def shorten_name(name: str) -> str:
    """Return a name that a sentence has room for: of a long one, its end."""
    return name if len(name) <= LONGEST_NAME else name.rpartition("-")[2] or name


def make_headline(compared: Sequence[ComparedRun], names: Sequence[str]) -> Headline:
    """Return the verdict on two or more runs, which people call by these names."""
    titles = []
    for letter, name in zip(RUN_LETTERS, names, strict=False):
        titles.append(f"{letter} {shorten_name(name)}")
    places = range(len(compared))
    sound_places = [place for place in places if not _why_spoiled(compared[place].run)]
    warnings = _list_warnings(compared)
    if len(sound_places) < min(2, len(compared)):
        title = _judge_spoiled(compared, titles, sound_places)
        best_sound = sound_places[0] if sound_places else len(compared) - 1
        return Headline(Severity.WARN, title, warnings, best=best_sound)
    # How well a run learns counts more than how fast it makes steps.
    findings = [
        _compare_accuracy(compared, sound_places),
        _compare_goal(compared, sound_places),
        _compare_loss(compared, sound_places),
        _compare_speed(compared, titles, sound_places),
    ]
    advantages = [finding for finding in findings if isinstance(finding, Advantage)]
    ties = [finding for finding in findings if isinstance(finding, Tie)]
    if not advantages:
        title = _join_ties(ties, has_same_loss=_have_same_loss(compared))
        severity = Severity.WARN if warnings else Severity.NEUTRAL
        return Headline(severity, title, warnings, best=len(compared) - 1)
    best = advantages[0].winner
    reasons = [advantage for advantage in advantages if advantage.winner == best]
    counter_reasons = [advantage for advantage in advantages if advantage.winner != best]
    claims = _join_reasons(reasons, counter_reasons)
    is_certain = any(reason.is_certain for reason in reasons)
    observation = f"Take {titles[best]}: it {claims}" if is_certain else f"{titles[best]} {claims}"
    title = "; ".join(filter(None, (observation, *(tie.clause for tie in ties))))
    if not is_certain:
        title += f": {UNPROVEN}"
    flaw_text = _describe_overfitting(compared, best)
    # Praise is green only if it is proven, and of a run without a flaw.
    severity = Severity.NEUTRAL
    if warnings:
        severity = Severity.WARN
    elif is_certain and not flaw_text and not counter_reasons:
        severity = Severity.GOOD
    return Headline(
        severity,
        title,
        warnings,
        caveat=flaw_text,
        best=best,
        needs_repeat=not is_certain,
    )


def _join_reasons(reasons: Sequence[Advantage], counter_reasons: Sequence[Advantage]) -> str:
    # What is known best comes first.
    reasons = sorted(reasons, key=lambda reason: (not reason.is_certain, not reason.is_shown))
    text = _join_claims(reasons)
    briefs_by_winner: dict[int, list[str]] = {}
    for counter_reason in counter_reasons:
        briefs_by_winner.setdefault(counter_reason.winner, []).append(counter_reason.brief)
    for winner, briefs in briefs_by_winner.items():
        text += f", although {RUN_LETTERS[winner]} {' and '.join(briefs)}"
    return text


def _join_claims(advantages: Sequence[Advantage]) -> str:
    """Return what was seen of a run: "was 1.3x faster and reached 90% sooner". Where none of it is
    certain, the end says so; beside what is certain, the rest is called likely."""
    is_any_certain = any(advantage.is_certain for advantage in advantages)
    texts = []
    for advantage in advantages:
        is_doubted = is_any_certain and not advantage.is_certain
        texts.append(f"likely {advantage.text}" if is_doubted else advantage.text)
    return " and ".join(texts)


def _join_ties(ties: Sequence[Tie], *, has_same_loss: bool) -> str:
    sentences = [tie.sentence for tie in reversed(ties) if tie.sentence]
    if has_same_loss:
        sentences.append("the loss is the same at every step")
    return "; ".join(sentences)


def _have_same_loss(compared: Sequence[ComparedRun]) -> bool:
    return len(compared) == 2 and compared[1].loss_difference < SAME_LOSS


# What spoils a comparison -------------------------------------------------------------------------


def _why_spoiled(run: RunFigures) -> str:
    """Return why a run is worse than any sound one; "" if it is sound."""
    spoiling_flaws = [flaw.text for flaw in run.flaws if flaw.kind in SPOILED]
    if spoiling_flaws:
        return spoiling_flaws[0]
    return ENDED_BADLY.get(run.verdict, "") if run.verdict else ""


def _judge_spoiled(
    compared: Sequence[ComparedRun], titles: Sequence[str], sound_places: Sequence[int]
) -> str:
    reasons = []
    for letter, run in zip(RUN_LETTERS, compared, strict=False):
        reason = _why_spoiled(run.run)
        if reason:
            reasons.append(f"{letter} {reason.partition(':')[0]}")
    reason_text = ", ".join(reasons)
    if not sound_places:
        return f"No run is usable: {reason_text}"
    return f"Take {titles[sound_places[0]]}: {reason_text}"


def _list_warnings(compared: Sequence[ComparedRun]) -> tuple[str, ...]:
    """Return what spoils a run or the comparison. That a run overfitted spoils nothing: the table
    says it, and of the run to take, the caveat."""
    warnings = list[str]()
    letters = {}
    for letter, run in zip(RUN_LETTERS, compared, strict=False):
        letters[run.run.name] = letter
        for flaw in run.run.flaws:
            if flaw.kind is not FlawKind.OVERFITTED:
                warnings.append(f"{letter} {flaw.text}")
        if run.run.cause:
            warnings.append(f"{letter} failed: {run.run.cause}")
        elif run.run.verdict is None:
            warnings.append(f"{letter} has not ended: its figures are those so far")
    warnings += doubting.sentences([run.doubt for run in compared if run.doubt], letters)
    return tuple(warnings)


def _describe_overfitting(compared: Sequence[ComparedRun], place: int) -> str:
    """Return that a run overfitted, since when, and if the other of two runs ends with no lower
    test loss all the same; "" if it did not."""
    run, letter = compared[place].run, RUN_LETTERS[place]
    flaws = [flaw for flaw in run.flaws if flaw.kind is FlawKind.OVERFITTED]
    if not flaws:
        return ""
    flaw = flaws[0]
    if not (isinstance(flaw.before, float) and isinstance(flaw.after, float)):
        return f"{letter} {flaw.text}"
    since = f" after epoch {flaw.epoch}" if flaw.epoch else ""
    change = f"{flaw.measure} {figure(flaw.before)} to {figure(flaw.after)}"
    other_text = ""
    if len(compared) == 2 and flaw.measure is Measure.TEST_LOSS:
        other_test = read_last_test(compared[1 - place])
        if other_test and other_test.loss >= flaw.after:
            other = RUN_LETTERS[1 - place]
            other_text = f", and ends no worse than {other} ({figure(other_test.loss)})"
    return f"{letter} overfitted{since} ({change}){other_text}"


# How fast they are --------------------------------------------------------------------------------


def _compare_speed(
    compared: Sequence[ComparedRun], titles: Sequence[str], places: Sequence[int]
) -> Advantage | Tie:
    """Return which of the runs at these places is fastest."""
    if len(compared) == 2:
        return _compare_two(compared, titles)
    first_letter = RUN_LETTERS[0]
    certain = [place for place in places if place and _is_found(compared[place])]
    faster = [place for place in certain if _ratio(compared[place]) < 1]
    if faster:
        fastest = min(faster, key=lambda place: _ratio(compared[place]))
        gain = f"{_describe_gain(1 / _ratio(compared[fastest]))} than {first_letter}"
        return _name_fastest(compared, fastest, gain, _unit(compared[fastest]))
    others = [place for place in places if place]
    if others and certain == others and 0 in places:
        second = min(others, key=lambda place: _ratio(compared[place]))
        gain = f"{_describe_gain(_ratio(compared[second]))} than {RUN_LETTERS[second]}"
        return _name_fastest(compared, 0, gain, "step")
    return Tie(f"No run is certainly faster per step than {titles[0]}", "")


def _name_fastest(compared: Sequence[ComparedRun], place: int, gain: str, unit: str) -> Advantage:
    brief = f"was the fastest per {unit}"
    text = f"{brief} ({gain})"
    return Advantage(place, text, brief, is_shown=True, is_certain=are_repeated(compared))


def are_repeated(compared: Sequence[ComparedRun]) -> bool:
    """Return True if runs with equal settings are among them, so that their noise is known."""
    return any(run.noise.freedom for run in compared)


def _compare_two(compared: Sequence[ComparedRun], titles: Sequence[str]) -> Advantage | Tie:
    other = compared[1]
    first_title, title = titles
    both = f"{first_title} and {title}"
    if other.against is None:
        stuck = [
            letter for letter, run in zip(RUN_LETTERS, compared, strict=False) if not run.steps
        ]
        made = f": {' and '.join(stuck)} made no steps" if stuck else ""
        return Tie(f"{both} cannot be compared by their time per step{made}", "")
    if other.is_repetition:
        chance = f"the difference of {format_ratio(_ratio(other))} per step is chance"
        return Tie(f"Take either: {title} repeats {first_title}, {chance}", chance)
    if other.doubt:
        doubt_text = "do not show what more nodes bring"
        return Tie(f"The times of {both} {doubt_text}", f"the times per step {doubt_text}")
    if not math.isfinite(other.against.ratio.low):
        return Tie(f"{both} made too few steps to compare their times", "")
    unit = _unit(other)
    is_shown = other.against.finding is not Finding.NOT_SHOWN
    if other.same_work_settings and is_shown:
        reason = blame_machine(other.same_work_settings)
        change = f"{format_ratio(_ratio(other))} per {unit}"
        return Tie(f"Take either: {title} against {first_title}, {change} is {reason}", "")
    if _is_found(other):
        ratio = _ratio(other)
        winner = 1 if ratio < 1 else 0
        gain = _describe_gain(max(ratio, 1 / ratio))
        brief = f"was {gain} per {unit}"
        text = brief + _describe_times(compared, winner)
        return Advantage(winner, text, brief, is_shown=True)
    low = other.against.ratio.low
    high = other.against.ratio.high
    change = f"{format_ratio(_ratio(other))} per {unit}"
    if low > 1 / ALIKE and high < ALIKE:
        sentence = f"Take either: {title} is as fast as {first_title} ({change})"
        return Tie(sentence, f"both are as fast per {unit}")
    return Tie(f"Take either: of {both}, no difference per {unit} is certain ({change})", "")


def _describe_gain(ratio: float) -> str:
    """Describe so many times the speed: "2.4x faster", "4% faster"."""
    return f"{ratio:.1f}x faster" if ratio >= TIMES else f"{ratio - 1:.1%} faster"


def _describe_times(compared: Sequence[ComparedRun], winner: int) -> str:
    """Return the times per step, the winner's first; "" for steps of other batches."""
    if compared[1].is_per_sample:
        return ""
    step_seconds = [read_results(run)["step_seconds"] for run in compared]
    times = step_time(step_seconds[winner]), step_time(step_seconds[1 - winner])
    if UNKNOWN in times or times[0] == times[1]:
        return ""
    return f" ({times[0]}, {RUN_LETTERS[1 - winner]} {times[1]})"


def _is_found(run: ComparedRun) -> bool:
    """Return True if it is certain that a run is faster or slower than the first one."""
    is_shown = run.against is not None and run.against.finding is not Finding.NOT_SHOWN
    return is_shown and not run.doubt and not run.same_work_settings


def _ratio(run: ComparedRun) -> float:
    assert run.against
    return run.against.ratio.value


def _unit(run: ComparedRun) -> str:
    return "sample" if run.is_per_sample else "step"


# How well they learn ------------------------------------------------------------------------------


def _compare_accuracy(compared: Sequence[ComparedRun], places: Sequence[int]) -> Advantage | None:
    """Return which run is more accurate than each of the others, if their tests show one."""
    tests = dict[int, EvaluationFigures]()
    for place in places:
        last_test = read_last_test(compared[place])
        if last_test is None or not math.isfinite(last_test.accuracy):
            return None
        tests[place] = last_test
    best, second, *_ = sorted(tests, key=lambda place: -tests[place].accuracy)
    is_shown = is_accuracy_different(tests[best], tests[second])
    if not is_shown or not _have_same_data(compared):
        return None
    numbers = f"{percent(tests[best].accuracy, 1)}, {RUN_LETTERS[second]} "
    numbers += percent(tests[second].accuracy, 1)
    brief = "was more accurate" if len(places) == 2 else "was the most accurate"
    return Advantage(best, f"{brief} ({numbers})", brief, is_shown)


def _compare_loss(compared: Sequence[ComparedRun], places: Sequence[int]) -> Advantage | None:
    """Return which run ended with the lowest training loss, if it is all that is known of how well
    they learn: beside tests it says little, as an overfitted run has a low one, too."""
    losses = {place: compared[place].run.training_loss or math.nan for place in places}
    are_known = all(0 < loss < math.inf for loss in losses.values())
    is_tested = any(read_last_test(run) for run in compared)
    # Other programs may mean other losses.
    scripts = [run.run.script for run in compared]
    programs = {find_main_program(script).name if script else "" for script in scripts}
    if not are_known or is_tested or len(programs) > 1 or not _have_same_data(compared):
        return None
    last_steps = {int(compared[place].run.steps.step.max(initial=0)) for place in places}
    is_chance = len(compared) == 2 and compared[1].is_repetition
    if is_chance or len(last_steps) > 1:
        return None
    best, second, *_ = sorted(losses, key=losses.__getitem__)
    if 1 - losses[best] / losses[second] < CLEAR_CHANGE:
        return None
    order = "a lower" if len(places) == 2 else "the lowest"
    brief = f"ended with {order} training loss"
    numbers = f"{format_loss(losses[best])}, {RUN_LETTERS[second]} {format_loss(losses[second])}"
    return Advantage(best, f"{brief} ({numbers})", brief, is_shown=False)


def _have_same_data(compared: Sequence[ComparedRun]) -> bool:
    """Return False if the runs are known to have learned from other data sets."""
    return len({run.run.job.dataset for run in compared if run.run.job}) < 2


def _compare_goal(compared: Sequence[ComparedRun], places: Sequence[int]) -> Advantage | Tie | None:
    """Return which run reached first an accuracy that all have reached."""
    times = {place: compared[place].seconds_to_goal for place in places}
    are_known = all(math.isfinite(seconds) for seconds in times.values())
    if not are_known or len(times) < 2 or not _have_same_data(compared):
        return None
    first, second, *_ = sorted(times, key=times.__getitem__)
    goal = percent(compared[first].goal)
    first_text = exact_duration(times[first])
    second_text = exact_duration(times[second])
    least_ratio = SOONER * _measure_machine_gain(compared, first)
    is_sooner = times[second] > least_ratio * times[first] and first_text != second_text
    if not is_sooner:
        return Tie(f"both reach {goal} in {first_text}", "") if len(times) == 2 else None
    # Tests of one run each: the next one may come to the accuracy an epoch sooner or later.
    order = "sooner" if len(times) == 2 else "first"
    brief = f"reached {goal} accuracy {order}"
    text = f"{brief} ({first_text}, {RUN_LETTERS[second]} {second_text})"
    return Advantage(first, text, brief, is_shown=False)


def _measure_machine_gain(compared: Sequence[ComparedRun], winner: int) -> float:
    """Return how many times as fast as the other run the winner of two was because of its machine
    alone; at least 1."""
    other = compared[1]
    if len(compared) > 2 or other.against is None or not other.same_work_settings:
        return 1.0
    ratio = _ratio(other)
    return max(1.0, ratio if winner == 0 else 1 / ratio)
