"""rankboard as its users install it, beside packages of theirs that have the names of our own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import venv
import zipfile
from email import message_from_bytes
from pathlib import Path

import pytest
from hatchling.metadata.core import ProjectMetadata
from hatchling.plugin.manager import PluginManager

from tests.conftest import ROOT
from tests.kit.labs import refused
from tests.kit.sshd import SSHD, Sshd

OUR_PACKAGES = ("tui", "training", "remote")
REPOSITORY_URL = "REPOSITORY_URL"
REPOSITORY = "https://forge.example.org/some/rankboard"
SCRIPT = f"""
import sys

import torch
import torch.distributed as dist

import training
from training import model

assert training.OWNER == "the user", training.__file__
for name in ("tui", "remote"):
    assert __import__(name).OWNER == "the user"
# A clone of the repository mostly has this name, too.
assert not any("rankboard" in path.removeprefix({str(ROOT)!r}) for path in sys.path), sys.path
dist.init_process_group("gloo")
network = torch.nn.parallel.DistributedDataParallel(model.make())
optimizer = torch.optim.SGD(network.parameters(), lr=0.1)
for _ in range(5):
    optimizer.zero_grad()
    network(torch.ones(3, 4)).sum().backward()
    optimizer.step()
print("trained by the package of", training.OWNER)
dist.destroy_process_group()
"""


PROGRAM = """
import training
import rankboard

run = rankboard.launch(local=2, script="train.py")
run.wait().check()
assert run.steps().num_rows == 10
assert rankboard.load(run.name).outcome == run.outcome

import remote
import tui
from training import model

for package in (training, remote, tui):
    assert package.OWNER == "the user", package.__file__
"""
"""A program of a user that imports its own packages before and after it uses rankboard."""


def write_neighbours(folder: Path) -> Path:
    """Packages of a user, with the names of ours."""
    for name in OUR_PACKAGES:
        (folder / name).mkdir(parents=True)
        (folder / name / "__init__.py").write_text('OWNER = "the user"\n')
    (folder / "training" / "model.py").write_text(
        "import torch\n\n\ndef make():\n    return torch.nn.Linear(4, 2)\n"
    )
    return folder


@pytest.fixture(scope="session")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The built wheel."""
    folder = tmp_path_factory.mktemp("wheel")
    words = ("wheel", "--quiet", "--no-deps", "--no-build-isolation", "--wheel-dir", str(folder))
    environment = os.environ | {REPOSITORY_URL: REPOSITORY}
    subprocess.run((sys.executable, "-m", "pip", *words, str(ROOT)), check=True, env=environment)
    (path,) = folder.glob("*.whl")
    return path


@pytest.fixture(scope="session")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The command of an environment in which the wheel is installed beside packages of a user, and
    which has the other packages of this one."""
    environment = tmp_path_factory.mktemp("environment")
    venv.create(environment, with_pip=False, symlinks=True)
    (packages,) = environment.glob("lib/python*/site-packages")
    python = environment / "bin" / "python"
    words = ("--python", str(python), "install", "--quiet", "--no-deps", "--no-index", str(wheel))
    subprocess.run((sys.executable, "-m", "pip", *words), check=True)
    # Behind its own packages; without what makes our checkout one of them.
    borrowed_folders = [path for path in sys.path if path.endswith("site-packages")]
    (packages / "borrowed.pth").write_text("\n".join(borrowed_folders) + "\n")
    write_neighbours(packages)
    return environment / "bin" / "rankboard"


@pytest.fixture(params=["wheel", "checkout"])
def command(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Path:
    """`rankboard` of the wheel or of the checkout, where all of the user's folders have such
    packages as well."""
    path = write_neighbours(tmp_path / "on_path")
    write_neighbours(tmp_path / "project")
    monkeypatch.setenv("PYTHONPATH", str(path))
    monkeypatch.chdir(tmp_path / "project")
    if request.param == "wheel":
        found: Path = request.getfixturevalue("installed")
        return found
    return Path(sys.executable).with_name("rankboard")


def run(command: Path, *words: str) -> str:
    done = subprocess.run(
        (command, *words), capture_output=True, text=True, timeout=180, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


def test_the_wheel_has_one_name(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        folders = {name.partition("/")[0] for name in archive.namelist()}
    assert {name for name in folders if not name.endswith(".dist-info")} == {"rankboard"}


def test_the_wheel_links_to_its_repository(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        (name,) = (name for name in archive.namelist() if name.endswith("/METADATA"))
        metadata = message_from_bytes(archive.read(name))
    links = dict(line.split(", ") for line in metadata.get_all("Project-URL", []))
    assert links["Repository"] == REPOSITORY
    for page in ("docs/index.md", "CHANGELOG.md"):
        assert f"{REPOSITORY}/blob/main/{page}" in links.values()
        assert (ROOT / page).is_file()


def test_only_an_address_that_a_browser_opens_is_a_link(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(REPOSITORY_URL, "git@forge.example.org:some/rankboard.git")
    with pytest.raises(ValueError, match="https://"):
        _ = ProjectMetadata(str(ROOT), PluginManager()).core
    monkeypatch.delenv(REPOSITORY_URL)
    assert ProjectMetadata(str(ROOT), PluginManager()).core.urls == {}


def test_the_wheel_says_what_it_has_and_needs(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        (name,) = (name for name in archive.namelist() if "/sboms/" in name)
        bill = json.loads(archive.read(name))
    product = bill["metadata"]["component"]
    assert (product["name"], product["licenses"]) == ("rankboard", [{"license": {"id": "MIT"}}])
    parts = {part["name"]: part for part in bill["components"]}
    assert parts["numpy"]["scope"] == "required"
    assert parts["torch"]["scope"] == "optional"
    assert "mypy" not in parts
    pinned = (ROOT / "constraints.txt").read_text().splitlines()
    assert f"torch=={parts['torch']['version']}" in pinned
    assert bill["dependencies"][0]["ref"] == product["bom-ref"]


def test_the_version_is_told(command: Path) -> None:
    assert run(command, "--version").startswith("rankboard ")
    installed_as = "checkout" if command.parent == Path(sys.executable).parent else "wheel"
    assert f", {installed_as} in " in run(command, "--info").splitlines()[0]


def test_a_job_runs_on_this_machine(command: Path) -> None:
    assert "finished" in run(command, "--local", "2", "--epochs", "1", "--run")


def test_a_script_gets_its_own_packages(command: Path) -> None:
    Path("train.py").write_text(SCRIPT)
    output = run(command, "--local", "2", "--run", "--", sys.executable, "train.py")
    assert output.count("trained by the package of the user") == 2


def test_an_import_leaves_the_packages_of_its_user_alone(command: Path) -> None:
    Path("train.py").write_text(SCRIPT)
    python = command.with_name("python")
    done = subprocess.run(
        (python, "-c", PROGRAM), capture_output=True, text=True, timeout=180, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_hosts_train_for_a_launcher_without_torch(
    command: Path, sshd: Sshd, tmp_path: Path
) -> None:
    for name in ("torch", "torchvision", "scipy"):
        (tmp_path / "on_path" / f"{name}.py").write_text(f"raise ImportError('no {name} here')\n")
    hosts_file = sshd.hosts_toml(sshd.make_hosts(2))
    assert "finished" in run(command, "--hosts", str(hosts_file), "--epochs", "1", "--run")


@pytest.mark.skipif(bool(refused()) or not SSHD, reason="no lab with sshd can be made here")
def test_a_lab_is_held_by_a_process_of_ours(
    command: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its process starts a module of ours, which has the name of a package of the user."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    run(command, "lab", "up", "--size", "2")
    assert "node2" in run(command, "lab", "status")
    run(command, "lab", "down")
