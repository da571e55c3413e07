"""What all ranks together came to in an epoch: one line of the log."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from remote.format import loss, percent
from training.wire.rank_events import Epoch, Evaluated

COLUMN_GAP = "  "
"""Between the columns of a line."""
MOST_PENDING = 8
"""Epochs that ranks may be in at the same time; beyond, the oldest one is given up."""


@dataclass
class EpochSums:
    """The sums over the ranks that have finished an epoch."""

    epoch: int
    step: int = 0
    """After which it ended."""
    ranks: int = 0
    loss: float = 0.0
    accuracy: float = 0.0
    seconds: float = 0.0
    """The most that a rank took: the others waited for it."""

    def add(self, epoch: Epoch) -> None:
        """Take in that one more rank has finished it."""
        self.step = max(self.step, epoch.step)
        self.ranks += 1
        self.loss += epoch.loss
        self.accuracy += epoch.accuracy
        self.seconds = max(self.seconds, epoch.seconds)


@dataclass
class EpochTally:
    """The epochs that some ranks have finished and that no line was written of yet."""

    pending: dict[int, EpochSums] = field(default_factory=dict)
    last_step: int = 0
    """After which the epoch of the last line ended."""

    def add(self, epoch: Epoch) -> None:
        """Take in that a rank has finished an epoch."""
        self.pending.setdefault(epoch.epoch, EpochSums(epoch.epoch)).add(epoch)
        if len(self.pending) > MOST_PENDING:
            del self.pending[min(self.pending)]

    def pop_finished(self, ranks: int, is_complete: Callable[[EpochSums], bool]) -> list[EpochSums]:
        """Return the epochs that so many ranks have finished and of which all is known, each once,
        in order."""
        finished = [
            sums
            for _, sums in sorted(self.pending.items())
            if sums.ranks >= ranks and is_complete(sums)
        ]
        for sums in finished:
            del self.pending[sums.epoch]
        return finished

    def rewind(self, step: int) -> None:
        """Take in that the ranks go on after this step: epochs that only some finished begin
        anew."""
        self.pending.clear()
        self.last_step = min(self.last_step, step)


def epoch_line(sums: EpochSums, epochs: int, test: Evaluated | None, checkpoint: int) -> str:
    """Return the line of an epoch, its columns in line with those of the other epochs.

    `checkpoint`: the step of the newest one of this epoch, or 0.
    """
    parts = [
        f"epoch {sums.epoch:>{len(str(epochs))}} done",
        f"loss {loss(sums.loss / sums.ranks):<6} {percent(sums.accuracy / sums.ranks):>4}",
    ]
    if test:
        parts.append(f"test {loss(test.loss):<6} {percent(test.accuracy, 1):>5}")
    parts.append(f"{sums.seconds:.1f} s")
    if checkpoint:
        parts.append(f"ckpt {checkpoint}")
    return COLUMN_GAP.join(parts)
