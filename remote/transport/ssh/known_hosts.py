"""Read and change the host keys that the user has accepted: OpenSSH's known_hosts files.

`paramiko.HostKeys` knows neither patterns nor `@revoked` nor line numbers, so the files are read
here. `record_key` and `forget_keys` change them after a person has agreed.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import os
import re
import secrets
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from training.writing import make_private_folders, write_whole

HASHED = "|1|"
"""The beginning of a field that holds the digest of a name instead of the name."""


class SharedLine(Exception):
    """A line cannot be changed for one host alone. The text says which and why."""


@dataclass(frozen=True)
class KnownKey:
    """One accepted (or revoked) key."""

    file: Path
    line: int
    """Its line in the file, counted from 1."""
    kind: str
    """Its type."""
    key: str
    """Its public part in base64."""
    revoked: bool = False

    @property
    def place(self) -> str:
        """Its line and file, for a message."""
        return f"line {self.line} of {self.file}"


def known_hosts_files(own: str = "") -> tuple[Path, ...]:
    """Return the host's `own` file if it has one; else the files that ssh reads, the user's
    first."""
    if own:
        return (Path(own).expanduser(),)
    home = Path.home() / ".ssh"
    system = Path("/etc/ssh")
    return (
        home / "known_hosts",
        home / "known_hosts2",
        system / "ssh_known_hosts",
        system / "ssh_known_hosts2",
    )


def spell_address(address: str, port: int) -> str:
    """Return an address as the files write it."""
    return address if port == 22 else f"[{address}]:{port}"


def find_known_keys(address: str, port: int, own: str = "") -> tuple[KnownKey, ...]:
    """Return the keys that the files hold for an address, in order. Files that cannot be read are
    skipped."""
    name = spell_address(address, port).lower()
    return tuple(known for file in known_hosts_files(own) for known in _in_file(file, name))


def _in_file(file: Path, name: str) -> Iterator[KnownKey]:
    try:
        lines = file.read_text(errors="replace").splitlines()
    except OSError:
        return
    for number, line in enumerate(lines, start=1):
        words = line.split()
        marker = words.pop(0) if words and words[0].startswith("@") else ""
        # paramiko cannot check certificates, so authorities are skipped.
        if (
            len(words) >= 3
            and not line.startswith("#")
            and marker != "@cert-authority"
            and _names(words[0], name)
        ):
            yield KnownKey(file, number, words[1], words[2], revoked=marker == "@revoked")


def _names(field: str, name: str) -> bool:
    """Whether the first field of a line matches this name. The field is a digest, or patterns of
    which those with `!` exclude."""
    if field.startswith(HASHED):
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
    if not {"*", "?"} & set(pattern):  # Thousands of regular expressions would take a second.
        return pattern == name
    expression = re.escape(pattern).replace(r"\*", ".*").replace(r"\?", ".")
    return re.fullmatch(expression, name) is not None


def record_key(file: Path, name: str, kind: str, key: str, *, hashed: bool) -> None:
    """Add a key of a host (named as by `spell_address`) to a file, and create the file if it is
    missing.
    Raises: OSError."""
    make_private_folders(file.parent)
    descriptor = os.open(file, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
    with open(descriptor, "r+b", buffering=0) as lines:
        size = lines.seek(0, os.SEEK_END)
        line = f"{_hash(name) if hashed else name} {kind} {key}\n"
        # somebody may have left the last line without its end
        if size > 0 and os.pread(descriptor, 1, size - 1) != b"\n":
            line = "\n" + line
        lines.write(line.encode())


def _hash(name: str) -> str:
    salt = secrets.token_bytes(20)
    digest = hmac.new(salt, name.lower().encode(), hashlib.sha1).digest()
    return f"{HASHED}{base64.b64encode(salt).decode()}|{base64.b64encode(digest).decode()}"


def forget_keys(name: str, entries: tuple[KnownKey, ...]) -> None:
    """Remove a host's name from the lines of these keys. Other names stay. Raises: NotForgotten,
    OSError."""
    for file in dict.fromkeys(entry.file for entry in entries):
        lines = file.read_text(errors="surrogateescape").splitlines(keepends=True)
        for entry in entries:
            if entry.file == file:
                lines[entry.line - 1] = _without(name.lower(), lines[entry.line - 1], entry)
        target = file.resolve()
        mode = target.stat().st_mode
        write_whole(target, "".join(lines).encode(errors="surrogateescape"))
        target.chmod(mode & 0o777)


def _without(name: str, line: str, entry: KnownKey) -> str:
    """Return the line without this name; "" if no other name is left on it."""
    names, rest = line.split(maxsplit=1)
    if names.startswith(HASHED):
        return ""
    others = ",".join(other for other in names.split(",") if other.lower() != name)
    if _names(others, name):
        raise SharedLine(
            f"line {entry.line} of {entry.file} is for all of {names}: change it by hand"
        )
    return f"{others} {rest}" if others else ""
