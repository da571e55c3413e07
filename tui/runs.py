"""The runs of a dashboard, one after the other, and the checks of hosts beside them."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Generic, TypeVar

from remote.cluster.hosts import Cluster
from remote.plan.plan import Plan
from remote.run.state import RunState, Verdict
from training.job import Job
from tui.exit import STOPPED
from tui.view import Checks, Session

ENDING = 15.0
"""Seconds that a run has to end when its dashboard is gone."""

S = TypeVar("S", bound=Checks)


@dataclass(frozen=True)
class Launch:
    """What the command line asks for. `selected` are the hosts of `cluster` that it chose.

    `make_plan` raises PlanError where the job does not fit the hosts; `begin` OSError where the run
    cannot be recorded. `check` begins checks of the hosts. `at_once`: start without the form.
    `attached`: a run to watch first. `leavable`: a run can continue without the dashboard.
    `failure` is why --notify failed, once; else "".
    """

    cluster: Cluster
    selected: Cluster
    job: Job
    make_plan: Callable[[Cluster, Job], Plan]
    begin: Callable[[Plan], Session]
    at_once: bool = False
    runs_dir: Path = Path("runs")
    check: Callable[[Plan], Checks] | None = None
    attached: Session | None = None
    leavable: bool = True
    failure: Callable[[], str] = str


class Listener(threading.Thread, Generic[S]):
    """Iterates over the batches of a session until the last.

    A daemon, so that leaving does not wait for a host that hangs.
    """

    def __init__(self, session: S) -> None:
        super().__init__(name="listener", daemon=True)
        self.session = session
        self.error: BaseException | None = None

    def run(self) -> None:
        try:
            for _ in self.session.batches():
                pass
        except BaseException as error:  # noqa: BLE001 - `Runs.raise_errors` raises it elsewhere
            self.error = error


class Runs:
    """Begins runs and checks, and ends them. `states` are those of all runs, in order."""

    def __init__(self, launch: Launch) -> None:
        self.launch = launch
        self.states: list[RunState] = []
        self._listener: Listener[Session] | None = None
        self._checks: Listener[Checks] | None = None

    @property
    def session(self) -> Session | None:
        """The newest run."""
        return self._listener.session if self._listener else None

    @property
    def live(self) -> bool:
        """Whether the newest run has not ended."""
        return self._listener is not None and self._listener.is_alive()

    @property
    def folder(self) -> Path:
        """The folder of the newest run, or the current one where there is none."""
        folder = self.launch.runs_dir / self.session.plan.run if self.session else Path.cwd()
        return folder if folder.is_dir() else Path.cwd()

    def start(self, cluster: Cluster, job: Job) -> Session:
        """Begin a run. Raises: PlanError, OSError."""
        self.launch = replace(self.launch, selected=cluster, job=job)
        return self.watch(self.launch.begin(self.launch.make_plan(cluster, job)))

    def watch(self, session: Session) -> Session:
        """Listen to a run that has begun."""
        self._listener = Listener(session)
        self._listener.start()
        self.states.append(session.state)
        return session

    def check(self, cluster: Cluster, job: Job) -> Checks:
        """Begin checks of these hosts for this job; `launch` has a `check`. Raises: PlanError."""
        assert self.launch.check
        self._checks = Listener(self.launch.check(self.launch.make_plan(cluster, job)))
        self._checks.start()
        return self._checks.session

    def raise_errors(self) -> None:
        """Raise the error that ended a listener."""
        for listener in (self._checks, self._listener):
            if listener and listener.error:
                raise listener.error

    def stop(self, *, now: bool = False) -> None:
        """Stop the newest run."""
        if self.session:
            self.session.stop(now=now)

    def finish(self, *, stop: bool, abandon: bool) -> None:
        """End what is live, because the dashboard is gone; wait for it at most `ENDING`.

        A run that is kept is left, unless it should `stop`. `abandon`: leave it as it is.
        """
        if self._checks and self._checks.is_alive():
            self._checks.session.stop()
            self._checks.join(ENDING)
        if self._listener and self.live and not abandon:
            if self._listener.session.keep and not stop:
                self._listener.session.detach()
            self._listener.session.stop()  # no effect on a run that was left
            self._listener.join(ENDING)

    def exit_code(self, return_code: int) -> int:
        """The verdict of the newest run; 130 where the user left it before its end.

        `return_code` is the app's own, for a run that ended well and for no run at all.
        """
        if self.session is None:
            return return_code
        if self.session.detached:
            return Verdict.LOST.value if self.session.cut_off else return_code
        verdict = self.session.state.verdict
        return (verdict.value if verdict else STOPPED) or return_code
