"""Find out what the user's files say of the key that a host shows, and record it."""

from __future__ import annotations

import base64
import hashlib
from dataclasses import dataclass
from pathlib import Path

import paramiko

from remote.cluster.hosts import Host
from remote.cluster.ssh_config import SshConfig
from remote.transport.failure import FailureCause, ReachError
from remote.transport.host_keys import KeyStatus, NotRecorded
from remote.transport.ssh import known_hosts
from remote.transport.ssh.known_hosts import KnownKey

SYSTEM_CONFIG = Path("/etc/ssh/ssh_config")


@dataclass(frozen=True)
class SshHostKey:
    """The key that a host or jump host shows."""

    host: Host
    key: paramiko.PKey

    @property
    def what(self) -> str:
        """Type and fingerprint, as ssh shows them."""
        return f"{self.key.algorithm_name} {self.key.fingerprint}"

    @property
    def fingerprint(self) -> str:
        """SHA256 and a digest, as ssh-keygen prints it."""
        return self.key.fingerprint

    @property
    def shows(self) -> str:
        """The command that prints the fingerprint on the host itself, if its sshd has the key where
        it usually is."""
        key_type = self.key.get_name().removeprefix("ssh-").split("-")[0]
        return f"ssh-keygen -lf /etc/ssh/ssh_host_{key_type}_key.pub"

    @property
    def name(self) -> str:
        """The host as the files write it."""
        return known_hosts.spell_address(self.host.address, self.host.port)

    def known(self) -> tuple[KnownKey, ...]:
        """Return the keys that the files hold for the host now."""
        return known_hosts.find_known_keys(self.host.address, self.host.port, self.host.known_hosts)

    def _same(self) -> list[KnownKey]:
        own_key = (self.key.get_name(), self.key.get_base64())
        return [entry for entry in self.known() if (entry.kind, entry.key) == own_key]

    def standing(self) -> KeyStatus:
        """Return what the files say of the key now."""
        same_entries = self._same()
        if any(entry.revoked for entry in same_entries):
            return KeyStatus.REVOKED
        if same_entries:
            return KeyStatus.KNOWN
        return KeyStatus.CHANGED if self.known() else KeyStatus.UNKNOWN

    def place(self) -> str:
        """Say in which file and line the accepted key stands."""
        return self._same()[0].place

    def revoked(self) -> str:
        """Say which key is revoked, and in which file and line."""
        places = [entry.place for entry in self._same() if entry.revoked]
        return f"{self.what} is revoked in {places[0]}"

    def others(self) -> list[str]:
        """Name the keys that the files have instead of this one: type, fingerprint, file and
        line."""
        return [
            f"{_type(entry.kind)} {_fingerprint(entry.key)} ({entry.place})"
            for entry in self.known()
        ]

    def record(self, ssh_config: Path, system_config: Path = SYSTEM_CONFIG) -> Path:
        """Record the key in place of the host's other keys. Return the file that holds it. Raises:
        NotRecorded.

        With `HashKnownHosts yes` in ssh's configuration, the host's name is written as a digest.
        """
        file = known_hosts.known_hosts_files(self.host.known_hosts)[0]
        hash_setting = ""
        for config in (ssh_config, system_config):
            hash_setting = hash_setting or SshConfig.read(config).says(
                self.host.address, "hashknownhosts"
            )
        is_hashed = hash_setting.lower() == "yes"
        try:
            known_hosts.forget_keys(
                self.name, tuple(entry for entry in self.known() if not entry.revoked)
            )
            known_hosts.record_key(
                file, self.name, self.key.get_name(), self.key.get_base64(), is_hashed=is_hashed
            )
        except known_hosts.SharedLine as error:
            raise NotRecorded(str(error)) from None
        except OSError as error:
            raise NotRecorded(
                f"{error.filename or file} cannot be written: {error.strerror}"
            ) from None
        return file


class UnverifiedKey(ReachError):
    """A host shows a key that the user has not accepted: `shown`."""

    def __init__(
        self, shown_key: SshHostKey, cause: FailureCause, failure_text: str, advice: str = ""
    ) -> None:
        super().__init__(cause, failure_text, advice, apart=True)
        self.shown = shown_key


def _type(key_type: str) -> str:
    """Return a key's type as ssh writes it before a fingerprint."""
    return (
        key_type.removeprefix("ssh-").removeprefix("ecdsa-sha2-").upper().replace("NISTP", "ECDSA-")
    )


def _fingerprint(key: str) -> str:
    try:
        digest = hashlib.sha256(base64.b64decode(key)).digest()
    except ValueError:
        return "(no key)"
    return f"SHA256:{base64.b64encode(digest).decode().rstrip('=')}"
