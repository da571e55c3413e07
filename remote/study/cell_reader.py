"""Reads the axes and the cells of a study."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from remote.study.job_cells import JobCells
from remote.study.mistakes import StudyMistakes, format_toml
from remote.study.script_cells import BEFORE, SCRIPT, ScriptCells, read_before, read_script
from remote.study.study import AxisValue, Cell, Labels, StudyAxis
from remote.study.tables import StudyKeys, format_label, is_label, with_underscores

WRITE_VALUE = 'write the settings, and a label in quotes: { label = "big", batch_size = 512 }'


def read_axes(tables: Mapping[str, Any], mistakes: StudyMistakes) -> Iterator[StudyAxis]:
    """Yield the axes as far as they are free of mistakes."""
    for axis_name, values in tables.items():
        if not isinstance(values, list) or not values:
            write = "write a list of its values: [1, 2]"
            mistakes.add_at(axis_name, f"{axis_name} = {format_toml(values)}: {write}", "axes")
        elif not is_label(axis_name):
            mistakes.add_at(axis_name, f"{axis_name!r}: write a name in one line", "axes")
        else:
            yield StudyAxis(axis_name, tuple(_read_values(axis_name, values, mistakes)))


def _read_values(axis_name: str, values: list[Any], mistakes: StudyMistakes) -> Iterator[AxisValue]:
    """Yield the values of an axis: each a value of the setting of its name, or a table."""
    label_counts: Counter[str] = Counter()
    for value in values:
        settings = dict(value) if isinstance(value, dict) else {axis_name: value}
        label = settings.pop("label", " ".join(map(format_label, settings.values())))
        if not settings or not is_label(label):
            value_text = format_toml(value if isinstance(value, dict) else settings)
            mistakes.add_at(axis_name, f"{axis_name}: {value_text}: {WRITE_VALUE}", "axes")
            continue
        label_counts[label] += 1
        # Only the second one is noted, however often the value is there.
        if label_counts[label] == 2:
            mistakes.add_at(
                axis_name, f"{axis_name}: the value {label} is there twice: give labels", "axes"
            )
        yield AxisValue(label, settings)


@dataclass
class CellReader:
    """Reads the cells of a study."""

    mistakes: StudyMistakes
    given: Mapping[str, Any]
    """Settings of the job from the command line."""
    num_hosts: int = 0
    """The number of hosts that there are; 0 if it is not known."""
    all_labels: list[Labels] = field(default_factory=list)
    """The labels of each cell, also of one with mistakes."""
    has_all_labels: bool = True
    """False if the labels of some cells are not known because of mistakes."""

    def read_cells(self, keys: StudyKeys, axes: Sequence[StudyAxis]) -> Iterator[Cell]:
        """Yield the product of the axes, then the cells of the [[cell]] tables."""
        work = self._make_cells(keys, axes)
        keys_of_cells: set[str] = set()
        settings_of_cells = [*_combine(axes), *self._read_tables(keys.cell, axes)]
        # Also those of cells with mistakes, so that [compare] is not blamed for naming one of
        # these.
        self.all_labels += [labels for labels, _ in settings_of_cells]
        self.has_all_labels &= bool(self.all_labels)
        for labels, settings in settings_of_cells:
            cell = work.read_cell(labels, with_underscores(settings))
            if cell is None:
                continue
            if cell.key in keys_of_cells:
                self.mistakes.add(f"the cell {cell.key} is there twice")
            keys_of_cells.add(cell.key)
            yield cell
        # A mistake in [job] comes up in every cell: it is said once, after the last one.
        if isinstance(work, JobCells):
            work.note_errors()

    def _make_cells(self, keys: StudyKeys, axes: Sequence[StudyAxis]) -> JobCells | ScriptCells:
        """Return what makes a cell of its settings, and note options that do not fit it."""
        varied_keys: set[str] = set()
        for axis in axes:
            for value in axis.values:
                varied_keys |= with_underscores(value.settings).keys()
        for given_key in self.given:
            flag = f"--{given_key.replace('_', '-')}"
            if keys.base is not None:
                self.mistakes.add(f"{flag}: the study is of a script: leave the option out")
            elif given_key in varied_keys:
                self.mistakes.add(f"{flag}: the study varies {given_key}: leave the option out")
        if keys.base is None:
            base = with_underscores(keys.job)
            return JobCells(self.mistakes, base, self.given, self.num_hosts)
        if "job" in keys.model_fields_set:
            self.mistakes.add_at(
                "job", "a study is of a [job] or of a script, [base]: leave one out"
            )
        script = read_script(keys.base, self.mistakes)
        before = read_before(keys.base, self.mistakes)
        base = with_underscores(keys.base)
        base.pop(SCRIPT, None)
        base.pop(BEFORE, None)
        return ScriptCells(self.mistakes, script, base, self.num_hosts, before)

    def _read_tables(
        self, tables: Sequence[Mapping[str, Any]], axes: Sequence[StudyAxis]
    ) -> Iterator[tuple[Labels, dict[str, Any]]]:
        """Yield labels and settings of [[cell]] tables.

        On an axis that is no setting of the cell, it has the label of the table.
        """
        # Labels come from the axes: without one, all cells of the tables would have the same key.
        if tables and not axes:
            self.mistakes.add_at(
                "cell",
                "a [[cell]] adds to [axes], and there are none: write the cells "
                'as values of an axis: method = [{ label = "…", sync = "…" }, …]',
            )
            return
        for table in tables:
            settings = with_underscores(table)
            # The label is the table's own; no axis and no setting of a job has this name.
            own_label = settings.pop("label", None)
            mistake_text = ""
            labels = []
            for axis in axes:
                axis_label = settings.get(axis.name.replace("-", "_"), own_label)
                label = format_label(axis_label)
                labels.append((axis.name, label))
                if axis_label is None:
                    mistake_text = f"a [[cell]] needs {axis.name} = …, or a label = … for it"
                elif not is_label(label):
                    mistake_text = f"label = {label!r}: write a label in one line"
                if mistake_text:
                    break
            if mistake_text:
                self.has_all_labels = False
                self.mistakes.add_at("cell", mistake_text)
            else:
                yield tuple(labels), settings


def _combine(axes: Sequence[StudyAxis]) -> Iterator[tuple[Labels, dict[str, Any]]]:
    """Yield labels and settings of each combination of values of the axes."""
    for axis_values in itertools.product(*(axis.values for axis in axes)):
        labels = []
        settings: dict[str, Any] = {}
        for axis, value in zip(axes, axis_values, strict=True):
            labels.append((axis.name, value.label))
            settings |= value.settings
        yield tuple(labels), settings
