"""What came out of a study, in sentences, and how sure that is. Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from remote.format import count, listed
from remote.metrics.doubt import Doubt, sentences
from remote.statistics.comparison import Finding
from remote.statistics.interval import Interval, IntervalMethod
from remote.statistics.mean import finite_mean
from remote.study.alike_settings import AlikeSettings, find_alike_settings
from remote.study.equal_methods import EqualMethods, find_equal_methods
from remote.study.guessing import Guesses, find_guesses
from remote.study.results import CellResult, StudyResult, is_per_sample
from remote.study.shortcomings import limit_lines
from remote.study.study import Cell, Study, StudyAxis
from remote.study.wording import (
    cell_name,
    change_range,
    change_text,
    is_bounded,
    label_name,
    other_values,
    ratio_text,
    shown_key,
    value_text,
)

UNKNOWN_INTERVAL = Interval(math.nan, math.nan, math.nan, 0, IntervalMethod.NONE)
REFERENCE_INTERVAL = Interval(1.0, 1.0, 1.0, 0, IntervalMethod.EXACT)
"""The ratio of the reference to itself."""
SPLIT_REASON = "each step averages all ranks, whichever has which images"
"""Why the split of the data changes nothing."""
MOST_SETTINGS = 3
"""Settings that a sentence names."""
SETTING_WORDS = {"lr": "learning rate", "dataset": "data set", "partition": "the split"}
"""What settings are called whose names say too little."""
CHANCE = "one run of a cell cannot show whether that is more than chance: repeat it"

IDENTICAL = (
    "the repetitions of each cell have identical values, so they show no more than one run of it"
)
SEED_HINT = ": {seed} in its command makes them differ"


def conclusion_lines(result: StudyResult) -> list[str]:
    """Return all that is said of the results, a line each.

    First what is in doubt, then the answer, what the other axes change, and what limits it.
    """
    guess = guess_text(result)
    return [
        *doubt_lines(result),
        answer_text(result),
        *([guess] if guess else []),
        *effect_lines(result),
        *limit_lines(result),
    ]


def doubt_lines(result: StudyResult) -> list[str]:
    """Return which figures cannot be what more hosts bring, and why, a line each."""
    return sentences(result.doubts, _names_in_doubts(result.study))


def doubt_text(study: Study, doubt: Doubt) -> str:
    """Return why a figure of a study cannot be used."""
    return sentences([doubt], _names_in_doubts(study))[0]


def _names_in_doubts(study: Study) -> dict[str, str]:
    """Return what sentences on doubts call the cells: "nodes=4" says more there than "4"."""
    names = {}
    for cell in study.cells:
        short_name = cell_name(study, cell)
        names[cell.key] = cell.key if short_name[:1].isdecimal() else short_name
    return names


# The answer ---------------------------------------------------------------------------------------


def answer_text(result: StudyResult) -> str:
    """Return one sentence: what is best and by how much, and how sure that is."""
    study = result.study
    if not any(row.value for row in result.cells):
        return "nothing was measured: every run failed or is missing"
    compared = [row for row in result.cells if math.isfinite(_ratio_of(row).value)]
    if not compared:
        return f"best {study.measured}: {_best_cell(result)}"
    if not study.compares_times and all(row.is_same for row in compared):
        labels = dict.fromkeys(row.cell.label(study.compare) for row in compared)
        names = listed([study.reference, *labels], len(labels) + 1)
        return f"{names} have the same {study.measured} in every run, within rounding"
    best_label, mean = _best_label(result)
    doubtful = [row for row in compared if row.doubt]
    if any(row.cell.label(study.compare) == best_label for row in doubtful):
        comparisons = count(len(compared), "comparison")
        return f"no answer: {len(doubtful)} of {comparisons} cannot be used"
    usable = [row for row in compared if not row.doubt]
    if not any(is_bounded(_ratio_of(row)) for row in usable):
        best = _describe_best(study, study.reference)
        if _advantage(study, mean.value) > 0:
            best = _praise(study, best_label, mean, compared)
        chance_text = _describe_chance(study, usable[0])
        return f"as measured, {best}{_compare_with_baseline(result)}; {chance_text}"
    if len(usable) == 1:
        text = comparison_text(study, usable[0])
    else:
        text = _best_shown(study, best_label, mean, usable)
    return text + _describe_certainty(usable) + _compare_with_baseline(result)


def guess_text(result: StudyResult) -> str:
    """Return that all runs still guess, so that their results say little; "" if one does not, or
    if times are compared."""
    guesses = guesses_of(result)
    if guesses is None:
        return ""
    methods = find_equal_methods(result)
    return f"{lack_text(guesses, methods)}: {guesses.brief_text}" if methods else guesses.text


def guesses_of(result: StudyResult) -> Guesses | None:
    """Return what the runs came to if all of them still guess."""
    return find_guesses(result.study, [run_end for row in result.cells for run_end in row.runs])


def proof_text(study: Study, methods: EqualMethods, *, is_brief: bool = False) -> str:
    """Return what is certain of methods that compute the same numbers, however short their runs
    were."""
    names = [label_name(study.compare, label) for label in methods.labels]
    sentence = f"{listed(names)} compute the same numbers"
    if is_brief:
        return f"{sentence}, run for run"
    return f"{sentence}: run for run the same {study.measured}, within rounding"


def lack_text(guesses: Guesses, methods: EqualMethods) -> str:
    """Return what runs that still guess cannot show beside equal methods: "too short to show the
    effect of batch size"."""
    settings = [SETTING_WORDS.get(name, name) for name in methods.varied_settings]
    thing = "anything else"
    if not methods.has_others and 0 < len(settings) <= MOST_SETTINGS:
        thing = f"the effect of {listed(settings)}".replace("_", " ")
    beginning = "too short to show" if guesses.length else "nothing was learned that shows"
    return f"{beginning} {thing}"


def _ratio_of(row: CellResult) -> Interval:
    """Return the ratio or difference to the reference; NaN without a comparison."""
    return row.comparison.ratio if row.comparison else UNKNOWN_INTERVAL


def _advantage(study: Study, ratio: float) -> float:
    """Return how much better a ratio or difference is than that of the reference, which is 0."""
    if study.compares_times:
        return 1 - ratio
    return ratio if study.is_higher_better else -ratio


def _is_better(study: Study, ratio: Interval) -> bool:
    """Return whether the whole interval is better than the reference."""
    return _advantage(study, ratio.low) > 0 and _advantage(study, ratio.high) > 0


def _best_cell(result: StudyResult) -> str:
    """Return the best cell and its value."""
    study = result.study
    value_of_cell = {row.cell.key: row.value.value for row in result.cells if row.value}
    best_key = max(value_of_cell, key=lambda key: _advantage(study, value_of_cell[key]))
    best_cell = study.cell(best_key)
    name = shown_key(study, best_cell) if best_cell else best_key
    return f"{name}, {value_text(value_of_cell[best_key], study)}"


def _best_label(result: StudyResult) -> tuple[str, Interval]:
    """Return the best value of the compared axis beside the reference, with its mean ratio."""
    # Labels without a repetition in common with the reference have no mean.
    finite_means = {key: mean for key, mean in result.overall.items() if math.isfinite(mean.value)}
    mean_ratios = finite_means or result.overall
    best_label = max(
        mean_ratios, key=lambda label: _advantage(result.study, mean_ratios[label].value)
    )
    return best_label, mean_ratios[best_label]


def _best_shown(study: Study, label: str, mean: Interval, rows: Sequence[CellResult]) -> str:
    """Return which value of the compared axis is best, and by how much, as far as that is shown."""
    num_shown = sum(row.finding is not Finding.NOT_SHOWN for row in rows)
    comparisons = count(len(rows), "comparison")
    shown_text = (
        f"; {num_shown} of {comparisons} {'shows' if num_shown == 1 else 'show'} a difference"
    )
    if _is_better(study, mean):
        worse_places = []
        for row in rows:
            is_worse = row.finding is not Finding.NOT_SHOWN and not _is_better(
                study, _ratio_of(row)
            )
            if is_worse and row.cell.label(study.compare) == label:
                worse_places.append(other_values(study, row))
        exceptions = f", but not at {listed(worse_places)}" if worse_places else ""
        return _praise(study, label, mean, rows) + exceptions + (shown_text if num_shown else "")
    if not num_shown:
        answer = f"no difference shown between {study.reference} and any other in {comparisons}"
        return answer + _largest_possible(study, rows)
    better_word = "higher" if study.is_higher_better else "lower"
    aim_text = "be faster" if study.compares_times else f"have a {better_word} {study.measured}"
    everywhere = " everywhere" if any(_is_better(study, _ratio_of(row)) for row in rows) else ""
    return (
        f"no {study.compare} is shown to {aim_text} than {study.reference}{everywhere}{shown_text}"
    )


def _describe_best(study: Study, label: str) -> str:
    if study.compares_times:
        return f"{label} is fastest"
    extreme = "highest" if study.is_higher_better else "lowest"
    return f"{label} has the {extreme} {study.measured}"


def _praise(study: Study, label: str, mean: Interval, rows: Sequence[CellResult]) -> str:
    """Return by how much a label is best. Some of `rows` are its cells."""
    praise_text = _describe_best(study, label)
    own_rows = [row for row in rows if row.cell.label(study.compare) == label]
    averaged_text = f", averaged over {count(len(own_rows), 'cell')}" if len(own_rows) > 1 else ""
    if study.compares_times:
        # Any text is greater than "", so one cell that has it is enough.
        shared_text = max(_on_shared_machine(row, study.counterpart(row.cell)) for row in own_rows)
        gain_text = ratio_text(mean.inverse())
        unit_text = _describe_unit(study, own_rows)
        return (
            f"{praise_text}: {gain_text} as fast{unit_text} as {study.reference}{shared_text}"
            f"{averaged_text}"
        )
    if is_bounded(mean):
        return (
            f"{praise_text}: {change_range(study, mean)} against {study.reference}{averaged_text}"
        )
    return f"{praise_text} ({change_text(study, mean.value)} against {study.reference})"


def _largest_possible(study: Study, rows: Sequence[CellResult]) -> str:
    """Return how large a difference may still be; "" if that is not known."""
    advantages = []
    for row in rows:
        ratio = _ratio_of(row)
        advantages += [abs(_advantage(study, ratio.low)), abs(_advantage(study, ratio.high))]
    if not all(map(math.isfinite, advantages)):
        return ""
    largest_advantage = max(advantages)
    if study.compares_times and largest_advantage >= 1:
        return " (the runs vary too much to exclude a factor of 2)"
    is_share = study.compares_times or study.metric == "accuracy"
    difference_text = f"{largest_advantage:.1%}" if is_share else f"{largest_advantage:.2g}"
    return f" (differences of up to {difference_text} cannot be excluded)"


def _describe_certainty(rows: Sequence[CellResult]) -> str:
    """Return how sure the comparisons are, all together."""
    run_counts = [_ratio_of(row).runs for row in rows if is_bounded(_ratio_of(row))]
    together_text = " of all together" if len(run_counts) > 1 else ""
    fewest_runs = min(run_counts)
    most_runs = max(run_counts)
    runs_text = (
        count(most_runs, "run")
        if fewest_runs == most_runs
        else f"{fewest_runs} to {most_runs} runs"
    )
    return f"; 95% sure{together_text}, from {runs_text} of each cell"


def _compare_with_baseline(result: StudyResult) -> str:
    """Return how many times as fast as the baseline the fastest cell is.

    Return "" without a baseline, if the comparison with the reference says it, or if a speed-up is
    in doubt, which is said before.
    """
    study = result.study
    baseline = study.cell(study.baseline)
    speed_ups: list[tuple[Interval, CellResult]] = []
    for row in result.cells:
        if row.speed_up and row.cell != baseline and math.isfinite(row.speed_up.value):
            speed_ups.append((row.speed_up, row))
    if not speed_ups or not baseline or any(row.speed_up_doubt for _, row in speed_ups):
        return ""
    best_speed_up, fastest_row = max(speed_ups, key=lambda pair: pair[0].value)
    if study.counterpart(fastest_row.cell) == baseline:
        return ""
    superlative = "the fastest"
    # Nothing is called the fastest that is slower than the baseline.
    if best_speed_up.value < 1:
        is_alone = baseline.place.nodes == 1
        has_more_nodes = all(row.cell.place.nodes > 1 for _, row in speed_ups)
        superlative += " on several nodes" if is_alone and has_more_nodes else " of the others"
    shared_text = _on_shared_machine(fastest_row, baseline)
    unit_text = _describe_batches(study, [(fastest_row.cell, baseline)])
    fastest_name = cell_name(study, fastest_row.cell)
    baseline_name = cell_name(study, baseline)
    comparison = f"{ratio_text(best_speed_up)} as fast{unit_text} as {baseline_name}"
    return f"; {superlative}, {fastest_name}, is {comparison}{shared_text}"


def _describe_unit(study: Study, rows: Sequence[CellResult]) -> str:
    """Return per what the times of cells and their references compare; "" if it is a step."""
    pairs = []
    for row in rows:
        reference = study.counterpart(row.cell)
        if reference:
            pairs.append((row.cell, reference))
    return _describe_batches(study, pairs)


def _describe_batches(study: Study, pairs: Sequence[tuple[Cell, Cell]]) -> str:
    """Return that times compare per sample, with the batches; "" if no two batches differ."""
    batches: dict[tuple[int, int], None] = {}
    for cell, other in pairs:
        if cell.job and other.job and cell.job.batch_size != other.job.batch_size:
            batches[cell.job.batch_size, other.job.batch_size] = None
    if not batches or not is_per_sample(study):
        return ""
    if len(batches) > 1:
        return " per sample (global batches differ)"
    [(batch, other_batch)] = batches
    return f" per sample (global batches {batch} and {other_batch})"


def _on_shared_machine(row: CellResult, other: Cell | None) -> str:
    """Return that more hosts were faster although they share one machine; "" if they do not."""
    is_shared = any(run_end.conditions.shares_machine for run_end in row.runs)
    has_more = other is not None and row.cell.place.nodes > other.place.nodes
    return ", on hosts that share one machine" if is_shared and has_more else ""


# What the answer leaves out -----------------------------------------------------------------------


def effect_lines(result: StudyResult) -> list[str]:
    """Return what the answer leaves out, a line each: the fastest of some values of the axis, or
    what other axes change in a loss or an accuracy. The table of cells has all speed-ups."""
    study = result.study
    if study.compares_times:
        among = _describe_among(result)
        return [among] if among else []
    if not study.compare:
        return []
    other_axes = [axis for axis in study.axes if axis.name != study.compare]
    return [
        *(
            f"{study.measured} by {axis.name}: {_describe_means(result, axis)}"
            for axis in other_axes
        ),
        *(_describe_alike(study, alike) for alike in find_alike_settings(result)),
    ]


def _describe_among(result: StudyResult) -> str:
    """Return the fastest of the values that the study file names, "" if one of them has no ratio to
    the reference, or figures are in doubt."""
    study = result.study
    ratios = {label: result.overall.get(label, UNKNOWN_INTERVAL) for label in study.among}
    if study.reference in ratios:
        ratios[study.reference] = REFERENCE_INTERVAL
    is_known = bool(ratios) and all(math.isfinite(ratio.value) for ratio in ratios.values())
    if not is_known or result.doubts:
        return ""
    best_label = min(ratios, key=lambda label: ratios[label].value)
    rows = [row for row in result.cells if row.cell.label(study.compare) == best_label]
    figures = []
    if best_label != study.reference:
        gain_text = ratio_text(ratios[best_label].inverse())
        unit_text = _describe_unit(study, rows)
        averaged_text = f" on average of {len(rows)} cells" if len(rows) > 1 else ""
        figures.append(f"{gain_text} as fast{unit_text} as {study.reference}{averaged_text}")
    baseline = study.cell(study.baseline)
    # Of several cells, none stands for the label.
    if baseline and len(rows) == 1 and rows[0].speed_up and rows[0].cell != baseline:
        is_told = study.counterpart(rows[0].cell) == baseline
        unit_text = _describe_batches(study, [(rows[0].cell, baseline)])
        speed_up_text = f"{ratio_text(rows[0].speed_up)} as fast{unit_text}"
        if not is_told:
            figures.append(f"{speed_up_text} as {cell_name(study, baseline)}")
    if not figures:
        return ""
    names = listed(study.among, len(study.among))
    return f"of {names}, {best_label} was fastest as measured: {' and '.join(figures)}"


def _describe_alike(study: Study, alike: AlikeSettings) -> str:
    """Return that a label has the values of another one, and why if that is known."""
    name = label_name(alike.axis, alike.label)
    earlier_name = label_name(alike.axis, alike.earlier_label)
    text = f"{name} is as {earlier_name}"
    if alike.difference:
        text = f"{name} is within {_difference_text(study, alike.difference)} of {earlier_name}"
    if alike.is_split_only:
        text += f": {SPLIT_REASON}"
    return text


def _difference_text(study: Study, difference: float) -> str:
    """Return the size of a small difference, to one digit."""
    if study.metric == "accuracy":
        return f"{difference:.1%}"
    # Not 2e-05, which few people read as a loss.
    return np.format_float_positional(difference, precision=1, fractional=False, trim="-")


def _describe_means(result: StudyResult, axis: StudyAxis) -> str:
    """Return the mean value of the cells at each label of an axis."""
    mean_texts = []
    for label in axis.labels:
        label_rows = [row for row in result.cells if row.cell.label(axis.name) == label]
        values = [row.value.value for row in label_rows if row.value]
        if values:
            mean_texts.append(f"{value_text(finite_mean(values), result.study)} ({label})")
    return ", ".join(mean_texts) or "not measured"


# One comparison -----------------------------------------------------------------------------------


def comparison_text(study: Study, row: CellResult) -> str:
    """Return how a cell compares with its reference.

    For example "ring is 1.52 times (1.4 to 1.7) as fast as all_reduce at nodes=4".
    """
    assert row.comparison
    if row.doubt:
        return doubt_text(study, row.doubt)
    place_text = other_values(study, row)
    reference_text = f"{study.reference} at {place_text}" if place_text else study.reference
    label = row.cell.label(study.compare)
    ratio = row.comparison.ratio
    if row.is_same and not study.compares_times:
        return f"{label} has the same {study.measured} as {reference_text}, within rounding"
    if math.isnan(ratio.value):
        return f"{label} and {reference_text} have no repetition in common"
    if is_bounded(ratio) and row.finding is Finding.NOT_SHOWN:
        return f"no difference shown between {label} and {reference_text}"
    if study.compares_times:
        unit_text = _describe_unit(study, [row])
        text = f"{label} takes {ratio_text(ratio)} as long{unit_text} as {reference_text}"
        if ratio.value < 1:
            shared_text = _on_shared_machine(row, study.counterpart(row.cell))
            gain_text = ratio_text(ratio.inverse())
            text = f"{label} is {gain_text} as fast{unit_text} as {reference_text}{shared_text}"
    elif is_bounded(ratio):
        change_words = change_range(study, ratio)
        text = (
            f"{label} has a {row.finding} {study.measured} than {reference_text} ({change_words})"
        )
    else:
        change_words = change_text(study, ratio.value)
        text = f"the {study.measured} of {label} is {change_words} against {reference_text}"
    return text if is_bounded(ratio) else f"as measured, {text}; {_describe_chance(study, row)}"


def _describe_chance(study: Study, row: CellResult) -> str:
    """Return why a comparison says nothing of chance, and what to do."""
    if not row.repeats_itself:
        return CHANCE
    return f"{IDENTICAL}{SEED_HINT if study.gives_no_seed else ''}"
