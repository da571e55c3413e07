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
    node_names = _scontrol("hostnames", node_list).split()
    addresses = _find_addresses(node_list)
    ranks_by_node = _slots(variables, len(node_names))
    cores_by_node = _counts(variables, "SLURM_JOB_CPUS_PER_NODE")
    if len(cores_by_node) != len(node_names):  # as another version of Slurm may write them
        cores_by_node = [0] * len(node_names)
    hosts = tuple(
        Host(
            node_name,
            addresses.get(node_name, node_name),
            python=sys.executable,
            slots=rank_count,
            threads=num_cores and max(1, num_cores // rank_count),
            timeout=TIMEOUT,
            slurm_job=int(job_id),
            transport=TRANSPORT,
        )
        for node_name, rank_count, num_cores in zip(
            node_names, ranks_by_node, cores_by_node, strict=True
        )
    )
    job_remark = f"the hosts are those of Slurm job {job_id}: {node_list}"
    cluster_name = f"Slurm job {job_id}"
    if ends_job():
        job_remark += "; the job ends with this command, and the run with it"
        return Cluster(cluster_name, hosts, (job_remark,), keep=False, ends=JOB_ENDS)
    return Cluster(cluster_name, hosts, (job_remark,))


def ends_job() -> bool:
    """Return True if the job ends with this command, as in `salloc COMMAND` and in a script for
    sbatch."""
    try:
        # salloc gives a command the variables that it gives to a shell; only the parent process
        # tells which it was.
        parent_name = Path(f"/proc/{os.getppid()}/comm").read_text().strip()
    except OSError:
        return False
    return parent_name in ("salloc", "slurm_script")


def _slots(variables: Mapping[str, str], num_nodes: int) -> list[int]:
    """Return the ranks of each node. Without tasks that were asked for, SLURM_TASKS_PER_NODE may
    count cores."""
    tasks_by_node = _counts(variables, "SLURM_TASKS_PER_NODE")
    if {"SLURM_NTASKS", "SLURM_NTASKS_PER_NODE"} & variables.keys() and len(
        tasks_by_node
    ) == num_nodes:
        return tasks_by_node
    # It may name a type before the number, and sockets behind it: a100:4(S:0-1).
    gpu_match = re.search(r"(?:^|:)([1-9]\d*)(?:\(|$)", variables.get("SLURM_GPUS_PER_NODE", ""))
    return [int(gpu_match[1]) if gpu_match else 1] * num_nodes


def _counts(variables: Mapping[str, str], variable_name: str) -> list[int]:
    """Read a number for each node, which Slurm writes as 2(x3),1."""
    count_groups = re.findall(r"(\d+)(?:\(x(\d+)\))?", variables.get(variable_name, ""))
    return [
        int(node_count)
        for node_count, repeat_count in count_groups
        for _ in range(int(repeat_count or 1))
    ]


def _find_addresses(node_list: str) -> dict[str, str]:
    """Return the addresses of nodes; none if Slurm does not say: then the names are addresses."""
    try:
        node_lines = _scontrol("node", node_list, "--oneliner")
    except HostsError:
        return {}
    return dict(re.findall(r"^NodeName=(\S+) .*?\bNodeAddr=(\S+)", node_lines, re.MULTILINE))


def _scontrol(*show_arguments: str) -> str:
    """Return what `scontrol show` prints. Raises: HostsError."""
    argv = ["scontrol", "show", *show_arguments]
    try:
        finished_process = subprocess.run(
            argv, capture_output=True, text=True, check=True, timeout=TIMEOUT
        )
    except FileNotFoundError:
        failure_reason = "there is no scontrol on this machine"
    except subprocess.TimeoutExpired:
        failure_reason = f"scontrol says nothing for {TIMEOUT:g} s"
    except subprocess.CalledProcessError as error:
        failure_reason = f"{' '.join(argv)} failed: {error.stderr.strip()}"
    else:
        return finished_process.stdout
    raise HostsError(
        f"the nodes of Slurm job {os.environ.get('SLURM_JOB_ID')} are unknown: {failure_reason}; "
        "name the hosts with --hosts FILE, or use --local N to run on this machine"
    )
