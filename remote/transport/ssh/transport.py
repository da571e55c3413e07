"""Reach a host's agent over SSH: one connection, one channel and one command per host. It
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
from remote.transport import Program, ReachProgress, Unreachable
from remote.transport.bootstrap.archive import PACKAGE, build_archive
from remote.transport.failure import Deadline, FailureCause, HungUp, ReachError, explain_failure
from remote.transport.host_keys import PresentedKey
from remote.transport.program_start import ProgramStart
from remote.transport.ssh.channel import SshChannel, execute
from remote.transport.ssh.connect import Connector, SshConnection
from remote.transport.ssh.keys import UserKeys
from remote.transport.ssh.trust import SshHostKey, UnverifiedKey
from training.wire.enums import Reach

Reached = TypeVar("Reached")

# paramiko's threads log errors that they also raise. Without a handler, Python prints them.
logging.getLogger("paramiko").addHandler(logging.NullHandler())
logging.getLogger("paramiko").propagate = False


class SshTransport:
    """Reaches agents over SSH."""

    def __init__(self, package: Path = PACKAGE, ssh_config: Path = SSH_CONFIG) -> None:
        """Send the package `training` of the folder `package` to hosts. `ssh_config`: the file that
        says how to reach jump hosts."""
        self._package = package
        self._ssh_config = ssh_config
        self._keys = UserKeys()

    def open(self, host: Host, program: Program, progress: ReachProgress) -> SshChannel:
        """Log in, send the code if the host lacks it, and return the channel once the agent's
        marker has come. Raises: Unreachable."""
        progress.phase(Reach.CONNECTING)
        deadline = Deadline(host.timeout)
        connection = None
        try:
            connection = self._connect(
                host, Connector(self._keys, progress.said, deadline, host.name)
            )
            run_command = partial(execute, connection, deadline=deadline)
            return ProgramStart(host, deadline, progress).run(
                program, build_archive(self._package), run_command
            )
        except (ReachError, SSHException, EOFError, OSError) as error:
            if connection:
                connection.close()
            raise Unreachable(host.name, explain_failure(error, deadline, host)) from error

    def meet(self, host: Host) -> SshHostKey:
        """Return the key that a host shows, or that of its first jump host that is not accepted.
        Raises: Unreachable."""
        deadline = Deadline(host.timeout)
        connector = Connector(self._keys, lambda _: None, deadline, host.name)
        try:
            return SshHostKey(
                host, _retry(deadline, lambda: connector.meet(host, self._hops(host)))
            )
        except UnverifiedKey as problem:
            return problem.shown
        except (ReachError, SSHException, EOFError, OSError) as error:
            raise Unreachable(host.name, explain_failure(error, deadline, host)) from error

    def accept(self, shown: PresentedKey) -> Path:
        """Record a key that a person has accepted. Return the file that holds it. Raises:
        NotRecorded."""
        assert isinstance(shown, SshHostKey)
        return shown.record(self._ssh_config)

    def _connect(self, host: Host, connector: Connector) -> SshConnection:
        hops = self._hops(host)
        return _retry(connector.deadline, lambda: connector.connect(host, hops))

    def _hops(self, host: Host) -> tuple[Host, ...]:
        """Return the jump hosts, completed by ssh's configuration."""
        if not host.jump:
            return ()
        ssh_config = SshConfig.read(self._ssh_config)
        return tuple(_hop(jump_text, host, ssh_config) for jump_text in host.jump.split(","))


def _retry(deadline: Deadline, connect_once: Callable[[], Reached]) -> Reached:
    """Call `connect_once` again after a random pause while the far end hangs up before the login.
    Raises: what the last attempt raises."""
    last_drop = None
    dropped_activity = ""
    for attempt_number in itertools.count(1):
        try:
            return connect_once()
        except TimeoutError:
            if last_drop and deadline.doing == dropped_activity:
                failure_text = f"{last_drop.failure.what}; then no answer came"
                raise ReachError(
                    FailureCause.DROPPED, failure_text, last_drop.failure.advice
                ) from None
            raise
        except HungUp as error:
            last_drop = error
            dropped_activity = deadline.doing
            # Random, because all hosts of a run may share one jump host, whose sshd would drop
            # the same ones again.
            pause_seconds = random.uniform(0.1, 0.3) * min(attempt_number, 5)
            if time.monotonic() + pause_seconds >= deadline.end:
                raise
            time.sleep(pause_seconds)
    raise AssertionError("unreachable")


def _hop(jump_text: str, host: Host, ssh_config: SshConfig) -> Host:
    jump_match = re.fullmatch(r"(?:([^@]+)@)?(?:\[([^\]]+)\]|([^:]+))(?::(\d+))?", jump_text)
    if not jump_match:
        failure_text = (
            f"jump = {jump_text!r} is wrong: write [user@]host[:port] in {host.hosts_file}"
        )
        raise ReachError(FailureCause.SETTINGS, failure_text)
    user_name, bracketed_address, plain_address, port_text = jump_match.groups()
    given_settings = {"jump"}  # what ssh's configuration is not to replace
    if user_name:
        given_settings.add("user")
    if port_text:
        given_settings.add("port")
    jump_host = Host(
        jump_text,
        bracketed_address or plain_address,
        user=user_name or "",
        port=int(port_text or 22),
        identity_file=host.identity_file,
        hosts_file=host.hosts_file,
    )
    return ssh_config.fill(jump_host, given_settings)
