"""`rankboard attach`, `stop` and `logs`: coming back to a run, from the machine that launched it or another one."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer

from remote import inventory, journals, recorder
from remote.hosts import HostsError, load
from remote.inventory import Kept
from remote.lines import shown
from remote.plan import Plan, PlanError, Policy
from remote.recorder import RunFolderError
from remote.resume import NODE
from remote.run import RunState
from remote.session import Session
from remote.transport import Transport
from training.agent.inventory import LAST
from training.events import SESSION, Ended, Record, Said, Text, expand
from tui import outcome, selection
from tui.headless import prefixed
from tui.launcher import Launcher

USAGE, UNREACHABLE = 2, 3
OBEYING, LOOK = 15.0, 0.1
"""Seconds that a launcher has to stop its run, and between two looks at whether it has."""
Run = Annotated[str, typer.Argument(metavar="RUN", help="the run's name, the beginning of it, or last: the newest")]
HostsFile = Annotated[
    Path | None, typer.Option(help="the hosts file, for a run that was launched elsewhere (default: hosts.toml)")
]
RunsDir = Annotated[Path, typer.Option(help="where runs are recorded")]
Watch = Callable[[Launcher, Session, bool, bool, bool], int]
"""Shows a session, headless or not, as JSON or not, up to its end or, by Ctrl-C or not, until somebody leaves it; returns the
exit code."""


@contextmanager
def _reached(run: str, hosts: Path | None, runs_dir: Path) -> Iterator[tuple[Launcher, Kept]]:
    """The way to the run's hosts, and its plan."""
    try:
        folder = recorder.find(run, runs_dir)
        local = folder is not None and (folder / NODE).is_dir()
        with selection.transport(local, None) as transport:
            kept = Kept(recorder.load_plan(folder), {}) if folder else _on_hosts(transport, run, hosts, runs_dir)
            if run == LAST:
                _narrate(f"{LAST} is {kept.plan.run}")
            yield Launcher(transport, local, runs_dir.absolute(), Policy(keep=not local)), kept
    except (HostsError, PlanError, RunFolderError) as error:
        _narrate(str(error))
        raise typer.Exit(USAGE) from None


def _on_hosts(transport: Transport, run: str, hosts: Path | None, runs_dir: Path) -> Kept:
    """A run of which nothing is recorded here. Raises: HostsError, PlanError."""
    try:
        cluster = load(hosts or Path("hosts.toml"))
    except HostsError as error:
        raise HostsError(f"{run}: no such run in {runs_dir}, and its hosts are not known: {error}") from None
    kept = inventory.plan_of(transport, cluster, run)
    for problem in kept.problems:
        _narrate(problem)
    _narrate(f"{kept.plan.run} is not recorded here: its hosts tell of it")
    return kept


def _narrate(text: str) -> None:
    """Print what may be a host's words."""
    typer.echo(f"rankboard: {chr(10).join(shown(text))}", err=True)


def attach_command(watch: Watch) -> Callable[..., None]:
    """The command `attach`, with the front ends as `watch(launcher, session, headless, json)`."""

    def attach(
        run: Run,
        hosts: HostsFile = None,
        headless: Annotated[bool, typer.Option("--run", help="without the dashboard")] = False,
        as_json: Annotated[bool, typer.Option("--json", help="with --run: one JSON object per event on stdout")] = False,
        runs_dir: RunsDir = Path("runs"),
    ) -> None:
        """Come back to a run: see all that has happened since, each thing once, and then follow it.

        Leaving again (ctrl+c with --run) lets the run go on; `rankboard stop` ends it.
        """
        with _reached(run, hosts, runs_dir) as (launcher, kept):
            code = watch(launcher, launcher.attach(kept), headless, as_json, True)
        raise typer.Exit(code)

    return attach


def stop_command(watch: Watch) -> Callable[..., None]:
    """The command `stop`."""

    def stop(
        run: Run,
        now: Annotated[bool, typer.Option("--now", help="without the time that ranks have to end by themselves")] = False,
        hosts: HostsFile = None,
        runs_dir: RunsDir = Path("runs"),
    ) -> None:
        """End a run on all its hosts, and say what became of it."""
        with _reached(run, hosts, runs_dir) as (launcher, kept):
            code = _stopped_by_its_launcher(launcher, kept.plan, now)
            if code is None:
                session = launcher.attach(kept)
                session.stop(now=now)
                code = watch(launcher, session, True, False, False)
        raise typer.Exit(code)

    return stop


def _stopped_by_its_launcher(launcher: Launcher, plan: Plan, now: bool) -> int | None:
    """Have the process of this machine that records the run stop it: the exit code, or None where there is none, or it has gone
    without bringing the run to its end. Raises: PlanError."""
    folder = launcher.runs_dir / plan.run
    holder = recorder.launcher(folder)
    if not holder or not holder.pid:
        return None
    if not holder.is_here:
        raise PlanError(f"{plan.run}: its launcher is {holder.machine}'s process {holder.pid}: stop it there")
    try:
        os.kill(holder.pid, signal.SIGQUIT if now else recorder.STOP)
    except PermissionError:
        raise PlanError(f"{plan.run}: its launcher, {holder}, is another user's, who can stop it") from None
    except ProcessLookupError:
        return None
    _narrate(f"its launcher, {holder}, has been told to stop {plan.run}")
    if not _lets_go(folder):
        _narrate(f"it does not answer: kill -9 {holder.pid} ends it, then rankboard stop {plan.run} what it has left behind")
        return UNREACHABLE
    state = RunState(plan)
    for record in launcher.recorded(plan):
        state.apply(record)
    for line in outcome.told(state) if state.verdict else ():
        typer.echo(line, err=True)
    return state.verdict.value if state.verdict else None


def _lets_go(folder: Path) -> bool:
    """Whether nobody records the run any more, in time."""
    deadline = time.monotonic() + OBEYING
    while recorder.launcher(folder):
        if time.monotonic() > deadline:
            return False
        time.sleep(LOOK)
    return True


def logs(
    run: Run,
    rank: Annotated[int, typer.Option(metavar="R", help="only of this rank (-1: all)")] = -1,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="go on with what is still to come")] = False,
    hosts: HostsFile = None,
    runs_dir: RunsDir = Path("runs"),
) -> None:
    """Print what the ranks of a run have printed, in order of time, from the records here and what the hosts have more."""
    with _reached(run, hosts, runs_dir) as (launcher, kept):
        plan = kept.plan
        if not -1 <= rank < plan.world_size:
            raise PlanError(f"--rank {rank}: {plan.run} has ranks 0 to {plan.world_size - 1}")
        state = RunState(plan)
        known: dict[int, int] = {}
        ended = set[int]()
        for record in _records(launcher, plan, follow):
            state.apply(record)
            if isinstance(record.event, Ended):
                ended.add(record.host)
            known[record.host] = max(known.get(record.host, 0), record.seq)
            _print(record, state, rank)
        all_is_here = state.verdict and ended.issuperset(known.keys() - {SESSION})
        problems = [] if all_is_here else _more(launcher, kept, state, known, rank, follow)
    for problem in problems:
        _narrate(problem)
    raise typer.Exit(UNREACHABLE if problems else 0)


def _records(launcher: Launcher, plan: Plan, follow: bool) -> Iterator[Record]:
    """What is recorded here, and what a launcher that still does goes on to record."""
    folder = launcher.runs_dir / plan.run
    return recorder.follow(folder) if follow and recorder.launcher(folder) else launcher.recorded(plan)


def _more(launcher: Launcher, kept: Kept, state: RunState, known: dict[int, int], rank: int, follow: bool) -> list[str]:
    """Print what the hosts of a run that nobody records have beyond what is recorded here; returns why some is missing."""
    if recorder.launcher(launcher.runs_dir / kept.plan.run):
        return []
    if follow and not state.verdict:
        session = launcher.attach(kept)
        for record in (one for batch in session.batches() for one in batch):
            _print(record, session.state, rank)
            if isinstance(record.event, Said):
                _narrate(record.event.text)
        return [host.reason for host in session.state.hosts if host.gone]
    problems: list[journals.Problem] = []
    offsets = {host.index: host.offset for host in state.hosts} | dict(kept.offsets)
    for _, found in journals.fetch(launcher.transport, kept.plan, known, offsets, problems):
        for record in expand(found):
            _print(record, state, rank)
    return [problem for _, problem in problems]


def _print(record: Record, state: RunState, rank: int) -> None:
    text = record.event
    if isinstance(text, Text) and record.host != SESSION and rank in (-1, text.rank):
        typer.echo(prefixed(text, state.host_name(record.host)), nl=False, err=text.stream == "stderr")
