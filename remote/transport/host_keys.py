"""Host keys: the contract of a transport whose hosts prove who they are by keys that the user has
to accept."""

from __future__ import annotations

from enum import Enum
from pathlib import Path
from typing import Protocol

from remote.cluster.hosts import Host


class KeyStatus(Enum):
    """What the user's files say of a key."""

    KNOWN = "known"
    """It is accepted."""
    UNKNOWN = "unknown"
    """They have no key of its host."""
    CHANGED = "changed"
    """They have other keys of its host."""
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
        """Return what the files say of the key now."""

    def place(self) -> str:
        """Say where an accepted key stands."""

    def revoked(self) -> str:
        """Say which key is revoked and where that stands."""

    def others(self) -> list[str]:
        """Name the keys that the files have in the place of this one."""


class NotRecorded(Exception):
    """A key could not be recorded. The text says why, in one line."""


class HostKeys(Protocol):
    """Asks hosts for their keys, and records those that a person accepts."""

    def meet(self, host: Host) -> PresentedKey:
        """Return the key that a host shows; if a jump host on the way has a key that is not
        accepted, the key of that jump host. Raises: Unreachable."""

    def accept(self, shown: PresentedKey) -> Path:
        """Record a key in place of others of its host. Return the file that has it now. Raises:
        NotRecorded."""
