"""`Host`, `Cluster`, and how to `load` hosts from hosts.toml and `select` some of them.

The parser of hosts files is imported only by `load`: a run on this machine does not need it.
"""

from __future__ import annotations

import math
import re
import shlex
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path

from remote.cluster.transports import is_transport, names
from training.registry import did_you_mean

SSH = "ssh"
"""The transport of a host that names none. ~/.ssh/config fills in what its table leaves out."""
LOCAL = "local"
"""The transport of the hosts of `--local`."""
SSH_CONFIG = Path("~/.ssh/config")
HOSTS_FILE = "hosts.toml"
"""The hosts file where none is named; messages that speak of it use this name."""
_HOSTS_FILE = re.compile(r"(?<![\w./-])hosts\.toml\b")
_COMMAND = re.compile(r"\brankboard (?:trust|setup|doctor|ps|prune)\b(?!.* --hosts )")
HOSTS = SLOTS = THREADS = RANKS = 4096
"""How many hosts a run has at most, slots and threads a host, and ranks a run."""


@dataclass(frozen=True)
class Host:
    """One host, which runs `slots` ranks. Empty text and 0 stand for the default.

    `transport` names what reaches the host: see `remote.transport`. `address` is where ssh
    connects. `known_hosts` is the only file of accepted host keys for this host; where it is empty,
    ssh's usual files count. `jump` is `[user@]host[:port]`, several joined by commas as in ssh's
    ProxyJump. `interface` carries the ranks' traffic. `master_port` counts on the first host only
    (0: any free port). `timeout` is how many seconds the host has to answer. Ranks have the
    variables `env` in their environment, and those that `env_from` names, with the launcher's
    values; these values are never shown or recorded.
    """

    name: str
    address: str
    user: str = ""
    port: int = 22
    identity_file: str = ""
    known_hosts: str = ""
    jump: str = ""
    proxy_command: str = ""
    python: str = "python3"
    workdir: str = "~/.rankboard"
    slots: int = 1
    threads: int = 0
    interface: str = ""
    master_port: int = 0
    timeout: float = 10.0
    env: tuple[tuple[str, str], ...] = ()
    env_from: tuple[str, ...] = ()
    transport: str = SSH

    def __post_init__(self) -> None:
        """Refuse values that are out of bounds. Raises: HostsError."""
        bounds = (
            ("slots", self.slots, 1, SLOTS),
            ("threads", self.threads, 0, THREADS),
            ("port", self.port, 1, 65535),
        )
        for key, number, low, high in bounds:
            if not low <= number <= high:
                raise HostsError(
                    f"{self.name!r}: {key} = {number}: write a whole number from {low} to {high}"
                )
        if not is_transport(self.transport):
            raise HostsError(
                f"{self.name!r}: transport = {self.transport!r}: write one of {', '.join(names())}"
            )
        if not 0 < self.timeout < math.inf:
            raise HostsError(
                f"{self.name!r}: timeout = {self.timeout}: write a finite number of seconds above 0"
            )
        for key, text in (
            ("name", self.name),
            ("address", self.address),
            ("interface", self.interface),
        ):
            if not text.isprintable():
                raise HostsError(
                    f"{key} = {text!r}: it has characters that cannot be printed; write plain text"
                )


@dataclass(frozen=True)
class Cluster:
    """The hosts in rank order. `remarks`: what a user should know of how they were read, one line
    each. `sync`: absolute paths of files and folders of this machine that go to every host before a
    run. `keep`: whether a run goes on without its launcher, None where the file does not say.
    `file` is the hosts file, "" where there is none."""

    name: str
    hosts: tuple[Host, ...]
    remarks: tuple[str, ...] = ()
    sync: tuple[str, ...] = ()
    keep: bool | None = None
    file: str = field(default="", compare=False)


class HostsError(ValueError):
    """Mistakes in a hosts file or in a selection of hosts, one line each, with what to write
    instead."""


def naming(file: str, text: str) -> str:
    """A message with the name of the hosts file that is in use, also in the commands that it
    advises."""
    if file == HOSTS_FILE:
        return text
    text = _HOSTS_FILE.sub(lambda _: file, text)
    return _COMMAND.sub(lambda found: f"{found[0]} --hosts {shlex.quote(file)}", text)


def select(
    cluster: Cluster,
    nodes: int | None = None,
    only: Iterable[str] = (),
    exclude: Iterable[str] = (),
) -> Cluster:
    """The hosts named in `only` (all, where it is empty) and not in `exclude`; of these the first
    `nodes` (None: all).

    The order stays the file's. Raises: HostsError, for names that no host has and for more nodes
    than there are.
    """
    only, exclude = tuple(only), tuple(exclude)
    known = [host.name for host in cluster.hosts]
    mistakes = [_unknown("--only", name, known) for name in only if name not in known]
    mistakes += [_unknown("--exclude", name, known) for name in exclude if name not in known]
    hosts = tuple(
        host
        for host in cluster.hosts
        if (not only or host.name in only) and host.name not in exclude
    )
    if nodes is not None and nodes < 1:
        mistakes.append(f"--nodes {nodes}: give a number from 1 to {len(hosts)}")
    if nodes and nodes > len(hosts) and not mistakes:
        count = "is only 1 host" if len(hosts) == 1 else f"are only {len(hosts)} hosts"
        mistakes.append(
            f"--nodes {nodes}: there {count} to choose from: "
            f"{', '.join(host.name for host in hosts)}"
        )
    if mistakes:
        raise HostsError("\n".join(mistakes))
    return replace(cluster, hosts=hosts[:nodes])


def _unknown(flag: str, name: str, known: list[str]) -> str:
    return (
        f"{flag} {name}: no host has this name{did_you_mean(name, known) or '.'} The hosts are "
        f"{', '.join(known)}"
    )
