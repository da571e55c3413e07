"""The tables of a study file and their keys, for pydantic."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Annotated, Any, TypeVar

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PlainValidator,
    ValidationError,
    create_model,
)
from pydantic_core import ErrorDetails

from remote.cluster.hosts import RANKS
from remote.plan.job_keys import job_keys, number_as_text
from remote.statistics import REPETITIONS
from remote.study.mistakes import StudyMistakes, format_toml
from remote.study.study import UNITS, CellPlace, Target
from training import options
from training.job import JobError
from training.registry import did_you_mean

TOP_KEYS = ("title", "question", "repetitions", "seed", "limit", "metric", "target")
"""The keys of a study that stand above all tables."""
TABLES = ("job", "base", "axes", "compare", "quick")
DURATION = re.compile(r"(\d+(?:\.\d+)?)\s*(s|min|h)")
HIGHEST_TARGETS = {"loss": math.inf, "accuracy": 1.0}
HIGHEST_SEED = 2**32 - 1
# Otherwise pydantic would take a text such as "4" for a number, too.
STRICT = ConfigDict(extra="forbid", strict=True)
Table = TypeVar("Table", bound=BaseModel)


def _check_printable(text: str) -> str:
    if not text.isprintable():
        raise ValueError(text)
    return text


def _parse_limit(value: object) -> float:
    """Return the seconds of a time such as "10 min". Raises: ValueError."""
    time_match = DURATION.fullmatch(value) if isinstance(value, str) else None
    if time_match is None or not float(time_match[1]):
        raise ValueError(value)
    return float(time_match[1]) * UNITS[time_match[2]]


def _parse_target(value: object) -> Target:
    """Return the target of a table such as { accuracy = 0.6 }. Raises: ValueError."""
    if not isinstance(value, dict) or len(value) != 1:
        raise ValueError(value)
    [(metric, goal_value)] = value.items()
    # In Python a bool is an int, too.
    is_number = isinstance(goal_value, int | float) and not isinstance(goal_value, bool)
    if not is_number or not 0 < goal_value <= HIGHEST_TARGETS.get(metric, 0.0):
        raise ValueError(value)
    return Target(metric, float(goal_value))


OneLine = Annotated[str, AfterValidator(_check_printable)]


class QuickKeys(BaseModel):
    """The keys of a study that [quick] may change. Descriptions say what to write."""

    model_config = STRICT

    repetitions: int = Field(
        REPETITIONS, ge=1, le=1_000, description="a whole number from 1 to 1000"
    )
    limit: Annotated[float, PlainValidator(_parse_limit)] = Field(
        UNITS["h"], description='a time such as "90 s", "10 min" or "2 h"'
    )
    target: Annotated[Target | None, PlainValidator(_parse_target)] = Field(
        None, description="{ accuracy = 0.6 }, a fraction, or { loss = 0.5 }"
    )
    job: dict[str, Any] = {}
    base: dict[str, Any] | None = None
    axes: dict[str, Any] = {}
    cell: list[dict[str, Any]] = []
    compare: dict[str, Any] = {}


class StudyKeys(QuickKeys):
    """All keys of a study."""

    title: OneLine = Field("", description='one line of text in quotes, title = "…"')
    question: OneLine = Field("", description='one line of text in quotes, question = "…"')
    seed: int = Field(
        1, ge=0, le=HIGHEST_SEED, description=f"a whole number from 0 to {HIGHEST_SEED}"
    )
    metric: Any = "step_seconds"
    quick: dict[str, Any] = {}


class CompareKeys(BaseModel):
    """The keys of [compare]. None stands for a key that is not there."""

    model_config = STRICT

    axis: Any = None
    reference: Any = None
    baseline: dict[str, Any] | None = Field(None, description="a value of each axis: { nodes = 1 }")
    among: list[Any] = Field([], description='values of the axis in a list: ["ring", "ddp"]')


RankCount = Annotated[int, Field(ge=1, le=RANKS, description=f"a whole number from 1 to {RANKS}")]
NUMBER_KEYS = ("nodes", "ranks")
"""The settings of which one tells on how many hosts a cell runs, and with how many ranks."""
NumberOrText = Annotated[str, BeforeValidator(number_as_text), Field(min_length=1)]


class PlaceKeys(BaseModel):
    """The settings that say where a cell runs."""

    model_config = STRICT

    nodes: RankCount = 1
    processes: RankCount = 1
    ranks: RankCount = 1
    link: NumberOrText = Field("", description='a text in quotes, such as "1gbit"')
    cpus: NumberOrText = Field("", description='a text in quotes, such as "0.5"')


CellKeys = create_model(
    "CellKeys",
    __base__=PlaceKeys,
    __doc__="The settings of a cell that trains a job of ours.",
    **job_keys(),
)


def place_cell(
    settings: Mapping[str, Any], num_hosts: int, mistakes: StudyMistakes
) -> CellPlace | None:
    """Return where a cell runs, by its checked settings; None if they contradict each other.

    Without `nodes`, a cell runs on all hosts, of which there are `num_hosts` (0 if that is not
    known); with `ranks`, on as many of them as have equal shares.
    """
    place_settings = {"nodes": num_hosts or 1, **settings}
    num_ranks = place_settings.pop("ranks", 0)
    if not num_ranks:
        return CellPlace(**place_settings)
    if "nodes" not in settings:
        most_hosts = num_ranks // settings.get("processes", 1)
        counts = range(1, min(most_hosts, num_hosts or most_hosts) + 1)
        place_settings["nodes"] = max((n for n in counts if num_ranks % n == 0), default=1)
    cell_place = CellPlace(**{"processes": num_ranks // place_settings["nodes"], **place_settings})
    if cell_place.ranks == num_ranks:
        return cell_place
    mistakes.add_at(
        "ranks",
        f"ranks = {num_ranks} is the number of all ranks, but nodes = {cell_place.nodes} with "
        f"processes = {cell_place.processes} each has {cell_place.ranks}: leave one of them out",
    )
    return None


def read_table(
    model: type[Table],
    table: Mapping[str, Any],
    mistakes: StudyMistakes,
    name: str = "",
) -> Table:
    """Return a table without the keys that are wrong, and note the mistakes in these.

    `name` is that of the table in the file, "" for the top and for settings of cells.
    """
    try:
        return model.model_validate(table)
    except ValidationError as error:
        details = {str(detail["loc"][0]): detail for detail in error.errors()}
    for key, detail in details.items():
        # A whole table stands in no line.
        shown_value = None if key in TABLES else table[key]
        mistakes.add_at(key, _describe(model, key, detail, table[key], name), name, shown_value)
    # The other keys are read all the same, so that one call finds all mistakes.
    return model.model_validate({key: table[key] for key in table if key not in details})


def _describe(
    model: type[BaseModel], key: str, detail: ErrorDetails, value: object, name: str
) -> str:
    """Return what is wrong with a key, and what to write."""
    if detail["type"] == "extra_forbidden":
        known_keys = sorted(model.model_fields, key=lambda name: name not in TOP_KEYS)
        nearest_text = did_you_mean(key, known_keys) or f"; the keys are {', '.join(known_keys)}"
        return (name and belongs_to_top(key)) or f"unknown key '{key}'{nearest_text}"
    if key == "cell":
        return "write [[cell]] with two brackets, once per cell"
    if key in TABLES:
        prefix = f"{name}." if name else ""
        return f"write the keys of {key} below a line [{prefix}{key}]"
    advice = model.model_fields[key].description
    if key == "baseline":
        return f"{key}: write {advice}"
    cause = detail.get("ctx", {}).get("error")
    if isinstance(cause, JobError):
        [mistake] = cause.mistakes
        return f"{key} = {format_toml(value)}: {mistake.without_flag}"
    return f"{key} = {format_toml(value)}: write {advice}"


def belongs_to_top(key: str) -> str:
    """Return that a key does not belong into a table; "" if it may."""
    return f"{key} belongs to the top of the file, above all [tables]" if key in TOP_KEYS else ""


def is_label(value: object) -> bool:
    """Return whether a value can name a cell: a text that fits into a line."""
    return isinstance(value, str) and value.isprintable() and bool(value.strip())


def format_label(value: object) -> str:
    """Return how a value is shown as a label."""
    return options.format_value(value) if isinstance(value, bool | int | float) else str(value)


def with_underscores(table: Mapping[str, Any]) -> dict[str, Any]:
    """Return settings by their names, which may be written with dashes."""
    return {key.replace("-", "_"): value for key, value in table.items()}


def override(base: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings with these changes. Steps override epochs, and epochs steps."""
    lengths = {"steps", "epochs"}
    dropped_keys = lengths if lengths & changes.keys() else set()
    return {key: value for key, value in base.items() if key not in dropped_keys} | dict(changes)
