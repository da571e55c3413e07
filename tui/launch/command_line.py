"""The command line that starts what the launch form says."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence

from remote.cluster.hosts import HOSTS_FILE, Cluster
from remote.format import count
from remote.plan.plan import Script
from remote.transport.registry import is_here
from training.job import Job
from tui.kit.runs import RunOptions
from tui.launch import script_fields as program

COUNT = re.compile(r":\d*$")
"""The number of ranks behind the name of a host."""


def command(
    cluster: Cluster,
    chosen: Cluster,
    work: Job | Script,
    policy: Sequence[str],
    options: RunOptions,
    cwd: str = "",
) -> str:
    """The command line, with what differs from the defaults. `chosen` are the hosts of `cluster`
    that take part; `policy` are the options of the policy; `cwd` is where a program works.

    A line without any option of the job would open the form: this one starts. Where `lacking` says
    so, it starts another number of ranks.
    """
    if options.host:
        hosts = ["-H", _named(cluster, chosen, options.host)]
    else:
        hosts = (_here if _is_local(cluster) else _file)(cluster, chosen, options)
    if len(chosen.hosts) < len(cluster.hosts):
        hosts += ["--only", ",".join(host.name for host in chosen.hosts)]
    for folder in options.upload:
        hosts += ["--upload", folder]
    for flag, value in (
        ("--runs-dir", options.runs_dir),
        ("--name", options.name),
        ("--notify", options.notify),
    ):
        hosts += [flag, value] if value else []
    if isinstance(work, Script):
        return shlex.join(["rankboard", *hosts, *policy, *program.words(work, cwd)])
    flags = work.flags() or ("--sync", work.sync)
    return shlex.join(["rankboard", *hosts, *flags, *policy])


def lacking(cluster: Cluster, chosen: Cluster, options: RunOptions) -> str:
    """Why no command line starts so many ranks, and what to write instead; "" where one does."""
    is_free = options.host or _is_local(cluster) or _is_slurm(cluster)
    if is_free or not _has_other_slots(cluster, chosen):
        return ""
    (host,) = chosen.hosts
    ranks = count(host.slots, "rank")
    file = cluster.file or HOSTS_FILE
    return f"no command line starts {ranks} on {host.name}: write slots = {host.slots} in {file}"


def _has_other_slots(cluster: Cluster, chosen: Cluster) -> bool:
    """Whether the form asks for another number of ranks than the hosts have: it does so of one host
    only."""
    return len(cluster.hosts) == 1 and chosen.hosts[0].slots != cluster.hosts[0].slots


def _is_slurm(cluster: Cluster) -> bool:
    return any(host.slurm_job for host in cluster.hosts)


def _is_local(cluster: Cluster) -> bool:
    return not cluster.file and is_here(cluster.hosts)


def _file(cluster: Cluster, chosen: Cluster, options: RunOptions) -> list[str]:
    """The options of the nodes of a Slurm job, or of the hosts of a file."""
    if _is_slurm(cluster):
        is_asked = options.slots or _has_other_slots(cluster, chosen)
        return ["--slurm", *(["--slots", str(chosen.hosts[0].slots)] if is_asked else [])]
    return ["--hosts", cluster.file] if cluster.file not in ("", HOSTS_FILE) else []


def _named(cluster: Cluster, chosen: Cluster, words: str) -> str:
    """The hosts of -H; the ranks of a single one as they are chosen."""
    if len(cluster.hosts) > 1 or cluster.hosts == chosen.hosts:
        return words
    return f"{COUNT.sub('', words)}:{chosen.hosts[0].slots}"


def _here(cluster: Cluster, chosen: Cluster, options: RunOptions) -> list[str]:
    """The options of ranks on this machine; of one host, as many as are chosen."""
    hosts = cluster.hosts if len(cluster.hosts) > 1 else chosen.hosts
    words = ["--local", str(sum(host.slots for host in hosts))]
    if options.slots:
        words += ["--slots", str(hosts[0].slots)]
    if options.link:
        words += ["--link", options.link]
    if options.cpus:
        words += ["--cpus", options.cpus]
    return words
