"""`rankboard logs --parse`: what was read out of a program's output."""

from __future__ import annotations

from pathlib import Path

import pytest

from remote.cluster.hosts import Host
from remote.plan.plan import Plan, Script
from training.wire.events import Record
from training.wire.rank_events import ScriptMetrics, StepFinished
from tui.parse.script_report import show

PLAN = Plan("20261124-000000-x", (Host("a", "", slots=2, transport="local"),), Script(("x.py",)))


def test_each_step_and_value_has_a_line_fit_for_a_terminal(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    step = StepFinished(1, 0, 7, 0.5, float("nan"))
    values = ScriptMetrics(1, 7, 0.0, (("\x1b]0;title\x07name", 1.5),))
    show([Record(0, 0, 1, 1.0, step), Record(0, 0, 2, 1.0, values)], PLAN, tmp_path, None)
    assert capsys.readouterr().out == "rank 1 step 7: loss 0.500\nrank 1 step 7: name 1.50\n"
