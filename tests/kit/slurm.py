"""A real Slurm on this machine for tests: the fixture `slurm` gives a `Slurm` with three nodes.

    def test_something(slurm: Slurm) -> None:
        job = slurm.allocate(2)                    # n1 and n2, until the test ends
        environ = slurm.environ(job)               # what a shell in the job has
        hosts = slurm.hosts(job, tmp_path)

munged, slurmctld and one slurmd per node serve all tests of a pytest process, on free ports of
127.0.0.1 and in a temporary folder; they are ended by their pids. Tests skip where Debian's
packages slurm-wlm and munge are not installed.
"""

from __future__ import annotations

import os
import secrets
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from remote.cluster.hosts import Host
from tests.kit.sshd import free_port
from tests.kit.wait import wait

NODES = ("n1", "n2", "n3")
TOOLS = ("munged", "slurmctld", "slurmd", "srun", "salloc", "scontrol")
PATH = f"{os.environ.get('PATH', '')}:/usr/sbin:/usr/local/sbin"

CONFIG = """\
ClusterName=test
SlurmctldHost={machine}(127.0.0.1)
SlurmctldPort={port}
SlurmUser={user}
SlurmdUser={user}
AuthType=auth/munge
AuthInfo=socket={folder}/munge.sock
CredType=cred/munge
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SwitchType=switch/none
MpiDefault=none
SlurmdParameters=config_overrides
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.%n.pid
SlurmdSpoolDir={folder}/spool.%n
StateSaveLocation={folder}/state
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd.%n.log
SchedulerParameters=sched_min_interval=0
KillWait=2
ReturnToService=2
"""
NODE = "NodeName={name} NodeHostname={machine} NodeAddr=127.0.0.1 Port={port} CPUs=2\n"
PARTITION = "PartitionName=debug Nodes=ALL Default=YES State=UP OverSubscribe=FORCE:8\n"


class Slurm:
    """The cluster as one test sees it."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.conf = folder, folder / "slurm.conf"
        self.jobs: list[int] = []

    def allocate(self, nodes: int, *words: str) -> int:
        """A job of so many nodes, which ends with the test."""
        said = self.run("salloc", "--no-shell", f"-N{nodes}", *words).stderr
        job = int(said.partition("job allocation ")[2].split()[0])
        self.jobs.append(job)
        return job

    def environ(self, job: int) -> dict[str, str]:
        """What `salloc` adds to the environment of its shell."""
        (shown,) = self.run("scontrol", "show", "job", "-o", str(job)).stdout.splitlines()
        said = dict(word.partition("=")[::2] for word in shown.split() if "=" in word)
        count = int(said["NumNodes"])
        return {
            "SLURM_JOB_ID": str(job),
            "SLURM_JOB_NODELIST": said["NodeList"],
            "SLURM_TASKS_PER_NODE": f"1(x{count})",
            "SLURM_JOB_CPUS_PER_NODE": f"1(x{count})",
        }

    def hosts(self, job: int, workdirs: Path) -> tuple[Host, ...]:
        """All nodes as hosts that belong to the job."""
        return tuple(
            Host(
                name,
                "127.0.0.1",
                python=sys.executable,
                workdir=str(workdirs / name),
                timeout=20.0,
                slurm_job=job,
                transport="slurm",
            )
            for name in NODES
        )

    def steps(self) -> list[str]:
        """The steps that run, as `squeue` lists them."""
        return self.run("squeue", "--steps", "--noheader", "--format=%i").stdout.split()

    def run(self, *words: str) -> subprocess.CompletedProcess[str]:
        """Run a command of Slurm's to its end."""
        return subprocess.run(words, capture_output=True, text=True, check=True, timeout=60)

    def cancel(self) -> None:
        """End the jobs of the test."""
        if self.jobs:
            self.run("scancel", *map(str, self.jobs))
            wait(lambda: not self.run("squeue", "--noheader").stdout, "the jobs have ended")
        self.jobs.clear()


def _start(folder: Path) -> list[subprocess.Popen[bytes]]:
    folder.chmod(0o711)
    (folder / "state").mkdir()
    key = folder / "munge.key"
    key.write_bytes(secrets.token_bytes(128))
    key.chmod(0o600)
    machine = socket.gethostname().partition(".")[0]
    user = psutil.Process().username()
    lines = CONFIG.format(folder=folder, machine=machine, user=user, port=free_port("127.0.0.1"))
    for name in NODES:
        (folder / f"spool.{name}").mkdir()
        lines += NODE.format(name=name, machine=machine, port=free_port("127.0.0.1"))
    (folder / "slurm.conf").write_text(lines + PARTITION)
    files = {"key-file": key.name, "socket": "munge.sock", "pid-file": "munged.pid"}
    files |= {"log-file": "munged.log", "seed-file": "munged.seed"}
    options = [f"--{option}={folder / name}" for option, name in files.items()]
    daemons = [_daemon(folder, "munged", "--foreground", "--force", *options)]
    wait((folder / "munge.sock").exists, "munged listens")
    daemons.append(_daemon(folder, "slurmctld", "-D"))
    return daemons + [_daemon(folder, "slurmd", "-D", "-N", name) for name in NODES]


def _daemon(folder: Path, *words: str) -> subprocess.Popen[bytes]:
    with (folder / "daemons.log").open("ab") as log:
        return subprocess.Popen(
            [str(shutil.which(words[0], path=PATH)), *words[1:]],
            env={**os.environ, "SLURM_CONF": str(folder / "slurm.conf")},
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )


@pytest.fixture(scope="session")
def slurm_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Slurm]:
    """The cluster of this pytest process."""
    if missing := [tool for tool in TOOLS if not shutil.which(tool, path=PATH)]:
        pytest.skip(f"no {missing[0]} here: install slurm-wlm and munge to run the tests of Slurm")
    folder = tmp_path_factory.mktemp("slurm")
    daemons = _start(folder)
    cluster = Slurm(folder)
    try:
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("SLURM_CONF", str(cluster.conf))
            idle = ("sinfo", "--noheader", "--format=%T %D")
            wait(
                lambda: (
                    subprocess.run(idle, capture_output=True, text=True, check=False).stdout
                    == f"idle {len(NODES)}\n"
                ),
                "all nodes are idle",
            )
        yield cluster
    finally:
        for daemon in reversed(daemons):
            daemon.terminate()
        for daemon in daemons:
            daemon.wait(20)


@pytest.fixture
def slurm(slurm_cluster: Slurm, monkeypatch: pytest.MonkeyPatch) -> Iterator[Slurm]:
    """Three nodes of a real Slurm; see the module's docstring."""
    for name in [name for name in os.environ if name.startswith("SLURM_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("SLURM_CONF", str(slurm_cluster.conf))
    yield slurm_cluster
    slurm_cluster.cancel()
