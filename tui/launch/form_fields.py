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
from training import options
from training.job import TYPES, Job, JobError
from training.mistake import NUMBERS, Mistake
from training.registry import argument_prefix
from tui.flags.policy import PolicyFlags, make_policy

ON = "on"
OFF = "off"
SWITCH = (ON, OFF)
OPTIONS = "sync_option"
"""The setting of which the form has one field per option."""
OPTION_FLAG = "--sync-option"
POLICY_FLAGS = {"min_nodes": "--min-hosts"}
"""Flags of the policy that are not called as the setting that they set."""
LABELS = {"--sync": "sync method", "--dataset": "data set", "--lr": "learning rate"}
"""What fields are called whose flag is too short a name."""
UNITS = {
    "batch_size": "samples per step",
    "policy.start_timeout": "seconds",
    "epochs": "times through the data",
    "lr": "step size of SGD",
    "accumulate": "batches per synchronisation",
    "ranks": "processes",
    "limit": "samples",
    "image_size": "pixels",
    "log_every": "steps",
}
"""What the numbers of some fields count."""


@dataclass(frozen=True)
class FormField:
    """A row of the form."""

    name: str
    label: str
    help: str
    default: str = ""
    """The text of a field that nobody has changed."""
    choices: tuple[str, ...] = ()
    """The values that can be chosen; none if a text is typed."""
    kind: type[Any] = str
    """The type of the value."""
    flag: str = ""
    """The flag that stands for the field in mistakes."""

    @property
    def unit(self) -> str:
        """Return what the number of the field counts; "" if its name says it."""
        return UNITS.get(self.name, "")

    @property
    def is_switch(self) -> bool:
        """Return True if the field is on or off."""
        return self.choices == SWITCH

    @property
    def is_numeric(self) -> bool:
        """Return True if typing a digit begins a new text."""
        return self.kind in NUMBERS

    def parse(self, text: str) -> Any:
        """Return the value that a text stands for; its range is not checked. Raises: JobError."""
        text = text.strip()
        if self.kind is bool:
            return text == ON
        if self.is_numeric and not text and not self.default:
            return None  # only settings that may be left out have no default
        try:
            return self.kind(text)
        except ValueError:
            hint = f"write {NUMBERS[self.kind]}"
            raise JobError(Mistake(self.flag, repr(text), hint=hint)) from None


def format_value(value: Any) -> str:
    """Return a value as the text of a field."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return ON if value else OFF
    if isinstance(value, float):
        # Six digits read better, but must not make another number of it.
        short = f"{value:g}"
        return short if float(short) == value else repr(value)
    return str(value)


def matches_choice(text: str, choice: str) -> bool:
    """Return True if a text is this choice, or completes it, such as `torchvision/`."""
    prefix = argument_prefix(choice)
    return text.startswith(prefix) if prefix else text == choice


def _make_field(
    name: str, flag: str, help: str, default: Any, kind: type[Any], choices: tuple[str, ...]
) -> FormField:
    choices = SWITCH if kind is bool else choices
    return FormField(name, _make_label(flag), help, format_value(default), choices, kind, flag)


def _make_label(flag: str) -> str:
    """Return what a field is called: an option as in a command line, others in words."""
    if flag.startswith(OPTION_FLAG):
        return flag.removeprefix(f"{OPTION_FLAG} ")
    return LABELS.get(flag) or flag.removeprefix("--").replace("-", " ")


@cache
def setting_fields() -> dict[str, FormField]:
    """Return the fields of all settings of `Job` but the options, by name."""
    return {
        setting.name: _make_field(
            setting.name,
            jobs.flag(setting),
            setting.metadata["help"],
            setting.default,
            TYPES[str(setting.type)],
            jobs.choices_of(setting),
        )
        for setting in dataclasses.fields(Job)
        if setting.name != OPTIONS
    }


@cache
def method_fields(method: str) -> tuple[FormField, ...]:
    """Return the fields of the options of a sync method. Raises: UnknownName."""
    return tuple(
        _make_field(
            f"{method}.{option.name}",
            f"{OPTION_FLAG} {option.name}",
            option.help,
            option.default,
            type(option.default),
            option.choices,
        )
        for option in options.declared_options(method)
    )


def format_option(name: str, text: str) -> str:
    """Return an option as `Job` has it: `key=value`."""
    value = {ON: "yes", OFF: "no"}.get(text, text.strip())
    return f"{name}={value}"


# The policy ---------------------------------------------------------------------------------------


@cache
def policy_fields(keep: bool) -> dict[str, FormField]:
    """Return the fields of the policy by the names of `PolicyFlags`. `keep` is the default of
    --on-disconnect."""
    hints = get_type_hints(PolicyFlags, include_extras=True)
    fields = {}
    for setting in dataclasses.fields(PolicyFlags):
        name = setting.name
        hint, *annotations = get_args(hints[name])
        # The parameter with the help comes last, behind one such as WHOLE_NUMBER.
        help = annotations[-1].help.partition(" (default: ")[0]  # the form shows what is chosen
        default = setting.default
        if default is None:  # --on-disconnect, whose default depends on where the run is shown
            default = _format_keep(keep)
            hint = get_args(hint)[0]
        kind = hint
        choices: tuple[str, ...] = ()
        if get_origin(hint) is Literal:
            kind = str
            choices = get_args(hint)
        elif issubclass(hint, str):
            choices = tuple(map(str, hint))
        flag = POLICY_FLAGS.get(name) or f"--{name.replace('_', '-')}"
        fields[name] = _make_field(f"policy.{name}", flag, help, default, kind, choices)
    return fields


def parse_policy(texts: Mapping[str, str], keep: bool) -> Policy:
    """Return the policy of the texts of its fields. Raises: JobError, PlanError."""
    values = {}
    for name, field in policy_fields(keep).items():
        text = texts[field.name]
        if field.choices and text not in field.choices:
            hint = f"write {options.join_words(field.choices)}"
            raise PlanError(Mistake(field.flag, text, hint=hint))
        values[name] = field.parse(text)
    return make_policy(PolicyFlags(**values), keep)


def format_policy(policy: Policy) -> dict[str, str]:
    """Return the texts of the fields of a policy."""
    values = vars(policy) | {"on_disconnect": _format_keep(policy.keep)}
    # The names of the fields are the same for both defaults.
    return {field.name: format_value(values[name]) for name, field in policy_fields(False).items()}


def format_policy_flags(texts: Mapping[str, str], keep: bool) -> tuple[str, ...]:
    """Return the arguments of the command line for the fields of the policy that are changed."""
    arguments: list[str] = []
    for field in policy_fields(keep).values():
        text = texts[field.name].strip()
        if text == field.default:
            continue
        if field.is_switch:
            arguments.append(field.flag if text == ON else field.flag.replace("--", "--no-", 1))
        else:
            arguments += [field.flag, text]
    return tuple(arguments)


def _format_keep(keep: bool) -> str:
    return "keep" if keep else "stop"
