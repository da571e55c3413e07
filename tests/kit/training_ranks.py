"""What ranks have said and how they ended, with files in place of an agent's pipes."""

from __future__ import annotations

import os
import signal
from pathlib import Path

from remote.events import expand
from training.wire.events import Event, Record
from training.wire.host_events import OutputText
from training.wire.rank_events import Evaluated, StepFinished

ROOT = Path(__file__).parents[2]
DEADLINE = 60.0


def alive(pid: int) -> bool:
    """Whether the process exists and is no zombie."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


class Ranks:
    """The ranks of one run: their output, events, pids and exit statuses, each as far as it has
    come."""

    def __init__(self, folder: Path, world: int) -> None:
        self.folder, self.world = folder, world

    def pids(self) -> dict[int, int]:
        return self._said("pid")

    def exits(self) -> dict[int, int]:
        return self._said("exit")

    def out(self, rank: int) -> str:
        return (self.folder / f"{rank}.out").read_text()

    def err(self, rank: int) -> str:
        return (self.folder / f"{rank}.err").read_text()

    def events(self, rank: int) -> list[Event]:
        """What the rank said: events, and text between them."""
        record = Record(0, 0, 0, 0.0, OutputText(rank, "stdout", self.out(rank).removesuffix("\n")))
        return [record.event for record in expand(record)]

    def steps(self, rank: int) -> list[StepFinished]:
        return [event for event in self.events(rank) if isinstance(event, StepFinished)]

    def evaluated(self, rank: int) -> list[Evaluated]:
        return [event for event in self.events(rank) if isinstance(event, Evaluated)]

    def _said(self, word: str) -> dict[int, int]:
        lines = (self.folder / "report").read_text().splitlines()
        return {
            int(rank): int(value) for said, rank, value in map(str.split, lines) if said == word
        }


def kill(pid: int, number: signal.Signals = signal.SIGKILL) -> None:
    os.kill(pid, number)
