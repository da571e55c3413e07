"""`rankboard attach`, `stop` and `logs`: coming back to a run, from the machine that launched it or another one."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer

from remote import inventory, journals, recorder
from remote.hosts import HostsError, load
from remote.plan import Plan, PlanError
from remote.recorder import RunFolderError
from remote.resume import NODE
from remote.run import RunState
from remote.session import Session
from training.events import SESSION, Record, Text
from tui import selection
from tui.headless import prefixed
from tui.launcher import Launcher

USAGE, UNREACHABLE = 2, 3
Run = Annotated[str, typer.Argument(metavar="RUN", help="the run's name, the beginning of it, or last")]
HostsFile = Annotated[
    Path | None, typer.Option(help="the hosts file, for a run that was launched elsewhere (default: hosts.toml)")
]
RunsDir = Annotated[Path, typer.Option(help="where runs are recorded")]
Watch = Callable[[Launcher, Session, bool, bool], int]
"""Shows a session, headless or not, as JSON or not, up to its end or until somebody leaves it; returns the exit code."""


@contextmanager
def _reached(run: str, hosts: Path | None, runs_dir: Path) -> Iterator[tuple[Launcher, Plan]]:
    """The run's plan, and the way to its hosts."""
    try:
        folder = _recorded(run, runs_dir)
        local = folder is not None and (folder / NODE).is_dir()
        with selection.transport(local, None) as transport:
            plan = (
                recorder.load_plan(folder) if folder else inventory.plan_of(transport, load(hosts or Path("hosts.toml")), run)
            )
            yield Launcher(transport, local, runs_dir.absolute()), plan
    except (HostsError, PlanError, RunFolderError) as error:
        typer.echo(f"rankboard: {error}", err=True)
        raise typer.Exit(USAGE) from None


def _recorded(run: str, runs_dir: Path) -> Path | None:
    """The folder of a run that is recorded here. Raises: PlanError, where several begin so."""
    found = sorted(path.parent for path in runs_dir.glob(f"*/{recorder.PLAN}"))
    if run == "last":
        if not found:
            raise PlanError(f"there is no run in {runs_dir}; rankboard ps lists those on the hosts")
        return found[-1]
    return _one(run, [path.name for path in found], lambda name: runs_dir / name)


def _one(run: str, names: list[str], folder: Callable[[str], Path]) -> Path | None:
    fits = [run] if run in names else [name for name in names if name.startswith(run)]
    if len(fits) > 1:
        raise PlanError(f"{run}: several runs begin so: {', '.join(fits)}")
    return folder(fits[0]) if fits else None


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
        with _reached(run, hosts, runs_dir) as (launcher, plan):
            code = watch(launcher, launcher.attach(plan), headless, as_json)
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
        with _reached(run, hosts, runs_dir) as (launcher, plan):
            if other := recorder.launcher(launcher.runs_dir / plan.run):
                os.kill(other, signal.SIGTERM)
                typer.echo(f"rankboard: its launcher, process {other}, has been told to stop {plan.run}", err=True)
                return
            session = launcher.attach(plan)
            session.stop(now=now)
            code = watch(launcher, session, True, False)
        raise typer.Exit(code)

    return stop


def logs(
    run: Run,
    rank: Annotated[int, typer.Option(metavar="R", help="only of this rank (-1: all)")] = -1,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="go on with what is still to come")] = False,
    hosts: HostsFile = None,
    runs_dir: RunsDir = Path("runs"),
) -> None:
    """Print what the ranks of a run have printed, in order of time, from the records here and what the hosts have more."""
    with _reached(run, hosts, runs_dir) as (launcher, plan):
        if not -1 <= rank < plan.world_size:
            raise PlanError(f"--rank {rank}: {plan.run} has ranks 0 to {plan.world_size - 1}")
        state = RunState(plan)
        known: dict[int, int] = {}
        for record in _records(launcher, plan, follow):
            state.apply(record)
            known[record.host] = max(known.get(record.host, 0), record.seq)
            _print(record, state, rank)
        problems = _more(launcher, plan, state, known, rank, follow)
    for problem in problems:
        typer.echo(f"rankboard: {problem}", err=True)
    raise typer.Exit(UNREACHABLE if problems else 0)


def _records(launcher: Launcher, plan: Plan, follow: bool) -> Iterator[Record]:
    """What is recorded here, and what a launcher that still does goes on to record."""
    folder = launcher.runs_dir / plan.run
    return recorder.follow(folder) if follow and recorder.launcher(folder) else iter(launcher.recorded(plan))


def _more(launcher: Launcher, plan: Plan, state: RunState, known: dict[int, int], rank: int, follow: bool) -> list[str]:
    """What the hosts of a run that nobody records have beyond what is recorded here."""
    if state.verdict or recorder.launcher(launcher.runs_dir / plan.run):
        return []
    if follow:
        session = launcher.attach(plan)
        for batch in session.batches():
            for record in batch:
                _print(record, session.state, rank)
        return []
    records, problems = journals.fetch(launcher.transport, plan, known)
    for record in records:
        state.apply(record)
        _print(record, state, rank)
    return problems


def _print(record: Record, state: RunState, rank: int) -> None:
    text = record.event
    if isinstance(text, Text) and record.host != SESSION and rank in (-1, text.rank):
        typer.echo(prefixed(text, state.host_name(record.host)), nl=False, err=text.stream == "stderr")
