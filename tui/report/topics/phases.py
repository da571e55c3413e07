"""The phases of an iteration: loading data, computing, waiting for other ranks."""

from __future__ import annotations

import math
from collections.abc import Sequence

from matplotlib.figure import Figure

from remote.format import percent, seconds
from tui.kit.inks import LIGHT
from tui.report.document import ReportPicture, Section, make_table
from tui.report.picture_style import HATCHES, INK, empty_chart, name_rows
from tui.report.subject import ReportSubject, RunGroup
from tui.report.timing import SubjectTiming, describe_iterations

PHASES = ("data", "compute", "sync")
COLOURS = {"data": LIGHT.data, "compute": LIGHT.compute, "sync": LIGHT.sync}
HEAD = ("cell", "s/iter", "data s", "compute s", "sync s", "sync share")
ARITHMETIC_MEANS = (
    " Over runs these are arithmetic means, so that phases add up: s/iter may be a little more "
    "than the geometric mean in the other tables."
)
AXIS_END = 1.05
"""The end of the axis, as a share of the longest bar."""
PhaseSeconds = dict[str, float]
"""The `seconds` of an iteration, and those of each phase."""


def mean_phases(group: RunGroup) -> PhaseSeconds:
    """Return the seconds of an iteration and its phases, as means over runs; 0 if not known."""
    run_phases = [run.phases() for run in group.runs]
    phase_means = {}
    for phase_name in ("seconds", *PHASES):
        known_seconds = [
            phases[phase_name] for phases in run_phases if math.isfinite(phases[phase_name])
        ]
        phase_means[phase_name] = sum(known_seconds) / max(1, len(run_phases))
    return phase_means


def make_section(subject: ReportSubject, timing: SubjectTiming) -> Section | None:
    """Make the table and the picture; None if scripts do not report their phases."""
    labelled_phases: list[tuple[str, PhaseSeconds]] = []
    for row in timing.rows:
        phases = mean_phases(row.group)
        if any(phases[name] for name in PHASES):
            labelled_phases.append((row.group.label, phases))
    if not labelled_phases:
        return None
    table_rows = [_row(label, phases) for label, phases in labelled_phases]
    iterations = describe_iterations(subject)
    note = f"Means over ranks of {iterations}. sync: the time a rank is blocked on others."
    if any(len(row.group.runs) > 1 for row in timing.rows):
        note += ARITHMETIC_MEANS
    return Section(
        "phases",
        "Phases",
        (),
        [make_table("Phases", HEAD, table_rows, note)],
        [phase_picture(labelled_phases)],
    )


def _row(label: str, phases: PhaseSeconds) -> tuple[str, ...]:
    values = [seconds(phases[name]) for name in ("seconds", *PHASES)]
    return (label, *values, percent(phases["sync"] / phases["seconds"]))


def phase_picture(cells: Sequence[tuple[str, PhaseSeconds]]) -> ReportPicture:
    """Return a picture of the phases of cells, by their labels."""
    labels = [label for label, _ in cells]
    return ReportPicture("phases", "Phases of an iteration", labels, lambda: _draw(cells))


def _draw(cells: Sequence[tuple[str, PhaseSeconds]]) -> Figure:
    figure, axes = empty_chart("seconds per iteration", height=1.5 + 0.36 * len(cells))
    longest_bar = 0.0
    for row, (_, phases) in enumerate(cells):
        bar_left = 0.0
        for phase, hatch in zip(PHASES, HATCHES, strict=False):
            axes.barh(
                row,
                phases[phase],
                0.62,
                left=bar_left,
                color=COLOURS[phase],
                edgecolor=INK,
                linewidth=0.6,
                hatch=hatch,
                # Each label becomes an entry of the legend.
                label=phase if row == 0 else None,
            )
            bar_left += phases[phase]
        longest_bar = max(longest_bar, bar_left)
    name_rows(axes, [label for label, _ in cells])
    # Matplotlib ends the axis at a bar of width 0, so that a cell without sync would look cut off.
    axes.set_xlim(0, longest_bar * AXIS_END)
    handles, labels = axes.get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower left", ncols=3)
    return figure
