"""Which run to compare one with: a list of the recorded ones, most alike first."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from textual.content import Content
from textual.widgets import OptionList, Static

from remote.format import UNKNOWN, percent
from remote.record import index
from remote.record.alike import SimilarRun, find_similar
from remote.sanitise import plain
from tui.kit.background import run_in_background
from tui.kit.choice_dialogs import ChoiceDialog
from tui.kit.text_table import aligned

MOST = 100
"""Runs that are listed at most."""
WIDTH = 68
"""Characters of a line at most."""


class PickAlike(ChoiceDialog):
    """The choice of another run; the result is its name. Reads the recorded runs by itself."""

    def __init__(self, run: str, runs_dir: Path) -> None:
        super().__init__(f"compare {run} with", "reading the recorded runs", (), "")
        self._run = run
        self._runs_dir = runs_dir

    def on_mount(self) -> None:
        super().on_mount()
        run_in_background(self, partial(_others, self._run, self._runs_dir), self._take)

    def _take(self, found: list[SimilarRun]) -> None:
        """List what has been read."""
        self._choices = [one.run.name for one in found]
        said = "most alike first; then the newest" if self._choices else "there is no other run"
        self.query_one(Static).update(said)
        shown = self.query_one(OptionList)
        shown.add_options([Content(line) for line in _lines(found)])
        shown.highlighted = 0 if self._choices else None


def _others(run: str, runs_dir: Path) -> list[SimilarRun]:
    entries = {one.name: one for one in index.entries(runs_dir)}
    return find_similar(entries[run], entries.values())[:MOST] if run in entries else []


def _lines(found: list[SimilarRun]) -> list[str]:
    """A line for each run: its name, its test accuracy, and in what it differs."""
    rows = [
        (
            plain(run.label or run.name),
            UNKNOWN if run.accuracy is None else percent(run.accuracy, 1),
            f"differs in {', '.join(differing)}" if differing else "the same settings",
        )
        for run, differing in found
    ]
    return (
        [line if len(line) <= WIDTH else f"{line[: WIDTH - 1]}…" for line in aligned(rows)]
        if rows
        else []
    )
