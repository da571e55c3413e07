"""From where a run that has ended can go on, as a value with fields. Lists of runs read it, too."""

from __future__ import annotations

from typing import NamedTuple

from remote.format import count


class ResumePoint(NamedTuple):
    """The newest checkpoint of a run."""

    checkpoint: int
    """Its step."""
    last_step: int
    """The last step that all ranks made."""

    @property
    def lost_steps(self) -> int:
        """Return how many steps the run had made since."""
        return max(0, self.last_step - self.checkpoint)

    @property
    def text(self) -> str:
        """In words, such as "resume from checkpoint 2415 (5 steps lost)"."""
        lost_text = f" ({count(self.lost_steps, 'step')} lost)" if self.lost_steps else ""
        return f"{self.short_text}{lost_text}"

    @property
    def short_text(self) -> str:
        """In fewer words: "resume from checkpoint 2415"."""
        return f"resume from checkpoint {self.checkpoint}"
