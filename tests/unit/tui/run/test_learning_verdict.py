"""What speaks against more training of a run, and the key that stops it."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from tests.kit.acted import until
from tests.kit.dashboard import Stage
from tests.kit.histories import History, plan, stepped
from training.wire.rank_events import Evaluated, Saved
from tui.kit.widgets.verdict_strip import NextKey, Severity
from tui.run.learning_verdict import judge_learning
from tui.run.run_verdict import VerdictKeys, make_hide_key
from tui.run.verdict_panel import VerdictPanel

PLATEAU = "epoch 2 came within 2% of the lowest test loss"
KEYS = VerdictKeys(hide="a", stop="q", copy="y")
NO_LONGER_BETTER = (0.5, 0.3, *[0.31] * 8)
WORSE = (0.5, 0.3, *[0.4 + epoch / 10 for epoch in range(9)])


def evaluations(losses: Sequence[float]) -> list[Evaluated]:
    """Tests with these losses, one in each epoch."""
    return [
        Evaluated(0, epoch, 8 * epoch, loss, 0.9, 360, 0.1) for epoch, loss in enumerate(losses, 1)
    ]


def training(losses: Sequence[float]) -> History:
    history = History(plan(1)).training(total=1000)
    for step in range(1, 90):
        history.rank(0, stepped(0, step))
    return history.rank(0, *evaluations(losses))


@pytest.mark.parametrize(
    ("losses", "title"),
    [
        (
            NO_LONGER_BETTER,
            f"{PLATEAU}: more epochs may not help",
        ),
        ((0.5, 0.3, 0.31, 0.31), ""),
        ((0.5, *[0.31] * 8, 0.3), ""),
    ],
)
def test_a_run_that_learns_no_more_says_since_when(losses: Sequence[float], title: str) -> None:
    verdict = judge_learning(training(losses).state(), KEYS)
    assert verdict.title == title
    assert verdict.severity is Severity.NEUTRAL, "it may become better yet"


def test_a_run_that_overfits_is_warned_of_and_can_be_stopped() -> None:
    history = training(WORSE)
    verdict = judge_learning(history.state(), KEYS)
    assert verdict.title == "overfitting since epoch 2: test loss 0.3 → 1.2"
    assert verdict.severity is Severity.WARN
    assert verdict.next_keys == (
        NextKey("q", "stop (the model is lost)", "stop (model lost)"),
        NextKey("y", "copy the command with 2 epochs"),
        make_hide_key(KEYS),
    )
    saved = history.rank(0, Saved(0, 10, 80, 0.1, 1000)).state()
    assert judge_learning(saved, KEYS).next_keys[0] == NextKey("q", "stop (checkpoint 80)", "stop")
    saved.hold(saved.now)
    held_keys = judge_learning(saved, KEYS).next_keys
    assert NextKey("q", "stop (checkpoint 80)", "stop") not in held_keys, "it is not recorded"


def test_nothing_is_said_of_a_run_that_has_ended() -> None:
    ended = training(WORSE).done(0).closed()
    assert not judge_learning(ended, KEYS).title


async def test_the_strip_offers_fewer_epochs_and_to_stop_until_it_is_hidden() -> None:
    stage = Stage(1, 1)
    async with stage.shown(size=(80, 24)) as pilot:
        await stage.train(pilot, 20)
        assert "training, no alerts" in stage.text()
        stage.session.say(0, *evaluations(NO_LONGER_BETTER))
        await until(pilot, lambda: "epoch 2 came within 2%" in stage.text())
        line = "▶ y copy the command with 2 epochs   q stop (the model is lost)   a hide"
        assert line in stage.text()
        await pilot.press("y")
        assert "--epochs 2 " in stage.app.clipboard
        assert "no alerts" not in stage.text()
        await pilot.press("a")
        await until(pilot, lambda: not stage.screen.query_one(VerdictPanel).display)
        assert "training, no alerts" in stage.text()
        stage.session.say(0, *evaluations([*NO_LONGER_BETTER, 0.2, *[0.21] * 12])[10:])
        await until(pilot, lambda: "epoch 11 came within 2%" in stage.text())
