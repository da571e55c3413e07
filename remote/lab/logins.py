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
from contextlib import suppress
from pathlib import Path
from typing import Any

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
    """Return the path of sshd. Raises: LabError, if OpenSSH's server is not installed."""
    sshd = shutil.which("sshd", path=PATH)
    if not sshd:
        raise LabError(
            "a lab's hosts need OpenSSH's sshd: apt install openssh-server (no service of it has "
            "to run)"
        )
    return sshd


def prepare(folder: Path, lab: Lab) -> None:
    """Make the keys, each host's home and configuration, and the hosts file."""
    sshd_folder = folder / SSHD
    sshd_folder.mkdir()
    (sshd_folder / "authorized_keys").write_text(_make_key(folder / KEY))
    known_hosts = []
    for host in lab.hosts:
        (folder / host.name).mkdir()
        known_hosts.append(f"{host.address} {_make_key(sshd_folder / f'{host.name}.key')}")
        config = CONFIG.format(folder=sshd_folder, name=host.name, address=host.address, port=PORT)
        (sshd_folder / f"{host.name}.conf").write_text(config)
        (sshd_folder / f"{host.name}.passwd").write_text(_write_passwd(folder / host.name))
    (folder / KNOWN).write_text("".join(known_hosts))
    (folder / HOSTS).write_text(hosts_toml(folder, lab.hosts))


def _make_key(path: Path) -> str:
    """Make a key in that file. Return the line of its public half."""
    # This takes longer to import than the rest together.
    from cryptography.hazmat.primitives import serialization as forms
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    key = Ed25519PrivateKey.generate()
    openssh = forms.PrivateFormat.OpenSSH
    path.touch(mode=0o600)
    path.write_bytes(key.private_bytes(forms.Encoding.PEM, openssh, forms.NoEncryption()))
    public_form = (forms.Encoding.OpenSSH, forms.PublicFormat.OpenSSH)
    public = f"{key.public_key().public_bytes(*public_form).decode()}\n"
    path.with_name(f"{path.name}.pub").write_text(public)
    return public


def _user_and_group() -> tuple[int, int]:
    """Return the ids inside the lab. root is an ordinary user there."""
    return os.geteuid() or 1000, os.getegid() or 1000


def _write_passwd(home: Path) -> str:
    """Return the users of this machine; the one who started the lab is `USER` on its hosts."""
    user, group = _user_and_group()
    lines = [f"{USER}:x:{user}:{group}:host of a rankboard lab:{home}:/bin/sh"]
    with suppress(OSError):
        for line in Path("/etc/passwd").read_text(errors="replace").splitlines():
            if line.split(":")[2:3] != [str(user)]:
                lines.append(line)
    return "".join(f"{line}\n" for line in lines)


def hosts_toml(folder: Path, hosts: tuple[Host, ...]) -> str:
    """Return the hosts file of the lab in this folder."""
    command = shlex.join([sys.executable, "-IS", str(relay.__file__), str(folder)])
    escaped = command.replace("%", "%%")  # ssh replaces %h and %p
    defaults = {
        "user": USER,
        "python": sys.executable,
        "identity_file": str(folder / KEY),
        "known_hosts": str(folder / KNOWN),
        "proxy_command": f"{escaped} %h %p",
    }
    tables: list[tuple[str, dict[str, Any]]] = [
        ("[cluster]", {"name": folder.name}),
        ("[defaults]", defaults),
    ]
    for host in hosts:
        keys = {"name": host.name, "address": host.address, "interface": host.interface}
        tables.append(("[[host]]", keys | ({"threads": host.threads} if host.threads else {})))
    origin = f"rankboard lab up{flag(folder.name)}"
    lines = [f"# The hosts of the lab {folder.name!r}, valid while it is up. Made by: {origin}"]
    for head, table in tables:
        lines += ["", head]
        for key, value in table.items():
            lines.append(f"{key} = {json.dumps(value, ensure_ascii=False)}")
    return "\n".join([*lines, ""])


def start(folder: Path, lab: Lab, name: str) -> None:
    """Start a host's sshd, and wait until it listens. Raises: LabError."""
    host = lab.host(name)
    if listens(host):
        raise LabError(f"the sshd of {name} is up already")
    passwd, config, log = (folder / SSHD / f"{name}.{kind}" for kind in ("passwd", "conf", "log"))
    unshare = ("unshare", "--mount", "sh", "-ec", START, "sh", passwd, *_user_and_group())
    error = _run_on(lab, name, *unshare, check(), "-f", config, "-E", log)
    if error or not _wait_for_sshd(host, is_up=True):
        last_line = (
            log.read_text(errors="replace").strip().rpartition("\n")[2] if log.exists() else ""
        )
        reason = error or last_line or f"it does not listen after {STARTING:g} s"
        raise LabError(f"sshd on {name} does not start: {reason}")


def stop(folder: Path, lab: Lab, name: str) -> None:
    """Stop a host's sshd. Open connections stay, as on any host. Raises: LabError."""
    host = lab.host(name)
    if not listens(host):
        raise LabError(f"the sshd of {name} is down already")
    error = _run_on(lab, name, "sh", "-c", 'kill "$(cat "$0")"', folder / SSHD / f"{name}.pid")
    if error or not _wait_for_sshd(host, is_up=False):
        reason = error or f"it still listens after {STARTING:g} s"
        raise LabError(f"sshd on {name} does not stop: {reason}")


def _run_on(lab: Lab, name: str, *words: object) -> str:
    """Run a command on a host. Return "", or the last line of its error."""
    argv = (*lab.enter(name), *map(str, words))
    env = {**os.environ, "PATH": PATH}
    done = subprocess.run(
        argv, stdin=subprocess.DEVNULL, capture_output=True, text=True, env=env, check=False
    )
    if not done.returncode:
        return ""
    return done.stderr.strip().rpartition("\n")[2] or f"exit code {done.returncode}"


def _wait_for_sshd(host: LabHost, *, is_up: bool) -> bool:
    deadline = time.monotonic() + STARTING
    while listens(host) != is_up:
        if time.monotonic() > deadline:
            return False
        time.sleep(0.01)
    return True


def listens(host: LabHost) -> bool:
    """Return True if a process listens on the host's SSH port."""
    try:
        rows = Path(f"/proc/{host.pid}/net/tcp").read_text().splitlines()[1:]
    except OSError:
        return False
    fields = (row.split() for row in rows)
    return any(int(row[1].rpartition(":")[2], 16) == PORT and row[3] == "0A" for row in fields)
