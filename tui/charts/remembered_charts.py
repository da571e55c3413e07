"""The charts and views that a user has chosen, remembered for each kind of run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import Any

from remote.plan.plan import Plan
from tui.charts.chart_view import ChartView, CurveMode, XAxis
from tui.kit.user_state import recall, remember

MOST = 64
"""Charts of a kind of run that are remembered."""


@dataclass(frozen=True)
class ChartChoice:
    """The ids of the charts on the screen, and the views of charts by their ids."""

    charts: tuple[str, ...] = ()
    views: Mapping[str, ChartView] = field(default_factory=dict)


def kind_of(plan: Plan) -> str:
    """The kind of a run: runs of one method, model and data set are watched alike."""
    job = plan.job
    return f"{job.sync} {job.model} {job.dataset}" if job else "script"


def load(kind: str, file: Path) -> ChartChoice:
    """What is remembered in a file; nothing where there is nothing of use."""
    known = recall(kind, file)
    if not isinstance(known, dict):
        return ChartChoice()
    charts = known.get("charts")
    views = known.get("views")
    return ChartChoice(
        tuple(map(str, charts[:MOST])) if isinstance(charts, list) else (),
        {str(name): _view(one) for name, one in views.items()} if isinstance(views, dict) else {},
    )


def save(kind: str, chosen: ChartChoice, file: Path) -> None:
    """Remember it."""
    views = {name: _object(view) for name, view in list(chosen.views.items())[:MOST]}
    remember(kind, {"charts": list(chosen.charts), "views": views}, file)


def _object(view: ChartView) -> dict[str, Any]:
    """What lasts of a view: not the part of a run that is in view."""
    lasting = asdict(view.whole())
    return lasting | {"along": view.along.value, "mode": view.mode.value}


def _view(found: object) -> ChartView:
    """A view, as far as what was found fits."""
    if not isinstance(found, dict):
        return ChartView()
    fit: dict[str, Any] = {}
    for one in fields(ChartView):
        value = found.get(one.name)
        usual = one.default
        if isinstance(usual, XAxis | CurveMode):
            fit[one.name] = next((each for each in type(usual) if each.value == value), usual)
        elif type(value) is type(usual):
            fit[one.name] = value
    view = ChartView(**fit).whole()
    smoothing = view.smoothing if 0 <= view.smoothing < 1 else ChartView.smoothing
    return replace(view, smoothing=smoothing, one=max(view.one, 0))
