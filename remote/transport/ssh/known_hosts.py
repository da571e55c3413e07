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


def known_hosts_files(own_file: str = "") -> tuple[Path, ...]:
    """Return the host's `own_file` if it has one; else the files that ssh reads, the user's
    first."""
    if own_file:
        return (Path(own_file).expanduser(),)
    user_folder = Path.home() / ".ssh"
    system_folder = Path("/etc/ssh")
    return (
        user_folder / "known_hosts",
        user_folder / "known_hosts2",
        system_folder / "ssh_known_hosts",
        system_folder / "ssh_known_hosts2",
    )


def spell_address(address: str, port: int) -> str:
    """Return an address as the files write it."""
    return address if port == 22 else f"[{address}]:{port}"


def find_known_keys(address: str, port: int, own_file: str = "") -> tuple[KnownKey, ...]:
    """Return the keys that the files hold for an address, in order. Files that cannot be read are
    skipped."""
    spelled_name = spell_address(address, port).lower()
    return tuple(
        known_key
        for file in known_hosts_files(own_file)
        for known_key in _in_file(file, spelled_name)
    )


def _in_file(file: Path, spelled_name: str) -> Iterator[KnownKey]:
    try:
        lines = file.read_text(errors="replace").splitlines()
    except OSError:
        return
    for line_number, line in enumerate(lines, start=1):
        line_words = line.split()
        marker = line_words.pop(0) if line_words and line_words[0].startswith("@") else ""
        # paramiko cannot check certificates, so authorities are skipped.
        if (
            len(line_words) >= 3
            and not line.startswith("#")
            and marker != "@cert-authority"
            and _names(line_words[0], spelled_name)
        ):
            yield KnownKey(
                file, line_number, line_words[1], line_words[2], revoked=marker == "@revoked"
            )


def _names(field: str, spelled_name: str) -> bool:
    """Whether the first field of a line matches this name. The field is a digest, or patterns of
    which those with `!` exclude."""
    if field.startswith(HASHED):
        return _is_hash(field, spelled_name)
    patterns = field.lower().split(",")
    if any(_fits(pattern[1:], spelled_name) for pattern in patterns if pattern.startswith("!")):
        return False
    return any(_fits(pattern, spelled_name) for pattern in patterns if not pattern.startswith("!"))


def _is_hash(field: str, spelled_name: str) -> bool:
    try:
        salt, digest = (base64.b64decode(encoded_part) for encoded_part in field.split("|")[2:])
    except ValueError:
        return False
    return hmac.compare_digest(hmac.new(salt, spelled_name.encode(), hashlib.sha1).digest(), digest)


def _fits(pattern: str, spelled_name: str) -> bool:
    if not {"*", "?"} & set(pattern):  # Thousands of regular expressions would take a second.
        return pattern == spelled_name
    expression = re.escape(pattern).replace(r"\*", ".*").replace(r"\?", ".")
    return re.fullmatch(expression, spelled_name) is not None


def record_key(
    file: Path, spelled_name: str, key_type: str, public_key: str, *, is_hashed: bool
) -> None:
    """Add a key of a host (named as by `spell_address`) to a file, and create the file if it is
    missing.
    Raises: OSError."""
    make_private_folders(file.parent)
    descriptor = os.open(file, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
    with open(descriptor, "r+b", buffering=0) as key_file:
        file_size = key_file.seek(0, os.SEEK_END)
        key_line = f"{_hash(spelled_name) if is_hashed else spelled_name} {key_type} {public_key}\n"
        # somebody may have left the last line without its end
        if file_size > 0 and os.pread(descriptor, 1, file_size - 1) != b"\n":
            key_line = "\n" + key_line
        key_file.write(key_line.encode())


def _hash(spelled_name: str) -> str:
    salt = secrets.token_bytes(20)
    digest = hmac.new(salt, spelled_name.lower().encode(), hashlib.sha1).digest()
    return f"{HASHED}{base64.b64encode(salt).decode()}|{base64.b64encode(digest).decode()}"


def forget_keys(spelled_name: str, entries: tuple[KnownKey, ...]) -> None:
    """Remove a host's name from the lines of these keys. Other names stay. Raises: NotForgotten,
    OSError."""
    for file in dict.fromkeys(entry.file for entry in entries):
        lines = file.read_text(errors="surrogateescape").splitlines(keepends=True)
        for entry in entries:
            if entry.file == file:
                lines[entry.line - 1] = _without(spelled_name.lower(), lines[entry.line - 1], entry)
        real_file = file.resolve()
        file_mode = real_file.stat().st_mode
        write_whole(real_file, "".join(lines).encode(errors="surrogateescape"))
        real_file.chmod(file_mode & 0o777)


def _without(spelled_name: str, line: str, entry: KnownKey) -> str:
    """Return the line without this name; "" if no other name is left on it."""
    names, line_rest = line.split(maxsplit=1)
    if names.startswith(HASHED):
        return ""
    other_names = ",".join(
        other_name for other_name in names.split(",") if other_name.lower() != spelled_name
    )
    if _names(other_names, spelled_name):
        raise SharedLine(
            f"line {entry.line} of {entry.file} is for all of {names}: change it by hand"
        )
    return f"{other_names} {line_rest}" if other_names else ""
