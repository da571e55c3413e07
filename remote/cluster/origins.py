"""Which settings of hosts and rules apply, and where each comes from: file, line and key."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import MISSING, dataclass, replace
from pathlib import Path
from typing import Any

import tomllib

from remote.cluster import hostfile
from remote.cluster.file import (
    CLUSTER_KEYS,
    CLUSTER_PLACE,
    DEFAULTS_PLACE,
    FORMAT_KEYS,
    WAYS,
    TablePlace,
)
from remote.cluster.hosts import SSH, SSH_CONFIG, Cluster, Host, host_keys
from remote.cluster.toml_lines import KeyPath, find_line, find_lines

VARIABLES = ("env", "env_from")
"""Keys of which [defaults] and [[host]] tables are joined."""


@dataclass(frozen=True)
class Origin:
    """Where a value comes from. All fields are empty for a default of rankboard."""

    file: str = ""
    line: int = 0
    key: str = ""
    """The key there: of a table, such as "[defaults] user", or a keyword of ssh, such as "User"."""


DEFAULT = Origin()


@dataclass(frozen=True)
class Setting:
    """A value that applies."""

    owner: str
    """What it is of: a host, "[cluster]" or a rule."""
    key: str
    value: Any
    origin: Origin


@dataclass(frozen=True)
class _Source:
    """A file of settings, whose mistakes are already found."""

    file: str
    tables: dict[str, Any]
    lines: dict[KeyPath, int]
    is_hostfile: bool = False
    """It has lines of hosts instead of tables."""

    @classmethod
    def read(cls, path: Path) -> _Source:
        """Raises: OSError, HostsError."""
        text = path.read_text(encoding="utf-8")
        if not hostfile.is_hostfile(text):
            return cls(str(path), tomllib.loads(text), find_lines(text))
        host_lines: dict[KeyPath, int] = {
            ("host", index): line for index, line in enumerate(hostfile.find_host_lines(text))
        }
        tables = {"host": hostfile.read(path, text)}
        return cls(str(path), tables, host_lines, is_hostfile=True)

    def locate(self, table: TablePlace, *keys: str) -> Origin:
        """Return the origin of a value in a table of this file."""
        line_number = find_line(self.lines, *table.path, *keys)
        key = ".".join(keys)
        return Origin(self.file, line_number, key if self.is_hostfile else f"{table.words} {key}")


def find_settings(cluster: Cluster, ssh_config: Path = SSH_CONFIG) -> Iterator[Setting]:
    """Yield all settings of a cluster, as it was loaded from its file. Raises: OSError, HostsError.

    The hosts of a Slurm job have no file: their origin is the name of the cluster.
    """
    if not cluster.file:
        yield from _find_settings_of_job(cluster)
        return
    source = _Source.read(Path(cluster.file))
    yield from _find_settings_of_cluster(cluster, source)
    for host_index, host in enumerate(cluster.hosts):
        yield from _find_settings_of_host(host, host_index, source, ssh_config)
    yield from _find_rules(source)


def find_rule_settings(path: Path) -> Iterator[Setting]:
    """Yield the settings of a file that has rules alone. Raises: OSError."""
    yield from _find_rules(_Source.read(path))


def _find_settings_of_job(cluster: Cluster) -> Iterator[Setting]:
    for host in cluster.hosts:
        for key in host_keys():
            value = getattr(host, key.name)
            origin = DEFAULT if value == key.default else Origin(key=cluster.name)
            yield Setting(host.name, key.name, value, origin)


def _find_settings_of_cluster(cluster: Cluster, source: _Source) -> Iterator[Setting]:
    given_keys = source.tables.get("cluster", {})
    # What is not given: a name follows from that of the file.
    values = {"name": cluster.name, "sync": [], "on_disconnect": ""} | given_keys
    for key in CLUSTER_KEYS:
        origin = source.locate(CLUSTER_PLACE, key) if key in given_keys else DEFAULT
        yield Setting("[cluster]", key, values[key], origin)


def _find_settings_of_host(
    host: Host, host_index: int, source: _Source, ssh_config: Path
) -> Iterator[Setting]:
    own_keys = source.tables["host"][host_index]
    default_keys = source.tables.get("defaults", {})
    if not WAYS.isdisjoint(own_keys):  # a way of its own replaces that of [defaults]
        default_keys = {key: value for key, value in default_keys.items() if key not in WAYS}
    place = _HostPlace(host, host_index, own_keys, default_keys, source, ssh_config)
    for key in host_keys():
        if key.name in VARIABLES:
            yield from place.find_variables(key.name)
        else:
            origin = place.find_origin(key.name, key.default)
            yield Setting(host.name, key.name, getattr(host, key.name), origin)


@dataclass(frozen=True)
class _HostPlace:
    """A host, and all that may say something of it."""

    host: Host
    index: int
    own_keys: dict[str, Any]
    default_keys: dict[str, Any]
    source: _Source
    ssh_config: Path

    def find_origin(self, key: str, default: Any) -> Origin:
        """Return where the value of a key comes from. `default`: its value if nobody says it."""
        # A name and an address stand for each other.
        other_key = {"name": "address", "address": "name"}.get(key, "")
        given_key = key if key in self.own_keys else other_key
        if given_key in self.own_keys:
            given_value = self.own_keys[given_key]
            if getattr(self.host, key) == given_value:
                return self._locate_own(given_key)
            return self._find_in_ssh_config(key, given_value)
        if key in self.default_keys:
            return self.source.locate(DEFAULTS_PLACE, key)
        if getattr(self.host, key) == default or default is MISSING:
            return DEFAULT
        return self._find_in_ssh_config(key, default)

    def find_variables(self, key: str) -> Iterator[Setting]:
        """Yield the environment variables of a key, each with the table that names it last."""
        for variable in getattr(self.host, key):
            name, value = (variable, "") if key == "env_from" else variable
            is_own = name in self.own_keys.get(key, ())
            path = (key, name) if key == "env" else (key,)
            origin = (
                self._locate_own(*path) if is_own else self.source.locate(DEFAULTS_PLACE, *path)
            )
            setting_key, shown_value = (f"{key}.{name}", value) if key == "env" else (key, name)
            yield Setting(self.host.name, setting_key, shown_value, origin)

    def _locate_own(self, *path: str) -> Origin:
        return self.source.locate(TablePlace("[[host]]", ("host", self.index)), *path)

    def _find_in_ssh_config(self, key: str, given_value: Any) -> Origin:
        """Return the line of ssh's configuration that has replaced a value."""
        if self.host.transport != SSH:
            return DEFAULT
        from remote.cluster.ssh_config import find_setting  # which loads paramiko

        address = self.own_keys.get("address") or self.own_keys["name"]
        unfilled_host = replace(self.host, address=address)
        unfilled_host = replace(unfilled_host, **{key: given_value})
        given_keys = frozenset((*self.own_keys, *self.default_keys))
        line_number, keyword = find_setting(self.ssh_config, unfilled_host, key, given_keys)
        return Origin(str(self.ssh_config), line_number, keyword)


def _find_rules(source: _Source) -> Iterator[Setting]:
    for table_index, table in enumerate(source.tables.get("format", [])):
        for key in FORMAT_KEYS:
            if key in table:
                place = TablePlace("[[format]]", ("format", table_index))
                origin = source.locate(place, key)
                yield Setting(f"format {table_index + 1}", key, table[key], origin)
