"""The archive of a report repeats its studies where it is unpacked: its commands are entered there,
in a shell, with --dry-run."""

from __future__ import annotations

import json
import os
import re
import subprocess
import zipfile
from collections.abc import Callable
from dataclasses import replace
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest
import tomllib

from remote.plan.plan import Plan, Upload
from remote.study.folder import RunEnded, TrialOutcome
from remote.study.study_file import read_bundled_studies
from tests.kit.commands import Done, run
from tests.kit.launches import RANKBOARD
from tests.kit.recorded import recorded
from tests.kit.studies import history, study
from tui.commands.report import report

Run = Callable[..., Done]
assert run  # the fixture

BATCHES = """
title = "Batches"
repetitions = 1
[job]
model = "lenet5"
dataset = "digits"
"weight-decay" = 0.25
steps = 7
[axes]
method = [
    { label = "a \\"quoted\\" ring", sync = "ring", bucket_mb = 1 },
    { label = "ddp", sync = "ddp" },
]
batch_size = [64, 256]
[[cell]]
label = "one node"
sync = "none"
nodes = 1
[quick]
job = { epochs = 1, weight_decay = 0.5 }
"""
SCRIPT = """
repetitions = 1
[base]
script = "part3/main.py --lr {lr}"
[axes]
lr = [0.1, 1e-3]
nodes = [1, 2]
"""
GIVEN: dict[str, object] = {
    "model": "lenet5",
    "dataset": "digits",
    "batch_size": 96,
    "data_dir": "/home/ada/data",
}


@pytest.fixture(autouse=True)
def no_pictures(monkeypatch: pytest.MonkeyPatch) -> None:
    from tests.unit.tui.report.test_report import NO_PICTURE

    monkeypatch.setattr("tui.report.write.render", lambda _: NO_PICTURE)


def unpack(name: str, folder: Path) -> Path:
    """Unpack the archive of a report into an empty folder."""
    with zipfile.ZipFile(f"report-{name}/report-{name}.zip") as archive:
        archive.extractall(folder)
    return folder / f"report-{name}"


def commands(unpacked: Path) -> list[str]:
    """The commands of the README."""
    return re.findall(r"^    (.*rankboard .*)$", (unpacked / "README.md").read_text(), re.M)


def list_runs(unpacked: Path, command: str) -> list[dict[str, Any]]:
    """Enter a command as it is, with --dry-run --json, and return the runs that it would make."""
    dry = command.replace(" study ", " study --dry-run --json ")
    empty = unpacked.parent / "home"
    empty.mkdir(exist_ok=True)
    path = f"{Path(RANKBOARD).parent}:{os.environ['PATH']}"
    environment = os.environ | {"PATH": path, "HOME": str(empty)}
    done = subprocess.run(
        ["sh", "-c", dry], cwd=unpacked, env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def list_jobs(unpacked: Path, command: str) -> list[tuple[str, int]]:
    """The settings and the repetition of each run, without the folder of the data."""
    jobs = []
    for one in list_runs(unpacked, command):
        job = {key: value for key, value in one["job"].items() if key != "data_dir"}
        jobs.append((json.dumps(job | one["cell"], sort_keys=True), one["repetition"]))
    return sorted(jobs)


def private(plan: Plan) -> Plan:
    """The plan on hosts that ada reaches in a way of her own."""
    hosts = (
        replace(host, user="ada", identity_file="~/.ssh/thesis", threads=2, interface="eth1")
        for host in plan.hosts
    )
    return replace(plan, hosts=tuple(hosts))


@pytest.mark.parametrize("name", ["four-ways-quick", "four-ways-quick-20261129-201445"])
def test_a_bundled_study_with_options_of_its_own(run: Run, tmp_path: Path, name: str) -> None:
    """Also one that --new has kept under a name of which there is no bundled study."""
    text = read_bundled_studies()["four-ways"]
    _, made = study(
        tmp_path / "runs",
        text,
        lambda _: 0.1,
        places={"hosts": str(tmp_path / "hosts.toml")},
        name=name,
        given=GIVEN,
        quick=True,
        num_hosts=4,
        on_hosts=private,
    )
    assert run(report, names=[name], submission=True).returncode == 0
    unpacked = unpack(name, tmp_path / "empty")
    [command] = commands(unpacked)
    assert command == (
        f"rankboard study configuration/{name}.toml --hosts configuration/hosts.toml"
    )
    runs = list_runs(unpacked, command)
    assert len(runs) == len(made.trials())
    for one in runs:
        assert one["job"]["batch_size"] == 96
        assert (one["job"]["model"], one["job"]["dataset"]) == ("lenet5", "digits")
        assert (one["job"]["steps"], one["job"]["limit"]) == (8, 512)
    assert {one["cell"]["method"] for one in runs} == {cell.label("method") for cell in made.cells}

    readme = (unpacked / "README.md").read_text()
    assert f"repeat it with rankboard {metadata.version('rankboard')}" in readme
    assert "was left out of configuration/hosts.toml: user, identity\\_file." in readme
    assert "add --data-dir with yours" in readme
    for path in (unpacked / "configuration").glob("*.toml"):
        assert not re.search("ada|thesis", path.read_text())
    hosts = tomllib.loads((unpacked / "configuration/hosts.toml").read_text())
    assert hosts["defaults"] == {"threads": 2, "interface": "eth1"}
    assert [host["address"] for host in hosts["host"]] == [f"127.0.0.{n}" for n in range(1, 5)]


@pytest.mark.parametrize("quick", [False, True])
def test_a_study_of_ones_own_makes_the_same_runs(run: Run, tmp_path: Path, quick: bool) -> None:
    """What it varies, what --quick changes and what the command line gave."""
    given = {"lr": 0.03, "momentum": 0.5}
    _, made = study(
        tmp_path / "runs",
        BATCHES.replace("[axes]", "nodes = 2\n[axes]"),
        lambda _: 0.1,
        places={"local": 2, "nodes": 2, "link": "1gbit"},
        name="batches",
        given=given,
        quick=quick,
    )
    assert run(report, names=["batches"], submission=True).returncode == 0
    unpacked = unpack("batches", tmp_path / "empty")
    [command] = commands(unpacked)
    assert command == (
        "rankboard study configuration/batches.toml --local 2 --num-hosts 2 --link 1gbit"
    )
    assert not (unpacked / "configuration/hosts.toml").exists()

    own = tmp_path / "own"
    own.mkdir()
    (own / "batches.toml").write_text(BATCHES.replace("[axes]", "nodes = 2\n[axes]"))
    original = "rankboard study batches.toml --local 2 --link 1gbit --lr 0.03 --momentum 0.5"
    expected = list_jobs(own, f"{original} --quick" if quick else original)
    assert list_jobs(unpacked, command) == expected
    assert len(expected) == len(made.trials())


def test_a_study_of_a_script(run: Run, tmp_path: Path) -> None:
    """The script is where the study finds it, and is uploaded from there."""
    project = tmp_path / "project"
    (project / "part3").mkdir(parents=True)
    (project / "part3" / "main.py").write_text("print('mine')")
    upload = Upload(str(project / "part3"), "part3")
    study(
        tmp_path / "runs",
        SCRIPT,
        lambda _: 0.1,
        name="hosts",  # whose file is hosts.toml
        on_hosts=lambda plan: replace(plan, uploads=(upload,), project="p"),
    )
    assert run(report, names=["hosts"], submission=True).returncode == 0
    unpacked = unpack("hosts", tmp_path / "empty")
    [command] = commands(unpacked)
    assert command == (
        "(cd code && rankboard study ../configuration/hosts.toml "
        "--hosts ../configuration/hosts-hosts.toml)"
    )
    assert len(list_runs(unpacked, command)) == 4
    assert (unpacked / "code/part3/main.py").read_text() == "print('mine')"
    hosts = tomllib.loads((unpacked / "configuration/hosts-hosts.toml").read_text())
    assert hosts["cluster"]["sync"] == ["../code"]
    assert "put what it imports or reads beside it" in (unpacked / "README.md").read_text()


def test_hosts_of_runs_that_failed_are_there(run: Run, tmp_path: Path) -> None:
    """Only the run on one node counts; those on two failed, and no run was made on three."""
    text = "repetitions = 1\n[job]\nsteps = 3\n[axes]\nnodes = [1, 2, 3]\nsync = ['ring']\n"
    folder, made = study(
        tmp_path / "runs",
        text,
        lambda _: 0.1,
        failed=lambda trial: "" if trial.cell.place.nodes == 1 else "no torch",
    )
    two_nodes = next(trial for trial in made.trials() if trial.cell.place.nodes == 2)
    recorded(tmp_path / "runs", history(two_nodes, 0.1, "20261124-two"))
    folder.write(RunEnded(two_nodes.key, "20261124-two", TrialOutcome.FAILED, cause="no torch"))
    assert run(report, names=["small"], submission=True).returncode == 0
    unpacked = unpack("small", tmp_path / "empty")
    hosts = tomllib.loads((unpacked / "configuration/hosts.toml").read_text())["host"]
    assert [host["name"] for host in hosts] == ["node1", "node2"]
    readme = (unpacked / "README.md").read_text()
    assert "configuration/hosts.toml has 2 of 3 hosts" in readme


def test_studies_on_other_hosts_have_a_hosts_file_each(run: Run, tmp_path: Path) -> None:
    def elsewhere(plan: Plan) -> Plan:
        hosts = (replace(host, address=f"{host.name}.example.org") for host in plan.hosts)
        return replace(plan, hosts=tuple(hosts))

    text = "repetitions = 1\n[job]\nsteps = 3\nnodes = 2\n[axes]\nsync = ['ring']\n"
    for name, on_hosts in (("one", private), ("two", private), ("three", elsewhere)):
        study(tmp_path / "runs", text, lambda _: 0.1, name=name, on_hosts=on_hosts)
    for names, hosts_files in (
        (["one", "two"], ["hosts.toml", "hosts.toml"]),
        (["one", "three"], ["one-hosts.toml", "three-hosts.toml"]),
    ):
        assert run(report, names=names, out=Path("-".join(names)), submission=True).returncode == 0
        with zipfile.ZipFile(f"{'-'.join(names)}/{'-'.join(names)}.zip") as archive:
            files = {Path(name).name for name in archive.namelist() if name.endswith("hosts.toml")}
            readme = archive.read(f"{'-'.join(names)}/README.md").decode()
        assert files == {*hosts_files}
        for name, hosts_file in zip(names, hosts_files, strict=True):
            command = f"configuration/{name}.toml --hosts configuration/{hosts_file}"
            assert command in readme
