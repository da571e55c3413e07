"""The settings of a job as keys of a TOML file, for pydantic."""

from __future__ import annotations

from dataclasses import Field as Setting
from dataclasses import fields
from functools import partial
from typing import Annotated, Any

from pydantic import AfterValidator, BeforeValidator, Field

from training import options
from training.job import SEVERAL, Job, check_setting

WRITE = {
    "str": "a text in quotes",
    "int": "a whole number",
    "int | None": "a whole number",
    "float": "a number, such as 0.1",
    "bool": "true or false",
    SEVERAL: 'a list of texts: ["key=value"]',
}
"""What to write for a setting, by its type."""


def number_as_text(value: object) -> object:
    """Return the text of a number, which stands in a file without quotes."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return options.format_value(value) if is_number else value


TOML_TYPES: dict[str, Any] = {
    "str": Annotated[str, BeforeValidator(number_as_text)],
    "int": int,
    "int | None": int,
    "float": Annotated[float, Field(allow_inf_nan=False)],
    "bool": bool,
    # TOML has lists, the command line gives tuples.
    SEVERAL: Annotated[list[str] | tuple[str, ...], AfterValidator(tuple)],
}


def job_keys() -> dict[str, Any]:
    """Return the type and the default of each setting of a job, for `pydantic.create_model`.

    The description of a type says what to write. A value that the setting cannot have raises
    `JobError`, which pydantic gives with the mistake.
    """
    keys = {}
    for setting in fields(Job):
        type_name = str(setting.type)
        description = Field(description=WRITE[type_name])
        has_value = AfterValidator(partial(_check_value, setting))
        keys[setting.name] = (
            Annotated[TOML_TYPES[type_name], has_value, description],
            setting.default,
        )
    return keys


def _check_value(setting: Setting[Any], value: Any) -> Any:
    check_setting(setting, value)
    return value
