"""`rankboard attach`, `stop` and `logs`: coming back to a run, from the machine that launched it or
another one."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from remote.cluster.hosts import HostsError, load
from remote.errands import inventory
from remote.errands.inventory import Kept
from remote.launch import Launcher
from remote.plan.plan import RESTARTS, Plan, PlanError, Policy
from remote.record import lock, read, trust
from remote.record.files import is_folder
from remote.record.find import find
from remote.record.layout import NODE
from remote.record.read import RunFolderError
from remote.run.state import RunState, Verdict
from remote.sanitise import shown
from remote.session import returning
from remote.session.session import Session
from remote.transport import Transport
from remote.transport.registry import Transports, is_here
from training.agent.layout import LAST
from training.wire.events import SESSION, Ended, Record, Said, Text, expand
from tui.text import outcome
from tui.text.headless import prefixed

USAGE, UNREACHABLE = 2, 3
OBEYING, LOOK = 15.0, 0.1
"""Seconds that a launcher has to stop its run, and between two looks at whether it has."""
Run = Annotated[
    str,
    typer.Argument(
        metavar="RUN",
        help="the name of the run, the beginning of it, or last for the newest that has begun",
    ),
]
HostsFile = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE", help="the hosts file, for a run launched elsewhere (default: hosts.toml)"
    ),
]
RunsDir = Annotated[Path, typer.Option(metavar="PATH", help="where runs are recorded")]
Watch = Callable[..., int]
"""Shows a session, headless or not, as JSON or not, up to its end or, by Ctrl-C or not, until
somebody leaves it, and `verbose` or not; returns the exit code."""


@contextmanager
def reached(
    run: str, hosts: Path | None, runs_dir: Path, max_restarts: int | None = None
) -> Iterator[tuple[Launcher, Kept]]:
    """The way to the run's hosts, and its plan. `max_restarts`: how often it may restart, where the
    operator says so."""
    try:
        folder = find(run, runs_dir)
        transports = Transports()
        kept = _here(folder, hosts) if folder else _on_hosts(transports, run, hosts, runs_dir)
        if run == LAST:
            narrate(f"{LAST} is {kept.plan.run}")
        if max_restarts is not None:
            policy = replace(kept.plan.policy, max_restarts=max_restarts)
            kept = replace(kept, plan=replace(kept.plan, policy=policy))
        policy = Policy(keep=not is_here(kept.plan.hosts))
        yield Launcher(transports, runs_dir.absolute(), policy, narrate), kept
    except (HostsError, PlanError, RunFolderError) as error:
        narrate(str(error))
        raise typer.Exit(USAGE) from None


def _here(folder: Path, hosts: Path | None) -> Kept:
    """A run that is recorded here, with the ways to its hosts. Raises: HostsError, PlanError,
    RunFolderError."""
    plan = read.load_plan(folder)
    foreign = not trust.has_ways(plan)
    if plan.run != folder.name:
        raise RunFolderError(
            f"{folder} has the plan of another run, {plan.run}: rename the folder to {plan.run}"
        )
    if is_folder(folder / NODE):
        return Kept(trust.on_this_machine(plan, (folder / NODE).absolute()), {}, foreign=foreign)
    if hosts:
        return Kept(trust.with_ways(plan, load(hosts)), {}, foreign=foreign)
    if not foreign:
        return Kept(plan, {})
    try:
        return Kept(trust.with_ways(plan, load(Path("hosts.toml"))), {}, foreign=True)
    except (HostsError, PlanError) as error:
        return Kept(plan, {}, refusal=trust.unknown(plan, str(error)), foreign=True)


def _on_hosts(transport: Transport, run: str, hosts: Path | None, runs_dir: Path) -> Kept:
    """A run of which nothing is recorded here. Raises: HostsError, PlanError."""
    try:
        cluster = load(hosts or Path("hosts.toml"))
    except HostsError as error:
        raise HostsError(
            f"No run called {run!r} in {runs_dir}, and no hosts to ask for it: {error}"
        ) from None
    kept = inventory.plan_of(transport, cluster, run)
    for problem in kept.problems:
        narrate(problem)
    narrate(f"{kept.plan.run} is not recorded here: its hosts tell of it")
    return kept


def narrate(text: str) -> None:
    """Print what may be a host's words."""
    typer.echo(f"rankboard: {chr(10).join(shown(text))}", err=True)


def attach_command(watch: Watch) -> Callable[..., None]:
    """The command `attach`, with the front ends as `watch(launcher, session, headless, json)`."""

    def attach(
        run: Run,
        hosts: HostsFile = None,
        max_restarts: Annotated[
            int | None,
            typer.Option(
                metavar="N",
                min=0,
                max=RESTARTS,
                help="restart a failed run up to N times (default: as it was started here)",
            ),
        ] = None,
        headless: Annotated[bool, typer.Option("--run", help="without the dashboard")] = False,
        as_json: Annotated[
            bool, typer.Option("--json", help="with --run: print one JSON object per event")
        ] = False,
        verbose: Annotated[
            bool,
            typer.Option(
                "--verbose", "-v", help="with --run: print each step of reaching the hosts"
            ),
        ] = False,
        runs_dir: RunsDir = Path("runs"),
    ) -> None:
        """Reattach to a run: replay what you missed, then follow it live.

        When you leave (Ctrl+C with --run), the run continues; rankboard stop ends it.

        Examples:
          rankboard attach last
          rankboard attach --run 20261120-0930
        """
        for flag, wanted in (("--json", as_json), ("--verbose", verbose)):
            if wanted and not headless:
                narrate(f"{flag} goes with --run")
                raise typer.Exit(USAGE)
        with reached(run, hosts, runs_dir, max_restarts) as (launcher, kept):
            session = launcher.attach(kept)
            if kept.foreign and max_restarts is None and not session.has_ended:
                narrate(
                    f"{kept.plan.run} was not started here by you: it restarts after a failure "
                    "only with --max-restarts N"
                )
            code = watch(launcher, session, headless, as_json, True, verbose=verbose)
        raise typer.Exit(code)

    return attach


def stop_command(watch: Watch) -> Callable[..., None]:
    """The command `stop`."""

    def stop(
        run: Run,
        now: Annotated[
            bool, typer.Option("--now", help="kill the ranks at once, without a grace period")
        ] = False,
        hosts: HostsFile = None,
        runs_dir: RunsDir = Path("runs"),
    ) -> None:
        """Stop a run on all its hosts and show its result.

        The exit code is 0 once the run is stopped, also where it had ended before.

        Examples:
          rankboard stop last
          rankboard stop --now 20261120-0930
        """
        with reached(run, hosts, runs_dir) as (launcher, kept):
            code = _stopped_by_its_launcher(launcher, kept.plan, now)
            if code is None:
                session = launcher.attach(kept)
                code = (
                    _had_ended(session)
                    if session.has_ended
                    else _stop(session, watch, launcher, now)
                )
        raise typer.Exit(0 if code == Verdict.STOPPED.value else code)

    return stop


def _stop(session: Session, watch: Watch, launcher: Launcher, now: bool) -> int:
    session.stop(now=now)
    return watch(launcher, session, True, False, False)


def _had_ended(session: Session) -> int:
    for _ in session.batches():  # there are none, but the run is let go of
        continue
    verdict = session.state.verdict
    narrate(
        f"{session.plan.run} had already ended: "
        f"{verdict.name.lower() if verdict else 'not known how'}"
    )
    return 0


def _stopped_by_its_launcher(launcher: Launcher, plan: Plan, now: bool) -> int | None:
    """Have the process of this machine that records the run stop it: the exit code, or None where
    there is none, or it has gone without bringing the run to its end. Raises: PlanError."""
    folder = launcher.runs_dir / plan.run
    holder = lock.notify(folder, signal.SIGQUIT if now else lock.STOP)
    if holder is None:
        return None
    narrate(f"its launcher, {holder}, has been told to stop {plan.run}")
    if not _lets_go(folder):
        narrate(
            f"it does not answer: kill -9 {holder.pid} ends it, then rankboard stop {plan.run} "
            "what it has left behind"
        )
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
    while lock.launcher(folder):
        if time.monotonic() > deadline:
            return False
        time.sleep(LOOK)
    return True


def logs(
    run: Run,
    rank: Annotated[
        int,
        typer.Option(metavar="R", help="show only this rank (default: all)", show_default=False),
    ] = -1,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="keep printing new lines")] = False,
    hosts: HostsFile = None,
    runs_dir: RunsDir = Path("runs"),
) -> None:
    """Print the output of the ranks of a run, in order of time.

    That is what is recorded here, and what the hosts have beyond it.

    Examples:
      rankboard logs last
      rankboard logs last --rank 2 --follow
    """
    with reached(run, hosts, runs_dir) as (launcher, kept):
        plan = kept.plan
        if not -1 <= rank < plan.world_size:
            raise PlanError(f"--rank {rank}: {plan.run} has ranks 0 to {plan.world_size - 1}")
        state = RunState(plan)
        known: dict[int, int] = {}
        ended = set[int]()
        for record in records_of(launcher, plan, follow):
            state.apply(record)
            if isinstance(record.event, Ended):
                ended.add(record.host)
            known[record.host] = max(known.get(record.host, 0), record.seq)
            _print(record, state, rank)
        all_is_here = state.verdict and ended.issuperset(known.keys() - {SESSION})
        problems = [] if all_is_here else _more(launcher, kept, state, known, rank, follow)
    for problem in problems:
        narrate(problem)
    raise typer.Exit(UNREACHABLE if problems else 0)


def records_of(launcher: Launcher, plan: Plan, follow: bool) -> Iterator[Record]:
    """What is recorded here, and what a launcher that still does goes on to record."""
    folder = launcher.runs_dir / plan.run
    return (
        read.follow(folder, len(plan.hosts), launcher.remark)
        if follow and lock.launcher(folder)
        else launcher.recorded(plan)
    )


def _more(
    launcher: Launcher, kept: Kept, state: RunState, known: dict[int, int], rank: int, follow: bool
) -> list[str]:
    """Print what the hosts of a run that nobody records have beyond what is recorded here; returns
    why some is missing."""
    if lock.launcher(launcher.runs_dir / kept.plan.run):
        return []
    if follow and not state.verdict and not kept.refusal:
        session = launcher.attach(kept)
        for record in (one for batch in session.batches() for one in batch):
            _print(record, session.state, rank)
            if isinstance(record.event, Said):
                narrate(record.event.text)
        return [host.reason for host in session.state.hosts if host.gone]
    if kept.refusal:
        return [kept.refusal]
    problems: list[returning.Problem] = []
    offsets = {host.index: host.offset for host in state.hosts} | dict(kept.offsets)
    for _, found in returning.fetch(launcher.transport, kept.plan, known, offsets, problems):
        for record in expand(found):
            _print(record, state, rank)
    return [problem for _, problem in problems]


def _print(record: Record, state: RunState, rank: int) -> None:
    text = record.event
    if isinstance(text, Text) and record.host != SESSION and rank in (-1, text.rank):
        typer.echo(
            prefixed(text, state.host_name(record.host)), nl=False, err=text.stream == "stderr"
        )
