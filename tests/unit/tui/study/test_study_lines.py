"""What `rankboard study --run` prints."""

from __future__ import annotations

import io
import json
import signal
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from remote.study.folder import RunBegun
from remote.study.results import compute_results
from remote.study.runner import StudyRunner
from tests.kit.acted import ActedSession
from tests.kit.acted_study import acted_runner, finish, stopped
from tui.app import show_study as study_front
from tui.kit.live_table import live_table
from tui.study.cell_table import make_cell_table
from tui.study.text.json_printer import StudyJsonPrinter
from tui.study.text.line_printer import StudyLinePrinter
from tui.study.text.live_printer import StudyLivePrinter
from tui.study.text.printer import Guarded, StudyPrinter

ONE = """
repetitions = 1
[axes]
sync = ["all_reduce", "ring"]
[job]
model = "lenet5"
dataset = "digits"
"""


def quick(session: ActedSession) -> None:
    finish(session, 0.1)


def show(
    runner: StudyRunner, to: StudyPrinter, act: Callable[[ActedSession], None] = quick
) -> None:
    """Make all runs of a study, as `study_front.show_lines` does."""
    runner.ended = to.ended
    for run in runner.runs():
        to.begin(run)
        session: Any = run.session
        act(session)
        for _ in runner.batches(run):
            to.batch(run)
    to.end()


@pytest.fixture
def runner(tmp_path: Path) -> StudyRunner:
    return acted_runner(tmp_path / "runs", ONE, refused=("ring",))


def test_a_failed_run_is_told_at_once_and_counted(
    runner: StudyRunner, capsys: pytest.CaptureFixture[str]
) -> None:
    show(runner, StudyLinePrinter(runner))
    out, err = capsys.readouterr()
    lines = [line.removeprefix("rankboard: ") for line in err.splitlines()]
    told = lines.index("sync=ring #1 failed: ring does not work here")
    (begun,) = [line for line in lines if line.startswith("run ")]
    number = 1 if lines.index(begun) < told else 2
    assert begun.startswith(f"run {number} of 2: sync=all_reduce #1, recorded as ")
    assert "sync=all_reduce #1: 0.10" in out
    assert "1 run failed: the same command repeats them" in lines
    assert "not complete: 1 of 2 cells: sync=ring" in lines


def test_a_run_that_an_earlier_call_left_is_told_as_such(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    runner = acted_runner(tmp_path / "runs", ONE)
    first = next(iter(runner.runs()))
    assert list(runner.folder.entries()) == [RunBegun(first.trial.key, first.session.plan.run)]
    again = acted_runner(tmp_path / "runs", ONE)
    again._iter_left_runs = lambda: iter([replace(first, is_left=True)])  # type: ignore[method-assign]
    show(again, StudyLinePrinter(again))
    err = capsys.readouterr().err
    assert f"ending {first.session.plan.run}, which an earlier call left: {first.trial.key}" in err
    assert "run 1 of" not in err  # that run had finished
    assert "run 2 of 2" in err


def test_json_has_an_object_per_begun_and_ended_run(
    runner: StudyRunner, capsys: pytest.CaptureFixture[str]
) -> None:
    show(runner, StudyJsonPrinter(runner))
    events = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert sorted(event["event"] for event in events) == ["begun", "ended", "ended", "results"]
    ended = {event["trial"]: event for event in events if event["event"] == "ended"}
    assert ended["sync=all_reduce #1"]["value"] == pytest.approx(0.1, rel=0.1)
    assert ended["sync=all_reduce #1"]["cell"] == {"sync": "all_reduce"}
    assert ended["sync=ring #1"]["cause"] == "ring does not work here"
    assert events[-1]["answer"].startswith("best seconds per step: sync=all_reduce")
    assert [cell["state"] for cell in events[-1]["cells"]] == ["finished", "failed"]


@pytest.mark.parametrize("width", [40, 80, 120])
def test_the_live_table_is_not_wider_than_the_terminal(tmp_path: Path, width: int) -> None:
    runner = acted_runner(tmp_path / "runs")
    console = Console(file=io.StringIO(), force_terminal=True, width=width, height=12)
    with live_table(console) as table:
        printer = StudyLivePrinter(runner, table)
        run = next(iter(runner.runs()))
        session: Any = run.session
        finish(session, 0.1)
        printer.begin(run)
        for _ in runner.batches(run):
            printer.batch(run)
        shown = printer._draw_picture(run, console.size)
    drawn = io.StringIO()
    Console(file=drawn, width=width, height=12).print(shown)
    lines = drawn.getvalue().splitlines()
    assert max(map(len, lines)) <= width
    assert len(lines) < 12
    assert any(line.startswith("run 1 of 12: method=") for line in lines)


def test_where_there_is_little_room_intervals_go_first(tmp_path: Path) -> None:
    runner = acted_runner(tmp_path / "runs")
    show(runner, StudyLinePrinter(runner))
    found = compute_results(runner.progress)
    whole = make_cell_table(found)
    assert whole.head[-2:] == ("speed-up", "against all_reduce")
    assert "±" in " ".join(row[-2] for row in whole.rows)
    narrower = make_cell_table(found, whole.width - 1)
    assert narrower.head[-2:] == ("speed-up", "verdict")
    assert "±" not in " ".join(row[-2] for row in narrower.rows)
    assert make_cell_table(found, 40).head[-2:] == ("s/iter", "verdict")


class Broken(StudyLinePrinter):
    """A printer of which nobody reads the second line."""

    told = 0

    def tell(self, text: str) -> None:
        self.told += 1
        if self.told == 2:
            raise BrokenPipeError


def test_a_closed_stdout_stops_the_study(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    runner = acted_runner(tmp_path / "runs", ONE)
    monkeypatch.setattr("tui.kit.output.discard", lambda stream: None)
    show = Guarded(Broken(runner))
    for run in runner.runs():
        show.begin(run)
        study_front._stop_unread(runner, show)
        session: Any = run.session
        finish(session, 0.1)
        for _ in runner.batches(run):
            show.batch(run)
    assert show.gone
    assert runner.stop_reason == "stdout was closed"


@pytest.fixture
def handlers() -> Iterator[None]:
    """The signal handlers, restored afterwards."""
    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1)
    before = {number: signal.getsignal(number) for number in numbers}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
@pytest.mark.usefixtures("handlers")
def test_a_signal_stops_the_study_and_a_second_one_at_once(
    tmp_path: Path, number: signal.Signals
) -> None:
    runner = acted_runner(tmp_path / "runs", ONE)
    study_front._handle_signals(runner)
    runs = runner.runs()
    run = next(runs)
    session: Any = run.session
    signal.raise_signal(number)
    assert len(session.stops) == 1
    assert not session.stops[0].endswith(", now")
    signal.raise_signal(number)
    assert session.stops[1].endswith(", now")
    stopped(session)
    for _ in runner.batches(run):
        pass
    assert next(runs, None) is None
    assert runner.progress.num_settled == 0
    with pytest.raises(SystemExit):
        signal.raise_signal(number)
