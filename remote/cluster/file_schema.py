"""JSON Schemas of hosts.toml and rankboard.toml, for editors. They follow from the keys that the
readers of these files know."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import MISSING
from typing import Any

from remote.cluster.file import CLUSTER_KEYS, FORMAT_KEYS, HOST_KEYS, OF_ONE_HOST, WAYS, TableKey
from remote.cluster.hosts import HOSTS, HOSTS_FILE, host_keys
from remote.cluster.rules import RULES_FILE

DIALECT = "https://json-schema.org/draft/2020-12/schema"


def make_file_schema(file_name: str) -> dict[str, Any]:
    """Return the schema of hosts.toml or rankboard.toml."""
    tables = FILES[file_name]()
    return {"$schema": DIALECT, "title": f"{file_name} of rankboard", **tables}


def _describe_hosts_file() -> dict[str, Any]:
    default_keys = {name: key for name, key in HOST_KEYS.items() if name not in OF_ONE_HOST}
    host_table = {
        **_describe_table(HOST_KEYS),
        "anyOf": [{"required": [name]} for name in OF_ONE_HOST],
        "not": {"required": sorted(WAYS)},
    }
    tables = {
        "cluster": _describe_table(CLUSTER_KEYS),
        "defaults": _describe_table(default_keys),
        "host": {"type": "array", "items": host_table, "minItems": 1, "maxItems": HOSTS},
        "format": _describe_formats(),
    }
    return {**_describe_object(tables), "required": ["host"]}


def _describe_rules_file() -> dict[str, Any]:
    return _describe_object({"format": _describe_formats()})


FILES = {HOSTS_FILE: _describe_hosts_file, RULES_FILE: _describe_rules_file}
"""The files that have a schema."""


def _describe_formats() -> dict[str, Any]:
    table = {**_describe_table(FORMAT_KEYS), "required": ["line"]}
    return {"type": "array", "items": table}


def _describe_table(keys: Mapping[str, TableKey]) -> dict[str, Any]:
    return _describe_object({name: _describe_key(name, key) for name, key in keys.items()})


def _describe_object(properties: Mapping[str, Any]) -> dict[str, Any]:
    return {"type": "object", "properties": dict(properties), "additionalProperties": False}


def _describe_key(name: str, key: TableKey) -> dict[str, Any]:
    description = {**key.schema, "description": f"Write {key.write}."}
    default = _DEFAULTS.get(name)
    if key is HOST_KEYS.get(name) and default not in (None, "", ()):
        description["default"] = default
    return description


_DEFAULTS = {key.name: key.default for key in host_keys() if key.default is not MISSING}
