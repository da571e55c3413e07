"""What a command does not need is not loaded before the user sees something."""

from __future__ import annotations

import subprocess
import sys

import pytest

FIRST_SCREEN_OF_A_RUN = "tui.commands.open, tui.home.history, tui.app.app, tui.run.screen"
NOT_FOR_A_RECORDED_RUN = (
    "matplotlib",
    "paramiko",
    "pydantic",
    "remote.doctor.doctor",
    "remote.formats.reader",
    "remote.host_commands.run_on_hosts",
    "remote.session.session",
    "remote.study.study",
    "tomllib",
    "torch",
    "training.wire.commands",
    "tui.run.printer",
)
NOT_FOR_A_WORD = ("cyclopts", "numpy", "remote.plan.plan", "textual", "training.wire.events")


@pytest.mark.parametrize(
    ("modules", "unneeded"),
    [(FIRST_SCREEN_OF_A_RUN, NOT_FOR_A_RECORDED_RUN), ("tui.commands.cli", NOT_FOR_A_WORD)],
    ids=["open", "--version"],
)
def test_nothing_unneeded_is_loaded(modules: str, unneeded: tuple[str, ...]) -> None:
    code = f"import sys, {modules}; print(sorted({{*{unneeded}}} & {{*sys.modules}}))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
