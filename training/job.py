"""The job: what to train and how. One dataclass whose fields are at once the command line of a rank, the launcher's flags,
the fields of the launch form and the record in the run directory.
"""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Sequence
from dataclasses import Field, dataclass, field, fields
from typing import Any

from training import registry


class JobError(ValueError):
    """A job that cannot be run; the text names the flag and what to write instead."""


def _setting(default: Any, help: str, *, folder: str = "", low: float | None = None) -> Any:
    return field(default=default, metadata={"help": help, "folder": folder, "low": low})


@dataclass(frozen=True)
class Job:
    """One training job. Field metadata: `help`; `folder` of the registry for a choice; `low`, the smallest value allowed."""

    sync: str = _setting("ddp", "how the ranks synchronise their gradients", folder="sync")
    model: str = _setting("lenet5", "the model", folder="models")
    dataset: str = _setting("digits", "the data set", folder="datasets")
    epochs: int = _setting(0, "epochs to train (1, unless --steps is given)", low=0)
    steps: int = _setting(0, "train this many iterations instead of whole epochs", low=0)
    batch_size: int = _setting(64, "global batch size, split over the ranks", low=1)
    lr: float = _setting(0.1, "learning rate of SGD", low=0)
    momentum: float = _setting(0.0, "momentum of SGD", low=0)
    weight_decay: float = _setting(0.0, "weight decay of SGD", low=0)
    seed: int = _setting(42, "seed of the model and of the order of the samples", low=0)
    data_dir: str = _setting("~/.cache/rankboard/data", "folder of the data sets' files on the nodes")
    verify_data: bool = _setting(True, "refuse data files whose checksum differs from the published one")
    log_every: int = _setting(20, "print a line every so many iterations", low=1)

    def __post_init__(self) -> None:
        for setting in fields(self):
            _check(setting, getattr(self, setting.name))
        if self.epochs and self.steps:
            raise JobError("--epochs and --steps exclude each other: give one of them")

    def argv(self) -> tuple[str, ...]:
        """The arguments of `python -m training` that say this job: every field, defaults too."""
        words: list[str] = []
        for setting in fields(self):
            value = getattr(self, setting.name)
            if setting.type == "bool":
                words.append(flag(setting) if value else flag(setting).replace("--", "--no-", 1))
            else:
                words += [flag(setting), str(value)]
        return tuple(words)

    def command_line(self) -> str:
        """The command of one rank, as a person would type it."""
        return shlex.join(("python", "-m", "training", *self.argv()))

    @classmethod
    def parse(cls, argv: Sequence[str]) -> Job:
        """The job of the arguments of `python -m training`. Ends the process with a usage message where they are none."""
        parser = argparse.ArgumentParser("python -m training", description="Train as one rank, under torchrun or rankboard.")
        for setting in fields(cls):
            kind = TYPES[str(setting.type)]
            if kind is bool:
                options: dict[str, Any] = {"action": argparse.BooleanOptionalAction}
            else:
                options = {"type": kind, "metavar": setting.name.upper()}
            parser.add_argument(flag(setting), default=setting.default, help=help_text(setting), **options)
        try:
            return cls(**vars(parser.parse_args(argv)))
        except (JobError, registry.UnknownName) as error:
            parser.error(str(error))


TYPES: dict[str, type[Any]] = {"str": str, "int": int, "float": float, "bool": bool}
"""The types that a job's field may have, by the text of its annotation."""


def flag(setting: Field[Any]) -> str:
    """The command-line flag of a field of `Job`."""
    return "--" + setting.name.replace("_", "-")


def choices(setting: Field[Any]) -> tuple[str, ...]:
    """What a field of `Job` may be, where that is a choice; else nothing."""
    folder = setting.metadata["folder"]
    return registry.names(folder) if folder else ()


def help_text(setting: Field[Any]) -> str:
    """The help of a field of `Job`, with its choices."""
    known = choices(setting)
    return f"{setting.metadata['help']}: {', '.join(known)}" if known else str(setting.metadata["help"])


def _check(setting: Field[Any], value: Any) -> None:
    if setting.metadata["folder"]:
        registry.check(setting.metadata["folder"], value)
    if isinstance(value, int) and value >= 2**32:
        raise JobError(f"{flag(setting)} {value}: must be less than 2**32")
    low = setting.metadata["low"]
    if low is not None and not value >= low:
        raise JobError(f"{flag(setting)} {value}: must be at least {low}")
