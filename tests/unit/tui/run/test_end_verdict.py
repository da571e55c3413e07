"""How a run ended, as its page says it: the culprit first, then the way out; a ruined run is no
success."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import pytest

from remote.events import HostPhaseChanged, Stalled, Stopping
from remote.record.entry import Entry
from remote.run.run_state import RunState
from tests.kit.acted import until
from tests.kit.dashboard import Stage
from tests.kit.histories import GLOO, History, plan, raised, stepped
from training.job import Job
from training.wire.host_events import Exited, Hello, HostSample, RankSample
from training.wire.rank_events import Entered, Epoch, Evaluated, Saved, StepFinished
from tui.kit.widgets.verdict_strip import NextKey, Severity
from tui.launch.form_table import FormTable
from tui.launch.screen import LaunchScreen
from tui.log.panel import LogPanel
from tui.run.components.header_figures import header_figures
from tui.run.end_verdict import describe_change, judge_ended_run
from tui.run.outcome import closing_advice
from tui.run.run_verdict import RunVerdict, VerdictKeys
from tui.run.verdict_panel import VerdictPanel

GIB = 1 << 30
PLATEAU = "epoch 2 came within 2% of the lowest test loss"
HELLO = Hello("box", "me", 1, "3.11.2", "/usr/bin/python3", "Linux 6", "b", 2.0, 24 * GIB, "2.14.1")


def killed(used: int = 2 * GIB, platform: str = "Linux 6", *, saved: int = 10) -> RunState:
    """A run in which rank 1 is killed, and the others follow."""
    history = History(plan(3)).training(12)
    for host in range(3):
        sample = HostSample((50.0,), used, 24 * GIB)
        history.say(host, replace(HELLO, platform=platform), sample)
        history.rank(host, RankSample(host, 50.0, 438 << 20))
        if saved:
            history.rank(host, Saved(host, 1, saved, 0.1, 1000))
    history.rank(1, Exited(1, -9, "SIGKILL"))
    for rank in (0, 2):
        history.rank(rank, *raised(rank, GLOO))
    return history.closed()


KEYS = VerdictKeys("R", "n", "C", "E", "y", "s")


def judge(state: RunState, keys: VerdictKeys = KEYS) -> RunVerdict:
    return judge_ended_run(state, keys, is_brief=True)


def texts_of(verdict: RunVerdict) -> list[str]:
    return [str(reason) for reason in verdict.reasons]


def test_a_failure_names_the_culprit_then_who_followed_then_the_way_out() -> None:
    found = judge(killed())
    assert found.severity is Severity.BAD
    assert found.title == "failed after 1 s: node2, rank 1: killed by SIGKILL at step 12"
    assert texts_of(found) == [
        "not memory: 438 MiB of 24 GiB; no OOM kill on the host",
        "it took down ranks 0 and 2",
    ]
    assert found.next_keys[0] == NextKey("R", "resume from checkpoint 10 (2 steps lost)")
    assert [key.key for key in found.next_keys] == ["R", "E", "n", "C", "y"]


@pytest.mark.parametrize(
    ("losses", "is_told"),
    [((0.5, 0.3, *[0.303] * 8), True), ([1 / epoch for epoch in range(1, 11)], False)],
)
def test_a_run_whose_tests_were_no_better_for_long_says_so(
    losses: Sequence[float], is_told: bool
) -> None:
    history = History(plan(1)).training(90)
    for epoch, loss in enumerate(losses, 1):
        history.rank(0, Evaluated(0, epoch, 8 * epoch, loss, 0.9, 360, 0.1))
    texts = texts_of(judge(history.done(0).closed()))
    assert (
        "epoch 2 came within 2% of the lowest test loss: fewer epochs would do" in texts
    ) is is_told


def test_where_the_host_was_full_memory_may_be_the_reason() -> None:
    texts = texts_of(judge(killed(used=23 * GIB)))
    assert "perhaps memory: 23 GiB of 24 GiB were in use; no OOM kill on the host" in texts


def test_where_nobody_counts_kills_none_is_denied() -> None:
    assert "not memory: 438 MiB of 24 GiB" in texts_of(judge(killed(platform="macOS")))


def test_a_stalled_rank_that_its_agent_killed_did_not_die_of_memory() -> None:
    history = History(plan(2)).training(12).rank(1, RankSample(1, 50.0, 1 << 20))
    history.say(1, HostSample((50.0,), 1, 24 * GIB)).session(Stalled((1,), 31.0))
    history.session(Stopping("stalled", by_person=False, final=True))
    for rank in range(2):
        history.rank(rank, Exited(rank, -9, "SIGKILL", stopped=True))
    state = history.closed()
    assert state.cause is not None
    assert state.cause.rank == 1
    assert not any("memory" in text for text in texts_of(judge(state)))


def test_a_rank_that_raised_did_not_die_of_memory() -> None:
    history = History(plan(2)).training(12).rank(1, RankSample(1, 50.0, 1 << 20))
    history.say(1, HostSample((50.0,), 1, 24 * GIB))
    state = history.rank(1, *raised(1, "ValueError: bad batch")).closed()
    assert not any("memory" in text for text in texts_of(judge(state)))


def test_a_program_that_raised_is_told_with_its_line() -> None:
    history = History(plan(2, script=True)).training(12)
    state = history.rank(1, *raised(1, "KeyError: 'labels'")).closed()
    found = judge(state)
    assert "KeyError: 'labels'" in found.title
    assert texts_of(found)[0] == "train.py:7: main()"
    assert not any("Traceback" in text for text in texts_of(found)), "the log has it"
    assert not any(key.text.startswith("resume") for key in found.next_keys)


def test_there_is_no_way_on_without_a_checkpoint() -> None:
    assert not any("resume" in key.text for key in judge(killed(saved=0)).next_keys)


def test_a_ruined_run_says_so_first() -> None:
    history = History(plan(2)).training()
    for step in range(1, 30):
        history.rank(0, replace(stepped(0, step), loss=2.3 if step < 3 else 900.0 + step))
    found = judge(history.done(0, 1).closed())
    assert found.severity is Severity.WARN
    assert found.title == "diverged at step 3: loss 2.3 → 920 at the end"
    assert texts_of(found)[0].startswith("ended after "), "to have finished sounds well"


@pytest.mark.parametrize(
    ("losses", "tests", "remedy"),
    [
        ([2.3, 2.3, *[900.0 + step for step in range(30)]], [], "with a lower lr: 0.01 (now 0.1)"),
        ([2.3] * 120, [(2.3, 0.1)] * 3, "with another lr (now 0.1): too high or too low"),
        (
            [2.3] * 90,
            [(0.5, 0.8), (0.3, 0.9), *[(loss, 0.9) for loss in (0.4, 0.5, 0.6, 0.7, 0.8)]],
            "with fewer epochs: best was epoch 2",
        ),
    ],
    ids=["diverged", "learned nothing", "overfitted"],
)
def test_a_flaw_ends_in_what_to_change(
    losses: list[float], tests: list[tuple[float, float]], remedy: str
) -> None:
    history = History(plan(2)).training()
    for step, loss in enumerate(losses, 1):
        for rank in range(2):
            history.rank(rank, replace(stepped(rank, step), loss=loss))
    ten_classes = tuple((1,) * 10 for _ in range(10))
    for epoch, (loss, accuracy) in enumerate(tests, 1):
        history.rank(0, Evaluated(0, epoch, 10 * epoch, loss, accuracy, 360, 0.1, ten_classes))
    state = history.done(0, 1).closed()
    found = judge(state)
    assert found.next_keys[0].key == "n"
    assert remedy in found.next_keys[0].text
    assert [key.key for key in found.next_keys].count("n") == 1, "a new run is offered once"
    assert not any("of each step is" in text for text in texts_of(found))
    assert any(f"▶ try a new run {remedy}" in line for line in closing_advice(state))


def test_a_model_that_is_far_better_in_training_is_not_without_problems() -> None:
    history = History(plan(2)).training(40)
    for rank in range(2):
        history.rank(rank, Epoch(rank, 1, 40, 0.04, 1.0, 180, 1.0))
    history.rank(0, Evaluated(0, 1, 40, 0.3, 0.906, 360, 0.1))
    found = judge(history.done(0, 1).closed())
    assert found.title.endswith(" s: test accuracy 90.6%, 9 points below training")
    assert "without problems" not in found.title


def test_a_plain_success_says_how_well_and_how_fast_by_the_figures_of_the_header() -> None:
    history = History(plan(2)).training(40, sync=0.06, compute=0.03)
    for epoch, accuracy in ((1, 0.95), (2, 0.9)):
        history.rank(0, Evaluated(0, epoch, 10 * epoch, 0.3, accuracy, 360, 0.1))
    history.now += 7
    state = history.done(0, 1).closed()
    found = judge(state)
    assert found.severity is Severity.GOOD
    assert found.title.startswith("finished in ")
    assert found.title.endswith(": test accuracy 90.0% (best 95.0% in epoch 1)")
    (step_text,) = [figure.value for figure in header_figures(state) if figure.label == "step"]
    (brief_reason,) = texts_of(found)
    assert brief_reason.startswith("4 s training (60% sync: a larger batch")
    assert brief_reason.endswith("), 4 s start and tests"), "both are the seconds of the title"
    full_reasons = texts_of(judge_ended_run(state, KEYS, is_brief=False))
    assert full_reasons[0].startswith(f"{step_text}/step")
    assert "4 s of training, 4 s of start and tests" in full_reasons[0]
    assert full_reasons[1].startswith("60% of each step is sync: a larger batch")
    assert found.next_keys[0] == NextKey("n", "new run with batch size 128 (now 64) for less sync")
    assert [key.key for key in found.next_keys] == ["n", "C", "y"]
    assert found.advice
    assert found.advice.setting == ("batch_size", 128)
    assert "▶ try a new run with batch size 128 (now 64) for less sync" in closing_advice(state)


def test_a_success_says_what_its_start_was_spent_on() -> None:
    history = History(plan(1))
    history.session(HostPhaseChanged(0, "connecting"))
    history.session(HostPhaseChanged(0, "deploying"), after=2.0)
    history.say(0, HELLO).session(HostPhaseChanged(0, "ready"), after=3.0)
    history.rank(0, history.launched(0))
    history.say(0, Entered(0, "loading"), after=12.0)
    state = history.training(40).done(0).closed()

    speed_text = str(judge_ended_run(state, KEYS, is_brief=False).reasons[0])
    assert speed_text.endswith("(12 s to import torch, 3 s to copy code)")


def test_a_success_is_compared_with_the_last_run_like_it() -> None:
    history = History(plan(2)).training(40)
    history.rank(0, Evaluated(0, 1, 40, 0.3, 0.9, 360, 0.1))
    state = history.done(0, 1).closed()
    previous = Entry("one", label="baseline", accuracy=0.908, step_seconds=0.08)
    assert describe_change(state, previous) == [
        "vs the last run like it (baseline): test -0.8 points, +25% time per step (perhaps chance)"
    ]
    assert not describe_change(state, Entry("one")), "of which nothing is known"


def test_a_rank_that_was_slow_for_most_of_the_run_is_named_once() -> None:
    history = History(plan(2)).training()
    for step in range(1, 200):
        history.now += 0.5
        for rank in range(2):
            history.rank(rank, stepped(rank, step, seconds=0.5, ready=0.4 if rank else 0.05))
    found = judge(history.done(0, 1).closed())
    assert found.title.startswith("slow for ")
    assert ": all waited for rank 1 on node2" in found.title
    assert not any("slow" in text for text in texts_of(found))


def test_a_small_change_of_speed_is_called_chance() -> None:
    state = History(plan(2)).training(40).done(0, 1).closed()
    previous = Entry("one", label="script", step_seconds=0.104)
    assert describe_change(state, previous) == ["as fast as the last run like it (script)"]


@pytest.mark.parametrize(
    ("accumulate", "words"),
    [
        (1, "a larger batch or --accumulate syncs less often"),
        (4, "a larger batch syncs less often"),
    ],
)
def test_where_an_epoch_would_have_too_few_steps_no_batch_size_is_named(
    accumulate: int, words: str
) -> None:
    history = History(replace(plan(2), work=Job(accumulate=accumulate)))
    state = history.training(40, sync=0.06, compute=0.03).done(0, 1).closed()
    assert state.progress.begun
    state.progress.begun = replace(state.progress.begun, steps_per_epoch=6)
    found = judge(state)
    assert any(words in text for text in texts_of(found))
    assert found.next_keys[0] == NextKey("n", "new run")


def test_a_learning_rate_above_the_default_leads_back_to_it() -> None:
    history = History(replace(plan(2), work=Job(lr=1000.0))).training()
    for step in range(1, 30):
        history.rank(0, replace(stepped(0, step), loss=2.3 if step < 3 else 900.0 + step))
    found = judge(history.done(0, 1).closed())
    assert found.next_keys[0] == NextKey("n", "new run with lr 0.1, the default (now 1000)")
    assert found.advice
    assert found.advice.setting == ("lr", 0.1)


async def test_the_page_of_a_finished_run_shows_the_comparison() -> None:
    previous = Entry("one", label="baseline", accuracy=0.9, step_seconds=0.1)
    stage = Stage()
    async with stage.training(size=(120, 40)) as pilot:
        stage.screen.query_one(VerdictPanel)._find_previous = lambda: previous
        stage.session.finish(60, 1)
        await stage.ended(pilot)
        await until(pilot, lambda: "vs the last run like it (baseline): test +4.7" in stage.text())
        assert "q Quit  ? Help  n New run  C Compare" in stage.text().splitlines()[-1]


async def test_r_on_the_page_of_a_failed_run_opens_the_form_that_resumes_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    stage = Stage()
    resumed = list[str]()
    monkeypatch.setattr(
        type(stage.app), "on_resume_run", lambda app, message: resumed.append(message.name)
    )
    async with stage.training(size=(80, 24)) as pilot:
        await pilot.press("R")
        assert not resumed, "it still trains"
        for rank in range(2):
            stage.session.say(0, Saved(rank, 1, 50, 0.1, 1000))
        stage.session.fail(rank=1)
        await stage.ended(pilot)
        await until(pilot, lambda: "R resume from checkpoint 50 (10 steps lost)" in stage.text())
        assert stage.screen.query_one("VerdictPanel VerdictStrip").has_class("-bad")
        assert "? Help  R Resume  E Error  n New run  C Compare" in stage.text()
        await pilot.press("R")
        await until(pilot, lambda: bool(resumed))
    assert resumed == [stage.session.plan.run]


async def test_n_on_a_diverged_run_opens_the_form_at_a_lower_learning_rate() -> None:
    stage = Stage(1, 1)
    async with stage.app.run_test(size=(80, 24)) as pilot:
        await stage.train(pilot, 3)
        stage.session.say(0, StepFinished(0, 1, 4, math.nan, 0.1))
        stage.session.finish(4, 1)
        await stage.ended(pilot)
        await until(pilot, lambda: "▶ n new run with a lower lr: 0.01 (now 0.1)" in stage.text())
        assert "✓" not in stage.text(), "nothing about it went well"
        await pilot.press("n")
        await until(pilot, lambda: isinstance(stage.app.screen, LaunchScreen))
        table = stage.app.screen.query_one(FormTable)
        await until(pilot, lambda: table.form_rows[table.cursor].name == "lr")
        assert table.draft.texts["lr"] == "0.01"


async def test_n_on_a_run_that_was_bound_by_sync_opens_the_form_at_a_larger_batch() -> None:
    stage = Stage(1, 2)
    async with stage.app.run_test(size=(80, 24)) as pilot:
        await stage.train(pilot, 1)
        for step in range(2, 41):
            for rank in range(2):
                stage.session.say(0, stepped(rank, step, sync=0.08, compute=0.01))
        stage.session.finish(40, 1)
        await stage.ended(pilot)
        await until(
            pilot, lambda: "▶ n new run with batch size 128 (now 64) for less sync" in stage.text()
        )
        await pilot.press("n")
        await until(pilot, lambda: isinstance(stage.app.screen, LaunchScreen))
        table = stage.app.screen.query_one(FormTable)
        await until(pilot, lambda: table.form_rows[table.cursor].name == "batch_size")
        assert table.draft.texts["batch_size"] == "128"


async def test_the_log_of_a_failed_run_is_that_of_the_rank_to_blame() -> None:
    stage = Stage()
    async with stage.training(size=(120, 40)) as pilot:
        for rank, exception in ((1, "ValueError: bad 1"), (0, GLOO)):
            stage.session.say(stage.session.host_of(rank), *raised(rank, exception))
        stage.session.close()
        await stage.ended(pilot)
        panel = stage.screen.query_one(LogPanel)
        await until(pilot, lambda: "news, rank 1━" in stage.text())
        assert stage.text().count("ValueError: bad 1") >= 2, "in the verdict and in the log"
        assert "RuntimeError" not in stage.text()
        assert not panel.check_action("leave", ()), "esc leaves the page at once"
        await pilot.press("A")
        await until(pilot, lambda: "RuntimeError" in stage.text())
        assert "¹ranks  failed first" in stage.text()


async def test_the_log_ends_with_how_a_rank_died_that_has_not_printed_why() -> None:
    stage = Stage()
    async with stage.training(size=(80, 24)) as pilot:
        stage.session.fail(rank=1)
        await stage.ended(pilot)
        view = stage.screen.query_one(LogPanel).view
        await until(
            pilot, lambda: view.rows.lines[-1].text.endswith("killed by SIGKILL at step 60")
        )
        assert view.filter.rank is None
