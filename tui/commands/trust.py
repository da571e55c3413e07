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
        chosen_hosts = _choose_hosts(load(file), names, every)
        exit_codes = Trusting(load_host_keys(chosen_hosts), replace, yes).trust_hosts(chosen_hosts)
    # The greatest code is the worst: 3 before 2.
    raise SystemExit(max(exit_codes))


def _choose_hosts(cluster: Cluster, names: Sequence[str], every: bool) -> tuple[Host, ...]:
    """Choose the hosts by their names, or all. Raises: UsageError."""
    # Both would contradict each other, and neither would choose a host.
    if every == bool(names):
        host_names = ", ".join(host.name for host in cluster.hosts)
        raise UsageError(f"trust: name the hosts, or give --all. The hosts are {host_names}")
    try:
        return select(cluster, only=names).hosts
    except HostsError as error:
        mistake_lines = [
            str(dataclasses.replace(mistake, flag="trust")) for mistake in error.mistakes
        ]
        raise UsageError("\n".join(mistake_lines)) from None


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
        exit_codes = []
        waiting_hosts = []
        for host in hosts:
            if host.transport in self._keys:
                waiting_hosts.append(host)
            else:
                narrate(f"{host.name}: transport {host.transport} has no host keys")
                exit_codes.append(0)
        # A host behind a jump host shows its own key only once the jump host's is accepted.
        while waiting_hosts:
            # All at once, since each host that does not answer takes its full timeout.
            presented_keys = map_concurrently(self._meet_host, waiting_hosts)
            behind_jump_host = []
            for host, key in zip(waiting_hosts, presented_keys, strict=True):
                if isinstance(key, Unreachable):
                    narrate(str(key))
                    exit_codes.append(UNREACHABLE)
                elif not self._accept_key(host, key):
                    exit_codes.append(USAGE)
                elif key.host is host:
                    exit_codes.append(0)
                else:
                    behind_jump_host.append(host)
            waiting_hosts = behind_jump_host
        return exit_codes

    def _meet_host(self, host: Host) -> PresentedKey | Unreachable:
        try:
            return self._keys[host.transport].meet(host)
        except Unreachable as error:
            return error

    def _accept_key(self, host: Host, key: PresentedKey) -> bool:
        """Record a key that the user accepts; return True if it is known now."""
        key_owner = f"{host.name} ({key.name})"
        if key.host is not host:
            key_owner = f"the jump host of {key_owner}"
        key_status = key.standing()
        if key_status is KeyStatus.KNOWN:
            narrate(f"{key_owner}: {key.what} is known: {key.place()}")
            return True
        # Not even --replace and --yes accept a key that somebody has declared stolen.
        if key_status is KeyStatus.REVOKED:
            narrate(f"{key_owner}: {key.revoked()}: do not trust this host")
            return False
        if key_status is KeyStatus.CHANGED:
            self._warn_of_change(key_owner, key)
            if not self._replace:
                narrate("if you know why, accept the new key with --replace")
                return False
        if not self._ask_user(key_owner, key):
            return False
        try:
            known_hosts_file = self._keys[host.transport].accept(key)
        except NotRecorded as problem:
            narrate(f"{key_owner}: {problem}")
            return False
        narrate(f"{key_owner}: {key.what} is recorded in {known_hosts_file}")
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
            narrate(f"compare it with the host's key file, usually (on the host): {key.shows}")
        if confirm("accept it? (yes, no or the fingerprint)", self._yes, key.fingerprint):
            return True
        narrate("not accepted; nothing was recorded")
        return False
