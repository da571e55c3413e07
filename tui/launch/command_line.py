"""The command line that starts what the launch form describes."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence

from remote.cluster.hosts import HOSTS_FILE, Cluster
from remote.format import count
from remote.plan.plan import Script
from remote.transport.registry import is_here
from training.job import Job
from tui.kit.open_runs import RunOptions
from tui.launch.script_fields import format_script_arguments

RANK_COUNT = re.compile(r":\d*$")
"""The number of ranks behind the name of a host."""


def format_command_line(
    cluster: Cluster,
    chosen: Cluster,
    work: Job | Script,
    policy_flags: Sequence[str],
    options: RunOptions,
    cwd: str = "",
) -> str:
    """Return the command line, with what differs from the defaults.

    `chosen` are the hosts of `cluster` that take part; `cwd` is the folder of a script. See
    `explain_missing` for runs that no command line starts.
    """
    words = ["rankboard", *_format_hosts(cluster, chosen, options)]
    if len(chosen.hosts) < len(cluster.hosts):
        words += ["--only", ",".join(host.name for host in chosen.hosts)]
    for folder in options.upload:
        words += ["--upload", folder]
    if options.runs_dir:
        words += ["--runs-dir", options.runs_dir]
    if options.name:
        words += ["--name", options.name]
    if options.notify:
        words += ["--notify", options.notify]
    if isinstance(work, Script):
        words += [*policy_flags, *format_script_arguments(work, cwd)]
    else:
        # Without any setting of the job, the command would open the form instead of starting.
        job_flags = work.flags() or ("--sync", work.sync)
        words += [*job_flags, *policy_flags]
    return shlex.join(words)


def explain_missing(cluster: Cluster, chosen: Cluster, options: RunOptions) -> str:
    """Return why no command line starts so many ranks, and what to write instead; "" if one
    does."""
    is_free = options.host or _is_local(cluster) or _is_slurm(cluster)
    if is_free or not _has_other_slots(cluster, chosen):
        return ""
    host = chosen.hosts[0]
    ranks = count(host.slots, "rank")
    file = cluster.file or HOSTS_FILE
    return f"no command line starts {ranks} on {host.name}: write slots = {host.slots} in {file}"


def _has_other_slots(cluster: Cluster, chosen: Cluster) -> bool:
    """Return True if the form asks for another number of ranks than the only host has."""
    return len(cluster.hosts) == 1 and chosen.hosts[0].slots != cluster.hosts[0].slots


def _is_slurm(cluster: Cluster) -> bool:
    return any(host.slurm_job for host in cluster.hosts)


def _is_local(cluster: Cluster) -> bool:
    return not cluster.file and is_here(cluster.hosts)


def _format_hosts(cluster: Cluster, chosen: Cluster, options: RunOptions) -> list[str]:
    """Return the flags that select the hosts."""
    if options.host:
        return ["-H", _format_host_names(cluster, chosen, options.host)]
    if _is_local(cluster):
        return _format_local(cluster, chosen, options)
    if _is_slurm(cluster):
        if options.slots or _has_other_slots(cluster, chosen):
            return ["--slurm", "--slots", str(chosen.hosts[0].slots)]
        return ["--slurm"]
    if cluster.file in ("", HOSTS_FILE):
        return []
    return ["--hosts", cluster.file]


def _format_host_names(cluster: Cluster, chosen: Cluster, names: str) -> str:
    """Return the value of -H, with the ranks of a single host as they are chosen."""
    if len(cluster.hosts) > 1 or cluster.hosts == chosen.hosts:
        return names
    name = RANK_COUNT.sub("", names)
    return f"{name}:{chosen.hosts[0].slots}"


def _format_local(cluster: Cluster, chosen: Cluster, options: RunOptions) -> list[str]:
    """Return the flags of ranks on this machine."""
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
