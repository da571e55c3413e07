"""One chart as files."""

from __future__ import annotations

import csv
import sys
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest

from remote.run.run_state import RunState
from tests.kit.acted import until
from tests.kit.dashboard import Stage
from tests.kit.histories import History, plan
from training.wire.rank_events import Evaluated, Saved
from tui.charts.chart_view import ChartView, CurveMode, XAxis
from tui.charts.drawing import Drawing
from tui.charts.export import save_chart, to_csv
from tui.charts.kinds import KINDS, ChartKind
from tui.charts.make_drawing import make_drawing
from tui.charts.picture import draw_pictures
from tui.charts.plot_frame import PlotOptions
from tui.charts.raster import Curve

SVG = "{http://www.w3.org/2000/svg}"


async def test_a_key_writes_the_chart_into_the_folder_of_the_run(tmp_path: Path) -> None:
    stage = Stage(runs_dir=tmp_path)
    async with stage.training(size=(120, 40), notifications=True) as pilot:
        folder = tmp_path / stage.session.plan.run
        folder.mkdir()
        await pilot.press("3", "W")
        await until(pilot, lambda: "chart: loss-step60.csv" in " ".join(stage.text().split()))
        rows = list(csv.DictReader((folder / "loss-step60.csv").read_text().splitlines()))
        whole = stage.session.state.curves.whole("loss")
        assert [float(row["mean"]) for row in rows] == pytest.approx(whole.mean.tolist())
        assert [int(row["highest"]) for row in rows] == whole.highest.tolist()
        root = ElementTree.parse(folder / "loss-step60.svg").getroot()
        assert "loss" in [text.text for text in root.iter(f"{SVG}text")]
        assert (folder / "loss-step60.png").read_bytes().startswith(b"\x89PNG")


async def test_where_nothing_can_be_written_it_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("tui.charts.export.write_whole", fails)
    stage = Stage(runs_dir=tmp_path)
    async with stage.training(size=(120, 40), notifications=True) as pilot:
        await pilot.press("3", "W")
        await until(pilot, lambda: "cannot write the chart" in stage.text())


async def test_without_matplotlib_there_are_no_pictures_and_it_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "tui.charts.picture", None)
    stage = Stage(runs_dir=tmp_path)
    async with stage.training(size=(120, 40), notifications=True) as pilot:
        (tmp_path / stage.session.plan.run).mkdir()
        await pilot.press("3", "W")
        # Where the line breaks depends on the folder of the checkout.
        await until(pilot, lambda: "no SVG and PNG" in stage.text() and "[report]" in stage.text())
        assert sorted(path.suffix for path in tmp_path.rglob("loss-*")) == [".csv"]


def svg_of(drawn: Drawing, kind: ChartKind) -> ElementTree.Element:
    return ElementTree.fromstring(draw_pictures(drawn, kind, "a run")["svg"])


def a_run() -> RunState:
    """Four ranks that have trained 30 steps, with a figure for each chart."""
    figures = {"data": 0.005, "compute": 0.075, "sync": 0.02, "samples": 8, "correct": 6}
    return History(plan(4)).training(steps=30, **figures).state()


def view_along(along: XAxis, mode: CurveMode) -> ChartView:
    """A view in which each x axis has another window or scale."""
    window = None if along is XAxis.SAMPLES else (0.1, 9.0)
    return ChartView(along, mode, log_y=along is XAxis.TIME, window=window)


@pytest.mark.parametrize("mode", list(CurveMode))
@pytest.mark.parametrize("kind", KINDS[:3], ids=lambda kind: kind.id)
def test_every_chart_and_view_is_a_table(mode: CurveMode, kind: ChartKind) -> None:
    state = a_run()
    for along in XAxis:
        drawn = make_drawing(state, kind, view_along(along, mode))
        assert to_csv(drawn).count("\n") == 1 + sum(len(line.x) for line in drawn.lines)


@pytest.mark.parametrize(("number", "along"), [*enumerate(XAxis)])
def test_every_chart_and_view_is_a_picture(number: int, along: XAxis, tmp_path: Path) -> None:
    """Each once; all of them with each other are tables above."""
    kind = KINDS[number % 3]
    mode = list(CurveMode)[number % 3]
    drawn = make_drawing(a_run(), kind, view_along(along, mode))
    assert len(save_chart(tmp_path, "chart", drawn, kind)) == 3
    root = ElementTree.parse(tmp_path / "chart.svg").getroot()
    assert len(list(root.iter(f"{SVG}path"))) > 5


def test_a_picture_says_of_which_run_and_what_its_curves_and_axes_are() -> None:
    one = History(plan(2)).training(steps=8, ready=0.2, samples=8, correct=6)
    one.rank(0, Evaluated(0, 1, 8, 0.5, 0.7, 100, 1.0), Saved(0, 1, 8, 0.1, 9))
    state = one.state()
    ready = next(kind for kind in KINDS if kind.id == "ready")
    for kind, view, wanted in (
        (
            KINDS[2],
            ChartView(),
            {"accuracy", "a run", "accuracy (%)", "mean, min to max", "test acc"},
        ),
        (ready, ChartView(mode=CurveMode.EACH), {"busy (s)", "rank 0", "rank 1"}),
        (KINDS[1], ChartView(), {"step time", "data", "compute", "sync"}),
    ):
        drawn = make_drawing(state, kind, view)
        root = svg_of(drawn, kind)
        told = [text.text for text in root.iter(f"{SVG}text")]
        assert wanted <= set(told)
        assert "TC" in told, "marks at one place stand beside each other"


def test_hostile_names_and_values_leave_the_picture_whole() -> None:
    x = np.array([1.0, 2.0, 3.0, 4.0, np.nan])
    values = np.array([np.nan, 1e308, -np.inf, 2.0, 3.0])
    curve = Curve("<script>&\"'", 0, x, values, values, values)
    stage_drawn = Drawing((curve,), ((2.0, "<"),), PlotOptions("step"), (), (1.0, 4.0))
    root = svg_of(stage_drawn, KINDS[0])
    assert "<script>&\"'" in [text.text for text in root.iter(f"{SVG}text")]
    assert not list(root.iter(f"{SVG}script"))
