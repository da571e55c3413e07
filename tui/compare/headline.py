"""What compared runs show, in plain words: which is better, by how much, and if that is certain."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from remote.format import UNKNOWN, count, duration, figure, percent, step_time
from remote.metrics import doubt as doubting
from remote.metrics.compare import ComparedRun
from remote.metrics.run import RunFigures
from remote.run.state.flaw import Flaw, FlawKind
from remote.run.state.phases import Verdict
from remote.statistics.comparison import Finding
from tui.compare.facts import read_results
from tui.compare.verdict_text import format_bounds, format_ratio
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
    Verdict.REFUSED: "was not started",
    Verdict.LOST: "lost a host",
}
"""Verdicts that make a run the worse one, too."""
SAME_LOSS = 0.001
"""Training losses that are never further apart are the same, up to rounding."""


class Headline(NamedTuple):
    """The verdict on compared runs."""

    severity: Severity
    title: str
    warnings: tuple[str, ...] = ()
    """What spoils the better run, or the comparison."""
    notes: tuple[str, ...] = ()
    """What is remarkable of a run, but spoils nothing."""
    basis: str = ""
    """The statistics that the verdict rests on."""
    best: int = 0
    """The place of the run that is best; the last one if none is."""
    praise: str = ""
    """Why that one: "the better run"; "" if none is best."""


class Finish(NamedTuple):
    """A clause of the verdict, and whose victory it is: None for nobody's."""

    text: str
    winner: int | None = None
    brief: str = ""
    """The text behind another clause, which has named the runs; "" if it is the same."""


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
    if len(sound_places) < min(2, len(compared)):
        title = _judge_spoiled(compared, titles, sound_places)
        best_sound = sound_places[0] if sound_places else len(compared) - 1
        warnings, notes = _list_remarks(compared, sound_places[0] if sound_places else None)
        praise = "the better run" if sound_places else ""
        return Headline(Severity.WARN, title, warnings, notes, "", best_sound, praise)
    finishes = [_compare_speed(compared, titles, sound_places)]
    goal_finish = _compare_goal(compared, titles, sound_places)
    if goal_finish.text:
        finishes.append(goal_finish)
    elif len(compared) == 2 and compared[1].loss_difference < SAME_LOSS:
        finishes.append(Finish("with the same loss at every step"))
    # What is certain comes first.
    finishes.sort(key=lambda finish: finish.winner is None)
    winners = {finish.winner for finish in finishes if finish.winner is not None}
    title = _join(finishes, has_conflict=len(winners) > 1)
    best = finishes[0].winner
    warnings, notes = _list_remarks(compared, best)
    if warnings:
        severity = Severity.WARN
    else:
        severity = Severity.GOOD if len(winners) == 1 else Severity.NEUTRAL
    # Several runs have no room for the statistics of each.
    basis = format_bounds(compared[1]) if len(compared) == 2 else ""
    if best is None:
        return Headline(severity, title, warnings, notes, basis, len(compared) - 1)
    praise = "which is faster per step" if len(winners) > 1 else "the better run"
    return Headline(severity, title, warnings, notes, basis, best, praise)


def _join(finishes: Sequence[Finish], *, has_conflict: bool) -> str:
    first, *others = finishes
    text = first.text
    for finish in others:
        conjunction = "; but " if has_conflict else "; "
        is_own_clause = finish.winner is not None or finish.brief
        text += f"{conjunction if is_own_clause else ', '}{finish.brief or finish.text}"
    return text


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
    return f"{titles[sound_places[0]]} is the better run: {reason_text}"


def _list_remarks(
    compared: Sequence[ComparedRun], best: int | None
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return what spoils the best run or the comparison, and what spoils nothing."""
    warnings = list[str]()
    notes = list[str]()
    letters = {}
    for place, (letter, run) in enumerate(zip(RUN_LETTERS, compared, strict=False)):
        letters[run.run.name] = letter
        for flaw in run.run.flaws:
            if flaw.kind is not FlawKind.OVERFITTED:
                warnings.append(f"{letter} {flaw.text}")
                continue
            text = f"{letter} {_describe_overfitting(flaw)}"
            better_letters = _list_better_tests(compared, place)
            if not better_letters and len(compared) == 2:
                text += f"; still no worse than {RUN_LETTERS[1 - place]}'s"
            is_harmless = place != best or not better_letters
            (notes if is_harmless else warnings).append(text)
        if run.run.cause:
            warnings.append(f"{letter} failed: {run.run.cause}")
        elif run.run.verdict is None:
            warnings.append(f"{letter} has not ended: its figures are those so far")
    warnings += doubting.sentences([run.doubt for run in compared if run.doubt], letters)
    return tuple(warnings), tuple(notes)


def _describe_overfitting(flaw: Flaw) -> str:
    since = f" (epoch {flaw.epoch})" if flaw.epoch else ""
    if not (isinstance(flaw.before, float) and isinstance(flaw.after, float)):
        return flaw.text
    before, after = figure(flaw.before), figure(flaw.after)
    return f"overfitted: its {flaw.measure} rose from {before}{since} to {after}"


def _list_better_tests(compared: Sequence[ComparedRun], place: int) -> list[str]:
    """Return the letters of the runs whose last test is not known to be no better."""
    loss = read_results(compared[place])["test_loss"]
    letters = []
    for other, (letter, run) in enumerate(zip(RUN_LETTERS, compared, strict=False)):
        other_loss = read_results(run)["test_loss"]
        is_known = loss is not None and other_loss is not None
        if other != place and not (is_known and loss <= other_loss):
            letters.append(letter)
    return letters


# How fast they are --------------------------------------------------------------------------------


def _compare_speed(
    compared: Sequence[ComparedRun], titles: Sequence[str], places: Sequence[int]
) -> Finish:
    """Return which of the runs at these places is fastest."""
    if len(compared) == 2:
        return _compare_two(compared, titles)
    certain = [place for place in places if place and _is_found(compared[place])]
    faster = [place for place in certain if _ratio(compared[place]) < 1]
    if faster:
        fastest = min(faster, key=lambda place: _ratio(compared[place]))
        gain = _describe_gain(1 / _ratio(compared[fastest]))
        unit = _unit(compared[fastest])
        fastest_text = f"{titles[fastest]} is the fastest of {len(compared)} runs"
        return Finish(f"{fastest_text}: {gain} per {unit} than {titles[0]}", fastest)
    others = [place for place in places if place]
    if others and certain == others and 0 in places:
        second = min(others, key=lambda place: _ratio(compared[place]))
        gain = f"{_describe_gain(_ratio(compared[second]))} than {titles[second]}"
        return Finish(f"{titles[0]} is the fastest of {len(compared)} runs per step: {gain}", 0)
    return Finish(f"No run is surely faster per step than {titles[0]}")


def _compare_two(compared: Sequence[ComparedRun], titles: Sequence[str]) -> Finish:
    other = compared[1]
    first_title, title = titles
    both = f"{first_title} and {title}"
    if other.against is None:
        stuck = [
            letter for letter, run in zip(RUN_LETTERS, compared, strict=False) if not run.steps
        ]
        made = f": {' and '.join(stuck)} made no steps" if stuck else ""
        return Finish(f"{both} cannot be compared by their time per step{made}")
    if other.is_repetition:
        change = format_ratio(_ratio(other))
        chance = f"the difference of {change} per step is chance"
        return Finish(f"{title} repeats {first_title}: {chance}")
    if other.doubt:
        return Finish(f"The times of {both} do not show what more nodes bring")
    if not math.isfinite(other.against.ratio.low):
        return Finish(f"{both} made too few steps to compare their times")
    unit = _unit(other)
    if _is_found(other):
        ratio = _ratio(other)
        winner = 1 if ratio < 1 else 0
        gain = _describe_gain(max(ratio, 1 / ratio))
        text = f"{titles[winner]} is {gain} per {unit} than {titles[1 - winner]}"
        return Finish(text + _describe_times(compared, winner), winner)
    low = other.against.ratio.low
    high = other.against.ratio.high
    change = f"{format_ratio(_ratio(other))} per {unit}, not significant"
    if low > 1 / ALIKE and high < ALIKE:
        return Finish(f"{title} is as fast as {first_title} ({change})", brief="as fast per step")
    uncertain = f"no certain difference per {unit}"
    return Finish(f"{both}: {uncertain} ({change})", brief=uncertain)


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
    return f" ({times[0]} instead of {times[1]})"


def _is_found(run: ComparedRun) -> bool:
    """Return True if it is certain that a run is faster or slower than the first one."""
    is_shown = run.against is not None and run.against.finding is not Finding.NOT_SHOWN
    return is_shown and not run.doubt


def _ratio(run: ComparedRun) -> float:
    assert run.against
    return run.against.ratio.value


def _unit(run: ComparedRun) -> str:
    return "sample" if run.is_per_sample else "step"


# How well they learn ------------------------------------------------------------------------------


def _compare_goal(
    compared: Sequence[ComparedRun], titles: Sequence[str], places: Sequence[int]
) -> Finish:
    """Return which run reached first an accuracy that all have reached."""
    times = {place: compared[place].seconds_to_goal for place in places}
    known = {place: seconds for place, seconds in times.items() if math.isfinite(seconds)}
    if len(known) < len(times) or len(times) < 2:
        return Finish("")
    first, second, *_ = sorted(known, key=known.__getitem__)
    goal = percent(compared[first].goal)
    first_text = duration(known[first])
    second_text = duration(known[second])
    is_sooner = known[second] > SOONER * known[first] and first_text != second_text
    if not is_sooner:
        return Finish(f"both reach {goal} in {first_text}" if len(times) == 2 else "")
    if len(times) == 2:
        own_text = f"reaches {goal} in {first_text}"
        text = f"{titles[first]} {own_text}, {titles[second]} in {second_text}"
        brief = f"{RUN_LETTERS[first]} {own_text}, {RUN_LETTERS[second]} in {second_text}"
        return Finish(text, first, brief)
    text = f"reaches {goal} first of {count(len(times), 'run')}, in {first_text}"
    return Finish(f"{titles[first]} {text}", first, f"{RUN_LETTERS[first]} {text}")
