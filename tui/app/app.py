"""The dashboard of runs: the list of all runs, the launch form, and the runs that are opened."""

from __future__ import annotations

import shlex
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from textual.app import SuspendNotSupported

from remote.plan.plan import PlanError, with_setting
from remote.record import marks
from remote.record.alike import find_last_start, find_previous
from training.job import Job
from tui.app.dashboard import Dashboard
from tui.app.file_saving import find_shown_session
from tui.kit.background import run_in_background
from tui.kit.bindings import key_of
from tui.kit.dialogs import Leave, QuitDialog
from tui.kit.exit import FAILED, MISTAKES, STOPPED
from tui.kit.messages import (
    CheckHosts,
    NewRun,
    OpenRun,
    OpenStudy,
    OtherRun,
    RepeatRun,
    RepeatStudy,
    ResumeRun,
    RetryStudy,
    RunRequest,
    ShowCell,
    ShowChecks,
    StartRun,
)
from tui.kit.open_runs import LaunchRequest, OpenRuns
from tui.kit.replay import Replay
from tui.kit.run_session import HostChecks, RunSession

if TYPE_CHECKING:  # each screen is loaded when it is first shown: what it draws with takes a while
    from tui.home.history import History
    from tui.launch.screen import LaunchScreen
    from tui.run.screen import RunScreen


RUN_MAIN = "from tui import main; main()"
MOST_REPLAYS = 8
"""Replays that stay open; each holds its run in memory. Beyond, those opened first are closed."""


def run_command(words: Sequence[str]) -> int:
    """Run rankboard with these words in this terminal; return its exit code."""
    return subprocess.run([sys.executable, "-P", "-c", RUN_MAIN, *words], check=False).returncode


class RankboardApp(Dashboard[OpenRuns]):
    """The list of all runs, the launch form, and the runs that are opened.

    After `run`, `exit_code` is the verdict of the newest run.
    """

    def __init__(self, launch: LaunchRequest, history: History | None = None) -> None:
        """`history` has all runs that are recorded; without it, there is no list of runs."""
        super().__init__(OpenRuns(launch))
        self._history = history
        self.opens_runs = history is not None
        self._last_check: RunRequest | None = None
        self._opening: set[str] = set()
        """The names of the runs that are being read."""
        self._run_screens: dict[RunSession, RunScreen] = {}
        self._is_detaching = False

    def open(self) -> None:
        launch = self.runs.launch
        if launch.attached:
            self._show_run(self.runs.watch(launch.attached))
        elif launch.at_once:
            self._start(RunRequest(launch.selected, launch.work, launch.policy))
        elif launch.home:
            self._show_home()
        else:
            self._show_form()

    # Screens

    def _show_home(self) -> None:
        from tui.home.screen import HomeScreen

        assert self._history  # all that follows is asked by its screen
        self.push_screen(HomeScreen(self._history))

    def _show_form(self, error: str = "", field: str = "", **changes: Any) -> None:
        """Show the form of the command line's job, with other fields of `LaunchRequest`. `field`:
        where the cursor begins."""
        from tui.launch.screen import LaunchScreen

        launch = replace(self.runs.launch, **changes)
        self.push_screen(LaunchScreen(launch, error, self.runs.checks, field))

    def _show_run(self, session: RunSession) -> None:
        self.runs.session = session
        screen = self._find_screen(session)
        if screen not in self.screen_stack:
            self.push_screen(screen)
        # A comparison of the run may have led back to it.
        while self.screen is not screen:
            self.pop_screen()

    def _find_screen(self, session: RunSession) -> RunScreen:
        """Return the screen of a run, which is as it was left."""
        from tui.run.screen import RunScreen

        if session not in self._run_screens:
            run_name = session.plan.run
            screen = RunScreen(
                session,
                home=self._history is not None,
                called=partial(marks.name, self.runs.runs_dir / run_name),
                find_previous=partial(find_previous, self.runs.runs_dir, run_name),
                find_last_start=partial(find_last_start, self.runs.runs_dir, session.plan),
            )
            # Textual removes a screen that is left, unless it is installed, under its own name.
            self.install_screen(screen, f"{run_name} {id(screen)}")
            self._run_screens[session] = screen
        return self._run_screens[session]

    def _start(self, request: RunRequest) -> None:
        """Begin a run, or show in the form why that is not possible."""
        try:
            session = self.runs.start(request)
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
        if self.runs.session not in sessions or len(sessions) < 2:
            self.notify(f"no other run is open: {key_of(self, 'home')} lists all runs")
            return
        number = sessions.index(self.runs.session) + message.step
        self.runs.session = sessions[number % len(sessions)]
        self.switch_screen(self._find_screen(self.runs.session))

    # The list of runs

    def on_open_run(self, message: OpenRun) -> None:
        name = message.name
        session = self.runs.opened(name)
        if session:
            self._show_run(session)
        elif self._history and name not in self._opening:  # keys may come twice
            self._opening.add(name)
            run_in_background(
                self,
                partial(self._history.open, name),
                partial(self._take_opened, name, (self.screen, self.focused)),
                partial(self._report_unopened, name),
            )
            self.notify(f"opening {name}", timeout=2, markup=False)

    def _take_opened(self, name: str, place: tuple[object, object], session: RunSession) -> None:
        """Show a run that was opened, unless the user is elsewhere by now and may be typing."""
        self._opening.discard(name)
        self.runs.watch(session)
        if (self.screen, self.focused) == place:
            self._show_run(session)
        else:
            key = key_of(self, "next-run")
            text = f"{name} is open: {key} in a run, or the list of runs, shows it"
            self.notify(text, markup=False)
        self._close_replays()

    def _report_unopened(self, name: str, error: Exception) -> None:
        self._opening.discard(name)
        if not isinstance(error, (*MISTAKES, OSError)):
            raise error
        self.notify(f"{name}: {error}", severity="error", timeout=10, markup=False)

    def on_resume_run(self, message: ResumeRun) -> None:
        from tui.home.history import History

        # Without a list of runs, a run that was opened alone can go on, too.
        history = self._history or History(self.runs.runs_dir, None)
        with self._reporting():
            cluster, selected, job = history.resumed(message.name)
            self._show_form(cluster=cluster, selected=selected, work=job)

    def on_repeat_run(self, message: RepeatRun) -> None:
        assert self._history
        with self._reporting():
            cluster, selected, work = self._history.repeated(message.name, message.seed)
            self._show_form(cluster=cluster, selected=selected, work=work)

    def on_open_study(self, message: OpenStudy) -> None:
        from tui.study.study_screen import StudyScreen

        assert self._history
        with self._reporting():
            self.push_screen(StudyScreen(self._history.study(message.name)))

    def on_retry_study(self, message: RetryStudy) -> None:
        from tui.study.longer_study import list_study_words

        self._run_study(message.name, list_study_words(message.name, self.runs.runs_dir))

    def on_repeat_study(self, message: RepeatStudy) -> None:
        self._run_study(message.name, message.words)

    def _run_study(self, name: str, words: Sequence[str]) -> None:
        """Make runs of a recorded study in a dashboard of its own: it has the terminal until the
        user leaves it. Elsewhere than in a terminal, copy the command."""
        from tui.study.study_screen import StudyScreen

        command = shlex.join(["rankboard", *words])
        try:
            with self.suspend():
                code = run_command(words)
        except SuspendNotSupported:
            self.copy_to_clipboard(command)
            self.notify(f"copied: {command}", markup=False)
            return
        # The terminal shows what the other dashboard has left there.
        self._written.forget()
        self.refresh(layout=True)
        if code not in (0, FAILED, STOPPED):
            self.notify(f"it did not start: {command} says why", severity="error", markup=False)
        if isinstance(self.screen, StudyScreen):
            self.pop_screen()
            self.post_message(OpenStudy(name))

    @contextmanager
    def _reporting(self) -> Iterator[None]:
        """Say which mistake keeps something from being shown."""
        try:
            yield
        except (*MISTAKES, OSError) as error:
            self.notify(str(error), severity="error", markup=False)

    def on_show_cell(self, message: ShowCell) -> None:
        from tui.study.cell_screen import CellScreen
        from tui.study.study_screen import StudyScreen

        if isinstance(self.screen, StudyScreen):
            self.push_screen(CellScreen(self.screen.runner, message.key))

    def _close_replays(self) -> None:
        """Close the replays that are too many, but for those on the stack of screens."""
        replays = [session for session in self.runs.sessions if isinstance(session, Replay)]
        for session in replays[:-MOST_REPLAYS]:
            screen = self._run_screens.get(session)
            if screen in self.screen_stack:
                continue
            if screen:
                del self._run_screens[session]
                self.uninstall_screen(screen)
                screen.remove()
            self.runs.close(session)

    # The form

    def tick(self) -> None:
        """Draw what has changed; also, once, that --notify failed after the end of the run."""
        super().tick()
        failure = "" if self.runs.live else self.runs.launch.failure()
        if failure:
            self.notify(failure, severity="error", markup=False)

    def on_start_run(self, message: StartRun) -> None:
        self.pop_screen()
        if find_shown_session(self):  # the form was opened over a run, which makes room
            self.pop_screen()
        self._start(message.request)

    def on_check_hosts(self, message: CheckHosts) -> None:
        from tui.launch.screen import LaunchScreen

        if self.runs.launch.check and not self._exiting and isinstance(self.screen, LaunchScreen):
            self._check(self.screen, message.request)

    def _check(self, form: LaunchScreen, request: RunRequest) -> HostChecks:
        """Begin checks in the background, and show in the form what they find."""
        self._last_check = request
        checks = self.runs.check(request)
        form.follow(checks)
        return checks

    def on_show_checks(self, message: ShowChecks) -> None:
        """Show the checks of the form; those of a run are shown as in every dashboard."""
        from tui.doctor.run_facts import describe_run
        from tui.doctor.screen import DoctorScreen
        from tui.launch.screen import LaunchScreen

        if isinstance(self.screen, LaunchScreen):
            # Textual would call the handler of the base class as well.
            message.prevent_default()
            if self.runs.checks and self._last_check:
                check_again = partial(self._check, self.screen, self._last_check)
                describe = partial(describe_run, link=self.runs.launch.link)
                screen = DoctorScreen(self.runs.checks, check_again, describe)
                self.push_screen(screen, self.screen.take_doctor_answer)

    def on_new_run(self, message: NewRun) -> None:
        session = find_shown_session(self)
        if session is None:
            self._show_form()
            return
        work = session.plan.work
        if isinstance(work, Job):
            work = replace(work, resume="")
            if message.value is not None:
                work = with_setting(work, message.field, message.value)
        self._show_form(work=work, field=message.field)

    # Leaving

    @property
    def is_left(self) -> bool:
        """Return True if the user has left all runs, or the only one has detached itself."""
        sessions = self.runs.sessions
        is_alone = len(sessions) == 1 and not self.runs.launch.home
        return super().is_left or self._is_detaching or (is_alone and sessions[0].detached)

    def make_quit_dialog(self) -> QuitDialog:
        live = self.runs.live_sessions
        is_shown_live = self.runs.session in live
        return QuitDialog(
            keep=self.runs.kept,
            ends=self.runs.launch.ends,
            waits=any(session.plan.policy.max_restarts for session in live),
            others=len(live) - is_shown_live,
            this=is_shown_live,
            name=live[0].plan.run if len(live) == 1 else "RUN",
        )

    def take_answer(self, answer: Leave | None) -> None:
        if answer is Leave.DETACH:
            self._is_detaching = True
            self.runs.detach()
            self.notify("detaching, once all ranks have started")
        elif answer is Leave.STOP and self.runs.session:
            self.runs.session.stop()
        else:
            super().take_answer(answer)
