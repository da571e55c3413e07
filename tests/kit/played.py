"""Dashboards to press random keys in: over runs, recorded runs, studies, comparisons, the form."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from remote.cluster.hosts import Host
from remote.events import SessionClosed
from remote.record import read
from remote.transport import Channel, Program, ReachProgress, Unreachable
from remote.transport.failure import Failure, FailureCause
from remote.transport.registry import Transports
from tests.kit import histories
from tests.kit.acted import ActedSession, cluster, make_plan
from tests.kit.acted_study import acted_runner
from tests.kit.dashboard import Stage
from tests.kit.recorded import recorded
from training.job import Job
from training.wire.host_events import Exited
from training.wire.rank_events import Evaluated
from tui.app.compare_app import CompareApp
from tui.app.dashboard import Dashboard
from tui.app.study_app import StudyApp
from tui.home.history import History
from tui.kit.replay import Replay


def _nothing() -> None:
    pass


@dataclass
class Played:
    """A dashboard, what has happened once it is there, what happens now and then, and its end."""

    app: Dashboard[Any]
    begin: Callable[[], None] = _nothing
    go_on: Callable[[], None] = _nothing
    end: Callable[[], None] = _nothing


def live(folder: Path, slots: int = 2) -> Played:
    """A run that trains."""
    return _acted(Stage(2, slots, folder / "runs"))


def finished(folder: Path, slots: int = 2) -> Played:
    """A run that finishes at once."""
    stage = Stage(2, slots, folder / "runs")
    return replace(_acted(stage), begin=lambda: _finish(stage))


def failed(folder: Path, slots: int = 2) -> Played:
    """A run of which a rank dies."""
    stage = Stage(2, slots, folder / "runs")

    def begin() -> None:
        _train(stage)
        stage.session.fail()

    return replace(_acted(stage), begin=begin)


def attached(folder: Path, slots: int = 2) -> Played:
    """A run that had ended before, as with `rankboard attach`."""
    stage = Stage(2, slots, folder / "runs")
    session = ActedSession(make_plan(cluster(2, slots), Job()))
    stage.app.runs.launch = replace(stage.app.runs.launch, attached=session, at_once=False)
    stage.sessions.append(session)
    _finish(stage)
    return replace(_acted(stage), begin=_nothing)


def form(folder: Path, slots: int = 2) -> Played:
    """The launch form."""
    stage = Stage(2, slots, folder / "runs")
    stage.app.runs.launch = replace(stage.app.runs.launch, at_once=False)
    return replace(_acted(stage), begin=_nothing)


class Nowhere(Transports):
    """Reaches no host: no process is left when a test ends."""

    def open(self, host: Host, program: Program, progress: ReachProgress) -> Channel:
        raise Unreachable(
            host.name, Failure(FailureCause.PYTHON, "not in this test", "write another one")
        )


def home(folder: Path, slots: int = 2) -> Played:
    """The list of three recorded runs: one finished, one failed, one left in the middle."""
    _record(folder / "runs")
    stage = Stage(2, slots, folder / "runs")
    stage.app.runs.launch = replace(
        stage.app.runs.launch,
        at_once=False,
        home=True,
    )
    stage.app._history = History(folder / "runs", None, Nowhere())
    return replace(_acted(stage), begin=_nothing)


def replayed(folder: Path, slots: int = 2) -> Played:
    """The replay of a recorded run."""
    run = _record(folder / "runs")[1]
    stage = Stage(2, slots, folder / "runs")
    session: Any = Replay(run, read.load_plan(run))
    stage.app.runs.launch = replace(stage.app.runs.launch, attached=session, at_once=False)
    return Played(stage.app, end=session.stop)


def compared(folder: Path, slots: int = 2) -> Played:
    """Three recorded runs beside each other."""
    return Played(CompareApp(_record(folder / "runs")))


def study(folder: Path, slots: int = 2) -> Played:
    """A study, of which the first run trains."""
    runner = acted_runner(folder / "runs")
    launcher: Any = runner.launcher
    begun: list[ActedSession] = []

    def go_on() -> None:
        for session in launcher.sessions[len(begun) :]:
            begun.append(session)
            session.start()
            session.steps(1, 20)

    def end() -> None:
        runner.stop("enough")
        for session in launcher.sessions:
            session.close()

    return Played(StudyApp(runner), go_on=go_on, end=end)


KINDS = (live, finished, failed, attached, form, home, replayed, compared, study)


def _acted(stage: Stage) -> Played:
    def go_on() -> None:
        if stage.sessions and stage.app.runs.live:
            first = max(rank.step for rank in stage.session.state.ranks) + 1
            stage.session.steps(first, first + 4)

    def end() -> None:
        for session in stage.sessions:
            session.close()
        for opened in stage.app.runs.sessions:
            opened.stop()

    return Played(stage.app, lambda: _train(stage), go_on, end)


def _train(stage: Stage) -> None:
    stage.session.start()
    stage.session.steps(1, 60)


def _finish(stage: Stage) -> None:
    _train(stage)
    stage.session.finish(60, 1)


def _record(runs_dir: Path) -> list[Path]:
    made = []
    for number in range(3):
        one = histories.History(
            replace(histories.plan(2), run=f"20261123-09300{number}-ddp-lenet5-000{number}")
        )
        one.training(steps=20)
        one.rank(0, Evaluated(0, 1, 20, 0.5, 0.7, 100, 1.0))
        if number == 0:
            one.done(0, 1).session(SessionClosed())
        elif number == 1:
            one.rank(1, Exited(1, -9, "SIGKILL")).session(SessionClosed())
        made.append(recorded(runs_dir, one))
    return made
