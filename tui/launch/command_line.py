"""The command line that starts what the launch form describes."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from remote.cluster.hosts import HOSTS_FILE, Cluster, HostsError
from remote.cluster.load import load
from remote.lab.spec import is_of_lab
from remote.plan.plan import Plan, Script
from remote.run.run_state import RunState
from remote.transport.registry import is_here
from training.job import Job
from tui.kit.open_runs import RunOptions
from tui.launch.form_fields import format_policy, format_policy_flags
from tui.launch.script_fields import format_script_arguments

RANK_COUNT = re.compile(r":\d*$")
"""The number of ranks behind the name of a host."""


def find_lab_options(run: RunState | None) -> RunOptions:
    """Return how the links and the cores of a lab are limited, by what its hosts say; nothing for
    other hosts, or of a run of which nothing is known."""
    if run is None:
        return RunOptions()
    is_lab = is_here(run.plan.hosts) and all(map(is_of_lab, run.plan.hosts))
    greetings = [host.hello for host in run.hosts if host.hello]
    if not is_lab or len(greetings) < len(run.hosts):
        return RunOptions()
    interfaces = [host.interface for host in run.plan.hosts]
    links = [
        _format_rate(dict(hello.link_speeds).get(interface, 0))
        for hello, interface in zip(greetings, interfaces, strict=True)
    ]
    # Of a host without a limit, these are the cores of this machine.
    is_limited = any(
        hello.cores < len(host.sample.cpu) for hello, host in zip(greetings, run.hosts, strict=True)
    )
    cores = [f"{hello.cores:g}" for hello in greetings] if is_limited else []
    return RunOptions(link=_join_values(links), cpus=_join_values(cores))


def _format_rate(mbits: int) -> str:
    return f"{mbits}mbit" if mbits % 1000 else f"{mbits // 1000}gbit"


def _join_values(values: Sequence[str]) -> str:
    """Return one value for all hosts if it is the same for all."""
    return ",".join(values if len(set(values)) > 1 else values[:1])


def format_run_command(plan: Plan, limits: RunOptions, without: str = "") -> str:
    """Return the command line that starts such a run, by what is recorded of it.

    `limits` are those of a lab, see `find_lab_options`; `without` leaves a host out.
    """
    is_local = is_here(plan.hosts)
    is_of_flag = is_local and plan.has_hosts_of_flag
    slots = plan.hosts[0].slots if is_of_flag and len(plan.hosts) > 1 else 0
    if limits.link and slots == 1:
        slots = 0  # a lab has a rank per host by itself
    hosts = Cluster("", plan.hosts, file="" if is_of_flag else plan.hosts_file)
    # Nothing is fetched from this machine, and no run on it is kept, whatever was asked for.
    policy = replace(plan.policy, fetch=True, keep=False) if is_local else plan.policy
    flags = format_policy_flags(format_policy(policy), keep=not is_local)
    other_words = [word for upload in plan.uploads for word in ("--upload", upload.source)]
    if without:
        other_words += ["--exclude", without]
    options = replace(limits, slots=slots, other=tuple(other_words))
    cwd = plan.hosts[0].cwd if plan.script else ""
    return format_command_line(_load_hosts(hosts), hosts, plan.work, flags, options, cwd)


def _load_hosts(chosen: Cluster) -> Cluster:
    """Return all hosts of the file of these, or these if it cannot be read any more."""
    if chosen.file:
        with suppress(HostsError):
            return load(Path(chosen.file))
    return chosen


def format_command_line(
    cluster: Cluster,
    chosen: Cluster,
    work: Job | Script,
    policy_flags: Sequence[str],
    options: RunOptions,
    cwd: str = "",
) -> str:
    """Return the command line, with what differs from the defaults.

    `chosen` are the hosts of `cluster` that take part; `cwd` is the folder of a script.
    """
    words = ["rankboard", *_format_hosts(cluster, chosen, options)]
    if len(chosen.hosts) < len(cluster.hosts):
        words += ["--only", ",".join(host.name for host in chosen.hosts)]
    words += options.other
    if isinstance(work, Script):
        words += [*policy_flags, *format_script_arguments(work, cwd)]
    else:
        # Without any setting of the job, the command would open the form instead of starting.
        job_flags = work.flags() or ("--sync", work.sync)
        words += [*job_flags, *policy_flags]
    return shlex.join(words)


def _format_hosts(cluster: Cluster, chosen: Cluster, options: RunOptions) -> list[str]:
    """Return the flags that select the hosts."""
    ranks = str(chosen.hosts[0].slots)
    has_other_slots = len(cluster.hosts) == 1 and chosen.hosts != cluster.hosts
    if options.host:  # as it was written, unless the form has other ranks for its only host
        host = f"{RANK_COUNT.sub('', options.host)}:{ranks}" if has_other_slots else options.host
        return ["-H", host]
    if cluster.file:
        return [] if cluster.file == HOSTS_FILE else ["--hosts", cluster.file]
    if is_here(cluster.hosts):
        return _format_local(cluster, chosen, options)
    if not cluster.hosts[0].slurm_job:
        return []
    return ["--slurm", "--slots", ranks] if options.slots or has_other_slots else ["--slurm"]


def _format_local(cluster: Cluster, chosen: Cluster, options: RunOptions) -> list[str]:
    """Return the flags of ranks on this machine."""
    # Of several hosts, --only leaves some out; of a single one, the form says the number of ranks.
    hosts = cluster.hosts if len(cluster.hosts) > 1 else chosen.hosts
    ranks = sum(host.slots for host in hosts)
    words = ["--local", str(ranks)]
    if options.slots:
        words += ["--slots", str(hosts[0].slots)]
    if options.link:
        words += ["--link", options.link]
    if options.cpus:
        words += ["--cpus", options.cpus]
    return words
