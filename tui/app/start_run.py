"""Start a run from the options of the command line: in the dashboard, as lines, or as a dry run."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from remote.launch import Launcher
from remote.plan import serialize
from remote.plan.dry_run import dry_run as describe
from remote.plan.plan import Script
from remote.record import marks, resume
from remote.transport.registry import is_here
from training.agent.layout import LAST
from training.job import Job
from tui.app import show_run as front
from tui.app.show_run import LineOptions
from tui.flags import script as scripts
from tui.flags import selection, torchrun
from tui.flags.common import RUNS
from tui.flags.mistakes import Mistakes, check_job
from tui.flags.policy import policy
from tui.flags.selection import Selection
from tui.kit.exit import UsageError
from tui.kit.narrate import echo, narrate
from tui.kit.runs import RunOptions

if TYPE_CHECKING:
    from remote.session.notify import Notifier

NICE = 10
"""How far the launcher steps back behind ranks that may share its machine. Not with the dashboard:
it takes some percent of a core, and its keys must work while the ranks take all of it."""


@dataclass(frozen=True)
class Options:
    """The options of a run that are not about hosts, the job or the policy. The help of
    `rankboard` describes them."""

    upload: Sequence[Path]
    as_lines: bool
    dry_run: bool
    json: bool
    detach: bool
    verbose: bool
    name: str
    runs_dir: Path
    notifier: Notifier | None = None
    in_form: bool = False


@dataclass(frozen=True)
class Flags:
    """The options of a run, by what they are about."""

    hosts: Mapping[str, Any]
    job: Mapping[str, Any]
    script: Mapping[str, Any]
    policy: Mapping[str, Any]


def check(flags: Flags, line: torchrun.Line, options: Options, mistakes: Mistakes) -> None:
    """Look for mistakes in these options. Those in the hosts file come last, as the options can be
    right without it. Raises: UsageError, with all mistakes."""
    with mistakes.noting():
        marks.checked_name(options.name)
    hosts = dict(flags.hosts)
    with mistakes.noting("--local", "--nodes", "--slots"):
        hosts = torchrun.hosts(line, flags.hosts)
    with mistakes.noting("--local", "--slots"):
        selection.check(hosts, options.upload)
    with mistakes.noting():
        scripts.script(line.words, flags.script, flags.job)
    if not line.words:
        with mistakes.noting():
            check_job(flags.job)
    with mistakes.noting("--max-restarts"):
        policy(torchrun.policy(line, flags.policy), keep=False)
    if mistakes and not options.in_form:  # which does without a hosts file
        with mistakes.noting("--local"):
            selection.check_file(hosts)
    mistakes.refuse()


def start(flags: Flags, line: torchrun.Line, options: Options) -> int:
    """Start a run and show it until it ends or is left; or print its plan. `line` has a program of
    the user's own, if any.

    Returns the exit code.
    """
    as_lines = options.as_lines
    dry_run = options.dry_run
    hosts = torchrun.hosts(line, flags.hosts)
    flags = replace(flags, hosts=hosts, policy=torchrun.policy(line, flags.policy))
    script = scripts.script(line.words, flags.script, flags.job)
    has_work = script or any(value is not None for value in flags.job.values())
    at_once = not options.in_form and bool(has_work)
    asks = not (as_lines or dry_run or at_once) and front.is_on_terminal()
    is_bare = asks and not (any(flags.hosts.values()) or options.upload)
    chosen = selection.usual() if is_bare else selection.selection(flags.hosts, options.upload)
    local = is_here(chosen.cluster.hosts)
    used = scripts.with_cwd(chosen.hosts, flags.script["cwd"])
    chosen = replace(chosen, hosts=torchrun.on_hosts(line, used, local=local))
    marks.checked_name(options.name)
    _check_lasting(chosen.ends, options.detach, flags.policy["on_disconnect"])
    work = script or resume.job_of(flags.job, options.runs_dir, local)
    if isinstance(work, Job) and flags.job.get("resume") == LAST:
        narrate(f"{LAST} is {work.resume}")
    with selection.transports(replace(chosen, spec=None) if dry_run else chosen) as transports:
        keep = _keeps(chosen, local, options)
        settings = policy(flags.policy, keep)
        launcher = Launcher(
            transports, options.runs_dir.absolute(), settings, notifier=options.notifier
        )
        if dry_run:
            _print_plan(launcher, chosen, work, options.json)
            return 0
        if as_lines:
            _step_back(chosen)
            lines = LineOptions(options.json, detach=options.detach, verbose=options.verbose)
            session = launcher.begin(launcher.plan(chosen.hosts, work), options.name)
            return front.show_lines(launcher, session, lines)
        return front.show_dashboard(
            launcher,
            chosen.cluster,
            chosen.hosts,
            work,
            name=options.name,
            at_once=at_once,
            home=is_bare and not options.in_form,
            ends=chosen.ends,
            keep=keep,
            options=_run_options(flags, options),
            link=min(chosen.spec.rates) / 8 if chosen.spec else 0.0,
        )


def _run_options(flags: Flags, options: Options) -> RunOptions:
    """The other options of the command line, for the launch form."""
    return RunOptions(
        flags.hosts["host"] or "",
        flags.hosts["slots"] or 0,
        flags.hosts["link"],
        flags.hosts["cpus"],
        tuple(map(str, options.upload)),
        "" if options.runs_dir == RUNS else str(options.runs_dir),
        options.name,
        options.notifier.shareable_target if options.notifier else "",
        flags.script["cwd"],
    )


def _check_lasting(ends: str, detach: bool, on_disconnect: str | None) -> None:
    """Raises: UsageError, where a run should outlive what it `ends` with."""
    for flag, wanted in (("--detach", detach), ("--on-disconnect keep", on_disconnect == "keep")):
        if wanted and ends:
            raise UsageError(f"{flag}: {ends}")


def _keeps(chosen: Selection, local: bool, options: Options) -> bool:
    """Whether the run survives its launcher, unless --on-disconnect says otherwise."""
    keep = chosen.cluster.keep
    keep = keep if keep is not None else not options.as_lines
    return options.detach or (keep and not local)


def _print_plan(launcher: Launcher, chosen: Selection, work: Job | Script, json: bool) -> None:
    plan = launcher.plan(chosen.hosts, work)
    echo(serialize.dump(plan) if json else describe(plan), end="\n" if json else "")


def _step_back(chosen: Selection) -> None:
    """Lower the priority of our threads where ranks share this machine.

    The transport's own threads, which start the agents, are older and keep theirs.
    """
    if chosen.spec or any(host.address.startswith("127.") for host in chosen.hosts.hosts):
        os.nice(NICE)
