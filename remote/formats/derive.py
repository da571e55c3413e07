"""Values that are computed from those of a line, for formats that print something else than what
they mean. Lines in `known/*.toml` name these functions in `derive`.

Each function gets the values and places of a line, a dict that the reader of the rank keeps between
lines, and the memory of the rank. It returns the values and places of the reading: none of them if
the line only says something about later lines, None if the line is not of the format.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from remote.formats.memory import Memory

Values = dict[str, float]
_LOSSES = ("box", "obj", "cls")
"""What YOLOv5 called its losses."""


def samples_per_second(values: Values, kept: Values, memory: Memory) -> Values:
    """Compute the rate from the global batch size, unless the line has it."""
    seconds = values.get("step_seconds", 0.0)
    batch = values.get("global_batch_size")
    if "samples_per_second" not in values and batch and seconds > 0:
        values["samples_per_second"] = batch / seconds
    return values


def interval(values: Values, kept: Values, memory: Memory) -> Values:
    """Divide `interval_seconds` by the steps since the line before."""
    steps = values["step"] - kept.get("step", 0.0)
    kept["step"] = values["step"]
    seconds = values.pop("interval_seconds", 0.0)
    if seconds and steps > 0:
        values["step_seconds"] = seconds / steps
    return values


def time_since_start(values: Values, kept: Values, memory: Memory) -> Values:
    """Compute the time of a step from that since the start of the run, `total_seconds`: the mean
    since the start, `mean_seconds`, hides how fast steps are now."""
    total = values.pop("total_seconds")
    mean = values.pop("mean_seconds")
    steps = values["step"] - kept.get("step", 0.0)
    seconds = total - kept.get("total_seconds", 0.0)
    kept["step"] = values["step"]
    kept["total_seconds"] = total
    values["step_seconds"] = seconds / steps if steps > 0 and seconds > 0 else mean
    return values


def part_of_epoch(values: Values, kept: Values, memory: Memory) -> Values:
    """Compute the epochs that have passed from the samples seen in this one. Such a line has no
    number of steps."""
    part = values.pop("n") / max(1, values.pop("total"))
    passed = values.pop("epoch_index") if "epoch_index" in values else values["epoch"] - 1
    return values | {"epoch": passed + part}


def part_of_begun_epoch(values: Values, kept: Values, memory: Memory) -> Values:
    """Compute the epochs that have passed if another line said which one has begun."""
    part = values.pop("n") / max(1, values.pop("total"))
    return values | {"epoch": max(0, memory.epoch - 1) + part}


def begin_epoch(values: Values, kept: Values, memory: Memory) -> Values:
    """Remember the epoch that has begun."""
    memory.epoch = int(values["epoch"])
    return {}


def in_begun_epoch(values: Values, kept: Values, memory: Memory) -> Values:
    """Add the epoch that has begun."""
    return values | {"epoch": float(memory.epoch)}


def from_1_if_first(values: Values, kept: Values, memory: Memory) -> Values:
    """Count the steps of an epoch from 1, whether the program does or begins with 0. In a log
    without its beginning, every tenth step says which."""
    n = values.pop("n")
    if "offset" not in kept:
        kept["offset"] = 0.0 if n % 10 == 1 else 1.0
    return values | {"n": n + kept["offset"]}


def keep_loss_until_all(values: Values, kept: Values, memory: Memory) -> Values:
    """Remember the mean loss so far of an evaluation. It is that of the evaluation with the last
    batch, or once a line says that it is over."""
    if values.pop("n") == values.pop("total"):
        kept.pop("val_loss", None)
        return values
    kept["val_loss"] = values["val_loss"]
    return {}


def add_kept_loss(values: Values, kept: Values, memory: Memory) -> Values:
    """Add the mean loss of the evaluation that is over."""
    if "val_loss" in kept:
        values.setdefault("val_loss", kept.pop("val_loss"))
    return values


def time_if_any(values: Values, kept: Values, memory: Memory) -> Values:
    """Leave out a time of 0, which is that of a step before the first one."""
    if not values.get("step_seconds"):
        values.pop("step_seconds", None)
    return values


def time_of_iterations(values: Values, kept: Values, memory: Memory) -> Values:
    """Add up the seconds of the iterations that make a step, which gradients are accumulated over.
    If one of them was not printed, nobody knows how long the step took."""
    iteration = values.pop("iteration")
    seconds = values.pop("iteration_seconds")
    is_next = iteration == kept.get("iteration", 0.0) + 1
    kept["iteration"] = iteration
    kept["seconds"] = kept.get("seconds", 0.0) + seconds if is_next else math.nan
    if "step" not in values:
        return {}
    step_seconds = seconds if iteration == values["step"] else kept["seconds"]
    kept["seconds"] = 0.0
    return values if math.isnan(step_seconds) else values | {"step_seconds": step_seconds}


def in_begun_epoch_from_0(values: Values, kept: Values, memory: Memory) -> Values:
    """Add the epoch that has begun, in a program that counts them from 0."""
    return values | {"epoch": float(memory.epoch + 1)}


def keep_place(values: Values, kept: Values, memory: Memory) -> Values:
    """Remember the step for the lines that follow."""
    kept |= values
    return {}


def at_kept_place(values: Values, kept: Values, memory: Memory) -> Values:
    """Add the step of a line before."""
    return values | {"step": kept.get("step", 0.0)}


def end_epoch(values: Values, kept: Values, memory: Memory) -> Values:
    """Remember the epoch that has ended."""
    kept["epoch"] = values["epoch"]
    return values


def in_next_epoch(values: Values, kept: Values, memory: Memory) -> Values:
    """Add the epoch after the one that has ended."""
    return values | {"epoch": kept.get("epoch", 0.0) + 1}


def of_ended_epoch(values: Values, kept: Values, memory: Memory) -> Values | None:
    """Add the epoch that has ended. Without one, the line is not of the format."""
    return values | kept if kept.get("epoch") else None


def samples_if_any(values: Values, kept: Values, memory: Memory) -> Values:
    """Leave out a count of samples that is 0."""
    if not values.get("samples"):
        values.pop("samples", None)
    return values


def epochs_from_0(values: Values, kept: Values, memory: Memory) -> Values:
    """Remember that the rows below number their epochs from 0."""
    memory.epoch_offset = 1
    return {}


def epochs_from_1(values: Values, kept: Values, memory: Memory) -> Values:
    """Remember that the rows below number their epochs from 1."""
    memory.epoch_offset = 0
    return {}


def sum_of_losses(values: Values, kept: Values, memory: Memory) -> Values | None:
    """Add the sum of the losses in a row. Without one, the line is not of the format."""
    losses = [values[name] for name in values if name.endswith("loss") or name in _LOSSES]
    last = values.pop("last")
    values["epoch"] += memory.epoch_offset
    values["epochs"] = last + memory.epoch_offset
    kept["epoch"] = values["epoch"]
    if not losses:
        return None
    values.setdefault("loss", sum(losses))
    # At the first frame of a bar there is no loss yet.
    return values if values.get("n", 1.0) else {}


def several_values(values: Values, kept: Values, memory: Memory) -> Values | None:
    """Leave out lines with a place and only one value."""
    return values if len(values) > 2 else None


DERIVATIONS: dict[str, Callable[[Values, Values, Memory], Values | None]] = {
    function.__name__: function
    for function in (
        samples_per_second,
        interval,
        time_since_start,
        part_of_epoch,
        part_of_begun_epoch,
        begin_epoch,
        in_begun_epoch,
        in_begun_epoch_from_0,
        from_1_if_first,
        keep_loss_until_all,
        add_kept_loss,
        time_if_any,
        time_of_iterations,
        keep_place,
        at_kept_place,
        end_epoch,
        in_next_epoch,
        of_ended_epoch,
        samples_if_any,
        epochs_from_0,
        epochs_from_1,
        sum_of_losses,
        several_values,
    )
}
