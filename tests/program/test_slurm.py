"""`rankboard` in a job of a real Slurm: it takes the nodes from the job, and leaves nothing."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from unittest.mock import patch

import pytest

from tests.kit import launches
from tests.kit.slurm import Slurm
from tests.kit.wait import wait

Run = Callable[..., subprocess.CompletedProcess[str]]

PROGRAM = """\
import os, sys, time
rank = int(os.environ["RANK"])
print("step=1 loss=0.5", flush=True)
print("environment", os.environ["SLURM_JOB_ID"], os.environ["OMP_NUM_THREADS"],
      [name for name in ("SLURM_PROCID", "SLURM_NTASKS") if name in os.environ])
if rank == 1 and sys.argv[1] == "die":
    os.kill(os.getpid(), 9)
while sys.argv[1] != "end" and not os.path.exists("go"):
    time.sleep(0.1)
"""


@pytest.fixture
def run(slurm: Slurm, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Runs rankboard in a folder with the program, with the variables of a job where one is
    given."""
    (tmp_path / "program.py").write_text(PROGRAM)
    monkeypatch.setenv("HOME", str(tmp_path))

    def run(*words: str, job: int = 0) -> subprocess.CompletedProcess[str]:
        with patch.dict(os.environ, slurm.environ(job) if job else {}):
            return launches.run(tmp_path, *words)

    return run


def nothing_is_left(slurm: Slurm) -> None:
    wait(lambda: not slurm.steps(), "no step of the job runs")


def test_a_killed_rank_is_the_cause_and_nothing_is_left(
    slurm: Slurm, run: Run, tmp_path: Path
) -> None:
    job = slurm.allocate(3)
    done = run("--run", "--", "program.py", "die", job=job)
    assert done.returncode == 1, done.stderr
    assert f"the hosts are those of Slurm job {job}: n[1-3]" in done.stderr
    assert "n2, rank 1: killed by SIGKILL" in done.stdout + done.stderr
    assert f"environment {job} 1 []" in done.stdout
    nothing_is_left(slurm)


def test_a_run_goes_on_without_its_launcher_and_is_reached_from_outside_the_job(
    slurm: Slurm, run: Run, tmp_path: Path
) -> None:
    job = slurm.allocate(2)
    detached = run("--run", "--detach", "--", "program.py", "wait", job=job)
    assert detached.returncode == 0, detached.stderr
    assert len(slurm.steps()) == 2
    listed = run("ps", "--live", job=job)
    assert "-program-" in listed.stdout, listed.stderr
    (tmp_path / "go").touch()
    attached = run("attach", "last", "--run")
    assert (attached.returncode, "finished" in attached.stderr) == (0, True), attached.stderr
    nothing_is_left(slurm)


def test_a_detached_run_is_stopped(slurm: Slurm, run: Run) -> None:
    job = slurm.allocate(2)
    run("--run", "--detach", "--", "program.py", "wait", job=job)
    stopped = run("stop", "last")
    assert stopped.returncode == 0, stopped.stderr
    nothing_is_left(slurm)


def test_a_run_has_ended_with_its_job(slurm: Slurm, run: Run) -> None:
    job = slurm.allocate(1)
    run("--run", "--detach", "--", "program.py", "wait", job=job)
    slurm.cancel()
    attached = run("attach", "last", "--run")
    assert attached.returncode == 3, attached.stderr
    assert f"Slurm job {job} is over" in attached.stderr


def test_hosts_that_are_named_win_over_the_job(slurm: Slurm, run: Run) -> None:
    job = slurm.allocate(2)
    done = run("--dry-run", "--local", "2", "--", "program.py", "end", job=job)
    assert "this machine" in done.stdout or "127.0.0.1" in done.stdout, done.stderr
    assert "Slurm" not in done.stderr
    done = run("--dry-run", "--slots", "2", "--", "program.py", "end", job=job)
    assert "n1" in done.stdout, done.stderr
    assert sys.executable in done.stdout
