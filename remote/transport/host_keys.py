"""Host keys: the contract of a transport whose hosts prove who they are by keys that the user has
to accept."""

from __future__ import annotations

from enum import Enum
from pathlib import Path
from typing import Protocol

from remote.cluster.hosts import Host


class KeyStatus(Enum):
    """What the user's files say of a key: accepted, of a host without any, not the one that they
    have, or revoked."""

    KNOWN = "known"
    UNKNOWN = "unknown"
    CHANGED = "changed"
    REVOKED = "revoked"


class PresentedKey(Protocol):
    """The key that a host, or a jump host on the way to it, shows."""

    @property
    def host(self) -> Host:
        """The host that shows it."""

    @property
    def name(self) -> str:
        """The host as the user's files write it."""

    @property
    def what(self) -> str:
        """Type and fingerprint, for a person."""

    @property
    def fingerprint(self) -> str:
        """What a person may paste to accept the key."""

    @property
    def shows(self) -> str:
        """The command that prints the fingerprint on the host itself."""

    def standing(self) -> KeyStatus:
        """What the files say of the key now."""

    def place(self) -> str:
        """Where an accepted key stands, in words."""

    def revoked(self) -> str:
        """A revoked key and where it stands, in words."""

    def others(self) -> list[str]:
        """The keys that the files have in the place of this one, in words."""


class NotRecorded(Exception):
    """A key that could not be recorded; the text says why, in one line."""


class HostKeys(Protocol):
    """Asks hosts for their keys, and records those that a person accepts."""

    def meet(self, host: Host) -> PresentedKey:
        """The key that a host shows. Where a jump host on the way has a key that is not accepted,
        the key of that jump host. Raises: Unreachable."""

    def accept(self, shown: PresentedKey) -> Path:
        """Record a key in place of others of its host. Returns the file that has it now. Raises:
        NotRecorded."""
