"""Reads what a report is about from disk: a study with its runs, or runs."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from remote.lab import spec
from remote.metrics.compare import compare_runs
from remote.metrics.run import RunFigures, read_figures
from remote.metrics.steps import StepTable
from remote.plan.plan import PlanError
from remote.record import marks
from remote.record.events_file import RunFolderError
from remote.record.layout import QUICK
from remote.run.state.phases import RUNNING
from remote.study.conclusion import answer_text, effect_lines, guess_text
from remote.study.folder import (
    JournalEntry,
    RunEnded,
    StudyCall,
    StudyFolder,
    TrialOutcome,
)
from remote.study.progress import CellProgress, StudyProgress
from remote.study.results import StudyResult, compute_results
from remote.study.shortcomings import shortcoming_lines
from remote.study.study import Cell, Study, Trial, split_trial_key
from remote.study.wording import shown_labels
from tui.compare.verdict_text import format_verdicts
from tui.kit.palette import RUN_LETTERS
from tui.report.local_paths import shorten_paths, write_study_command
from tui.report.subject import LineAxis, ReportSubject, RunGroup, UncountedRun

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
        line_axis = _choose_axis(study)
        groups = []
        for cell_progress in progress.cells.values():
            groups.append(self._read_cell(study, line_axis, cell_progress, entries, call.places))
        result = compute_results(progress)
        guess = guess_text(result)
        warnings = (guess,) if guess else ()
        return ReportSubject(
            name=folder.name,
            title=study.title or folder.name,
            verdict=(
                answer_text(result),
                *warnings,
                *effect_lines(result),
                *shortcoming_lines(result),
            ),
            groups=tuple(groups),
            command=write_study_command(_find_typed_name(folder, call), call),
            result=result,
            times=time_cells(progress, groups),
            axis=line_axis,
        )

    def read_runs(self, folders: Sequence[Path]) -> ReportSubject:
        """Read runs, which are compared with the first one."""
        runs = [read_figures(folder, self.remark) for folder in folders]
        subject_name = title = runs[0].name
        verdict_lines: list[str] = []
        labels = [marks.name(run.folder) or _describe_work(run) for run in runs]
        if len(runs) > 1:
            subject_name = "runs"
            title = f"{len(runs)} runs compared"
            # By the same iterations as the tables, so that all ratios of the report agree.
            verdict_lines = format_verdicts(compare_runs(runs, StepTable.early))
            lettered_labels = zip(RUN_LETTERS, labels, strict=False)
            labels = [f"{letter}: {label}" for letter, label in lettered_labels]
        return ReportSubject(
            name=subject_name,
            title=title,
            verdict=tuple(verdict_lines),
            groups=tuple(self._make_group(*pair) for pair in zip(labels, runs, strict=True)),
        )

    def _read_cell(
        self,
        study: Study,
        line_axis: LineAxis,
        cell_progress: CellProgress,
        entries: Sequence[JournalEntry],
        places: Mapping[str, Any],
    ) -> RunGroup:
        cell = cell_progress.cell
        place = cell.place
        failed_runs = {run_end.run for run_end in cell_progress.failed.values()}
        uncounted_runs = _list_uncounted(cell_progress, entries)
        failed = [run for run in uncounted_runs if run.run in failed_runs]
        runs: dict[int, RunFigures] = {}
        for repetition, run_end in sorted(cell_progress.counted.items()):
            try:
                run = read_figures(self.runs_dir / run_end.run, self.remark)
            except (RunFolderError, PlanError) as error:
                # The folder of a run that the journal counts may be gone.
                failed.append(UncountedRun(repetition, run_end.run, "failed", str(error)))
                continue
            runs[repetition] = run
            # The journal of an older study has no conditions.
            cell_progress.counted[repetition] = replace(run_end, conditions=run.conditions)
        link_text = place.link or str(places.get("link", ""))
        labels = shown_labels(study, cell)
        other_labels = [(name, label) for name, label in labels if name != line_axis.name]
        return RunGroup(
            name=cell.key,
            label=_join_labels(labels),
            line=_join_labels(other_labels),
            position=_find_position(cell, line_axis),
            nodes=place.nodes,
            ranks=place.ranks,
            batch=cell.job.batch_size if cell.job else 0,
            link=_slowest_rate(link_text, place.nodes) if link_text else self.link,
            by_repetition=runs,
            state=cell_progress.state(study.repetitions).value,
            failures=tuple(failed),
            uncounted=tuple(run for run in uncounted_runs if run.run not in failed_runs),
        )

    def _make_group(self, label: str, run: RunFigures) -> RunGroup:
        return RunGroup(
            name=run.name,
            label=label,
            line=label,
            position=run.nodes,
            nodes=run.nodes,
            ranks=run.world_size,
            batch=run.job.batch_size if run.job else 0,
            link=self.link,
            by_repetition={1: run},
            state="",
        )


def time_cells(progress: StudyProgress, groups: Sequence[RunGroup]) -> StudyResult:
    """Compare the times of a step of cells, whatever the study compares."""
    timed_progress = progress.copy()
    # The journal has only the values that the study compares.
    timed_progress.study = replace(progress.study, metric="step_seconds")
    for group in groups:
        cell_progress = timed_progress.cells[group.name]
        cell_progress.counted.clear()
        for repetition, run in group.by_repetition.items():
            trial_key = Trial(cell_progress.cell, repetition).key
            run_end = RunEnded(trial_key, run.name, TrialOutcome.COUNTED, run.step_seconds())
            cell_progress.counted[repetition] = replace(run_end, conditions=run.conditions)
    return compute_results(timed_progress)


def _list_uncounted(
    cell_progress: CellProgress, entries: Sequence[JournalEntry]
) -> list[UncountedRun]:
    """Return the runs of a cell that do not count."""
    counted_runs = {end.run for end in cell_progress.counted.values()}
    uncounted_runs = {}
    for entry in entries:
        # The journal has all runs of all cells.
        cell_key, repetition = split_trial_key(entry.trial)
        if cell_key != cell_progress.cell.key or entry.run in counted_runs:
            continue
        if isinstance(entry, RunEnded):
            outcome = entry.outcome.value
            uncounted_runs[entry.run] = UncountedRun(repetition, entry.run, outcome, entry.cause)
        else:
            run_verdict = RUNNING if entry.run == cell_progress.running else "interrupted"
            uncounted_runs[entry.run] = UncountedRun(repetition, entry.run, run_verdict)
    return list(uncounted_runs.values())


def _describe_work(run: RunFigures) -> str:
    if run.job:
        return run.job.sync
    program: str = shorten_paths(run.script[0]) if run.script else "run"
    return program


# The axis for lines -------------------------------------------------------------------------------


def _choose_axis(study: Study) -> LineAxis:
    """Return the axis for lines: nodes, else the first whose values are all quantities."""
    # Other quantities are the axis only of a study that does not vary its nodes.
    nodes_axis = LineAxis()
    if any(axis.name == nodes_axis.name for axis in study.axes):
        return nodes_axis
    for axis in study.axes:
        used_labels = {cell.label(axis.name) for cell in study.cells}
        quantity_marks = tuple(
            label for label in axis.labels if label in used_labels and _is_quantity(label)
        )
        if len(quantity_marks) == len(axis.labels) > 1:
            return LineAxis(axis.name, quantity_marks)
    return nodes_axis


def _is_quantity(label: str) -> bool:
    return label[:1].isdecimal()


def _find_position(cell: Cell, axis: LineAxis) -> float:
    if not axis.marks:
        return cell.place.nodes
    label = cell.label(axis.name)
    return axis.marks.index(label) if label in axis.marks else math.nan


def _join_labels(labels: Sequence[tuple[str, str]]) -> str:
    """Return the values of the axes: "ring, nodes 4"; "all" of none."""
    label_texts = []
    for axis_name, label in labels:
        # A number, or a letter or two, says nothing without the name of its axis.
        needs_name = _is_quantity(label) or len(label) < 3
        label_texts.append(f"{axis_name} {label}" if needs_name else label)
    return ", ".join(label_texts) or "all"


def _slowest_rate(link: str, nodes: int) -> float:
    """Return the rate of the slowest link of these hosts in bytes per second."""
    # A list of links has one for each host of the lab, of which a cell may use fewer.
    num_hosts = max(nodes, link.count(",") + 1)
    return min(spec.parse(num_hosts, link).rates[:nodes]) / BITS


def _find_typed_name(folder: StudyFolder, call: StudyCall) -> str:
    """Return the name by which a study was started: that of a quick variant has an end of its
    own."""
    return folder.name.removesuffix(QUICK) if call.quick else folder.name
