"""Where the time of an iteration goes: loading data, computing, waiting for other ranks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from matplotlib.figure import Figure

from remote.format import seconds
from tui.report.document import Picture
from tui.report.numbers.phases import PHASES
from tui.report.pictures.style import HATCHES, INK, SERIES, canvas, names

COLOURS = dict(zip(PHASES, (SERIES[5], SERIES[0], SERIES[1]), strict=True))
BEYOND = 1.05
"""Where the axis ends, as a share of the longest bar."""
Phases = Sequence[tuple[str, Mapping[str, float]]]
"""By group: the seconds of each phase."""


def picture(found: Phases) -> Picture:
    """The picture of these groups."""
    said = "; ".join(
        f"{name}: " + ", ".join(f"{phase} {seconds(parts[phase])}" for phase in PHASES)
        for name, parts in found
    )
    return Picture(
        "phases",
        "Phases of an iteration",
        f"Stacked bars. Seconds per iteration of {said}.",
        lambda: _draw(found),
    )


def _draw(found: Phases) -> Figure:
    figure, axes = canvas("seconds per iteration", height=1.5 + 0.36 * len(found))
    for place, (_, parts) in enumerate(found):
        left = 0.0
        for phase, hatch in zip(PHASES, HATCHES, strict=False):
            name = phase if place == 0 else None
            axes.barh(
                place,
                parts[phase],
                0.62,
                left=left,
                color=COLOURS[phase],
                edgecolor=INK,
                linewidth=0.6,
                hatch=hatch,
                label=name,
            )
            left += parts[phase]
    names(axes, [name for name, _ in found])
    # Matplotlib ends the axis at a bar of width 0, so that a cell without sync would look cut off.
    longest = max(sum(parts[phase] for phase in PHASES) for _, parts in found)
    axes.set_xlim(0, longest * BEYOND)
    handles, labels = axes.get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower left", ncols=3)
    return figure
