"""The command line that starts what the launch form says."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence

from remote.cluster.hosts import HOSTS_FILE, Cluster
from remote.plan.plan import Script
from remote.transport.registry import is_here
from training.job import Job
from tui.form import program
from tui.runs import RunOptions

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

    A line without any option of the job would open the form: this one starts.
    """
    if options.host:
        hosts = ["-H", _named(cluster, chosen, options.host)]
    else:
        hosts = _here(cluster, chosen, options) if _is_local(cluster) else _file(cluster)
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


def _is_local(cluster: Cluster) -> bool:
    return not cluster.file and is_here(cluster.hosts)


def _file(cluster: Cluster) -> list[str]:
    if any(host.slurm_job for host in cluster.hosts):
        return ["--slurm"]
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
