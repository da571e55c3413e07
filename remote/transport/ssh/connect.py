"""Connect to a host over SSH, up to the login: through a proxy or jump hosts, with a verified host
key. Runs nothing there."""

from __future__ import annotations

import shlex
import socket
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field

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


@dataclass
class SshConnection:
    """A login at one host."""

    below: list[SshConnection] = field(default_factory=list)
    """The connections to its jump hosts, the nearest host first."""
    proxy: Proxy | None = None
    socket: Socket | None = None
    transport: paramiko.Transport | None = None

    def close(self) -> None:
        """Close it, with its proxy and the connections below it. May be called several times."""
        if self.transport:
            self.transport.close()
        if self.socket:
            with suppress(OSError, EOFError, SSHException):
                self.socket.close()
        if self.proxy:
            self.proxy.close()
        for connection in self.below:
            connection.close()


@dataclass(frozen=True)
class Connector:
    """Connects to hosts before the deadline."""

    keys: UserKeys
    remark: Callable[[str], None]
    """Takes warnings for the user."""
    deadline: Deadline
    top: str
    """The name of the host behind all jump hosts."""

    def connect(self, host: Host, hops: tuple[Host, ...] = ()) -> SshConnection:
        """Log in at a host through its jump hosts. On an error nothing stays open. Raises:
        ReachError, TimeoutError."""
        return self._through(host, hops, self._connect)

    def meet(self, host: Host, hops: tuple[Host, ...] = ()) -> paramiko.PKey:
        """Return the key that a host shows. This logs in at its jump hosts only.

        Raises: UnverifiedKey, if the key of a jump host is not accepted; other ReachError;
        TimeoutError.
        """
        connection = self._through(host, hops, self._meet)
        try:
            assert connection.transport is not None
            return connection.transport.get_remote_server_key()
        finally:
            connection.close()

    def _through(
        self,
        host: Host,
        hops: tuple[Host, ...],
        arrive: Callable[[Host, list[SshConnection]], SshConnection],
    ) -> SshConnection:
        connection = SshConnection()
        try:
            for hop in hops:
                try:
                    connection.below.insert(0, self._connect(hop, connection.below[:1]))
                except ReachError as problem:
                    raise problem.of_other_host(f"its jump host {hop.name}") from problem
            below = connection.below[:1]
            top = arrive(host, below)
            top.below = connection.below
            return top
        except BaseException:
            connection.close()
            raise

    def _meet(self, host: Host, below: list[SshConnection]) -> SshConnection:
        connection = SshConnection()
        try:
            self.deadline.doing = f"connecting to {host.address}:{host.port}"
            connection.socket = self._socket(host, below, connection)
            connection.transport = _handshake(
                connection.socket, host, self.deadline, connection.proxy
            )
            return connection
        except BaseException:
            connection.close()
            raise

    def _connect(self, host: Host, below: list[SshConnection]) -> SshConnection:
        connection = self._meet(host, below)
        try:
            assert connection.transport is not None
            _verify(connection.transport.get_remote_server_key(), host, self.top)
            self.deadline.doing = f"logging in at {host.address}:{host.port}"
            Login(self.keys, self.remark, self.deadline).perform(connection.transport, host)
            connection.transport.set_keepalive(KEEPALIVE)
            return connection
        except BaseException:
            connection.close()
            raise

    def _socket(self, host: Host, below: list[SshConnection], connection: SshConnection) -> Socket:
        if below and (transport := below[0].transport):
            try:
                target = (host.address, host.port)
                return transport.open_channel(
                    "direct-tcpip", target, ("127.0.0.1", 0), timeout=self.deadline.left()
                )
            except ChannelException as error:
                what = f"its jump host cannot connect to {host.address}:{host.port}: {error.text}"
                raise ReachError(FailureCause.REFUSED, what) from None
        if host.proxy_command:
            connection.proxy = Proxy(host)
            return connection.proxy.socket
        return connect_tcp(host, self.deadline)


def _handshake(
    sock: Socket, host: Host, deadline: Deadline, proxy: Proxy | None
) -> paramiko.Transport:
    """Start the SSH protocol with the server. Prefers the types of its known host keys."""
    try:
        transport = paramiko.Transport(sock)
        _prefer(
            transport,
            [
                known.kind
                for known in known_hosts.find_known_keys(host.address, host.port, host.known_hosts)
            ],
        )
        # `start_client` must be the first to time out. It raises nothing then, so a timeout can be
        # told from an error.
        transport.banner_timeout = transport.handshake_timeout = deadline.left() + 5
        transport.start_client(timeout=deadline.left())
    except TimeoutError:
        raise
    except IncompatiblePeer as error:
        what = f"its ssh server has no algorithms in common with us: {error}"
        raise ReachError(FailureCause.OTHER, what) from None
    except (SSHException, EOFError, OSError) as error:
        where = f"{host.address}:{host.port} hung up before the login"
        if proxy and proxy.last_error():
            what = f"{where}; its proxy_command says: {proxy.last_error()}"
            raise HungUp(FailureCause.DROPPED, what) from None
        advice = (
            "is that the port of an ssh server? If it is a busy one, raise MaxStartups there "
            f"({str(error) or 'end of file'})"
        )
        raise HungUp(FailureCause.DROPPED, where, advice) from None
    if not transport.initial_kex_done:
        transport.close()
        raise TimeoutError
    return transport


def _prefer(transport: paramiko.Transport, kinds: list[str]) -> None:
    """Put the types of the known host keys first: a server shows only one of its keys."""
    preferred = []
    for kind in kinds:
        preferred += ["rsa-sha2-512", "rsa-sha2-256"] if kind == "ssh-rsa" else [kind]
    options = transport.get_security_options()
    offered = list(options.key_types)
    others = [kind for kind in offered if kind not in preferred]
    options.key_types = [kind for kind in preferred if kind in offered] + others


def _verify(key: paramiko.PKey, host: Host, top: str) -> None:
    """Check a host key against the user's files. Raises: UnverifiedKey, unless it is accepted."""
    shown = SshHostKey(host, key)
    option = hosts_option(host.hosts_file)
    match shown.standing():
        case KeyStatus.REVOKED:
            what = f"its host key {shown.revoked()}: do not trust this host"
            raise UnverifiedKey(shown, FailureCause.HOST_KEY_WRONG, what)
        case KeyStatus.CHANGED:
            raise UnverifiedKey(
                shown,
                FailureCause.HOST_KEY_WRONG,
                f"its host key has CHANGED to {shown.what}; {shown.known()[0].place} has another. "
                "Someone may be intercepting the connection.",
                "If you know that the host has a new key: rankboard trust"
                f"{option} --replace {shlex.quote(top)}",
            )
        case KeyStatus.UNKNOWN:
            raise UnverifiedKey(
                shown,
                FailureCause.HOST_KEY_UNKNOWN,
                f"its host key is unknown: {shown.what}. Compare that with `ssh-keygen -lf` of "
                "the key in /etc/ssh there, then accept it:",
                f"rankboard trust{option} {shlex.quote(top)}",
            )
