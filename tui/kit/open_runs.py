"""The runs that a dashboard has opened, and the checks of hosts beside them."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from remote.cluster.hosts import Cluster
from remote.plan.plan import Plan, Policy, Script
from remote.run.run_state import RunState
from remote.run.state.phases import Verdict
from training.job import Job
from tui.kit.exit import STOPPED
from tui.kit.replay import Replay
from tui.kit.run_session import HostChecks, RunSession

if TYPE_CHECKING:  # messages need textual, which `--run` does without
    from tui.kit.messages import RunRequest

GONE = "the dashboard is gone"
"""Why a run is stopped that ends with its dashboard."""

S = TypeVar("S", bound=HostChecks)
MakePlan = Callable[[Cluster, Job | Script, Policy], Plan]


@dataclass(frozen=True)
class RunOptions:
    """The options of the command line for which the form has no fields: `-H`, those of a lab, and
    the words of `other` flags. `cwd` is the folder of a script."""

    host: str = ""
    slots: int = 0
    link: str = ""
    cpus: str = ""
    cwd: str = ""
    other: tuple[str, ...] = ()


@dataclass(frozen=True)
class LaunchRequest:
    """What the command line asks for. `selected` are the hosts of `cluster` that it chose.

    `make_plan` raises PlanError where the work does not fit the hosts; `begin` OSError where the
    run cannot be recorded. `check` begins checks of the hosts. `at_once`: start without the form;
    `home`: begin with the list of runs. `attached`: the run to watch first. `ends`: why a run ends
    with this command, and what to do instead; "" where it need not. `failure` is why
    --notify failed, once; else "".
    `policy` is that of the command line, and `keep` what it would be without --on-disconnect.
    `link` is the rate of the hosts' slowest link in bytes per second; 0 where it is not known.
    """

    cluster: Cluster
    selected: Cluster
    work: Job | Script
    make_plan: MakePlan
    begin: Callable[[Plan], RunSession]
    at_once: bool = False
    home: bool = False
    runs_dir: Path = Path("runs")
    check: Callable[[Plan], HostChecks] | None = None
    attached: RunSession | None = None
    ends: str = ""
    failure: Callable[[], str] = str
    policy: Policy = field(default_factory=Policy)
    keep: bool = False
    options: RunOptions = RunOptions()
    link: float = 0.0


class SessionListener(threading.Thread, Generic[S]):
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


def _join(listeners: Iterable[SessionListener[Any]], within: float) -> None:
    """Wait at most so many seconds for the end of all of them."""
    # One deadline for all: a wait of its own for each would add up.
    deadline = time.monotonic() + within
    for listener in listeners:
        listener.join(max(0.0, deadline - time.monotonic()))


class OpenRuns:
    """Begins runs and checks, shows recorded runs, and ends what is live. `states` are those of all
    runs that are not replayed, in order."""

    def __init__(self, launch: LaunchRequest) -> None:
        self.launch = launch
        self.states: list[RunState] = []
        self.session: RunSession | None = None
        """The run that was shown last."""
        self._listeners: dict[RunSession, SessionListener[RunSession]] = {}
        """Those of all runs that were opened, in order."""
        self._checks: SessionListener[HostChecks] | None = None

    @property
    def sessions(self) -> list[RunSession]:
        """All runs that were opened, in order."""
        return list(self._listeners)

    @property
    def live_sessions(self) -> list[RunSession]:
        """The runs that have not ended."""
        alive_sessions = [
            session for session, listener in self._listeners.items() if listener.is_alive()
        ]
        return [session for session in alive_sessions if not isinstance(session, Replay)]

    @property
    def live(self) -> bool:
        """Whether a run has not ended."""
        return bool(self.live_sessions)

    @property
    def kept(self) -> bool:
        """Whether all that is live continues without this dashboard."""
        return self.live and all(session.keep for session in self.live_sessions)

    @property
    def folder(self) -> Path:
        """The folder of the run that was shown last, or the current one where there is none."""
        shown_folder = self.folder_of(self.session.plan.run) if self.session else None
        return shown_folder or Path.cwd()

    def folder_of(self, run: str) -> Path | None:
        """The folder of a run; None where it is not recorded here."""
        folder = self.runs_dir / run
        return folder if folder.is_dir() else None

    def opened(self, run: str) -> RunSession | None:
        """Return the session of the run, if it is live or replayed."""
        for session, listener in self._listeners.items():
            if session.plan.run == run and listener.is_alive():
                return session
        return None

    def start(self, request: RunRequest) -> RunSession:
        """Begin a run; checks of hosts end. Raises: PlanError, OSError."""
        self.end_checks()
        self.launch = replace(
            self.launch, selected=request.cluster, work=request.work, policy=request.policy
        )
        return self.watch(self.launch.begin(self._make_plan(request)))

    def watch(self, session: RunSession) -> RunSession:
        """Listen to a run that has begun, or play one."""
        self._listeners[session] = SessionListener(session)
        self._listeners[session].start()
        # A replay shows the past: it says nothing of what runs now.
        if not isinstance(session, Replay):
            self.states.append(session.state)
        return session

    def close(self, session: RunSession) -> None:
        """Stop a replay, and forget it."""
        session.stop()
        del self._listeners[session]

    @property
    def checks(self) -> HostChecks | None:
        """The checks that were begun last."""
        return self._checks.session if self._checks else None

    def _make_plan(self, request: RunRequest) -> Plan:
        return self.launch.make_plan(request.cluster, request.work, request.policy)

    def check(self, request: RunRequest) -> HostChecks:
        """Begin checks of the hosts for this run, in place of others; `launch` has a `check`.
        Raises: PlanError."""
        assert self.launch.check
        self.end_checks()
        self._checks = SessionListener(self.launch.check(self._make_plan(request)))
        self._checks.start()
        return self._checks.session

    def end_checks(self) -> None:
        """End checks that are under way; returns at once."""
        if self._checks and self._checks.is_alive():
            # Checks and a run would reach the same hosts at once.
            self._checks.session.stop("other work begins")

    @property
    def runs_dir(self) -> Path:
        """Where the runs are recorded."""
        return self.launch.runs_dir

    def raise_errors(self) -> None:
        """Raise the error that ended a listener."""
        for listener in (self._checks, *self._listeners.values()):
            if listener and listener.error:
                raise listener.error

    def stop(self, *, now: bool = False) -> None:
        """Stop all runs that are live."""
        for session in self.live_sessions:
            session.stop(now=now)

    def detach(self) -> None:
        """Leave all runs that are live, which continue."""
        for session in self.live_sessions:
            session.detach()

    def finish(self, *, stop: bool, abandon: bool, within: float) -> None:
        """End what is live, because the dashboard is gone; wait at most so many seconds for that.

        A run that is kept is left once its ranks run, unless it should `stop`; it is stopped, and
        waited for as long again, where they do not run in time. `abandon`: leave all as it is.
        """
        live_sessions = [] if abandon else self.live_sessions
        kept_sessions = [] if stop else [session for session in live_sessions if session.keep]
        waited_listeners: list[SessionListener[Any]] = [
            self._listeners[session] for session in live_sessions
        ]
        if self._checks and self._checks.is_alive():
            self._checks.session.stop()
            waited_listeners.append(self._checks)
        # All are told at once, since each takes seconds to end.
        for session in live_sessions:
            if session in kept_sessions:
                session.detach()
            else:
                session.stop(GONE)
        _join(waited_listeners, within)
        # A run whose ranks do not start would hold the terminal forever, and is not worth leaving.
        late_sessions = [
            session for session in kept_sessions if self._listeners[session].is_alive()
        ]
        for session in late_sessions:
            session.stop(GONE)
        _join([self._listeners[session] for session in late_sessions], within)

    def exit_code(self, return_code: int) -> int:
        """The verdict of the newest run; 130 where the user left it before its end. A replay says
        nothing.

        `return_code` is the app's own, for a run that ended well and for no run at all.
        """
        real_sessions = [session for session in self.sessions if not isinstance(session, Replay)]
        if not real_sessions:
            return return_code
        newest_session = real_sessions[-1]
        if newest_session.detached:
            return Verdict.LOST.value if newest_session.cut_off else return_code
        verdict = newest_session.state.verdict
        return (verdict.value if verdict else STOPPED) or return_code
