"""`rankboard stop`: end a run, through its launcher if one runs on this machine."""

from __future__ import annotations

import signal
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from remote.host_commands.kept_plan import KeptPlan
from remote.launch import Launcher
from remote.plan.plan import Plan
from remote.record import lock
from remote.run.run_state import RunState
from remote.run.state.phases import Verdict
from remote.session.session import Session
from tui.app import show_run as front
from tui.app.show_run import LineOptions
from tui.flags.common import RUNS, HostsFile, RunName, RunsDir
from tui.flags.recorded import open_run
from tui.kit.exit import STOPPED, UNREACHABLE
from tui.kit.narrate import narrate
from tui.run import outcome
from tui.run.json_printer import SUMMARY, JsonPrinter

STOP_TIMEOUT = 15.0
"""Seconds that a launcher has to stop its run."""
POLL_SECONDS = 0.1
"""Seconds between two looks at whether it has."""


def stop(
    run: RunName,
    /,
    *,
    now: Annotated[bool, Parameter(help="kill the ranks at once, without a grace period")] = False,
    hosts: HostsFile = None,
    json: Annotated[
        bool, Parameter(help="print the summary of the run as one JSON object")
    ] = False,
    runs_dir: RunsDir = RUNS,
) -> None:
    """Stop a run on all its hosts and show its result.

    The exit code is 0 once the run is stopped, also if it had already ended. It is 3 as long as a
    host that may still have ranks has not confirmed its end.

    Examples:
      rankboard stop last
      rankboard stop --now 20261120-0930
    """
    with open_run(run, hosts, runs_dir, ends=True) as (launcher, kept_plan):
        # A launcher that lives records the end itself; two would write into one record.
        stopped_run = _stop_through_launcher(launcher, kept_plan.plan, now)
        if stopped_run is None:
            session = launcher.attach(kept_plan)
            if session.has_ended:
                _close(session)
                if json:
                    _print_summary(launcher, session.state)
                raise SystemExit
            options = LineOptions(json, quiet=True, kinds=(SUMMARY,))
            stopped_run = _stop(launcher, session, now, options)
        elif json:
            _print_summary(launcher, stopped_run.state)
        stopped_runs = [stopped_run]
        stopped_runs += [_stop_by(launcher, plan, now, json) for plan in kept_plan.others]
        exit_code = _judge(stopped_runs, is_foreign=kept_plan.foreign)
    raise SystemExit(exit_code)


@dataclass(frozen=True)
class _StoppedRun:
    """A run after it was stopped."""

    state: RunState
    code: int
    """The exit code of the launcher that stopped it."""


def _stop(launcher: Launcher, session: Session, now: bool, options: LineOptions) -> _StoppedRun:
    session.stop(now=now)
    exit_code = front.watch(launcher, session, options)
    return _StoppedRun(session.state, exit_code)


def _print_summary(launcher: Launcher, state: RunState) -> None:
    """Print the summary of a run as JSON, as `LineOptions` with it do."""
    folder = launcher.runs_dir / state.plan.run
    JsonPrinter(sys.stdout, sys.stderr, folder=folder, kinds=(SUMMARY,)).summarize(state)


def _stop_by(launcher: Launcher, plan: Plan, now: bool, json: bool) -> _StoppedRun:
    """Stop a run by the plan of a single host. No record is kept: the run is recorded by the plan
    that most hosts have."""
    narrate(f"stopping {plan.run} also by the other plan")
    with tempfile.TemporaryDirectory(prefix="rankboard-") as folder:
        other_launcher = replace(launcher, runs_dir=Path(folder))
        session = other_launcher.attach(KeptPlan(plan, {}, foreign=True))
        # JSON is one object, the summary by the plan of the record.
        options = LineOptions(json, quiet=True, is_kept=False, kinds=())
        return _stop(other_launcher, session, now, options)


def _judge(ends: Sequence[_StoppedRun], *, is_foreign: bool) -> int:
    """Return the exit code, and say what to do about hosts that may still have ranks.

    Of a run that is not recorded here, each host that has not confirmed its end may have some.
    """
    # A host may be in several plans of the run; it has to confirm its end once.
    confirmed_names = {
        host.name for stopped_run in ends for host in stopped_run.state.hosts if host.ended
    }
    unconfirmed_names: dict[str, None] = {}
    for stopped_run in ends:
        is_silent = is_foreign and stopped_run.state.verdict is Verdict.STOPPED
        hosts = stopped_run.state.hosts if is_silent else stopped_run.state.unconfirmed
        unconfirmed_names |= dict.fromkeys(
            host.name for host in hosts if host.name not in confirmed_names
        )
    narrate(*outcome.advise_stop(ends[0].state.plan.run, list(unconfirmed_names)))
    if unconfirmed_names:
        return UNREACHABLE
    # That a run was stopped is what the user asked for, and no failure.
    return max(0 if stopped_run.code == STOPPED else stopped_run.code for stopped_run in ends)


def _close(session: Session) -> None:
    """Close the session of a run that has already ended, and say so."""
    for _ in session.batches():  # no records come, but the session ends
        continue
    verdict = session.state.verdict
    verdict_text = verdict.word if verdict else "its verdict is not known"
    narrate(f"{session.plan.run} had already ended: {verdict_text}")


def _stop_through_launcher(launcher: Launcher, plan: Plan, now: bool) -> _StoppedRun | None:
    """Ask the launcher on this machine that records the run to stop it.

    Returns None if there is no such process, or it ended before the run did. Raises: PlanError;
    SystemExit, if the process does not respond.
    """
    folder = launcher.runs_dir / plan.run
    # Not SIGTERM, which a launcher also gets at a shutdown, and which a kept run survives.
    launcher_process = lock.notify(folder, signal.SIGQUIT if now else lock.STOP)
    if launcher_process is None:
        return None
    narrate(f"asked the launcher of {plan.run}, {launcher_process}, to stop it")
    if not _is_released(folder):
        narrate(
            f"the launcher does not respond: end it with kill -9 {launcher_process.pid}, then "
            f"repeat rankboard stop {plan.run}"
        )
        raise SystemExit(UNREACHABLE)
    state = launcher.read_state(plan)
    # The launcher went without an end, as after kill -9: the hosts have to be told.
    if not state.verdict:
        return None
    front.print_end(state)
    return _StoppedRun(state, state.verdict.value)


def _is_released(folder: Path) -> bool:
    """Wait until no process records the run; return False if one still does at the deadline."""
    stop_deadline = time.monotonic() + STOP_TIMEOUT
    while lock.launcher(folder):
        if time.monotonic() > stop_deadline:
            return False
        time.sleep(POLL_SECONDS)
    return True
