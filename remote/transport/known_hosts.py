"""Which host keys the user has accepted: OpenSSH's known_hosts files, read line by line so that a mistake can name its line."""

from __future__ import annotations

import base64
import hashlib
import hmac
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Known:
    """One accepted (or revoked) key: line `line` of `file`. `kind` is its type, `key` its public part in base64."""

    file: Path
    line: int
    kind: str
    key: str
    revoked: bool = False


def files(own: str = "") -> tuple[Path, ...]:
    """The host's `own` file and no other, where it has one; else where ssh looks: the user's files, then the system's."""
    if own:
        return (Path(own).expanduser(),)
    names = ("known_hosts", "known_hosts2")
    return tuple(Path.home() / ".ssh" / name for name in names) + tuple(Path("/etc/ssh") / f"ssh_{name}" for name in names)


def spelling(address: str, port: int) -> str:
    """How the files write an address."""
    return address if port == 22 else f"[{address}]:{port}"


def find(address: str, port: int, own: str = "") -> tuple[Known, ...]:
    """The keys that the files hold for an address, in the files' order. Files that cannot be read hold none."""
    name = spelling(address, port).lower()
    return tuple(known for file in files(own) for known in _in_file(file, name))


def _in_file(file: Path, name: str) -> Iterator[Known]:
    try:
        lines = file.read_text(errors="replace").splitlines()
    except OSError:
        return
    for number, line in enumerate(lines, start=1):
        words = line.split()
        marker = words.pop(0) if words and words[0].startswith("@") else ""
        # a certificate authority vouches for certificates, which paramiko cannot check
        if len(words) >= 3 and not line.startswith("#") and marker != "@cert-authority" and _names(words[0], name):
            yield Known(file, number, words[1], words[2], revoked=marker == "@revoked")


def _names(field: str, name: str) -> bool:
    """Whether the first field of a line means this name: hashed, or patterns of which none that excludes fits."""
    if field.startswith("|1|"):
        return _is_hash(field, name)
    patterns = field.lower().split(",")
    if any(_fits(pattern[1:], name) for pattern in patterns if pattern.startswith("!")):
        return False
    return any(_fits(pattern, name) for pattern in patterns if not pattern.startswith("!"))


def _is_hash(field: str, name: str) -> bool:
    try:
        salt, digest = (base64.b64decode(part) for part in field.split("|")[2:])
    except ValueError:
        return False
    return hmac.compare_digest(hmac.new(salt, name.encode(), hashlib.sha1).digest(), digest)


def _fits(pattern: str, name: str) -> bool:
    return re.fullmatch(re.escape(pattern).replace(r"\*", ".*").replace(r"\?", "."), name) is not None
