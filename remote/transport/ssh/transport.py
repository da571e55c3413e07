"""Reaches a host's agent over SSH: one connection, one channel and one command per host. It
never asks for a terminal there."""

from __future__ import annotations

import itertools
import logging
import random
import re
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TypeVar

from paramiko.ssh_exception import SSHException

from remote.cluster.hosts import SSH_CONFIG, Host
from remote.cluster.ssh_config import SshConfig
from remote.transport import Program, Progress, Unreachable
from remote.transport.bootstrap.archive import PACKAGE, archive
from remote.transport.failure import Cause
from remote.transport.host_keys import ShownKey
from remote.transport.problem import Deadline, Dropped, Problem, explain
from remote.transport.ssh.channel import SshChannel, execute
from remote.transport.ssh.connect import Connection, Connector
from remote.transport.ssh.keys import Keys
from remote.transport.ssh.trust import Shown, Unverified
from remote.transport.start import Start
from training.wire.enums import Reach

Reached = TypeVar("Reached")

# paramiko's threads log errors that they also raise. Without a handler, Python prints them.
logging.getLogger("paramiko").addHandler(logging.NullHandler())
logging.getLogger("paramiko").propagate = False


class SshTransport:
    """Reaches agents over SSH."""

    def __init__(self, package: Path = PACKAGE, ssh_config: Path = SSH_CONFIG) -> None:
        """`package`: the folder of the package `training` that the hosts get. `ssh_config`: the
        file that says how to reach jump hosts."""
        self._package = package
        self._ssh_config = ssh_config
        self._keys = Keys()

    def open(self, host: Host, program: Program, progress: Progress) -> SshChannel:
        """Log in, send the code if the host lacks it, and return the channel once the agent's
        marker has come. Raises: Unreachable."""
        progress.phase(Reach.CONNECTING)
        deadline = Deadline(host.timeout)
        connection = None
        try:
            connection = self._connect(
                host, Connector(self._keys, progress.said, deadline, host.name)
            )
            run = partial(execute, connection, deadline=deadline)
            return Start(host, deadline, progress).run(program, archive(self._package), run)
        except (Problem, SSHException, EOFError, OSError) as error:
            if connection:
                connection.close()
            raise Unreachable(host.name, explain(error, deadline, host)) from error

    def meet(self, host: Host) -> Shown:
        """The key that a host shows, or the key of its first jump host that is not accepted.
        Raises: Unreachable."""
        deadline = Deadline(host.timeout)
        connector = Connector(self._keys, lambda _: None, deadline, host.name)
        try:
            return Shown(host, _retry(deadline, lambda: connector.meet(host, self._hops(host))))
        except Unverified as problem:
            return problem.shown
        except (Problem, SSHException, EOFError, OSError) as error:
            raise Unreachable(host.name, explain(error, deadline, host)) from error

    def accept(self, shown: ShownKey) -> Path:
        """Record a key that a person has accepted. Returns the file that holds it. Raises:
        NotRecorded."""
        assert isinstance(shown, Shown)
        return shown.record(self._ssh_config)

    def _connect(self, host: Host, connector: Connector) -> Connection:
        hops = self._hops(host)
        return _retry(connector.deadline, lambda: connector.connect(host, hops))

    def _hops(self, host: Host) -> tuple[Host, ...]:
        """The jump hosts, completed by ssh's configuration."""
        if not host.jump:
            return ()
        config = SshConfig.read(self._ssh_config)
        return tuple(_hop(text, host, config) for text in host.jump.split(","))


def _retry(deadline: Deadline, attempt: Callable[[], Reached]) -> Reached:
    """Call `attempt` again after a random pause while the far end hangs up before the login.
    Raises: what the last attempt raises."""
    dropped = None
    then = ""
    for number in itertools.count(1):
        try:
            return attempt()
        except TimeoutError:
            if dropped and deadline.doing == then:
                what = f"{dropped.failure.what}; then no answer came"
                raise Problem(Cause.DROPPED, what, dropped.failure.advice) from None
            raise
        except Dropped as error:
            dropped = error
            then = deadline.doing
            pause = random.uniform(0.1, 0.3) * min(number, 5)
            if time.monotonic() + pause >= deadline.end:
                raise
            time.sleep(pause)
    raise AssertionError("unreachable")


def _hop(text: str, host: Host, config: SshConfig) -> Host:
    found = re.fullmatch(r"(?:([^@]+)@)?(?:\[([^\]]+)\]|([^:]+))(?::(\d+))?", text)
    if not found:
        what = f"jump = {text!r} is wrong: write [user@]host[:port] in {host.hosts_file}"
        raise Problem(Cause.SETTINGS, what)
    user, bracketed, plain, port = found.groups()
    said = {key for key, value in (("user", user), ("port", port)) if value} | {"jump"}
    hop = Host(
        text,
        bracketed or plain,
        user=user or "",
        port=int(port or 22),
        identity_file=host.identity_file,
        hosts_file=host.hosts_file,
    )
    return config.fill(hop, said)
