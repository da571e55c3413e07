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
SSHD_LIMIT = 10.0
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
        sshd_config = CONFIG.format(
            folder=sshd_folder, name=host.name, address=host.address, port=PORT
        )
        (sshd_folder / f"{host.name}.conf").write_text(sshd_config)
        (sshd_folder / f"{host.name}.passwd").write_text(_write_passwd(folder / host.name))
    (folder / KNOWN).write_text("".join(known_hosts))
    (folder / HOSTS).write_text(hosts_toml(folder, lab.hosts))


def _make_key(key_path: Path) -> str:
    """Make a key in that file. Return the line of its public half."""
    # This takes longer to import than the rest together.
    from cryptography.hazmat.primitives import serialization as forms
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    key = Ed25519PrivateKey.generate()
    key_format = forms.PrivateFormat.OpenSSH
    key_path.touch(mode=0o600)
    key_path.write_bytes(key.private_bytes(forms.Encoding.PEM, key_format, forms.NoEncryption()))
    public_form = (forms.Encoding.OpenSSH, forms.PublicFormat.OpenSSH)
    public_line = f"{key.public_key().public_bytes(*public_form).decode()}\n"
    key_path.with_name(f"{key_path.name}.pub").write_text(public_line)
    return public_line


def _user_and_group() -> tuple[int, int]:
    """Return the ids inside the lab. root is an ordinary user there."""
    return os.geteuid() or 1000, os.getegid() or 1000


def _write_passwd(home: Path) -> str:
    """Return the users of this machine; the one who started the lab is `USER` on its hosts."""
    user_id, group_id = _user_and_group()
    passwd_lines = [f"{USER}:x:{user_id}:{group_id}:host of a rankboard lab:{home}:/bin/sh"]
    with suppress(OSError):
        for passwd_line in Path("/etc/passwd").read_text(errors="replace").splitlines():
            if passwd_line.split(":")[2:3] != [str(user_id)]:
                passwd_lines.append(passwd_line)
    return "".join(f"{passwd_line}\n" for passwd_line in passwd_lines)


def hosts_toml(folder: Path, hosts: tuple[Host, ...]) -> str:
    """Return the hosts file of the lab in this folder."""
    relay_command = shlex.join([sys.executable, "-IS", str(relay.__file__), str(folder)])
    escaped_command = relay_command.replace("%", "%%")  # ssh replaces %h and %p
    defaults = {
        "user": USER,
        "python": sys.executable,
        "identity_file": str(folder / KEY),
        "known_hosts": str(folder / KNOWN),
        "proxy_command": f"{escaped_command} %h %p",
    }
    toml_tables: list[tuple[str, dict[str, Any]]] = [
        ("[cluster]", {"name": folder.name}),
        ("[defaults]", defaults),
    ]
    for host in hosts:
        host_keys = {"name": host.name, "address": host.address, "interface": host.interface}
        toml_tables.append(
            ("[[host]]", host_keys | ({"threads": host.threads} if host.threads else {}))
        )
    made_by = f"rankboard lab up{flag(folder.name)}"
    toml_lines = [
        f"# The hosts of the lab {folder.name!r}, valid while it is up. Made by: {made_by}"
    ]
    for table_head, table_values in toml_tables:
        toml_lines += ["", table_head]
        for key, value in table_values.items():
            toml_lines.append(f"{key} = {json.dumps(value, ensure_ascii=False)}")
    return "\n".join([*toml_lines, ""])


def start(folder: Path, lab: Lab, host_name: str) -> None:
    """Start a host's sshd, and wait until it listens. Raises: LabError."""
    host = lab.host(host_name)
    if listens(host):
        raise LabError(f"the sshd of {host_name} is up already")
    passwd_file, config_file, log_file = (
        folder / SSHD / f"{host_name}.{file_ending}" for file_ending in ("passwd", "conf", "log")
    )
    sshd_prefix = ("unshare", "--mount", "sh", "-ec", START, "sh", passwd_file, *_user_and_group())
    start_error = _run_on(lab, host_name, *sshd_prefix, check(), "-f", config_file, "-E", log_file)
    if start_error or not _wait_for_sshd(host, is_up=True):
        last_line = (
            log_file.read_text(errors="replace").strip().rpartition("\n")[2]
            if log_file.exists()
            else ""
        )
        reason = start_error or last_line or f"it does not listen after {SSHD_LIMIT:g} s"
        raise LabError(f"sshd on {host_name} does not start: {reason}")


def stop(folder: Path, lab: Lab, host_name: str) -> None:
    """Stop a host's sshd. Open connections stay, as on any host. Raises: LabError."""
    host = lab.host(host_name)
    if not listens(host):
        raise LabError(f"the sshd of {host_name} is down already")
    stop_error = _run_on(
        lab, host_name, "sh", "-c", 'kill "$(cat "$0")"', folder / SSHD / f"{host_name}.pid"
    )
    if stop_error or not _wait_for_sshd(host, is_up=False):
        reason = stop_error or f"it still listens after {SSHD_LIMIT:g} s"
        raise LabError(f"sshd on {host_name} does not stop: {reason}")


def _run_on(lab: Lab, host_name: str, *command_words: object) -> str:
    """Run a command on a host. Return "", or the last line of its error."""
    argv = (*lab.enter(host_name), *map(str, command_words))
    variables = {**os.environ, "PATH": PATH}
    finished_process = subprocess.run(
        argv, stdin=subprocess.DEVNULL, capture_output=True, text=True, env=variables, check=False
    )
    if not finished_process.returncode:
        return ""
    return (
        finished_process.stderr.strip().rpartition("\n")[2]
        or f"exit code {finished_process.returncode}"
    )


def _wait_for_sshd(host: LabHost, *, is_up: bool) -> bool:
    deadline = time.monotonic() + SSHD_LIMIT
    while listens(host) != is_up:
        if time.monotonic() > deadline:
            return False
        time.sleep(0.01)
    return True


def listens(host: LabHost) -> bool:
    """Return True if a process listens on the host's SSH port."""
    try:
        socket_rows = Path(f"/proc/{host.pid}/net/tcp").read_text().splitlines()[1:]
    except OSError:
        return False
    split_rows = (row_words.split() for row_words in socket_rows)
    return any(
        int(row_words[1].rpartition(":")[2], 16) == PORT and row_words[3] == "0A"
        for row_words in split_rows
    )
