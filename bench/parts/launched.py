"""Runs a job with the command `rankboard --run --json`, as a user would, and reads its events."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

COMMAND = Path(sys.executable).with_name("rankboard")


def events(
    words: Sequence[str], runs_dir: Path, step: Callable[[int], None]
) -> list[dict[str, Any]]:
    """The events of a run to its end, as objects; `step` is called with the number of each of rank
    0's. Ends the program where the run fails."""
    command = [str(COMMAND), "--run", "--json", "--runs-dir", str(runs_dir), *words]
    said = []
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as process:
        assert process.stdout
        for line in process.stdout:
            event = json.loads(line)
            said.append(event)
            if event["event"] == "step" and event["rank"] == 0:
                step(event["step"])
    if process.returncode:
        raise SystemExit(f"failed, and its records are in {runs_dir}: {' '.join(command)}")
    return said


def of_kind(said: Sequence[dict[str, Any]], kind: str) -> list[dict[str, Any]]:
    """The events of one kind."""
    return [event for event in said if event["event"] == kind]


def progress(what: str) -> Callable[[int], None]:
    """Says on a terminal how far a run is."""

    def step(number: int) -> None:
        if sys.stderr.isatty():
            print(f"\r{what}: step {number}", end="\r", file=sys.stderr, flush=True)

    return step
