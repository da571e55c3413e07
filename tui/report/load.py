"""Reads what a report is about from disk: a study with its runs, or runs."""

from __future__ import annotations

import math
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from remote.lab import spec
from remote.metrics.compare import compare
from remote.metrics.doubt import Doubt
from remote.metrics.run import RunFigures, read
from remote.plan.plan import Plan, PlanError, Script
from remote.record.read import RunFolderError, load_plan
from remote.study.conclusion import answer, effects
from remote.study.folder import Begun, Ended, Entry, Outcome, StudyFolder
from remote.study.limits import shortcomings
from remote.study.progress import CellProgress, Progress
from remote.study.results import CellResult, results
from remote.study.study import Cell, Study, parts
from training.job import Job
from tui.compare.text import verdicts
from tui.kit.palette import RUN_LETTERS
from tui.report.subject import STEP_SECONDS, Along, Group, Judged, Subject, Uncounted

BITS = 8
FAILED = Outcome.FAILED.value


@dataclass(frozen=True)
class Reader:
    """Reads runs. `link` is the rate of the hosts' links in bytes per second where no lab has set
    it, 0 where it is not known. `remark` is told what was left out."""

    runs_dir: Path
    link: float
    remark: Callable[[str], object]

    def study(self, folder: StudyFolder, study: Study) -> Subject:
        """A study that has been started."""
        progress = Progress(study)
        entries = list(folder.entries())
        for entry in entries:
            progress.apply(entry)
        place = folder.place()
        along = _along(study)
        groups = tuple(
            replace(
                self._cell(study, along, row, place.get("places", {})),
                uncounted=tuple(_uncounted(row, entries)),
            )
            for row in progress.cells.values()
        )
        for row, group in zip(progress.cells.values(), groups, strict=True):
            _take_conditions(row, group)
        found = results(progress)
        keys = [cell.key for cell in study.cells]
        others = [study.counterpart(cell) for cell in study.cells]
        return Subject(
            name=folder.name,
            title=study.title or folder.name,
            question=study.question,
            verdict=(answer(found), *effects(found), *shortcomings(found)),
            groups=groups,
            references=tuple(keys.index(one.key) if one else None for one in others),
            baseline=keys.index(study.baseline) if study.baseline in keys else None,
            is_study=True,
            along=along,
            target=(study.target.metric, study.target.value) if study.target else None,
            again=_study_command(folder.name, place),
            is_quick=study.is_quick,
            given=study.given,
            metric=study.metric,
            metric_name=study.measured,
            outcomes=tuple(map(_judged, found.cells)) if study.metric != STEP_SECONDS else (),
            doubts=tuple(_called(found.doubts, keys, groups)),
        )

    def runs(self, folders: Sequence[Path]) -> Subject:
        """Runs, compared with the first one."""
        runs = [read(folder, self.remark) for folder in folders]
        labels = [
            _what(run) if len(runs) == 1 else f"{letter}: {_what(run)}"
            for letter, run in zip(RUN_LETTERS, runs, strict=False)
        ]
        groups = tuple(self._run(label, run) for label, run in zip(labels, runs, strict=True))
        single = len(runs) == 1
        return Subject(
            name=runs[0].name if single else "runs",
            title=runs[0].name if single else f"{len(runs)} runs compared",
            question="",
            verdict=() if single else tuple(verdicts(compare(runs))),
            groups=groups,
            references=(None, *([0] * (len(runs) - 1))),
            baseline=None,
            is_study=False,
        )

    def _cell(
        self, study: Study, along: Along, row: CellProgress, places: Mapping[str, Any]
    ) -> Group:
        cell = row.cell
        failures = [
            Uncounted(number, end.run, FAILED, end.cause) for number, end in row.failed.items()
        ]
        runs: dict[int, RunFigures] = {}
        for number, end in sorted(row.counted.items()):
            try:
                runs[number] = read(self.runs_dir / end.run, self.remark)
            except (RunFolderError, PlanError) as error:
                failures.append(Uncounted(number, end.run, FAILED, str(error)))
        link = cell.place.link or str(places.get("link", ""))
        return Group(
            label=_label(cell.labels) or "all",
            line=_label([one for one in cell.labels if one[0] != along.name]) or "all",
            at=_place(cell, along),
            nodes=cell.place.nodes,
            ranks=cell.place.ranks,
            batch=cell.job.batch_size if cell.job else 0,
            link=_rate(link, cell.place.nodes) or self.link,
            runs=runs,
            state=row.state(study.repetitions).value,
            failures=tuple(failures),
            command=_cell_command(cell, places),
        )

    def _run(self, label: str, run: RunFigures) -> Group:
        return Group(
            label=label,
            line=label,
            at=run.nodes,
            nodes=run.nodes,
            ranks=run.world_size,
            batch=run.job.batch_size if run.job else 0,
            link=self.link,
            runs={1: run},
            state="",
            command=_run_command(load_plan(run.folder)),
        )


def _uncounted(row: CellProgress, entries: Sequence[Entry]) -> Iterator[Uncounted]:
    """The runs of a cell that do not count and are not its last failures."""
    ends = {entry.run: entry for entry in entries if isinstance(entry, Ended)}
    said = {end.run for end in (*row.counted.values(), *row.failed.values())}
    for entry in entries:
        key, number = parts(entry.trial)
        if key != row.cell.key or entry.run in said or not isinstance(entry, Begun):
            continue
        said.add(entry.run)
        end = ends.get(entry.run)
        outcome = end.outcome if end else Outcome.INTERRUPTED
        is_live = not end and entry.run == row.running
        verdict = "not ended" if is_live else outcome.value
        yield Uncounted(number, entry.run, verdict, end.cause if end else "")


def _take_conditions(row: CellProgress, group: Group) -> None:
    """Take over the conditions of the runs of a cell: the journal of an older study lacks them."""
    for number, run in group.runs.items():
        row.counted[number] = replace(row.counted[number], conditions=run.conditions)


def _called(
    doubts: Sequence[Doubt], keys: Sequence[str], groups: Sequence[Group]
) -> Iterator[Doubt]:
    """The doubts, with cells called by the labels of their groups."""
    labels = {key: group.label for key, group in zip(keys, groups, strict=True)}
    for one in doubts:
        more, fewer = (replace(side, name=labels[side.name]) for side in (one.more, one.fewer))
        yield replace(one, more=more, fewer=fewer)


def _judged(row: CellResult) -> Judged:
    return Judged(row.value, row.comparison, row.is_same)


def _what(run: RunFigures) -> str:
    return run.job.sync if run.job else (run.script[0] if run.script else "run")


def _along(study: Study) -> Along:
    """The axis for lines: nodes, else the first of which all values are quantities."""
    if any(axis.name == Along().name for axis in study.axes):
        return Along()
    for axis in study.axes:
        used = {cell.label(axis.name) for cell in study.cells}
        marks = tuple(label for label in axis.labels if label in used and label[:1].isdecimal())
        if len(marks) == len(axis.labels) > 1:
            return Along(axis.name, marks)
    return Along()


def _place(cell: Cell, along: Along) -> float:
    """Where a cell is on the axis for lines."""
    if not along.marks:
        return cell.place.nodes
    label = cell.label(along.name)
    return along.marks.index(label) if label in along.marks else math.nan


def _label(labels: Sequence[tuple[str, str]]) -> str:
    """The values of the axes: "ring, nodes 4"."""
    return ", ".join(
        f"{name} {label}" if label[:1].isdecimal() or len(label) < 3 else label
        for name, label in labels
    )


def _rate(link: str, nodes: int) -> float:
    """The rate of the slowest link of these hosts in bytes per second; 0 where none is named."""
    hosts = max(nodes, link.count(",") + 1)
    return min(spec.parse(hosts, link).rates[:nodes]) / BITS if link else 0.0


# Commands -----------------------------------------------------------------------------------------


def _study_command(name: str, place: Mapping[str, Any]) -> str:
    """The command that makes the study anew."""
    quick = bool(place.get("quick"))
    words = ["rankboard", "study", name.removesuffix("-quick") if quick else name, "--new"]
    words += ["--quick"] if quick else []
    return shlex.join([*words, *_flags(place.get("places", {})), *_flags(place.get("given", {}))])


def _cell_command(cell: Cell, places: Mapping[str, Any]) -> str:
    """The command of the first run of a cell."""
    place = {key: value for key, value in places.items() if key not in ("slots", "nodes")}
    if "local" in place:
        place |= {"local": cell.place.ranks, "slots": cell.place.processes}
    else:
        place["nodes"] = cell.place.nodes
    place |= {key: value for key in ("link", "cpus") if (value := getattr(cell.place, key))}
    return _command(place, cell.work)


def _run_command(plan: Plan) -> str:
    """The command of a run. Of the rates of a lab nothing is recorded."""
    slots = plan.hosts[0].slots if plan.hosts else 1
    if plan.is_local or all(host.transport == "local" for host in plan.hosts):
        place: dict[str, Any] = {"local": plan.world_size, "slots": slots}
    else:
        place = {"hosts": plan.hosts_file, "only": ",".join(host.name for host in plan.hosts)}
    return _command(place, plan.work)


def _command(place: Mapping[str, Any], work: Job | Script) -> str:
    words = ["rankboard", "--run", *_flags(place)]
    if not isinstance(work, Job):
        return shlex.join([*words, "--", *work.words])
    return f"{shlex.join(words)} {work.command_line().removeprefix('python -m training ')}"


def _flags(values: Mapping[str, Any]) -> list[str]:
    """Options as a person types them."""
    words = []
    for key, value in values.items():
        flag = f"--{key.replace('_', '-')}"
        if isinstance(value, bool):
            words.append(flag if value else flag.replace("--", "--no-", 1))
        elif isinstance(value, list | tuple):
            words += [word for one in value for word in (flag, str(one))]
        else:
            words += [flag, str(value)]
    return words
