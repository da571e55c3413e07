"""One sshd that answers on all addresses 127.0.0.x, so that one machine provides as many hosts as a
benchmark needs.

Its users have an empty home, as start files of a shell would be measured too. Needs openssh-server.
"""

from __future__ import annotations

import getpass
import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from remote.cluster.hosts import Host

SSHD = shutil.which("sshd", path=f"{os.environ.get('PATH', '')}:/usr/sbin:/usr/local/sbin")
SERVER = """\
ListenAddress 0.0.0.0:{port}
HostKey {folder}/host
AuthorizedKeysFile {folder}/user.pub
PidFile none
UsePAM no
UseDNS no
StrictModes no
PasswordAuthentication no
KbdInteractiveAuthentication no
PermitRootLogin prohibit-password
PermitUserRC no
PrintMotd no
MaxStartups 1000
LogLevel ERROR
SetEnv HOME={folder}/far
"""
CLIENT = """\
Host *
  Port {port}
  User {user}
  IdentityFile {folder}/user
  IdentitiesOnly yes
  UserKnownHostsFile {folder}/known_hosts
  GlobalKnownHostsFile /dev/null
  StrictHostKeyChecking yes
  BatchMode yes
"""


@dataclass(frozen=True)
class Loopback:
    """The server's `folder` holds keys, configuration and homes; `ssh_config` is for programs that
    call ssh."""

    folder: Path
    port: int
    count: int

    @property
    def ssh_config(self) -> Path:
        """How ssh gets there."""
        return self.folder / "ssh_config"

    def address(self, index: int) -> str:
        """Of host number `index`, from 0."""
        return f"127.0.0.{index + 1}"

    def home(self, index: int) -> Path:
        """A folder of the host's own."""
        return self.folder / "hosts" / self.address(index)

    def hosts(self, slots: int = 1) -> tuple[Host, ...]:
        """All of them."""
        return tuple(
            Host(
                name=f"node{index + 1}",
                address=self.address(index),
                user=getpass.getuser(),
                port=self.port,
                identity_file=str(self.folder / "user"),
                known_hosts=str(self.folder / "known_hosts"),
                python=sys.executable,
                workdir=str(self.home(index)),
                slots=slots,
                timeout=60.0,
            )
            for index in range(self.count)
        )


@contextmanager
def loopback(folder: Path, count: int) -> Iterator[Loopback]:
    """The server, as long as this is."""
    if SSHD is None:
        raise SystemExit("needs OpenSSH's sshd: apt install openssh-server")
    if os.getuid() == 0:
        os.makedirs("/run/sshd", mode=0o755, exist_ok=True)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        found = Loopback(folder, free.getsockname()[1], count)
    _configure(found)
    command = [SSHD, "-D", "-E", str(folder / "sshd.log"), "-f", str(folder / "sshd_config")]
    with subprocess.Popen(command, start_new_session=True) as server:
        try:
            _wait(found.port)
            yield found
        finally:
            server.terminate()


def _configure(server: Loopback) -> None:
    folder = server.folder
    for name in ("host", "user"):
        subprocess.run(
            [
                "ssh-keygen",
                "-q",
                "-t",
                "ed25519",
                "-N",
                "",
                "-C",
                "bench",
                "-f",
                str(folder / name),
            ],
            check=True,
        )
    (folder / "far").mkdir()
    settings = SERVER.format(port=server.port, folder=folder)
    if b"persourcepenalties" not in _complaints(
        "PerSourcePenalties=no"
    ):  # of version 9.8 and later
        settings += "PerSourcePenalties no\n"
    (folder / "sshd_config").write_text(settings)
    server.ssh_config.write_text(
        CLIENT.format(port=server.port, user=getpass.getuser(), folder=folder)
    )
    key = (folder / "host.pub").read_text()
    known = (f"[{server.address(index)}]:{server.port} {key}" for index in range(server.count))
    (folder / "known_hosts").write_text("".join(known))
    for index in range(server.count):
        server.home(index).mkdir(parents=True)


def _complaints(option: str) -> bytes:
    command = [str(SSHD), "-t", "-f", "/dev/null", "-o", option]
    return subprocess.run(command, capture_output=True, check=False).stderr.lower()


def _wait(port: int) -> None:
    for _ in range(500):
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
            return
        except OSError:
            time.sleep(0.01)
    raise SystemExit("sshd did not start")
