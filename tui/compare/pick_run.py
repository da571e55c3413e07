"""The choice of a run to compare one with: recorded runs, the most similar first."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from textual.content import Content
from textual.widgets import OptionList, Static

from remote.format import UNKNOWN, percent
from remote.record import index
from remote.record.alike import SimilarRun, find_similar
from remote.sanitise import plain
from tui.compare.comparison_text import shorten_setting
from tui.kit.background import run_in_background
from tui.kit.choice_dialogs import ChoiceDialog
from tui.kit.text_table import align_lines

MAX_RUNS = 100
MAX_LINE_LENGTH = 68


class PickSimilarRun(ChoiceDialog):
    """The choice of another run, whose name is the result. It reads the recorded runs itself."""

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
        note = "most alike first; then the newest" if runs else "there is no other run"
        self.query_one(Static).update(note)
        options = self.query_one(OptionList)
        # As content, since brackets in a plain text would be markup.
        options.add_options([Content(line) for line in _format_runs(runs)])
        options.highlighted = 0 if runs else None


def _similar_runs(run: str, runs_dir: Path) -> list[SimilarRun]:
    entries = {entry.name: entry for entry in index.entries(runs_dir)}
    if run not in entries:
        return []
    return find_similar(entries[run], entries.values())[:MAX_RUNS]


def _format_runs(runs: list[SimilarRun]) -> list[str]:
    """Return a line for each run: its name, its test accuracy, and in what it differs."""
    if not runs:
        return []
    rows = []
    for run, differing in runs:
        accuracy = UNKNOWN if run.accuracy is None else percent(run.accuracy, 1)
        settings = f"differs in {', '.join(differing)}" if differing else "the same settings"
        rows.append((plain(run.label or run.name), accuracy, settings))
    return [shorten_setting(line, MAX_LINE_LENGTH) for line in align_lines(rows)]
