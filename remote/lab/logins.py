"""The SSH side of a long-living lab: an sshd on every host, the keys, and the hosts file that leads
there.

sshd wants to be root or the only user it lets in, and a lab's root may change to nobody else. So it
runs in a user namespace below the lab's, as an ordinary user of a name of its own, whose
/etc/passwd says that home is a folder of that host.
"""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
import sys
import time
from pathlib import Path

from remote.cluster.hosts import Host
from remote.lab import relay
from remote.lab.lab import Lab, LabHost
from remote.lab.namespaces import PATH
from remote.lab.spec import LabError, flag

USER = "rankboard"
PORT = 22
STARTING = 10.0
"""Seconds that an sshd has to start or stop listening."""
KEY = "id_ed25519"
KNOWN = "known_hosts"
HOSTS = "hosts.toml"
SSHD = "sshd"
"""In the lab's folder: the operator's key, the hosts' keys, the hosts file, and a folder for what
the sshds need."""
CONFIG = """\
ListenAddress {address}
Port {port}
HostKey "{folder}/{name}.key"
AuthorizedKeysFile "{folder}/authorized_keys"
PidFile "{folder}/{name}.pid"
UsePAM no
UseDNS no
StrictModes no
PasswordAuthentication no
KbdInteractiveAuthentication no
PermitUserRC no
PrintMotd no
MaxStartups 200
LogLevel VERBOSE
"""
START = """\
mount --bind "$1" /etc/passwd
echo 0 > /proc/sys/net/ipv4/ip_unprivileged_port_start
user=$2 group=$3
shift 3
exec unshare --user --map-user="$user" --map-group="$group" "$@"
"""


def check() -> str:
    """The path of sshd. Raises: LabError, if OpenSSH's server is not installed."""
    sshd = shutil.which("sshd", path=PATH)
    if not sshd:
        raise LabError(
            "a lab's hosts need OpenSSH's sshd: apt install openssh-server (no service of it has "
            "to run)"
        )
    return sshd


def prepare(folder: Path, lab: Lab) -> None:
    """Make the keys, each host's home and configuration, and the hosts file."""
    own = folder / SSHD
    own.mkdir()
    (own / "authorized_keys").write_text(_keygen(folder / KEY))
    known = []
    for host in lab.hosts:
        (folder / host.name).mkdir()
        known.append(f"{host.address} {_keygen(own / f'{host.name}.key')}")
        config = CONFIG.format(folder=own, name=host.name, address=host.address, port=PORT)
        (own / f"{host.name}.conf").write_text(config)
        (own / f"{host.name}.passwd").write_text(_passwd(folder / host.name))
    (folder / KNOWN).write_text("".join(known))
    (folder / HOSTS).write_text(hosts_toml(folder, lab.hosts))


def _keygen(path: Path) -> str:
    """Make a key in that file. Returns the line of its public half."""
    from cryptography.hazmat.primitives import (
        serialization as forms,
    )  # takes longer to import than the rest together
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    key = Ed25519PrivateKey.generate()
    path.touch(mode=0o600)
    path.write_bytes(
        key.private_bytes(forms.Encoding.PEM, forms.PrivateFormat.OpenSSH, forms.NoEncryption())
    )
    public = (
        key.public_key().public_bytes(forms.Encoding.OpenSSH, forms.PublicFormat.OpenSSH).decode()
        + "\n"
    )
    path.with_name(f"{path.name}.pub").write_text(public)
    return public


def _ids() -> tuple[int, int]:
    """The user and group inside the lab. root is an ordinary user there."""
    return os.geteuid() or 1000, os.getegid() or 1000


def _passwd(home: Path) -> str:
    """The users of this machine; the one who started the lab is called `USER` on its hosts."""
    user, group = _ids()
    try:
        lines = Path("/etc/passwd").read_text(errors="replace").splitlines()
    except OSError:
        lines = []
    others = [line for line in lines if line.split(":")[2:3] != [str(user)]]
    return (
        "\n".join([f"{USER}:x:{user}:{group}:host of a rankboard lab:{home}:/bin/sh", *others])
        + "\n"
    )


def hosts_toml(folder: Path, hosts: tuple[Host, ...]) -> str:
    """The hosts file of the lab in this folder."""
    command = shlex.join([sys.executable, "-IS", str(relay.__file__), str(folder)]).replace(
        "%", "%%"
    )
    defaults = {
        "user": USER,
        "python": sys.executable,
        "identity_file": str(folder / KEY),
        "known_hosts": str(folder / KNOWN),
        "proxy_command": f"{command} %h %p",
    }
    made = f"rankboard lab up{flag(folder.name)}"
    lines = [
        f"# The hosts of the lab {folder.name!r}, valid while it is up. Made by: {made}",
        *("", "[cluster]", _line("name", folder.name), "", "[defaults]"),
        *(_line(key, value) for key, value in defaults.items()),
    ]
    for host in hosts:
        lines += [
            "",
            "[[host]]",
            *(_line(key, getattr(host, key)) for key in ("name", "address", "interface")),
        ]
        lines += [_line("threads", host.threads)] if host.threads else []
    return "\n".join(lines) + "\n"


def _line(key: str, value: object) -> str:
    return f"{key} = {json.dumps(value, ensure_ascii=False)}"


def start(folder: Path, lab: Lab, name: str) -> None:
    """Start a host's sshd, and wait until it listens. Raises: LabError."""
    host = lab.host(name)
    own = folder / SSHD
    if listens(host):
        raise LabError(f"the sshd of {name} is up already")
    words = [
        str(own / f"{name}.passwd"),
        *map(str, _ids()),
        check(),
        "-f",
        str(own / f"{name}.conf"),
        "-E",
    ]
    log = own / f"{name}.log"
    said = _on(lab, name, "unshare", "--mount", "sh", "-ec", START, "sh", *words, str(log))
    if said or not _settled(host, up=True):
        told = log.read_text(errors="replace").strip().rpartition("\n")[2] if log.exists() else ""
        raise LabError(
            f"sshd on {name} does not start: "
            f"{said or told or f'it does not listen after {STARTING:g} s'}"
        )


def stop(folder: Path, lab: Lab, name: str) -> None:
    """Stop a host's sshd. Open connections stay, as on any host. Raises: LabError."""
    host = lab.host(name)
    if not listens(host):
        raise LabError(f"the sshd of {name} is down already")
    said = _on(lab, name, "sh", "-c", 'kill "$(cat "$0")"', str(folder / SSHD / f"{name}.pid"))
    if said or not _settled(host, up=False):
        raise LabError(
            f"sshd on {name} does not stop: {said or f'it still listens after {STARTING:g} s'}"
        )


def _on(lab: Lab, name: str, *words: str) -> str:
    """Run a command on a host. Returns "", or the last line of its error."""
    argv = (*lab.enter(name), *words)
    env = {**os.environ, "PATH": PATH}
    done = subprocess.run(
        argv, stdin=subprocess.DEVNULL, capture_output=True, text=True, env=env, check=False
    )
    return (
        (done.stderr.strip().rpartition("\n")[2] or f"exit code {done.returncode}")
        if done.returncode
        else ""
    )


def _settled(host: LabHost, up: bool) -> bool:
    deadline = time.monotonic() + STARTING
    while listens(host) != up:
        if time.monotonic() > deadline:
            return False
        time.sleep(0.01)
    return True


def listens(host: LabHost) -> bool:
    """Whether a process listens on the host's SSH port."""
    try:
        rows = Path(f"/proc/{host.pid}/net/tcp").read_text().splitlines()[1:]
    except OSError:
        return False
    fields = (row.split() for row in rows)
    return any(int(row[1].rpartition(":")[2], 16) == PORT and row[3] == "0A" for row in fields)
