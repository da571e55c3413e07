"""The dashboard of runs: the list of all runs, the launch form, and the runs that are opened."""

from __future__ import annotations

import shlex
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from remote.cluster.hosts import Cluster
from remote.plan.plan import PlanError, Policy, Script
from remote.record import marks
from remote.record.find import find
from training.job import Job
from tui.app.dashboard import Dashboard
from tui.kit.background import run_in_background
from tui.kit.bindings import key_of
from tui.kit.dialogs import Leave, QuitDialog
from tui.kit.exit import MISTAKES
from tui.kit.messages import (
    CheckHosts,
    OpenRun,
    OpenStudy,
    OtherRun,
    ResumeRun,
    ShowCell,
    ShowChecks,
    StartRun,
)
from tui.kit.replay import Replay
from tui.kit.run_session import HostChecks, RunSession
from tui.kit.runs import Launch, Runs

if TYPE_CHECKING:  # each screen is loaded when it is first shown: what it draws with takes a while
    from tui.launch.screen import LaunchScreen
    from tui.run.screen import RunScreen


REPLAYS = 8
"""Replays that stay open; each holds its run in memory. Beyond, those opened first are closed."""


class RankboardApp(Dashboard[Runs]):
    """After `run`, `exit_code` is the verdict of the newest run."""

    def __init__(self, launch: Launch) -> None:
        super().__init__(Runs(launch))
        self._asked: CheckHosts | None = None
        self._opening: set[str] = set()
        self._run_screens: dict[int, RunScreen] = {}
        self._detaching = False

    def open(self) -> None:
        launch = self.runs.launch
        if launch.attached:
            self._show_run(self.runs.watch(launch.attached))
        elif launch.at_once:
            self._start(launch.selected, launch.work, launch.policy)
        elif launch.home:
            self._show_home()
        else:
            self._show_form()

    # Screens

    def _show_home(self) -> None:
        from tui.home.screen import HomeScreen

        self.push_screen(HomeScreen(self.runs.launch.history))

    def _show_form(self, error: str = "", **filled: Any) -> None:
        """Show the form of the command line's job, with other fields of `Launch`."""
        from tui.launch.screen import LaunchScreen

        launch = replace(self.runs.launch, **filled)
        self.push_screen(LaunchScreen(launch, error, self.runs.checks))

    def _show_run(self, session: RunSession) -> None:
        self.runs.session = session
        self.push_screen(self._screen_of(session))

    def _screen_of(self, session: RunSession) -> RunScreen:
        """The screen of a run, which is as it was left."""
        from tui.run.screen import RunScreen

        if id(session) not in self._run_screens:
            called = partial(marks.name, self.runs.runs_dir / session.plan.run)
            home = self.runs.launch.history is not None
            screen = RunScreen(session, home=home, called=called)
            self.install_screen(screen, f"run {id(session)}")
            self._run_screens[id(session)] = screen
        return self._run_screens[id(session)]

    def _start(self, cluster: Cluster, work: Job | Script, policy: Policy) -> None:
        """Begin a run, or show in the form why that is not possible."""
        try:
            session = self.runs.start(cluster, work, policy)
        except (PlanError, OSError) as error:
            self._show_form(str(error))
        else:
            self._show_run(session)

    def on_go_home(self) -> None:
        from tui.home.screen import HomeScreen

        if not any(isinstance(screen, HomeScreen) for screen in self.screen_stack):
            self.pop_screen()
            self._show_home()
        while not isinstance(self.screen, HomeScreen):
            self.pop_screen()

    def on_other_run(self, message: OtherRun) -> None:
        sessions = self.runs.sessions
        if self.runs.session in sessions and len(sessions) > 1:
            here = sessions.index(self.runs.session)
            self.runs.session = sessions[(here + message.step) % len(sessions)]
            self.switch_screen(self._screen_of(self.runs.session))
        else:
            self.notify(f"no other run is open: {key_of(self, 'home')} lists all runs")

    # The list of runs

    def on_open_run(self, message: OpenRun) -> None:
        name = message.name
        session = self.runs.opened(name)
        if session:
            self._show_run(session)
        elif name not in self._opening:  # keys may come twice
            self._opening.add(name)
            found = partial(self._take, name, (self.screen, self.focused))
            history = self.runs.launch.history
            run_in_background(self, partial(history.open, name), found, partial(self._miss, name))
            self.notify(f"opening {name}", timeout=2, markup=False)

    def _take(self, name: str, at: tuple[object, object], session: RunSession) -> None:
        """Show a run that was opened, unless the user is elsewhere by now and may be typing."""
        self._opening.discard(name)
        self.runs.watch(session)
        if (self.screen, self.focused) == at:
            self._show_run(session)
        else:
            key = key_of(self, "next-run")
            self.notify(
                f"{name} is open: {key} in a run, or the list of runs, shows it", markup=False
            )
        self._close_replays()

    def _miss(self, name: str, error: Exception) -> None:
        self._opening.discard(name)
        if not isinstance(error, (*MISTAKES, OSError)):
            raise error
        self.notify(f"{name}: {error}", severity="error", timeout=10, markup=False)

    def on_resume_run(self, message: ResumeRun) -> None:
        try:
            cluster, selected, job = self.runs.launch.history.resumed(message.name)
        except (*MISTAKES, OSError) as error:
            self.notify(str(error), severity="error", markup=False)
            return
        self._show_form(cluster=cluster, selected=selected, work=job)

    def on_open_study(self, message: OpenStudy) -> None:
        from tui.study.screen import StudyScreen

        try:
            study = self.runs.launch.history.study(message.name)
        except (*MISTAKES, OSError) as error:
            self.notify(str(error), severity="error", markup=False)
        else:
            self.push_screen(StudyScreen(study))

    def on_show_cell(self, message: ShowCell) -> None:
        from tui.study.cell_screen import CellScreen
        from tui.study.screen import StudyScreen

        if isinstance(self.screen, StudyScreen):
            self.push_screen(CellScreen(self.screen.runner, message.key))

    def _close_replays(self) -> None:
        """Close the replays that are too many, but for those on the stack of screens."""
        replays = [one for one in self.runs.sessions if isinstance(one, Replay)]
        for session in replays[:-REPLAYS]:
            screen = self._run_screens.get(id(session))
            if screen in self.screen_stack:
                continue
            if screen:
                del self._run_screens[id(session)]
                self.uninstall_screen(screen)
                screen.remove()
            self.runs.close(session)

    # The form

    def tick(self) -> None:
        """Draw what has changed; also, once, that --notify failed after the end of the run."""
        super().tick()
        if not self.runs.live and (failure := self.runs.launch.failure()):
            self.notify(failure, severity="error", markup=False)

    def on_start_run(self, message: StartRun) -> None:
        self.pop_screen()
        self._start(message.cluster, message.work, message.policy)

    def on_check_hosts(self, message: CheckHosts) -> None:
        from tui.launch.screen import LaunchScreen

        if self.runs.launch.check and not self._exiting and isinstance(self.screen, LaunchScreen):
            self._check(self.screen, message)

    def _check(self, form: LaunchScreen, asked: CheckHosts) -> HostChecks:
        """Begin checks in the background, and show in the form what they find."""
        self._asked = asked
        checks = self.runs.check(asked.cluster, asked.work, asked.policy)
        form.follow(checks)
        return checks

    def on_show_checks(self, message: ShowChecks) -> None:
        """Show the checks of the form; those of a run are shown as in every dashboard."""
        from tui.doctor.screen import DoctorScreen
        from tui.launch.screen import LaunchScreen

        if isinstance(self.screen, LaunchScreen):
            message.prevent_default()
            if self.runs.checks and self._asked:
                again = partial(self._check, self.screen, self._asked)
                self.push_screen(DoctorScreen(self.runs.checks, again))

    def on_new_run(self) -> None:
        filled: dict[str, Any] = {}
        session = self.shown
        if session:
            work = session.plan.work
            filled["work"] = replace(work, resume="") if isinstance(work, Job) else work
            self.pop_screen()
        self._show_form(**filled)

    # Leaving

    @property
    def is_left(self) -> bool:
        """Whether the user has left all runs, or the only one has detached itself."""
        sessions = self.runs.sessions
        alone = len(sessions) == 1 and not self.runs.launch.home
        return super().is_left or self._detaching or (alone and sessions[0].detached)

    def question(self) -> QuitDialog:
        live = self.runs.live_sessions
        this = self.runs.session in live
        return QuitDialog(
            keep=self.runs.kept,
            ends=self.runs.launch.ends,
            waits=any(one.plan.policy.max_restarts for one in live),
            others=len(live) - this,
            this=this,
            name=self._called(live[0].plan.run) if len(live) == 1 else "RUN",
        )

    def _called(self, run: str) -> str:
        """What a command takes for the run: the name that a person gave it, unless others have it,
        too."""
        folder = self.runs.runs_dir / run
        name = marks.name(folder)
        with suppress(PlanError):
            return shlex.quote(name) if name and find(name, folder.parent) == folder else run
        return run

    def answered(self, answer: Leave | None) -> None:
        if answer is Leave.DETACH:
            self._detaching = True
            self.runs.detach()
            self.notify("detaching, once all ranks have started")
        elif answer is Leave.STOP and self.runs.session:
            self.runs.session.stop()
        else:
            super().answered(answer)
