"""The fields of the launch form, each of which holds a text.

They are made of what is declared elsewhere: the settings of `Job`, the options of a sync method and
the flags of the policy. What is added there appears in the form by itself.
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
from tui.flags.policy import PolicyFlags, make_policy

ON = "on"
OFF = "off"
SWITCH = (ON, OFF)
OPTIONS = "sync_option"
"""The setting of which the form has one field per option."""
OPTION_FLAG = "--sync-option"
POLICY_LABELS = {"min_nodes": "min-hosts"}
"""Flags of the policy that are not called as the setting that they set."""
SETTINGS = {setting.name: setting for setting in dataclasses.fields(Job)}


@dataclass(frozen=True)
class FormField:
    """A row of the form."""

    name: str
    label: str
    help: str
    default: str
    """The text of a field that nobody has changed."""
    choices: tuple[str, ...] = ()
    """The values that can be chosen; none if a text is typed."""
    is_numeric: bool = False
    """Whether typing a digit begins a new text."""
    flag: str = ""
    """The flag that stands for the field in mistakes."""

    @property
    def is_switch(self) -> bool:
        """Return True if the field is on or off."""
        return self.choices == SWITCH


def format_value(value: Any) -> str:
    """Return a value as the text of a field."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return ON if value else OFF
    if isinstance(value, float):
        short = f"{value:g}"
        return short if float(short) == value else repr(value)
    return str(value)


def parse_value(kind: type[Any], text: str, flag: str) -> Any:
    """Return the value that a text stands for. Raises: JobError."""
    if kind is bool:
        return text == ON
    try:
        return kind(text.strip())
    except ValueError:
        raise JobError(Mistake(flag, repr(text), hint=f"write {NUMBERS[kind]}")) from None


def choice_prefix(choice: str) -> str:
    """Return the beginning of a choice that is completed by typing, such as `torchvision/`; ""
    of any other choice."""
    return registry.argument_prefix(choice)


def matches_choice(text: str, choice: str) -> bool:
    """Return True if a text is this choice, or completes it."""
    prefix = choice_prefix(choice)
    return text.startswith(prefix) if prefix else text == choice


# Settings of a job --------------------------------------------------------------------------------


def make_setting_field(setting: dataclasses.Field[Any]) -> FormField:
    """Return the field of a setting of `Job`."""
    kind = TYPES[str(setting.type)]
    flag = jobs.flag(setting)
    return FormField(
        setting.name,
        flag.removeprefix("--"),
        str(setting.metadata["help"]),
        format_value(setting.default),
        SWITCH if kind is bool else jobs.choices_of(setting),
        kind in (int, float),
        flag,
    )


def parse_setting(setting: dataclasses.Field[Any], text: str) -> Any:
    """Return the value of a text for a setting, whose range is not checked. Raises: JobError."""
    if setting.default is None and not text.strip():
        return None
    return parse_value(TYPES[str(setting.type)], text, jobs.flag(setting))


# Options of a sync method -------------------------------------------------------------------------


@cache
def make_method_fields(method: str) -> tuple[FormField, ...]:
    """Return the fields of the options of a sync method. Raises: UnknownName."""
    return tuple(_make_option_field(method, option) for option in options.declared_options(method))


def _make_option_field(method: str, option: options.Option) -> FormField:
    kind = type(option.default)
    return FormField(
        f"{method}.{option.name}",
        option.name,
        option.help,
        format_value(option.default),
        SWITCH if kind is bool else option.choices,
        kind in (int, float),
        f"{OPTION_FLAG} {option.name}",
    )


def format_option(name: str, text: str) -> str:
    """Return an option as `Job` has it: `key=value`."""
    value = {ON: "yes", OFF: "no"}.get(text, text.strip())
    return f"{name}={value}"


# The policy ---------------------------------------------------------------------------------------


def make_policy_fields(keep: bool) -> tuple[FormField, ...]:
    """Return the fields of the policy. `keep` is the default of --on-disconnect."""
    fields = []
    for name, (kind, choices, help, default) in _read_declared().items():
        label = POLICY_LABELS.get(name, name.replace("_", "-"))
        text = _format_disconnect(keep) if default is None else format_value(default)
        is_numeric = kind in (int, float)
        fields.append(
            FormField(f"policy.{name}", label, help, text, choices, is_numeric, f"--{label}")
        )
    return tuple(fields)


def parse_policy(texts: Mapping[str, str], keep: bool) -> Policy:
    """Return the policy of the texts of its fields. Raises: JobError, PlanError."""
    values = {}
    for field in make_policy_fields(keep):
        name = field.name.removeprefix("policy.")
        text = texts[field.name]
        if field.choices and text not in field.choices:
            hint = f"write {options.join_words(field.choices)}"
            raise PlanError(Mistake(field.flag, text, hint=hint))
        values[name] = parse_value(_read_declared()[name][0], text, field.flag)
    return make_policy(PolicyFlags(**values), keep)


def format_policy(policy: Policy) -> dict[str, str]:
    """Return the texts of the fields of a policy."""
    texts = {}
    for name, (*_, default) in _read_declared().items():
        is_disconnect = default is None  # its default depends on where the run is shown
        value = _format_disconnect(policy.keep) if is_disconnect else getattr(policy, name)
        texts[f"policy.{name}"] = format_value(value)
    return texts


def format_policy_flags(texts: Mapping[str, str], keep: bool) -> tuple[str, ...]:
    """Return the arguments of the command line for the fields of the policy that are changed."""
    arguments: list[str] = []
    for field in make_policy_fields(keep):
        text = texts[field.name]
        if text == field.default:
            continue
        if field.is_switch:
            arguments.append(field.flag if text == ON else f"--no-{field.label}")
        else:
            arguments += [field.flag, text.strip()]
    return tuple(arguments)


def _format_disconnect(keep: bool) -> str:
    return "keep" if keep else "stop"


@cache
def _read_declared() -> dict[str, tuple[type[Any], tuple[str, ...], str, Any]]:
    """Return type, choices, help and default of each flag of the policy."""
    hints = get_type_hints(PolicyFlags, include_extras=True)
    declared = {}
    for setting in dataclasses.fields(PolicyFlags):
        hint, *options_of_flag = get_args(hints[setting.name])
        help = options_of_flag[-1].help
        help = help.partition(" (default: ")[0]  # the form shows what is chosen
        kinds = [part for part in get_args(hint) if part is not type(None)]
        kind = kinds[0] if kinds else hint
        choices: tuple[str, ...] = ()
        if get_origin(kind) is Literal:
            choices = get_args(kind)
            kind = str
        elif kind is bool:
            choices = SWITCH
        elif issubclass(kind, str):
            choices = tuple(map(str, kind))
        declared[setting.name] = (kind, choices, help, setting.default)
    return declared
