"""The runs of a dashboard, one after the other, and the checks of hosts beside them."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Generic, TypeVar

from remote.cluster.hosts import Cluster
from remote.plan.plan import Plan, Policy
from remote.run.state import RunState, Verdict
from training.job import Job
from tui.exit import STOPPED
from tui.view import Checks, Session

ENDING = 15.0
"""Seconds that a run has to end when its dashboard is gone."""

S = TypeVar("S", bound=Checks)
MakePlan = Callable[[Cluster, Job, Policy], Plan]


@dataclass(frozen=True)
class Place:
    """What a command line said of where to run, beside the choice of hosts: the options of a lab,
    uploads, and the folder of the runs where it is not the usual one."""

    slots: int = 0
    link: str = ""
    cpus: str = ""
    upload: tuple[str, ...] = ()
    runs_dir: str = ""


@dataclass(frozen=True)
class Launch:
    """What the command line asks for. `selected` are the hosts of `cluster` that it chose.

    `make_plan` raises PlanError where the job does not fit the hosts; `begin` OSError where the run
    cannot be recorded. `check` begins checks of the hosts. `at_once`: start without the form.
    `attached`: a run to watch first. `leavable`: a run can continue without the dashboard.
    `failure` is why --notify failed, once; else "".
    `policy` is that of the command line, and `keep` what it would be without --on-disconnect.
    `link` is the rate of the hosts' slowest link in bytes per second; 0 where it is not known.
    """

    cluster: Cluster
    selected: Cluster
    job: Job
    make_plan: MakePlan
    begin: Callable[[Plan], Session]
    at_once: bool = False
    runs_dir: Path = Path("runs")
    check: Callable[[Plan], Checks] | None = None
    attached: Session | None = None
    leavable: bool = True
    failure: Callable[[], str] = str
    policy: Policy = field(default_factory=Policy)
    keep: bool = False
    place: Place = Place()
    link: float = 0.0


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

    def start(self, cluster: Cluster, job: Job, policy: Policy) -> Session:
        """Begin a run; checks of hosts end. Raises: PlanError, OSError."""
        self.end_checks()
        self.launch = replace(self.launch, selected=cluster, job=job, policy=policy)
        return self.watch(self.launch.begin(self.launch.make_plan(cluster, job, policy)))

    def watch(self, session: Session) -> Session:
        """Listen to a run that has begun."""
        self._listener = Listener(session)
        self._listener.start()
        self.states.append(session.state)
        return session

    @property
    def checks(self) -> Checks | None:
        """The checks that were begun last."""
        return self._checks.session if self._checks else None

    def check(self, cluster: Cluster, job: Job, policy: Policy) -> Checks:
        """Begin checks of these hosts for this job, in place of others; `launch` has a `check`.
        Raises: PlanError."""
        assert self.launch.check
        self.end_checks()
        self._checks = Listener(self.launch.check(self.launch.make_plan(cluster, job, policy)))
        self._checks.start()
        return self._checks.session

    def end_checks(self) -> None:
        """End checks that are under way; returns at once."""
        if self._checks and self._checks.is_alive():
            self._checks.session.stop("other work begins")

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
