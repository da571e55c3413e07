"""`rankboard export`: what is written is read back by the programs it is for."""

from __future__ import annotations

import csv
import errno
import json
import math
import os
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow.parquet
import pytest

from rankboard.columns import read_table
from remote.events import SessionClosed
from remote.metrics import step_collector, step_index
from remote.metrics.run import RunFigures, read_figures
from remote.metrics.step_index import StepPart
from remote.metrics.steps import COLUMNS, StepTable
from remote.record.events_file import RunFolderError
from tests.kit.commands import Done, run
from tests.kit.histories import History, block_of, plan
from tests.kit.recorded import recorded
from tests.kit.scripts import ended, logging, script, seen, started
from training.wire.host_events import Exited, GpuSample, HostSample, OutputText, RankSample
from training.wire.rank_events import Epoch, Evaluated, Saved, StepFinished
from tui.commands.export import Format, export
from tui.export.tables import STEP_TABLES
from tui.export.tensorboard import GPU_TAGS, HOST_TAGS, RANK_TAGS, STEP_TAGS

Run = Callable[..., Done]
assert run  # the fixture


def history(name: str = "a-run") -> History:
    """A run of two ranks and three steps, with one of each that is exported."""
    of = History(replace(plan(2), run=name)).training(device="cuda:0")
    for step in (1, 2, 3):
        for rank in (0, 1):
            loss = math.nan if (rank, step) == (1, 3) else 1 / 3 / step + rank
            of.rank(
                rank, StepFinished(rank, 1, step, loss, 0.1 * step, samples=32, correct=8 * rank)
            )
    of.rank(0, Evaluated(0, 1, 3, 0.5, 0.75, 100, 0.2), Saved(0, 1, 3, 0.1, 999))
    of.rank(1, Epoch(1, 1, 3, 0.7, 0.6, 96, 0.6))
    of.say(0, HostSample((50.0, 70.0), 3, 8, 100, 200), RankSample(0, 80.0, 5), after=1.0)
    of.say(0, GpuSample(0, 70.0, 3, 9, 1410))
    return of.done(0, 1).session(SessionClosed())


@pytest.fixture
def figures(tmp_path: Path) -> RunFigures:
    """Those of the recorded run."""
    return read_figures(recorded(tmp_path / "runs", history()))


def same(values: list[float], others: list[float]) -> None:
    np.testing.assert_array_equal(np.array(values, float), np.array(others, float))


def test_csv_is_read_back(run: Run, figures: RunFigures) -> None:
    done = run(export, runs=["last"], to=Format.CSV)
    assert (done.returncode, done.stdout) == (0, "exports/csv/a-run\n")
    folder = Path(done.stdout.strip())
    tables = {
        path.stem: list(csv.DictReader(path.read_text().splitlines()))
        for path in folder.glob("*.csv")
    }
    assert tables.keys() == {
        *("steps", "mean", "evaluations", "epochs", "checkpoints", "host_usage", "rank_usage"),
        "gpu_usage",
    }
    for name in ("rank", "step", "loss", "seconds", "time"):
        same([float(row[name]) for row in tables["steps"]], figures.steps.column(name).tolist())
    assert tables["steps"][0]["samples"] == "32"
    assert [row["accuracy"] for row in tables["mean"]] == ["0.125"] * 3
    assert tables["evaluations"][0]["accuracy"] == "0.75"
    assert tables["epochs"][0]["rank"] == "1"
    assert tables["checkpoints"][0]["size"] == "999"
    assert (tables["host_usage"][0]["host"], tables["host_usage"][0]["cpu"]) == ("node1", "60")
    assert tables["rank_usage"][0]["cpu"] == "80"
    assert [(row["rank"], row["use"], row["clock"]) for row in tables["gpu_usage"]] == [
        ("0", "70", "1410")
    ]
    about = json.loads((folder / "run.json").read_text())
    assert (about["run"], about["settings"]["sync"]) == ("a-run", "ddp")
    assert about["summary"] == figures.summary


def test_parquet_is_read_back(run: Run, figures: RunFigures) -> None:
    done = run(export, runs=["a-run"], to=Format.PARQUET, out=Path("there"))
    assert done.stdout == "there/a-run\n"
    steps = pyarrow.parquet.read_table("there/a-run/steps.parquet").to_pydict()
    assert steps["rank"] == [0, 0, 0, 1, 1, 1]
    same(steps["loss"], figures.steps.loss.tolist())
    usage = pyarrow.parquet.read_table("there/a-run/host_usage.parquet").to_pylist()
    assert [row["host"] for row in usage] == ["node1"]
    assert usage[0]["sent"] == 100.0


def test_numpy_is_read_back(run: Run, figures: RunFigures) -> None:
    done = run(export, runs=["a-run"], to=Format.NUMPY)
    assert done.stdout == "exports/numpy/a-run\n"
    folder = Path(done.stdout.strip())
    steps = np.load(folder / "steps.npy", mmap_mode="r")
    assert steps.dtype.names == COLUMNS
    same(steps["loss"].tolist(), figures.steps.loss.tolist())
    [usage] = np.load(folder / "host_usage.npy")
    assert (usage["host"], usage["sent"]) == ("node1", 100.0)
    assert (folder / "run.json").exists()


def test_json_is_strict_and_read_back(run: Run, figures: RunFigures) -> None:
    done = run(export, runs=["a-run"], to=Format.JSON)
    assert done.stdout == "exports/json/a-run.json\n"
    found = json.loads(Path(done.stdout.strip()).read_text(), parse_constant=pytest.fail)
    assert found["tables"]["steps"]["loss"] == [*figures.steps.loss.tolist()[:-1], None]
    assert found["tables"]["mean"]["step"] == [1, 2, 3]
    assert found["summary"]["verdict"] == "finished"


def test_a_program_gets_the_path(run: Run, figures: RunFigures) -> None:
    done = run(export, runs=["a-run"], to=Format.JSON, json=True)
    assert json.loads(done.stdout) == {"run": "a-run", "path": "exports/json/a-run.json"}


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_tensorboard_opens_it(run: Run, figures: RunFigures, tmp_path: Path) -> None:
    from tensorboard.backend.event_processing.event_multiplexer import EventMultiplexer

    recorded(tmp_path / "runs", history("b-run"))
    done = run(export, runs=["a-run", "b-run"], to=Format.TENSORBOARD)
    assert done.returncode == 0, done.stderr
    shown = EventMultiplexer().AddRunsFromDirectory("exports/tensorboard").Reload()
    parts = ("", "/rank-0", "/rank-1", "/host-node1", "/host-node2")
    assert shown.Runs().keys() == {f"{name}-run{part}" for name in "ab" for part in parts}
    means = shown.Scalars("a-run", "loss/train")
    steps, losses = figures.steps.mean_over_ranks("loss")
    assert [event.step for event in means] == steps.tolist()
    np.testing.assert_allclose([event.value for event in means], losses, rtol=1e-6)
    assert means[0].wall_time == pytest.approx(figures.zero + figures.steps.time[[0, 3]].mean())
    assert shown.Scalars("a-run/rank-1", "seconds/step")[2].value == pytest.approx(0.3)
    tags = {name: set(found["scalars"]) for name, found in shown.Runs().items()}
    assert (
        tags["a-run"] == tags["b-run"] == {*STEP_TAGS, "loss/test", "accuracy/test", "seconds/test"}
    )
    assert tags["a-run/rank-0"] == {*STEP_TAGS, *RANK_TAGS, *GPU_TAGS}
    assert tags["a-run/rank-1"] == {*STEP_TAGS}
    assert tags["a-run/host-node1"] == {*HOST_TAGS}
    [test] = shown.Scalars("a-run", "accuracy/test")
    assert (test.step, test.value) == (3, 0.75)
    [used] = shown.Scalars("a-run/host-node1", "host/CPU percent")
    assert (used.step, used.value) == (round(used.wall_time - figures.started), 60.0)
    [text] = shown.Tensors("a-run", "settings/text_summary")
    assert b"| sync | ddp |" in text.tensor_proto.string_val[0]


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_run_of_a_users_program_is_exported(run: Run, tmp_path: Path) -> None:
    of = History(replace(plan(1, script=True), run="mine"))
    of.say(0, HostSample((50.0,), 3, 8), after=1.0).rank(0, Exited(0, 0))
    recorded(tmp_path / "runs", of.session(SessionClosed()))
    for to in Format:
        assert run(export, runs=["mine"], to=to).returncode == 0
    assert {path.name for path in Path("exports/csv/mine").iterdir()} == {
        "host_usage.csv",
        "run.json",
    }
    assert len(list(Path("exports/tensorboard/mine").rglob("*tfevents*"))) == 3


def long_history() -> History:
    """A run with steps in blocks, some of whose losses are unknown or infinite."""
    of = History(replace(plan(2), run="long-run")).training(3)
    for first in range(4, 604, 30):
        for rank in (0, 1):
            steps = [
                StepFinished(rank, 1, step, ODD_LOSSES.get(step, 1 / step), 0.1 / step, samples=32)
                for step in range(first, first + 30)
            ]
            of.rank(rank, block_of(steps, of.now, 0.0))
    return of.done(0, 1).session(SessionClosed())


ODD_LOSSES = {11: math.nan, 222: math.inf, 223: 0.0, 300: 1e-30, 301: 3e38}


def read_columns(path: Path) -> dict[str, list[float]]:
    """The columns of a CSV file of numbers, with the rows in order of rank and step."""
    with path.open() as file:
        rows = [{name: float(cell) for name, cell in row.items()} for row in csv.DictReader(file)]
    rows.sort(key=lambda row: (row.get("rank", 0), row["step"]))
    return {name: [row[name] for row in rows] for name in rows[0]}


def test_all_steps_of_a_long_run_are_exported(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = recorded(tmp_path / "runs", long_history())
    expected = read_figures(folder).steps
    monkeypatch.setattr(step_collector, "MOST_ROWS", 200)
    monkeypatch.setattr(step_index, "PART_ROWS", 300)
    assert read_figures(folder).step_stride > 1
    for to in (Format.CSV, Format.PARQUET, Format.NUMPY, Format.JSON):
        done = run(export, runs=["long-run"], to=to, out=Path(to.value))
        assert done.returncode == 0, done.stderr
    steps = read_columns(Path("csv/long-run/steps.csv"))
    assert [*steps] == [*COLUMNS]
    for name in COLUMNS:
        # Agents send floats of 32 bits, and no more digits are written.
        found_column = np.array(steps[name], np.float32)
        np.testing.assert_array_equal(found_column, expected.column(name).astype(np.float32), name)
    mean = read_columns(Path("csv/long-run/mean.csv"))
    np.testing.assert_allclose(mean["loss"], expected.mean_over_ranks("loss")[1], rtol=1e-7)
    rows = pyarrow.parquet.read_table("parquet/long-run/steps.parquet")
    assert sorted(rows["step"].to_pylist()) == sorted(expected.step.tolist())
    found = json.loads(Path("json/long-run.json").read_text(), parse_constant=pytest.fail)
    assert found["tables"]["steps"]["step"] == rows["step"].to_pylist()
    assert sorted(found["tables"]["steps"]["seconds"]) == sorted(expected.seconds.tolist())
    assert found["tables"]["mean"]["step"] == np.unique(expected.step).tolist()
    table = read_table(Path("numpy/long-run/steps.npy"))
    for name in COLUMNS:
        np.testing.assert_array_equal(table[name], expected.column(name), name)


@pytest.mark.parametrize("to", [Format.CSV, Format.PARQUET, Format.NUMPY, Format.JSON])
def test_a_process_that_cannot_write_ends_the_export(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, to: Format
) -> None:
    recorded(tmp_path / "runs", long_history())
    monkeypatch.setattr(step_collector, "MOST_ROWS", 200)
    monkeypatch.setattr(step_index, "PART_ROWS", 300)

    def append(_: object, name: str, rows: object) -> None:
        if name in STEP_TABLES:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    files = {
        Format.CSV: "csv.CsvFiles",
        Format.PARQUET: "parquet.ParquetFiles",
        Format.NUMPY: "numpy.NumpyFiles",
        Format.JSON: "json.JsonColumns",
    }
    monkeypatch.setattr(f"tui.export.{files[to]}.append", append)
    done = run(export, runs=["long-run"], to=to, out=Path("out"))
    assert (done.returncode, "No space left" in done.stderr) == (2, True)
    assert list(Path("out").iterdir()) == []


def test_a_part_that_cannot_be_read_ends_the_export(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    recorded(tmp_path / "runs", long_history())
    monkeypatch.setattr(step_collector, "MOST_ROWS", 200)
    monkeypatch.setattr(step_index, "PART_ROWS", 300)

    def read_part(part: StepPart) -> StepTable:
        if part.first_step > 300:
            return step_index.read_part(part)
        raise RunFolderError("changed while it was read")

    monkeypatch.setattr("tui.export.folder.read_part", read_part)
    done = run(export, runs=["long-run"], to=Format.CSV, out=Path("out"))
    assert (done.returncode, "changed while it was read" in done.stderr) == (2, True)
    assert list(Path("out").iterdir()) == []


def test_what_is_there_is_replaced_only_if_told(run: Run, figures: RunFigures) -> None:
    assert run(export, runs=["a-run"], to=Format.CSV).returncode == 0
    again = run(export, runs=["a-run"], to=Format.CSV)
    assert again.returncode == 2
    assert again.stderr.startswith("rankboard: exports/csv/a-run exists: replace it with --force")
    assert run(export, runs=["a-run"], to=Format.CSV, force=True).returncode == 0
    assert [path.name for path in Path("exports/csv").glob("[!.]*")] == ["a-run"]


def test_the_directory_of_a_run_is_never_replaced(run: Run, figures: RunFigures) -> None:
    done = run(export, runs=["a-run"], to=Format.CSV, out=Path("runs"), force=True)
    assert done.returncode == 2
    assert "runs/a-run is the directory of a run" in done.stderr
    assert (figures.folder / "plan.json").exists()


def test_a_folder_that_cannot_be_written_is_named(run: Run, figures: RunFigures) -> None:
    Path("file").touch()
    done = run(export, runs=["a-run"], to=Format.JSON, out=Path("file"))
    assert done.returncode == 2
    assert done.stderr.startswith("rankboard: cannot write file/a-run.json: ")


def test_a_disk_that_is_full_keeps_no_half_export(
    run: Run, figures: RunFigures, monkeypatch: pytest.MonkeyPatch
) -> None:
    def write(of: RunFigures, target: Path) -> None:
        target.mkdir()
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr("tui.export.csv.write", write)
    done = run(export, runs=["a-run"], to=Format.CSV, out=Path("out"))
    assert (done.returncode, "No space left" in done.stderr) == (2, True)
    assert list(Path("out").iterdir()) == []


@pytest.mark.parametrize(
    ("to", "package"), [(Format.TENSORBOARD, "tensorboardX"), (Format.PARQUET, "pyarrow")]
)
def test_a_missing_package_is_named(
    to: Format, package: str, run: Run, figures: RunFigures, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in [f"tui.export.{to}", *(name for name in sys.modules if name.startswith(package))]:
        monkeypatch.delitem(sys.modules, name, raising=False)
    monkeypatch.setitem(sys.modules, package, None)
    done = run(export, runs=["a-run"], to=to)
    assert done.returncode == 2
    assert f"--to {to} needs the package {package}, which is not installed" in done.stderr
    assert not Path("exports").exists()


def test_metrics_of_a_program_are_exported(run: Run, tmp_path: Path) -> None:
    made = logging(started(replace(script(), run="mine")), 3, (4, 8), 1.0)
    recorded(tmp_path / "runs", ended(made).session(SessionClosed()))
    for kind in ("csv", "tensorboard"):
        run(export, runs=["mine"], to=Format(kind), out=tmp_path / kind)
    with (tmp_path / "csv" / "mine" / "metrics.csv").open() as file:
        rows = [
            (row["rank"], row["step"], row["name"], row["value"]) for row in csv.DictReader(file)
        ]
    assert rows == [
        *[("3", "4", "grad_norm", "1"), ("3", "4", "val_loss", "1")],
        *[("3", "8", "grad_norm", "2"), ("3", "8", "val_loss", "1")],
    ]
    (events,) = (tmp_path / "tensorboard" / "mine" / "rank-3").iterdir()
    assert b"metric/grad_norm" in events.read_bytes()


def test_losses_of_steps_are_exported_where_the_script_prints_another_quantity(
    run: Run, tmp_path: Path
) -> None:
    made = started(replace(script(1, 1, watch=True), run="mine"))
    for step in range(1, 9):
        made.say(0, seen(0, step, 64.0, compute=0.5, sync=0.1), after=0.5)
        made.say(0, OutputText(0, "stdout", f"step={step} loss=1.0"))
    recorded(tmp_path / "runs", ended(made).session(SessionClosed()))
    assert read_figures(tmp_path / "runs" / "mine").prints_other_loss
    run(export, runs=["mine"], to=Format.CSV, out=tmp_path / "csv")
    for name, table_name in (("loss", "steps.csv"), ("loss", "mean.csv"), ("value", "metrics.csv")):
        with (tmp_path / "csv" / "mine" / table_name).open() as file:
            losses = [row[name] for row in csv.DictReader(file)]
        assert losses == [("1" if name == "value" else "64")] * 8


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_names_of_metrics_are_fit_for_every_format(run: Run, tmp_path: Path) -> None:
    of = History(replace(plan(1, script=True), run="mine"))
    of.rank(
        0, OutputText(0, "stdout", '{"step": 1, "loss": 0.5, "a\\ud800b": 1, "\\u001b[2Jc": 2}')
    ).rank(0, Exited(0, 0))
    recorded(tmp_path / "runs", of.session(SessionClosed()))
    for kind in Format:
        run(export, runs=["mine"], to=kind, out=tmp_path / kind)
    with (tmp_path / "csv" / "mine" / "metrics.csv").open() as file:
        assert [row["name"] for row in csv.DictReader(file)] == ["ab", "c"]
