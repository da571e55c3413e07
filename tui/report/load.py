"""Reads what a report is about from disk: a study with its runs, or runs."""

from __future__ import annotations

import math
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from remote.lab import spec
from remote.metrics.compare import compare_runs
from remote.metrics.doubt import Doubt
from remote.metrics.run import RunFigures, read_figures
from remote.plan.plan import Plan, PlanError, Script
from remote.record.events_file import RunFolderError
from remote.record.read import load_plan
from remote.study.conclusion import answer_text, effect_lines
from remote.study.folder import (
    JournalEntry,
    RecordedCall,
    RunBegun,
    RunEnded,
    StudyFolder,
    TrialOutcome,
)
from remote.study.progress import CellProgress, StudyProgress
from remote.study.results import StudyResult, compute_results
from remote.study.shortcomings import shortcoming_lines
from remote.study.study import Cell, Study, split_trial_key
from training.job import Job
from tui.compare.verdict_text import format_verdicts
from tui.kit.palette import RUN_LETTERS
from tui.report.subject import (
    STEP_SECONDS,
    LineAxis,
    MetricOutcome,
    ReportSubject,
    RunGroup,
    UncountedRun,
)

BITS = 8


@dataclass(frozen=True)
class SubjectReader:
    """Reads runs and studies."""

    runs_dir: Path
    link: float
    """The rate of the hosts' links in bytes per second if no lab has set it; 0 if not known."""
    remark: Callable[[str], object]
    """Hears of what was left out."""

    def read_study(self, folder: StudyFolder, study: Study) -> ReportSubject:
        """Read a study that has been started."""
        progress = StudyProgress(study)
        entries = list(folder.entries())
        for entry in entries:
            progress.apply(entry)
        call = folder.call()
        axis = _choose_axis(study)
        groups = []
        for row in progress.cells.values():
            group = self._read_cell(study, axis, row, call.places)
            uncounted = tuple(_find_uncounted(row, entries))
            groups.append(replace(group, uncounted=uncounted))
            # Before the results, which use the conditions.
            _take_conditions(row, group)
        result = compute_results(progress)
        keys = [cell.key for cell in study.cells]
        references = [study.counterpart(cell) for cell in study.cells]
        return ReportSubject(
            name=folder.name,
            title=study.title or folder.name,
            question=study.question,
            verdict=(answer_text(result), *effect_lines(result), *shortcoming_lines(result)),
            groups=tuple(groups),
            references=tuple(keys.index(cell.key) if cell else None for cell in references),
            baseline=keys.index(study.baseline) if study.baseline in keys else None,
            is_study=True,
            axis=axis,
            target=(study.target.metric, study.target.value) if study.target else None,
            command=_study_command(folder.name, call),
            is_quick=study.is_quick,
            given=study.overrides_text,
            metric=study.metric,
            metric_name=study.measured,
            outcomes=_metric_outcomes(result),
            doubts=tuple(_use_labels(result.doubts, keys, groups)),
        )

    def read_runs(self, folders: Sequence[Path]) -> ReportSubject:
        """Read runs, which are compared with the first one."""
        runs = [read_figures(folder, self.remark) for folder in folders]
        if len(runs) == 1:
            name = title = runs[0].name
            verdict: tuple[str, ...] = ()
            labels = [_describe_work(runs[0])]
        else:
            name = "runs"
            title = f"{len(runs)} runs compared"
            verdict = tuple(format_verdicts(compare_runs(runs)))
            lettered = zip(RUN_LETTERS, runs, strict=False)
            labels = [f"{letter}: {_describe_work(run)}" for letter, run in lettered]
        return ReportSubject(
            name=name,
            title=title,
            question="",
            verdict=verdict,
            groups=tuple(self._make_group(*pair) for pair in zip(labels, runs, strict=True)),
            references=(None, *[0] * (len(runs) - 1)),
            baseline=None,
            is_study=False,
        )

    def _read_cell(
        self, study: Study, axis: LineAxis, row: CellProgress, places: Mapping[str, Any]
    ) -> RunGroup:
        cell = row.cell
        failed = TrialOutcome.FAILED.value
        failures = []
        for number, end in row.failed.items():
            failures.append(UncountedRun(number, end.run, failed, end.cause))
        runs: dict[int, RunFigures] = {}
        for number, end in sorted(row.counted.items()):
            try:
                # The folder of a run that the journal counts may be gone.
                runs[number] = read_figures(self.runs_dir / end.run, self.remark)
            except (RunFolderError, PlanError) as error:
                failures.append(UncountedRun(number, end.run, failed, str(error)))
        link = cell.place.link or str(places.get("link", ""))
        others = [(name, label) for name, label in cell.labels if name != axis.name]
        return RunGroup(
            label=_join_labels(cell.labels) or "all",
            line=_join_labels(others) or "all",
            position=_find_position(cell, axis),
            nodes=cell.place.nodes,
            ranks=cell.place.ranks,
            batch=cell.job.batch_size if cell.job else 0,
            link=_slowest_rate(link, cell.place.nodes) if link else self.link,
            by_repetition=runs,
            state=row.state(study.repetitions).value,
            failures=tuple(failures),
            command=_cell_command(cell, places),
        )

    def _make_group(self, label: str, run: RunFigures) -> RunGroup:
        return RunGroup(
            label=label,
            line=label,
            position=run.nodes,
            nodes=run.nodes,
            ranks=run.world_size,
            batch=run.job.batch_size if run.job else 0,
            link=self.link,
            by_repetition={1: run},
            state="",
            command=_run_command(load_plan(run.folder)),
        )


def _metric_outcomes(result: StudyResult) -> tuple[MetricOutcome, ...]:
    """Return what a study compares of each cell, if that is not the time of a step."""
    if result.study.metric == STEP_SECONDS:
        return ()
    return tuple(MetricOutcome(row.value, row.comparison, row.is_same) for row in result.cells)


def _find_uncounted(row: CellProgress, entries: Sequence[JournalEntry]) -> Iterator[UncountedRun]:
    """Yield the runs of a cell that do not count and are not its last failures."""
    ends = {entry.run: entry for entry in entries if isinstance(entry, RunEnded)}
    seen = {end.run for end in (*row.counted.values(), *row.failed.values())}
    for entry in entries:
        # The journal has all runs of all cells.
        key, number = split_trial_key(entry.trial)
        if key != row.cell.key or entry.run in seen or not isinstance(entry, RunBegun):
            continue
        seen.add(entry.run)
        end = ends.get(entry.run)
        if end:
            yield UncountedRun(number, entry.run, end.outcome.value, end.cause)
        elif entry.run == row.running:
            yield UncountedRun(number, entry.run, "not ended")
        else:
            yield UncountedRun(number, entry.run, TrialOutcome.INTERRUPTED.value)


def _take_conditions(row: CellProgress, group: RunGroup) -> None:
    """Take over the conditions of the runs of a cell: the journal of an older study lacks them."""
    for number, run in group.by_repetition.items():
        row.counted[number] = replace(row.counted[number], conditions=run.conditions)


def _use_labels(
    doubts: Sequence[Doubt], keys: Sequence[str], groups: Sequence[RunGroup]
) -> Iterator[Doubt]:
    """Yield the doubts with the labels of groups in place of the keys of cells."""
    labels = {key: group.label for key, group in zip(keys, groups, strict=True)}
    for doubt in doubts:
        more = replace(doubt.more, name=labels[doubt.more.name])
        fewer = replace(doubt.fewer, name=labels[doubt.fewer.name])
        yield replace(doubt, more=more, fewer=fewer)


def _describe_work(run: RunFigures) -> str:
    if run.job:
        return run.job.sync
    return run.script[0] if run.script else "run"


# The axis for lines -------------------------------------------------------------------------------


def _choose_axis(study: Study) -> LineAxis:
    """Return the axis for lines: nodes, else the first whose values are all quantities."""
    nodes = LineAxis()
    if any(axis.name == nodes.name for axis in study.axes):
        return nodes
    for axis in study.axes:
        used = {cell.label(axis.name) for cell in study.cells}
        marks = tuple(label for label in axis.labels if label in used and _is_quantity(label))
        if len(marks) == len(axis.labels) > 1:
            return LineAxis(axis.name, marks)
    return nodes


def _is_quantity(label: str) -> bool:
    return label[:1].isdecimal()


def _find_position(cell: Cell, axis: LineAxis) -> float:
    if not axis.marks:
        return cell.place.nodes
    label = cell.label(axis.name)
    return axis.marks.index(label) if label in axis.marks else math.nan


def _join_labels(labels: Sequence[tuple[str, str]]) -> str:
    """Return the values of the axes: "ring, nodes 4"."""
    texts = []
    for name, label in labels:
        # A number, or a letter or two, says nothing without the name of its axis.
        needs_name = _is_quantity(label) or len(label) < 3
        texts.append(f"{name} {label}" if needs_name else label)
    return ", ".join(texts)


def _slowest_rate(link: str, nodes: int) -> float:
    """Return the rate of the slowest link of these hosts in bytes per second."""
    hosts = max(nodes, link.count(",") + 1)
    return min(spec.parse(hosts, link).rates[:nodes]) / BITS


# Commands -----------------------------------------------------------------------------------------


def _study_command(name: str, call: RecordedCall) -> str:
    """Return the command that makes the study anew."""
    if call.is_quick:
        name = name.removesuffix("-quick")
    words = ["rankboard", "study", name, "--new"]
    if call.is_quick:
        words.append("--quick")
    words += _to_flags(call.places)
    words += _to_flags(call.given)
    return shlex.join(words)


def _cell_command(cell: Cell, places: Mapping[str, Any]) -> str:
    """Return the command of the first run of a cell."""
    place = {key: value for key, value in places.items() if key not in ("slots", "nodes")}
    # A cell may use fewer ranks or hosts than the study was given.
    if "local" in place:
        place["local"] = cell.place.ranks
        place["slots"] = cell.place.processes
    else:
        place["nodes"] = cell.place.nodes
    if cell.place.link:
        place["link"] = cell.place.link
    if cell.place.cpus:
        place["cpus"] = cell.place.cpus
    return _to_command(place, cell.work)


def _run_command(plan: Plan) -> str:
    """Return the command of a run. The rates of a lab are not recorded."""
    if plan.is_local or all(host.transport == "local" for host in plan.hosts):
        slots = plan.hosts[0].slots if plan.hosts else 1
        place: dict[str, Any] = {"local": plan.world_size, "slots": slots}
    else:
        names = ",".join(host.name for host in plan.hosts)
        place = {"hosts": plan.hosts_file, "only": names}
    return _to_command(place, plan.work)


def _to_command(place: Mapping[str, Any], work: Job | Script) -> str:
    words = ["rankboard", "--run", *_to_flags(place)]
    if isinstance(work, Job):
        # Those of its command line without "python -m training".
        words += shlex.split(work.command_line())[3:]
    else:
        words += ["--", *work.words]
    return shlex.join(words)


def _to_flags(values: Mapping[str, Any]) -> list[str]:
    """Return options as a person types them."""
    words = []
    for key, value in values.items():
        name = key.replace("_", "-")
        if isinstance(value, bool):
            words.append(f"--{name}" if value else f"--no-{name}")
        elif isinstance(value, list | tuple):
            for item in value:
                words += [f"--{name}", str(item)]
        else:
            words += [f"--{name}", str(value)]
    return words
