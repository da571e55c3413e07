"""The page of a rank: what it tells, its log, its stack, and the way to other ranks."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from remote.lab.spec import parse
from remote.plan.plan import Script
from remote.run.run_state import RunState
from tests.kit.acted import until
from tests.kit.checks import hello
from tests.kit.dashboard import Stage
from tests.kit.dumps import LOADS, by
from tests.kit.histories import History, plan
from training.wire import host_events, rank_events
from training.wire.enums import EndReason
from tui.app.help import HelpDialog
from tui.charts.panel import Charts
from tui.kit.messages import ShowRank
from tui.kit.rank_table import RankTable
from tui.log.panel import LogPanel
from tui.run.components.rank_facts import rank_facts
from tui.run.rank_screen import RankScreen
from tui.run.screen import RunScreen

GPU = "GPU 97% busy, memory 70 GiB of 80 GiB, 1410 of 1980 MHz"
BY_RANKS = "of 0.5 cores by its ranks"


async def opened(stage: Stage, pilot, rank: int) -> None:  # type: ignore[no-untyped-def]
    # The rows stand in the order in which the ranks limit the run.
    await pilot.press("1", "home")
    lines = stage.screen.query_one(RankTable)._lines
    rows = [line.ranks[0].rank for line in lines]
    await pilot.press(*["down"] * rows.index(rank), "enter")
    await until(pilot, lambda: isinstance(stage.app.screen, RankScreen))
    await until(pilot, lambda: f"rank {rank} of " in stage.text())


def words(stage: Stage) -> str:
    return " ".join(stage.text().split())


@pytest.mark.parametrize("size", [(60, 20), (80, 24), (120, 40), (200, 60)])
async def test_it_tells_all_that_is_known_of_the_rank_and_nothing_of_others(
    size: tuple[int, int],
) -> None:
    stage = Stage(hosts=2, slots=2)
    async with stage.shown(size=size) as pilot:
        stage.session.device = "cuda:0"
        stage.session.start()
        stage.session.say(1, hello(2, cores=0.5, boot_id="b"))
        stage.session.steps(1, 60, late=2)
        gpu = host_events.GpuSample(2, 97.0, 70 << 30, 80 << 30, 1410, 1980)
        stage.session.say(1, gpu)
        await stage.heard(pilot, 60)
        await opened(stage, pilot, 2)
        await until(pilot, lambda: "epoch 1 step 60 loss" in stage.text())
        text = words(stage)
        for part in (
            "rank 2 of 4, on node2 ▲ SLOW 4.0x",
            "all ranks wait for rank 2 on node2",
            "step 60 of 400, epoch 1",
            "data 5%, compute 75%, sync 20%, busy 80 ms",
            "pid 4002, on cuda:0 with 1 thread, gloo",
            GPU,
            BY_RANKS,
        ):
            assert part in text or (size == (60, 20) and part in (GPU, BY_RANKS))
        assert ("Python 3.12.3" in text) == (size[1] >= 30)
        log = [line for line in stage.text().splitlines() if "epoch 1 step" in line]
        assert all("[2]" in line for line in log)
        charts = [chart for chart in stage.app.screen.query(Charts) if chart.display]
        assert len(charts) == (3 if size[0] >= 150 else 2 if size[0] >= 110 else 1)


async def test_the_arrows_lead_to_the_other_ranks_around() -> None:
    stage = Stage(hosts=2, slots=2)
    async with stage.training() as pilot:
        await opened(stage, pilot, 3)
        await pilot.press("right")
        await until(pilot, lambda: "rank 0 of 4, on node1" in stage.text())
        await pilot.press("left", "left")
        await until(pilot, lambda: "rank 2 of 4, on node2" in stage.text())
        await until(pilot, lambda: "[2] epoch 1 step 60" in stage.text())
        assert "[1]" not in stage.text()


async def test_it_closes_where_a_restart_leaves_out_its_rank() -> None:
    stage = Stage(hosts=2, slots=2)
    async with stage.training(notifications=True) as pilot:
        await opened(stage, pilot, 3)
        await pilot.press("question_mark")
        await until(pilot, lambda: isinstance(stage.app.screen, HelpDialog))
        stage.session.restart(0, resumed=40)
        await until(pilot, lambda: len(stage.session.state.ranks) == 2)
        await pilot.press("escape")
        await until(pilot, lambda: stage.app.screen is stage.screen)
        await until(pilot, lambda: "rank 3 is not part of attempt 2" in stage.text())
        (first,) = stage.app._notifications
        stage.screen.post_message(ShowRank(3))  # of a table that was drawn before
        await until(pilot, lambda: first not in stage.app._notifications)
        await until(pilot, lambda: "rank 3 is not part of attempt 2" in stage.text())
        await until(pilot, lambda: stage.app.screen is stage.screen)
        stage.session.steps(41, 60)
        stage.session.finish(60)
        await stage.ended(pilot)
        assert "finished" in stage.text()


async def test_s_asks_for_the_stack_and_esc_leaves_one_layer() -> None:
    stage = Stage(hosts=2, slots=2)
    async with stage.training() as pilot:
        await opened(stage, pilot, 2)
        await pilot.press("s")
        assert stage.session.asked == 1
        await until(pilot, lambda: "no stack yet" in stage.text())
        stage.session.say(1, by(LOADS, 2))
        await until(pilot, lambda: "load_batch" in stage.text())
        assert "epoch 1 step" not in stage.text()
        await pilot.press("escape")
        await until(pilot, lambda: "epoch 1 step 60" in stage.text())
        await pilot.press("escape")
        assert isinstance(stage.app.screen, RunScreen)


async def test_in_the_log_esc_leaves_what_was_typed_then_the_page() -> None:
    stage = Stage(hosts=2, slots=2)
    async with stage.training(size=(120, 40)) as pilot:
        await opened(stage, pilot, 3)
        log = stage.app.screen.query_one(LogPanel)
        log.view.focus()
        await pilot.press("ampersand", *"step 60", "enter")
        await until(pilot, lambda: "rank 3, matching step 60" in stage.text())
        await pilot.press("r", "A", "E")
        stage.app.tick()
        await pilot.pause()
        assert "rank 3, matching step 60" in stage.text()
        assert "r Rank" not in stage.text()
        await pilot.press("escape")
        await until(pilot, lambda: "all lines, rank 3, following" in stage.text())
        await pilot.press("escape")
        assert isinstance(stage.app.screen, RunScreen)


async def test_it_shows_no_chart_of_what_only_other_ranks_tell() -> None:
    stage = Stage(hosts=1, slots=2)
    stage.app.runs.launch = replace(stage.app.runs.launch, work=Script(("train.py",)))
    async with stage.shown(size=(160, 40)) as pilot:
        stage.session.start()
        for step in range(1, 9):
            stage.session.say(
                0,
                *(rank_events.StepFinished(rank, 1, step, math.nan, 0.1) for rank in range(2)),
                rank_events.ScriptMetrics(0, step, 0, (("loss", 2.0 / step), ("mood", 1.0 * step))),
            )
        for rank, titles in ((0, {"loss", "mood", "time per step"}), (1, set())):
            await opened(stage, pilot, rank)
            await until(pilot, lambda titles=titles: titles <= titles_of(stage))
            assert ("mood" in titles_of(stage)) == (rank == 0)
            assert ("loss" in titles_of(stage)) == (rank == 0)
            await pilot.press("escape")


def titles_of(stage: Stage) -> set[str]:
    return {chart.kind.title for chart in stage.app.screen.query(Charts) if chart.display}


async def test_the_next_chart() -> None:
    stage = Stage(hosts=1, slots=2)
    async with stage.training() as pilot:
        await opened(stage, pilot, 1)
        assert "─ loss  " in stage.text()
        await pilot.press("c")
        await until(pilot, lambda: "─ busy  " in stage.text())
        assert "─ loss  " not in stage.text()


async def test_before_its_first_step_and_after_its_death() -> None:
    stage = Stage(hosts=2, slots=2)
    async with stage.app.run_test(size=(80, 24)) as pilot:
        stage.session.say(0, host_events.Launched((0, 1)))
        await until(pilot, lambda: "import torch" in stage.text())
        await opened(stage, pilot, 0)
        assert "not started" in stage.text()
        assert "steps show once the ranks train" in stage.text()
        stage.session.start()
        stage.session.steps(1, 9)
        stage.session.fail(0)
        await until(pilot, lambda: "✗ failed" in stage.text())
        await until(pilot, lambda: "killed by SIGKILL" in stage.text())
        asked = stage.session.asked
        await pilot.press("s")
        await until(pilot, lambda: "rank 0 on node1: no stack" in stage.text())
        assert stage.session.asked == asked  # the run has ended
        await pilot.press("q", "q")
        await stage.ended(pilot)


def told(run: RunState, rank: int = 0) -> dict[str, str]:
    facts = rank_facts(run.ranks[rank], run, run.now, is_roomy=True)
    return {topic: str(words) for topic, words in facts}


@pytest.mark.parametrize(
    ("exited", "how"),
    [
        (host_events.Exited(0, -9, "SIGKILL"), "killed by SIGKILL while training"),
        (
            host_events.Exited(0, -9, "SIGKILL", out_of_memory=True),
            "killed by SIGKILL, out of memory, while training",
        ),
        (host_events.Exited(0, 3), "exit code 3 while training"),
        (host_events.Exited(0, 0), "exit code 0"),
    ],
)
def test_how_a_process_ended_and_what_it_did_then(exited: host_events.Exited, how: str) -> None:
    run = History(plan(2)).training(3).rank(0, exited).closed()
    assert told(run)["process"] == how


def test_a_host_that_has_ended_has_no_live_figures() -> None:
    sample = host_events.HostSample((50.0, 50.0), 1 << 30, 4 << 30, 0, 0)
    history = History(plan(1)).say(0, hello(1, cores=2)).training(3).say(0, sample)
    assert "CPU 50% of 2 cores" in told(history.state())["host"]
    history.done(0).say(0, host_events.AgentEnded(EndReason.ALL_ENDED))
    assert told(history.closed())["host"] == "■ ended: all ranks have ended"


def test_the_pid_of_a_rank_in_a_lab_is_none_of_the_users_own_shell() -> None:
    assert told(History(plan(1)).training(1).state())["process"].startswith("pid 100, on cpu")
    lab = replace(plan(1), hosts=parse(1, "1gbit").hosts())
    assert told(History(lab).training(1).state())["process"].startswith("pid 100 in the lab, on ")
