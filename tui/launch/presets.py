"""Presets of the launch form: settings of a job, or a program with its arguments, and the policy
under a name, without hosts.

Each is a TOML file in the user's configuration folder, with what differs from the defaults:

    [job]
    sync = "ring"
    sync_option = ["bucket_mb=10"]

    [policy]
    max_restarts = 2

A program stands below [program] in place of [job], with the fields of `Script`:

    [program]
    words = ["train.py", "--lr", "0.1"]
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import platformdirs
import tomllib

from remote.plan.plan import PlanError, Policy, Script
from training.job import SEVERAL, TYPES, Job, JobError
from training.registry import UnknownName, did_you_mean
from training.writing import make_private_folders, write_whole
from tui.launch.form_fields import SETTINGS, of_policy, read_policy, write, write_policy

NAME = re.compile(r"\w[\w. +-]{0,59}")
SUFFIX = ".toml"
LARGEST = 100_000
"""Bytes of a file that is read."""
PROGRAM = {"words": SEVERAL, "watch": "bool", "follow": SEVERAL, "fetch": SEVERAL}
"""The settings of a program, and their types."""
WORDS = {bool: "true or false", int: "a whole number", float: "a number", str: "a text in quotes"}


class PresetError(ValueError):
    """A preset that cannot be used; the text says which file, and what to write instead."""


@dataclass(frozen=True)
class Preset:
    """Settings of a job, or a program, and a policy."""

    work: Job | Script
    policy: Policy


def folder() -> Path:
    """Where presets are kept."""
    return platformdirs.user_config_path("rankboard") / "presets"


def names() -> list[str]:
    """The names of all presets, sorted."""
    try:
        found = os.listdir(folder())
    except OSError:
        return []
    return sorted(
        name.removesuffix(SUFFIX)
        for name in found
        if name.endswith(SUFFIX) and NAME.fullmatch(name.removesuffix(SUFFIX))
    )


def path(name: str) -> Path:
    """The file of a preset. Raises: PresetError, where no preset can have that name."""
    if not NAME.fullmatch(name) or name.strip() != name:
        raise PresetError(
            f"{name!r} is not a name for a preset: write up to 60 letters, digits, spaces, . + "
            "- or _"
        )
    return folder() / f"{name}{SUFFIX}"


def save(name: str, preset: Preset, keep: bool) -> Path:
    """Write a preset, in place of one of this name. `keep` is the default of --on-disconnect.

    Returns its file. Raises: PresetError, OSError.
    """
    file = path(name)
    make_private_folders(file.parent)
    write_whole(file, _text(preset, keep).encode())
    return file


def delete(name: str) -> None:
    """Delete a preset, if it is there. Raises: PresetError, OSError."""
    path(name).unlink(missing_ok=True)


def load(name: str, keep: bool) -> Preset:
    """Read a preset; `keep` as with `save`. Raises: PresetError."""
    file = path(name)
    try:
        with file.open("rb") as opened:
            data = tomllib.loads(opened.read(LARGEST).decode())
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise PresetError(f"{file}: {getattr(error, 'strerror', None) or error}") from None
    try:
        other = data.keys() - {"job", "program", "policy"}
        if other:
            tables = "[job], [program] or [policy]"
            raise PresetError(f"{min(other)}: write settings below {tables}")
        if "program" in data and "job" in data:
            raise PresetError("[job] and [program] cannot be combined: leave one of them out")
        work = _program(_table(data, "program")) if "program" in data else _job(_table(data, "job"))
        return Preset(work, _policy(_table(data, "policy"), keep))
    except (PresetError, JobError, UnknownName, PlanError) as error:
        raise PresetError(f"{file}: {error}") from None


def _table(data: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    table = data.get(name, {})
    if not isinstance(table, dict):
        raise PresetError(f"{name}: write [{name}], and its settings below")
    return table


def _job(table: Mapping[str, Any]) -> Job:
    for name, value in table.items():
        if name not in SETTINGS:
            raise PresetError(f"[job] {name}: no such setting{did_you_mean(name, SETTINGS)}")
        _check(f"[job] {name}", str(SETTINGS[name].type), value)
    return Job.of({name: _as(SETTINGS[name].type, value) for name, value in table.items()})


def _program(table: Mapping[str, Any]) -> Script:
    for name, value in table.items():
        if name not in PROGRAM:
            raise PresetError(f"[program] {name}: no such setting{did_you_mean(name, PROGRAM)}")
        _check(f"[program] {name}", PROGRAM[name], value)
    if not table.get("words"):
        raise PresetError('[program]: write words = ["train.py"], the program and its arguments')
    follow, fetch = (tuple(table.get(name, ())) for name in ("follow", "fetch"))
    return Script(tuple(table["words"]), table.get("watch", True), follow, fetch)


def _as(annotation: Any, value: Any) -> Any:
    return float(value) if annotation == "float" else value


def _check(where: str, annotation: str, value: Any) -> None:
    """Check the type of a value. Raises: PresetError."""
    if annotation == SEVERAL:
        if not isinstance(value, list) or not all(isinstance(one, str) for one in value):
            raise PresetError(f'{where}: write a list of texts, such as ["key=value"]')
        return
    kind = TYPES[annotation]
    allowed = (int, float) if kind is float else kind
    if not isinstance(value, allowed) or (isinstance(value, bool) and kind is not bool):
        raise PresetError(f"{where} = {value!r}: write {WORDS[kind]}")


def _policy(table: Mapping[str, Any], keep: bool) -> Policy:
    fields = {field.name.removeprefix("policy."): field for field in of_policy(keep)}
    texts = {field.name: field.default for field in fields.values()}
    for name, value in table.items():
        if name not in fields:
            raise PresetError(f"[policy] {name}: no such setting{did_you_mean(name, fields)}")
        if fields[name].is_switch is not isinstance(value, bool):
            kind = bool if fields[name].is_switch else str
            raise PresetError(f"[policy] {name} = {value!r}: write {WORDS[kind]}")
        texts[fields[name].name] = write(value)
    return read_policy(texts, keep)


def _text(preset: Preset, keep: bool) -> str:
    """The file of a preset."""
    work = preset.work
    policy = {}
    if isinstance(work, Script):
        usual = Script(())
        kind = "program"
        names = [one for one in PROGRAM if getattr(work, one) != getattr(usual, one)]
    else:
        changed = work.changed()
        kind = "job"
        names = [name for name in SETTINGS if name in changed]
    settings = {name: getattr(work, name) for name in names}
    texts = write_policy(preset.policy)
    for field in of_policy(keep):
        text = texts[field.name]
        if text != field.default:
            name = field.name.removeprefix("policy.")
            value = getattr(preset.policy, name, text)
            policy[name] = value if isinstance(value, bool | int | float) else text
    lines = ["# A preset of rankboard's launch form.", *_lines(kind, settings)]
    return "\n".join([*lines, *_lines("policy", policy)]) + "\n"


def _lines(name: str, table: Mapping[str, Any]) -> list[str]:
    return ["", f"[{name}]", *(f"{key} = {_value(value)}" for key, value in table.items())]


def _value(value: Any) -> str:
    """A value in TOML: the strings of JSON, with no character above U+FFFF as two, are those of
    TOML."""
    if isinstance(value, tuple):
        return f"[{', '.join(map(_value, value))}]"
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
