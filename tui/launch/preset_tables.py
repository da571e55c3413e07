"""What the tables of a preset may hold, and what the errors of a wrong value are. This module
loads pydantic, which is slow to import."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError, create_model

from remote.plan.job_keys import TOML_TYPES, WRITE, job_keys
from training.job import SEVERAL, JobError
from training.registry import did_you_mean
from tui.launch.form_fields import policy_fields

# Strict, since pydantic would also take "yes" for true and "3" for 3.
STRICT = ConfigDict(extra="forbid", strict=True)
# TOML has lists where `Script` has tuples.
Texts = Annotated[list[str], AfterValidator(tuple), Field(description=WRITE[SEVERAL])]


class ScriptTable(BaseModel):
    """The settings of a script, which are the fields of `Script`."""

    model_config = STRICT

    words: Texts = []
    watch: bool = Field(True, description=WRITE["bool"])
    before: str = Field("", description=WRITE["str"])
    follow: Texts = []
    fetch: Texts = []


def _policy_keys() -> dict[str, Any]:
    """Return the type and the default of each setting of a policy, for `create_model`. The form
    checks the texts itself."""
    keys = {}
    for name, field in policy_fields(False).items():
        type_name = field.kind.__name__ if field.is_numeric or field.is_switch else "str"
        keys[name] = (TOML_TYPES[type_name], Field(None, description=WRITE[type_name]))
    return keys


MODELS = {
    "job": create_model("JobTable", __config__=STRICT, **job_keys()),
    "program": ScriptTable,
    "policy": create_model("PolicyTable", __config__=STRICT, **_policy_keys()),
}


def read_table(name: str, data: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings of a table that stand in the data of a file. Raises: ValueError,
    JobError."""
    model: type[BaseModel] = MODELS[name]
    try:
        settings = model.model_validate(data.get(name, {}))
    except ValidationError as error:
        mistake = error.errors()[0]
    else:
        # Only what the file says: the rest keeps the defaults of the form.
        return {key: getattr(settings, key) for key in settings.model_fields_set}
    if not mistake["loc"]:
        raise ValueError(f"{name}: write [{name}], and its settings below")
    key = str(mistake["loc"][0])
    where = f"[{name}] {key}"
    if mistake["type"] == "extra_forbidden":
        raise ValueError(f"{where}: no such setting{did_you_mean(key, model.model_fields)}")
    # What a validator raised says more than pydantic's words for it.
    wrong_value = mistake.get("ctx", {}).get("error")
    if isinstance(wrong_value, JobError):
        raise wrong_value
    write = model.model_fields[key].description
    raise ValueError(f"{where} = {data[name][key]!r}: write {write}")
