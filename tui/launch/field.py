"""The fields of the launch form. Each holds a text.

They are made of what the program declares: the settings of `Job`, the options of a sync method and
the options of the policy. What is added there is in the form by itself.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, Literal, get_args, get_origin, get_type_hints

from remote.plan.plan import PlanError, Policy
from training import job as jobs
from training import options, registry
from training.job import TYPES, Job, JobError
from training.mistake import NUMBERS, Mistake
from tui.flags import policy as flags

ON = "on"
OFF = "off"
SWITCH = (ON, OFF)
OPTIONS = "sync_option"
"""The setting of which the form has one field per option."""
LABELS = {"min_nodes": "min-hosts"}
"""Flags of the policy that are not called as the setting that they set."""
SETTINGS = {setting.name: setting for setting in dataclasses.fields(Job)}


@dataclass(frozen=True)
class Field:
    """A row of the form. `choices` are the values that can be chosen, none where a text is typed.
    `default` is the text of a field that nobody has changed. `numeric`: digits begin a text."""

    name: str
    label: str
    help: str
    default: str
    choices: tuple[str, ...] = ()
    numeric: bool = False

    @property
    def is_switch(self) -> bool:
        """Whether it is on or off."""
        return self.choices == SWITCH


def write(value: Any) -> str:
    """A value as the text of a field."""
    if isinstance(value, bool):
        return ON if value else OFF
    if isinstance(value, float):
        return short if float(short := f"{value:g}") == value else repr(value)
    return "" if value is None else str(value)


def read(kind: type[Any], text: str, flag: str) -> Any:
    """The value that a text stands for. Raises: JobError."""
    if kind is bool:
        return text == ON
    try:
        return kind(text.strip())
    except ValueError:
        raise JobError(Mistake(flag, repr(text), hint=f"write {NUMBERS[kind]}")) from None


def argument(choice: str) -> str:
    """The beginning of a choice that is completed by typing, as `torchvision/NAME` is; "" of any
    other."""
    return registry.prefix(choice)


def is_of(text: str, choice: str) -> bool:
    """Whether a text is this choice, or completes it."""
    before = argument(choice)
    return text.startswith(before) if before else text == choice


# Settings of a job --------------------------------------------------------------------------------


def of_setting(setting: dataclasses.Field[Any]) -> Field:
    """The field of a setting of `Job`."""
    kind = TYPES[str(setting.type)]
    return Field(
        setting.name,
        jobs.flag(setting).removeprefix("--"),
        str(setting.metadata["help"]),
        write(setting.default),
        SWITCH if kind is bool else jobs.choices(setting),
        kind in (int, float),
    )


def read_setting(setting: dataclasses.Field[Any], text: str) -> Any:
    """The value that a text gives a setting. Raises: JobError."""
    if setting.default is None and not text.strip():
        return None
    value = read(TYPES[str(setting.type)], text, jobs.flag(setting))
    jobs.check(setting, value)
    return value


# Options of a sync method -------------------------------------------------------------------------


@cache
def of_method(method: str) -> tuple[Field, ...]:
    """The fields of the options of a method. Raises: UnknownName."""
    return tuple(_of_option(method, option) for option in options.declared(method))


def _of_option(method: str, option: options.Option) -> Field:
    kind = type(option.default)
    return Field(
        f"{method}.{option.name}",
        option.name,
        option.help,
        write(option.default),
        SWITCH if kind is bool else option.choices,
        kind in (int, float),
    )


def option_word(name: str, text: str) -> str:
    """An option as `Job` has it: `key=value`."""
    value = {ON: "yes", OFF: "no"}.get(text, text.strip())
    return f"{name}={value}"


# The policy ---------------------------------------------------------------------------------------


def of_policy(keep: bool) -> tuple[Field, ...]:
    """The fields of the policy. `keep` is the default of --on-disconnect."""
    return tuple(
        Field(
            f"policy.{name}",
            LABELS.get(name, name.replace("_", "-")),
            help,
            _ending(keep) if default is None else write(default),
            choices,
            kind in (int, float),
        )
        for name, (kind, choices, help, default) in _declared().items()
    )


def read_policy(texts: Mapping[str, str], keep: bool) -> Policy:
    """The policy of the texts of its fields. Raises: JobError, PlanError."""
    given = {}
    for field in of_policy(keep):
        name = field.name.removeprefix("policy.")
        text = texts[field.name]
        if field.choices and text not in field.choices:
            known = options.join(field.choices)
            raise PlanError(f"--{field.label} {text}: write {known}")
        given[name] = read(_declared()[name][0], text, f"--{field.label}")
    return flags.make_policy(flags.PolicyFlags(**given), keep)


def write_policy(policy: Policy) -> dict[str, str]:
    """The texts of the fields of a policy."""
    return {
        f"policy.{name}": _ending(policy.keep) if default is None else write(getattr(policy, name))
        for name, (*_, default) in _declared().items()
    }


def policy_words(texts: Mapping[str, str], keep: bool) -> tuple[str, ...]:
    """The options of the command line for the fields of the policy that are changed."""
    words: list[str] = []
    for field in of_policy(keep):
        text = texts[field.name]
        flag = f"--{field.label}"
        if text == field.default:
            continue
        if field.is_switch:
            words.append(flag if text == ON else f"--no-{field.label}")
        else:
            words += [flag, text.strip()]
    return tuple(words)


def _ending(keep: bool) -> str:
    return "keep" if keep else "stop"


@cache
def _declared() -> dict[str, tuple[type[Any], tuple[str, ...], str, Any]]:
    """The options of the policy: type, choices, help and default."""
    hints = get_type_hints(flags.PolicyFlags, include_extras=True)
    found = {}
    for declared in dataclasses.fields(flags.PolicyFlags):
        hint, option = get_args(hints[declared.name])
        kind = next((one for one in get_args(hint) if one is not type(None)), hint)
        choices: tuple[str, ...] = ()
        if get_origin(kind) is Literal:
            kind, choices = str, get_args(kind)
        elif kind is bool:
            choices = SWITCH
        elif issubclass(kind, str):
            choices = tuple(map(str, kind))
        # The form shows what is chosen, so the default of the command line is left out.
        help = option.help.partition(" (default: ")[0]
        found[declared.name] = (kind, choices, help, declared.default)
    return found
