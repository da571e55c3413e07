"""`rankboard trust HOST …`: show the keys of hosts, and record those that the user accepts."""

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
        codes = Trusting(load_host_keys(chosen), replace, yes).trust_hosts(chosen)
    raise SystemExit(max(codes))


def _choose(cluster: Cluster, names: Sequence[str], every: bool) -> tuple[Host, ...]:
    """Choose the hosts by their names, or all. Raises: UsageError."""
    if every == bool(names):
        known = ", ".join(host.name for host in cluster.hosts)
        raise UsageError(f"trust: name the hosts, or give --all. The hosts are {known}")
    try:
        return select(cluster, only=names).hosts
    except HostsError as error:
        lines = [str(dataclasses.replace(mistake, flag="trust")) for mistake in error.mistakes]
        raise UsageError("\n".join(lines)) from None


class Trusting:
    """Reaches all hosts at once, then asks the user about each key by itself."""

    def __init__(
        self,
        keys: Mapping[str, HostKeys],
        replace: bool,
        yes: bool = False,
    ) -> None:
        """`keys` are by the names of transports; `replace` and `yes` are the flags."""
        self._keys = keys
        self._replace = replace
        self._yes = yes

    def trust_hosts(self, hosts: Iterable[Host]) -> list[int]:
        """Go through these hosts; return an exit code for each.

        A host whose jump host is accepted first is reached again.
        """
        codes = []
        waiting = []
        for host in hosts:
            if host.transport in self._keys:
                waiting.append(host)
            else:
                narrate(f"{host.name}: transport {host.transport} has no host keys")
                codes.append(0)
        while waiting:
            answers = map_concurrently(self._meet, waiting)
            behind_jump_host = []
            for host, key in zip(waiting, answers, strict=True):
                if isinstance(key, Unreachable):
                    narrate(str(key))
                    codes.append(UNREACHABLE)
                elif not self._accept(host, key):
                    codes.append(USAGE)
                elif key.host is host:
                    codes.append(0)
                else:
                    behind_jump_host.append(host)
            waiting = behind_jump_host
        return codes

    def _meet(self, host: Host) -> PresentedKey | Unreachable:
        try:
            return self._keys[host.transport].meet(host)
        except Unreachable as error:
            return error

    def _accept(self, host: Host, key: PresentedKey) -> bool:
        """Record a key that the user accepts; return True if it is known now."""
        owner = f"{host.name} ({key.name})"
        if key.host is not host:
            owner = f"the jump host of {owner}"
        status = key.standing()
        if status is KeyStatus.KNOWN:
            narrate(f"{owner}: {key.what} is known: {key.place()}")
            return True
        if status is KeyStatus.REVOKED:
            narrate(f"{owner}: {key.revoked()}: do not trust this host")
            return False
        if status is KeyStatus.CHANGED:
            self._warn_of_change(owner, key)
            if not self._replace:
                narrate("if you know why, accept the new key with --replace")
                return False
        if not self._ask_user(owner, key):
            return False
        try:
            file = self._keys[host.transport].accept(key)
        except NotRecorded as problem:
            narrate(f"{owner}: {problem}")
            return False
        narrate(f"{owner}: {key.what} is recorded in {file}")
        return True

    def _warn_of_change(self, owner: str, key: PresentedKey) -> None:
        """Show the old keys and the new one."""
        narrate(
            f"{owner}: its key has CHANGED. Someone may be intercepting the connection, or the "
            "host was reinstalled."
        )
        for other in key.others():
            narrate(f"    was {other}")
        narrate(f"    now {key.what}")

    def _ask_user(self, owner: str, key: PresentedKey) -> bool:
        """Return True if the user accepts the key, by a yes or by its fingerprint."""
        narrate(f"{owner} shows {key.what}")
        if not self._yes:
            narrate(f"compare it with the output of this command on the host: {key.shows}")
        if confirm("accept it? (yes, no or the fingerprint)", self._yes, key.fingerprint):
            return True
        narrate("not accepted; nothing was recorded")
        return False
