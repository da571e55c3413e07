"""The cells of a study, from its job, its axes and its further cells."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any

from remote.cluster.hosts import RANKS
from remote.format import count
from remote.record.overview import figure
from remote.study import script_cells
from remote.study.reader import Reader, is_label, label_of, name_of, of_top, overridden, written
from remote.study.study import Cell, CellPlace, StudyAxis
from training import options, registry
from training.job import SEVERAL, TYPES, Job, JobError, check, flag
from training.registry import did_you_mean

PLACE = tuple(one.name for one in fields(CellPlace))
JOB = {one.name: one for one in fields(Job)}
MOST = 1_000
"""The most cells of a study."""
EXAMPLES = {"link": '"1gbit"', "cpus": '"0.5"'}
SETTINGS = ": write a job option, nodes, processes, link, cpus, or an option of a sync method"
SGD = "the optimiser is SGD, with lr, momentum and weight_decay"
MEANT = {
    word: said if " " in said else f"did you mean '{said}'?"
    for said, words in {
        "lr": "learningrate eta",
        "epochs": "epoch numepochs nepochs",
        "steps": "step iterations iters maxsteps",
        "batch_size": "batch batchsize bs globalbatchsize",
        "dataset": "data dataname",
        "model": "network net architecture arch",
        "sync": "method strategy",
        "seed": "randomseed",
        "weight_decay": "wd decay l2",
        "nodes": "hosts node workers machines numnodes nnodes",
        "processes": "ranks procs slots process nprocpernode",
        "link": "bandwidth rate",
        "cpus": "cores cpu",
        SGD: "optimizer optimiser optim",
    }.items()
    for word in words.split()
}
"""What others call the settings, without underscores, and what to write."""


Labels = tuple[tuple[str, str], ...]


def count_cells(data: Mapping[str, Any]) -> int:
    """Return how many cells a study would have, from the lengths of its lists alone."""
    lists = [values for values in data.get("axes", {}).values() if isinstance(values, list)]
    extra = data.get("cell", [])
    further = len(extra) if isinstance(extra, list) else 0
    return further + math.prod(len(values) for values in lists)


@dataclass
class Cells:
    """Makes cells. `given` are job fields that override [job]; `nodes` are all hosts that there
    are, 0 where that is not known."""

    reader: Reader
    given: Mapping[str, Any]
    nodes: int = 0
    all_labels: list[Labels | None] = field(default_factory=list)
    """Those of each cell, also of one with mistakes; None where they are not known."""
    errors: dict[str, list[str]] = field(default_factory=dict)
    """What is wrong with whole jobs, with the cells that have it."""
    script: tuple[str, ...] | None = None
    """The words of [base], where the study is of a user's own program."""

    def read(self, data: Mapping[str, Any], axes: Sequence[StudyAxis]) -> Iterator[Cell]:
        """The cells: the product of the axes, then the [[cell]] tables."""
        base = {name_of(key): value for key, value in data.get("job", {}).items()}
        if "base" in data:
            base = self._of_script(data)
        varied = {name_of(key) for axis in axes for value in axis.values for key in value.settings}
        for key in self.given:
            if self.script is not None:
                self.reader.add(f"{flag(JOB[key])}: the study is of a script: leave the option out")
            elif key in varied:
                self.reader.add(f"{flag(JOB[key])}: the study varies {key}: leave the option out")
        extra = data.get("cell", [])
        if not isinstance(extra, list) or not all(isinstance(one, dict) for one in extra):
            self.reader.say("cell", "write [[cell]] with two brackets, once per cell")
            extra = []
        if extra and not axes:
            self.reader.say(
                "cell",
                "a [[cell]] adds to [axes], and there are none: write the cells "
                'as values of an axis: method = [{ label = "…", sync = "…" }, …]',
            )
            extra = []
        seen: set[str] = set()
        for cell in itertools.chain(self._product(base, axes), self._extra(base, axes, extra)):
            if cell.key in seen:
                self.reader.add(f"the cell {cell.key} is there twice")
            seen.add(cell.key)
            yield cell
        for error, (first, *others) in self.errors.items():
            more = f" and {count(len(others), 'more cell')}" if others else ""
            self.reader.add(f"{first or 'the job'}{more}: {error}")

    def _of_script(self, data: Mapping[str, Any]) -> dict[str, Any]:
        """The settings of [base], which all cells share."""
        self.script = script_cells.words(self.reader, data["base"])
        if "job" in data:
            self.reader.say("job", "a study is of a [job] or of a script, [base]: leave one out")
        return {name_of(key): one for key, one in data["base"].items() if key != "script"}

    def _product(self, base: Mapping[str, Any], axes: Sequence[StudyAxis]) -> Iterator[Cell]:
        for values in itertools.product(*(axis.values for axis in axes)):
            labels = tuple(
                (axis.name, value.label) for axis, value in zip(axes, values, strict=True)
            )
            settings: dict[str, Any] = {}
            for value in values:
                settings |= value.settings
            cell = self._cell(labels, base, settings)
            if cell:
                yield cell

    def _extra(
        self,
        base: Mapping[str, Any],
        axes: Sequence[StudyAxis],
        tables: Sequence[Mapping[str, Any]],
    ) -> Iterator[Cell]:
        """The [[cell]] tables. On an axis that is no setting of the cell, its label stands."""
        for table in tables:
            settings = {name_of(key): value for key, value in table.items() if key != "label"}
            own = table.get("label")
            labels = tuple(
                (axis.name, label_of(settings.get(name_of(axis.name), own))) for axis in axes
            )
            missing = [axis.name for axis in axes if name_of(axis.name) not in settings]
            if own is None and missing:
                self.all_labels.append(None)
                self.reader.say("cell", f"a [[cell]] needs {missing[0]} = …, or a label = … for it")
                continue
            wrong = [label for _, label in labels if not is_label(label)]
            if wrong:
                self.all_labels.append(None)
                self.reader.say("cell", f"label = {wrong[0]!r}: write a label in one line")
                continue
            cell = self._cell(labels, base, settings)
            if cell:
                yield cell

    def _cell(
        self, labels: Labels, base: Mapping[str, Any], settings: Mapping[str, Any]
    ) -> Cell | None:
        """The cell of these settings; None where they have a mistake."""
        self.all_labels.append(labels)
        named = {name_of(key): one for key, one in settings.items()}
        if self.script is not None:
            return self._script_cell(labels, self.script, {**base, **named})
        merged = overridden(overridden(base, self.given), named)
        before = len(self.reader.mistakes)
        sync = merged.get("sync", Job.sync)
        own: list[str] = []
        if sync in registry.names("sync"):
            own += [one.name for one in options.declared(sync)]
            self._check_options(named, sync, own)
        job, place = self._sorted(merged, own)
        if len(self.reader.mistakes) > before:
            return None
        is_known = bool(self.nodes) or "nodes" in place
        where = CellPlace(**{"nodes": self.nodes or 1, **place})
        try:
            work = Job.of(job)
            if is_known:
                work.check_world(where.ranks)
        except JobError as error:
            cell = " ".join(f"{name}={label}" for name, label in labels)
            for mistake in error.mistakes:
                self.errors.setdefault(str(mistake), []).append(cell)
            return None
        return Cell(labels, work, where, "seed" in named)

    def _script_cell(
        self, labels: Labels, script: tuple[str, ...], settings: Mapping[str, Any]
    ) -> Cell | None:
        """The cell of a user's own program with these settings; None where they have a mistake."""
        before = len(self.reader.mistakes)
        place = {key: self._place(key, one) for key, one in settings.items() if key in PLACE}
        values = {key: one for key, one in settings.items() if key not in PLACE}
        work = script_cells.filled(self.reader, script, values)
        where = CellPlace(**{"nodes": self.nodes or 1, **place})
        return Cell(labels, work, where) if len(self.reader.mistakes) == before else None

    def _check_options(self, named: Mapping[str, Any], sync: str, own: Sequence[str]) -> None:
        """Check that what a cell varies are not options of other methods than its own."""
        for key in named:
            if key not in (*own, *JOB, *PLACE) and self._is_option(key):
                self.reader.say(
                    key,
                    f"{key} is not an option of sync = {sync!r}: vary it together with the methods "
                    f'that have it: {{ sync = "…", {key} = … }}',
                )

    def _sorted(
        self, settings: Mapping[str, Any], known: Sequence[str]
    ) -> tuple[dict[str, Any], dict[str, Any]]:
        """The settings of the job and of the place. `known` are the options of the method; an
        option in [job] of another method of the study has no effect here."""
        job: dict[str, Any] = {}
        place: dict[str, Any] = {}
        words: list[str] = []
        for key, value in settings.items():
            if key in PLACE:
                place[key] = self._place(key, value)
            elif key in known:
                words.append(f"{key}={options.write(value)}")
            elif key in JOB:
                job[key] = self._setting(key, value)
            elif not self._is_option(key):
                meant = f": {said}" if (said := MEANT.get(key.lower().replace("_", ""))) else ""
                near = did_you_mean(key, (*JOB, *PLACE, *known))
                unknown = f"unknown setting '{key}'{meant or near or SETTINGS}"
                self.reader.say(key, of_top(key) or unknown)
        job["sync_option"] = (*job.get("sync_option", ()), *words)
        return job, place

    @staticmethod
    def _is_option(key: str) -> bool:
        """Whether it is an option of any sync method."""
        methods = registry.names("sync")
        return any(key == one.name for method in methods for one in options.declared(method))

    def _place(self, key: str, value: Any) -> Any:
        if key in ("link", "cpus"):
            text = label_of(value)
            if isinstance(value, str | int | float) and not isinstance(value, bool) and text:
                return text
            write = f"a text in quotes, such as {EXAMPLES[key]}"
            self.reader.say(key, f"{key} = {written(value)}: write {write}")
        elif type(value) is int and 1 <= value <= RANKS:
            return value
        else:
            self.reader.say(
                key, f"{key} = {written(value)}: write a whole number from 1 to {RANKS}"
            )
        return "" if key in ("link", "cpus") else 1

    def _setting(self, key: str, value: Any) -> Any:
        """The value of a job field, of the type of the field, and one that it may have."""
        found = self._typed(key, value)
        try:
            check(JOB[key], found)
        except JobError as error:
            for one in error.mistakes:
                here = replace(one, flag=f"{key} =", value=written(value))
                self.reader.say(key, str(here), value=value)
        return found

    def _typed(self, key: str, value: Any) -> Any:
        """The value of a job field, of the type of the field."""
        wanted = str(JOB[key].type)
        kind = TYPES[wanted]
        is_number = figure(value) is not None
        if wanted == SEVERAL:
            if isinstance(value, list | tuple) and all(isinstance(one, str) for one in value):
                return tuple(value)
            write = 'a list of texts: ["key=value"]'
        elif kind is str:
            if isinstance(value, str) or is_number:
                return str(value)
            write = "a text in quotes"
        elif kind is float:
            if is_number:
                return float(value)
            write = "a number, such as 0.1"
        else:
            if type(value) is kind:
                return value
            write = "true or false" if kind is bool else "a whole number"
        self.reader.say(key, f"{key} = {written(value)}: write {write}", value=value)
        return JOB[key].default
