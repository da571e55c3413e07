"""The Python interface without a run: what is imported, flags, tables, progress, columns."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import rankboard
from rankboard import columns as columns_module
from rankboard.columns import STEP_COLUMNS, Columns, read_table
from rankboard.commands import make_flags
from rankboard.outcome import read_outcome
from rankboard.progress import KINDS, Progress
from rankboard.progress_table import draw_run
from remote.metrics.steps import COLUMNS
from tui.run import json_printer

OURS = ("tui", "remote", "training")


def event(kind: str, rank: int | None = None, **fields: Any) -> dict[str, Any]:
    return {"event": kind, "time": 1.0, "host": "node1", "rank": rank, **fields}


def plan_event(host: str = "node1") -> dict[str, Any]:
    ranks = [{"rank": rank, "local_rank": rank, "host": host} for rank in range(2)]
    plan = {"ranks": ranks, "world_size": 2, "policy": {"keep": False}}
    return event("run", run="a-run", folder="/runs/a-run", live=True, plan=plan)


def summary(verdict: str | None = "finished", **fields: Any) -> dict[str, Any]:
    rank = {"rank": 0, "host": "node1", "fate": "finished", "step": 40, "loss": 0.5}
    rank["means"] = {"iterations_from_2": {"seconds": 0.25}}
    known = {"run": "a-run", "verdict": verdict, "exit_code": 0, "cause": None, "elapsed": 3.0}
    known |= {"training_loss": None, "test": None, "unconfirmed": [], "ranks": [rank]}
    return event("summary", **(known | fields))


def test_an_import_brings_neither_numpy_nor_our_code_nor_processes() -> None:
    unwanted = (*OURS, "numpy", "pandas", "IPython")
    code = (
        "import sys, rankboard; rankboard.launch, rankboard.load, rankboard.Run, rankboard.Outcome;"
        f"print([name for name in {unwanted!r} if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_all_names_of_the_interface_are_there() -> None:
    assert [name for name in rankboard.__all__ if not hasattr(rankboard, name)] == []
    assert set(rankboard.__all__) <= set(dir(rankboard))
    with pytest.raises(AttributeError):
        rankboard.lauch  # type: ignore[attr-defined] # noqa: B018


def test_a_keyword_is_a_flag() -> None:
    values: dict[str, Any] = {
        "batch_size": 64,
        "lr": -0.5,
        "compile": True,
        "verify_data": False,
        "steps": None,
        "upload": [Path("a"), "b c"],
        "sync_option": {"bucket_mb": 5, "k": "v"},
        "name": "-x",
    }
    assert make_flags(values) == [
        "--batch-size=64",
        "--lr=-0.5",
        "--compile",
        "--no-verify-data",
        "--upload=a",
        "--upload=b c",
        "--sync-option=bucket_mb=5",
        "--sync-option=k=v",
        "--name=-x",
    ]


def test_flags_that_mean_nothing_here_are_all_refused_before_anything_is_started() -> None:
    with pytest.raises(rankboard.RefusedError) as caught:
        rankboard.launch(local=2, dry_run=True, json=True)
    assert [mistake.flag for mistake in caught.value.mistakes] == ["--dry-run", "--json"]
    assert all(mistake.hint for mistake in caught.value.mistakes)


def test_the_kinds_of_events_are_those_of_the_engine() -> None:
    assert set(KINDS) <= set(json_printer.KINDS)


def test_a_table_without_steps_has_the_columns_of_one_with_steps() -> None:
    assert set(STEP_COLUMNS) <= set(COLUMNS)


def test_progress_follows_the_events_of_the_ranks() -> None:
    progress = Progress([plan_event()])
    assert [(rank.rank, rank.phase, rank.loss) for rank in progress.list_ranks()] == [
        (0, "waiting", None),
        (1, "waiting", None),
    ]
    progress.take(event("spawned", 0))
    progress.take(event("entered", 1, phase="loading"))
    assert [rank.phase for rank in progress.list_ranks()] == ["importing", "loading"]
    for number in range(1, 41):
        progress.take(event("step", 0, step=number, loss=1 / number, seconds=float(number > 20)))
    progress.take(event("step", 1, step=1, loss=None, seconds=None))
    first, second = progress.list_ranks()
    assert (first.phase, first.step, first.loss, first.step_seconds) == ("training", 40, 1 / 40, 1)
    assert (second.step, second.loss, second.step_seconds) == (1, None, None)
    for code, is_stopped, fate in ((1, False, "failed"), (-15, True, "stopped")):
        progress.take(event("exited", 1, code=code, stopped=is_stopped))
        assert progress.list_ranks()[1].phase == fate
    progress.take(event("restarted"))
    assert [rank.step for rank in progress.list_ranks()] == [0, 0]
    progress.take(summary())
    assert progress.list_ranks()[0].step_seconds == 0.25


def test_the_time_of_a_step_is_of_ten_seconds_as_in_the_dashboard() -> None:
    progress = Progress([plan_event()])
    for number in range(1, 1501):
        seconds = 0.5 if number <= 40 else 0.01 if number % 100 else 0.05
        progress.take(event("step", 0, step=number, loss=1.0, seconds=seconds))
    # The slow step at the end is one of the last 20, and of many more.
    assert progress.list_ranks()[0].step_seconds == pytest.approx(0.0104, rel=0.01)


def test_ranks_that_a_script_has_started_are_listed() -> None:
    progress = Progress([plan_event()])
    progress.take(event("step", 5, step=1, loss=1.0, seconds=1.0))
    assert [rank.rank for rank in progress.list_ranks()] == [0, 1, 5]


def test_an_alert_is_listed_until_it_is_over() -> None:
    progress = Progress([plan_event()])
    alert = event("alert", alarm="stall", subject=-1, text={"title": "stalled"}, over=0)
    progress.take(alert)
    assert progress.list_alerts() == ["stalled"]
    progress.take(alert | {"over": 2.0})
    assert progress.list_alerts() == []


def test_what_comes_from_hosts_is_escaped_in_html() -> None:
    evil = "<script>alert(1)</script>"
    progress = Progress([plan_event(evil)])
    progress.take(event("entered", 0, phase=evil))
    cause = {"text": evil, "what": evil, "host": evil, "rank": -1, "tail": [evil]}
    outcome = read_outcome(summary("failed", cause=cause, flaws=[{"text": evil}]))
    html = draw_run(evil, evil, progress.list_ranks(), [evil], outcome)
    assert "<script" not in html
    assert html.count("&lt;script&gt;") == 8


def test_an_outcome_has_its_cause_as_fields() -> None:
    cause = {"text": "node1, rank 1: killed", "what": "killed", "host": "node1", "rank": 1}
    outcome = read_outcome(summary("failed", exit_code=1, cause=cause | {"tail": ["bye"]}))
    assert outcome.cause == rankboard.Cause(**cause, last_lines=("bye",))
    assert not outcome.is_finished
    with pytest.raises(rankboard.RunFailedError) as caught:
        outcome.check()
    assert caught.value.outcome is outcome
    assert "node1, rank 1: killed" in str(caught.value)


def test_nothing_of_a_cause_acts_on_a_terminal() -> None:
    evil = "\x1b]0;title\x07\u202e"
    cause = {"text": evil, "what": evil, "host": "node1", "rank": 1, "tail": [evil]}
    outcome = read_outcome(summary("failed", cause=cause))
    assert outcome.cause
    texts = [outcome.cause.text, outcome.cause.what, *outcome.cause.last_lines]
    assert texts == ["\\x1b]0;title\\x07\\u202e"] * 3
    assert str(rankboard.RunFailedError(outcome)).isprintable()


def test_an_outcome_of_a_finished_run_is_returned() -> None:
    outcome = read_outcome(summary(test={"accuracy": 0.9}))
    assert outcome.check() is outcome
    assert (outcome.cause, outcome.test_accuracy) == (None, 0.9)


def test_a_table_is_read_in_pieces(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(columns_module, "READ_ROWS", 2)
    records = np.array(
        [(0, 1.0, "a"), (1, np.nan, "b"), (1, 2.0, "b")],
        [("rank", "i8"), ("loss", "f8"), ("host", "U1")],
    )
    np.save(tmp_path / "metrics.npy", records)
    columns = read_table(tmp_path / "metrics.npy")
    assert columns.num_rows == 3
    assert columns["rank"].dtype.kind == "i"
    assert np.isnan(columns["loss"]).tolist() == [False, True, False]
    assert columns.of_rank(1)["host"].tolist() == ["b", "b"]
    assert columns["host"].dtype == object


def test_only_steps_are_sorted_by_rank(tmp_path: Path) -> None:
    records = np.array([(0, 1), (1, 1), (0, 2), (1, 2)], [("rank", "i8"), ("step", "i8")])
    for name in ("steps", "metrics"):
        np.save(tmp_path / f"{name}.npy", records)
    steps = read_table(tmp_path / "steps.npy")
    assert (steps["rank"].tolist(), steps["step"].tolist()) == ([0, 0, 1, 1], [1, 2, 1, 2])
    assert read_table(tmp_path / "metrics.npy")["rank"].tolist() == [0, 1, 0, 1]


def test_pandas_gets_the_columns_if_it_is_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pandas", SimpleNamespace(DataFrame=dict))  # type: ignore[arg-type]
    frame = Columns({"loss": np.ones(1)}).to_pandas()
    assert frame["loss"].tolist() == [1.0]
