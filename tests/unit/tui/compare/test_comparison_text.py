"""`rankboard compare`: runs beside each other, for people and for programs."""

from __future__ import annotations

import json
import math
import random
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import click
import numpy as np
import pytest

from remote.events import SessionClosed
from remote.plan.plan import Script
from remote.record import marks
from tests.kit.commands import Done, run
from tests.kit.histories import History, plan, said
from tests.kit.recorded import recorded
from tests.kit.scripts import ended, script, seen, started
from training.formatting import format_loss
from training.job import Job
from training.wire.host_events import Exited
from training.wire.rank_events import Evaluated, StepFinished
from tui.charts.plot_frame import PlotOptions, make_frame
from tui.charts.raster import Curve
from tui.charts.text_plot import plot_as_text
from tui.commands.compare import compare
from tui.compare import comparison_text as text
from tui.kit.inks import DARK

Run = Callable[..., Done]
assert run  # the fixture


@pytest.fixture
def runs(tmp_path: Path) -> list[str]:
    """Two runs: the second one with another method, and twice as slow."""
    for name, sync, times in (("20261123-a", "ddp", 1), ("20261123-b", "ring", 2)):
        history = History(replace(plan(2), run=name, work=Job(sync=sync))).training()
        for step in range(1, 31):
            for rank in (0, 1):
                seconds = times * (0.1 + 0.001 * (step % 2))
                history.rank(rank, StepFinished(rank, 1, step, 2.0 / step, seconds, samples=32))
        history.rank(0, Evaluated(0, 1, 30, 0.5, 0.75, 100, 1.0))
        recorded(tmp_path / "runs", history.done(0, 1).session(SessionClosed()))
    return ["20261123-a", "last"]


def test_runs_have_the_names_that_a_person_gave_them(
    run: Run, tmp_path: Path, runs: list[str]
) -> None:
    marks.write_name(tmp_path / "runs" / "20261123-a", "baseline")
    lines = run(compare, runs=runs).stdout.splitlines()
    assert lines[0].startswith("A  baseline (20261123-a): ")
    assert lines[1].startswith("B  20261123-b: ")
    assert any("A baseline" in line for line in lines[2:])


def record_script(tmp_path: Path, name: str, program: str, loss: float, *, tests: bool) -> None:
    work = Script((program, "--lr", str(loss)))
    history = started(replace(script(), run=f"20261123-{name}", work=work))
    for step in range(1, 31):
        for rank in range(4):
            words = f"step={step} loss={loss:g} time={0.1 + 0.001 * (step % 2):g}s"
            history.say(rank // 2, said(rank, words, "stdout"), after=0.02)
    if tests:
        history.rank(0, Evaluated(0, 1, 30, 0.5, 0.75, 100, 1.0))
    recorded(tmp_path / "runs", ended(history).session(SessionClosed()))


@pytest.mark.parametrize(
    ("program", "loss", "tests", "is_told"),
    [
        ("train.py", 0.5, False, True),
        ("train.py", 0.99, False, False),
        ("train.py", 0.5, True, False),  # tests say more
        ("other.py", 0.5, False, False),  # whose loss may be another one
    ],
)
def test_a_training_loss_counts_where_nothing_else_says_how_well_runs_learned(
    run: Run, tmp_path: Path, program: str, loss: float, tests: bool, is_told: bool
) -> None:
    record_script(tmp_path, "a", "train.py", 1.0, tests=tests)
    record_script(tmp_path, "b", program, loss, tests=tests)
    output = run(compare, runs=["20261123-a", "20261123-b"]).stdout
    verdict = f"ended with a lower training loss ({format_loss(loss)}, A {format_loss(1.0)})"
    assert (verdict in " ".join(output.split())) == is_told


def test_where_runs_differ_comes_before_where_they_do_not(run: Run, tmp_path: Path) -> None:
    for name, sync, tested_at in (("20261123-a", "ddp", 90), ("20261123-b", "ring", 30)):
        chance = random.Random(name)
        history = History(replace(plan(2), run=name, work=Job(sync=sync))).training()
        for step in range(1, 91):
            for rank in (0, 1):
                seconds = chance.uniform(0.02, 0.18)
                history.rank(rank, StepFinished(rank, 1, step, 2.0 / step, seconds, samples=32))
            if step == tested_at:
                history.rank(0, Evaluated(0, 1, step, 0.5, 0.75, 100, 1.0))
        recorded(tmp_path / "runs", history.done(0, 1).session(SessionClosed()))
    done = run(compare, runs=["20261123-a", "last"])
    title = "B 20261123-b reached 75% accuracy sooner (0.7 s, A 1.9 s); both are as fast per step"
    assert title in done.stdout


def test_runs_are_compared_for_people(run: Run, runs: list[str]) -> None:
    done = run(compare, runs=runs)
    assert (done.returncode, done.stderr) == (0, "")
    assert "A  20261123-a: 2 ranks on 2 hosts, ddp, lenet5 on digits; finished" in done.stdout
    assert "sync     ddp  ring" in done.stdout
    rows = [line.split() for line in done.stdout.splitlines() if line[:3] in ("A  ", "B  ")]
    assert rows[2][1:4] == ["75.0%", "0.5000", "0.1066"]
    assert " ".join(rows[2]).startswith("A 75.0% 0.5000 0.1066 0.7 s 100 ms 100 to 101 ms 637 ")
    assert "201 ms" in " ".join(rows[3])
    verdict = next(line for line in done.stdout.splitlines() if line.startswith("B vs A: "))
    assert verdict.startswith("B vs A: +100.0% per step (95%: +")
    assert "; assuming that equal runs differ by 3%), slower; " in verdict
    assert verdict.endswith("the same training loss at 30 common steps")
    assert "\nA 20261123-a was 2.0x faster per step (100 ms, B 201 ms)" in done.stdout
    assert "training loss by step\n" in done.stdout
    assert "training loss by time\n" in done.stdout


def test_lines_are_folded_between_words_in_a_terminal(
    run: Run, runs: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(text, "terminal_width", lambda: 60)
    lines = run(compare, runs=runs).stdout.splitlines()
    verdict = lines[next(at for at, one in enumerate(lines) if one.startswith("B vs A: ")) :]
    assert all(len(line) <= 60 for line in verdict)
    assert "the same training loss at 30 common steps" in " ".join(" ".join(verdict).split())


def test_a_repetition_is_no_evidence_about_settings(
    run: Run, runs: list[str], tmp_path: Path
) -> None:
    of = replace(plan(2), run="c", work=Job(sync="ddp", seed=43))
    recorded(tmp_path / "runs", History(of).training(steps=30, seconds=0.25))
    lines = run(compare, runs=[runs[0], "c", "20261123-b"]).stdout.splitlines()
    assert next(one for one in lines if one.startswith("B vs A: ")).startswith(
        "B vs A: no verdict: same recorded settings, and +148.8% per step: runs on these hosts "
        "differ by as much; "
    )
    third = next(one for one in lines if one.startswith("C vs A: "))
    noise = "equal runs differ by 64.5% here, of which there are few"
    assert f" per step ({noise}), not significant; " in third
    found = json.loads(run(compare, runs=[runs[0], "c"], json=True).stdout)["runs"][1]
    against = found["against_first"]
    assert (against["same_settings"], against["finding"]) == (True, "no difference shown")
    assert (against["interval"], against["p"]) == (None, None)


def test_runs_are_compared_for_programs(run: Run, runs: list[str]) -> None:
    done = run(compare, runs=runs, json=True)
    found = json.loads(done.stdout, parse_constant=pytest.fail)
    assert found["differing"] == {"sync": ["ddp", "ring"]}
    first, second = found["runs"]
    assert (first["run"], first["verdict"], first["test_accuracy"]) == (
        "20261123-a",
        "finished",
        0.75,
    )
    assert first["against_first"] is None
    assert second["settings"]["sync"] == "ring"
    assert second["against_first"]["finding"] == "slower"
    assert second["against_first"]["ratio"] == pytest.approx(2.0)
    assert second["loss_difference"] == 0.0


def test_runs_are_compared_as_markdown(run: Run, runs: list[str]) -> None:
    done = run(compare, runs=runs, markdown=True)
    assert done.stdout.startswith("# Comparison of runs\n\n- A  20261123-a: 2 ranks")
    assert "| setting | A | B |\n| --- | --- | --- |\n| sync | ddp | ring |" in done.stdout
    assert done.stdout.count("```") == 4
    assert "\x1b" not in done.stdout


def test_names_stay_text_in_markdown(run: Run, runs: list[str], tmp_path: Path) -> None:
    of = plan(1)
    strange = replace(of, run="c", hosts=(replace(of.hosts[0], name="<b>|x"),))
    recorded(tmp_path / "runs", History(strange).training(steps=3))
    done = run(compare, runs=[runs[0], "c"], markdown=True)
    assert "| hosts | node1, node2 | \\<b\\>\\|x |" in done.stdout


def test_no_setting_reaches_the_terminal_raw(run: Run, runs: list[str], tmp_path: Path) -> None:
    of = replace(plan(1), run="c", work=Job(dataset="imagefolder:/a\x1b[31m\x07b"))
    recorded(tmp_path / "runs", History(of).training(steps=3))
    for flags in ({}, {"markdown": True}, {"json": True}):
        done = run(compare, runs=[runs[0], "c"], **flags)
        assert done.returncode == 0
        assert not {"\x1b", "\x07"} & set(done.stdout)


def test_what_one_has_to_know_comes_first(run: Run, runs: list[str], tmp_path: Path) -> None:
    history = History(replace(plan(1), run="c")).training(steps=3)
    history.rank(0, StepFinished(0, 1, 4, math.nan, 0.1))
    recorded(tmp_path / "runs", history)
    lines = run(compare, runs=["c", runs[0]]).stdout.splitlines()
    assert lines[0].startswith("A  c: 1 rank on 1 host, ddp, lenet5 on digits; left after")
    assert lines[2] == "A: diverged at step 4: loss 2 → NaN"
    found = json.loads(run(compare, runs=["c", runs[0]], json=True).stdout)
    assert found["runs"][0]["loss"] is None


def test_a_run_without_steps_has_no_training_time(
    run: Run, runs: list[str], tmp_path: Path
) -> None:
    history = History(replace(plan(2), run="c")).training().done(0, 1)
    recorded(tmp_path / "runs", history.session(SessionClosed()))
    done = run(compare, runs=[runs[0], "c"], markdown=True)
    cells_of_rows = [line.split(" | ") for line in done.stdout.splitlines()]
    [head] = [cells for cells in cells_of_rows if "training time" in cells]
    [row] = [cells for cells in cells_of_rows if cells[0] == "| B" and len(cells) == len(head)]
    assert row[head.index("training time")] == "-"


def test_what_more_nodes_cannot_bring_gets_no_verdict(run: Run, tmp_path: Path) -> None:
    for name, nodes, seconds, threads in (("one", 1, 1.9, 2), ("four", 4, 0.1, 1)):
        history = History(replace(plan(nodes), run=name)).training(threads=threads)
        for step in range(1, 31):
            for rank in range(nodes):
                took = seconds * (1 + 0.01 * (step % 3))
                history.rank(
                    rank, StepFinished(rank, 1, step, 2.0 / step, took, samples=64 // nodes)
                )
        recorded(tmp_path / "runs", history.done(*range(nodes)).session(SessionClosed()))
    lines = run(compare, runs=["one", "four"]).stdout.splitlines()
    assert lines[2].startswith(
        "4 nodes were measured 19 times as fast as one (B): more than 4 is not possible by adding "
        "nodes; the runs on one node had 2 threads per rank, the others 1"
    )
    assert any(line.startswith("B vs A: no verdict on the time per step: it is") for line in lines)
    assert "faster" not in "\n".join(lines)
    told = json.loads(run(compare, runs=["one", "four"], json=True).stdout)["runs"][1]
    assert told["against_first"]["doubt"]["kind"] == "too fast"
    assert told["against_first"]["doubt"]["fewer"]["name"] == "one"


@pytest.mark.parametrize(("rank", "whose"), [(0, ("", "")), (1, (" (rank 0)", " (rank 1)"))])
def test_metrics_that_all_runs_have_are_compared(
    run: Run, tmp_path: Path, rank: int, whose: tuple[str, str]
) -> None:
    for name, of_rank, more in (("a", 0, "kl=0.5"), ("b", rank, "kl=0.25 reward=3.0")):
        history = started(replace(script(), run=name))
        for step in (1, 2):
            history.say(0, said(of_rank, f"step={step} loss=0.5 {more}", "stdout"))
        recorded(tmp_path / "runs", ended(history).session(SessionClosed()))
    found = run(compare, runs=["a", "b"]).stdout
    lines = found.split("metrics of all runs")[1].splitlines()
    assert lines[1].split() == ["metric", "A", "B"]
    first, second = whose
    expected = f"kl 0.500, 0.500 to 0.500{first} 0.250, 0.250 to 0.250{second}"
    assert " ".join(lines[2].split()) == expected
    assert "reward" not in found
    assert "0 B" not in found  # what a script sends is not known
    told = json.loads(run(compare, runs=["a", "b"], json=True).stdout)
    assert [list(one["metrics"]) for one in told["runs"]] == [["kl"], ["kl"]]


def test_the_loss_that_a_script_prints_last_has_another_name_than_the_training_loss(
    run: Run, tmp_path: Path
) -> None:
    for name in ("a", "b"):
        history = started(replace(script(1, 2, watch=True), run=name))
        for step in range(1, 31):
            for rank in (0, 1):
                history.say(0, seen(rank, step, 3.0 - step / 20, compute=0.5, sync=0.1))
            if step % 10 == 0:
                history.say(0, said(0, f"step={step} loss={3.0 - step / 20}", "stdout"))
        recorded(tmp_path / "runs", ended(history).session(SessionClosed()))
    found = run(compare, runs=["a", "b"]).stdout
    last_mean = sum(3.0 - step / 20 for step in range(11, 31)) / 20
    assert format_loss(last_mean) in found.split("final figures")[1].split("metrics of all runs")[0]
    metric_rows = found.split("metrics of all runs")[1].splitlines()[1:]
    (loss_row,) = (row for row in metric_rows if "1.50" in row)
    assert loss_row.startswith("reported loss")


def test_programs_of_users_are_compared_without_steps(run: Run, tmp_path: Path) -> None:
    for name in ("c", "d"):
        history = History(replace(plan(1, script=True), run=name)).rank(0, Exited(0, 0))
        recorded(tmp_path / "runs", history)
    done = run(compare, runs=["c", "d"])
    assert (done.returncode, done.stderr) == (0, "")
    assert "settings that differ" not in done.stdout
    assert "training loss" not in done.stdout
    assert "nan" not in done.stdout
    assert "B vs A: no verdict on the time per step" in done.stdout


@pytest.mark.parametrize(
    ("named", "flags", "message"),
    [
        (["last"], {}, "compare needs 2 to 26 runs: 1 given"),
        (["last", "20261123-b"], {}, "20261123-b is named twice"),
        (["last", "x"], {}, "No run called 'x' in runs"),
        (["last", "2026"], {}, "2026: 2 runs begin so"),
        (["last", "20261123-a"], {"json": True, "markdown": True}, "--json, --markdown and --dash"),
    ],
)
def test_mistakes(
    named: list[str], flags: dict[str, bool], message: str, run: Run, runs: list[str]
) -> None:
    done = run(compare, runs=named, **flags)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith(f"rankboard: {message}")


# Charts as text -----------------------------------------------------------------------------------


def line(label: str, place: int, rising: bool) -> Curve:
    x = np.arange(50, dtype=float)
    y = x if rising else x[::-1].copy()
    return Curve(label, place, x, y, y, y)


def test_each_curve_has_its_letter_once_behind_its_end() -> None:
    lines = plot_as_text([line("A", 0, True), line("B", 1, False)], PlotOptions("step"), 60, 10)
    assert len(lines) == 10
    ends = [row[-1] for row in lines]
    assert ends.index("A") < 2, "a rising curve ends at the top"
    assert ends.index("B") > 6
    text = "\n".join(lines)
    assert (text.count("A"), text.count("B")) == (1, 1)


def test_letters_of_curves_that_end_at_one_place_stand_above_each_other() -> None:
    x = np.arange(60, dtype=float)
    curves = [Curve(letter, place, x, x, x, x) for place, letter in enumerate("ABC")]
    lines = plot_as_text(curves, PlotOptions("step"), 66, 12)
    assert "".join(row[-1] for row in lines).strip("│┤").startswith("ABC")


def test_runs_over_each_other_differ_without_colours() -> None:
    x = np.arange(200, dtype=float)
    drawn = []
    for dash in range(4):
        curve = Curve("", dash, x, x, x, x, band=False, dash=dash)
        drawn.append("\n".join(plot_as_text([curve], PlotOptions("step"), 66, 12)))
    assert len(set(drawn)) == 4


def test_curves_have_no_gaps_where_colours_tell_them_apart() -> None:
    x = np.arange(200, dtype=float)
    for dash in range(4):
        curve = Curve("", dash, x, x, x, x, band=False, dash=dash)
        frame = make_frame([curve], PlotOptions("step"), 66, 12)
        assert frame
        assert (frame.picture.dots > 0).any(axis=0).all()


def test_the_letter_of_a_run_that_ends_early_stands_beside_its_end() -> None:
    late_x = np.arange(60, dtype=float)
    early_x = late_x[:30]
    curves = [
        Curve("A", 0, late_x, *3 * [late_x * 0 + 9], band=False),
        Curve("B", 1, early_x, *3 * [early_x * 0 + 1], band=False),
    ]
    lines = plot_as_text(curves, PlotOptions("step"), 66, 12)
    (late_line,) = [text for text in lines if "A" in text]
    (early_line,) = [text for text in lines if "B" in text]
    assert late_line.endswith("A")
    assert len(late_line) == 66
    assert early_line.endswith(" B")
    assert abs(len(early_line) - 36) <= 4, "in the middle, where it ends"


def test_colours_only_add_to_the_text() -> None:
    curves = [line("A", 0, True), line("B", 1, False)]
    plain, inked = (
        plot_as_text(curves, PlotOptions("step"), 60, 10, colour) for colour in (False, True)
    )
    red, green, blue = bytes.fromhex(DARK.series[1][1:])
    assert f"\x1b[38;2;{red};{green};{blue}m" in "".join(inked)
    assert [click.unstyle(one).rstrip() for one in inked] == plain


def test_nothing_is_drawn_of_nothing() -> None:
    empty = np.array([])
    assert plot_as_text([Curve("A", 0, *[empty] * 4)], PlotOptions("step"), 60, 10) == []
