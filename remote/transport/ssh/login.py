"""Log in at a host with the keys that the user has."""

from __future__ import annotations

import getpass
import os
from collections.abc import Callable
from dataclasses import dataclass

import paramiko
from paramiko.ssh_exception import BadAuthenticationType, SSHException

from remote.cluster.hosts import Host
from remote.transport.failure import Deadline, FailureCause, ReachError
from remote.transport.ssh.keys import UserKeys, warn_if_readable
from remote.transport.ssh.sockets import call_in_time


@dataclass(frozen=True)
class Login:
    """Logs in with `keys` before the deadline. `remark` takes warnings for the user."""

    keys: UserKeys
    remark: Callable[[str], None]
    deadline: Deadline

    def perform(self, transport: paramiko.Transport, host: Host) -> None:
        """Log in over a connection whose host key is verified. Raises: ReachError, TimeoutError."""
        user_name = host.user or getpass.getuser()
        transport.auth_timeout = self.deadline.left()
        tried_labels: list[str] = []
        hints: list[str] = []
        ssh_agent = self._agent(hints)
        key_warning = warn_if_readable(host)
        if key_warning:
            self.remark(key_warning)
        try:
            for candidate in self.keys.candidates(
                host, ssh_agent.get_keys() if ssh_agent else (), hints
            ):
                tried_labels.append(candidate.label)
                if _accepts(transport, user_name, candidate.key):
                    return
                self.deadline.left()
                if not transport.is_active():
                    break
        finally:
            if ssh_agent:
                ssh_agent.close()
        self._explain_refusal(transport, host, user_name, tried_labels, hints)

    def _agent(self, hints: list[str]) -> paramiko.Agent | None:
        """Return the user's ssh-agent, if there is one that answers."""
        # paramiko would give an agent without keys, with nothing that tells it from one that does
        # not answer.
        if "SSH_AUTH_SOCK" not in os.environ:
            return None
        previous_activity = self.deadline.doing
        self.deadline.doing = "asking ssh-agent for its keys"
        try:
            ssh_agent = call_in_time(paramiko.Agent, self.deadline)
        except TimeoutError:
            raise
        except (SSHException, OSError) as error:
            hints.append(f"ssh-agent does not work: {error}")
            ssh_agent = None
        self.deadline.doing = previous_activity
        return ssh_agent

    def _explain_refusal(
        self,
        transport: paramiko.Transport,
        host: Host,
        user_name: str,
        tried_labels: list[str],
        hints: list[str],
    ) -> None:
        """Try to log in without a key, which also tells what the server accepts. Raises:
        ReachError, TimeoutError."""
        transport.auth_timeout = self.deadline.left()
        try:
            transport.auth_none(user_name)
            return
        except BadAuthenticationType as error:
            allowed_methods = f"the server accepts {', '.join(error.allowed_types)}"
        except SSHException as error:
            _check_time(error)
            allowed_methods = f"the server hung up ({error})"
        tried_text = ", ".join(tried_labels) or "none"
        failure_text = f"login as {user_name} failed; keys tried: {tried_text}; {allowed_methods}"
        advice = (
            f"set user and identity_file in {host.hosts_file}, or have your key accepted there: "
            f"ssh-copy-id -p {host.port} {user_name}@{host.address}"
        )
        if hints:
            advice = f"{'; '.join(hints)}; or {advice}"
        raise ReachError(FailureCause.AUTHENTICATION, failure_text, advice, apart=True)


def _accepts(transport: paramiko.Transport, user_name: str, key: paramiko.PKey) -> bool:
    """Return True if the server accepts the key. Raises: ReachError, if it wants more
    than a key."""
    try:
        further_methods = transport.auth_publickey(user_name, key)
    except SSHException as error:
        _check_time(error)
        return False
    if further_methods:
        method_names = " and ".join(further_methods)
        failure_text = f"the server wants {method_names} besides a key, which rankboard cannot give"
        raise ReachError(
            FailureCause.AUTHENTICATION, failure_text, "configure the server to accept a key alone"
        )
    return True


def _check_time(error: SSHException) -> None:
    """Raises: TimeoutError, if the server did not answer in time. paramiko says so only in the text
    of the error."""
    if str(error) == "Authentication timeout.":
        raise TimeoutError
