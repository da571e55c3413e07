"""What the variables of a Slurm job say of its nodes, and what a step gets of them."""

from __future__ import annotations

import stat
from collections.abc import Mapping
from pathlib import Path

import pytest

from remote.cluster import slurm
from remote.cluster.hosts import Host, HostsError, with_slots
from remote.cluster.slurm import allocation
from remote.transport.slurm import environment

SCONTROL = """\
#!/bin/sh
case $2 in
hostnames) printf 'n1\\nn2\\nn3\\n' ;;
node)
    echo 'NodeName=n1 Arch=x86_64 NodeAddr=10.0.0.1 Port=1'
    echo 'NodeName=n2 NodeAddr=n2-ib Port=1' ;;
esac
"""
JOB = {
    "SLURM_JOB_ID": "7",
    "SLURM_JOB_NODELIST": "n[1-3]",
    "SLURM_JOB_CPUS_PER_NODE": "8(x2),4",
    "SLURM_TASKS_PER_NODE": "4(x2),2",
}


@pytest.fixture(autouse=True)
def scontrol(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    file = tmp_path / "scontrol"
    file.write_text(SCONTROL)
    file.chmod(file.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    return file


@pytest.mark.parametrize(
    ("more", "slots", "threads"),
    [
        ({"SLURM_NTASKS": "10"}, [4, 4, 2], [2, 2, 2]),
        ({"SLURM_NTASKS_PER_NODE": "4"}, [4, 4, 2], [2, 2, 2]),
        ({}, [1, 1, 1], [8, 8, 4]),  # the tasks per node are then the cores
        ({"SLURM_GPUS_PER_NODE": "a100:2"}, [2, 2, 2], [4, 4, 2]),
        ({"SLURM_GPUS_PER_NODE": "2"}, [2, 2, 2], [4, 4, 2]),
    ],
)
def test_ranks_and_cores_of_the_nodes(
    more: Mapping[str, str], slots: list[int], threads: list[int]
) -> None:
    cluster = allocation({**JOB, **more})
    assert [host.name for host in cluster.hosts] == ["n1", "n2", "n3"]
    assert [host.address for host in cluster.hosts] == ["10.0.0.1", "n2-ib", "n3"]
    assert [host.slots for host in cluster.hosts] == slots
    assert [host.threads for host in cluster.hosts] == threads
    assert {(host.slurm_job, host.transport) for host in cluster.hosts} == {(7, "slurm")}


def test_more_ranks_share_the_cores_of_the_job() -> None:
    node = allocation(JOB).hosts[0]
    assert (with_slots(node, 4).slots, with_slots(node, 4).threads) == (4, 2)
    assert with_slots(Host("a", "a", threads=8), 4).threads == 8


def test_the_run_ends_with_the_command_of_its_job(monkeypatch: pytest.MonkeyPatch) -> None:
    assert allocation(JOB).keep is None
    monkeypatch.setattr(slurm, "ends_job", lambda: True)
    cluster = allocation(JOB)
    assert (cluster.keep, cluster.ends) == (False, slurm.JOB_ENDS)
    assert cluster.remarks[0].endswith("the job ends with this command, and the run with it")


def test_without_a_job_it_says_what_to_do() -> None:
    with pytest.raises(HostsError, match=r"no Slurm job .*salloc -N2 rankboard --run -- train\.py"):
        allocation({})


def test_where_scontrol_fails_it_says_so(scontrol: Path) -> None:
    scontrol.write_text("#!/bin/sh\necho 'Unable to contact slurm controller' >&2\nexit 1\n")
    with pytest.raises(HostsError, match=r"Unable to contact slurm controller; name the hosts"):
        allocation(JOB)


def test_a_step_does_not_take_the_tasks_of_the_job_for_its_own() -> None:
    kept = {"SLURM_JOB_ID": "7", "SLURM_ARRAY_TASK_ID": "3", "SLURM_CONF": "x", "PATH": "/bin"}
    dropped = dict.fromkeys(
        ("SLURM_NTASKS", "SLURM_CPUS_PER_TASK", "SRUN_CPUS_PER_TASK", "SLURM_TASKS_PER_NODE"), "4"
    ) | {"SLURM_PROCID": "1", "SLURM_CPU_BIND": "x", "SLURM_NPROCS": "4"}
    assert environment(kept | dropped) == kept
