"""One fact of a run is one number, wherever it is shown."""

from __future__ import annotations

import json
import math
import random
import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from remote.format import step_time
from remote.metrics.compare import compare_runs
from remote.metrics.run import read_figures
from remote.record.entry import read_entry
from remote.record.layout import SUMMARY
from remote.record.read import load_plan
from remote.record.tape import preview_tape
from remote.run.run_state import RunState
from remote.study.measurement import read_value
from remote.study.study_file import parse_study
from tests.kit.histories import History, plan, stepped
from tests.kit.recorded import recorded
from tests.kit.scripts import ended, logging, script, seen, started
from training.formatting import format_loss
from training.wire.rank_events import Evaluated
from tui.charts.chart_view import ChartView
from tui.charts.heading import heading
from tui.charts.kinds import available
from tui.charts.make_drawing import make_drawing, with_header_figures
from tui.charts.plot_frame import make_frame
from tui.compare.facts import list_facts
from tui.home import listing
from tui.home.run_list import RunItem
from tui.home.run_table import COLUMNS, make_rows
from tui.report.topics.final_values import ACCURACY, TRAINING_LOSS
from tui.run.components.header_figures import header_figures
from tui.run.outcome import result_table
from tui.run.progress_lines import progress_text

LOSS_STUDY = parse_study("losses", 'metric = "loss"\n[base]\nscript = "train.py"')
Facts = dict[str, str]
"""Texts by the places where they are shown."""


def job(steps: int = 60, *, rises: bool = False, is_over: bool = True) -> History:
    """A job whose ranks have other losses, which waver, and whose steps take other times."""
    dice = random.Random(7)
    history = History(plan(2)).training()
    for step in range(1, steps + 1):
        for rank in range(2):
            level = 900.0 * step if rises and step > 5 else 2.3 * 0.97**step
            loss = level * dice.uniform(0.5, 1.5)
            seconds = dice.uniform(0.01, 0.03)
            figures = {"compute": seconds / 2, "sync": seconds / 4, "data": seconds / 4}
            event = stepped(rank, step, seconds, samples=16, bytes_sent=60_000, **figures)
            history.rank(rank, replace(event, loss=loss))
        if step % 10 == 0:
            for rank in range(2):
                accuracy = 0.9 + step / 1000
                history.rank(rank, Evaluated(rank, step // 10, step, 0.3127, accuracy, 360, 0.1))
    return history.done(0, 1).ended() if is_over else history


def printing() -> History:
    """A script that prints its loss."""
    return ended(logging(started(script()), 3, range(1, 60), 0.5)).ended()


def watched() -> History:
    """A script of which torch is watched, and that prints nothing."""
    history = started(script(watch=True))
    for step in range(1, 60):
        for rank in range(4):
            history.rank(rank, seen(rank, step, 5.0 / step + rank, compute=0.3, sync=0.2))
    return ended(history).ended()


@pytest.fixture(params=[job, lambda: job(rises=True), printing, watched])
def folder(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    make_history: Callable[[], History] = request.param
    return recorded(tmp_path, make_history())


@pytest.fixture
def state(folder: Path) -> Iterator[RunState]:
    tape = preview_tape(folder, load_plan(folder))
    yield tape.state
    tape.close()


def read_state(folder: Path) -> RunState:
    """The state of a recorded run at its end."""
    tape = preview_tape(folder, load_plan(folder))
    tape.close()
    return tape.state


def read_header(state: RunState) -> Facts:
    return {figure.label: figure.value for figure in header_figures(state)}


def read_home(folder: Path) -> Facts:
    (row,) = make_rows([RunItem(folder.name, read_entry(folder))], {}, {}, (), 0.0)
    return {column.title: cell.text for column, cell in zip(COLUMNS, row, strict=True)}


def read_runs(folder: Path) -> Facts:
    row = listing.make_row(read_entry(folder), folder.name, ())
    return dict(zip(listing.TITLES, row, strict=True))


def read_comparison(folder: Path) -> Facts:
    figures = read_figures(folder)
    return {fact.label: fact.values[0] for fact in list_facts(compare_runs([figures, figures]))}


def read_outcome(state: RunState) -> Facts:
    titles, rows = result_table(state)
    all_ranks = next(row for row in rows if row[0] == "all")
    return dict(zip(titles, all_ranks, strict=True))


def read_heading(state: RunState, chart: str = "loss") -> str:
    """The value above a chart."""
    kind = next(kind for kind in available(state) if kind.id == chart)
    drawing = make_drawing(state, kind, ChartView())
    text = "".join(text for text, _ in heading(drawing, kind, ChartView(), 60))
    return text.removeprefix("train ").removeprefix("mean of 20 steps ").partition("  ")[0]


def test_the_training_loss_is_one_number(folder: Path, state: RunState) -> None:
    summary = json.loads((folder / SUMMARY).read_text())
    places = {
        "header": next(text for label, text in read_header(state).items() if "loss" in label),
        "chart": read_heading(state),
        "home": read_home(folder)["loss"],
        "runs": read_runs(folder)["loss"],
        "compare": read_comparison(folder)["training loss"],
        "outcome": read_outcome(state)["loss"],
        "progress": progress_text(state, state.now).partition("loss ")[2].split(",")[0],
        "summary": format_loss(summary["training_loss"]),
        "report": TRAINING_LOSS.write(TRAINING_LOSS.of(read_figures(folder))),
        "study": format_loss(read_value(LOSS_STUDY, summary)),
    }
    assert len(set(places.values())) == 1, places
    assert math.isfinite(float(places["header"]))


def test_the_time_of_a_step_is_one_number(folder: Path, state: RunState) -> None:
    places = {
        "header": read_header(state)["step"],
        "home": read_home(folder)["per step"],
        "runs": read_runs(folder)["per step"],
        "outcome": read_outcome(state)["per step"],
    }
    # Beside the time of another run, it has the digits that tell the two apart.
    milliseconds, unit = read_comparison(folder)["time per step"].split()
    assert unit == "ms"
    places["compare"] = step_time(float(milliseconds) / 1000)
    # Of a script that only prints, no phases are known.
    for chart in {"phases", "seconds"} & {kind.id for kind in available(state)}:
        places[f"chart of {chart}"] = read_heading(state, chart).partition(" =")[0]
    assert len(set(places.values())) == 1, places
    assert progress_text(state, state.now).count(f"{places['header']}/step") == 1


def test_a_test_accuracy_has_the_same_decimals_everywhere(tmp_path: Path) -> None:
    folder = recorded(tmp_path, job())
    figures = read_figures(folder)
    state = read_state(folder)
    places = {
        "header": read_header(state)["test acc"],
        "home": read_home(folder)["test acc"],
        "runs": read_runs(folder)["accuracy"],
        "compare": read_comparison(folder)["test accuracy"],
        "report": ACCURACY.write(ACCURACY.of(figures)),
    }
    assert set(places.values()) == {"96.0%"}, places


def test_a_loss_that_has_risen_is_that_of_the_header(tmp_path: Path) -> None:
    folder = recorded(tmp_path, job(rises=True))
    (flaw,) = read_entry(folder).flaws
    assert isinstance(flaw.after, float)
    assert format_loss(flaw.after) == read_runs(folder)["loss"]
    figures = read_figures(folder)
    assert figures.flaws == (flaw,)


def test_a_loss_that_is_no_number_is_one_everywhere(tmp_path: Path) -> None:
    history = History(plan(2)).training(30)
    for rank in range(2):
        history.rank(rank, replace(stepped(rank, 31), loss=math.nan if rank else 0.5))
    folder = recorded(tmp_path, history.done(0, 1).ended())
    state = read_state(folder)
    places = {
        "header": read_header(state)["loss"],
        "home": read_home(folder)["loss"],
        "runs": read_runs(folder)["loss"],
        "compare": read_comparison(folder)["training loss"],
        "outcome": read_outcome(state)["loss"],
    }
    assert set(places.values()) == {"nan"}, places


def test_samples_per_second_are_one_number(tmp_path: Path) -> None:
    folder = recorded(tmp_path, job())
    state = read_state(folder)
    places = {
        "header": read_header(state)["samples/s"],
        "compare": read_comparison(folder)["samples/s"],
        "chart": read_heading(state, "throughput"),
    }
    assert len(set(places.values())) == 1, places


def test_an_ended_run_says_what_it_sent_as_its_ranks_do(tmp_path: Path) -> None:
    folder = recorded(tmp_path, job())
    state = read_state(folder)
    rates = [rank.timing.warm.bytes_per_second for rank in state.ranks]
    assert state.means.bytes_per_second == pytest.approx(sum(rates))
    assert read_header(state)["sent/s"] != "-"


def test_above_a_live_chart_stand_the_figures_of_the_header_though_its_curves_are_older() -> None:
    history = job(20, is_over=False)
    run = history.state()
    kinds = {kind.id: kind for kind in available(run)}
    names = ("loss", "phases", "throughput")
    drawings = {name: make_drawing(run, kinds[name], ChartView()) for name in names}

    def title(name: str) -> str:
        return "".join(text for text, _ in heading(drawings[name], kinds[name], ChartView(), 60))

    for step in range(21, 40):
        for rank in range(2):
            figures = {"compute": 0.1, "sync": 0.05, "data": 0.05}
            event = stepped(rank, step, 0.2, samples=16, **figures)
            history.rank(rank, replace(event, loss=0.5))
    run = history.state()
    header = read_header(run)
    assert header["loss"] not in title("loss")
    for name in names:
        drawings[name] = with_header_figures(drawings[name], kinds[name], run)
    assert title("loss").startswith(f"train {header['loss']} ")
    assert title("phases").startswith(f"{header['step']} = ")
    assert title("throughput").startswith(header["samples/s"])


@pytest.mark.parametrize("is_over", [False, True])
def test_values_stand_at_the_ends_of_curves_only_once_they_are_final(is_over: bool) -> None:
    run = job(is_over=is_over).state()
    for name in ("loss", "phases"):
        kind = next(kind for kind in available(run) if kind.id == name)
        drawing = make_drawing(run, kind, ChartView())
        frame = make_frame(drawing.curves, drawing.options, 100, 12)
        assert frame
        right = " ".join(text for row in frame.row_ends for text, _ in row)
        assert name == "phases" or "train" in right
        value = re.search(r"(train|^) +[\d.]", right)
        assert bool(value) == is_over
