"""Find the private keys that a login tries: the host's key file, the keys of ssh-agent, and the
default key files."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import paramiko
from cryptography.exceptions import UnsupportedAlgorithm

from remote.cluster.hosts import Host
from remote.transport.failure import FailureCause, ReachError

DEFAULTS = ("id_ed25519", "id_ecdsa", "id_rsa")


class LockedKey(ReachError):
    """A key that needs its passphrase. Another key may work."""


@dataclass(frozen=True)
class KeyCandidate:
    """A key to try."""

    label: str
    """Names it in messages."""
    key: paramiko.PKey


class UserKeys:
    """The keys of one run. Each key file is read once for all hosts."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._loaded: dict[Path, paramiko.PKey] = {}

    def candidates(
        self, host: Host, agent_list: Sequence[paramiko.PKey], hints: list[str]
    ) -> Iterator[KeyCandidate]:
        """Yield the keys in the order to try them: those of the host's key file, else of the
        default files, and those of ssh-agent (`agent_list`).

        `hints` takes what would explain a failed login. Raises: ReachError, if the host's own key
        file cannot be used.
        """
        key_files = (
            [Path(host.identity_file).expanduser()] if host.identity_file else _default_files()
        )
        public_keys = {file: _read_public(file.with_name(f"{file.name}.pub")) for file in key_files}
        agent_keys = {key.get_base64(): key for key in agent_list}
        agent_label = "a key of ssh-agent"
        for public_text, key in agent_keys.items():
            if public_text in public_keys.values():
                yield KeyCandidate(agent_label, key)
        for file, public_key in public_keys.items():
            if public_key in agent_keys:
                continue
            loaded_key = self._load(file, hints, host)
            if loaded_key:
                yield KeyCandidate(str(file), loaded_key)
        for public_text, key in agent_keys.items():
            if public_text not in public_keys.values():
                yield KeyCandidate(agent_label, key)

    def _load(self, key_file: Path, hints: list[str], host: Host) -> paramiko.PKey | None:
        """Return the key in a file; None, with a hint, if it cannot be used but others may work."""
        with self._lock:
            try:
                if key_file not in self._loaded:
                    self._loaded[key_file] = self._read(key_file, host)
            except ReachError as problem:
                if host.identity_file and not isinstance(problem, LockedKey):
                    raise
                hints.append(str(problem))
                return None
        return self._loaded[key_file]

    def _read(self, key_file: Path, host: Host) -> paramiko.PKey:
        try:
            return paramiko.PKey.from_path(key_file)
        except FileNotFoundError:
            raise ReachError(
                FailureCause.AUTHENTICATION, f"there is no key file {key_file}", _set_key(host)
            ) from None
        except OSError as error:
            failure_text = f"the key file {key_file} cannot be read: {error.strerror}"
            raise ReachError(FailureCause.AUTHENTICATION, failure_text) from None
        except TypeError:  # cryptography: "Key is password-protected"
            failure_text = f"the key {key_file} has a passphrase"
            advice = f"load it into ssh-agent first, with: ssh-add {key_file}"
            raise LockedKey(FailureCause.AUTHENTICATION, failure_text, advice) from None
        except (
            ValueError,
            UnsupportedAlgorithm,
            paramiko.SSHException,
            paramiko.pkey.UnknownKeyType,
        ):
            public_hint = " but a public one" if _read_public(key_file) else ""
            failure_text = f"{key_file} is not a private key{public_hint}"
            raise ReachError(FailureCause.AUTHENTICATION, failure_text, _set_key(host)) from None


def _set_key(host: Host) -> str:
    return f"set identity_file in {host.hosts_file} to your private key"


def _default_files() -> list[Path]:
    files = [Path.home() / ".ssh" / name for name in DEFAULTS]
    return [file for file in files if file.is_file()]


def warn_if_readable(host: Host) -> str:
    """Warn if others can read the host's own key file, which ssh would refuse; else return ""."""
    if not host.identity_file:
        return ""
    key_file = Path(host.identity_file).expanduser()
    try:
        is_readable = key_file.stat().st_mode & 0o077
    except OSError:
        return ""
    if not is_readable:
        return ""
    return f"{key_file} can be read by others, and ssh itself would refuse it: chmod 600 {key_file}"


def _read_public(public_file: Path) -> str:
    """Return the key of a public key file in base64; "" if it is not one."""
    try:
        words = public_file.read_text(errors="replace").split()
    except OSError:
        return ""
    is_key = len(words) > 1 and words[0].startswith(("ssh-", "ecdsa-", "sk-"))
    return words[1] if is_key else ""
