"""A real OpenSSH server on 127.0.0.1 to 127.0.0.4 for tests: the fixture `sshd` gives an `Sshd`.

    def test_something(sshd: Sshd) -> None:
        hosts = sshd.make_hosts(4, slots=1)  # node1 … node4, each with its own work folder
        path = sshd.hosts_toml(hosts)                 # a hosts.toml that says the same
        sshd.node("node2").cut()  # kill node2's connections; what runs there lives on
        sshd.node("node2").stop()                     # and refuse new ones, until start()

Four daemons (one process per address, each with a host key of its own) serve all tests of a pytest
process; they accept only the user who runs the tests. For each test HOME is a fresh folder with
`.ssh/id_ed25519` and `.ssh/known_hosts` in it (`sshd.home`), and no ssh-agent is known. The far
side's HOME is another fresh folder (`sshd.far_home`: put a `.bashrc` there, or find
`~/.rankboard`), so that neither side sees the real one. The far side has the system's PATH: hosts
name this Python. Processes that a test starts through it are the test's to end. Tests skip where
OpenSSH's sshd is not installed.
"""

from __future__ import annotations

import getpass
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import psutil
import pytest

from remote.cluster.hosts import Host, host_keys
from tests.kit.wait import GUARD

SSHD = shutil.which("sshd", path=f"{os.environ.get('PATH', '')}:/usr/sbin:/usr/local/sbin")
ADDRESSES = ("127.0.0.1", "127.0.0.2", "127.0.0.3", "127.0.0.4")

CONFIG = """\
HostKey {folder}/{address}
AuthorizedKeysFile {folder}/authorized_keys
PidFile none
UsePAM no
UseDNS no
StrictModes no
PasswordAuthentication no
KbdInteractiveAuthentication no
PubkeyAuthentication yes
PermitRootLogin prohibit-password
PermitUserRC no
PrintMotd no
AllowTcpForwarding yes
MaxStartups 200
MaxSessions 10
LogLevel VERBOSE
SetEnv HOME={far_home}
"""


class Daemon:
    """One sshd process: one host."""

    def __init__(self, folder: Path, address: str, settings: dict[str, str]) -> None:
        self.address, self.port = address, 0
        self._settings = settings
        self.log = folder / f"{address}.log"
        self._config = folder / f"{address}.conf"
        self._process: subprocess.Popen[bytes] | None = None
        self._inside: tuple[str, ...] = ()
        keygen(folder / address)
        self.public_key = (folder / f"{address}.pub").read_text().rsplit(" ", 1)[0]

    @property
    def pid(self) -> int:
        """The process, while it runs."""
        assert self._process
        return self._process.pid

    def start(self, inside: tuple[str, ...] = (), **settings: str) -> None:
        """Listen, on the port of last time where there was one. `settings` change the configuration
        (`MaxStartups="1"`); `inside` is a command that ends by becoming the one behind it."""
        self._inside = inside
        for _ in range(5):
            port = self.port or free_port(self.address)
            lines = self._settings | settings | {"ListenAddress": f"{self.address}:{port}"}
            self._config.write_text("".join(f"{key} {value}\n" for key, value in lines.items()))
            if self._listens(port):
                self.port = port
                return
        raise RuntimeError(f"sshd did not start on {self.address}: {self.log.read_text()}")

    def _listens(self, port: int) -> bool:
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                [*self._inside, str(SSHD), "-D", "-e", "-f", str(self._config)],
                stdin=subprocess.DEVNULL,
                stderr=log,
                start_new_session=True,
            )
        deadline = time.monotonic() + 10
        while self._process.poll() is None and time.monotonic() < deadline:
            try:
                with socket.create_connection((self.address, port), timeout=1) as sock:
                    return sock.recv(4) == b"SSH-"
            except OSError:
                time.sleep(0.01)
        self.stop()
        return False

    def connections(self) -> list[psutil.Process]:
        """The processes of sshd that serve connections (not the commands that they run)."""
        if self._process is None:
            return []
        try:
            family = psutil.Process(self._process.pid).children(recursive=True)
            return [process for process in family if process.name().startswith("sshd")]
        except psutil.NoSuchProcess:
            return []

    def cut(self) -> None:
        """Kill the connections that are open now."""
        for process in (found := self.connections()):
            with suppress(psutil.NoSuchProcess):
                process.kill()
        deadline = time.monotonic() + 10
        while any(map(_runs, found)) and time.monotonic() < deadline:
            time.sleep(0.005)

    def stop(self) -> None:
        """Kill the daemon and its connections."""
        if self._process is None:
            return
        self._process.send_signal(signal.SIGSTOP)  # no new connection slips in between
        self.cut()
        self._process.kill()
        self._process.wait(10)
        self._process = None


def _runs(process: psutil.Process) -> bool:
    """Whether a process is more than a zombie, which its parent may be slow to collect."""
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


@contextmanager
def small_disk(daemon: Daemon, folder: str, size: str) -> Iterator[Path]:
    """The host with a disk of this size (as mount takes it) at the folder, which only it sees;
    gives where that is for us.

    It is gone with the end. Skips where nothing may be mounted.
    """
    os.makedirs(folder)
    mounted = (
        "unshare",
        "-m",
        "sh",
        "-c",
        'mount -t tmpfs -o "size=$0,mode=700" tmpfs "$1" && shift && exec "$@"',
        size,
        folder,
    )
    if subprocess.run((*mounted, "true"), capture_output=True, check=False).returncode:
        pytest.skip("nothing can be mounted here: that takes root")
    daemon.stop()
    try:
        daemon.start(mounted)
        yield Path(f"/proc/{daemon.pid}/root{folder}")
    finally:
        daemon.stop()
        daemon.start()


class Sshd:
    """The four hosts as one test sees them."""

    def __init__(
        self, daemons: dict[str, Daemon], home: Path, far_home: Path, workdirs: Path
    ) -> None:
        self.daemons, self.home, self.far_home = daemons, home, far_home
        self.known_hosts = home / ".ssh" / "known_hosts"
        self._workdirs = workdirs

    def make_hosts(self, count: int, slots: int = 1) -> tuple[Host, ...]:
        """`count` hosts node1, node2, …; beyond the fourth the machines come round again, with
        other work folders."""
        nodes = [self.daemons[ADDRESSES[i % len(ADDRESSES)]] for i in range(count)]
        return tuple(
            Host(
                name=f"node{i}",
                address=node.address,
                user=getpass.getuser(),
                port=node.port,
                python=sys.executable,
                workdir=str(self._workdirs / f"node{i}"),
                slots=slots,
                timeout=GUARD,
            )
            for i, node in enumerate(nodes, start=1)
        )

    def node(self, name: str) -> Daemon:
        """The daemon behind the host of this name."""
        return self.daemons[ADDRESSES[(int(name.removeprefix("node")) - 1) % len(ADDRESSES)]]

    def hosts_toml(
        self, hosts: tuple[Host, ...], name: str = "hosts.toml", **cluster: object
    ) -> Path:
        """A hosts file that says the same as `hosts`, and these words of the cluster."""
        tables = [
            "[cluster]",
            'name = "test"',
            *(f"{key} = {json.dumps(value)}" for key, value in cluster.items()),
        ]
        for host in hosts:
            said = {field.name: getattr(host, field.name) for field in host_keys()}
            tables += [
                "",
                "[[host]]",
                *(
                    f"{key} = {_toml(value)}"
                    for key, value in said.items()
                    if value not in ("", 0, ())
                ),
            ]
        path = self._workdirs / name
        path.write_text("\n".join(tables) + "\n")
        return path


def _toml(value: object) -> str:
    """A value as TOML: pairs make an inline table."""
    if isinstance(value, tuple) and not isinstance(value[0], str):
        return "{ " + ", ".join(f"{name} = {json.dumps(text)}" for name, text in value) + " }"
    return json.dumps(value)


def keygen(path: Path, *words: str) -> None:
    """Make a key pair without a passphrase (unless `words` give one with -N)."""
    words = words if "-N" in words else (*words, "-N", "")
    subprocess.run(
        ["ssh-keygen", "-q", "-t", "ed25519", "-C", "test", "-f", str(path), *words], check=True
    )


def free_port(address: str) -> int:
    """A port that was free on the address a moment ago."""
    with socket.socket() as sock:
        sock.bind((address, 0))
        return int(sock.getsockname()[1])


@pytest.fixture(scope="session")
def daemons(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, dict[str, Daemon]]]:
    """The folder with the keys, and the daemons by address."""
    if SSHD is None or shutil.which("ssh-keygen") is None:
        pytest.skip("no sshd here: install openssh-server to run the tests over real SSH")
    if os.getuid() == 0:
        os.makedirs("/run/sshd", mode=0o755, exist_ok=True)
    folder = tmp_path_factory.mktemp("sshd")
    (folder / "far_home").mkdir()
    keygen(folder / "id_ed25519")
    shutil.copy(folder / "id_ed25519.pub", folder / "authorized_keys")
    nodes: dict[str, Daemon] = {}
    try:
        for address in ADDRESSES:
            nodes[address] = Daemon(folder, address, _settings(folder, address))
            nodes[address].start()
        yield folder, nodes
    finally:
        for node in nodes.values():
            node.stop()


def _settings(folder: Path, address: str) -> dict[str, str]:
    lines = CONFIG.format(folder=folder, address=address, far_home=folder / "far_home").splitlines()
    # sshd 9.8 and later locks out an address from which logins fail, as tests do on purpose
    words = [str(SSHD), "-t", "-f", "/dev/null", "-o", "PerSourcePenalties=no"]
    if (
        b"persourcepenalties"
        not in subprocess.run(words, capture_output=True, check=False).stderr.lower()
    ):
        lines.append("PerSourcePenalties no")
    return dict(line.split(" ", 1) for line in lines)


@pytest.fixture
def sshd(
    daemons: tuple[Path, dict[str, Daemon]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Sshd]:
    """Four hosts over real SSH; see the module's docstring."""
    folder, nodes = daemons
    ssh = tmp_path / "home" / ".ssh"
    ssh.mkdir(parents=True, mode=0o700)
    shutil.copy(folder / "id_ed25519", ssh)
    lines = [f"[{node.address}]:{node.port} {node.public_key}\n" for node in nodes.values()]
    (ssh / "known_hosts").write_text("".join(lines))
    monkeypatch.setenv("HOME", str(ssh.parent))
    monkeypatch.delenv("SSH_AUTH_SOCK", raising=False)
    yield Sshd(nodes, ssh.parent, folder / "far_home", tmp_path)
    for node in nodes.values():
        node.cut()
    shutil.rmtree(folder / "far_home")
    (folder / "far_home").mkdir()
