"""The hosts of the Slurm job that a shell is in."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from remote.cluster.hosts import Cluster, Host, HostsError

TRANSPORT = "slurm"
TIMEOUT = 30.0
"""Seconds that a node has to answer: the controller of a large cluster may be busy."""
ADVICE = (
    "start rankboard within a job, as in: salloc -N2 rankboard --run -- train.py, or in a script "
    "for sbatch"
)
JOB_ENDS = "the Slurm job ends with this command; start a shell with salloc, then rankboard in it"
"""Why a run in it cannot outlive its launcher."""


def allocation(variables: Mapping[str, str] = os.environ) -> Cluster:
    """Return the nodes of the job, each with as many ranks as the job has tasks there. If no tasks
    were asked for: one rank per GPU that was, else one.

    Raises: HostsError, where this is no job or Slurm does not answer.
    """
    job_id = variables.get("SLURM_JOB_ID", "")
    node_list = variables.get("SLURM_JOB_NODELIST", "")
    if not job_id or not node_list:
        raise HostsError(
            f"--slurm: this shell is in no Slurm job (no SLURM_JOB_ID is set): {ADVICE}"
        )
    names = _scontrol("hostnames", node_list).split()
    addresses = _find_addresses(node_list)
    slots = _slots(variables, len(names))
    cores = _counts(variables, "SLURM_JOB_CPUS_PER_NODE")
    cores = cores if len(cores) == len(names) else [0] * len(names)
    hosts = tuple(
        Host(
            name,
            addresses.get(name, name),
            python=sys.executable,
            slots=ranks,
            threads=num_cores and max(1, num_cores // ranks),
            timeout=TIMEOUT,
            slurm_job=int(job_id),
            transport=TRANSPORT,
        )
        for name, ranks, num_cores in zip(names, slots, cores, strict=True)
    )
    remark = f"the hosts are those of Slurm job {job_id}: {node_list}"
    name = f"Slurm job {job_id}"
    if ends_job():
        remark += "; the job ends with this command, and the run with it"
        return Cluster(name, hosts, (remark,), keep=False, ends=JOB_ENDS)
    return Cluster(name, hosts, (remark,))


def ends_job() -> bool:
    """Return True if the job ends with this command, as in `salloc COMMAND` and in a script for
    sbatch."""
    try:
        parent = Path(f"/proc/{os.getppid()}/comm").read_text().strip()
    except OSError:
        return False
    return parent in ("salloc", "slurm_script")


def _slots(variables: Mapping[str, str], num_nodes: int) -> list[int]:
    """Return the ranks of each node. Without tasks that were asked for, SLURM_TASKS_PER_NODE may
    count cores."""
    tasks = _counts(variables, "SLURM_TASKS_PER_NODE")
    if {"SLURM_NTASKS", "SLURM_NTASKS_PER_NODE"} & variables.keys() and len(tasks) == num_nodes:
        return tasks
    gpus = re.search(r"(?:^|:)([1-9]\d*)(?:\(|$)", variables.get("SLURM_GPUS_PER_NODE", ""))
    return [int(gpus[1]) if gpus else 1] * num_nodes


def _counts(variables: Mapping[str, str], name: str) -> list[int]:
    """Read a number for each node, which Slurm writes as 2(x3),1."""
    counts = re.findall(r"(\d+)(?:\(x(\d+)\))?", variables.get(name, ""))
    return [int(count) for count, times in counts for _ in range(int(times or 1))]


def _find_addresses(node_list: str) -> dict[str, str]:
    """Return the addresses of nodes; none if Slurm does not say: then the names are addresses."""
    try:
        text = _scontrol("node", node_list, "--oneliner")
    except HostsError:
        return {}
    return dict(re.findall(r"^NodeName=(\S+) .*?\bNodeAddr=(\S+)", text, re.MULTILINE))


def _scontrol(*words: str) -> str:
    """Return what `scontrol show` prints. Raises: HostsError."""
    argv = ["scontrol", "show", *words]
    try:
        done = subprocess.run(argv, capture_output=True, text=True, check=True, timeout=TIMEOUT)
    except FileNotFoundError:
        reason = "there is no scontrol on this machine"
    except subprocess.TimeoutExpired:
        reason = f"scontrol says nothing for {TIMEOUT:g} s"
    except subprocess.CalledProcessError as error:
        reason = f"{' '.join(argv)} failed: {error.stderr.strip()}"
    else:
        return done.stdout
    raise HostsError(
        f"the nodes of Slurm job {os.environ.get('SLURM_JOB_ID')} are unknown: {reason}; name the "
        "hosts with --hosts FILE, or use --local N to run on this machine"
    )
