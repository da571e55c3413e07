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
    options = _jump_options(host)
    if host.identity_file:
        options += ["-i", host.identity_file]
    if host.known_hosts:
        options += ["-o", f"UserKnownHostsFile={_quote_file(host.known_hosts)}"]
    address = f"{host.user}@{host.address}" if host.user else host.address
    # The shell of the host splits the words once more.
    host_words = map(shlex.quote, words)
    return shlex.join(["ssh", *options, "-p", str(host.port), address, *host_words])


def _jump_options(host: Host) -> list[str]:
    """Return the options of ssh that lead to the host through its jump hosts or its proxy."""
    if host.jump and not host.identity_file:
        return ["-J", host.jump]
    proxy_command = host.proxy_command
    # With -J, ssh would not try the host's key at the jump hosts.
    for jump_text in host.jump.split(",") if host.jump else ():
        hop_words = ["ssh", "-i", host.identity_file, "-W", "[%h]:%p", f"ssh://{jump_text}"]
        if proxy_command:
            # The signs of the inner command are for the inner ssh.
            inner_command = proxy_command.replace("%", "%%")
            hop_words[1:1] = ["-o", f"ProxyCommand={inner_command}"]
        proxy_command = shlex.join(hop_words)
    return ["-o", f"ProxyCommand={proxy_command}"] if proxy_command else []


def _quote_file(path: str) -> str:
    """Return a path as an option of ssh that takes several files."""
    escaped_path = path.replace("%", "%%")
    return f'"{escaped_path}"' if " " in path else escaped_path


TRANSPORT = TransportKind(
    make=lambda _: _make(), reached="ssh ok", by_hand=_by_hand, host_keys=_make
)
