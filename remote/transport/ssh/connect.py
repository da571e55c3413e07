"""Connect to a host over SSH, up to the login: through a proxy or jump hosts, with a verified host
key. Runs nothing there."""

from __future__ import annotations

import shlex
import socket
from collections.abc import Callable
from contextlib import ExitStack, suppress
from dataclasses import dataclass

import paramiko
from paramiko.ssh_exception import ChannelException, IncompatiblePeer, SSHException

from remote.cluster.hosts import Host, hosts_option
from remote.transport.failure import Deadline, FailureCause, HungUp, ReachError
from remote.transport.host_keys import KeyStatus
from remote.transport.ssh import known_hosts
from remote.transport.ssh.keys import UserKeys
from remote.transport.ssh.login import Login
from remote.transport.ssh.sockets import Proxy, connect_tcp
from remote.transport.ssh.trust import SshHostKey, UnverifiedKey

KEEPALIVE = 15
Socket = socket.socket | paramiko.Channel


@dataclass(frozen=True)
class SshConnection:
    """A login at one host."""

    transport: paramiko.Transport
    opened: ExitStack
    """All that was opened for it: the connections to its jump hosts, its proxy, its socket."""

    def close(self) -> None:
        """Close it, with all that was opened for it. May be called several times."""
        self.opened.close()


@dataclass(frozen=True)
class Connector:
    """Connects to hosts before the deadline."""

    keys: UserKeys
    remark: Callable[[str], None]
    """Takes warnings for the user."""
    deadline: Deadline
    top: str
    """The name of the host behind all jump hosts."""

    def connect(self, host: Host, jump_hosts: tuple[Host, ...] = ()) -> SshConnection:
        """Log in at a host through its jump hosts. On an error nothing stays open. Raises:
        ReachError, TimeoutError."""
        with ExitStack() as open_resources:
            transport = self._reach(host, jump_hosts, open_resources)
            self._log_in(transport, host)
            return SshConnection(transport, open_resources.pop_all())

    def meet(self, host: Host, jump_hosts: tuple[Host, ...] = ()) -> paramiko.PKey:
        """Return the key that a host shows. This logs in at its jump hosts only.

        Raises: UnverifiedKey, if the key of a jump host is not accepted; other ReachError;
        TimeoutError.
        """
        with ExitStack() as open_resources:
            return self._reach(host, jump_hosts, open_resources).get_remote_server_key()

    def _reach(
        self, host: Host, jump_hosts: tuple[Host, ...], open_resources: ExitStack
    ) -> paramiko.Transport:
        """Begin the SSH protocol with a host, logged in at its jump hosts."""
        jump_transport = None
        for jump_host in jump_hosts:
            try:
                jump_transport = self._begin(jump_host, jump_transport, open_resources)
                self._log_in(jump_transport, jump_host)
            except ReachError as problem:
                raise problem.of_other_host(f"its jump host {jump_host.name}") from problem
        return self._begin(host, jump_transport, open_resources)

    def _begin(
        self, host: Host, jump_transport: paramiko.Transport | None, open_resources: ExitStack
    ) -> paramiko.Transport:
        self.deadline.doing = f"connecting to {host.address}:{host.port}"
        proxy = None
        sock: Socket
        if jump_transport:
            sock = self._open_tunnel(host, jump_transport)
        elif host.proxy_command:
            proxy = Proxy(host)
            open_resources.callback(proxy.close)
            sock = proxy.socket
        else:
            sock = connect_tcp(host, self.deadline)
        open_resources.callback(_close_socket, sock)
        transport = _handshake(sock, host, self.deadline, proxy)
        open_resources.callback(transport.close)
        return transport

    def _open_tunnel(self, host: Host, jump_transport: paramiko.Transport) -> paramiko.Channel:
        target_address = (host.address, host.port)
        # The protocol asks where the connection comes from; sshd only logs it.
        origin_address = ("127.0.0.1", 0)
        try:
            return jump_transport.open_channel(
                "direct-tcpip", target_address, origin_address, timeout=self.deadline.left()
            )
        except ChannelException as error:
            failure_text = (
                f"its jump host cannot connect to {host.address}:{host.port}: {error.text}"
            )
            raise ReachError(FailureCause.REFUSED, failure_text) from None

    def _log_in(self, transport: paramiko.Transport, host: Host) -> None:
        _verify(transport.get_remote_server_key(), host, self.top)
        self.deadline.doing = f"logging in at {host.address}:{host.port}"
        Login(self.keys, self.remark, self.deadline).perform(transport, host)
        # A firewall may forget a connection over which nothing goes for minutes.
        transport.set_keepalive(KEEPALIVE)


def _close_socket(sock: Socket) -> None:
    with suppress(OSError, EOFError, SSHException):
        sock.close()


def _handshake(
    sock: Socket, host: Host, deadline: Deadline, proxy: Proxy | None
) -> paramiko.Transport:
    """Start the SSH protocol with the server. Prefers the types of its known host keys."""
    known_keys = known_hosts.find_known_keys(host.address, host.port, host.known_hosts)
    try:
        transport = paramiko.Transport(sock)
        _prefer(transport, [known.kind for known in known_keys])
        # `start_client` must be the first to time out. It raises nothing then, so a timeout can be
        # told from an error.
        transport.banner_timeout = transport.handshake_timeout = deadline.left() + 5
        transport.start_client(timeout=deadline.left())
    except TimeoutError:
        raise
    except IncompatiblePeer as error:
        failure_text = f"its ssh server has no algorithms in common with us: {error}"
        raise ReachError(FailureCause.OTHER, failure_text) from None
    except (SSHException, EOFError, OSError) as error:
        failure_text = f"{host.address}:{host.port} hung up before the login"
        last_error = proxy.last_error() if proxy else ""
        if last_error:
            failure_text += f"; its proxy_command says: {last_error}"
            raise HungUp(FailureCause.DROPPED, failure_text) from None
        advice = (
            "is that the port of an ssh server? If it is a busy one, raise MaxStartups there "
            f"({str(error) or 'end of file'})"
        )
        raise HungUp(FailureCause.DROPPED, failure_text, advice) from None
    if not transport.initial_kex_done:
        transport.close()
        raise TimeoutError
    return transport


def _prefer(transport: paramiko.Transport, known_types: list[str]) -> None:
    """Put the types of the known host keys first: a server shows only one of its keys."""
    # An RSA key is listed under its type, but it signs with a digest, and servers refuse the one
    # (SHA-1) that is named like the type.
    preferred_types = list[str]()
    for key_type in known_types:
        preferred_types += ["rsa-sha2-512", "rsa-sha2-256"] if key_type == "ssh-rsa" else [key_type]
    security_options = transport.get_security_options()
    offered_types = list(security_options.key_types)
    other_types = [key_type for key_type in offered_types if key_type not in preferred_types]
    security_options.key_types = [
        key_type for key_type in preferred_types if key_type in offered_types
    ] + other_types


def _verify(key: paramiko.PKey, host: Host, asked_host: str) -> None:
    """Check a host key against the user's files. Raises: UnverifiedKey, unless it is accepted."""
    shown_key = SshHostKey(host, key)
    hosts_flag = hosts_option(host.hosts_file)
    match shown_key.standing():
        case KeyStatus.REVOKED:
            failure_text = f"its host key {shown_key.revoked()}: do not trust this host"
            raise UnverifiedKey(shown_key, FailureCause.HOST_KEY_WRONG, failure_text)
        case KeyStatus.CHANGED:
            known_place = shown_key.known()[0].place
            raise UnverifiedKey(
                shown_key,
                FailureCause.HOST_KEY_WRONG,
                f"its host key has CHANGED to {shown_key.what}; {known_place} has another. "
                "Someone may be intercepting the connection.",
                "If you know that the host has a new key: rankboard trust"
                f"{hosts_flag} --replace {shlex.quote(asked_host)}",
            )
        case KeyStatus.UNKNOWN:
            raise UnverifiedKey(
                shown_key,
                FailureCause.HOST_KEY_UNKNOWN,
                f"its host key is unknown: {shown_key.what}. Accept it if `ssh-keygen -lf` of its "
                "key file, usually in /etc/ssh there, shows the same.",
                f"rankboard trust{hosts_flag} {shlex.quote(asked_host)}",
            )
