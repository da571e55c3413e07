"""Presets of the launch form: settings of a job, or a script with its arguments, and the policy
under a name, without hosts.

Each is a TOML file in the user's configuration folder, with what differs from the defaults:

    [job]
    sync = "ring"
    sync_option = ["bucket_mb=10"]

    [policy]
    max_restarts = 2

A script stands below [program] in place of [job], with the fields of `Script`:

    [program]
    words = ["train.py", "--lr", "0.1"]
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import platformdirs
import tomllib

from remote.plan.plan import PlanError, Policy, Script
from remote.toml_writer import format_toml_table, join_toml_tables
from training.job import Job, JobError
from training.registry import UnknownName
from training.writing import make_private_folders, write_whole
from tui.launch.form_fields import format_policy, format_value, parse_policy, policy_fields

NAME = re.compile(r"\w[\w. +-]{0,59}")
SUFFIX = ".toml"
SCRIPT_SETTINGS = ("words", "watch", "before", "follow", "fetch")
"""The fields of `Script` that a preset has."""
LARGEST = 100_000
"""Bytes of a file that is read."""


class PresetError(ValueError):
    """A preset that cannot be used; the text says which file, and what to write instead."""


@dataclass(frozen=True)
class Preset:
    """Settings of a job, or a script, and a policy."""

    work: Job | Script
    policy: Policy


def folder() -> Path:
    """Return the folder of the presets."""
    return platformdirs.user_config_path("rankboard") / "presets"


def list_names() -> list[str]:
    """Return the names of all presets, sorted."""
    try:
        files = os.listdir(folder())
    except OSError:
        return []
    names = [file.removesuffix(SUFFIX) for file in files if file.endswith(SUFFIX)]
    return sorted(name for name in names if NAME.fullmatch(name))


def path(name: str) -> Path:
    """Return the file of a preset. Raises: PresetError, if no preset can have that name."""
    # Nobody would see a space at the end.
    if not NAME.fullmatch(name) or name.strip() != name:
        raise PresetError(
            f"{name!r} is not a name for a preset: write up to 60 letters, digits, spaces, . + "
            "- or _"
        )
    return folder() / f"{name}{SUFFIX}"


def save(name: str, preset: Preset, keep: bool) -> Path:
    """Write a preset, in place of one of this name, and return its file.

    `keep` is the default of --on-disconnect. Raises: PresetError, OSError.
    """
    file = path(name)
    make_private_folders(file.parent)
    write_whole(file, _format(preset, keep).encode())
    return file


def delete(name: str) -> None:
    """Delete a preset, if it is there. Raises: PresetError, OSError."""
    path(name).unlink(missing_ok=True)


def load(name: str, keep: bool) -> Preset:
    """Read a preset; `keep` as in `save`. Raises: PresetError."""
    file = path(name)
    try:
        # Not all of it: a person may have put anything there.
        with file.open("rb") as stream:
            data = tomllib.loads(stream.read(LARGEST).decode())
    except OSError as error:
        raise PresetError(f"{file}: {error.strerror}") from None
    except ValueError as error:  # no UTF-8, or no TOML
        raise PresetError(f"{file}: {error}") from None
    try:
        return _parse(data, keep)
    except (ValueError, JobError, UnknownName, PlanError) as error:
        raise PresetError(f"{file}: {error}") from None


# Reading ------------------------------------------------------------------------------------------


def _parse(data: Mapping[str, Any], keep: bool) -> Preset:
    from tui.launch.preset_tables import read_table  # slow to import, and seldom needed

    unknown = data.keys() - {"job", "program", "policy"}
    if unknown:
        raise PresetError(f"{min(unknown)}: write settings below [job], [program] or [policy]")
    fields = policy_fields(keep)
    texts = {field.name: field.default for field in fields.values()}
    for name, value in read_table("policy", data).items():
        texts[fields[name].name] = format_value(value)
    policy = parse_policy(texts, keep)
    if "program" not in data:
        return Preset(Job.of(read_table("job", data)), policy)
    if "job" in data:
        raise PresetError("[job] and [program] cannot be combined: leave one of them out")
    values = read_table("program", data)
    if not values.get("words"):
        raise PresetError('[program]: write words = ["train.py"], the program and its arguments')
    return Preset(Script(**values), policy)


# Writing ------------------------------------------------------------------------------------------


def _format(preset: Preset, keep: bool) -> str:
    """Return the file of a preset."""
    work = preset.work
    if isinstance(work, Script):
        name = "program"
        defaults = vars(Script(()))
        changed = [key for key in SCRIPT_SETTINGS if getattr(work, key) != defaults[key]]
    else:
        name = "job"
        changed = sorted(work.changed())
    policy = {}
    texts = format_policy(preset.policy)
    for key, field in policy_fields(keep).items():
        text = texts[field.name]
        if text != field.default:
            policy[key] = field.parse(text)
    job_table = {key: getattr(work, key) for key in changed}
    return join_toml_tables(
        [
            ["# A preset of rankboard's launch form."],
            format_toml_table(f"[{name}]", job_table),
            format_toml_table("[policy]", policy),
        ]
    )
