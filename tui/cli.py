"""The command line: what `rankboard` understands, and which front end then shows the run."""

from __future__ import annotations

import gc
import os
import signal
import sys
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from importlib import metadata
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Any

import typer

from remote.cluster.hosts import Cluster, HostsError
from remote.lab.spec import LabError
from remote.launch import Launcher
from remote.plan import dry_run as rehearsal
from remote.plan import serialize
from remote.plan.plan import PlanError
from remote.record import resume, summary
from remote.record.layout import REPORT
from remote.record.lock import STOP
from remote.run.state import RunState, Verdict
from remote.session.session import Session
from remote.transport.registry import is_here
from training.agent.layout import LAST
from training.job import Job, JobError
from training.registry import UnknownName
from training.wire.events import Record
from tui.commands import attach, doctor, events, lab, runs, setup, trust
from tui.flags import selection
from tui.flags.job import with_job_flags
from tui.flags.policy import policy, with_policy_flags
from tui.flags.selection import with_host_flags
from tui.text import outcome
from tui.text.headless import Printer, printer
from tui.text.usage import USAGE, Command, Rankboard, given
from tui.widgets import palette

NICE = 10
"""By how much the launcher steps back behind ranks that may share its machine."""


def main() -> None:
    """The `rankboard` command."""
    palette.make_fit(sys.stdout, sys.stderr)
    application()()


def application() -> typer.Typer:
    """Everything that the command line understands."""
    app = typer.Typer(cls=Rankboard, add_completion=False, pretty_exceptions_enable=False)
    settings = {"help_option_names": ["-h", "--help"]}
    app.callback(invoke_without_command=True, context_settings=settings)(
        with_job_flags(with_policy_flags(with_host_flags(_launch)))
    )
    app.add_typer(lab.app, name="lab")
    for name, command in (
        ("doctor", with_job_flags(with_host_flags(doctor.doctor))),
        ("trust", trust.trust),
        ("ps", runs.ps),
        ("prune", runs.prune),
        ("setup", setup.setup),
        ("attach", attach.attach_command(_watch)),
        ("stop", attach.stop_command(_watch)),
        ("logs", attach.logs),
        ("events", events.events_command(_watch)),
    ):
        app.command(name, cls=Command, context_settings=settings)(command)
    return app


def _version(asked: bool) -> None:
    if asked:
        typer.echo(f"rankboard {metadata.version('rankboard')}")
        raise typer.Exit


def _launch(
    context: typer.Context,
    host_flags: Mapping[str, Any] = MappingProxyType({}),
    upload: Annotated[
        list[Path] | None,
        typer.Option(
            metavar="PATH",
            help="copy this folder to all hosts first; the ranks work there (repeatable)",
        ),
    ] = None,
    run: Annotated[
        bool, typer.Option("--run", help="run without the dashboard, and print lines")
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="print which rank runs where, and start nothing")
    ] = False,
    json: Annotated[
        bool,
        typer.Option(
            "--json",
            help="with --run: print one JSON object per event; with --dry-run: the plan as JSON",
        ),
    ] = False,
    detach: Annotated[
        bool,
        typer.Option(
            "--detach",
            help="with --run: return once all ranks train; the run continues on the hosts",
        ),
    ] = False,
    verbose: Annotated[
        bool,
        typer.Option(
            "--verbose", "-v", help="with --run: print each step on the way to the first iteration"
        ),
    ] = False,
    runs_dir: Annotated[Path, typer.Option(metavar="PATH", help="where runs are recorded")] = Path(
        "runs"
    ),
    version: Annotated[
        bool, typer.Option("--version", is_eager=True, callback=_version, help="print the version")
    ] = False,
    policy_flags: Mapping[str, Any] = MappingProxyType({}),
    **job_flags: Any,
) -> None:
    """Launch and watch data-parallel PyTorch training over several machines.

    Without a command, rankboard starts a run: in the dashboard, at once if you give a flag of the
    job, else with a form to fill in; with --run, without the dashboard.

    Examples:
      rankboard                               open the form for your hosts
      rankboard --local 4                     open it for 4 ranks on this machine
      rankboard --run --sync ring --steps 45  train on the hosts and print lines
      rankboard --run --resume last           continue the newest run
      rankboard --dry-run --nodes 2           show what would run where
      rankboard doctor                        check the hosts

    Exit codes:
      0    all ranks finished, or the run was detached
      1    a rank failed
      2    refused before the start: usage, configuration or a failed check
      3    a host could not be reached, or was lost
      130  stopped by a person
    """
    if context.invoked_subcommand:
        _without_flags(context)
        return
    try:
        for flag, wanted in (
            ("--json", json and not dry_run),
            ("--detach", detach),
            ("--verbose", verbose),
        ):
            if wanted and not run:
                raise PlanError(f"{flag} goes with --run")
        for flag, wanted in (
            ("--detach", detach),
            ("--on-disconnect keep", policy_flags["on_disconnect"] == "keep"),
        ):
            if wanted and host_flags["link"]:
                raise PlanError(
                    f"{flag}: a lab of --link ends with this command; rankboard lab up makes one "
                    "that stays"
                )
        at_once = any(value is not None for value in job_flags.values())
        in_form = not (run or dry_run or at_once) and _on_terminal()
        chosen = selection.selection(host_flags, upload or (), in_form=in_form)
        cluster, hosts, spec = chosen.cluster, chosen.hosts, chosen.spec
        local = is_here(cluster.hosts)
        job = resume.job_of(job_flags, runs_dir, local)
        if job_flags.get("resume") == LAST:
            typer.echo(f"rankboard: {LAST} is {job.resume}", err=True)
        with selection.transports(replace(chosen, spec=None) if dry_run else chosen) as transports:
            keep = detach or ((cluster.keep if cluster.keep is not None else not run) and not local)
            launcher = Launcher(transports, runs_dir.absolute(), policy(policy_flags, keep))
            if dry_run:
                plan = launcher.plan(hosts, job)
                typer.echo(serialize.dump(plan) if json else rehearsal.dry_run(plan), nl=not json)
                return
            if spec or any(host.address.startswith("127.") for host in hosts.hosts):
                os.nice(
                    NICE
                )  # our threads from here on; the transport's own, which starts agents, is older
            if run:
                code = _headless(
                    launcher,
                    launcher.begin(launcher.plan(hosts, job)),
                    json,
                    detach=detach,
                    verbose=verbose,
                )
            else:
                code = _dashboard(launcher, cluster, hosts, job, at_once=at_once, leavable=not spec)
    except (JobError, UnknownName, HostsError, PlanError, LabError) as error:
        typer.echo(f"rankboard: {error}", err=True)
        code = USAGE
    raise typer.Exit(code)


def _without_flags(context: typer.Context) -> None:
    """Refuse the flags of a run before another command, which would not heed them."""
    if flags := given(context):
        names = ", ".join(f"--{name.replace('_', '-')}" for name in flags)
        typer.echo(
            f"rankboard: {names} applies to a run: write the flags of "
            f"{context.invoked_subcommand} after its name",
            err=True,
        )
        raise typer.Exit(USAGE)


def _headless(
    launcher: Launcher,
    session: Session,
    json: bool,
    *,
    detach: bool = False,
    leaves: bool = False,
    quiet: bool = False,
    verbose: bool = False,
) -> int:
    """Show a session without a dashboard; returns the exit code. A person's Ctrl-C stops the run,
    SIGQUIT at once. Where it `leaves`, Ctrl-C leaves it; one that is kept is left where terminal or
    process are to end, as at a shutdown. `detach`: once all have begun. `quiet`: without what ranks
    print."""

    def end(number: int, _: object) -> None:
        ends_us = number in (signal.SIGHUP, signal.SIGTERM)
        if (leaves and number == signal.SIGINT) or (ends_us and (leaves or session.keep)):
            session.detach()
        else:
            why = "rankboard stop" if number == STOP else outcome.interruption(number)
            session.stop(why, now=number == signal.SIGQUIT)

    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, STOP):
        signal.signal(number, end)
    # A terminal that is gone fails in every write; the run is left or stopped then, and heard out.
    folder = launcher.runs_dir / session.plan.run
    before = launcher.recorded(session.plan) if json and leaves else ()
    with (
        suppress(OSError),
        printer(session.state, json, folder, before=before, quiet=quiet, verbose=verbose) as show,
    ):
        for records in session.batches():
            _shown(show, records, session, leaves)
            if detach and session.begun:
                session.detach()
                detach = False
        show.end(session.state)
        if not session.detached:
            _recorded(launcher, session.state)
    verdict = session.state.verdict or (Verdict.LOST if session.cut_off else None)
    return verdict.value if verdict else 0


def _watch(
    launcher: Launcher,
    session: Session,
    headless: bool,
    json: bool,
    leaves: bool,
    *,
    verbose: bool = False,
) -> int:
    """Show a run that one has come back to, to follow it, or, where one does not leave it again, to
    stop it: then what its ranks have printed is of no interest. Returns the exit code. `leaves`:
    see `_headless`."""
    if headless or json:
        return _headless(launcher, session, json, leaves=leaves, quiet=not leaves, verbose=verbose)
    hosts = Cluster(session.plan.run, session.plan.hosts)
    return _dashboard(
        launcher,
        hosts,
        hosts,
        session.plan.work if isinstance(session.plan.work, Job) else Job(),
        attached=session,
    )


def _shown(show: Printer, records: list[Record], session: Session, leaves: bool) -> None:
    """Show a batch; the run is stopped, or left, when there is nowhere to show it any more, as with
    `| head`."""
    if show.gone:
        return
    try:
        show.batch(records, session.state)
    except OSError:
        show.gone = True
    if show.gone and (leaves or session.keep):
        session.detach()
    elif show.gone and not session.state.stop_reason:  # asked twice, hosts would not be waited for
        session.stop("stdout cannot be written any more")


def _dashboard(
    launcher: Launcher, cluster: Cluster, selected: Cluster, job: Job, **how: Any
) -> int:
    """`how`: what else the dashboard is told, see `tui.app.Launch`."""
    if not _on_terminal():
        raise PlanError(
            "the dashboard needs a terminal on stdin, stdout and stderr; without one, use --run"
        )
    from tui.app import Launch, RankboardApp

    settings: dict[str, Any] = {"runs_dir": launcher.runs_dir, "check": launcher.check} | how
    app = RankboardApp(Launch(cluster, selected, job, launcher.plan, launcher.begin, **settings))
    # what has been imported stays: looking through it for garbage again and again takes time
    gc.freeze()
    try:
        app.run()
    finally:
        app.finish()
    for state in app.states:
        for line in outcome.told(state):
            typer.echo(line, err=True)
        _recorded(launcher, state)
    return app.exit_code


def _on_terminal() -> bool:
    """Whether a dashboard can be shown; Textual draws on stderr."""
    return all(stream.isatty() for stream in (sys.stdin, sys.stdout, sys.stderr))


def _recorded(launcher: Launcher, state: RunState) -> None:
    for remark in summary.remarks(state):
        typer.echo(f"rankboard: {remark}", err=True)
    folder = Path(os.path.relpath(launcher.runs_dir / state.plan.run))
    if summary.report(state):
        typer.echo(f"rankboard: classification report in {folder / REPORT}", err=True)
    typer.echo(f"rankboard: recorded in {folder}", err=True)
