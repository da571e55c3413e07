"""The format of hosts.toml. Each mistake is one line that says where it is and what to write
instead."""

from __future__ import annotations

import json
import math
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
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
    Host,
    HostsError,
    find_unseen,
    host_keys,
)
from remote.cluster.toml_lines import KeyPath, find_line, find_lines
from remote.cluster.value_schemas import TEXT, Schema, fits_schema, list_of, one_of
from remote.formats.reading import ReadingKind
from remote.formats.rules import OWN as OWN_FORMAT
from remote.formats.rules import Rule
from training.mistake import Mistake
from training.registry import did_you_mean

if TYPE_CHECKING:
    from remote.cluster.ssh_config import SshConfig


class TableKey(NamedTuple):
    """A key of a table: what to write for it, and which values it may have."""

    write: str
    schema: Schema


HOST_KEYS = {key.name: TableKey(**key.metadata) for key in host_keys()}
"""The keys of [[host]] tables; [defaults] has the same. What is left out is `Host`'s default."""
CLUSTER_KEYS = {
    "name": TableKey('a text in quotes, such as name = "lab"', TEXT),
    "sync": TableKey(
        "folders of this machine in quotes, taken from that of the hosts file, such as sync = "
        '["src", "configs"]',
        list_of(TEXT),
    ),
    "on_disconnect": TableKey(
        '"keep" or "stop", in quotes: whether a run goes on when its launcher is gone',
        one_of("keep", "stop"),
    ),
}
FORMAT_KEYS = {
    "line": TableKey(
        "a regular expression in single quotes with the values named, such as line = "
        "'round {step}: cost {loss}'",
        TEXT,
    ),
    "name": TableKey('a text in quotes, such as name = "my trainer"', TEXT),
    "kind": TableKey(
        '"step", "evaluation" or "other", in quotes; without it, the names of the values tell',
        one_of("step", "evaluation", "other"),
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
OF_ONE_HOST = ("name", "address")
"""Keys that say which host it is: [defaults] has none of them, a [[host]] one or both."""
WAYS = {"jump", "proxy_command"}
"""Keys that say how a host is reached; one excludes the other."""
SYNONYMS = {
    **dict.fromkeys(("ranks", "gpus", "nproc", "nproc_per_node", "processes"), "slots"),
    **dict.fromkeys(("host", "hostname", "ip"), "address"),
    "username": "user",
    "key": "identity_file",
}
"""What people write instead of a key of a host."""


@dataclass(frozen=True)
class FileMistake(Mistake):
    """A mistake in a file. Its text is one line: "hosts.toml: line 9: host 2 (node2): …"."""

    file: str = ""
    line: int = 0
    """The line, from 1 on; 0: of the file as a whole."""
    place: str = ""
    """The table, in words."""

    @property
    def without_flag(self) -> str:
        """Return all of it: no flag gives a value of a file."""
        return str(self)

    def __str__(self) -> str:
        line_text = f"line {self.line}" if self.line else ""
        return ": ".join(filter(None, (self.file, line_text, self.place, self.problem)))


class TablePlace(NamedTuple):
    """Where a table is: in words, and the path to it. Both are empty for the file as a whole."""

    words: str = ""
    path: KeyPath = ()


CLUSTER_PLACE = TablePlace("[cluster]", ("cluster",))
DEFAULTS_PLACE = TablePlace("[defaults]", ("defaults",))
HOSTS_PLACE = TablePlace(path=("host",))


@dataclass
class _Reading:
    """A file while it is read, and the mistakes found in it."""

    path: Path
    mistakes: list[FileMistake] = field(default_factory=list)
    content: str = ""

    def note(self, place: TablePlace, problem: str, key: str = "") -> None:
        """Note a mistake in a table, at one of its keys if it is named."""
        key_path = (*place.path, key) if key else place.path
        line_number = find_line(self._lines, *key_path)
        mistake = FileMistake(
            file=str(self.path), line=line_number, place=place.words, problem=problem
        )
        self.mistakes.append(mistake)

    @cached_property
    def _lines(self) -> dict[KeyPath, int]:
        return find_lines(self.content)

    def refuse(self) -> None:
        """Raises: HostsError, with all mistakes in the order of their lines, if there are any."""
        if self.mistakes:
            raise HostsError(*sorted(self.mistakes, key=lambda mistake: mistake.line or math.inf))

    def check(
        self, place: TablePlace, table: object, keys: Mapping[str, TableKey]
    ) -> dict[str, Any]:
        """Return the keys and values of a table without those that are wrong."""
        if not isinstance(table, dict):
            self.note(
                place,
                "this is not a table: write its keys below a line of its own, [cluster], "
                "[defaults] or [[host]]",
            )
            return {}
        right_values = {}
        # All mistakes are noted before any is raised: a user mends the file once, not once per
        # mistake.
        for key, value in table.items():
            if key not in keys:
                self.note(place, _unknown_key(key, keys), key)
            elif not fits_schema(value, keys[key].schema):
                shown_value = json.dumps(value, default=str, ensure_ascii=False)
                problem = f"{key} = {shown_value} is wrong: write {keys[key].write}"
                self.note(place, problem, key)
            else:
                right_values[key] = value
        return right_values


def _unknown_key(key: str, keys: Mapping[str, TableKey]) -> str:
    """Say what to write instead of a key that a table does not have."""
    meant_key = SYNONYMS.get(key)
    if meant_key in keys:
        return f"unknown key '{key}': write '{meant_key}'"
    for place_name, own_keys in PLACES:
        if key in own_keys:
            return f"{key} belongs into {place_name}"
    suggestion = did_you_mean(key, keys) or f"; the keys are {', '.join(keys)}"
    return f"unknown key '{key}'{suggestion}"


def read(path: Path, ssh_config: Path) -> Cluster:
    """Read the cluster of a hosts.toml or a hostfile, completed by ssh's configuration. Raises:
    HostsError with all mistakes."""
    reading = _load(path)
    if hostfile.is_hostfile(reading.content):
        hosts, remarks = complete(hostfile.read(path, reading.content), ssh_config, str(path))
        return Cluster(path.stem, hosts, remarks, file=str(path))
    toml_tables = _parse(
        reading, TABLES, "the tables are [cluster], [defaults], [[host]] and [[format]]"
    )
    cluster_keys = reading.check(CLUSTER_PLACE, toml_tables.get("cluster", {}), CLUSTER_KEYS)
    host_tables = list(_hosts(reading, toml_tables))
    rules = _rules(reading, toml_tables)
    reading.refuse()
    hosts, remarks = complete(host_tables, ssh_config, str(path))
    sync_folders = (os.path.expanduser(entry) for entry in cluster_keys.get("sync", ()))
    # Relative paths are taken from the hosts file, since the command may be called from anywhere.
    sync_paths = tuple(os.path.abspath(path.parent / folder) for folder in sync_folders)
    keeps_running = {"keep": True, "stop": False}.get(cluster_keys.get("on_disconnect", ""))
    return Cluster(
        cluster_keys.get("name", path.stem),
        hosts,
        remarks,
        sync_paths,
        keeps_running,
        rules,
        str(path),
    )


def read_rules(path: Path) -> tuple[Rule, ...]:
    """Read the rules of a file that has [[format]] tables alone. Raises: HostsError with all
    mistakes."""
    reading = _load(path)
    rules = _rules(reading, _parse(reading, ("format",), "the only one here is [[format]]"))
    reading.refuse()
    return rules


def _rules(reading: _Reading, toml_tables: dict[str, Any]) -> tuple[Rule, ...]:
    """Read the rules of the [[format]] tables."""
    rule_tables = toml_tables.get("format", [])
    if not isinstance(rule_tables, list):
        place = TablePlace("[format]", ("format",))
        reading.note(place, "write [[format]] with two brackets, once per kind of line")
        return ()
    rules: list[Rule] = []
    for table_number, table in enumerate(rule_tables, start=1):
        place = TablePlace(f"format {table_number}", ("format", table_number - 1))
        right_values = reading.check(place, table, FORMAT_KEYS)
        if "line" not in right_values:
            # Otherwise a wrong line is noted already.
            if right_values == table:
                reading.note(place, f"it has no line: write {FORMAT_KEYS['line'].write}")
            continue
        line_pattern = right_values["line"]
        line_kind = ReadingKind(right_values["kind"]) if "kind" in right_values else None
        rule = Rule(line_pattern, right_values.get("name", OWN_FORMAT), line_kind)
        rules.append(rule)
        try:
            rule.check()
        except ValueError as error:
            shown_line = json.dumps(line_pattern, ensure_ascii=False)
            reading.note(place, f"line = {shown_line}: {error}", "line")
    return tuple(rules)


TWO_LINES = 'two lines per host, [[host]] and address = "192.168.0.11"'
"""The least that a hosts file has to say."""
SINGLE = re.compile(r"^\s*\[\s*host\s*\]", re.MULTILINE)
BARE = re.compile(r"\s*([\w-]+)\s*=\s*([A-Za-z~/.][^\"'#]*?)\s*(?:#.*)?")
"""A [[host]] with one pair of brackets, and a value without quotes: the commonest mistakes."""


def _load(path: Path) -> _Reading:
    """Raises: HostsError."""
    try:
        return _Reading(path, content=path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        problem_text = f"no such file: write it with {TWO_LINES}, or name yours with --hosts FILE"
    except UnicodeDecodeError as error:
        problem_text = (
            f"not a text in UTF-8 ({error.reason} at byte {error.start}): is this a hosts file? "
            f"It has {TWO_LINES}"
        )
    except OSError as error:
        problem_text = f"cannot be read: {error.strerror}"
    raise HostsError(f"{path}: {problem_text}")


def _parse(reading: _Reading, table_names: Sequence[str], known_tables: str) -> dict[str, Any]:
    """Return the tables of a file; note those that it cannot have. Raises: HostsError, if it is not
    TOML."""
    try:
        toml_tables = tomllib.loads(reading.content)
    except tomllib.TOMLDecodeError as error:
        raise HostsError(_not_toml(reading, str(error))) from None
    for key in toml_tables:
        if key not in table_names:
            suggestion = did_you_mean(key, table_names) if len(table_names) > 1 else ""
            place = TablePlace(path=(key,))
            reading.note(place, f"unknown table '{key}'{suggestion or f'; {known_tables}'}")
    return toml_tables


def _not_toml(reading: _Reading, error_text: str) -> FileMistake:
    """Say where a mistake of TOML is, and what to write instead."""
    file_name = str(reading.path)
    error_match = re.fullmatch(r"(.*) \(at line (\d+), (.*)\)", error_text)
    if not error_match:
        return FileMistake(file=file_name, problem=f"this is not TOML: {error_text}")
    line_number = int(error_match[2])
    wrong_line = reading.content.split("\n")[line_number - 1]
    # TOML reports the second [host] as a duplicate, but it is the brackets that are wrong.
    bracket_match = SINGLE.search(reading.content)
    if bracket_match and re.match(r"\s*\[+\s*host\b", wrong_line):
        bracket_line = reading.content.count("\n", 0, bracket_match.end()) + 1
        return FileMistake(file=file_name, line=bracket_line, problem=BRACKETS)
    problem = f"{error_match[1]}, {error_match[3]}: this is not TOML"
    bare_match = BARE.fullmatch(wrong_line)
    if bare_match:
        quoted_text = json.dumps(bare_match[2], ensure_ascii=False)
        problem = f"put the text in quotes: {bare_match[1]} = {quoted_text}"
    return FileMistake(file=file_name, line=line_number, problem=problem)


def _hosts(reading: _Reading, toml_tables: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield the [[host]] tables, completed by [defaults]."""
    default_keys = _check_host(reading, DEFAULTS_PLACE, toml_tables.get("defaults", {}))
    for key in OF_ONE_HOST:
        if default_keys.pop(key, None) is not None:
            problem = f"{key} belongs to one host: write it in its [[host]]"
            reading.note(DEFAULTS_PLACE, problem, key)
    host_tables = toml_tables.get("host", [])
    if not isinstance(host_tables, list):
        reading.note(HOSTS_PLACE, BRACKETS)
    # A mistake above may be the reason why there is none.
    elif not host_tables and not reading.mistakes:
        reading.note(
            TablePlace(),
            'no host yet: write [[host]] and below it address = "…", once per host, in rank order',
        )
    elif len(host_tables) > HOSTS:
        reading.note(TablePlace(), f"it has {len(host_tables)} hosts: write {HOSTS} at most")
    else:
        yield from _each(reading, default_keys, host_tables)


def _check_host(reading: _Reading, place: TablePlace, table: object) -> dict[str, Any]:
    """Return the keys of a host that are right."""
    right_values = reading.check(place, table, HOST_KEYS)
    for key, problem in (*_find_wrong_variables(right_values), *find_unseen(right_values)):
        reading.note(place, problem, key)
    return right_values


def _each(
    reading: _Reading, default_keys: dict[str, Any], host_tables: list[object]
) -> Iterator[dict[str, Any]]:
    number_by_name: dict[str, int] = {}
    for table_number, table in enumerate(host_tables, start=1):
        given_keys = table if isinstance(table, dict) else {}
        host_name = given_keys.get("name") or given_keys.get("address")
        shown_name = f" ({host_name})" if isinstance(host_name, str) else ""
        place = TablePlace(f"host {table_number}{shown_name}", ("host", table_number - 1))
        own_keys = _check_host(reading, place, table)
        # Otherwise the address may be among the keys whose mistakes are noted already.
        if table == own_keys and own_keys.keys().isdisjoint(OF_ONE_HOST):
            reading.note(place, f"it has no address: write {HOST_KEYS['address'].write}")
        if own_keys.keys() >= WAYS:
            reading.note(place, "jump and proxy_command exclude each other: keep one", "jump")
        if (
            isinstance(host_name, str)
            and number_by_name.setdefault(host_name, table_number) != table_number
        ):
            problem = (
                f"host {number_by_name[host_name]} has this name already: give each host a name "
                "of its own"
            )
            reading.note(place, problem, "name")
        # A host that is reached in a way of its own does not also take that of [defaults].
        replaced_keys = () if own_keys.keys().isdisjoint(WAYS) else WAYS
        inherited_keys = {
            key: value for key, value in default_keys.items() if key not in replaced_keys
        }
        yield inherited_keys | own_keys | _environment(default_keys, own_keys)


def _find_wrong_variables(host_table: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield the mistakes in the variables of a table, each with its key."""
    given_variables = host_table.get("env", {})
    forwarded_names = host_table.get("env_from", [])
    for key, variable_names in (("env", given_variables), ("env_from", forwarded_names)):
        for variable_name in variable_names:
            if variable_name in OWN:
                problem = f"follows from a key of its own: set {OWN[variable_name]} instead"
                yield key, f"{key}: {variable_name} {problem}"
            elif variable_name in PLACE or variable_name.startswith("RANKBOARD_"):
                yield key, f"{key}: {variable_name} follows from the rank's place: take it out"
    for variable_name in sorted(given_variables.keys() & set(forwarded_names)):
        yield "env_from", f"{variable_name} is in env and in env_from: keep one"


def _environment(default_keys: dict[str, Any], own_keys: dict[str, Any]) -> dict[str, Any]:
    """Return the variables of a host. Its own `env` and `env_from` override those of [defaults]."""
    given_variables = default_keys.get("env", {}) | own_keys.get("env", {})
    own_names = own_keys.get("env_from", [])
    for variable_name in own_names:
        given_variables.pop(variable_name, None)
    forwarded_names = dict.fromkeys([*default_keys.get("env_from", []), *own_names])
    for variable_name in own_keys.get("env", {}):
        forwarded_names.pop(variable_name, None)
    return {"env": tuple(given_variables.items()), "env_from": tuple(forwarded_names)}


def complete(
    host_tables: list[dict[str, Any]], ssh_config: Path, hosts_file: str = HOSTS_FILE
) -> tuple[tuple[Host, ...], tuple[str, ...]]:
    """Make the hosts of these tables; name and address stand for each other, and ssh's
    configuration for the rest."""
    host_tables = [
        {
            "name": host_table.get("address"),
            "address": host_table.get("name"),
            "hosts_file": hosts_file,
        }
        | host_table
        for host_table in host_tables
    ]
    if not ssh_config.expanduser().is_file():
        return tuple(Host(**host_table) for host_table in host_tables), ()
    from remote.cluster.ssh_config import SshConfig

    ssh_settings = SshConfig.read(ssh_config)
    hosts = tuple(
        _fill(Host(**host_table), frozenset(host_table), ssh_settings) for host_table in host_tables
    )
    return hosts, ssh_settings.remarks


def _fill(host: Host, given_keys: frozenset[str], ssh_settings: SshConfig) -> Host:
    return ssh_settings.fill(host, given_keys) if host.transport == SSH else host
