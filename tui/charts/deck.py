"""Which charts stand beside each other, and the view of each."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from remote.plan.plan import Plan
from tui.charts import memory
from tui.charts.kinds import KINDS, Kind
from tui.charts.view import Mode, View
from tui.kit import user_state as remembered


class Deck:
    """The charts of a run, in `places` beside each other: at first those that the user chose for
    the last run of its kind. What the user changes is remembered at once, as far as that is
    possible. `shown` are the ids of those that the user wants to see, in order; a run may lack
    some."""

    def __init__(self, plan: Plan, places: int, file: Path | None = None) -> None:
        self._kind, self._file = memory.kind_of(plan), file or remembered.state_file("charts")
        chosen = memory.load(self._kind, self._file)
        self._views = dict(chosen.views)
        usual = [kind.id for kind in KINDS if kind.begins]
        shown = list(dict.fromkeys((*chosen.charts, *usual)))
        self.shown = shown[: max(places, len(chosen.charts))]

    def at(self, place: int, kinds: Sequence[Kind]) -> Kind:
        """The chart at a place: of those chosen that are there, and then of the others."""
        order = self._order(kinds)
        return order[place % len(order)]

    def _order(self, kinds: Sequence[Kind]) -> list[Kind]:
        known = {kind.id: kind for kind in kinds}
        chosen = [known[name] for name in self.shown if name in known]
        return [*chosen, *(kind for kind in kinds if kind.id not in self.shown)]

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

    def put(self, place: int, kind: Kind, kinds: Sequence[Kind]) -> None:
        """Show a chart at a place; where it was, there is what was here."""
        order = [one.id for one in self._order(kinds)]
        place %= len(order)
        self.shown += [name for name in order[: place + 1] if name not in self.shown]
        here = self.shown.index(order[place])
        if kind.id in self.shown:
            self.shown[self.shown.index(kind.id)] = self.shown[here]
        self.shown[here] = kind.id
        self._save()

    def see(self, kind: Kind, view: View) -> None:
        """See a chart so from now on."""
        lasts = view.whole() != self.view(kind).whole()
        self._views[kind.id] = view
        if lasts:
            self._save()

    def _save(self) -> None:
        memory.save(self._kind, memory.Chosen(tuple(self.shown), self._views), self._file)
