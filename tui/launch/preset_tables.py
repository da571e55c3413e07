"""The tables of a preset, checked by pydantic, which takes a while to import."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError, create_model

from remote.plan.job_keys import WRITE, job_keys
from training.job import SEVERAL, JobError
from training.registry import did_you_mean

STRICT = ConfigDict(extra="forbid", strict=True)
Texts = Annotated[list[str], AfterValidator(tuple), Field(description=WRITE[SEVERAL])]
JobTable = create_model("JobTable", __config__=STRICT, **job_keys())


class ScriptTable(BaseModel):
    """The settings of a script, which are the fields of `Script`."""

    model_config = STRICT

    words: Texts = []
    watch: bool = Field(True, description=WRITE["bool"])
    follow: Texts = []
    fetch: Texts = []


def read_job(table: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings below [job]. Raises: ValueError, JobError."""
    return _read_table(JobTable, "job", table)


def read_script(table: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings below [program]. Raises: ValueError."""
    return _read_table(ScriptTable, "program", table)


def _read_table(model: type[BaseModel], name: str, table: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings of a table. Raises: ValueError, JobError."""
    try:
        settings = model.model_validate(table)
    except ValidationError as error:
        mistake = error.errors()[0]
    else:
        return {key: getattr(settings, key) for key in settings.model_fields_set}
    key = str(mistake["loc"][0])
    where = f"[{name}] {key}"
    if mistake["type"] == "extra_forbidden":
        raise ValueError(f"{where}: no such setting{did_you_mean(key, model.model_fields)}")
    wrong_value = mistake.get("ctx", {}).get("error")
    if isinstance(wrong_value, JobError):
        raise wrong_value
    write = model.model_fields[key].description
    raise ValueError(f"{where} = {table[key]!r}: write {write}")
