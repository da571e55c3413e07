"""`rankboard trust HOST …`: shows the keys that hosts show, and records those that a person
accepts."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated

from cyclopts import Parameter

from remote.cluster.hosts import Cluster, Host, HostsError, select
from remote.cluster.load import load
from remote.concurrently import map_concurrently
from remote.transport import Unreachable
from remote.transport.host_keys import HostKeys, KeyStatus, NotRecorded, PresentedKey
from remote.transport.registry import load_host_keys
from tui.flags.common import HOSTS, HostsFile, Yes
from tui.kit.exit import UNREACHABLE, USAGE, UsageError, refusing
from tui.kit.narrate import narrate
from tui.kit.prompt import confirm


def trust(
    names: Annotated[tuple[str, ...], Parameter(name="HOST", help="hosts of the hosts file")] = (),
    /,
    *,
    hosts: HostsFile = None,
    every: Annotated[bool, Parameter(name="--all", help="all hosts of the file")] = False,
    replace: Annotated[
        bool,
        Parameter(help="also accept the new key of a host whose key has changed"),
    ] = False,
    yes: Yes = False,
) -> None:
    """Show the SSH keys of hosts, and record them as known once you agree.

    Answer yes, or paste the fingerprint that the host itself shows. With --yes every unknown key is
    accepted: use it only on a network where nobody can stand in for a host.

    Examples:
      rankboard trust --all
      rankboard trust node2 --replace

    Exit codes:
      0  all keys are known now
      2  a key was not accepted, or the command line is wrong
      3  a host could not be reached
    """
    file = hosts or HOSTS
    with refusing():
        chosen = _choose(load(file), names, every)
        codes = Trusting(load_host_keys(chosen), replace, yes).hosts(chosen)
    raise SystemExit(max(codes))


def _choose(cluster: Cluster, names: Sequence[str], every: bool) -> tuple[Host, ...]:
    """Raises: UsageError."""
    if every == bool(names):
        known = ", ".join(host.name for host in cluster.hosts)
        raise UsageError(f"trust: name the hosts, or give --all. The hosts are {known}")
    try:
        return select(cluster, only=names).hosts
    except HostsError as error:
        lines = [str(dataclasses.replace(mistake, flag="trust")) for mistake in error.mistakes]
        raise UsageError("\n".join(lines)) from None


class Trusting:
    """Goes through hosts, all reached at once, each question asked by itself."""

    def __init__(
        self,
        keys: Mapping[str, HostKeys],
        replace: bool,
        yes: bool = False,
    ) -> None:
        """`keys` are by the name of a transport; `replace` and `yes` are the flags."""
        self._keys = keys
        self._replace = replace
        self._yes = yes

    def hosts(self, hosts: Iterable[Host]) -> list[int]:
        """What became of each host, as an exit code. A host behind a jump host just accepted is
        looked at again."""
        codes = []
        waiting = []
        for host in hosts:
            if host.transport in self._keys:
                waiting.append(host)
            else:
                narrate(f"{host.name}: transport {host.transport} has no host keys")
                codes.append(0)
        while waiting:
            met = map_concurrently(self._meet, waiting)
            behind = []
            for host, shown in zip(waiting, met, strict=True):
                if isinstance(shown, Unreachable):
                    narrate(str(shown))
                    codes.append(UNREACHABLE)
                elif not self._accepted(host, shown):
                    codes.append(USAGE)
                elif shown.host is host:
                    codes.append(0)
                else:
                    behind.append(host)
            waiting = behind
        return codes

    def _meet(self, host: Host) -> PresentedKey | Unreachable:
        try:
            return self._keys[host.transport].meet(host)
        except Unreachable as error:
            return error

    def _accepted(self, host: Host, shown: PresentedKey) -> bool:
        """Whether the key is known now; a person is asked where it was not."""
        whose = (
            f"{host.name} ({shown.name})"
            if shown.host is host
            else f"the jump host of {host.name} ({shown.name})"
        )
        standing = shown.standing()
        if standing is KeyStatus.KNOWN:
            narrate(f"{whose}: {shown.what} is known: {shown.place()}")
            return True
        if standing is KeyStatus.REVOKED:
            narrate(f"{whose}: {shown.revoked()}: do not trust this host")
            return False
        if standing is KeyStatus.CHANGED and not self._changed(whose, shown):
            return False
        if not self._agreed(whose, shown):
            return False
        try:
            file = self._keys[host.transport].accept(shown)
            narrate(f"{whose}: {shown.what} is recorded in {file}")
        except NotRecorded as problem:
            narrate(f"{whose}: {problem}")
            return False
        return True

    def _changed(self, whose: str, shown: PresentedKey) -> bool:
        """Tell old and new key; whether the new one may be asked about."""
        narrate(
            f"{whose}: its key has CHANGED. Someone may be intercepting the connection, or the "
            "host was reinstalled."
        )
        for other in shown.others():
            narrate(f"    was {other}")
        narrate(f"    now {shown.what}")
        if not self._replace:
            narrate("if you know why, accept the new key with --replace")
        return self._replace

    def _agreed(self, whose: str, shown: PresentedKey) -> bool:
        """Whether a person accepts the key, by a yes or by its fingerprint."""
        narrate(f"{whose} shows {shown.what}")
        if not self._yes:
            narrate(f"compare it with the output of this command on the host: {shown.shows}")
        if confirm("accept it? (yes, no or the fingerprint)", self._yes, shown.fingerprint):
            return True
        narrate("not accepted; nothing was recorded")
        return False
