"""What ssh's own configuration file says of a host. What paramiko does not support is named in a
remark."""

from __future__ import annotations

import re
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
            text = path.expanduser().read_text(errors="replace")
            lines, remarks = _select_supported(path, text.splitlines())
            return cls(tuple(remarks), SSHConfig.from_text("\n".join(lines)))
        except FileNotFoundError:
            return cls((), SSHConfig())
        except (OSError, SSHException) as error:
            return cls((f"{path} is not used: {error}",), SSHConfig())

    def says(self, address: str, option: str) -> str:
        """Return the value of an option (in lower case) for an address; "" if there is none."""
        return str(self._parsed.lookup(address).get(option, ""))

    def fill(self, host: Host, given: Set[str]) -> Host:
        """Return the host, with the file's values for its address in all fields but those in
        `given`."""
        settings = self._parsed.lookup(host.address)
        values: dict[str, Any] = {"user": settings.get("user")}
        if settings.get("port", "").isdigit():
            values["port"] = int(settings["port"])
        for file in settings.get("identityfile", ()):
            if Path(file).expanduser().is_file():
                values.setdefault("identity_file", file)
        if given.isdisjoint(("jump", "proxy_command")):
            jump = settings.get("proxyjump", "none")
            if jump.lower() == "none":
                values["proxy_command"] = settings.get("proxycommand")
            else:
                values["jump"] = jump.replace("ssh://", "").replace(" ", "")
        missing = {key: value for key, value in values.items() if value and key not in given}
        return replace(host, address=settings["hostname"], **missing)


def _select_supported(path: Path, lines: list[str]) -> tuple[list[str], list[str]]:
    """Return the supported lines, and a remark on each other line. A `Match` that is not supported
    removes its whole block."""
    supported: list[str] = []
    remarks: list[str] = []
    is_skipped = False
    for number, line in enumerate(lines, start=1):
        key, *words = re.split(r"[\s=]+", line.strip().lower()) if line.strip() else [""]
        if key in ("host", "match"):
            is_skipped = key == "match" and not _is_supported(words)
        if (is_skipped and key == "match") or key in NOT_FOLLOWED:
            remarks.append(
                f"{path}, line {number}: {line.strip()!r} is not followed; say in hosts.toml what "
                "depends on it"
            )
        elif not is_skipped:
            supported.append(line)
    return supported, remarks


def _is_supported(words: list[str]) -> bool:
    alone = {"all", "canonical", "final"}
    while words:
        criterion = words[0].lstrip("!")
        if criterion not in FOLLOWED:
            return False
        words = words[1 if criterion in alone else 2 :]
    return True
