"""The chart of staleness is there where gradients may be stale, and nowhere else."""

from __future__ import annotations

import re

import pytest

from remote.plan.plan import Plan
from tests.kit.acted import ActedSession, cluster, make_plan, until
from tests.kit.looks import screen_text
from training.job import Job
from training.wire.rank_events import Entered, StepFinished
from tui.app.app import RankboardApp
from tui.charts.chart_list import ChartList
from tui.charts.kinds import available
from tui.charts.panel import Charts
from tui.kit.open_runs import LaunchRequest
from tui.run.screen import RunScreen

ASYNC = Job(sync="parameter_server", sync_option=("mode=async", "dedicated=yes"))


class Stage:
    """A dashboard over one acted run of a job on 2 hosts."""

    def __init__(self, job: Job) -> None:
        lab = cluster(2, 1)
        self.app = RankboardApp(LaunchRequest(lab, lab, job, make_plan, self._begin, at_once=True))

    def _begin(self, plan: Plan) -> ActedSession:
        self.session = ActedSession(plan)
        return self.session

    def text(self) -> str:
        """What is on the screen."""
        return screen_text(self.app)


@pytest.mark.parametrize("size", [(80, 24), (120, 40)])
async def test_staleness_has_a_chart_of_its_own(size: tuple[int, int]) -> None:
    stage = Stage(ASYNC)
    async with stage.app.run_test(size=size) as pilot:
        await until(pilot, lambda: isinstance(stage.app.screen, RunScreen))
        stage.session.start()
        stage.session.say(0, Entered(0, "serving"))
        for step in range(1, 31):
            stage.session.say(1, StepFinished(1, 1, step, 2.0, 0.1, staleness=step % 3), after=0.1)
        await until(pilot, lambda: "step 30" in stage.text())
        await pilot.press("c")
        await until(pilot, lambda: isinstance(stage.app.screen, ChartList))
        await pilot.press(*"stale", "enter")
        await until(pilot, lambda: re.search(r" [³-⁹]staleness", stage.text()) is not None)
        assert "● serving" in stage.text()
        shown = [chart.region for chart in stage.app.screen.query(Charts) if chart.display]
        # Beside the charts, the ranks over time have a place where they differ.
        assert len(shown) in ((3, 4) if size[0] >= 110 else (1,))
        assert all(region.width >= 20 and region.height >= 6 for region in shown)
        assert len({region.y for region in shown}) == (2 if size[0] >= 110 else 1)
        stage.session.close()
        await until(pilot, lambda: not stage.app.runs.live)


async def test_other_jobs_have_none() -> None:
    stage = Stage(Job())
    async with stage.app.run_test(size=(120, 40)) as pilot:
        await until(pilot, lambda: isinstance(stage.app.screen, RunScreen))
        stage.session.start()
        stage.session.steps(1, 30)
        await until(pilot, lambda: stage.session.state.step == 30)
        assert "staleness" not in [kind.id for kind in available(stage.session.state)]
        stage.session.close()
        await until(pilot, lambda: not stage.app.runs.live)
