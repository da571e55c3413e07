"""The private keys that a login may try: the host's key file, ssh-agent's keys, and the default key
files."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import paramiko
from cryptography.exceptions import UnsupportedAlgorithm

from remote.cluster.hosts import Host
from remote.transport.failure import Cause
from remote.transport.problem import Problem

SET = "set identity_file in hosts.toml to your private key"
DEFAULTS = ("id_ed25519", "id_ecdsa", "id_rsa")


class Locked(Problem):
    """A key that stays shut without its passphrase; another key may do."""


@dataclass(frozen=True)
class Candidate:
    """A key to try, and what to call it in a message."""

    label: str
    key: paramiko.PKey


class Keys:
    """All keys of one run. Key files are read once for all hosts, and stay in memory."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._loaded: dict[Path, paramiko.PKey] = {}

    def candidates(
        self, host: Host, agents: Sequence[paramiko.PKey], hints: list[str]
    ) -> Iterator[Candidate]:
        """The keys in the order to try them: of a host's own key file and ssh-agent, or of the
        default files and ssh-agent.

        `agents` are the keys that ssh-agent holds; `hints` takes what would explain a failed login.
        Raises: Problem, where the host's own key file is no use.
        """
        files = [Path(host.identity_file).expanduser()] if host.identity_file else _default_files()
        held = [Candidate("a key of ssh-agent", key) for key in agents]
        public = {_public(file.with_name(file.name + ".pub")) for file in files}
        yield from (candidate for candidate in held if candidate.key.get_base64() in public)
        in_agent = {candidate.key.get_base64() for candidate in held}
        for file in files:
            if _public(file.with_name(file.name + ".pub")) not in in_agent and (
                key := self._load(file, hints, host)
            ):
                yield Candidate(str(file), key)
        yield from (candidate for candidate in held if candidate.key.get_base64() not in public)

    def _load(self, file: Path, hints: list[str], host: Host) -> paramiko.PKey | None:
        """The key in a file; None, with a hint, where it cannot be used but others may do."""
        with self._lock:
            try:
                if file not in self._loaded:
                    self._loaded[file] = self._read(file)
            except Problem as problem:
                if host.identity_file and not isinstance(problem, Locked):
                    raise
                hints.append(str(problem))
                return None
        return self._loaded[file]

    def _read(self, file: Path) -> paramiko.PKey:
        try:
            return paramiko.PKey.from_path(file)
        except FileNotFoundError:
            raise Problem(Cause.AUTHENTICATION, f"there is no key file {file}", SET) from None
        except OSError as error:
            what = f"the key file {file} cannot be read: {error.strerror}"
            raise Problem(Cause.AUTHENTICATION, what) from None
        except TypeError:  # cryptography: "Key is password-protected"
            what = f"the key {file} has a passphrase"
            advice = f"load it into ssh-agent first, with: ssh-add {file}"
            raise Locked(Cause.AUTHENTICATION, what, advice) from None
        except (
            ValueError,
            UnsupportedAlgorithm,
            paramiko.SSHException,
            paramiko.pkey.UnknownKeyType,
        ):
            other = " but a public one" if _public(file) else ""
            what = f"{file} is no private key{other}"
            raise Problem(Cause.AUTHENTICATION, what, SET) from None


def _default_files() -> list[Path]:
    return [file for name in DEFAULTS if (file := Path.home() / ".ssh" / name).is_file()]


def exposed(host: Host) -> str:
    """A remark where others can read the host's own key file: ssh would refuse it."""
    file = Path(host.identity_file).expanduser()
    try:
        readable = bool(host.identity_file) and file.stat().st_mode & 0o077
    except OSError:
        return ""
    return (
        f"{file} can be read by others, and ssh itself would refuse it: chmod 600 {file}"
        if readable
        else ""
    )


def _public(file: Path) -> str:
    """What a public key file holds, in base64; empty where it is none."""
    try:
        words = file.read_text(errors="replace").split()
    except OSError:
        return ""
    return words[1] if len(words) > 1 and words[0].startswith(("ssh-", "ecdsa-", "sk-")) else ""
