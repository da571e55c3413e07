"""The chart of staleness is there where gradients may be stale, and nowhere else."""

from __future__ import annotations

import pytest

from remote.plan.plan import Plan
from tests.kit.acted import ActedSession, cluster, make_plan, until
from training.job import Job
from training.wire.events import Entered
from tui.app import RankboardApp
from tui.panels.parts.curves import Curves
from tui.panels.parts.panel import Panel
from tui.runs import Launch
from tui.screens.run import RunScreen

ASYNC = Job(sync="parameter_server", sync_option=("mode=async", "dedicated=yes"))


class Stage:
    """A dashboard over one acted run of a job on 2 hosts."""

    def __init__(self, job: Job) -> None:
        lab = cluster(2, 1)
        self.app = RankboardApp(Launch(lab, lab, job, make_plan, self._begin, at_once=True))

    def _begin(self, plan: Plan) -> ActedSession:
        self.session = ActedSession(plan)
        return self.session

    def text(self) -> str:
        """What is on the screen."""
        return "\n".join(strip.text for strip in self.app.screen._compositor.render_strips())

    def panels(self) -> list[str]:
        """The titles in order."""
        return [panel.title for panel in self.app.screen.query(Panel)]


@pytest.mark.parametrize("size", [(80, 24), (120, 40)])
async def test_staleness_has_a_chart_of_its_own(size: tuple[int, int]) -> None:
    stage = Stage(ASYNC)
    async with stage.app.run_test(size=size) as pilot:
        await until(pilot, lambda: isinstance(stage.app.screen, RunScreen))
        number = stage.panels().index("staleness") + 1
        stage.session.start()
        stage.session.say(0, Entered(0, "serving"))
        stage.session.steps(1, 30)
        await until(pilot, lambda: stage.session.state.step == 30)
        await pilot.press(str(number))
        await until(pilot, lambda: f"{number} staleness" in stage.text())
        assert "● serving" in stage.text()
        charts = stage.app.screen.query(Curves)
        shown = [chart.region for chart in charts if chart.display]
        assert len(shown) == (len(charts) if size[0] >= 120 else 1)
        assert all(region.width >= 20 and region.height >= 6 for region in shown)
        assert len({region.y for region in shown}) == 1
        await pilot.press("7")
        assert stage.app.focused is not None
        await pilot.press("8", "9")
        stage.session.close()
        await until(pilot, lambda: not stage.app.runs.live)


async def test_other_jobs_have_none() -> None:
    for job in (Job(), Job(sync="parameter_server")):
        stage = Stage(job)
        async with stage.app.run_test(size=(120, 40)) as pilot:
            await until(pilot, lambda stage=stage: isinstance(stage.app.screen, RunScreen))
            assert "staleness" not in stage.panels()
            await pilot.press("7")
            stage.session.close()
            await until(pilot, lambda stage=stage: not stage.app.runs.live)
