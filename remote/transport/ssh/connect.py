"""The way to a host over SSH, up to the login: sockets, proxies, jump hosts, host keys and keys.
Runs nothing there."""

from __future__ import annotations

import getpass
import os
import shlex
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TypeVar

import paramiko
from paramiko.ssh_exception import (
    BadAuthenticationType,
    ChannelException,
    IncompatiblePeer,
    SSHException,
)

from remote.cluster.hosts import Host
from remote.transport.failure import Cause
from remote.transport.host_keys import Standing
from remote.transport.problem import Deadline, Dropped, Problem
from remote.transport.ssh import known_hosts
from remote.transport.ssh.keys import Keys, exposed
from remote.transport.ssh.trust import Shown, Unverified

Answer = TypeVar("Answer")
KEEPALIVE = 15
Address = tuple[socket.AddressFamily, tuple[object, ...]]
Socket = socket.socket | paramiko.Channel


@dataclass
class Connection:
    """A login at one host, and all that it hangs on: a proxy, or the connections to its jump
    hosts."""

    below: list[Connection] = field(default_factory=list)
    proxy: Proxy | None = None
    socket: Socket | None = None
    transport: paramiko.Transport | None = None

    def close(self) -> None:
        """Never blocks for long; any number of times."""
        if self.transport:
            self.transport.close()
        if self.socket:
            with suppress(OSError, EOFError, SSHException):
                self.socket.close()
        if self.proxy:
            self.proxy.close()
        for connection in self.below:
            connection.close()


class Proxy:
    """A proxy command, which speaks for the host on its stdin and stdout.

    These are one socket, whose end paramiko notices; its own class for such commands spins when
    they end.
    """

    def __init__(self, host: Host) -> None:
        user = host.user or getpass.getuser()
        command = host.proxy_command
        for token, value in (
            ("%h", host.address),
            ("%p", str(host.port)),
            ("%r", user),
            ("%%", "%"),
        ):
            command = command.replace(token, value)
        self.socket, theirs = socket.socketpair()
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115
        with theirs:
            self._process = subprocess.Popen(
                ["/bin/sh", "-c", f"exec {command}"],
                stdin=theirs.fileno(),
                stdout=theirs.fileno(),
                stderr=self._errors,
                start_new_session=True,
            )

    def said(self) -> str:
        """The last line that it wrote to stderr."""
        self._errors.seek(0)
        return self._errors.read().decode(errors="replace").strip().rpartition("\n")[2]

    def close(self) -> None:
        """End it."""
        self.socket.close()
        self._errors.close()
        if self._process.poll() is None:
            self._process.terminate()
        try:
            self._process.wait(0.5)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


@dataclass(frozen=True)
class Way:
    """What it takes to log in: the keys, who hears remarks, and how long there is. `top` is the
    host that it leads to."""

    keys: Keys
    remark: Callable[[str], None]
    deadline: Deadline
    top: str

    def connect(self, host: Host, hops: tuple[Host, ...] = ()) -> Connection:
        """Log in at a host, through its jump hosts. Raises: Problem, TimeoutError; then nothing
        stays open."""
        return self._through(host, hops, self._connect)

    def meet(self, host: Host, hops: tuple[Host, ...] = ()) -> paramiko.PKey:
        """The key that a host shows, asked for through its jump hosts, at which we log in.

        Raises: Unverified (where it is a jump host's key that is not accepted), other Problem,
        TimeoutError.
        """
        made = self._through(host, hops, self._meet)
        try:
            assert made.transport is not None
            return made.transport.get_remote_server_key()
        finally:
            made.close()

    def _through(
        self,
        host: Host,
        hops: tuple[Host, ...],
        arrive: Callable[[Host, list[Connection]], Connection],
    ) -> Connection:
        made = Connection()
        try:
            for hop in hops:
                try:
                    made.below.insert(0, self._connect(hop, made.below[:1]))
                except Problem as problem:
                    raise problem.of(f"its jump host {hop.name}") from problem
            below = made.below[:1]
            top = arrive(host, below)
            top.below = made.below
            return top
        except BaseException:
            made.close()
            raise

    def _meet(self, host: Host, below: list[Connection]) -> Connection:
        made = Connection()
        try:
            self.deadline.doing = f"connecting to {host.address}:{host.port}"
            made.socket = self._socket(host, below, made)
            made.transport = _handshake(made.socket, host, self.deadline, made.proxy)
            return made
        except BaseException:
            made.close()
            raise

    def _connect(self, host: Host, below: list[Connection]) -> Connection:
        made = self._meet(host, below)
        try:
            assert made.transport is not None
            _verify(made.transport.get_remote_server_key(), host, self.top)
            self.deadline.doing = f"logging in at {host.address}:{host.port}"
            self._login(made.transport, host)
            made.transport.set_keepalive(KEEPALIVE)
            return made
        except BaseException:
            made.close()
            raise

    def _socket(self, host: Host, below: list[Connection], made: Connection) -> Socket:
        if below and (transport := below[0].transport):
            try:
                target = (host.address, host.port)
                return transport.open_channel(
                    "direct-tcpip", target, ("127.0.0.1", 0), timeout=self.deadline.left()
                )
            except ChannelException as error:
                what = f"its jump host cannot connect to {host.address}:{host.port}: {error.text}"
                raise Problem(Cause.REFUSED, what) from None
        if host.proxy_command:
            made.proxy = Proxy(host)
            return made.proxy.socket
        return _tcp(host, self.deadline)

    def _login(self, transport: paramiko.Transport, host: Host) -> None:
        user = host.user or getpass.getuser()
        transport.auth_timeout = self.deadline.left()
        tried: list[str] = []
        hints: list[str] = []
        agent = self._agent(hints)
        if remark := exposed(host):
            self.remark(remark)
        try:
            for candidate in self.keys.candidates(host, agent.get_keys() if agent else (), hints):
                tried.append(candidate.label)
                if _accepts(transport, user, candidate.key):
                    return
                self.deadline.left()
                if not transport.is_active():
                    break
        finally:
            if agent:
                agent.close()
        self._refused(transport, host, user, tried, hints)

    def _agent(self, hints: list[str]) -> paramiko.Agent | None:
        """The user's ssh-agent, where there is one that answers."""
        if "SSH_AUTH_SOCK" not in os.environ:
            return None
        before, self.deadline.doing = self.deadline.doing, "asking ssh-agent for its keys"
        try:
            agent = _in_time(paramiko.Agent, self.deadline)
        except TimeoutError:
            raise
        except (SSHException, OSError) as error:
            hints.append(f"ssh-agent is of no use: {error}")
            agent = None
        self.deadline.doing = before
        return agent

    def _refused(
        self,
        transport: paramiko.Transport,
        host: Host,
        user: str,
        tried: list[str],
        hints: list[str],
    ) -> None:
        transport.auth_timeout = self.deadline.left()
        try:
            transport.auth_none(user)
            return
        except BadAuthenticationType as error:
            allowed = f"the server accepts {', '.join(error.allowed_types)}"
        except SSHException as error:
            _check_time(error)
            allowed = f"the server hung up ({error})"
        what = f"login as {user} failed; keys tried: {', '.join(tried) or 'none'}; {allowed}"
        advice = (
            "set user and identity_file in hosts.toml, or have your key accepted there: "
            f"ssh-copy-id -p {host.port} {user}@{host.address}"
        )
        if hints:
            advice = f"{'; '.join(hints)}; or {advice}"
        raise Problem(Cause.AUTHENTICATION, what, advice, apart=True)


def _accepts(transport: paramiko.Transport, user: str, key: paramiko.PKey) -> bool:
    """Whether the server takes the key. Raises: Problem, where it wants more than keys."""
    try:
        more = transport.auth_publickey(user, key)
    except SSHException as error:
        _check_time(error)
        return False
    if more:
        what = f"the server wants {' and '.join(more)} besides a key, which rankboard cannot give"
        raise Problem(Cause.AUTHENTICATION, what, "let keys suffice there")
    return True


def _check_time(error: SSHException) -> None:
    """Raises: TimeoutError, where a server has not refused a login but is too slow to answer, which
    paramiko tells by its text only."""
    if str(error) == "Authentication timeout.":
        raise TimeoutError


class _Prompt(socket.socket):
    """Acknowledges at once what it receives: sshd holds small messages back until its last one is
    acknowledged, and an acknowledgement may take 40 ms."""

    def recv(self, size: int, flags: int = 0) -> bytes:
        data = super().recv(size, flags)
        if data and sys.platform == "linux":
            self.setsockopt(socket.IPPROTO_TCP, socket.TCP_QUICKACK, 1)
        return data


def _tcp(host: Host, deadline: Deadline) -> socket.socket:
    """A connection to the first of the host's addresses that answers: one that does not leaves time
    for those behind it."""
    where = f"{host.address}:{host.port}"
    errors: list[OSError] = []
    addresses = _resolve(host, deadline)
    for tried, (family, address) in enumerate(addresses):
        sock = _Prompt(family, socket.SOCK_STREAM)
        try:
            sock.settimeout(deadline.left() / (len(addresses) - tried))
            sock.connect(address)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            return sock
        except OSError as error:
            sock.close()
            errors.append(error)
    deadline.left()
    if any(isinstance(error, ConnectionRefusedError) for error in errors):
        what = f"{where} refused the connection"
        advice = "start sshd there, or set its address and port in hosts.toml"
        raise Problem(Cause.REFUSED, what, advice)
    what = f"cannot connect to {where}: {errors[-1].strerror}"
    raise Problem(Cause.REFUSED, what, "set its address and port in hosts.toml")


def _resolve(host: Host, deadline: Deadline) -> list[Address]:
    """The host's addresses. The resolver knows no timeout, so a name is looked up by a thread that
    may be left behind."""
    with suppress(OSError, UnicodeError):
        return _addresses(host, socket.AI_NUMERICHOST)
    try:
        return _in_time(lambda: _addresses(host), deadline)
    except TimeoutError:
        raise
    except (OSError, UnicodeError) as error:
        text = getattr(error, "strerror", None) or error
        what = f"the name {host.address!r} does not resolve ({text})"
        advice = "set its address in hosts.toml to one that does"
        raise Problem(Cause.ADDRESS, what, advice) from None


def _addresses(host: Host, flags: int = 0) -> list[Address]:
    answers = socket.getaddrinfo(host.address, host.port, type=socket.SOCK_STREAM, flags=flags)
    return [(answer[0], answer[4]) for answer in answers]


def _in_time(ask: Callable[[], Answer], deadline: Deadline) -> Answer:
    """What is asked, of somebody who knows no timeout: by a thread that may be left behind. Raises:
    TimeoutError, and what the question raises."""
    answer: Future[Answer] = Future()

    def work() -> None:
        try:
            answer.set_result(ask())
        except Exception as error:  # noqa: BLE001 - it is raised below
            answer.set_exception(error)

    threading.Thread(target=work, name="question", daemon=True).start()
    return answer.result(deadline.left())


def _handshake(
    sock: Socket, host: Host, deadline: Deadline, proxy: Proxy | None
) -> paramiko.Transport:
    """Agree on keys with the server, preferring those that are known of it."""
    try:
        transport = paramiko.Transport(sock)
        _prefer(
            transport,
            [known.kind for known in known_hosts.find(host.address, host.port, host.known_hosts)],
        )
        # `start_client` is to be the first to give up: it does so in silence, which tells it from
        # an error
        transport.banner_timeout = transport.handshake_timeout = deadline.left() + 5
        transport.start_client(timeout=deadline.left())
    except TimeoutError:
        raise
    except IncompatiblePeer as error:
        what = f"its ssh server has no algorithms in common with us: {error}"
        raise Problem(Cause.OTHER, what) from None
    except (SSHException, EOFError, OSError) as error:
        where = f"{host.address}:{host.port} hung up before the login"
        if proxy and proxy.said():
            what = f"{where}; its proxy_command says: {proxy.said()}"
            raise Dropped(Cause.DROPPED, what) from None
        advice = (
            "is that the port of an ssh server? If it is a busy one, raise MaxStartups there "
            f"({str(error) or 'end of file'})"
        )
        raise Dropped(Cause.DROPPED, where, advice) from None
    if not transport.initial_kex_done:
        transport.close()
        raise TimeoutError
    return transport


def _prefer(transport: paramiko.Transport, kinds: list[str]) -> None:
    """Put the types of the known keys first: a server shows one key only, and an unknown one would
    not help."""
    wanted = [
        kind
        for known in kinds
        for kind in (["rsa-sha2-512", "rsa-sha2-256"] if known == "ssh-rsa" else [known])
    ]
    options = transport.get_security_options()
    offered = list(options.key_types)
    options.key_types = [kind for kind in wanted if kind in offered] + [
        kind for kind in offered if kind not in wanted
    ]


def _verify(key: paramiko.PKey, host: Host, top: str) -> None:
    """Raises: Unverified, unless the user has accepted this key for this host. `top` is the host
    that is to be reached."""
    shown = Shown(host, key)
    match shown.standing():
        case Standing.REVOKED:
            what = f"its host key {shown.revoked()}: do not trust this machine"
            raise Unverified(shown, Cause.HOST_KEY_WRONG, what)
        case Standing.CHANGED:
            raise Unverified(
                shown,
                Cause.HOST_KEY_WRONG,
                f"its host key has CHANGED to {shown.what}; {shown.known()[0].place} has another. "
                "Somebody may be listening in.",
                "If the machine is known to have a new key: rankboard trust --replace "
                f"{shlex.quote(top)}",
            )
        case Standing.UNKNOWN:
            raise Unverified(
                shown,
                Cause.HOST_KEY_UNKNOWN,
                f"its host key is unknown: {shown.what}. Compare that with `ssh-keygen -lf` of "
                "the key in /etc/ssh there, then accept it:",
                f"rankboard trust {shlex.quote(top)}",
            )
