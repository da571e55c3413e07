"""The format of hosts.toml. Each mistake is one line that says where it is and what to write
instead."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Collection, Iterator
from dataclasses import Field as HostKey
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import tomllib
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError, create_model

from remote.cluster import hostfile
from remote.cluster.hosts import (
    HOSTS,
    HOSTS_FILE,
    PLACE,
    SHOWN,
    SSH,
    Cluster,
    Host,
    HostsError,
    bounds,
    host_keys,
    unseen,
)
from remote.formats import ReadingKind, Rule
from remote.formats.rules import OWN as OWN_FORMAT
from remote.sanitise import unseen_character
from training.registry import did_you_mean

if TYPE_CHECKING:
    from remote.cluster.ssh_config import SshConfig

Text = Annotated[str, Field(min_length=1)]
Variable = Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")]
STRICT = ConfigDict(extra="forbid", strict=True)


def _type(key: HostKey[Any]) -> Any:
    """Return what a key of a host may hold, for pydantic."""
    rule = key.metadata
    known = rule["known"]
    if known:
        return Annotated[str, AfterValidator(partial(_one_of, known))]
    if key.name == "env":
        return dict[Variable, Annotated[str, Field(pattern=r"^[^\x00]*$")]]
    if key.name == "env_from":
        return list[Variable]
    match key.type:
        case "int":
            low, high = bounds(key)
            return Annotated[int, Field(ge=low, le=high)]
        case "float":
            return Annotated[float, Field(gt=0, allow_inf_nan=False)]
    return Annotated[str, Field(min_length=1, pattern=rule["pattern"] or None)]


def _one_of(known: Callable[[], Collection[str]], name: str) -> str:
    if name not in known():
        raise ValueError(name)
    return name


_KEYS: dict[str, Any] = {key.name: (_type(key), None) for key in host_keys()}
HostTable = create_model(
    "HostTable",
    __config__=STRICT,
    __doc__="A [[host]] table; [defaults] has the same keys. What is left out is `Host`'s default.",
    **_KEYS,
)


class ClusterTable(BaseModel):
    """The [cluster] table."""

    model_config = STRICT

    name: Text = ""
    sync: list[Text] = []
    on_disconnect: Literal["keep", "stop"] | None = None


WRITE_CLUSTER = {
    "name": 'a text in quotes, such as name = "lab"',
    "on_disconnect": '"keep" or "stop", in quotes: whether a run goes on when its launcher is gone',
    "sync": "folders of this machine in quotes, taken from that of the hosts file, such as sync = "
    '["src", "configs"]',
}


class FormatTable(BaseModel):
    """A [[format]] table: a line of the output of users' programs."""

    model_config = STRICT

    line: Text | None = None
    name: Text = OWN_FORMAT
    kind: Literal["step", "evaluation", "other"] | None = None


WRITE_FORMAT = {
    "line": "a regular expression in single quotes with the values named, such as line = "
    "'round {step}: cost {loss}'",
    "name": 'a text in quotes, such as name = "my trainer"',
    "kind": '"step", "evaluation" or "other", in quotes; without it, the names of the values tell',
}
TABLES = ("cluster", "defaults", "host", "format")
OWN = {
    "OMP_NUM_THREADS": "threads",
    "GLOO_SOCKET_IFNAME": "interface",
    "NCCL_SOCKET_IFNAME": "interface",
}
"""Environment variables that a key of their own sets."""


BRACKETS = "write [[host]] with two brackets, once per host"


@dataclass
class _Reading:
    """A file while it is read, and the mistakes found in it."""

    path: Path
    mistakes: list[str] = field(default_factory=list)
    content: str = ""

    def say(self, where: str, mistake: str) -> None:
        self.mistakes.append(f"{self.path}: {where + ': ' if where else ''}{mistake}")

    def single_brackets(self) -> str:
        """Return the place of the first [host], which should be [[host]]; "" if there is none."""
        found = SINGLE.search(self.content)
        return f"line {self.content.count(chr(10), 0, found.end()) + 1}" if found else ""

    def check(self, where: str, table: object, model: type[BaseModel]) -> dict[str, Any]:
        """Return the keys and values of a table without those that are wrong."""
        if not isinstance(table, dict):
            self.say(
                where,
                "this is not a table: write its keys below a line of its own, [cluster], "
                "[defaults] or [[host]]",
            )
            return {}
        try:
            model.model_validate(table)
        except ValidationError as error:
            wrong = {str(one["loc"][0]): one["type"] for one in error.errors()}
            for key, kind in wrong.items():
                self.say(where, _mistake(key, table[key], model, unknown=kind == "extra_forbidden"))
            return {key: value for key, value in table.items() if key not in wrong}
        return table


SYNONYMS = {
    **dict.fromkeys(("ranks", "gpus", "nproc", "nproc_per_node", "processes"), "slots"),
    **dict.fromkeys(("host", "hostname", "ip"), "address"),
    "username": "user",
    "key": "identity_file",
}
"""What people write instead of a key of a host."""


def _mistake(key: str, value: object, model: type[BaseModel], *, unknown: bool) -> str:
    if unknown:
        known = list(model.model_fields)
        meant = SYNONYMS.get(key)
        if meant in known:
            return f"unknown key '{key}': write '{meant}'"
        where = _belongs(key, model)
        if where:
            return f"{key} belongs into {where}"
        return (
            f"unknown key '{key}'{did_you_mean(key, known) or '; the keys are ' + ', '.join(known)}"
        )
    own = {ClusterTable: WRITE_CLUSTER, FormatTable: WRITE_FORMAT}.get(model, {})
    write = own.get(key) or _write(key)
    return f"{key} = {json.dumps(value, default=str, ensure_ascii=False)} is wrong: write {write}"


def _belongs(key: str, model: type[BaseModel]) -> str:
    """Name the tables that have this key, if it is not in one of them; "" for a key of none."""
    if model is not HostTable and key in HostTable.model_fields:
        one = key in ("name", "address")
        return "the [[host]] table of its host" if one else "[defaults], or [[host]] for one host"
    if model is not ClusterTable and key in ClusterTable.model_fields:
        return "[cluster]"
    return "[[format]]" if model is not FormatTable and key in FormatTable.model_fields else ""


def _write(key: str) -> str:
    """Say what to write for a key of a host."""
    rule = Host.__dataclass_fields__[key].metadata
    return f"{rule['write']} {', '.join(rule['known']())}" if rule["known"] else str(rule["write"])


def read(path: Path, ssh_config: Path) -> Cluster:
    """Read the cluster of a hosts.toml or a hostfile, completed by ssh's configuration. Raises:
    HostsError with all mistakes."""
    reading = _Reading(path)
    _load(reading)
    if hostfile.is_hostfile(reading.content):
        hosts, remarks = complete(hostfile.read(path, reading.content), ssh_config, str(path))
        return Cluster(path.stem, hosts, remarks, file=str(path))
    data = _parse(reading)
    for key in [key for key in data if key not in TABLES]:
        reading.say(
            "",
            f"unknown table '{key}'"
            + (
                did_you_mean(key, TABLES)
                or "; the tables are [cluster], [defaults], [[host]] and [[format]]"
            ),
        )
    cluster = reading.check("[cluster]", data.get("cluster", {}), ClusterTable)
    tables = list(_hosts(reading, data))
    own = _rules(reading, data)
    if reading.mistakes:
        raise HostsError(*reading.mistakes)
    hosts, remarks = complete(tables, ssh_config, str(path))
    sync = tuple(
        os.path.abspath(path.parent / os.path.expanduser(entry))
        for entry in cluster.get("sync", [])
    )
    keep = {"keep": True, "stop": False}.get(cluster.get("on_disconnect", ""))
    name = cluster.get("name", path.stem)
    return Cluster(name, hosts, remarks, sync, keep, own, str(path))


def read_rules(path: Path) -> tuple[Rule, ...]:
    """Read the rules of a file that has [[format]] tables alone. Raises: HostsError with all
    mistakes."""
    reading = _Reading(path)
    _load(reading)
    data = _parse(reading)
    for key in [key for key in data if key != "format"]:
        reading.say("", f"unknown table '{key}'; the only one here is [[format]]")
    own = _rules(reading, data)
    if reading.mistakes:
        raise HostsError(*reading.mistakes)
    return own


def _rules(reading: _Reading, data: dict[str, Any]) -> tuple[Rule, ...]:
    """Read the rules of the [[format]] tables."""
    tables = data.get("format", [])
    if not isinstance(tables, list):
        reading.say("[format]", "write [[format]] with two brackets, once per kind of line")
        return ()
    made: list[Rule] = []
    for number, table in enumerate(tables, start=1):
        where = f"format {number}"
        said = reading.check(where, table, FormatTable)
        if "line" not in said:
            if said == table:
                reading.say(where, f"it has no line: write {WRITE_FORMAT['line']}")
            continue
        kind = ReadingKind(said["kind"]) if said.get("kind") else None
        rule = Rule(said["line"], said.get("name", OWN_FORMAT), kind)
        made.append(rule)
        try:
            rule.check()
        except ValueError as error:
            reading.say(where, f"line = {json.dumps(said['line'], ensure_ascii=False)}: {error}")
    return tuple(made)


SINGLE = re.compile(r"^\s*\[\s*host\s*\]", re.MULTILINE)
BARE = re.compile(r"\s*([\w-]+)\s*=\s*([A-Za-z~/.][^\"'#]*?)\s*(?:#.*)?")
"""A [[host]] with one pair of brackets, and a value without quotes: the commonest mistakes."""


def _load(reading: _Reading) -> None:
    try:
        reading.content = reading.path.read_text(encoding="utf-8")
        return
    except FileNotFoundError:
        text = "no such file: name yours with --hosts FILE (README.md has an example)"
    except UnicodeDecodeError as error:
        text = (
            f"not a text in UTF-8 ({error.reason} at byte {error.start}): is this a hosts file? "
            "README.md has an example"
        )
    except OSError as error:
        text = f"cannot be read: {error.strerror}"
    raise HostsError(f"{reading.path}: {text}")


def _parse(reading: _Reading) -> dict[str, Any]:
    try:
        return tomllib.loads(reading.content)
    except tomllib.TOMLDecodeError as error:
        raise HostsError(f"{reading.path}: {_not_toml(reading, str(error))}") from None


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
    defaults = reading.check("[defaults]", data.get("defaults", {}), HostTable)
    for mistake in (*_variables(defaults), *_unseen(defaults)):
        reading.say("[defaults]", mistake)
    for key in ("name", "address"):
        if defaults.pop(key, None) is not None:
            reading.say("[defaults]", f"{key} belongs to one host: write it in its [[host]]")
    tables = data.get("host", [])
    if not isinstance(tables, list):
        reading.say(reading.single_brackets(), BRACKETS)
    elif not tables and not reading.mistakes:
        reading.say(
            "",
            'no host yet: write [[host]] and below it address = "…", once per host, in rank order',
        )
    elif len(tables) > HOSTS:
        reading.say("", f"it has {len(tables)} hosts: write {HOSTS} at most")
    else:
        yield from _each(reading, defaults, tables)


def _each(
    reading: _Reading, defaults: dict[str, Any], tables: list[object]
) -> Iterator[dict[str, Any]]:
    taken: dict[str, int] = {}
    for number, table in enumerate(tables, start=1):
        said = table if isinstance(table, dict) else {}
        name = said.get("name") or said.get("address")
        where = f"host {number}" + (f" ({name})" if isinstance(name, str) else "")
        own = reading.check(where, table, HostTable)
        if table == own and not {"name", "address"} & own.keys():
            reading.say(where, f"it has no address: write {_write('address')}")
        if "jump" in own and "proxy_command" in own:
            reading.say(where, "jump and proxy_command exclude each other: keep one")
        for mistake in (*_variables(own), *_unseen(own)):
            reading.say(where, mistake)
        if isinstance(name, str) and taken.setdefault(name, number) != number:
            reading.say(
                where, f"host {taken[name]} has this name already: give each host a name of its own"
            )
        away = {"jump", "proxy_command"} if {"jump", "proxy_command"} & own.keys() else set()
        yield (
            {key: value for key, value in defaults.items() if key not in away}
            | own
            | _environment(defaults, own)
        )


def _variables(table: dict[str, Any]) -> Iterator[str]:
    """Yield the mistakes in the variables of a table."""
    for key in ("env", "env_from"):
        for name in table.get(key, ()):
            if name in OWN:
                yield f"{key}: {name} follows from a key of its own: set {OWN[name]} instead"
            elif name in PLACE or name.startswith("RANKBOARD_"):
                yield f"{key}: {name} follows from the rank's place: take it out"
    for name in sorted(set(table.get("env", ())) & set(table.get("env_from", ()))):
        yield f"{name} is in env and in env_from: keep one"


def _unseen(table: dict[str, Any]) -> Iterator[str]:
    """Yield the mistakes in names that would look like others."""
    for key in SHOWN:
        character = unseen_character(table.get(key, ""))
        if character:
            yield f"{key} = {table[key]!r}: {unseen(character)}"


def _environment(defaults: dict[str, Any], own: dict[str, Any]) -> dict[str, Any]:
    """Return the variables of a host. Its own `env` and `env_from` override those of [defaults]."""
    env = own.get("env", {})
    names = own.get("env_from", [])
    given = {
        name: value for name, value in defaults.get("env", {}).items() if name not in names
    } | env
    asked = [name for name in defaults.get("env_from", []) if name not in env] + names
    return {"env": tuple(given.items()), "env_from": tuple(dict.fromkeys(asked))}


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
    hosts = tuple(_filled(Host(**table), frozenset(table), config) for table in tables)
    return hosts, config.remarks


def _filled(host: Host, said: frozenset[str], config: SshConfig) -> Host:
    return config.fill(host, said) if host.transport == SSH else host
