"""`rankboard lab`: hosts that stay, each with an sshd of its own; runs over SSH to them, faults,
and that nothing is left."""

from __future__ import annotations

import os
import re
import shlex
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import psutil
import pytest

from remote.cluster.hosts import Host
from remote.cluster.load import load
from remote.lab import logins, relay
from remote.lab.folder import Folder
from remote.lab.lab import LabState
from remote.lab.spec import LabError
from remote.transport import Unreachable
from remote.transport.ssh.transport import SshTransport
from tests.kit.labs import REPOSITORY, Traces, refused
from tests.kit.launches import LONG, QUICK, launch, run
from tests.kit.slow import slow
from tests.kit.sshd import SSHD
from tests.kit.standin import AN_AGENT, Heard
from tests.kit.wait import wait

NOBODY = 12345
"""A user who is in no list of users."""
IMPORTS = "import cyclopts, paramiko, torch, tui"

needs_lab = pytest.mark.skipif(
    bool(refused()) or not SSHD,
    reason=f"no lab with sshd can be made here: {refused() or 'install openssh-server'}",
)


@dataclass(frozen=True)
class Command:
    """`rankboard lab` as a certain user starts it, with this prefix, or as this one."""

    folder: Path
    prefix: tuple[str, ...] = ()

    def __call__(self, *words: str, code: int = 0) -> str:
        """What it prints on stdout, or on stderr where it is to fail."""
        done = self._run(*words) if self.prefix else run(self.folder, *words)
        assert done.returncode == code, done.stderr
        assert "Traceback" not in done.stderr
        return done.stderr if code else done.stdout

    def _run(self, *words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            (*self.prefix, *words),
            cwd=self.folder,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )

    def rows(self) -> list[list[str]]:
        """What `lab status` says of each host."""
        return [line.split() for line in self("lab", "status").splitlines()[1:]]


@pytest.fixture
def lab(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Command]:
    """The command, and no lab left behind, whatever the test did."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    yield Command(tmp_path)
    for folder in (tmp_path / "cache" / "rankboard" / "labs").glob("*"):
        Folder(folder.name).down()


def state(name: str = "lab") -> LabState:
    with Folder(name).lab() as found:
        return found.state


def known(name: str) -> Host:
    """A host as the lab's own hosts file has it."""
    (found,) = (one for one in load(Folder("lab").path / "hosts.toml").hosts if one.name == name)
    return found


def greeting(host: str) -> str:
    """What answers at the other end of a host's proxy command, or what the command says instead."""
    found = known(host)
    words = shlex.split(
        found.proxy_command.replace("%h", found.address).replace("%p", str(found.port))
    )
    pipe = subprocess.PIPE
    with subprocess.Popen(words, stdin=pipe, stdout=pipe, stderr=pipe, text=True) as relay:
        assert relay.stdout
        assert relay.stderr
        return relay.stdout.readline().strip() or relay.stderr.read().strip()


# Mistakes -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["status"], "no lab 'lab' is up: start it with rankboard lab up"),
        (["down"], "no lab 'lab' is up"),
        (
            ["cut", "3", "--name", "other"],
            "no lab 'other' is up: start it with rankboard lab up --name other",
        ),
        (["up", "--link", "fast"], "--link 'fast': give a number and a unit"),
        (["up", "--size", "0"], "a lab has 1 to 253 hosts, not 0"),
        (["up", "--hosts", "4"], "--hosts 4: the number of hosts is now --size 4"),
        (["up", "--name", "../x"], "--name '../x': give letters, digits, - and _"),
    ],
)
def test_mistakes(lab: Command, words: list[str], message: str) -> None:
    said = lab("lab", *words, code=2)
    assert said.startswith(f"rankboard: {message}")
    assert said.count("\n") == 1
    assert not list(lab.folder.iterdir())


def test_flags_of_a_run_before_the_command(lab: Command) -> None:
    assert lab("--local", "2", "--run", "lab", "status", code=2).startswith(
        "rankboard: --local, --run does not apply to lab; put options after the"
    )


def test_missing_sshd_is_said(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(logins, "PATH", str(tmp_path))
    with pytest.raises(LabError, match=r"need OpenSSH's sshd: apt install openssh-server"):
        logins.check()


def test_a_lab_that_is_up_is_named_in_what_to_write(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    for name, flag in (("lab", ""), ("other", " --name other")):
        with Folder(name).held(), pytest.raises(LabError) as caught, Folder(name).held():
            pass
        assert (
            f"(rankboard lab status{flag} shows it): stop it with rankboard lab down{flag}, or"
            in str(caught.value)
        )
        made = logins.hosts_toml(Folder(name).path, ())
        assert made.splitlines()[0].endswith(f"Made by: rankboard lab up{flag}")
        words = [sys.executable, relay.__file__, str(Folder(name).path), "10.10.1.1", "22"]
        relayed = subprocess.run(words, capture_output=True, text=True, check=False)
        assert relayed.stderr == f"this lab is not up: start it with rankboard lab up{flag}\n"


# A life of a lab ----------------------------------------------------------------------------------


@needs_lab
def test_hosts_over_ssh(lab: Command) -> None:
    """Of a run on them, see `tests/faults/test_link.py`."""
    printed = lab("lab", "up", "--cpus", "0.5")
    traces, folder = Traces.of(state()), Folder("lab").path
    assert (folder / "hosts.toml").read_text() == printed
    assert folder.stat().st_mode & 0o777 == 0o700
    hosts = load(folder / "hosts.toml").hosts
    assert [(host.name, host.address, host.threads) for host in hosts] == [
        (f"node{i}", f"10.10.1.{i}", 1) for i in (1, 2, 3, 4)
    ]
    assert [row[:5] for row in lab.rows()] == [
        [host.name, host.address, "1gbit", "up", "up"] for host in hosts
    ]
    done = run(lab.folder, "doctor", "--hosts", str(folder / "hosts.toml"))
    assert done.returncode == 0, done.stdout
    assert re.search(r"connect +✓ \d+\.\d ms", done.stdout), "each reaches the others"
    assert all((folder / host.name / ".rankboard" / "code").is_dir() for host in hosts)
    assert "is up already" in lab("lab", "up", code=2)
    lab("lab", "down")
    traces.assert_gone()
    assert not folder.exists()


@needs_lab
def test_faults(lab: Command) -> None:
    lab("lab", "up", "--size", "2", "--link", "1gbit,100mbit")
    assert greeting("node2").startswith("SSH-2.0")
    lab("lab", "rate", "node2", "2.5gbit")
    lab("lab", "cut", "1")
    assert [row[2:5] for row in lab.rows()] == [["1gbit", "down", "up"], ["2.5gbit", "up", "up"]]
    assert "No route to host" in greeting("node1")
    lab("lab", "heal", "1")
    wait(lambda: greeting("node1").startswith("SSH-2.0"), "an sshd")
    with Folder("lab").lab() as made:
        logins.stop(Folder("lab").path, made, "node2")
    assert [row[4] for row in lab.rows()] == ["up", "down"]
    assert greeting("node2") == "10.10.1.2:22 in the lab: Connection refused"
    with pytest.raises(Unreachable) as caught:
        SshTransport().open(replace(known("node2"), timeout=1.0), AN_AGENT, Heard())
    assert str(caught.value).startswith(
        "node2: 10.10.1.2:22 hung up before the login; its proxy_command says: 10.10.1.2:22 in the"
    )
    with Folder("lab").lab() as made:
        with pytest.raises(LabError, match="the sshd of node2 is down already"):
            logins.stop(Folder("lab").path, made, "node2")
        logins.start(Folder("lab").path, made, "node2")
    assert greeting("node2").startswith("SSH-2.0")
    assert (
        lab("lab", "cut", "3", code=2)
        == "rankboard: no host 'node3' in the lab: the hosts are node1, node2\n"
    )
    assert lab("lab", "rate", "2", "fast", code=2).startswith(
        "rankboard: 'fast': give a number and a unit"
    )


@slow
@needs_lab
def test_kill_of_the_daemon_leaves_nothing(lab: Command) -> None:
    lab("lab", "up", "--size", "2", "--cpus", "1")
    traces, folder = Traces.of(state()), Folder("lab").path
    running = launch(lab.folder, "--hosts", str(folder / "hosts.toml"), *LONG)
    running.events("step", 2)
    (daemon,) = (process for process in psutil.process_iter() if is_daemon(process, folder))
    daemon.kill()
    traces.assert_gone(groups=False)
    assert running.end() == 3
    assert greeting("node1") == "this lab is not up: start it with rankboard lab up"
    assert "no lab 'lab' is up" in lab("lab", "status", code=2)
    lab("lab", "up", "--size", "1")
    assert not (folder / "node2").exists()
    lab("lab", "down")
    traces.assert_gone()


def is_daemon(process: psutil.Process, folder: Path) -> bool:
    """Whether the process holds the lock of the lab's folder."""
    try:
        return str(folder / "lock") in (file.path for file in process.open_files())
    except psutil.Error:
        return False


@needs_lab
def test_what_a_dead_lab_has_left_can_be_removed(lab: Command) -> None:
    lab("lab", "up", "--size", "1")
    folder = Folder("lab").path
    (daemon,) = (process for process in psutil.process_iter() if is_daemon(process, folder))
    daemon.kill()
    lab("lab", "down")
    assert not folder.exists()


@needs_lab
def test_two_labs(lab: Command) -> None:
    lab("lab", "up", "--size", "1")
    lab("lab", "up", "--size", "1", "--name", "other")
    traces = Traces.of(state("other"))
    assert traces.spaces.isdisjoint(Traces.of(state()).spaces)
    lab("lab", "down", "--name", "other")
    traces.assert_gone()
    assert greeting("node1").startswith("SSH-2.0")


@needs_lab
def test_a_lab_that_ends_takes_its_daemon_along(lab: Command) -> None:
    lab("lab", "up", "--size", "1")
    os.kill(state().space.pid, signal.SIGKILL)
    wait(lambda: not Folder("lab").path.exists(), "the end of the lab")


# An ordinary user ---------------------------------------------------------------------------------


@pytest.fixture
def ordinary(monkeypatch: pytest.MonkeyPatch) -> Iterator[Command]:
    """The command for a user who is not root, with the same packages where this user can read
    them."""
    if os.geteuid():
        pytest.skip("it is an ordinary user who runs the tests: all the others show it")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        python = _environment(folder)
        os.chown(folder, NOBODY, NOBODY)
        monkeypatch.setenv("XDG_CACHE_HOME", f"{folder}/.cache")
        change = ("setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups")
        be = (*change, "env", "-i", f"HOME={folder}", "PATH=/usr/bin:/bin", python, "-c")
        if subprocess.run((*be, IMPORTS), cwd=folder, capture_output=True, check=False).returncode:
            pytest.skip(
                f"an ordinary user can read neither {sys.executable} nor the same version in "
                "/usr/bin, or not its packages"
            )
        yield Command(folder, (*be, "from tui import main; main()"))
        if Folder("lab").path.exists():
            Folder("lab").down()


def _environment(folder: Path) -> str:
    """The Python of a new environment with this one's packages, made by one that more than root may
    run."""
    version = f"python{sys.version_info[0]}.{sys.version_info[1]}"
    system = f"/usr/bin/{version}"
    maker = system if os.path.exists(system) else sys.executable
    subprocess.run([maker, "-m", "venv", "--without-pip", str(folder / "venv")], check=True)
    paths = [path for path in sys.path if path.endswith("-packages")]
    (folder / "venv" / "lib" / version / "site-packages" / "here.pth").write_text(
        "\n".join((*paths, str(REPOSITORY)))
    )
    return str(folder / "venv" / "bin" / "python")


@slow
@needs_lab
def test_run_by_an_ordinary_user(ordinary: Command) -> None:
    ordinary("lab", "up", "--size", "2", "--link", "100mbit")
    traces, folder = Traces.of(state()), Folder("lab").path
    assert folder.stat().st_uid == NOBODY
    assert [row[:5] for row in ordinary.rows()] == [
        [f"node{i}", f"10.10.1.{i}", "100mbit", "up", "up"] for i in (1, 2)
    ]
    ordinary("--run", "--hosts", f"{folder}/hosts.toml", *QUICK, "--steps", "3")
    ordinary("lab", "down")
    traces.assert_gone()
    assert not folder.exists()
