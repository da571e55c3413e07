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
class ChartChoice:
    """The charts that a user has chosen for a kind of run."""

    charts: list[str] = field(default_factory=list)
    """The ids of the charts on the screen."""
    views: dict[str, ChartView] = field(default_factory=dict)
    """The views of charts by their ids."""


class Deck:
    """The charts of a run, in places beside each other.

    At first, these are the ones that the user chose for the last run of its kind. What the user
    changes is remembered at once, as far as that is possible.
    """

    def __init__(self, plan: Plan, places: int, file: Path | None = None) -> None:
        job = plan.job
        self._run_kind = f"{job.sync} {job.model} {job.dataset}" if job else "script"
        self._file = file or state_file("charts")
        try:
            choice = msgspec.convert(recall(self._run_kind, self._file), ChartChoice)
        except msgspec.ValidationError:  # nothing is remembered, or nothing of use
            choice = ChartChoice()
        self._views = choice.views
        defaults = [kind.id for kind in KINDS if kind.is_default]
        ids = list(dict.fromkeys((*choice.charts, *defaults)))
        self.shown = ids[: max(places, len(choice.charts))]
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

    def advance(self, place: int, kinds: Sequence[ChartKind], visible: Sequence[int]) -> bool:
        """Show the next chart at a place, skipping those at other `visible` places.

        After the last one comes the first one; return False then.
        """
        here = kinds.index(self.chart_at(place, kinds))
        seen = [self.chart_at(other, kinds) for other in visible if other != place]
        following = [kind for kind in kinds[here + 1 :] if kind not in seen]
        # With no more charts than places, all are seen elsewhere: then any is taken.
        candidates = following or [kind for kind in kinds if kind not in seen] or kinds
        self.put(place, candidates[0], kinds)
        return bool(following)

    def put(self, place: int, kind: ChartKind, kinds: Sequence[ChartKind]) -> None:
        """Show a chart at a place. Its former place gets the chart that was here."""
        order = [other.id for other in self._in_order(kinds)]
        place %= len(order)
        # A place behind the chosen charts shows one of the others, which is chosen from now on.
        self.shown += [name for name in order[: place + 1] if name not in self.shown]
        index = self.shown.index(order[place])
        if kind.id in self.shown:
            self.shown[self.shown.index(kind.id)] = self.shown[index]
        self.shown[index] = kind.id
        self._save()

    def set_view(self, kind: ChartKind, view: ChartView) -> None:
        """Show a chart in this view from now on."""
        # A zoom or the cursor changes with each key press, which must not write a file each time.
        has_lasting_change = view.whole() != self.view(kind).whole()
        self._views[kind.id] = view
        if has_lasting_change:
            self._save()

    def _save(self) -> None:
        # The part of a run that is in view does not last.
        views = {name: view.whole() for name, view in self._views.items()}
        choice = msgspec.to_builtins(ChartChoice(self.shown, views))
        remember(self._run_kind, choice, self._file)
