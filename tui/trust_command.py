"""`rankboard trust HOST …`: shows the keys that hosts show, and records those that a person accepts."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from remote.hosts import Cluster, Host, HostsError, load, select
from remote.lines import one_line
from remote.transport import Unreachable

if TYPE_CHECKING:
    from remote.transport.ssh import SshTransport
    from remote.transport.ssh_trust import Shown

USAGE, UNREACHABLE = 2, 3
"""Exit codes: a mistake, or a key that was not accepted; a host that could not be reached."""


def trust(
    names: Annotated[list[str] | None, typer.Argument(metavar="HOST…", help="hosts of the hosts file")] = None,
    hosts: Annotated[Path, typer.Option(help="the hosts file")] = Path("hosts.toml"),
    every: Annotated[bool, typer.Option("--all", help="all hosts of the file")] = False,
    replace: Annotated[bool, typer.Option("--replace", help="also accept the new key of a host whose key has changed")] = False,
) -> None:
    """Show the keys of hosts and record them as known, once you have said yes.

    Answer with yes, or with the fingerprint as you have it from the host itself. Exit codes: 0 all are known now, 2 one is not,
    3 a host could not be reached.
    """
    from remote.transport.ssh import SshTransport

    try:
        chosen = _chosen(load(hosts), names or [], every)
    except HostsError as error:
        _say(str(error).replace("--only ", "trust "))
        raise typer.Exit(USAGE) from None
    raise typer.Exit(max(Trusting(SshTransport(), replace).hosts(chosen)))


def _chosen(cluster: Cluster, names: list[str], every: bool) -> tuple[Host, ...]:
    """Raises: HostsError."""
    if every == bool(names):
        known = ", ".join(host.name for host in cluster.hosts)
        raise HostsError(f"trust: name the hosts, or give --all. The hosts are {known}")
    return select(cluster, only=names).hosts


class Trusting:
    """Goes through hosts, all reached at once, each question asked by itself."""

    def __init__(self, transport: SshTransport, replace: bool) -> None:
        self._transport, self._replace = transport, replace

    def hosts(self, hosts: Iterable[Host]) -> list[int]:
        """What became of each host, as an exit code. A host behind a jump host just accepted is looked at again."""
        codes = []
        waiting = list(hosts)
        while waiting:
            with ThreadPoolExecutor(len(waiting), thread_name_prefix="trust") as pool:
                met = list(pool.map(self._meet, waiting))
            behind = []
            for host, shown in zip(waiting, met, strict=True):
                if isinstance(shown, Unreachable):
                    _say(str(shown))
                    codes.append(UNREACHABLE)
                elif not self._accepted(host, shown):
                    codes.append(USAGE)
                elif shown.host is host:
                    codes.append(0)
                else:
                    behind.append(host)
            waiting = behind
        return codes

    def _meet(self, host: Host) -> Shown | Unreachable:
        try:
            return self._transport.meet(host)
        except Unreachable as error:
            return error

    def _accepted(self, host: Host, shown: Shown) -> bool:
        """Whether the key is known now; a person is asked where it was not."""
        from remote.transport.problem import Problem
        from remote.transport.ssh_trust import Standing

        whose = f"{host.name} ({shown.name})" if shown.host is host else f"the jump host of {host.name} ({shown.name})"
        standing = shown.standing()
        if standing is Standing.KNOWN:
            _say(f"{whose}: {shown.what} is known: {shown.place()}")
            return True
        if standing is Standing.REVOKED:
            _say(f"{whose}: {shown.revoked()}: do not trust this machine")
            return False
        if standing is Standing.CHANGED and not self._changed(whose, shown):
            return False
        if not _asked(whose, shown):
            return False
        try:
            _say(f"{whose}: {shown.what} is recorded in {self._transport.accept(shown)}")
        except Problem as problem:
            _say(f"{whose}: {problem}")
            return False
        return True

    def _changed(self, whose: str, shown: Shown) -> bool:
        """Tell old and new key; whether the new one may be asked about."""
        _say(f"{whose}: its key has CHANGED. Somebody may be listening in, or the machine was set up anew.")
        for other in shown.others():
            _say(f"    was {other}")
        _say(f"    now {shown.what}")
        if not self._replace:
            _say("if you know why, accept the new key with --replace")
        return self._replace


def _asked(whose: str, shown: Shown) -> bool:
    """What a person says to the key: yes, or its fingerprint."""
    kind = shown.key.get_name().removeprefix("ssh-").split("-")[0]
    _say(f"{whose} shows {shown.what}")
    _say(f"compare it with what this says there: ssh-keygen -lf /etc/ssh/ssh_host_{kind}_key.pub")
    typer.echo("rankboard: accept it? (yes, no or the fingerprint) ", nl=False, err=True)
    answer = sys.stdin.readline()
    if not sys.stdin.isatty() or not answer:  # nobody has pressed enter
        typer.echo("", err=True)
    if answer.strip().lower() in ("y", "yes") or answer.strip() == shown.key.fingerprint:
        return True
    _say("not accepted; nothing was recorded")
    return False


def _say(text: str) -> None:
    for line in text.split("\n"):
        indent = line[: len(line) - len(line.lstrip())]
        typer.echo(f"rankboard: {indent}{one_line(line)}", err=True)
