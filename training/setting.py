"""What a field of `Job` says of itself, so that a new setting is one statement."""

from __future__ import annotations

import math
from dataclasses import Field, field
from enum import Enum, auto
from typing import Any

from training import registry


class Effect(Enum):
    """What a setting changes. If two runs differ in a setting, its effect decides

    - whether the list of runs shows the value, and whether a run that resumes the other one says
      that it differs: if the effect is in `TRAINED`;
    - whether the setting may explain that one run is faster: for COMPUTATION, METHOD; the effects
      of `SAME_STEP_WORK` never do;
    - whether a report lists it among the settings that differ: not for REPETITION, LOG, NOTHING;
    - whether a study takes an earlier run with another value: only for NOTHING.
    """

    COMPUTATION = auto()
    """What a rank computes in a step."""
    METHOD = auto()
    """How the ranks synchronise."""
    OPTIMISER = auto()
    """How the optimiser moves the weights: in one pass over them, whatever the numbers are."""
    BATCH = auto()
    """How many samples a step has."""
    REPETITION = auto()
    """Random numbers only, in which repetitions of one experiment differ."""
    LENGTH = auto()
    """How long the run trains."""
    CHECKPOINTS = auto()
    """From where the run goes on, and what it saves."""
    LOG = auto()
    """What the run says of itself, for which the ranks may have to meet."""
    NOTHING = auto()
    """Nothing on which a result depends: where data lie, how lines look."""


TRAINED = (
    Effect.COMPUTATION,
    Effect.METHOD,
    Effect.OPTIMISER,
    Effect.BATCH,
    Effect.REPETITION,
)
"""What makes it another training, apart from how long."""
SAME_STEP_WORK = (
    Effect.OPTIMISER,
    Effect.REPETITION,
    Effect.LENGTH,
    Effect.CHECKPOINTS,
    Effect.LOG,
    Effect.NOTHING,
)
"""What leaves the work of a step as it is: the forward and backward pass and the synchronisation
are the same, and what is saved or compared now and then is not part of the mean step. Runs that
differ only there, but not in their times by chance, have had other machines or another load."""


class Shown(Enum):
    """Where a report or study names a setting that is the same in all its runs. A value that is not
    the default is named everywhere."""

    ALWAYS = auto()
    """Also the default: in reports and in the short list of `rankboard study --dry-run`."""
    IN_REPORTS = auto()
    """Also the default, but only in reports."""
    IF_CHANGED = auto()
    """Only where it is not the default."""


METADATA: dict[str, Any] = {
    "choices": (),  # or:
    "folder": "",  # that of the registry whose modules are the choices
    "low": None,  # the least number that is allowed
    "high": 2**32 - 1,  # the greatest
    "group": "",  # on the first field of a group of flags
    "metavar": "",  # what the help shows for a value that is not a plain name or number
    "effect": Effect.COMPUTATION,
    "shown": Shown.IF_CHANGED,
}
"""What a field says of itself beside its help, with what holds where it does not."""


def declare_setting(default: Any, help: str, **metadata: Any) -> Any:
    """Return a field of `Job`. It says of itself what `METADATA` lists."""
    return field(default=default, metadata=METADATA | {"help": help} | metadata)


def explain_value(setting: Field[Any], value: Any) -> tuple[str, str]:
    """Say what is wrong with the value of a setting, and what to write. Return "" twice if it is
    right."""
    folder = setting.metadata["folder"]
    known_choices = setting.metadata["choices"]
    least = setting.metadata["low"]
    greatest = setting.metadata["high"]
    if folder:
        try:
            registry.split_name(folder, value)
        except registry.UnknownName as error:
            return error.problem, error.hint
    if known_choices and value not in known_choices:
        return "unknown", registry.suggest_names(value, known_choices)
    if isinstance(value, float) and not math.isfinite(value):
        return "", "write a finite number"
    if isinstance(value, int | float) and value > greatest:
        return "", f"must be at most {greatest}"
    if least is not None and value is not None and not value >= least:
        return "", f"must be at least {least}"
    is_interval = value in ("", "epoch") or (str(value).isdecimal() and int(value))
    if setting.name == "checkpoint_every" and not is_interval:
        return "", "write a number of iterations, at least 1, or epoch"
    return "", ""
