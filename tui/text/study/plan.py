"""The runs of a study before they are made, for --dry-run."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

from remote.format import count
from remote.study import estimate
from remote.study.progress import CellState, Progress
from remote.study.study import Study
from tui.narrate import narrate
from tui.text.study.json import named, write
from tui.text.table import print_table


def describe(study: Study, progress: Progress, runs_dir: Path, *, json: bool) -> None:
    """Print the runs of a study, in order, and how long they may take."""
    if json:
        for trial in study.trials():
            job = {"job": asdict(trial.job)}
            write(named(trial) | job | {"done": progress.is_settled(trial)})
        return
    narrate(f"{study.title}: {study.question}")
    rows = []
    for number, trial in enumerate(study.trials(), start=1):
        done = "done" if progress.is_settled(trial) else CellState.WAITING.value
        place = trial.cell.place
        where = f"{count(place.nodes, 'host')}, {count(place.ranks, 'rank')}"
        rows.append((str(number), trial.key, where, done))
    print_table(("run", "cell", "where", "state"), rows)
    narrate(estimate.text(progress, runs_dir))
