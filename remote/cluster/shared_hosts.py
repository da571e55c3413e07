"""A hosts file to hand on: what anybody needs to make the same runs, without what is private."""

from __future__ import annotations

import getpass
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any

from remote.cluster.file import OF_ONE_HOST
from remote.cluster.hosts import LOCAL, Host, host_keys
from remote.toml_writer import format_toml_table, join_toml_tables

PRIVATE = ("user", "identity_file", "known_hosts", "jump", "proxy_command", "workdir", "env_from")
"""Keys that say who reaches a host and how, or that hold for one person only."""
VARIABLES = "env"
"""The key whose values may be secrets."""
PATHS = ("python", "cwd")
"""Keys that are handed on unless the path names a user."""
FOLDERS_OF_USERS = ("home", "homes", "users")
"""Folders, in small letters, that have a folder of each user."""
OF_THE_RUN = ("slurm_job",)
"""Keys that nobody misses: that job is over."""
OF_LAUNCHER = ("workdir", "cwd")
"""Keys of hosts that are this machine, which the launcher sets."""
STAND_IN = "…"


@dataclass(frozen=True)
class SharedHosts:
    """The text of a hosts file to hand on."""

    text: str
    missing_keys: tuple[str, ...]
    """The keys that the hosts had, and the text has not."""


def share_hosts(hosts: Sequence[Host], sync: Sequence[str] = ()) -> SharedHosts:
    """Return a hosts file without what is private. `sync` are folders, relative to the file."""
    tables: list[dict[str, Any]] = []
    missing_keys: dict[str, None] = {}
    for host in hosts:
        given_keys = _find_given_keys(host)
        private_keys = [key for key, value in given_keys.items() if _is_private(host, key, value)]
        tables.append({key: given_keys[key] for key in given_keys.keys() - {*private_keys}})
        missing_keys |= dict.fromkeys(private_keys)
    common_keys = _find_common_keys(tables)
    cluster_lines = format_toml_table("[cluster]", {"sync": list(sync)}) if sync else []
    default_lines = format_toml_table("[defaults]", common_keys)
    default_lines += [f"# {line}" for line in _describe_missing(hosts, [*missing_keys])]
    host_lines = [
        format_toml_table("[[host]]", {key: table[key] for key in _order(table, common_keys)})
        for table in tables
    ]
    head_lines = ["# The hosts of these runs, in rank order."]
    if missing_keys:
        head_lines.append(f"# {STAND_IN} stands for what was left out: write what your hosts need.")
    text = join_toml_tables(
        [
            head_lines,
            cluster_lines,
            default_lines if common_keys or missing_keys else [],
            *host_lines,
        ]
    )
    return SharedHosts(text, tuple(missing_keys))


def _find_given_keys(host: Host) -> dict[str, Any]:
    """Return the keys of a host whose values are not the defaults."""
    given_keys = {}
    for key in host_keys():
        value = getattr(host, key.name)
        is_set_by_launcher = host.transport == LOCAL and key.name in OF_LAUNCHER
        if key.name in OF_THE_RUN or is_set_by_launcher:
            continue
        # A host whose address is not known is reached by its name.
        if value not in (key.default, ""):
            given_keys[key.name] = value
    return given_keys


def _is_private(host: Host, key: str, value: Any) -> bool:
    if key in PATHS:
        path = PurePosixPath(value)
        is_of_known_user = not _known_users(host).isdisjoint(path.parts)
        return is_of_known_user or _names_user(path)
    return key in (*PRIVATE, VARIABLES)


def _names_user(path: PurePosixPath) -> bool:
    """Return True for the folder of any user: /home/ada, /Users/ada, ~ada, or what is in it."""
    if path.is_absolute():
        # A name alone may not be known: the user is perhaps that of a file of ssh.
        parents = [part.lower() for part in path.parts[:-1]]
        return not set(FOLDERS_OF_USERS).isdisjoint(parents)
    first_part = path.parts[0] if path.parts else ""
    return first_part.startswith("~") and first_part != "~"


def _known_users(host: Host) -> set[str]:
    """Return the names of users that a path of a host may have."""
    users = {host.user} if host.user else set()
    with suppress(OSError, KeyError):  # a user whom this machine does not know
        users.add(getpass.getuser())
    return users


def _find_common_keys(tables: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the keys that all hosts have with the same value; of one host, none."""
    if len(tables) < 2:
        return {}
    first_table, *other_tables = tables
    return {
        key: first_table[key]
        for key in _order(first_table)
        if key not in OF_ONE_HOST
        and all(table.get(key) == first_table[key] for table in other_tables)
    }


def _order(table: Mapping[str, Any], without: Mapping[str, Any] | None = None) -> list[str]:
    """Return the keys of a table in the order of `Host`, without some."""
    without = without or {}
    return [key.name for key in host_keys() if key.name in table and key.name not in without]


def _describe_missing(hosts: Sequence[Host], keys: Sequence[str]) -> list[str]:
    """Return what to write for the missing keys, a line each."""
    lines = []
    for key in keys:
        if key == VARIABLES:
            variables = dict.fromkeys(name for host in hosts for name, _ in host.env)
            lines += format_toml_table("", {key: dict.fromkeys(variables, STAND_IN)})
        elif key == "env_from":
            variables = dict.fromkeys(name for host in hosts for name in host.env_from)
            lines += format_toml_table("", {key: list(variables)})
        else:
            lines += format_toml_table("", {key: STAND_IN})
    return lines
