"""Programs of the user's own through the whole command: uploaded, run, restarted, left, returned to
and stopped, and their results fetched."""

from __future__ import annotations

import csv
import json
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.kit.launches import RANKBOARD, launch, left_behind, run
from tests.kit.sshd import Sshd
from tests.kit.wait import wait

WRITES = """
import os, pathlib, sys
out = pathlib.Path("out"); out.mkdir(exist_ok=True)
(out / f"rank-{os.environ['RANK']}.txt").write_text(sys.argv[1])
print("in", os.getcwd())
"""
COURSE = """
import argparse, os, pathlib
parser = argparse.ArgumentParser()
for option in ("--rank", "--num-nodes", "--master-ip"):
    parser.add_argument(option, required=True)
place = parser.parse_args()
token = os.environ["MY_TOKEN"]
pathlib.Path("out").mkdir(exist_ok=True)
pathlib.Path("out", f"model-{place.rank}-of-{place.num_nodes}.pt").write_text(token)
"""
"""A script as courses hand them out, with a variable of the user's own."""
FAILS_ONCE = """
import os, sys
count = os.environ["TORCHELASTIC_RESTART_COUNT"]
print("attempt", count, "of", os.environ["TORCHELASTIC_MAX_RESTARTS"], flush=True)
sys.exit(count == "0" and os.environ["RANK"] == "1")
"""
WAITS = "import time\nprint('step=1 loss=0.5', flush=True)\ntime.sleep(600)\n"


COUNTS_FROM_0 = """
import time
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

dist.init_process_group("gloo")
torch.manual_seed(1)
model = DistributedDataParallel(torch.nn.Linear(8, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for step in range(45):
    loss = (model(torch.randn(16, 8)) ** 2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    time.sleep(0.05)
    if dist.get_rank() == 0 and step % 5 == 0:
        print(f"step {step} loss {loss.item():.4f}")
dist.destroy_process_group()
"""


@pytest.fixture(autouse=True)
def nothing_left(tmp_path: Path) -> Iterator[None]:
    """Whatever a test did, none of its processes is there afterwards."""
    yield
    try:
        wait(lambda: not left_behind(tmp_path), "the end of all that it has started", 20)
    finally:
        for process in left_behind(tmp_path):
            process.kill()


def over_ssh(sshd: Sshd, count: int) -> tuple[str, ...]:
    return ("--hosts", str(sshd.hosts_toml(sshd.make_hosts(count, 1))))


def test_a_program_is_uploaded_and_its_results_come_back(sshd: Sshd, tmp_path: Path) -> None:
    mine = tmp_path / "mine"
    mine.mkdir()
    (mine / "train.py").write_text(WRITES)
    words = ("--upload", ".", "--fetch", "out/*.txt", "--", "train.py", "hello")
    start = ("--run", *over_ssh(sshd, 2), *words)
    done = run(mine, *start)
    assert done.returncode == 0, done.stderr
    (folder,) = (mine / "runs").glob("*/hosts")
    files = {path.name: path.read_text() for path in folder.rglob("*.txt")}
    assert files == {"rank-0.txt": "hello", "rank-1.txt": "hello"}
    assert "/files/" in done.stdout
    assert "older than this run" not in done.stderr
    (mine / "train.py").write_text("print('nothing to write')\n")
    done = run(mine, *start)
    assert done.returncode == 0, done.stderr
    for host, name in (("node1", "rank-0.txt"), ("node2", "rank-1.txt")):
        told = f"{host}: older than this run, which did not write them: out/{name}"
        assert told in done.stderr


def test_a_script_of_a_course_runs_by_what_its_failures_say(
    sshd: Sshd, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MY_TOKEN", "s3cret")
    mine = tmp_path / "mine"
    mine.mkdir()
    (mine / "course.py").write_text(COURSE)
    start = ("--run", *over_ssh(sshd, 2), "--upload", ".", "--")
    failed = run(mine, *start, "course.py")
    (advice,) = re.findall(r"^what to do: .*; write -- (.*)$", failed.stderr, re.MULTILINE)
    command = shlex.split(advice)
    failed = run(mine, *start, *command)
    assert "MY_TOKEN is set in your shell, but ranks do not get its variables" in failed.stderr
    assert "s3cret" not in failed.stderr + failed.stdout
    done = run(mine, *start, "MY_TOKEN=1", *command)
    assert done.returncode == 0, done.stderr
    (told,) = re.findall(r"wrote .*", done.stderr)
    names = re.findall(r"1 file on (\w+)", told)
    assert len(names) == 2
    for number, name in enumerate(names):
        assert f"1 file on {name} (out/model-{number}-of-2.pt)" in told
    assert "with --fetch 'out/*', a run brings" in told


def test_a_command_runs_on_each_host_before_the_ranks(sshd: Sshd, tmp_path: Path) -> None:
    mine = tmp_path / "mine"
    mine.mkdir()
    (mine / "train.py").write_text("print(open('made/by').read())")
    start = ("--run", *over_ssh(sshd, 2), "--upload", ".", "--before")
    words = ("mkdir made && echo {host} of $MY > made/by", "--", "MY=mine", "train.py")
    done = run(mine, *start, *words)
    assert done.returncode == 0, done.stderr
    assert re.findall(r"(\w+) of mine", done.stdout) in (["node1", "node2"], ["node2", "node1"])
    failed = run(mine, *start, *words)
    assert failed.returncode == 2
    assert "failed: exit code 1: mkdir: " in failed.stderr


def test_a_program_that_no_host_has_is_not_started(sshd: Sshd, tmp_path: Path) -> None:
    """Both are named in one line, with what to do."""
    hosts = over_ssh(sshd, 2)
    done = run(tmp_path, "--run", *hosts, "--cwd", str(tmp_path), "--", "nothing.py")
    assert done.returncode == 2
    said = done.stderr + done.stdout
    assert f"there is no nothing.py in {tmp_path}; put this folder there with --upload ." in said
    assert "node1 and node2" in said or "node0 and node1" in said


def test_a_program_restarts(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(FAILS_ONCE)
    done = run(tmp_path, "--run", "--local", "2", "--max-restarts", "1", "--", "train.py")
    assert done.returncode == 0, done.stderr
    assert "attempt 0 of 1" in done.stdout
    assert "attempt 1 of 1" in done.stdout
    (summary,) = (tmp_path / "runs").glob("*/summary.json")
    assert json.loads(summary.read_text())["script"] == ["train.py"]


def test_a_program_is_left_returned_to_and_stopped(sshd: Sshd, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(WAITS)
    hosts = over_ssh(sshd, 2)
    left = run(tmp_path, "--run", "--detach", *hosts, "--cwd", str(tmp_path), "--", "train.py")
    assert left.returncode == 0, left.stderr
    assert left_behind(tmp_path)
    back = launch(tmp_path, "last", command=("attach",))
    back.events("text")
    stopped = subprocess.run(
        [RANKBOARD, "stop", "last"], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert stopped.returncode == 0, stopped.stderr
    assert back.end() == 130


def test_a_program_that_fails_at_once_is_not_left(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("import argparse\nargparse.ArgumentParser().parse_args()\n")
    done = run(tmp_path, "--run", "--detach", "--local", "2", "--", "train.py", "--lr", "1")
    assert done.returncode == 1
    assert "unrecognized arguments: --lr 1 (exit code 2)" in done.stderr
    assert "sees no steps and no values" not in done.stderr
    folder = done.stderr.split("recorded in ")[1].strip()
    shown = run(tmp_path, "logs", folder)
    assert "[rank 1] train.py: error: unrecognized arguments: --lr 1" in shown.stdout


@pytest.mark.parametrize("holds_back", [False, True])
def test_printed_values_are_of_the_step_that_their_line_names(
    tmp_path: Path, holds_back: bool
) -> None:
    """Also if Python holds all lines back until the end."""
    (tmp_path / "train.py").write_text(COUNTS_FROM_0)
    command = ["train.py"]
    if holds_back:
        command = ["sh", "-c", f"env -u PYTHONUNBUFFERED {sys.executable} train.py"]
    done = run(tmp_path, "--run", "--local", "2", "--", *command)
    assert done.returncode == 0, done.stderr
    exported = run(tmp_path, "export", "last", "--to", "csv")
    assert exported.returncode == 0, exported.stderr
    (folder,) = (tmp_path / "exports" / "csv").glob("*/")
    rows = csv.DictReader((folder / "steps.csv").read_text().splitlines())
    steps = {int(row["step"]): row for row in rows if row["rank"] == "0"}
    metrics = [*csv.DictReader((folder / "metrics.csv").read_text().splitlines())]
    assert [int(row["step"]) for row in metrics] == [*range(1, 46, 5)]
    for row in metrics:
        step = steps[int(row["step"])]
        assert float(row["value"]) == pytest.approx(float(step["loss"]), abs=0.6e-4)
        assert float(row["time"]) == pytest.approx(float(step["time"]), abs=0.06)


LOGS = """
import os, sys
if os.environ["RANK"] == "0":
    with open("new.csv", "w") as file, open("old.csv", "a") as old:
        print("step,loss,beta", file=file)
        for step in range(10, 60, 10):
            print(f"{step},{1 / step},{step / 4}", file=file, flush=True)
        print("60,0.0,7.5,", file=old)
        file.write("60,0.5,15.0")
print("nothing to see")
"""


def test_files_that_a_program_writes_are_read(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(LOGS)
    (tmp_path / "old.csv").write_text("step,gamma,delta\n50,0.0,6.5\n")
    words = ("--local", "2", "--no-watch", "--follow", "*.csv", "--", "train.py")
    done = run(tmp_path, "--run", "--json", *words)
    assert done.returncode == 0, done.stderr
    events = [json.loads(line) for line in done.stdout.splitlines()]
    steps = [event for event in events if event["event"] == "step"]
    wanted = [(10 * n, 1 / (10 * n)) for n in range(1, 6)] + [(60, 0.5)]
    assert [(event["step"], event["loss"]) for event in steps] == wanted
    values = [event["values"] for event in events if event["event"] == "metrics"]
    betas = [value["beta"] for value in values if "beta" in value]
    assert betas == [2.5, 5.0, 7.5, 10.0, 12.5, 15.0]
    assert [value["delta"] for value in values if "delta" in value] == [7.5], "6.5 is older"
    assert "reads new.csv" in done.stderr
    (log,) = (tmp_path / "runs").glob("*/logs/rank-0.log")
    assert log.read_text() == "nothing to see\n"


def test_files_are_followed_of_a_program_alone(tmp_path: Path) -> None:
    done = run(tmp_path, "--run", "--local", "2", "--follow", "*.csv")
    assert done.returncode == 2
    assert "--follow is for your own script, which comes last, after --" in done.stderr


def test_a_file_in_a_folder_that_hosts_share_is_read_once(sshd: Sshd, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(LOGS)
    words = (*over_ssh(sshd, 2), "--cwd", str(tmp_path), "--no-watch", "--follow", "new.csv")
    done = run(tmp_path, "--run", "--json", *words, "--", "train.py")
    assert done.returncode == 0, done.stderr
    events = [json.loads(line) for line in done.stdout.splitlines()]
    steps = [event for event in events if event["event"] == "step"]
    assert [event["step"] for event in steps] == [10, 20, 30, 40, 50, 60]
    assert len({event["rank"] for event in steps}) == 1


PLACE = """
import os, sys
print("place", os.path.basename(os.getcwd()), os.environ["OUT"], *sys.argv[1:], flush=True)
"""


def test_each_rank_has_its_own_arguments_variables_and_folder(tmp_path: Path) -> None:
    for rank in range(2):
        (tmp_path / f"part{rank}").mkdir()
        (tmp_path / f"part{rank}" / "place.py").write_text(PLACE)
    line = ("OUT={host}-$RANK", "place.py", "--rank={rank}", "$WORLD_SIZE", "{x}")
    done = run(tmp_path, "--run", "--local", "2", "--cwd", "part{rank}", "--", *line)
    assert done.returncode == 0, done.stderr
    assert sorted(re.findall(r"place (.*)", done.stdout)) == [
        "part0 local-0 --rank=0 2 {x}",
        "part1 local-1 --rank=1 2 {x}",
    ]
