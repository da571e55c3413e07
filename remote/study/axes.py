"""The axes of a study: lists of values, each plain or a table of several settings."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

from remote.study.reader import Reader, is_label, label_of, written
from remote.study.study import AxisValue, StudyAxis


def read_axes(reader: Reader, tables: Mapping[str, Any]) -> Iterator[StudyAxis]:
    """The axes, as far as they are free of mistakes."""
    for name, values in tables.items():
        if not isinstance(values, list) or not values:
            reader.say(
                name, f"{name} = {written(values)}: write a list of its values: [1, 2]", "axes"
            )
            continue
        if not is_label(name):
            reader.say(name, f"{name!r}: write a name in one line", "axes")
            continue
        found = tuple(filter(None, (_value(reader, name, value) for value in values)))
        for label, times in Counter(value.label for value in found).items():
            if times > 1:
                reader.say(name, f"{name}: the value {label} is there twice: give labels", "axes")
        yield StudyAxis(name, found)


def _value(reader: Reader, name: str, value: Any) -> AxisValue | None:
    """A value of an axis: a plain one for the setting of the axis' name, or a table."""
    if not isinstance(value, dict):
        value = {name: value}
    settings = {key: one for key, one in value.items() if key != "label"}
    label = value.get("label", " ".join(label_of(one) for one in settings.values()))
    if not settings or not is_label(label):
        reader.say(
            name,
            f"{name}: {written(value)}: write the settings, and a label in quotes: "
            '{ label = "big", batch_size = 512 }',
            "axes",
        )
        return None
    return AxisValue(label, settings)
