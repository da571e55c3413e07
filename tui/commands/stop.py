"""`rankboard stop`: end a run, through its launcher where one runs on this machine."""

from __future__ import annotations

import signal
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from remote.errands.kept_plan import KeptPlan
from remote.format import listed
from remote.launch import Launcher
from remote.plan.plan import Plan
from remote.record import lock
from remote.run.state import RunState
from remote.session.session import Session
from tui import front
from tui.exit import STOPPED, UNREACHABLE
from tui.flags.common import RUNS, HostsFile, Run, RunsDir
from tui.flags.recorded import open_run
from tui.front import Lines
from tui.narrate import narrate

OBEYING, LOOK = 15.0, 0.1
"""Seconds that a launcher has to stop its run, and between two looks at whether it has."""


def stop(
    run: Run,
    now: Annotated[
        bool, typer.Option("--now", help="kill the ranks at once, without a grace period")
    ] = False,
    hosts: HostsFile = None,
    runs_dir: RunsDir = RUNS,
) -> None:
    """Stop a run on all its hosts and show its result.

    The exit code is 0 once the run is stopped, also if it had already ended. It is 3 as long as a
    host that may still have ranks has not confirmed its end.

    Examples:
      rankboard stop last
      rankboard stop --now 20261120-0930
    """
    with open_run(run, hosts, runs_dir, ends=True) as (launcher, kept):
        code = _stop_through_launcher(launcher, kept.plan, now)
        if code is None:
            session = launcher.attach(kept)
            code = _close(session) if session.has_ended else _stop(launcher, session, now)
        codes = [code, *(_stop_by(launcher, plan, now) for plan in kept.others)]
    raise typer.Exit(max(codes))


def _stop(launcher: Launcher, session: Session, now: bool, *, is_kept: bool = True) -> int:
    session.stop(now=now)
    code = front.watch(launcher, session, Lines(quiet=True, is_kept=is_kept))
    return _judge(session.state, code)


def _stop_by(launcher: Launcher, plan: Plan, now: bool) -> int:
    """Stop a run by the plan of a single host. Its record is not kept: that of the run is by the
    plan that most hosts have."""
    narrate(f"stopping {plan.run} also by the other plan")
    with tempfile.TemporaryDirectory(prefix="rankboard-") as folder:
        aside = replace(launcher, runs_dir=Path(folder))
        return _stop(aside, aside.attach(KeptPlan(plan, {}, foreign=True)), now, is_kept=False)


def _judge(state: RunState, code: int) -> int:
    """Return the exit code of a run that was to be stopped, and say what to do about hosts that
    have not confirmed it."""
    if state.unconfirmed:
        hosts = [host.name for host in state.unconfirmed]
        it_answers = "it answers" if len(hosts) == 1 else "they answer"
        narrate(
            f"ranks may still run on {listed(hosts)}: once {it_answers}, repeat rankboard stop "
            f"{state.plan.run}"
        )
        return UNREACHABLE
    return 0 if code == STOPPED else code


def _close(session: Session) -> int:
    """Let go of a run that has ended."""
    for _ in session.batches():  # none come
        continue
    verdict = session.state.verdict
    how = verdict.name.lower() if verdict else "its verdict is not known"
    narrate(f"{session.plan.run} had already ended: {how}")
    return 0


def _stop_through_launcher(launcher: Launcher, plan: Plan, now: bool) -> int | None:
    """Ask the process of this machine that records the run to stop it.

    Returns the exit code, or None where there is no such process, or it ended before the run did.
    Raises: PlanError.
    """
    folder = launcher.runs_dir / plan.run
    holder = lock.notify(folder, signal.SIGQUIT if now else lock.STOP)
    if holder is None:
        return None
    narrate(f"asked the launcher of {plan.run}, {holder}, to stop it")
    if not _is_released(folder):
        narrate(
            f"the launcher does not respond: end it with kill -9 {holder.pid}, then repeat "
            f"rankboard stop {plan.run}"
        )
        return UNREACHABLE
    state = RunState(plan)
    for record in launcher.recorded(plan):
        state.apply(record)
    if not state.verdict:
        return None
    front.print_end(state)
    return _judge(state, state.verdict.value)


def _is_released(folder: Path) -> bool:
    """Wait until no process records the run; False where one still does after `OBEYING`."""
    deadline = time.monotonic() + OBEYING
    while lock.launcher(folder):
        if time.monotonic() > deadline:
            return False
        time.sleep(LOOK)
    return True
