"""Which charts stand beside each other, and the view of each."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from remote.plan.plan import Plan
from tui import remembered
from tui.charts import memory
from tui.charts.kinds import KINDS, Kind
from tui.charts.view import Mode, View


class Deck:
    """The charts of a run, in `places` beside each other: at first those that the user chose for
    the last run of its kind."""

    def __init__(self, plan: Plan, places: int, file: Path | None = None) -> None:
        self._kind, self._file = memory.kind_of(plan), file or remembered.path("charts")
        chosen = memory.load(self._kind, self._file)
        self._views = dict(chosen.views)
        usual = [kind.id for kind in KINDS if kind.begins]
        self.shown = list(dict.fromkeys((*chosen.charts, *usual)))[:places]

    def at(self, place: int, kinds: Sequence[Kind]) -> Kind:
        """The chart at a place: of those chosen that are there, and then of the others."""
        known = {kind.id: kind for kind in kinds}
        chosen = [known[name] for name in self.shown if name in known]
        shown = [*chosen, *(kind for kind in kinds if kind.id not in self.shown)]
        return shown[place % len(shown)]

    def view(self, kind: Kind) -> View:
        """How one sees a chart."""
        usual = View(
            mode=Mode.EACH if kind.each else Mode.MEAN, smoothing=0.9 if kind.smooth else 0.0
        )
        return self._views.get(kind.id, usual)

    def following(self, place: int, kinds: Sequence[Kind], seen: Sequence[int]) -> Kind | None:
        """The next chart for a place that is at none of those that are seen; None after the last
        one."""
        names = [kind.id for kind in kinds]
        here = names.index(self.at(place, kinds).id)
        others = {self.at(one, kinds).id for one in seen if one != place}
        return next((kind for kind in kinds[here + 1 :] if kind.id not in others), None)

    def first(self, place: int, kinds: Sequence[Kind], seen: Sequence[int]) -> Kind:
        """The first chart for a place, see `following`."""
        others = {self.at(one, kinds).id for one in seen if one != place}
        return next((kind for kind in kinds if kind.id not in others), kinds[0])

    def put(self, place: int, kind: Kind) -> None:
        """Show a chart at a place; where it was, there is what was here."""
        if kind.id in self.shown:
            self.shown[self.shown.index(kind.id)] = self.shown[place]
        self.shown[place] = kind.id

    def see(self, kind: Kind, view: View) -> None:
        """See a chart so from now on."""
        self._views[kind.id] = view

    def save(self) -> None:
        """Remember all this for other runs of this kind, if that is possible."""
        memory.save(self._kind, memory.Chosen(tuple(self.shown), self._views), self._file)
