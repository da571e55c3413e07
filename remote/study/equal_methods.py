"""Methods of a study that compute the same numbers, and what the study varies besides. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from remote.study.alike_settings import find_alike_settings
from remote.study.results import StudyResult
from remote.study.study import AxisValue
from remote.study.tables import with_underscores


@dataclass(frozen=True)
class EqualMethods:
    """Labels of the compared axis with the same test loss in every pair of runs."""

    labels: tuple[str, ...]
    """The reference comes first."""
    has_others: bool
    """True if other labels of this axis have other losses, or cannot be compared."""
    varied_settings: tuple[str, ...]
    """The settings that the other axes vary, without those that are known to change nothing."""


def find_equal_methods(result: StudyResult) -> EqualMethods | None:
    """Return the methods that compute the same numbers, None if there are none.

    Equal times and accuracies may be chance, and a script may print its loss with few digits: only
    equal test losses of jobs show that.
    """
    study = result.study
    if study.metric != "loss" or study.is_of_script:
        return None
    is_same_of_label: dict[str, bool] = {}
    for row in result.cells:
        label = row.cell.label(study.compare)
        if label != study.reference:
            is_same_of_label[label] = row.is_same and is_same_of_label.get(label, True)
    equal_labels = [label for label, is_same in is_same_of_label.items() if is_same]
    if not equal_labels:
        return None
    labels = (study.reference, *equal_labels)
    has_others = len(equal_labels) < len(is_same_of_label)
    return EqualMethods(labels, has_others, _find_varied_settings(result))


def _find_varied_settings(result: StudyResult) -> tuple[str, ...]:
    study = result.study
    # That the split changes nothing is known, however short the runs were.
    known_labels = {
        (alike.axis, alike.label) for alike in find_alike_settings(result) if alike.is_split_only
    }
    settings: dict[str, None] = {}
    for axis in study.axes:
        if axis.name != study.compare:
            values = [
                value for value in axis.values if (axis.name, value.label) not in known_labels
            ]
            settings |= dict.fromkeys(_list_differing(values))
    return tuple(settings)


def _list_differing(values: Sequence[AxisValue]) -> list[str]:
    """Return the settings in which values of an axis differ."""
    tables = [with_underscores(value.settings) for value in values]
    names = dict.fromkeys(name for table in tables for name in table)
    return [
        name for name in names if any(table.get(name) != tables[0].get(name) for table in tables)
    ]
