"""The dashboard over a session that is acted out."""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

from textual.pilot import Pilot

from remote.plan.plan import Plan
from tests.kit.acted import ActedSession, cluster, make_plan, until
from tests.kit.looks import screen_text
from tests.kit.wait import GUARD, looks
from training.job import Job
from tui.app.app import RankboardApp
from tui.charts.panel import TICKS_PER_DRAWING
from tui.kit.dialogs import Dialog
from tui.kit.open_runs import LaunchRequest
from tui.run.screen import RunScreen


class Stage:
    """A dashboard over one acted run."""

    def __init__(self, hosts: int = 2, slots: int = 2, runs_dir: Path = Path("runs")) -> None:
        self.sessions: list[ActedSession] = []
        lab = cluster(hosts, slots)
        self.app = RankboardApp(
            LaunchRequest(lab, lab, Job(), make_plan, self._begin, at_once=True, runs_dir=runs_dir)
        )
        self.app.NOTIFICATION_TIMEOUT = GUARD  # notes stay, however slow the machine is

    def _begin(self, plan: Plan) -> ActedSession:
        self.sessions.append(ActedSession(plan))
        return self.sessions[-1]

    @property
    def session(self) -> ActedSession:
        return self.sessions[-1]

    @property
    def screen(self) -> RunScreen:
        return next(screen for screen in self.app.screen_stack if isinstance(screen, RunScreen))

    def text(self) -> str:
        """What is on the screen."""
        return screen_text(self.app)

    @asynccontextmanager
    async def shown(
        self, size: tuple[int, int] = (80, 24), *, notifications: bool = False
    ) -> AsyncIterator[Pilot[None]]:
        """The dashboard in a terminal of `size`. Its run ends with it, unless it has ended; nobody
        sees that end, so it is not drawn."""
        async with self.app.run_test(size=size, notifications=notifications) as pilot:
            yield pilot
            if self.app.runs.live:
                self.session.close()
                await settled("the end of the run", lambda: not self.app.runs.live)

    @asynccontextmanager
    async def training(
        self, size: tuple[int, int] = (80, 24), *, notifications: bool = False
    ) -> AsyncIterator[Pilot[None]]:
        """The same once all ranks have trained 60 steps."""
        async with self.shown(size, notifications=notifications) as pilot:
            await self.train(pilot)
            yield pilot

    async def train(self, pilot: Pilot[None], steps: int = 60) -> None:
        self.session.start()
        self.session.steps(1, steps)
        await self.heard(pilot, steps)

    async def heard(self, pilot: Pilot[None], step: int) -> None:
        state = self.session.state
        await settled(f"step {step}", lambda: all(rank.step == step for rank in state.ranks))
        for _ in range(TICKS_PER_DRAWING):  # a chart is drawn at one of them only
            self.app.tick()
        await pilot.pause()

    async def ended(self, pilot: Pilot[None]) -> None:
        await until(pilot, lambda: not self.app.runs.live)
        self.app.tick()
        await pilot.pause()


async def settled(what: str, condition: Callable[[], bool]) -> None:
    """Let the session's thread work until the condition holds. Nothing is drawn meanwhile."""
    for _ in looks(what):
        if condition():
            return
        await asyncio.sleep(0.001)


async def asked(pilot: Pilot[None]) -> Dialog:
    """The dialog that asks, once it can be answered."""
    await until(
        pilot,
        lambda: isinstance(pilot.app.screen, Dialog) and math.isfinite(pilot.app.screen.drawn),
    )
    assert isinstance(pilot.app.screen, Dialog)
    return pilot.app.screen
