"""Reach hosts over SSH: where a connection leads, keys, host keys, and the one command there."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from typing import TYPE_CHECKING

from remote.cluster.hosts import Host
from remote.transport import TransportKind

if TYPE_CHECKING:
    from remote.transport.ssh.transport import SshTransport


def _make() -> SshTransport:
    from remote.transport.ssh.transport import SshTransport  # paramiko takes long to import

    return SshTransport()


def _by_hand(host: Host, words: Sequence[str]) -> str:
    """Return the ssh command that runs these words on the host as `SshTransport` does."""
    jump_options = []
    if host.jump:
        jump_options = ["-J", host.jump]
    elif host.proxy_command:
        jump_options = ["-o", f"ProxyCommand={host.proxy_command}"]
    key_options = ["-i", host.identity_file] if host.identity_file else []
    address = f"{host.user}@{host.address}" if host.user else host.address
    return shlex.join(["ssh", *jump_options, *key_options, "-p", str(host.port), address, *words])


TRANSPORT = TransportKind(
    make=lambda _: _make(), reached="ssh ok", by_hand=_by_hand, host_keys=_make
)
