"""Make the flags of a job: one per field of `Job`."""

from __future__ import annotations

from dataclasses import Field, dataclass, field, make_dataclass
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

from cyclopts import Group, Parameter

from training.job import SEVERAL, TYPES, choices_of, field_groups, flag, help_text, negative_flag
from tui.flags.common import FIRST_JOB_GROUP, WHOLE_NUMBER
from tui.flags.run_completion import complete_runs

METAVARS: dict[type[Any], str] = {int: "N", float: "X", str: "TEXT", tuple: "TEXT", bool: ""}


@dataclass(frozen=True)
class GivenJob:
    """The job flags of a command line: an attribute per field of `Job`, None if it is not given."""

    @property
    def settings(self) -> dict[str, Any]:
        """The settings that are given, by the names of their fields."""
        return {name: value for name, value in vars(self).items() if value is not None}


def _declare_flags() -> list[tuple[str, Any, Any]]:
    """Return a field of `JobFlags` for each field of `Job`."""
    declared_fields: list[tuple[str, Any, Any]] = []
    for group_place, (group_name, settings) in enumerate(field_groups().items()):
        group = Group(f"Job: {group_name}", sort_key=FIRST_JOB_GROUP + group_place)
        for setting in settings:
            value_type: Any = TYPES[str(setting.type)]
            if setting.type == SEVERAL:
                value_type = tuple[str, ...]
            annotation: Any = Annotated[value_type | None, _declare_flag(setting, group)]
            if value_type is int:
                annotation = Annotated[annotation, WHOLE_NUMBER]
            declared_fields.append((setting.name, annotation, field(default=None)))
    return declared_fields


def _declare_flag(setting: Field[Any], group: Group) -> Parameter:
    flag_help = help_text(setting)
    default_text = "on" if setting.default is True else setting.default
    # 0.0 counts as false, but is a default that is worth saying.
    if default_text or setting.type == "float":
        flag_help = f"{flag_help} (default: {default_text})"
    is_switch = setting.type == "bool"
    return Parameter(
        name=flag(setting),
        negative=negative_flag(setting) if is_switch else "",
        help=flag_help,
        metavar=_metavar(setting),
        group=group,
        completer=complete_runs if setting.metadata["metavar"] == "RUN" else None,
    )


def _metavar(setting: Field[Any]) -> str | None:
    """Name the value of a setting in the help."""
    if setting.metadata["metavar"]:
        return str(setting.metadata["metavar"])
    if choices_of(setting):
        return "NAME"
    return METAVARS[TYPES[str(setting.type)]] or None


# A type checker does not see fields that are made while the program runs.
if TYPE_CHECKING:
    JobFlags: TypeAlias = GivenJob
else:
    JobFlags = make_dataclass("JobFlags", _declare_flags(), bases=(GivenJob,), frozen=True)
    JobFlags.__module__ = __name__  # cyclopts looks there for what the annotations name
    JobFlags = Parameter(name="*")(JobFlags)
