"""The choice of a run to compare one with: recorded runs, the most similar first."""

from __future__ import annotations

import time
from functools import partial
from pathlib import Path

from textual.containers import Vertical
from textual.content import Content
from textual.widgets import OptionList, Static

from remote.format import UNKNOWN, ago, percent
from remote.record import index
from remote.record.alike import SimilarRun, find_similar
from remote.sanitise import plain
from tui.compare.comparison_text import shorten_setting
from tui.kit.background import run_in_background
from tui.kit.choice_dialogs import ChoiceDialog
from tui.kit.run_differences import format_differences
from tui.kit.text_table import align_lines

MAX_RUNS = 100
NOTE = "most alike first, then the newest; of what differs, the values of this run come first"
FRAME_WIDTH = 6
"""Cells of a line of the dialog that its frame and the scrollbar take."""


class PickSimilarRun(ChoiceDialog):
    """The choice of another run, whose name is the result. It reads the recorded runs itself."""

    DEFAULT_CSS = """
    PickSimilarRun Vertical { width: 95%; }
    """

    def __init__(self, run: str, runs_dir: Path) -> None:
        super().__init__(f"compare {run} with", "reading the recorded runs", (), "")
        self._run = run
        self._runs_dir = runs_dir

    def on_mount(self) -> None:
        super().on_mount()
        # To read all recorded runs takes a while, so the dialog comes up without them.
        read = partial(_similar_runs, self._run, self._runs_dir)
        run_in_background(self, read, self._show_runs)

    def _show_runs(self, runs: list[SimilarRun]) -> None:
        self._choices = [similar.run.name for similar in runs]
        note = NOTE if runs else "there is no other run"
        self.query_one(Static).update(note)
        options = self.query_one(OptionList)
        # As content, since brackets in a plain text would be markup.
        room = self.query_one(Vertical).size.width - FRAME_WIDTH
        options.add_options([Content(line) for line in _format_runs(runs, room)])
        options.highlighted = 0 if runs else None


def _similar_runs(run: str, runs_dir: Path) -> list[SimilarRun]:
    entries = {entry.name: entry for entry in index.entries(runs_dir)}
    if run not in entries:
        return []
    return find_similar(entries[run], entries.values())[:MAX_RUNS]


def _format_runs(runs: list[SimilarRun], width: int) -> list[str]:
    """Return a line for each run: its name, age and test accuracy, and in what it differs."""
    if not runs:
        return []
    rows = []
    now = time.time()
    for run, differences in runs:
        accuracy = UNKNOWN if run.accuracy is None else percent(run.accuracy, 1)
        run_age = ago(max(0.0, now - run.started)) if run.started else UNKNOWN
        settings = format_differences(differences) or "the same settings"
        rows.append((plain(run.label or run.name), run_age, accuracy, plain(settings)))
    return [shorten_setting(line, width) for line in align_lines(rows)]
