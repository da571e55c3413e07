"""Which charts stand beside each other, and the view of each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from remote.plan.plan import Plan
from tui.charts.chart_view import ChartView, CurveMode
from tui.charts.kinds import KINDS, ChartKind
from tui.kit.user_state import recall, remember, state_file


@dataclass
class ChartLayout:
    """The charts and columns that a user has kept for a kind of run."""

    charts: list[str] = field(default_factory=list)
    """The ids of the charts on the screen."""
    views: dict[str, ChartView] = field(default_factory=dict)
    """The views of charts by their ids."""
    columns: list[str] = field(default_factory=list)
    """The titles of the columns of the table of ranks; none for the usual ones."""


class Deck:
    """The charts of a run, in places beside each other. The first place is always the loss.

    At first, these are the charts of the layout that the user has kept for runs of this kind, else
    the standard ones. What the user changes lasts only if it is kept.
    """

    def __init__(self, plan: Plan, places: int, file: Path | None = None) -> None:
        job = plan.job
        self.run_kind = f"{job.sync} {job.model} {job.dataset}" if job else "script"
        """The runs for which a layout is kept."""
        self._file = file or state_file("layouts")
        self._places = places
        try:
            layout = msgspec.convert(recall(self.run_kind, self._file), ChartLayout)
        except msgspec.ValidationError:  # nothing is kept, or nothing of use
            layout = ChartLayout()
        self._use(layout)

    def _use(self, layout: ChartLayout) -> None:
        first, *defaults = (kind.id for kind in KINDS if kind.is_default)
        ids = list(dict.fromkeys((first, *layout.charts, *defaults)))
        self._views = layout.views
        self.columns = layout.columns
        """The columns of the table of ranks that the user has chosen; none for the usual ones."""
        self.shown = ids[: max(self._places, len(layout.charts))]
        """The ids of the charts that the user wants to see, in order. A run may lack some."""

    def chart_at(self, place: int, kinds: Sequence[ChartKind]) -> ChartKind:
        """Return the chart at a place: first the chosen ones of `kinds`, then the others."""
        order = self._in_order(kinds)
        return order[place % len(order)]

    def _in_order(self, kinds: Sequence[ChartKind]) -> list[ChartKind]:
        kind_of_id = {kind.id: kind for kind in kinds}
        chosen = [kind_of_id[name] for name in self.shown if name in kind_of_id]
        return chosen + [kind for kind in kinds if kind.id not in self.shown]

    def view(self, kind: ChartKind) -> ChartView:
        """Return the view of a chart."""
        default = ChartView(mode=CurveMode.EACH if kind.each else CurveMode.MEAN)
        return self._views.get(kind.id, default)

    def put(self, place: int, kind: ChartKind, kinds: Sequence[ChartKind]) -> int:
        """Show a chart at a place, and return where it is now.

        The place where it was gets the chart that was here. The first chart keeps the first place,
        so what is to go there goes to the second.
        """
        order = [other.id for other in self._in_order(kinds)]
        if kind.id == order[0]:
            return 0
        place = max(place % len(order), 1)
        # A place behind the chosen charts shows one of the others, which is chosen from now on.
        self.shown += [name for name in order[: place + 1] if name not in self.shown]
        index = self.shown.index(order[place])
        if kind.id in self.shown:
            self.shown[self.shown.index(kind.id)] = self.shown[index]
        self.shown[index] = kind.id
        return place

    def set_view(self, kind: ChartKind, view: ChartView) -> None:
        """Show a chart in this view from now on."""
        self._views[kind.id] = view

    def keep(self) -> None:
        """Remember the charts, their views and the columns for the next runs of this kind."""
        # The part of a run that is in view does not last.
        views = {name: view.whole() for name, view in self._views.items()}
        layout = msgspec.to_builtins(ChartLayout(self.shown, views, self.columns))
        remember(self.run_kind, layout, self._file)

    def reset(self) -> None:
        """Go back to the standard charts and columns, and forget those that were kept."""
        self._use(ChartLayout())
        remember(self.run_kind, None, self._file)
