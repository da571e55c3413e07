"""The options of a job: one per field of `Job`."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import Field
from typing import Annotated, Any, get_type_hints

import typer

from training.job import SEVERAL, TYPES, choices, flag, groups, help_text, no_flag

METAVARS: dict[type[Any], str] = {int: "N", float: "X", str: "TEXT", tuple: "TEXT", bool: ""}


def with_job_flags(command: Callable[..., None]) -> Callable[..., None]:
    """Replace the `**job_flags` of a command by one option per field of `Job`, by default None."""
    own = [
        p
        for p in inspect.signature(command).parameters.values()
        if p.kind is not inspect.Parameter.VAR_KEYWORD
    ]
    hints = get_type_hints(command, include_extras=True)
    parameters = [
        p.replace(annotation=hints[p.name], kind=inspect.Parameter.KEYWORD_ONLY) for p in own
    ]
    for panel, setting in (
        (f"Job: {name}", setting) for name, group in groups().items() for setting in group
    ):
        names = (
            [f"{flag(setting)}/{no_flag(setting)}"] if setting.type == "bool" else [flag(setting)]
        )
        known = "on" if setting.default is True else setting.default
        default = f" (default: {known})" if known or setting.type == "float" else ""
        option = typer.Option(
            *names,
            help=help_text(setting) + default,
            metavar=_metavar(setting),
            rich_help_panel=panel,
        )
        kind: Any = list[str] if setting.type == SEVERAL else TYPES[str(setting.type)]
        annotation = Annotated[kind | None, option]
        parameters.append(
            inspect.Parameter(
                setting.name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=annotation
            )
        )

    def launch(**values: Any) -> None:
        command(**values)

    launch.__doc__ = command.__doc__
    launch.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    launch.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return launch


def _metavar(setting: Field[Any]) -> str:
    """Name the value of a setting in the help."""
    return setting.metadata["metavar"] or (
        "NAME" if choices(setting) else METAVARS[TYPES[str(setting.type)]]
    )
