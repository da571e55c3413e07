"""`rankboard` without a command: start a run, in the dashboard or with --run as lines."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace
from importlib import metadata
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Any

import typer

from remote.launch import Launcher
from remote.plan import serialize
from remote.plan.dry_run import dry_run as describe
from remote.record import resume
from remote.transport.registry import is_here
from training.agent.layout import LAST
from training.job import Job
from tui import front
from tui.exit import UsageError, refusing
from tui.flags import selection
from tui.flags.common import RUNS, RunsDir
from tui.flags.policy import policy
from tui.flags.selection import Selection
from tui.front import Lines
from tui.narrate import narrate
from tui.text.usage import given, option

NICE = 10
"""How far the launcher steps back behind ranks that may share its machine."""


def print_version(wanted: bool) -> None:
    """Print the version and end."""
    if wanted:
        typer.echo(f"rankboard {metadata.version('rankboard')}")
        raise typer.Exit


def run(
    context: typer.Context,
    host_flags: Mapping[str, Any] = MappingProxyType({}),
    upload: Annotated[
        list[Path] | None,
        typer.Option(
            metavar="PATH",
            help="copy this folder to every host and run the ranks there (repeatable)",
        ),
    ] = None,
    as_lines: Annotated[
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
        typer.Option("--verbose", "-v", help="with --run: print each step of the start"),
    ] = False,
    runs_dir: RunsDir = RUNS,
    version: Annotated[
        bool,
        typer.Option("--version", is_eager=True, callback=print_version, help="print the version"),
    ] = False,
    policy_flags: Mapping[str, Any] = MappingProxyType({}),
    **job_flags: Any,
) -> None:
    """Launch and watch data-parallel PyTorch training across machines.

    Without a command, rankboard starts a run in the dashboard: at once if you give a job option,
    otherwise after you fill in a form. With --run, it prints lines instead.

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
      130  stopped by the user
    """
    if context.invoked_subcommand:
        _refuse_flags(context)
        return
    with refusing():
        _check_flags(as_lines, dry_run, json, detach, verbose)
        _check_lab(detach, policy_flags["on_disconnect"], host_flags["link"])
        at_once = any(value is not None for value in job_flags.values())
        in_form = not (as_lines or dry_run or at_once) and front.on_terminal()
        chosen = selection.selection(host_flags, upload or (), in_form=in_form)
        local = is_here(chosen.cluster.hosts)
        job = resume.job_of(job_flags, runs_dir, local)
        if job_flags.get("resume") == LAST:
            narrate(f"{LAST} is {job.resume}")
        with selection.transports(replace(chosen, spec=None) if dry_run else chosen) as transports:
            settings = policy(policy_flags, _keeps(chosen, local, detach, as_lines))
            launcher = Launcher(transports, runs_dir.absolute(), settings)
            if dry_run:
                _print_plan(launcher, chosen, job, json)
                return
            _step_back(chosen)
            lines = Lines(json, detach=detach, verbose=verbose) if as_lines else None
            code = _start(launcher, chosen, job, lines, at_once=at_once)
    raise typer.Exit(code)


def _refuse_flags(context: typer.Context) -> None:
    """Refuse the options of a run before another command, which would ignore them."""
    names = ", ".join(option(context, name) for name in given(context))
    if names:
        with refusing():
            raise UsageError(
                f"{names} does not apply to {context.invoked_subcommand}; put options after the "
                "name of the command"
            )


def _check_flags(as_lines: bool, dry_run: bool, json: bool, detach: bool, verbose: bool) -> None:
    """Raises: UsageError, where an option needs --run."""
    for flag, wanted in (
        ("--json", json and not dry_run),
        ("--detach", detach),
        ("--verbose", verbose),
    ):
        if wanted and not as_lines:
            raise UsageError(f"{flag} needs --run")


def _check_lab(detach: bool, on_disconnect: str | None, link: str) -> None:
    """Raises: UsageError, where a run should outlive the lab that it runs in."""
    for flag, wanted in (
        ("--detach", detach),
        ("--on-disconnect keep", on_disconnect == "keep"),
    ):
        if wanted and link:
            raise UsageError(
                f"{flag}: the lab of --link ends with this command; start one that stays with "
                "rankboard lab up"
            )


def _keeps(chosen: Selection, local: bool, detach: bool, as_lines: bool) -> bool:
    """Whether the run survives its launcher, unless --on-disconnect says otherwise."""
    keep = chosen.cluster.keep
    return detach or ((keep if keep is not None else not as_lines) and not local)


def _print_plan(launcher: Launcher, chosen: Selection, job: Job, json: bool) -> None:
    plan = launcher.plan(chosen.hosts, job)
    typer.echo(serialize.dump(plan) if json else describe(plan), nl=not json)


def _step_back(chosen: Selection) -> None:
    """Lower the priority of our threads where ranks share this machine.

    The transport's own threads, which start the agents, are older and keep theirs.
    """
    if chosen.spec or any(host.address.startswith("127.") for host in chosen.hosts.hosts):
        os.nice(NICE)


def _start(
    launcher: Launcher, chosen: Selection, job: Job, lines: Lines | None, *, at_once: bool
) -> int:
    if lines:
        session = launcher.begin(launcher.plan(chosen.hosts, job))
        return front.show_lines(launcher, session, lines)
    return front.show_dashboard(
        launcher, chosen.cluster, chosen.hosts, job, at_once=at_once, leavable=not chosen.spec
    )
