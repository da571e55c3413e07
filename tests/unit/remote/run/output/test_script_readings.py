"""What a user's own program prints becomes steps and metrics, the same for all who read it."""

from __future__ import annotations

import json
import math
import pickle
from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from remote.events import HostPhaseChanged, Parsed, Restarted, encode, expand
from remote.formats.reading import ReadingKind
from remote.formats.rules import Rule
from remote.limits import LIMITS
from remote.plan import serialize
from remote.plan.plan import Plan, Script
from remote.record import summary
from remote.record.events_file import EventsReader
from remote.record.events_file import read_records as read
from remote.record.layout import rank_log
from remote.record.loss_course import read_loss_course
from remote.record.overview import read_overview
from remote.record.reread import RunClocks, reread_steps
from remote.record.tape import Tape
from remote.record.write import Recorder
from remote.run.apply import apply_record
from remote.run.findings.rates import step_means
from remote.run.findings.script_visibility import ways
from remote.run.findings.stall import find_stall
from remote.run.output.script_readings import expander
from remote.run.run_state import RunState
from remote.session.ledger import Ledger
from tests.kit.histories import START, History, block_of, plan, said
from tests.kit.recorded import recorded
from tests.kit.scripts import line, logging, script, seen, started
from training.wire.enums import Reach
from training.wire.events import PREFIX, Event, Record, to_object
from training.wire.host_events import Exited, HostSample, OutputText, Spawned
from training.wire.jsonl import dumps
from training.wire.rank_events import ScriptMetrics, StepFinished

SAMPLE = HostSample((10.0,), 1, 2)


def derived(history: History) -> list[Event]:
    """What is read out of the text of a history."""
    take = expander(history.plan)
    kinds = (StepFinished, ScriptMetrics, Parsed)
    found = [one.event for record in history.records for one in take(record)]
    return [event for event in found if isinstance(event, kinds)]


def of(kind: type[Any], events: Sequence[Event]) -> list[Any]:
    return [event for event in events if isinstance(event, kind)]


def test_a_job_of_ours_is_not_read() -> None:
    assert expander(plan()) is expand


def test_lines_become_steps_metrics_and_how_they_are_read() -> None:
    found = derived(logging(started(script()), 3, [100, 200], 12.0))
    assert [(one.rank, one.step, one.loss) for one in of(StepFinished, found)] == [
        (3, 100, 1.0),
        (3, 200, 0.5),
    ]
    assert math.isnan(of(StepFinished, found)[0].seconds)
    assert of(StepFinished, found)[1].seconds == pytest.approx(0.12), (
        "a step, not the time between lines"
    )
    assert of(ScriptMetrics, found)[1] == ScriptMetrics(
        3, 200, 0.0, (("grad_norm", 50.0), ("val_loss", 1.0))
    )
    assert [one.rank for one in of(Parsed, found)] == [3]
    assert of(Parsed, found)[0].format


def test_rules_of_the_plan_come_first() -> None:
    rule = Rule("round {step}: cost {loss}", "mine", ReadingKind.STEP)
    ruled = replace(script(), work=Script(("train.py",), watch=False, rules=(rule,)))
    kept = serialize.parse(serialize.dump(ruled))
    assert kept.work == ruled.work
    history = started(kept)
    history.say(0, said(0, "round 7: cost 0.25", "stdout"), after=1.0)
    found = derived(history)
    assert [(one.rank, one.step, one.loss) for one in of(StepFinished, found)] == [(0, 7, 0.25)]
    assert [one.format for one in of(Parsed, found)] == ["mine"]


def test_steps_that_come_together_share_the_time() -> None:
    history = started(script())
    for first in (1, 5):
        text = "\n".join(line(step, 1.0) for step in range(first, first + 4))
        history.say(0, said(0, text, "stdout"), after=2.0)
    times = [one.seconds for one in of(StepFinished, derived(history))]
    assert all(map(math.isnan, times[:4]))
    assert times[4:] == pytest.approx([0.5] * 4)


def test_steps_that_no_line_numbers_are_counted() -> None:
    history = started(script())
    for batch in range(1, 5):
        text = f"Train Epoch: 1 [{64 * batch}/60000 ({batch}%)]\tLoss: {1 / batch:.6f}"
        history.say(0, said(0, text, "stdout"), after=1.0)
    assert [one.step for one in of(StepFinished, derived(history))] == [1, 2, 3, 4]


def test_the_first_step_waits_for_the_watch_also_after_other_lines() -> None:
    history = started(script(1, 1, watch=True))
    history.say(0, said(0, '"hidden_dropout_prob": 0.1,', "stdout"), after=1.0)
    history.say(0, SAMPLE, after=5.0)
    history.say(0, said(0, line(1, 2.0), "stdout"), after=1.0)
    for step in range(1, 4):
        history.say(0, seen(0, step), after=0.5)
    assert [one.step for one in of(StepFinished, derived(history))] == [1, 2, 3]


def test_a_first_step_that_is_printed_long_before_it_ends_warms_up() -> None:
    history = started(script(1, 1, watch=True))
    history.say(0, said(0, "step=1 loss=0.5", "stdout"), after=0.1)
    for step in range(1, 4):
        history.say(0, seen(0, step, 0.5, compute=5.0), after=5.0)
    timing = history.state().ranks[0].timing
    assert timing.count == 3
    assert (timing.first_early, timing.last_early) == (2, 3)


def test_what_the_watch_tells_is_no_second_step() -> None:
    """Also where the line comes first: they come by two pipes."""
    history = started(script(watch=True))
    history.say(0, said(0, line(1, 2.0, lr=0.1), "stdout"))
    for step in (1, 2, 3):
        history.say(0, seen(0, step), SAMPLE)
        if step > 1:
            history.say(0, said(0, line(step, 2.0 / step, lr=0.1), "stdout"))
    found = derived(history)
    assert [one.step for one in of(StepFinished, found)] == [1, 2, 3]
    losses = [(one.step, dict(one.values).get("loss")) for one in of(ScriptMetrics, found)]
    assert [one for one in losses if one[1]] == [
        (1, 2.0),
        (2, 1.0),
        (3, 2.0 / 3),
    ]
    state = history.state()
    assert state.ranks[0].loss == 2.0 / 3, "the watch does not know it"
    assert state.ranks[0].timing.count == 3


def test_lines_alone_wait_for_the_watch_but_once() -> None:
    history = started(script(watch=True))
    history.say(0, said(0, line(1, 2.0), "stdout"))
    assert not of(StepFinished, derived(history))
    history.say(0, SAMPLE, after=1.5)
    assert [one.step for one in of(StepFinished, derived(history))] == [1]
    history.say(0, said(0, line(2, 1.0), "stdout"))
    assert [one.step for one in of(StepFinished, derived(history))] == [1, 2]


def test_what_a_rank_prints_last_is_read_at_its_end() -> None:
    history = started(script(watch=True))
    history.say(0, said(0, line(1, 2.0), "stdout"), Exited(0, 0))
    assert [one.step for one in of(StepFinished, derived(history))] == [1]


def test_ranks_that_print_nothing_hold_nothing_back() -> None:
    state = logging(started(script()), 3, range(10, 310, 10), 1.0).state()
    assert (state.step, state.progress.steps) == (300, 0)
    assert step_means(state).seconds == pytest.approx(0.1)
    assert state.training_seconds == pytest.approx(29.0), "of all steps, not of the lines"
    means = step_means(state)
    assert not means.throughput
    assert not means.sync
    assert [rank.step for rank in state.ranks] == [0, 0, 0, 300]
    notes = [one.text for one in state.log.lines if one.stream == "note"]
    assert notes == [f"read as: {state.ranks[3].parsed.format}"], "others may print, too"  # type: ignore[attr-defined]


def test_the_time_that_is_left_is_known_where_the_steps_are() -> None:
    history = started(script())
    for step in range(10, 310, 10):
        text = f"step={step} max_steps=1000 loss={1.0 / step}"
        history.say(1, said(3, text, "stdout"), after=1.0)
    state = history.state()
    assert state.progress.steps == 1000
    assert state.eta(state.now) == pytest.approx(70.0, rel=0.05)
    assert state.eta(state.now + 0.9) == pytest.approx(69.1, rel=0.05), "until the next line"


def test_a_line_that_comes_late_makes_no_run_longer() -> None:
    """The watch was at step 16 when the line of step 10 came."""
    history = started(script(watch=True))
    for step in range(1, 17):
        history.say(0, seen(0, step, 1.0))
    history.say(0, said(0, "step=10 max_steps=200 loss=0.5", "stdout"))
    assert history.state().progress.steps == 200


def test_dicts_without_a_number_beside_a_late_bar_make_no_run_longer() -> None:
    """The Trainer prints its dicts, and its bar elsewhere: they come apart, and by the second."""
    history = started(script(watch=True))
    for last in range(25, 125, 25):
        for step in range(last - 24, last + 1):
            history.say(0, seen(0, step, 1.0), after=0.03)
        dicts = "{'loss': '3.9', 'grad_norm': '1.2', 'learning_rate': '1e-05', 'epoch': '0.5'}\n"
        frames = [f"\r{at}%|█| {at}/100 [00:01<00:02, 28.5it/s]" for at in (last - 9, last)]
        history.say(0, said(0, dicts * 5, "stdout"), said(0, "".join(frames)))
    told = of(Parsed, derived(history))
    assert {one.steps for one in told if one.steps} == {100}


def test_a_log_that_goes_on_from_a_checkpoint_ends_with_it() -> None:
    """The watch counts from 1 on, the log from step 501 of 1,000."""
    history = started(script(watch=True))
    for step in range(1, 41):
        history.say(0, seen(0, step, 1.0))
        history.say(0, said(0, f"step={500 + step} max_steps=1000 loss=0.5", "stdout"))
    assert history.state().progress.steps == 500


def test_steps_of_a_log_that_counts_batches_are_those_of_the_optimiser() -> None:
    history = started(script(watch=True))
    for step in range(1, 41):
        history.say(0, seen(0, step, 1.0))
        history.say(0, said(0, f"step={4 * step} max_steps=1000 loss=0.5", "stdout"))
    assert history.state().progress.steps == 250


def reported(steps: Iterable[int]) -> Event:
    """Quick steps that the watch tells together."""
    texts = (seen(0, step).text.replace('"seconds":0.5', '"seconds":0.01') for step in steps)
    return OutputText(0, "stdout", "\n".join(texts))


def places(history: History) -> list[tuple[int, float]]:
    """The steps that values of `lr` are of."""
    told = of(ScriptMetrics, derived(history))
    return [(one.step, dict(one.values)["lr"]) for one in told if "lr" in dict(one.values)]


def printed(steps: Iterable[int], first: int = 1) -> OutputText:
    """Lines of steps that the program counts from `first`; `lr` is the step counted from 1."""
    numbers = (step - 1 + first for step in steps)
    lines = (json.dumps({"step": at, "loss": 1.0, "lr": at + 1.0 - first}) for at in numbers)
    return said(0, "\n".join(lines), "stdout")


@pytest.mark.parametrize("is_block", [False, True])
@pytest.mark.parametrize(("first", "every"), [(1, 1), (0, 1), (1, 10)])
def test_values_are_of_the_step_that_their_line_names(
    first: int, every: int, is_block: bool
) -> None:
    """Lines come before and after the report of their step, and the first ones before any."""
    history = started(script(watch=True))
    for last in range(10, 210, 10):
        steps = range(last - 9, last + 1)
        lines = printed(steps if every == 1 else [last], first)
        report = reported(steps)
        if is_block:
            seen_steps = [StepFinished(0, 0, step, math.nan, 0.01) for step in steps]
            report = block_of(seen_steps, history.now)
        history.say(0, *((lines, report) if last % 20 else (report, lines)), after=0.05)
    assert places(history) == [(step, step) for step in range(every, 201, every)]
    steps_of_log = [] if is_block else range(1, 201)
    assert [one.step for one in of(StepFinished, derived(history))] == [*steps_of_log]


def test_lines_that_come_late_together_are_of_the_steps_that_they_name() -> None:
    """The agent reads what quick ranks have printed in a second at once."""
    history = started(script(watch=True))
    for last in range(200, 1001, 200):
        report = reported(range(last - 199, last + 1))
        history.say(0, report, printed(range(last - 199, last + 1, 10)), after=2.0)
    assert places(history) == [(step, step) for step in range(1, 1001, 10)]
    metrics = of(ScriptMetrics, derived(history))
    assert all(one.names_step for one in metrics)


SLOW = 0.057
"""Seconds of a step of which the agent reads some 17 together."""
BLOCK = 17


def true_loss(step: int) -> float:
    """The loss of a step, which is another one in each step."""
    return 2.0 / step + (step * 7 % 10) / 10


def block_until(history: History, last: int, count: int = BLOCK) -> Event:
    """A block of steps with their losses, the last one made just now."""
    steps = range(max(1, last - count + 1), last + 1)
    made = [StepFinished(0, 0, step, true_loss(step), SLOW, compute=0.05) for step in steps]
    return block_of(made, history.now, SLOW)


def loss_lines(steps: Iterable[int], first: int = 1, factor: float = 1.0) -> OutputText:
    """Lines of steps that the program counts from `first`, with their losses times a factor."""
    lines = (f"step {at - 1 + first} loss {factor * true_loss(at):.4f}" for at in steps)
    return said(0, "\n".join(lines), "stdout")


def misplaced(history: History, factor: float = 1.0) -> list[tuple[int, float]]:
    """The printed losses that are not those of the step at which they are."""
    metrics = of(ScriptMetrics, derived(history))
    losses = [(one.step, dict(one.values)["loss"]) for one in metrics]
    assert losses
    assert len({step for step, _ in losses}) == len(losses), "two lines at one step"
    return [
        (step, loss) for step, loss in losses if abs(factor * true_loss(step) - loss) > 0.5001e-4
    ]


@pytest.mark.parametrize("every", [1, 5, 10, 100])
@pytest.mark.parametrize("first", [0, 1])
@pytest.mark.parametrize("factor", [1.0, 1.5])
def test_lines_of_slow_steps_in_blocks_are_of_the_steps_that_they_name(
    every: int, first: int, factor: float
) -> None:
    """Also if the printed loss is another one than that of the rank's step, such as a mean over the
    ranks, so that it does not say which step it is of."""
    history = started(script(watch=True))
    # The first line is that of the first step the program names: 0, or `every`.
    offset = 1 if first == 0 else every
    for last in range(1, 500, BLOCK):
        history.say(0, block_until(history, last), after=0.97)
        steps = [at for at in range(last - BLOCK + 1, last + 1) if at > 0]
        printed_steps = [at for at in steps if at >= offset and (at - offset) % every == 0]
        if printed_steps:
            history.say(0, loss_lines(printed_steps, first, factor), after=0.0)
    assert misplaced(history, factor) == []
    assert all(one.names_step for one in of(ScriptMetrics, derived(history)))


def test_a_printed_value_has_the_time_of_its_step() -> None:
    history = started(script(watch=True))
    history.say(0, block_until(history, 1), loss_lines([1], first=0), after=0.1)
    begin = history.now + 0.97
    history.say(0, block_until(history, 18), after=0.97)
    history.say(0, loss_lines([11], first=0), after=0.3)
    metrics = of(ScriptMetrics, derived(history))[-1]
    assert metrics.step == 11
    made = begin - 0.97 - 7 * SLOW  # `block_until` was asked before that time passed
    assert metrics.step_time == pytest.approx(made, abs=1e-3)
    curve = history.state().curves.of("metric:loss", 0)
    assert list(curve.step) == [1, 11]
    assert curve.time[-1] == pytest.approx(made - history.state().started, abs=1e-3)


@pytest.mark.parametrize("first", [0, 1])
def test_the_losses_of_lines_that_come_very_late_say_of_which_steps_they_are(first: int) -> None:
    """What another program holds back in its pipe comes at the end, in several parts."""
    history = started(script(watch=True))
    history.say(0, block_until(history, 1), loss_lines([1], first), after=0.1)
    for last in range(18, 500, BLOCK):
        history.say(0, block_until(history, last), after=0.97)
    for begin in (11, 161, 311):
        history.say(0, loss_lines(range(begin, begin + 150, 10), first), after=0.0)
    assert misplaced(history) == []


def test_the_losses_say_that_a_program_counts_from_0_though_it_does_not_print_step_0() -> None:
    history = started(script(watch=True))
    for last in range(1, 200, BLOCK):
        history.say(0, block_until(history, last), after=0.97)
        steps = [at for at in range(last - BLOCK + 1, last + 1) if at > 0 and at % 5 == 0]
        if steps:
            history.say(0, loss_lines(steps, first=0), after=0.0)
    assert misplaced(history) == []


def test_lines_may_come_before_the_report_of_their_step() -> None:
    """By three steps: the watch reports them together, by another pipe."""
    history = started(script(watch=True))
    history.say(0, block_until(history, 1), loss_lines([1], first=0), after=0.1)
    for last in range(18, 200, BLOCK):
        history.say(0, block_until(history, last), after=0.97)
        history.say(0, loss_lines([last - 10, last + 3], first=0), after=0.0)
    assert misplaced(history) == []


def test_lines_of_batches_are_spread_over_the_steps_since_the_lines_before() -> None:
    """Of four batches in each step. They were not all printed after the last step."""
    history = started(script(watch=True))
    for last in range(BLOCK, 20 * BLOCK, BLOCK):
        history.say(0, block_until(history, last), after=0.97)
        batches = [at for at in range(4 * (last - BLOCK) + 1, 4 * last + 1) if at % 20 == 0]
        text = "\n".join(f"step {at} loss 0.5" for at in batches)
        history.say(0, said(0, text, "stdout"), after=0.0)
    metrics = of(ScriptMetrics, derived(history))
    steps = [one.step for one in metrics]
    assert not any(one.names_step for one in metrics)
    assert steps == sorted(set(steps)), "in order, and no two at one step"
    for step, batch in zip(steps, range(20, 2000, 20), strict=False):
        assert abs(step - batch / 4) <= 5


def test_lines_that_are_far_once_are_taken_for_late_ones() -> None:
    history = started(script(watch=True))
    history.say(0, reported(range(1, 11)), printed(range(1, 301, 10)), after=0.5)
    history.say(0, reported(range(11, 401)), printed(range(301, 401, 10)), after=0.5)
    told = places(history)
    assert told[30:] == [(step, step) for step in range(301, 401, 10)]
    named = [one.names_step for one in of(ScriptMetrics, derived(history))]
    assert named[-10:] == [True] * 10
    assert not any(named[2:30]), "of steps that the watch has not reported for long"


def test_steps_that_begin_anew_are_not_those_of_the_watch() -> None:
    """The number of a batch in its epoch stays near the steps of a quick program, and goes back."""
    history = started(script(watch=True))
    for last in range(10, 210, 10):
        history.say(0, reported(range(last - 9, last + 1)), after=0.05)
        history.say(0, said(0, f"step={(last - 1) % 50 + 1} loss=1.0 lr={last}", "stdout"))
    told = [step for step, _ in places(history)]
    assert told == sorted(told)


@pytest.mark.parametrize("number", ["{epoch}", "{batch}"])
def test_values_of_lines_that_count_something_else_are_of_the_step_of_the_watch(
    number: str,
) -> None:
    history = started(script(watch=True))
    for step in range(1, 201):
        history.say(0, reported([step]), after=0.0)
        count = {"{epoch}": 1 + step // 100, "{batch}": 4 * step}[number]
        history.say(0, said(0, f"step={count} loss=1.0 lr={step}", "stdout"), after=0.01)
    assert all(step == lr for step, lr in places(history)[30:])
    assert len(places(history)) == 200


@pytest.mark.parametrize("every", [5.0, 60.0])
def test_a_rank_that_prints_seldom_stalls_later(every: float) -> None:
    history = started(script()).session(
        HostPhaseChanged(0, Reach.READY), HostPhaseChanged(1, Reach.READY)
    )
    logging(history, 0, range(100, 1_100, 100), every)
    for _ in range(4 * int(every)):
        history.say(0, SAMPLE, after=1.0).say(1, SAMPLE, after=0.0)
    state = history.state()
    assert find_stall(state, state.now) is None
    for _ in range(7 * int(every)):
        history.say(0, SAMPLE, after=1.0).say(1, SAMPLE, after=0.0)
    state = history.state()
    found = find_stall(state, state.now)
    assert found is not None
    assert found.ranks == (0,), "the others print nothing"


def test_a_loss_that_the_watch_cannot_read_is_no_divergence() -> None:
    history = started(script())
    for step in range(1, 5):
        history.say(0, seen(0, step, 1 / step))
    for step in range(5, 12):
        history.say(0, seen(0, step, loss_known=False))
    state = history.state()
    assert state.progress.diverged is None
    assert (state.ranks[0].step, state.ranks[0].loss) == (11, 1 / 4)
    curve = state.curves.of("loss", 0)
    assert [mean for mean in curve.mean.tolist() if mean == mean] == [1, 1 / 2, 1 / 3, 1 / 4]
    for step in range(12, 15):
        history.say(0, seen(0, step))
    assert history.state().progress.diverged is not None


def test_an_unknown_loss_is_no_divergence() -> None:
    history = started(script(watch=True))
    for step in range(1, 9):
        history.say(0, seen(0, step), SAMPLE)
    assert history.state().progress.diverged is None
    for step in range(9, 12):
        history.say(0, seen(0, step, 1.0), SAMPLE)
    for step in range(12, 16):
        history.say(0, seen(0, step), SAMPLE)
    found = history.state().progress.diverged
    assert found is not None
    assert found.step == 14, "one alone may just be unknown"


def test_an_infinite_loss_is_one_at_once() -> None:
    found = started(script()).say(0, seen(0, 1, math.inf)).state().progress.diverged
    assert found is not None


def test_a_restart_begins_where_its_first_step_says() -> None:
    history = logging(started(script()), 0, range(1, 41), 1.0)
    history.session(Restarted((0, 1), "a rank failed"))
    history.attempt = 1
    history.rank(0, history.launched(0), Spawned(0, 7))
    logging(history, 0, range(21, 31), 1.0)
    state = history.state()
    assert state.progress.restarts[0].step == 20
    assert list(state.curves.of("loss", 0).step) == list(range(1, 31))
    assert list(state.curves.of("metric:grad_norm", 0).step) == list(range(1, 31))
    assert state.ranks[0].pace.seconds == pytest.approx(1.0)


def test_more_names_than_are_kept_are_counted_and_said() -> None:
    history = started(script())
    values = tuple((f"m{number}", 1.0) for number in range(203))
    history.say(0, ScriptMetrics(0, 1, 0.0, values), ScriptMetrics(0, 2, 0.0, values))
    state = history.state()
    assert (len(state.metrics.named), len(state.metrics.beyond)) == (200, 3)
    assert len(state.curves.metrics) == 200
    assert len(state.ranks[0].metrics) == 200  # type: ignore[attr-defined]
    notes = [one.text for one in state.log.lines]
    assert notes == [
        "the run has 200 metrics, the limit; others, such as m200, are counted but not kept"
    ]


def test_names_of_metrics_are_fit_to_be_shown() -> None:
    values = (("a\x1b[31mb\nc", 1.0), ("x" * 999, 2.0), ("", 3.0))
    state = started(script()).say(0, ScriptMetrics(0, 1, 0.0, values)).state()
    assert list(state.metrics.named) == ["ab c", "x" * 80, "?"]
    assert list(state.ranks[0].metrics) == ["ab c", "x" * 80, "?"]  # type: ignore[attr-defined]
    assert state.curves.metrics == ["metric:ab c", f"metric:{'x' * 80}", "metric:?"]


def test_a_job_has_no_metrics_whatever_its_ranks_say() -> None:
    history = History(plan(2)).training(2)
    state = history.rank(0, ScriptMetrics(0, 1, 0.0, (("a", 1.0),))).state()
    assert (state.curves.metrics, state.metrics.named) == ([], {})


# Files that are followed --------------------------------------------------------------------------


def written(rank: int, text: str, path: str = "log.csv") -> OutputText:
    return said(rank, text, f"file:{path}")


def table(steps: Iterable[int], *, header: bool = False) -> str:
    rows = [f"{step},{step / 8},{step}" for step in steps]
    return "\n".join(["step,loss,beta"] * header + rows)


def test_files_tell_steps_and_metrics_and_are_no_output() -> None:
    history = started(script())
    history.say(1, written(2, table([10], header=True)), after=1.0)
    history.say(1, written(2, table([20, 30])), after=2.0)
    found = derived(history)
    assert [(one.step, one.loss) for one in of(StepFinished, found)] == [
        (10, 1.25),
        (20, 2.5),
        (30, 3.75),
    ]
    assert [one.values for one in of(ScriptMetrics, found)] == [
        (("beta", float(n)),) for n in (10, 20, 30)
    ]
    state = history.state()
    assert (state.ranks[2].step, step_means(state).seconds) == (30, pytest.approx(0.1))
    assert ways(state) == ["reads log.csv"]
    assert [one.text for one in state.log.lines] == ["reads log.csv"]


def test_a_step_that_output_and_a_file_tell_is_one_and_so_is_a_value() -> None:
    history = started(script())
    history.say(0, written(0, table([1, 2], header=True)), after=1.0)
    history.say(0, said(0, f"{line(2, 0.5, beta=7.5)} gamma=1.5", "stdout"), after=1.0)
    history.say(0, said(0, f"{line(3, 0.5, beta=7.5)} gamma=2.5", "stdout"), after=1.0)
    history.say(0, written(0, table([3, 4])), after=1.0)
    found = derived(history)
    assert [(one.step, one.loss) for one in of(StepFinished, found)] == [
        (n, n / 8) for n in (1, 2, 3, 4)
    ]
    told = [(one.step, *each) for one in of(ScriptMetrics, found) for each in one.values]
    betas = [("beta", float(n)) for n in (1, 2, 3, 4)]
    assert [one[1:] for one in told if one[1] == "beta"] == betas
    assert [one for one in told if one[1] not in ("beta", "loss")] == [
        (2, "gamma", 1.5),
        (3, "gamma", 2.5),
    ]


def test_what_a_file_tells_late_is_of_its_own_step() -> None:
    history = started(script(watch=True))
    for step in range(1, 31):
        history.say(0, seen(0, step, 1.0))
    history.say(0, written(0, table([10, 20], header=True)))
    found = derived(history)
    assert len(of(StepFinished, found)) == 30
    assert [one.step for one in of(ScriptMetrics, found)] == [10, 20]


def test_epochs_alone_are_the_steps_of_a_file() -> None:
    history = started(script())
    history.say(0, written(0, "epoch,val_map\n1,0.25\n2,0.5"))
    assert [one.step for one in of(ScriptMetrics, derived(history))] == [1, 2]


def test_the_histories_of_checkpoints_are_one() -> None:
    history = started(script())
    entries = [{"step": step, "epoch": step / 4, "loss": 1.0 / step} for step in (1, 2, 3)]
    for count in (2, 3):
        text = json.dumps({"log_history": entries[:count], "max_steps": 9}, indent=2)
        history.say(0, written(0, text, f"out/checkpoint-{count}/trainer_state.json"))
    found = derived(history)
    assert [one.step for one in of(StepFinished, found)] == [1, 2, 3]
    assert history.state().progress.steps == 9
    assert ways(history.state()) == ["reads out/checkpoint-*/trainer_state.json"]


def test_a_file_of_a_folder_that_hosts_share_is_read_once() -> None:
    history = started(script())
    for host, rank in ((0, 0), (1, 2)):
        history.say(host, written(rank, table([1], header=True)), after=1.0)
        history.say(host, written(rank, table([2])), after=1.0)
    found = derived(history)
    assert [(one.rank, one.step) for one in of(StepFinished, found)] == [(0, 1), (0, 2)]
    history.say(1, written(2, "step,loss\n1,0.5", "other.csv"))
    history.say(0, written(0, "step,loss\n1,0.75", "other.csv"))
    ranks = {one.rank for one in of(ScriptMetrics, derived(history)) if "loss" in dict(one.values)}
    assert ranks <= {0, 2}
    files = {one.rank: one.files for one in of(Parsed, derived(history))}
    assert files == {0: ("log.csv", "other.csv"), 2: ("other.csv",)}


def test_files_without_end_are_not_all_read() -> None:
    history = started(script())
    for number in range(150):
        history.say(0, written(0, f"step,m{number}\n1,0.5", f"{number}.csv"))
    (*_, last) = of(Parsed, derived(history))
    assert len(last.files) == 100


def test_names_of_files_are_fit_to_be_shown() -> None:
    state = started(script()).say(0, written(0, "step,loss\n1,0.5", "a\x1b[31m\nb.csv")).state()
    assert ways(state) == ["reads a b.csv"]


def test_events_in_files_are_text() -> None:
    record = Record(0, 0, 1, START, written(0, seen(0, 1, 0.5).text, "a.log"))
    assert expand(record) == (record,)


def test_what_is_read_of_files_is_not_in_the_log_of_the_rank(tmp_path: Path) -> None:
    history = started(script()).say(0, written(0, "step,loss\n1,0.5"), said(0, "hello", "stdout"))
    assert rank_log(recorded(tmp_path, history), 0).read_text() == "hello\n"


# Whoever reads ------------------------------------------------------------------------------------


@cache
def long_run(watch: bool) -> History:
    """Rank 0's steps are watched, rank 3 prints; the run restarts. All tests read the same one."""
    history = started(script(watch=watch))
    for attempt, first in enumerate((1, 101)):
        history.attempt = attempt
        if attempt:
            history.session(Restarted((0, 1), "a rank failed"))
            history.rank(0, history.launched(0), Spawned(0, 7))
            history.rank(3, history.launched(3), Spawned(3, 8))
        for step in range(first, first + 150):
            if watch:
                history.say(0, seen(0, step, 1.0 / step, time=history.now))
            text = f"step={step} max_steps=300 loss={3.0 / step}\nnoise 17 of rank 3"
            history.say(1, said(3, text, "stdout"), SAMPLE)
            rows = ["step,alpha"] * (step == first) + [f"{step},{step / 3}"]
            history.say(0, written(0, "\n".join(rows)))
    return history.rank(0, Exited(0, 0)).rank(3, Exited(3, 0))


def told(state: RunState) -> tuple[object, ...]:
    """All that can be compared of a state."""
    series = ("loss", "seconds", *state.curves.metrics)
    curves = [
        state.curves.of(name, rank.rank).mean.tolist() for name in series for rank in state.ranks
    ]
    lines = [(one.time, one.text) for one in state.log.lines]
    return repr((summary.summarize(state), curves, series, lines, state.eta(state.now), state.now))  # type: ignore[return-value]


@cache
def told_of_long_run(watch: bool) -> tuple[object, ...]:
    """All that can be compared of the state that the long run comes to."""
    return told(long_run(watch).state())


def applied(of: Plan, records: Iterable[Record]) -> RunState:
    state = RunState(of)
    for record in records:
        apply_record(state, record)
    return state


@pytest.mark.parametrize("watch", [False, True])
def test_all_readers_come_to_the_same(
    watch: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A live session, one that returns in the middle, a replay at any time, one who follows."""
    history = long_run(watch)
    whole = told_of_long_run(watch)
    folder = recorded(tmp_path, history)
    here = history.plan
    assert told(applied(here, read(folder, 2, expand=expander(here)))) == whole
    reader = EventsReader(folder, 2, expander(here))
    assert told(applied(here, reader)) == whole
    reader.close()

    state, take = RunState(here), expander(here)
    for number, record in enumerate(history.records):
        if number == 250:
            take = pickle.loads(pickle.dumps(take))  # as in the copies of a replay
        for one in take(record):
            apply_record(state, one)
    assert told(state) == whole

    monkeypatch.setattr("remote.record.tape.APART", 1 << 15)
    tape = Tape(folder, here)
    tape.advance(math.inf, 1 << 30)
    samples = [one.time for one in history.records if isinstance(one.event, HostSample)]
    middle = samples[len(samples) // 3]  # what comes next is no step, whose time is another one
    tape.rewind(middle)
    tape.advance(middle, 1 << 30)
    before = applied_until(history, middle)
    assert told(tape.state) == told(before)
    tape.advance(math.inf, 1 << 30)
    assert told(tape.state) == whole
    tape.close()


@pytest.mark.parametrize(("watch", "left_at"), [(True, 3), (False, 225), (True, 350)])
def test_a_session_that_returns_goes_on_reading(watch: bool, left_at: int, tmp_path: Path) -> None:
    history = long_run(watch)
    into = Recorder(tmp_path, history.plan)
    ledger = Ledger(history.plan, into, LIMITS)
    for number, record in enumerate(history.records):
        if number < left_at or record.host < 0:
            for one in ledger.expand(record):
                ledger.recall(one)
        else:
            ledger.take(record, encode(record).encode())
    into.release()
    assert told(ledger.state) == told_of_long_run(watch)


def applied_until(history: History, until: float) -> RunState:
    state, take = RunState(history.plan), expander(history.plan)
    for record in history.records:
        if record.time <= until:
            for one in take(record):
                apply_record(state, one)
    return state


def test_a_part_that_is_read_again_has_the_printed_steps(tmp_path: Path) -> None:
    history = logging(started(script()), 3, range(1, 801), 0.1)
    state, folder = history.state(), recorded(tmp_path, history)
    found = reread_steps(folder, 4, RunClocks.of(state), 700, 720, expander(history.plan))
    assert list(found.of("loss", 3).step) == list(range(700, 721))
    assert list(found.of("metric:grad_norm", 3).mean) == [step / 4 for step in range(700, 721)]


def test_a_run_that_goes_on_is_listed_with_what_it_prints(tmp_path: Path) -> None:
    history = started(script())
    for step in range(1, 50):
        history.say(0, said(0, f"step={step} max_steps=600 loss={2.0 / step}", "stdout"), after=0.5)
    found = read_overview(recorded(tmp_path, history))
    assert (found.step, found.steps, found.diverged) == (49, 600, False)
    assert found.loss == pytest.approx(2.0 / 49)


def test_the_course_of_a_printed_loss_is_seen_in_the_list(tmp_path: Path) -> None:
    history = logging(started(script()), 3, range(1, 400), 0.1)
    course = read_loss_course(recorded(tmp_path, history), 8)
    assert len(course) == 8
    assert course == sorted(course, reverse=True)


def test_a_rank_of_another_host_changes_nothing() -> None:
    history = logging(started(script()), 3, range(1, 20), 1.0)
    honest = history.state().ranks[3]
    history.say(0, said(3, line(7_000, 1.0), "stdout"), said(99, line(7_000, 1.0), "stdout"))
    forged = history.state().ranks[3]
    assert (forged.step, forged.loss) == (honest.step, honest.loss)


def test_a_watch_that_tells_of_endlessly_quick_steps_breaks_nothing() -> None:
    history = started(script(watch=True))
    history.say(0, said(0, line(1, 2.0), "stdout"))
    for step in (1, 2, 3):
        event = StepFinished(0, 0, step, 2.0, 5e-324)
        history.say(0, OutputText(0, "stdout", PREFIX + dumps(to_object(event))))
        history.say(0, said(0, line(step, 2.0 / step), "stdout"), SAMPLE)
    assert history.state().ranks[0].step == 3
