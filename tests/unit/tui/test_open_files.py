"""`rankboard open FILE…` and `rankboard logs --parse`: what programs print, read anew."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from remote.plan.plan import Script
from remote.record.log_files import LogFiles, OpenedFiles
from remote.run.output.script_readings import expander
from tests.kit.acted import until
from tests.kit.histories import History, plan, said
from tests.kit.looks import screen_text
from training.wire.host_events import Exited
from tui.app.watch_app import WatchApp
from tui.charts.panel import Charts
from tui.commands.open import _find_log_files
from tui.kit.exit import UsageError
from tui.parse import script_report as parsing


async def test_log_files_are_shown_in_the_dashboard(tmp_path: Path) -> None:
    paths = [tmp_path / f"rank{rank}.log" for rank in (0, 1)]
    for path in paths:
        path.write_text("".join(f"step={step} loss={4 / step} lr=0.1\n" for step in range(1, 40)))
    files = LogFiles(paths, tmp_path / "runs")
    files.read()
    files.close()
    app = WatchApp(OpenedFiles(files, follows=False))
    async with app.run_test(size=(120, 40)) as pilot:
        await until(pilot, lambda: "step 39" in screen_text(app))
        await until(pilot, lambda: "learning rate" in screen_text(app))
        text = screen_text(app)
        assert "2 log files, as of now: --follow shows also" in text
        assert "read as:" in text
        assert "ranks 0 and 1 print" in text
        await pilot.press("q")
    app.finish()


async def test_where_only_the_loss_is_printed_one_chart_has_the_room(tmp_path: Path) -> None:
    path = tmp_path / "rank0.log"
    path.write_text("".join(f"step={step} loss={4 / step}\n" for step in range(1, 40)))
    files = LogFiles([path], tmp_path / "runs")
    files.read()
    files.close()
    app = WatchApp(OpenedFiles(files, follows=False))
    async with app.run_test(size=(160, 40)) as pilot:
        await until(pilot, lambda: "step 39" in screen_text(app))
        await until(
            pilot, lambda: len([one for one in app.screen.query(Charts) if one.display]) == 1
        )
        await pilot.press("q")
    app.finish()


def test_files_and_runs_are_told_apart(tmp_path: Path) -> None:
    (log := tmp_path / "a.log").write_text("")
    assert _find_log_files([str(log)], follow=True, runs_dir=tmp_path) == [log]
    assert _find_log_files(["last"], follow=False, runs_dir=tmp_path) == []
    for names, follow in (([str(log), "last"], False), (["last"], True), (["a", "b"], False)):
        with pytest.raises(UsageError, match="is not a file"):
            _find_log_files(names, follow=follow, runs_dir=tmp_path)
    with pytest.raises(UsageError, match=r"^b\.log: there is no such file$"):
        _find_log_files(["b.log"], follow=False, runs_dir=tmp_path)


def test_steps_and_values_are_printed_as_they_are_read(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    history = History(replace(plan(2), work=Script(("train.py",), watch=False)))
    for rank in (0, 1):
        history.rank(rank, said(rank, f"step=7 loss={rank + 0.5} val_loss=2.5", "stdout"))
        history.rank(rank, said(rank, "loss of 17 things at 0.5", "stdout"), Exited(rank, 0))
    take = expander(history.plan)
    records = [one for record in history.records for one in take(record)]
    parsing.show(records, history.plan, tmp_path / "a-run", {1})
    out, err = capsys.readouterr()
    assert out.splitlines() == ["rank 1 step 7: loss 1.50", "rank 1 step 7: val_loss 2.50"]
    assert "read as: " in err
    assert "rank 1: 1 line with numbers not read: rankboard parse" in err
    assert "a-run/logs/rank-1.log shows them" in err
