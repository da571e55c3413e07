"""What a user can do about a problem, as a value with fields. It is put into words where it is
shown."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Remedy(StrEnum):
    """What helps."""

    RUN_COMMAND = "run command"
    EXCLUDE_HOST = "exclude host"
    END_PROGRAMS = "end other programs"
    CONTINUE_RANK = "continue rank"
    SHOW_STACKS = "show stacks"
    LOWER_LR = "lower learning rate"
    OTHER_LR = "other learning rate"
    FEWER_EPOCHS = "fewer epochs"
    LARGER_BATCH = "larger batch"


@dataclass(frozen=True)
class Advice:
    """What helps, and what it gains. Its fields are keys of the summary; those that do not belong
    to its remedy have their defaults."""

    remedy: Remedy
    host: str = ""
    """The host that is left out, or on which something is to be done."""
    command: str = ""
    """What is to be typed, where a check has said it."""
    rank: int = -1
    """The rank that a signal has stopped; -1 if none has."""
    step_seconds: float = 0.0
    """About how long a step takes then; 0 if that is not known."""
    lr: float = 0.0
    """The learning rate of the run; 0 if it is not known."""
    usual_lr: float = 0.0
    """The default learning rate of its model; 0 if it is not known."""
    best_epoch: int = 0
    """The epoch after which the test loss has only risen; 0 of a script that does not tell it."""
    best_step: int = 0
    """The same as a step."""
    batch_size: int = 0
    """The global batch size of the run; 0 if another one would not help."""

    @property
    def is_usual_lr_lower(self) -> bool:
        """Return True if the default learning rate is known, and lower than that of the run."""
        return 0 < self.usual_lr < self.lr

    @property
    def setting(self) -> tuple[str, float | None]:
        """Return the setting of a new run that should be another one, and a value to try; "" if no
        setting helps, None if no value is known to be better."""
        match self.remedy:
            case Remedy.LOWER_LR if self.is_usual_lr_lower:
                return "lr", self.usual_lr
            case Remedy.LOWER_LR if self.lr > 0:
                return "lr", float(f"{self.lr / 10:.2g}")
            case Remedy.LOWER_LR | Remedy.OTHER_LR:
                return "lr", None
            case Remedy.FEWER_EPOCHS if self.best_epoch:
                return "epochs", self.best_epoch
            case Remedy.LARGER_BATCH:
                return "batch_size", 2 * self.batch_size
        return "", None
