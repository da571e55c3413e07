"""`rankboard wait`: wait until a run has ended, and say how."""

from __future__ import annotations

import math
import time
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter
from cyclopts.validators import Number

from remote.host_commands.kept_plan import KeptPlan
from remote.launch import Launcher
from remote.plan.plan import PlanError
from remote.record import lock
from remote.record.layout import EVENTS
from remote.run.run_state import RunState
from tui.app import show_run as front
from tui.flags.common import RUNS, HostsFile, RunName, RunsDir
from tui.flags.recorded import open_run
from tui.kit.exit import STOPPED, TIMED_OUT, UNREACHABLE
from tui.kit.narrate import echo, narrate
from tui.run import outcome

POLL_SECONDS = 0.2
"""Seconds between two looks at whether another launcher still records the run."""


def wait(
    run: RunName,
    /,
    *,
    timeout: Annotated[
        float | None,
        Parameter(
            metavar="SECONDS",
            validator=Number(gte=0),
            help="give up after this time, with exit code 124 (default: no limit)",
        ),
    ] = None,
    hosts: HostsFile = None,
    runs_dir: RunsDir = RUNS,
) -> None:
    """Wait until a run has ended, and print its outcome in one line.

    A run that another rankboard on this machine leads is only looked at. One that was detached is
    followed as rankboard attach --run does, without its output: it is recorded here, and restarted
    if it was started so. When you leave or the time is over, the run continues.

    Examples:
      rankboard wait last && rankboard report last
      rankboard wait 20261120-0930 --timeout 3600

    Exit codes:
      0    all ranks finished
      1    a rank failed
      2    refused: the command line, or the run before its start
      3    a host could not be reached, or was lost
      124  the time of --timeout is over, and the run continues
      130  the run was stopped, or you left before its end
    """
    deadline = math.inf if timeout is None else time.monotonic() + timeout
    with open_run(run, hosts, runs_dir) as (launcher, kept_plan):
        state = _wait_for_end(launcher, kept_plan, deadline)
    if state and state.verdict:
        echo(outcome.headline(state))
        front.narrate_unconfirmed(state)
        raise SystemExit(state.verdict.value)
    if state and state.launcher.cut_off:
        narrate(f"{kept_plan.plan.run}: {outcome.verdict_line(state)}")
        raise SystemExit(UNREACHABLE)
    narrate(f"{kept_plan.plan.run} has not ended: it was left as it is")
    raise SystemExit(TIMED_OUT if time.monotonic() >= deadline else STOPPED)


def _wait_for_end(launcher: Launcher, kept_plan: KeptPlan, deadline: float) -> RunState | None:
    """Return the state of the run at its end, or when it was left; None if another launcher leads
    it at the deadline. Raises: PlanError, RunFolderError."""
    folder = launcher.runs_dir / kept_plan.plan.run
    while True:
        if not _is_released(folder, deadline):
            return None
        state = _read_end(launcher, kept_plan)
        if state:
            return state
        try:
            session = launcher.attach(kept_plan)
        except PlanError:
            if lock.launcher(folder):
                continue  # somebody else has attached to it in this moment
            raise
        front.follow_silently(session, lambda: time.monotonic() >= deadline)
        return session.state


def _is_released(folder: Path, deadline: float) -> bool:
    """Wait until no process records the run; return False if one still does at the deadline."""
    while lock.launcher(folder):
        if time.monotonic() >= deadline:
            return False
        time.sleep(POLL_SECONDS)
    return True


def _read_end(launcher: Launcher, kept_plan: KeptPlan) -> RunState | None:
    """Return the state of a run whose end is recorded here, else None. Raises: RunFolderError."""
    if not (launcher.runs_dir / kept_plan.plan.run / EVENTS).exists():
        return None
    state = launcher.read_state(kept_plan.plan)
    return state if state.verdict else None
