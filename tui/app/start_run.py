"""Start a run from a command line: in the dashboard, as lines, or as a dry run."""

from __future__ import annotations

import os
from dataclasses import replace

from remote.launch import Launcher, find_pasted_ranks
from remote.plan import serialize
from remote.plan.dry_run import dry_run as describe
from remote.plan.plan import Script
from remote.record import marks, resume
from remote.transport.registry import is_here
from training.agent.layout import LAST
from training.job import Job
from tui.app import show_run as front
from tui.app.show_run import LineOptions
from tui.flags.common import RUNS, make_notifier
from tui.flags.mistakes import Mistakes, check_job
from tui.flags.pasted import ask_for_line, refuse_line
from tui.flags.policy import make_policy
from tui.flags.run import RunCommand
from tui.flags.script import make_script, with_cwd
from tui.flags.selection import (
    HostFlags,
    Selection,
    check_host_flags,
    check_hosts_file,
    open_transports,
    select_hosts,
    select_usual,
)
from tui.flags.torchrun import apply_to_host_flags, apply_to_hosts, apply_to_policy_flags
from tui.kit.exit import UsageError
from tui.kit.narrate import echo, narrate
from tui.kit.open_runs import RunOptions

NICE = 10
"""How far the launcher steps back behind ranks that may share its machine. Not with the dashboard:
it takes some percent of a core, and its keys must work while the ranks take all of it."""


def check(command: RunCommand, mistakes: Mistakes) -> None:
    """Look for mistakes in a command line. Raises: UsageError, with all mistakes.

    Those in the hosts file come last, as the command line can be right without it.
    """
    words = command.line.words
    upload = command.run.upload
    with mistakes.noting():
        marks.checked_name(command.run.name)
    hosts = command.hosts
    with mistakes.noting("--local", "--num-hosts", "--slots"):
        hosts = apply_to_host_flags(command.line, command.hosts)
    with mistakes.noting("--local", "--slots"):
        check_host_flags(hosts, upload)
    with mistakes.noting():
        make_script(command.line, command.script, command.job)
    if not words:
        with mistakes.noting():
            check_job(command.job)
    with mistakes.noting("--max-restarts"):
        make_policy(apply_to_policy_flags(command.line, command.policy), keep=False)
    if mistakes and not command.run.form:  # which does without a hosts file
        with mistakes.noting("--local"):
            check_hosts_file(hosts)
    mistakes.refuse()


def start(command: RunCommand) -> int:
    """Start a run and show it until it ends or the user leaves it; or print its plan.

    Returns the exit code. Raises: errors that `MISTAKES` lists.
    """
    flags = command.run
    hosts = apply_to_host_flags(command.line, command.hosts)
    policy = apply_to_policy_flags(command.line, command.policy)
    script = make_script(command.line, command.script, command.job)
    starts_at_once = not flags.form and bool(script or command.job)
    asks = not (flags.as_lines or flags.dry_run or starts_at_once) and front.is_on_terminal()
    is_bare = asks and hosts == HostFlags() and not flags.upload
    chosen = select_usual() if is_bare else select_hosts(hosts, flags.upload)
    is_local = is_here(chosen.cluster.hosts)
    used_hosts = with_cwd(chosen.hosts, command.script.cwd)
    used_hosts = apply_to_hosts(command.line, used_hosts, local=is_local)
    chosen = replace(chosen, hosts=used_hosts)
    marks.checked_name(flags.name)
    _check_can_outlive(chosen.ends, command)
    work = script or _find_job(command, is_local)
    lab = None if flags.dry_run else chosen.spec
    with open_transports(replace(chosen, spec=lab)) as transports:
        keep = _keeps(chosen, is_local, command)
        launcher = Launcher(
            transports,
            flags.runs_dir.absolute(),
            make_policy(policy, keep),
            notifier=make_notifier(flags.notify),
        )
        if script and starts_at_once:
            work = _check_pasted(launcher, chosen, script, command)
        if flags.dry_run:
            _print_plan(launcher, chosen, work, flags.json)
            return 0
        if flags.as_lines:
            return _show_lines(launcher, chosen, work, command)
        return front.show_dashboard(
            launcher,
            chosen.cluster,
            chosen.hosts,
            work,
            name=flags.name,
            at_once=starts_at_once,
            home=is_bare and not flags.form,
            ends=chosen.ends,
            keep=keep,
            options=_make_form_options(command, hosts, launcher),
            # A lab counts bits, everything else bytes.
            link=min(chosen.spec.rates) / 8 if chosen.spec else 0.0,
        )


def _check_pasted(
    launcher: Launcher, chosen: Selection, script: Script, command: RunCommand
) -> Script:
    """Return the script to start: with placeholders, if its line was typed for one node and the
    user agrees. Raises: UsageError, if not, or if nobody can be asked."""
    plan = launcher.plan(chosen.hosts, script)
    pasted = None if command.script.as_is else find_pasted_ranks(plan)
    if not pasted:
        return script
    if command.run.as_lines or command.run.dry_run:
        raise refuse_line(pasted, plan.world_size, script, command.line.typed)
    ask_for_line(pasted, plan.world_size)
    return replace(script, words=pasted.words)


def _find_job(command: RunCommand, is_local: bool) -> Job:
    """Return the job of a command line, which may go on from a recorded run."""
    job = resume.job_of(command.job, command.run.runs_dir, is_local)
    if command.job.get("resume") == LAST:
        narrate(f"{LAST} is {job.resume}")
    return job


def _show_lines(
    launcher: Launcher, chosen: Selection, work: Job | Script, command: RunCommand
) -> int:
    flags = command.run
    # Threads of the transport, which start the agents, are older and keep their priority.
    if chosen.spec or any(host.address.startswith("127.") for host in chosen.hosts.hosts):
        os.nice(NICE)
    lines = LineOptions(flags.json, detach=flags.detach, verbose=flags.verbose)
    session = launcher.begin(launcher.plan(chosen.hosts, work), flags.name)
    return front.show_lines(launcher, session, lines)


def _make_form_options(command: RunCommand, hosts: HostFlags, launcher: Launcher) -> RunOptions:
    """Return the flags that the launch form has no fields for, for its command line."""
    flags = command.run
    notifier = launcher.notifier
    other_flags = {
        "--runs-dir": "" if flags.runs_dir == RUNS else str(flags.runs_dir),
        "--name": flags.name,
        "--notify": notifier.shareable_target if notifier else "",
    }
    words = []
    for folder in flags.upload:
        words += ["--upload", str(folder)]
    for flag, value in other_flags.items():
        words += [flag, value] if value else []
    return RunOptions(
        *(hosts.host, hosts.slots or 0, hosts.link, hosts.cpus, command.script.cwd),
        other=tuple(words),
    )


def _check_can_outlive(ends: str, command: RunCommand) -> None:
    """Refuse flags by which a run outlives what it `ends` with. Raises: UsageError."""
    given = {
        "--detach": command.run.detach,
        "--on-disconnect keep": command.policy.on_disconnect == "keep",
    }
    for flag, is_given in given.items():
        if is_given and ends:
            raise UsageError(f"{flag}: {ends}")


def _keeps(chosen: Selection, is_local: bool, command: RunCommand) -> bool:
    """Return whether the run survives its launcher, unless --on-disconnect says otherwise."""
    if command.run.detach:
        return True
    keep = chosen.cluster.keep
    if keep is None:
        keep = not command.run.as_lines
    return keep and not is_local


def _print_plan(launcher: Launcher, chosen: Selection, work: Job | Script, json: bool) -> None:
    plan = launcher.plan(chosen.hosts, work)
    if json:
        echo(serialize.dump(plan))
    else:
        echo(describe(plan))
