"""The charts and views that a user has chosen, remembered for each kind of run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import Any

from remote.plan.plan import Plan
from tui.charts.chart_view import ChartView, CurveMode, XAxis
from tui.kit.user_state import recall, remember

MAX_CHARTS = 64
"""Charts of a kind of run that are remembered."""


@dataclass(frozen=True)
class ChartChoice:
    """The charts that a user has chosen for a kind of run."""

    charts: tuple[str, ...] = ()
    """The ids of the charts on the screen."""
    views: Mapping[str, ChartView] = field(default_factory=dict)
    """The views of charts by their ids."""


def kind_of_run(plan: Plan) -> str:
    """Return the kind of a run. Runs of one method, model and data set are watched alike."""
    job = plan.job
    return f"{job.sync} {job.model} {job.dataset}" if job else "script"


def load_choice(run_kind: str, file: Path) -> ChartChoice:
    """Return what a file remembers for a kind of run, as far as it is of use."""
    remembered = recall(run_kind, file)
    if not isinstance(remembered, dict):
        return ChartChoice()
    charts = remembered.get("charts")
    views = remembered.get("views")
    if not isinstance(charts, list):
        charts = []
    if not isinstance(views, dict):
        views = {}
    return ChartChoice(
        tuple(str(name) for name in charts[:MAX_CHARTS]),
        {str(name): _to_view(value) for name, value in views.items()},
    )


def save_choice(run_kind: str, choice: ChartChoice, file: Path) -> None:
    """Remember a choice for a kind of run."""
    views = {name: _to_object(view) for name, view in list(choice.views.items())[:MAX_CHARTS]}
    remember(run_kind, {"charts": list(choice.charts), "views": views}, file)


def _to_object(view: ChartView) -> dict[str, Any]:
    """Return what lasts of a view, which the part of a run in view does not."""
    lasting = asdict(view.whole())
    return lasting | {"along": view.along.value, "mode": view.mode.value}


def _to_view(value: object) -> ChartView:
    """Return a view, as far as what was remembered fits."""
    if not isinstance(value, dict):
        return ChartView()
    settings: dict[str, Any] = {}
    for view_field in fields(ChartView):
        setting = value.get(view_field.name)
        default = view_field.default
        if isinstance(default, XAxis | CurveMode):
            choices = {choice.value: choice for choice in type(default)}
            is_choice = isinstance(setting, str) and setting in choices
            settings[view_field.name] = choices[setting] if is_choice else default
        elif type(setting) is type(default):
            settings[view_field.name] = setting
    view = ChartView(**settings).whole()
    smoothing = view.smoothing if 0 <= view.smoothing < 1 else ChartView.smoothing
    return replace(view, smoothing=smoothing, one=max(view.one, 0))
