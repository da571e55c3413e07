"""A run that finished is a plain success only if nothing spoils its result: what does is named in a
sentence, and ordinary training is not suspected."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

import pytest

from remote.events import Restarted, SessionClosed
from remote.plan.plan import Plan
from remote.record.overview import make_overview
from remote.run.apply import apply_record
from remote.run.findings.alerts import Alarm, find_alerts
from remote.run.findings.flaws import find_flaws, outcome_word
from remote.run.output.script_readings import expander
from remote.run.run_state import RunState
from remote.run.state.flaw import FlawKind
from tests.kit.histories import History, plan, stepped
from tests.kit.replayed import Replayed, all_runs
from training.wire.host_events import OutputText
from training.wire.rank_events import Evaluated, Isolation, ScriptMetrics, StepFinished

JOB = plan(2)
SCRIPT = plan(2, script=True)
TEN_CLASSES = tuple(tuple(1 for _ in range(10)) for _ in range(10))


def made(losses: Iterable[float], of: Plan = JOB) -> History:
    """A run with these losses, one a step."""
    history = History(of).training() if of.job else History(of)
    for step, loss in enumerate(losses, 1):
        for rank in range(len(of.slots)):
            history.rank(rank, StepFinished(rank, 1, step, loss, 0.1, compute=0.05))
    return history


def with_tests(losses: Iterable[float], accuracies: Iterable[float] = ()) -> History:
    """A run with these test results, one an epoch of ten steps; its training loss falls."""
    history = History(JOB).training()
    rates = [*accuracies]
    for epoch, loss in enumerate(losses, 1):
        for step in range(10 * epoch - 9, 10 * epoch + 1):
            history.rank(0, stepped(0, step)).rank(1, stepped(1, step))
        accuracy = rates[epoch - 1] if rates else 0.9
        history.rank(0, Evaluated(0, epoch, 10 * epoch, loss, accuracy, 360, 0.1, TEN_CLASSES))
    return history


def flaws(history: History) -> list[str]:
    return [flaw.text for flaw in find_flaws(history.done(0, 1).closed())]


def test_a_loss_that_stays_far_above_its_start_has_diverged() -> None:
    history = made([2.3, 2.4, *[17_655.0 + step for step in range(20)]])
    (flaw,) = find_flaws(history.done(0, 1).closed())
    assert (flaw.kind, flaw.step, flaw.before) == (FlawKind.DIVERGED, 3, 2.3)
    assert flaw.text == "diverged at step 3: loss 2.3 → 17664 at the end"


def test_a_loss_that_is_no_number_has_diverged() -> None:
    history = made([2.3, 2.2, math.nan, math.nan])
    assert flaws(history) == ["diverged at step 3: loss 2.3 → NaN"]
    assert flaws(made([math.inf])) == ["diverged at step 1: loss infinite"]


def test_it_is_an_alert_and_a_line_of_the_log_while_the_run_trains() -> None:
    history = made([2.3, *[90.0 + step for step in range(12)]])
    state = history.state()
    (alert,) = find_alerts(state)
    assert (alert.alarm, alert.text, alert.over) == (
        Alarm.DIVERGED,
        "loss 2.3 → 88.3 since step 2",
        0.0,
    )
    assert sum("loss 2.3 →" in note.text for note in state.log.notes) == 1


@pytest.mark.parametrize(
    "course",
    [
        lambda step: 2.3 * 0.97**step,
        lambda step: 2.3 + 0.5 * math.sin(step),
        lambda step: 40.0 + step if step in range(3, 10) else 2.0 - step / 100,  # a spike
        lambda step: 0.01 + 0.02 * (step % 7),  # resumed
    ],
    ids=["falls", "oscillates", "spike", "resumed"],
)
def test_an_ordinary_loss_has_not(course: Callable[[int], float]) -> None:
    assert not flaws(made(course(step) for step in range(60)))


def test_a_loss_that_comes_back_is_an_alert_that_is_over() -> None:
    history = made(
        [2.3, *[50.0 + step for step in range(15)], *[2.0 - 0.01 * n for n in range(15)]]
    )
    (alert,) = find_alerts(history.state())
    assert alert.over > alert.since
    assert not flaws(history)


@pytest.mark.parametrize(
    "course",
    [
        lambda step: 0.7 + step / 4,  # the generator of a GAN
        lambda step: 1.4 / (step + 1) + 6 * abs(math.sin(step)),
        lambda step: -(1.5**step),  # a critic without bounds
        lambda step: 0.01 * 1.1**step,  # values, as rewards grow
    ],
    ids=["generator", "oscillates", "critic", "values"],
)
def test_a_script_may_have_any_loss(course: Callable[[int], float]) -> None:
    assert not flaws(made((course(step) for step in range(60)), SCRIPT))


def test_a_loss_of_a_script_that_explodes_has_diverged() -> None:
    history = made([2.3, *[90_000.0 + step for step in range(20)]], SCRIPT)
    assert flaws(history) == ["diverged at step 2: loss 2.3 → 90010 at the end"]


@pytest.mark.parametrize(("stride", "has_diverged"), [(12, True), (1, False)])
def test_a_few_losses_of_a_script_are_enough_if_they_are_of_many_steps(
    stride: int, has_diverged: bool
) -> None:
    history = History(SCRIPT)
    for number, loss in enumerate((0.4, 3e4, 5e9, 4e25)):
        history.rank(0, StepFinished(0, 1, 2 + stride * number, loss, 0.1, compute=0.05))
    assert bool(flaws(history)) is has_diverged
    assert (make_overview(history.state()).loss or 0.0) > 1e20, "as large as it is"


def test_no_other_value_of_a_script_counts() -> None:
    history = History(SCRIPT)
    for step in range(1, 60):
        values = (("reward", 2.0**step), ("accuracy", step / 60), ("value_loss", 3.0**step))
        history.rank(0, ScriptMetrics(0, step, 0.0, values))
    assert not flaws(history)


def test_the_first_loss_of_a_run_counts_after_a_restart() -> None:
    history = made([2.3] * 3)
    history.session(Restarted((0, 1), "a host was lost"))
    history.attempt = 1
    for step in range(4, 30):
        history.rank(0, StepFinished(0, 1, step, 50.0 + step, 0.1))
    assert [flaw.text for flaw in find_flaws(history.state())] == [
        "diverged at step 4: loss 2.3 → 35.9 at the end"
    ]


def test_a_model_that_guesses_again_at_the_end_has_diverged() -> None:
    history = with_tests([1.0, 0.5, 2.3, 2.3], [0.6, 0.9, 0.1, 0.1])
    assert flaws(history) == ["diverged at step 30: test accuracy 90.0% → 10.0% at the end"]


def test_a_model_that_never_learned_is_told_once_it_should_have() -> None:
    assert not flaws(with_tests([2.3] * 5, [0.1] * 5))
    assert flaws(with_tests([2.3] * 10, [0.1] * 10)) == [
        "learned nothing: test accuracy 10.0%, as by chance"
    ]
    assert not flaws(with_tests([2.2] * 10, [0.2] * 10)), "better than chance"


def test_a_test_loss_that_has_risen_for_a_third_of_the_epochs_is_overfitted() -> None:
    losses = [1.0, 0.4, 0.3, 0.31, 0.35, 0.37, 0.4, 0.41, 0.44]
    assert flaws(with_tests(losses)) == ["overfitted since epoch 3: test loss 0.3 → 0.44"]


@pytest.mark.parametrize(
    "losses",
    [
        [1.0, 0.4, 0.3, 0.31, 0.305, 0.302, 0.31, 0.305, 0.304],
        [1.0, 0.8, 0.6, 0.5, 0.4, 0.35, 0.3, 0.29, 0.4],
        [0.3, 0.4, 0.5],
    ],
    ids=["stays", "one outlier", "few tests"],
)
def test_a_test_loss_that_wavers_is_not(losses: list[float]) -> None:
    assert not flaws(with_tests(losses))


def validated(
    losses: Iterable[float], name: str = "val_loss", *, has_epochs: bool = True
) -> list[str]:
    """The flaws of a script that prints these validation losses, one each ten steps."""
    history = History(SCRIPT)
    for place, loss in enumerate(losses, 1):
        for step in range(10 * place - 9, 10 * place + 1):
            history.rank(0, StepFinished(0, 0, step, 2.0 / step, 0.1, compute=0.05))
        epoch = float(place) if has_epochs else 0.0
        history.rank(0, ScriptMetrics(0, 10 * place, epoch, ((name, loss),)))
    return flaws(history)


RISING = [1.0, 0.4, 0.3, 0.31, 0.35, 0.37, 0.4, 0.41, 0.44]


def test_a_validation_loss_of_a_script_that_has_risen_is_overfitted() -> None:
    change = "validation loss 0.3 → 0.44"
    assert validated(RISING) == [f"overfitted since epoch 3: {change}"]
    assert validated(RISING, has_epochs=False) == [f"overfitted since step 30: {change}"]
    assert not validated(RISING, "value_loss"), "of another kind"


@pytest.mark.parametrize("printed", ["valid_loss", "eval_loss", "test_loss", "validation/loss"])
def test_a_validation_loss_is_known_by_any_of_its_names(printed: str) -> None:
    history = History(SCRIPT)
    for epoch, loss in enumerate(RISING, 1):
        history.rank(
            0, OutputText(0, "stdout", f"epoch={epoch} step={100 * epoch} {printed}={loss}")
        )
    state, expand = RunState(history.plan), expander(history.plan)
    for record in history.done(0, 1).session(SessionClosed()).records:
        for part in expand(record):
            apply_record(state, part)
    assert [flaw.kind for flaw in find_flaws(state)] == [FlawKind.OVERFITTED]


def folds(least: Sequence[float]) -> list[float]:
    """A loss that begins anew with each fold, and falls to one of these."""
    return [loss + 2.0 * 0.5**step for loss in least for step in range(8)]


@pytest.mark.parametrize(
    "losses",
    [
        [1.0, 0.4, 0.3, 0.31, 0.305, 0.302, 0.31, 0.305, 0.304],
        [1.0, 0.8, 0.6, 0.5, 0.4, 0.35, 0.3, 0.29, 0.4],
        [0.3, 0.4, 0.5],
        [0.3] * 4 + [0.9] * 8,
        folds([0.30, 0.32, 0.33, 0.35]),
        folds([0.30, 0.32, 0.33])[:-3],
        [0.5 / epoch + (0.2 if epoch % 2 else 0.9) for epoch in range(1, 30)],
        [3.0 - epoch for epoch in range(20)],
    ],
    ids=["stays", "outlier", "few", "another task", "folds", "half a fold", "two sets", "negative"],
)
def test_a_validation_loss_that_rises_otherwise_is_not(losses: list[float]) -> None:
    assert not validated(losses)


@pytest.mark.parametrize("spread", [0.02, 0.1, 0.3])
@pytest.mark.parametrize("falls", [True, False], ids=["falls", "stays"])
def test_a_validation_loss_of_few_samples_wavers_and_is_not(spread: float, *, falls: bool) -> None:
    num_false = 0
    for seed in range(40):
        dice = random.Random(seed)
        course = (1.0 + 2.0 * 0.8**epoch * falls for epoch in range(dice.randint(6, 60)))
        num_false += bool(validated(loss * dice.lognormvariate(0.0, spread) for loss in course))
    assert num_false <= 1, "of 40 runs"


def test_a_validation_loss_that_is_repeated_or_made_again_counts_once() -> None:
    repeated = [loss for loss in RISING for _ in range(5)]
    history = History(SCRIPT)
    for step, loss in enumerate(repeated, 1):
        history.rank(0, ScriptMetrics(0, step, 0.0, (("val_loss", loss),)))
    found = history.state().metrics.validation_losses
    assert [validation.loss for validation in found] == RISING
    history.rank(0, ScriptMetrics(0, 7, 0.0, (("val_loss", 0.45),)))
    found = history.state().metrics.validation_losses
    assert [validation.loss for validation in found] == [*RISING[:2], 0.45], "after a restart"


def test_ranks_that_trained_alone_to_the_end_are_told() -> None:
    history = made([2.0 - step / 100 for step in range(30)], SCRIPT)
    for rank in range(2):
        history.rank(rank, Isolation(rank, 20, driver="", has_group=True))
    assert flaws(history) == ["trained alone: each rank has a model of its own"]


RECORDED = [path for kind in ("calm", "noisy-ddp-lenet5-18bb", "slow") for path in all_runs(kind)]


@pytest.mark.parametrize("path", RECORDED, ids=lambda path: path.name.partition(".")[0])
def test_recorded_runs_are_plain_successes_unless_one_rank_was_slow(path: Path) -> None:
    replayed = Replayed(path)
    *_, state = replayed.states()
    found = find_flaws(state)
    if replayed.slow is None:
        assert not found
    else:
        assert [(flaw.kind, flaw.rank) for flaw in found] == [(FlawKind.SLOW, replayed.slow)]
        assert f"all waited for rank {replayed.slow} on " in found[0].text


def test_the_word_for_a_run_is_its_verdict_or_its_worst_flaw() -> None:
    assert outcome_word(made([2.3]).state()) == ""
    assert outcome_word(made([2.3]).done(0, 1).closed()) == "finished"
    assert outcome_word(made([2.3, math.nan]).done(0, 1).closed()) == "diverged"
    assert outcome_word(made([2.3, math.nan]).closed()) == "stopped"
