"""What ssh's own configuration file says of a host. What paramiko does not support is named in a
remark."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Set
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from paramiko.config import SSHConfig
from paramiko.ssh_exception import SSHException

from remote.cluster.hosts import Host

FOLLOWED = {"all", "canonical", "final", "host", "originalhost", "user", "localuser"}
"""The criteria of `Match` that are supported. `exec` is not: it would run commands whenever the
file is read."""
NOT_FOLLOWED = {
    "include",
    "hostkeyalias",
    "userknownhostsfile",
    "globalknownhostsfile",
    "identityagent",
    "certificatefile",
}


@dataclass(frozen=True)
class SshConfig:
    """A configuration file. `remarks` name its lines that are not supported."""

    remarks: tuple[str, ...]
    _parsed: SSHConfig

    @classmethod
    def read(cls, path: Path) -> SshConfig:
        """Read the settings of the file; none, with a remark, if it cannot be read."""
        try:
            return cls.parse(path, _read_lines(path))
        except FileNotFoundError:
            # Most users have none, so there is nothing to remark.
            return cls((), SSHConfig())
        except OSError as error:
            return cls((f"{path} is not used: {error}",), SSHConfig())

    @classmethod
    def parse(cls, path: Path, lines: list[str]) -> SshConfig:
        """Read the settings of these lines of a file; none, with a remark, if they are wrong."""
        supported_lines, remarks = _select_supported(path, lines)
        try:
            return cls(tuple(remarks), SSHConfig.from_text("\n".join(supported_lines)))
        except SSHException as error:
            return cls((f"{path} is not used: {error}",), SSHConfig())

    def says(self, address: str, option: str) -> str:
        """Return the value of an option (in lower case) for an address; "" if there is none."""
        return str(self._parsed.lookup(address).get(option, ""))

    def fill(self, host: Host, given_keys: Set[str]) -> Host:
        """Return the host, with the file's values for its address in all fields but those in
        `given_keys`."""
        settings = self._parsed.lookup(host.address)
        file_values: dict[str, Any] = {"user": settings.get("user")}
        if settings.get("port", "").isdigit():
            file_values["port"] = int(settings["port"])
        # ssh itself passes over key files that do not exist; paramiko would not.
        for key_file in settings.get("identityfile", ()):
            if Path(key_file).expanduser().is_file():
                file_values.setdefault("identity_file", key_file)
        # The hosts file says how to reach the host: ssh's own way would lead elsewhere.
        if given_keys.isdisjoint(("jump", "proxy_command")):
            jump_hosts = settings.get("proxyjump", "none")
            if jump_hosts.lower() == "none":
                file_values["proxy_command"] = settings.get("proxycommand")
            else:
                file_values["jump"] = jump_hosts.replace("ssh://", "").replace(" ", "")
        missing_values = {
            key: value for key, value in file_values.items() if value and key not in given_keys
        }
        return replace(host, address=settings["hostname"], **missing_values)


def find_setting(path: Path, host: Host, key: str, given_keys: Set[str]) -> tuple[int, str]:
    """Return the line of the file that sets a key of a host, and its keyword; (0, "") if none does.

    `host` and `given_keys` are those of `SshConfig.fill`, which takes from the file what a first
    line says. So the line is the last one of the shortest beginning with the same result.
    """
    try:
        lines = _read_lines(path)
    except OSError:
        return 0, ""

    def fill_by_beginning(length: int) -> Any:
        return getattr(SshConfig.parse(path, lines[:length]).fill(host, given_keys), key)

    value = fill_by_beginning(len(lines))
    if value == fill_by_beginning(0):
        return 0, ""
    line_number = bisect_left(
        range(len(lines) + 1), True, key=lambda length: fill_by_beginning(length) == value
    )
    keyword = re.split(r"[\s=]+", lines[line_number - 1].strip())[0]
    return line_number, keyword


def _read_lines(path: Path) -> list[str]:
    """Raises: OSError."""
    return path.expanduser().read_text(errors="replace").splitlines()


def _select_supported(path: Path, lines: list[str]) -> tuple[list[str], list[str]]:
    """Return the supported lines, and a remark on each other line. A `Match` that is not supported
    removes its whole block."""
    supported_lines: list[str] = []
    remarks: list[str] = []
    is_skipped = False
    for line_number, line in enumerate(lines, start=1):
        keyword, *line_words = re.split(r"[\s=]+", line.strip().lower()) if line.strip() else [""]
        # Either of them ends the block before it.
        if keyword in ("host", "match"):
            is_skipped = keyword == "match" and not _is_supported(line_words)
        if (is_skipped and keyword == "match") or keyword in NOT_FOLLOWED:
            remarks.append(
                f"{path}, line {line_number}: {line.strip()!r} is not followed; say in hosts.toml "
                "what depends on it"
            )
        elif not is_skipped:
            supported_lines.append(line)
    return supported_lines, remarks


def _is_supported(match_words: list[str]) -> bool:
    without_argument = {"all", "canonical", "final"}
    # `!` negates a criterion, which does not change how it is read.
    while match_words:
        criterion = match_words[0].lstrip("!")
        if criterion not in FOLLOWED:
            return False
        match_words = match_words[1 if criterion in without_argument else 2 :]
    return True
