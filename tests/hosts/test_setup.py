"""`rankboard setup`: what hosts have, environments that are made or brought to another version,
hosts that fall silent."""

from __future__ import annotations

import fcntl
import io
import json
import os
import re
import subprocess
import sys
import sysconfig
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import replace
from importlib import metadata
from pathlib import Path
from queue import SimpleQueue
from types import SimpleNamespace
from typing import Any
from venv import create

import pytest

from remote.cluster.hosts import Host
from remote.host_commands import setup
from remote.host_commands.setup import (
    PackageCondition,
    WantedPackages,
    inspect_hosts,
    install_packages,
)
from remote.transport import Channel, Program, ReachProgress, Transport
from remote.transport.local import LocalTransport
from remote.transport.ssh.transport import SshTransport
from tests.kit.agents import ROOT
from tests.kit.slow import slow
from tests.kit.sshd import Sshd
from training.agent import WHOLE
from training.agent.host_commands.environment import lacking
from tui.commands.setup import PhasePrinter, set_up
from tui.kit.exit import UsageError

PYTHON = os.path.realpath(sys.executable)
INDEX = "https://alice:hunter2/s3cret@index.example/simple"


def tiny(version: str, index: str = "") -> WantedPackages:
    return WantedPackages(("tinytorch",), (f"tinytorch=={version}",), index)


def index(folder: Path, *versions: str) -> str:
    """A package index with one package, `tinytorch`."""
    simple = folder / "simple" / "tinytorch"
    simple.mkdir(parents=True)
    for version in versions:
        info = f"tinytorch-{version}.dist-info"
        files = {
            "tinytorch/__init__.py": "",
            "tinytorch/version.py": f"__version__ = {version!r}\n",
            f"{info}/METADATA": f"Metadata-Version: 2.1\nName: tinytorch\nVersion: {version}\n",
            f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: "
            "py3-none-any\n",
        }
        with zipfile.ZipFile(simple / f"tinytorch-{version}-py3-none-any.whl", "w") as bundle:
            for name, text in files.items():
                bundle.writestr(name, text)
            bundle.writestr(
                f"{info}/RECORD", "".join(f"{name},,\n" for name in (*files, f"{info}/RECORD"))
            )
    (simple / "index.html").write_text(
        "".join(f'<a href="{wheel.name}">{wheel.name}</a>' for wheel in simple.glob("*.whl"))
    )
    return f"file://{folder}/simple"


def environment(workdir: Path, *paths: Path | str) -> Path:
    """An environment as `setup` makes it, but with the pip of one of these folders; its
    packages."""
    create(workdir / "venv", with_pip=False, symlinks=True)
    (packages,) = (workdir / "venv").glob("lib/python3*/site-packages")
    (packages / "pip.pth").write_text("\n".join(map(str, paths)))
    return packages


def here(workdir: Path, python: str = PYTHON) -> Host:
    return Host("node1", "127.0.0.1", python=python, workdir=str(workdir))


def looked(node: Host, wanted: WantedPackages, transport: Transport | None = None) -> str:
    (outlook,) = inspect_hosts(transport or LocalTransport(), (node,), wanted)
    return outlook.text


# Environments that are made -----------------------------------------------------------------------


BORROWED_PIP = f"""
import venv
from pathlib import Path

def borrow_pip(builder, context):
    (packages,) = Path(context.env_dir).glob("lib/python3*/site-packages")
    (packages / "pip.pth").write_text({sysconfig.get_path("purelib")!r})

venv.EnvBuilder._setup_pip = borrow_pip
"""
"""Saves `python -m venv` the installation of pip, which takes many seconds of CPU."""


def patched_python(folder: Path, patch: str) -> str:
    """A Python of which each process runs this code first."""
    (folder / "sitecustomize.py").write_text(patch)
    python = folder / "python"
    python.write_text(f'#!/bin/sh\nPYTHONPATH={folder} exec {PYTHON} "$@"\n')
    python.chmod(0o755)
    return str(python)


@pytest.mark.parametrize("patch", [BORROWED_PIP, pytest.param("", marks=slow)], ids=["", "own pip"])
def test_a_host_without_torch_gets_an_environment_once(
    patch: str,
    sshd: Sshd,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    (node,) = sshd.make_hosts(1)
    node = replace(node, python=patched_python(tmp_path, patch))
    venv = Path(node.workdir) / "venv"
    wanted = tiny("1.2", index(tmp_path, "1.2"))
    with monkeypatch.context() as terminal:
        terminal.setattr(sys, "stdin", io.StringIO("no\n"))
        with pytest.raises(UsageError, match="without a terminal; pass --yes"):
            set_up(SshTransport(), (node,), wanted, yes=False)
        terminal.setattr(sys.stdin, "isatty", lambda: True)
        terminal.setattr(sys.stderr, "isatty", lambda: True)
        assert set_up(SshTransport(), (node,), wanted, yes=False) == 2
    said = capsys.readouterr().err
    assert "has no tinytorch" in said
    assert f"on node1 into {venv}" in said
    assert not venv.exists()
    assert set_up(SshTransport(), (node,), wanted, yes=True) == 0
    told = capsys.readouterr()
    assert told.out == f'python = "{venv}/bin/python"\n'
    assert "installing 1 packages" in told.err
    assert "tinytorch 1.2" in told.err
    before = venv.stat().st_mtime_ns
    assert set_up(SshTransport(), (node,), wanted, yes=False) == 0
    assert venv.stat().st_mtime_ns == before
    assert "rankboard: nothing to install: 1 host has tinytorch\n" in capsys.readouterr().err
    (venv / "unfinished").touch()
    assert "has no tinytorch" in looked(node, wanted, SshTransport())


def test_a_host_that_can_make_no_environments_says_what_to_do(sshd: Sshd, tmp_path: Path) -> None:
    bare = patched_python(tmp_path, "import sys; sys.modules['ensurepip'] = None")
    (node,) = sshd.make_hosts(1)
    said = looked(
        replace(node, python=bare),
        WantedPackages(("tinytorch",), ("tinytorch",)),
        SshTransport(),
    )
    assert re.search(
        r"has no tinytorch, and its .* \(no ensurepip\): on Debian and Ubuntu, apt install "
        r"python3\.\d+-venv",
        said,
    )


# Other versions -----------------------------------------------------------------------------------


def test_an_environment_of_another_version_gets_the_wanted_one(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    where, transport = index(tmp_path, "1.2+cpu", "1.3+cpu"), LocalTransport()
    environment(tmp_path, sysconfig.get_path("purelib"))
    node, venv = here(tmp_path), f"{tmp_path}/venv/bin/python"
    advice = f'python = "{venv}"\n'
    assert set_up(transport, (node,), tiny("1.2", where), yes=True) == 0
    assert capsys.readouterr().out == advice
    assert f"has no tinytorch; {venv} has tinytorch 1.2+cpu instead of 1.3" in looked(
        node, tiny("1.3")
    )

    named = here(tmp_path, venv)  # as its hosts.toml has it now
    assert set_up(transport, (named,), tiny("1.2"), yes=False) == 0
    assert "has tinytorch 1.2+cpu" in capsys.readouterr().err
    assert set_up(transport, (named,), tiny("1.3", where), yes=True) == 0
    told = capsys.readouterr()
    assert (
        f"{venv} (Python {sys.version.split()[0]}) has tinytorch 1.2+cpu instead of 1.3\n"
        in told.err
    )
    assert "node1: tinytorch 1.3+cpu\n" in told.err
    assert told.out == ""  # it is named there already

    assert set_up(transport, (named,), tiny("1.4", where), yes=True) == 3
    assert "node1: pip says: Could not find a version" in capsys.readouterr().err
    assert (
        set_up(transport, (node,), tiny("1.3"), yes=False) == 0
    )  # what it had is as good as before
    assert capsys.readouterr().out == advice


@pytest.mark.parametrize(
    ("found", "wanted", "meets"),
    [
        ("2.14.1", "2.14.1", True),
        ("2.14.1+cpu", "2.14.1", True),
        ("2.14.1+cpu", "2.14.1+cpu", True),
        ("2.14.1+cu130", "2.14.1+cpu", False),
        ("2.13.0", "2.14.1", False),
        ("2.14.10", "2.14.1", False),
        ("2.14.0+cpu", "2.14", True),
        ("2.14.1", "2.14", False),
        ("2.14.1+cpu", "2.14.*", True),
        ("2.13.0", "", True),
        ("", "", False),
        ("", "2.14.1", False),
    ],
)
def test_versions_are_compared_as_pip_compares_them(found: str, wanted: str, meets: bool) -> None:
    requirement = f"torch=={wanted}" if wanted else "torch"
    assert lacking({"torch": found}, (requirement,)) == ({} if meets else {"torch": wanted})


PINNED = WantedPackages(("torch", "torchvision"), ("torch==2.14.1", "torchvision==0.29.1"))
OLD, NEW = (
    {"torch": "2.13.0+cpu", "torchvision": "0.28.0"},
    {"torch": "2.14.1+cpu", "torchvision": "0.29.1"},
)
NONE = {"torch": "", "torchvision": ""}
OUTDATED = "torch 2.13.0+cpu instead of 2.14.1 and torchvision 0.28.0 instead of 0.29.1"


@pytest.mark.parametrize(
    ("versions", "installed", "obstacle", "condition", "text"),
    [
        (
            NEW,
            OLD,
            "",
            PackageCondition.READY,
            "python3 (Python 3.12.3) has torch 2.14.1+cpu, torchvision 0.29.1",
        ),
        (
            OLD,
            NEW,
            "",
            PackageCondition.BUILT,
            "/w/venv/bin/python has torch 2.14.1+cpu, torchvision 0.29.1",
        ),
        (OLD, {}, "", PackageCondition.LACKING, f"python3 (Python 3.12.3) has {OUTDATED}"),
        (
            OLD,
            {},
            "no ensurepip",
            PackageCondition.HOPELESS,
            f"python3 (Python 3.12.3) has {OUTDATED}, and no ensurepip",
        ),
        (
            NONE,
            OLD,
            "no ensurepip",  # which an environment that is there does not need
            PackageCondition.LACKING,
            "python3 (Python 3.12.3) has no torch and no torchvision; /w/venv/bin/python has "
            f"{OUTDATED}",
        ),
    ],
)
def test_what_a_host_with_some_version_is_told(
    versions: dict[str, str],
    installed: dict[str, str],
    obstacle: str,
    condition: PackageCondition,
    text: str,
) -> None:
    found = {"executable": "/usr/bin/python3", "python": "3.12.3", "versions": versions}
    answer = found | {"venv": "/w/venv/bin/python", "installed": installed, "obstacle": obstacle}
    (cut,) = inspect_hosts(Stage([answer]), (NODE,), PINNED)
    assert (cut.condition, cut.text) == (PackageCondition.HOPELESS, "node1: its answer broke off")
    (outlook,) = inspect_hosts(Stage([answer, WHOLE]), (NODE,), PINNED)
    assert (outlook.condition, outlook.text) == (condition, f"node1: {text}")


# Hosts that fall silent ---------------------------------------------------------------------------

NODE = Host("node1", "127.0.0.1")


class Stage:
    """A transport to hosts that say these objects, and then end or, `open_end`, say nothing
    more."""

    def __init__(
        self,
        said: list[dict[str, Any]],
        *,
        open_end: bool = False,
        between: Callable[[], None] = lambda: None,
    ) -> None:
        self._said, self._open_end, self._between = said, open_end, between
        self._closed = SimpleQueue[bytes]()
        self._blocks = self._told()

    def open(self, _: Host, __: Program, progress: ReachProgress) -> Channel:
        progress.phase("starting")
        return self

    def _told(self) -> Iterator[bytes]:
        for one in self._said:
            yield json.dumps(one).encode() + b"\n"
            self._between()

    def read(self) -> bytes:
        return next(self._blocks, b"") or (self._closed.get() if self._open_end else b"")

    def write(self, data: bytes) -> None:
        pass

    def close(self) -> str:
        self._closed.put(b"")
        return ""


def test_a_host_that_does_not_say_what_it_has_is_given_up() -> None:
    (outlook,) = inspect_hosts(Stage([], open_end=True), (replace(NODE, timeout=0.05),), PINNED)
    assert outlook.condition is PackageCondition.HOPELESS
    assert outlook.text.startswith("node1: no answer within 0.05 s")


def test_an_installation_that_falls_silent_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(setup, "SILENT", 0.3)
    stage = Stage([{"phase": "getting torch.whl"}, {"busy": ""}], open_end=True)
    (done,) = install_packages(stage, (NODE,), PINNED, lambda *_: None)
    assert done.text.startswith(
        "node1: no answer within 0.3 s while getting torch.whl; see that it is up"
    )
    assert not done.venv


def test_what_is_shown_while_pip_is_quiet(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    clock = SimpleNamespace(now=0.0)
    monkeypatch.setattr(setup, "time", SimpleNamespace(monotonic=lambda: clock.now))
    said: list[dict[str, Any]] = [
        {"busy": ""},
        {"phase": "getting torch.whl"},
        {"bytes": 9, "of": 20},
        {"busy": ""},
        {"phase": "installing"},
    ]
    done = {"installed": {"torch": "2.14.1"}, "venv": "/w/venv/bin/python"}
    stage = Stage([*said, {"busy": ""}, done], between=lambda: setattr(clock, "now", clock.now + 4))
    told, lines = list[str](), PhasePrinter()

    def hear(host: Host, doing: str, figures: str) -> None:
        told.append(f"{doing} {figures}".strip())
        lines.hear(host, doing, figures)

    (installed,) = install_packages(stage, (NODE,), PINNED, hear)
    assert told == [
        "starting",
        "starting (0 s)",
        "getting torch.whl",
        "getting torch.whl 45% (4 s)",
        "getting torch.whl 45% (8 s)",
        "installing",
        "installing (4 s)",
    ]
    assert installed.text == "node1: torch 2.14.1"
    phases = [
        line.removeprefix("rankboard: node1: ") for line in capsys.readouterr().err.splitlines()
    ]
    assert phases == ["starting", "getting torch.whl", "installing"]


def test_an_installation_says_all_the_while_that_it_goes_on(tmp_path: Path) -> None:
    code = (
        "from training.agent.host_commands import environment, command_table; "
        "environment.BEAT = 0.01; "
        "command_table.main(['install', '.'])"
    )
    order = json.dumps({"requirements": ["tinytorch"], "packages": ["tinytorch"], "index": ""})
    with open(tmp_path / "venv.lock", "a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # another one is under way
        with subprocess.Popen(
            [sys.executable, "-c", code],
            cwd=tmp_path,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        ) as process:
            assert process.stdin
            assert process.stdout
            process.stdin.write(order.encode() + b"\n")
            process.stdin.flush()
            process.stdout.readline()  # the marker
            assert [json.loads(process.stdout.readline()) for _ in range(2)] == [{"busy": ""}] * 2
            process.stdin.close()  # nobody is there any more
            assert process.wait() == 1


# Passwords ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("says", "told"),
    [
        (
            "WARNING: Retrying (Retry(total=1)) after connection broken",
            "pip cannot reach https://index.example/simple from there",
        ),
        ("ERROR: 403 for {index}/torch/", "pip says: 403 for https://index.example/simple/torch/"),
        ("ERROR: " + "long " * 97 + "{index}", "pip says: " + "long " * 97 + "https://index."),
    ],
)
def test_a_password_in_the_address_of_an_index_is_shown_nowhere(
    says: str, told: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "pip").mkdir()
    line = says.format(index=INDEX)
    (tmp_path / "pip" / "__main__.py").write_text(
        f"print('pip 26.0'); print({line!r}); raise SystemExit(1)"
    )
    environment(tmp_path, tmp_path)
    assert set_up(LocalTransport(), (here(tmp_path),), tiny("1.2", INDEX), yes=True) == 3
    printed = "".join(capsys.readouterr())
    assert told in printed
    assert not any(part in printed for part in ("alice", "hunter2", "s3cret", "@"))


def test_a_launcher_without_torch_asks_for_no_version(monkeypatch: pytest.MonkeyPatch) -> None:
    def find_none(package: str) -> str:
        raise metadata.PackageNotFoundError(package)

    monkeypatch.setattr(metadata, "version", find_none)
    assert WantedPackages.of().requirements == ("torch", "torchvision")
    assert WantedPackages.of("2.14.1").requirements == ("torch==2.14.1", "torchvision")
