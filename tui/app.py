"""The dashboard of single runs: the launch form, then one run after the other."""

from __future__ import annotations

from functools import partial

from remote.cluster.hosts import Cluster
from remote.plan.plan import PlanError, Policy
from training.job import Job
from tui.dashboard import Dashboard
from tui.messages import CheckHosts, StartRun
from tui.runs import Launch, Runs
from tui.screens.dialogs import Leave, QuitDialog
from tui.screens.doctor import DoctorScreen
from tui.screens.launch import LaunchScreen
from tui.screens.run import RunScreen
from tui.view import Checks


class RankboardApp(Dashboard[Runs]):
    """After `run`, `exit_code` is the verdict of the newest run."""

    def __init__(self, launch: Launch) -> None:
        super().__init__(Runs(launch))
        self._asked: CheckHosts | None = None

    def open(self) -> None:
        launch = self.runs.launch
        if launch.attached:
            self.push_screen(RunScreen(self.runs.watch(launch.attached)))
        elif launch.at_once:
            self._start(launch.selected, launch.job, launch.policy)
        else:
            self._show_form()

    def _show_form(self, error: str = "") -> None:
        self.push_screen(LaunchScreen(self.runs.launch, error, self.runs.checks))

    def _start(self, cluster: Cluster, job: Job, policy: Policy) -> None:
        """Begin a run, or show in the form why that is not possible."""
        try:
            session = self.runs.start(cluster, job, policy)
        except (PlanError, OSError) as error:
            self._show_form(str(error))
        else:
            self.push_screen(RunScreen(session))

    @property
    def is_left(self) -> bool:
        """Whether the user has left the run, or it has detached itself."""
        return super().is_left or bool(self.runs.session and self.runs.session.detached)

    def tick(self) -> None:
        """Draw what has changed; also, once, that --notify failed after the end of the run."""
        super().tick()
        if not self.runs.live and (failure := self.runs.launch.failure()):
            self.notify(failure, severity="error", markup=False)

    def on_start_run(self, message: StartRun) -> None:
        if self._is_idle():
            self.pop_screen()
            self._start(message.cluster, message.job, message.policy)

    def on_check_hosts(self, message: CheckHosts) -> None:
        if self.runs.launch.check and self._is_idle() and isinstance(self.screen, LaunchScreen):
            self._check(self.screen, message)

    def _check(self, form: LaunchScreen, asked: CheckHosts) -> Checks:
        """Begin checks in the background, and show in the form what they find."""
        self._asked = asked
        checks = self.runs.check(asked.cluster, asked.job, asked.policy)
        form.follow(checks)
        return checks

    def on_show_checks(self) -> None:
        if not isinstance(self.screen, LaunchScreen):
            super().on_show_checks()
        elif self.runs.checks and self._asked and not self._exiting:
            again = partial(self._check, self.screen, self._asked)
            self.push_screen(DoctorScreen(self.runs.checks, again))

    def on_new_run(self) -> None:
        if self._is_idle():
            self.pop_screen()
            self._show_form()

    def _is_idle(self) -> bool:
        """Whether another run may begin."""
        return not self.runs.live and not self._exiting

    def question(self) -> QuitDialog:
        session = self.runs.session
        assert session
        waits = bool(session.plan.policy.max_restarts)
        return QuitDialog(keep=session.keep, leavable=self.runs.launch.leavable, waits=waits)

    def answered(self, answer: Leave | None) -> None:
        if answer is Leave.DETACH and self.runs.session:
            self.runs.session.detach()
            self.notify("detaching from the run, once all ranks have started")
        else:
            super().answered(answer)
