"""The format of hosts.toml. Each mistake is one line that says where it is and what to write
instead."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import tomllib

from remote.cluster import hostfile
from remote.cluster.hosts import (
    HOSTS,
    HOSTS_FILE,
    PLACE,
    SSH,
    Cluster,
    Fits,
    Host,
    HostsError,
    find_unseen,
    host_keys,
    is_list_of,
    is_text,
)
from remote.formats import ReadingKind, Rule
from remote.formats.rules import OWN as OWN_FORMAT
from training.registry import did_you_mean

if TYPE_CHECKING:
    from remote.cluster.ssh_config import SshConfig


class TableKey(NamedTuple):
    """A key of a table: what to write for it, and which values it may have."""

    write: str
    fits: Fits


HOST_KEYS = {key.name: TableKey(**key.metadata) for key in host_keys()}
"""The keys of [[host]] tables; [defaults] has the same. What is left out is `Host`'s default."""
CLUSTER_KEYS = {
    "name": TableKey('a text in quotes, such as name = "lab"', is_text),
    "sync": TableKey(
        "folders of this machine in quotes, taken from that of the hosts file, such as sync = "
        '["src", "configs"]',
        is_list_of(is_text),
    ),
    "on_disconnect": TableKey(
        '"keep" or "stop", in quotes: whether a run goes on when its launcher is gone',
        ("keep", "stop").__contains__,
    ),
}
FORMAT_KEYS = {
    "line": TableKey(
        "a regular expression in single quotes with the values named, such as line = "
        "'round {step}: cost {loss}'",
        is_text,
    ),
    "name": TableKey('a text in quotes, such as name = "my trainer"', is_text),
    "kind": TableKey(
        '"step", "evaluation" or "other", in quotes; without it, the names of the values tell',
        ("step", "evaluation", "other").__contains__,
    ),
}
PLACES = (
    ("the [[host]] table of its host", ("address",)),
    ("[defaults], or [[host]] for one host", HOST_KEYS),
    ("[cluster]", CLUSTER_KEYS),
    ("[[format]]", FORMAT_KEYS),
)
"""Where keys belong that stand in another table."""
TABLES = ("cluster", "defaults", "host", "format")
OWN = {
    "OMP_NUM_THREADS": "threads",
    "GLOO_SOCKET_IFNAME": "interface",
    "NCCL_SOCKET_IFNAME": "interface",
}
"""Environment variables that a key of their own sets."""
BRACKETS = "write [[host]] with two brackets, once per host"
WAYS = {"jump", "proxy_command"}
"""Keys that say how a host is reached; one excludes the other."""
SYNONYMS = {
    **dict.fromkeys(("ranks", "gpus", "nproc", "nproc_per_node", "processes"), "slots"),
    **dict.fromkeys(("host", "hostname", "ip"), "address"),
    "username": "user",
    "key": "identity_file",
}
"""What people write instead of a key of a host."""


@dataclass
class _Reading:
    """A file while it is read, and the mistakes found in it."""

    path: Path
    mistakes: list[str] = field(default_factory=list)
    content: str = ""

    def note(self, where: str, mistake: str) -> None:
        """Note a mistake."""
        self.mistakes.append(": ".join(filter(None, (str(self.path), where, mistake))))

    def refuse(self) -> None:
        """Raises: HostsError, with all mistakes, if there are any."""
        if self.mistakes:
            raise HostsError(*self.mistakes)

    def single_brackets(self) -> str:
        """Return the place of the first [host], which should be [[host]]; "" if there is none."""
        match = SINGLE.search(self.content)
        return f"line {self.content.count(chr(10), 0, match.end()) + 1}" if match else ""

    def check(self, where: str, table: object, keys: Mapping[str, TableKey]) -> dict[str, Any]:
        """Return the keys and values of a table without those that are wrong."""
        if not isinstance(table, dict):
            self.note(
                where,
                "this is not a table: write its keys below a line of its own, [cluster], "
                "[defaults] or [[host]]",
            )
            return {}
        right = {}
        for key, value in table.items():
            if key not in keys:
                self.note(where, _unknown_key(key, keys))
            elif not keys[key].fits(value):
                shown = json.dumps(value, default=str, ensure_ascii=False)
                self.note(where, f"{key} = {shown} is wrong: write {keys[key].write}")
            else:
                right[key] = value
        return right


def _unknown_key(key: str, keys: Mapping[str, TableKey]) -> str:
    """Say what to write instead of a key that a table does not have."""
    meant = SYNONYMS.get(key)
    if meant in keys:
        return f"unknown key '{key}': write '{meant}'"
    for place, own_keys in PLACES:
        if key in own_keys:
            return f"{key} belongs into {place}"
    near = did_you_mean(key, keys) or f"; the keys are {', '.join(keys)}"
    return f"unknown key '{key}'{near}"


def read(path: Path, ssh_config: Path) -> Cluster:
    """Read the cluster of a hosts.toml or a hostfile, completed by ssh's configuration. Raises:
    HostsError with all mistakes."""
    reading = _load(path)
    if hostfile.is_hostfile(reading.content):
        hosts, remarks = complete(hostfile.read(path, reading.content), ssh_config, str(path))
        return Cluster(path.stem, hosts, remarks, file=str(path))
    data = _parse(reading, TABLES, "the tables are [cluster], [defaults], [[host]] and [[format]]")
    cluster = reading.check("[cluster]", data.get("cluster", {}), CLUSTER_KEYS)
    tables = list(_hosts(reading, data))
    rules = _rules(reading, data)
    reading.refuse()
    hosts, remarks = complete(tables, ssh_config, str(path))
    folders = (os.path.expanduser(entry) for entry in cluster.get("sync", ()))
    sync = tuple(os.path.abspath(path.parent / folder) for folder in folders)
    keep = {"keep": True, "stop": False}.get(cluster.get("on_disconnect", ""))
    return Cluster(cluster.get("name", path.stem), hosts, remarks, sync, keep, rules, str(path))


def read_rules(path: Path) -> tuple[Rule, ...]:
    """Read the rules of a file that has [[format]] tables alone. Raises: HostsError with all
    mistakes."""
    reading = _load(path)
    rules = _rules(reading, _parse(reading, ("format",), "the only one here is [[format]]"))
    reading.refuse()
    return rules


def _rules(reading: _Reading, data: dict[str, Any]) -> tuple[Rule, ...]:
    """Read the rules of the [[format]] tables."""
    tables = data.get("format", [])
    if not isinstance(tables, list):
        reading.note("[format]", "write [[format]] with two brackets, once per kind of line")
        return ()
    rules: list[Rule] = []
    for number, table in enumerate(tables, start=1):
        where = f"format {number}"
        right = reading.check(where, table, FORMAT_KEYS)
        if "line" not in right:
            if right == table:
                reading.note(where, f"it has no line: write {FORMAT_KEYS['line'].write}")
            continue
        line = right["line"]
        kind = ReadingKind(right["kind"]) if "kind" in right else None
        rule = Rule(line, right.get("name", OWN_FORMAT), kind)
        rules.append(rule)
        try:
            rule.check()
        except ValueError as error:
            reading.note(where, f"line = {json.dumps(line, ensure_ascii=False)}: {error}")
    return tuple(rules)


SINGLE = re.compile(r"^\s*\[\s*host\s*\]", re.MULTILINE)
BARE = re.compile(r"\s*([\w-]+)\s*=\s*([A-Za-z~/.][^\"'#]*?)\s*(?:#.*)?")
"""A [[host]] with one pair of brackets, and a value without quotes: the commonest mistakes."""


def _load(path: Path) -> _Reading:
    """Raises: HostsError."""
    try:
        return _Reading(path, content=path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        problem = "no such file: name yours with --hosts FILE (README.md has an example)"
    except UnicodeDecodeError as error:
        problem = (
            f"not a text in UTF-8 ({error.reason} at byte {error.start}): is this a hosts file? "
            "README.md has an example"
        )
    except OSError as error:
        problem = f"cannot be read: {error.strerror}"
    raise HostsError(f"{path}: {problem}")


def _parse(reading: _Reading, tables: Sequence[str], known: str) -> dict[str, Any]:
    """Return the tables of a file; note those that it cannot have. Raises: HostsError, if it is not
    TOML."""
    try:
        data = tomllib.loads(reading.content)
    except tomllib.TOMLDecodeError as error:
        raise HostsError(f"{reading.path}: {_not_toml(reading, str(error))}") from None
    for key in data:
        if key not in tables:
            near = did_you_mean(key, tables) if len(tables) > 1 else ""
            reading.note("", f"unknown table '{key}'{near or f'; {known}'}")
    return data


def _not_toml(reading: _Reading, error: str) -> str:
    """Say where a mistake of TOML is, and what to write instead."""
    found = re.fullmatch(r"(.*) \(at line (\d+), (.*)\)", error)
    if not found:
        return f"this is not TOML: {error}"
    line = reading.content.split("\n")[int(found[2]) - 1]
    if re.match(r"\s*\[+\s*host\b", line) and (single := reading.single_brackets()):
        return f"{single}: {BRACKETS}"
    bare = BARE.fullmatch(line)
    if bare:
        return (
            f"line {found[2]}: put the text in quotes: {bare[1]} = "
            f"{json.dumps(bare[2], ensure_ascii=False)}"
        )
    return f"line {found[2]}, {found[3]}: {found[1]}: this is not TOML"


def _hosts(reading: _Reading, data: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield the [[host]] tables, completed by [defaults]."""
    defaults = _check_host(reading, "[defaults]", data.get("defaults", {}))
    for key in ("name", "address"):
        if defaults.pop(key, None) is not None:
            reading.note("[defaults]", f"{key} belongs to one host: write it in its [[host]]")
    tables = data.get("host", [])
    if not isinstance(tables, list):
        reading.note(reading.single_brackets(), BRACKETS)
    elif not tables and not reading.mistakes:
        reading.note(
            "",
            'no host yet: write [[host]] and below it address = "…", once per host, in rank order',
        )
    elif len(tables) > HOSTS:
        reading.note("", f"it has {len(tables)} hosts: write {HOSTS} at most")
    else:
        yield from _each(reading, defaults, tables)


def _check_host(reading: _Reading, where: str, table: object) -> dict[str, Any]:
    """Return the keys of a host that are right."""
    right = reading.check(where, table, HOST_KEYS)
    for mistake in (*_find_wrong_variables(right), *find_unseen(right)):
        reading.note(where, mistake)
    return right


def _each(
    reading: _Reading, defaults: dict[str, Any], tables: list[object]
) -> Iterator[dict[str, Any]]:
    taken: dict[str, int] = {}
    for number, table in enumerate(tables, start=1):
        given = table if isinstance(table, dict) else {}
        name = given.get("name") or given.get("address")
        where = f"host {number}" + (f" ({name})" if isinstance(name, str) else "")
        own_keys = _check_host(reading, where, table)
        if table == own_keys and own_keys.keys().isdisjoint(("name", "address")):
            reading.note(where, f"it has no address: write {HOST_KEYS['address'].write}")
        if own_keys.keys() >= WAYS:
            reading.note(where, "jump and proxy_command exclude each other: keep one")
        if isinstance(name, str) and taken.setdefault(name, number) != number:
            reading.note(
                where, f"host {taken[name]} has this name already: give each host a name of its own"
            )
        # A host that is reached in a way of its own does not also take that of [defaults].
        replaced = () if own_keys.keys().isdisjoint(WAYS) else WAYS
        inherited = {key: value for key, value in defaults.items() if key not in replaced}
        yield inherited | own_keys | _environment(defaults, own_keys)


def _find_wrong_variables(table: dict[str, Any]) -> Iterator[str]:
    """Yield the mistakes in the variables of a table."""
    env = table.get("env", {})
    env_from = table.get("env_from", [])
    for key, names in (("env", env), ("env_from", env_from)):
        for name in names:
            if name in OWN:
                yield f"{key}: {name} follows from a key of its own: set {OWN[name]} instead"
            elif name in PLACE or name.startswith("RANKBOARD_"):
                yield f"{key}: {name} follows from the rank's place: take it out"
    for name in sorted(env.keys() & set(env_from)):
        yield f"{name} is in env and in env_from: keep one"


def _environment(defaults: dict[str, Any], own_keys: dict[str, Any]) -> dict[str, Any]:
    """Return the variables of a host. Its own `env` and `env_from` override those of [defaults]."""
    env = defaults.get("env", {}) | own_keys.get("env", {})
    own_names = own_keys.get("env_from", [])
    for name in own_names:
        env.pop(name, None)
    names = dict.fromkeys([*defaults.get("env_from", []), *own_names])
    for name in own_keys.get("env", {}):
        names.pop(name, None)
    return {"env": tuple(env.items()), "env_from": tuple(names)}


def complete(
    tables: list[dict[str, Any]], ssh_config: Path, hosts_file: str = HOSTS_FILE
) -> tuple[tuple[Host, ...], tuple[str, ...]]:
    """Make the hosts of these tables; name and address stand for each other, and ssh's
    configuration for the rest."""
    tables = [
        {"name": table.get("address"), "address": table.get("name"), "hosts_file": hosts_file}
        | table
        for table in tables
    ]
    if not ssh_config.expanduser().is_file():
        return tuple(Host(**table) for table in tables), ()
    from remote.cluster.ssh_config import SshConfig

    config = SshConfig.read(ssh_config)
    hosts = tuple(_fill(Host(**table), frozenset(table), config) for table in tables)
    return hosts, config.remarks


def _fill(host: Host, given: frozenset[str], config: SshConfig) -> Host:
    return config.fill(host, given) if host.transport == SSH else host
