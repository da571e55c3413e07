"""The job: what to train and how. One dataclass whose fields are at once the command line of a
rank, the launcher's flags, the fields of the launch form and the record in the run directory.
"""

from __future__ import annotations

import argparse
import math
import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import Field, dataclass, field, fields
from types import SimpleNamespace
from typing import Any

from training import options, registry, torchvision_names, traits
from training.traits import Traits

MOST_PIXELS = 4096
"""Of a side of an image."""


class JobError(ValueError):
    """A job that cannot be run; the text names the flag and what to write instead."""


def _setting(
    default: Any,
    help: str,
    *,
    folder: str = "",
    choices: tuple[str, ...] = (),
    low: float | None = None,
    high: float = 2**32 - 1,
    group: str = "",
    metavar: str = "",
) -> Any:
    metadata = {
        "help": help,
        "folder": folder,
        "choices": choices,
        "low": low,
        "high": high,
        "group": group,
        "metavar": metavar,
    }
    return field(default=default, metadata=metadata)


@dataclass(frozen=True)
class Job:
    """One training job; None means that a setting is not given. Field metadata: `help`; `folder` of
    the registry, or `choices`, for a choice; `low` and `high`, the least and the greatest number
    allowed; `group`, on a field that begins a group of them; `metavar`, what the help shows for a
    value that is not a plain name or number."""

    sync: str = _setting(
        "ddp", "how ranks synchronise their gradients", folder="sync", group="training"
    )
    sync_option: tuple[str, ...] = _setting(
        (), "an option of the sync method, such as bucket_mb=10 (repeatable)", metavar="KEY=VALUE"
    )
    model: str = _setting("lenet5", "the model", folder="models")
    dataset: str = _setting("digits", "the data set", folder="datasets")
    epochs: int | None = _setting(
        None, "number of epochs (default: 1, unless --steps is given)", low=1
    )
    steps: int | None = _setting(None, "number of iterations, instead of whole epochs", low=1)
    batch_size: int = _setting(64, "global batch size, split over the ranks", low=1)
    accumulate: int = _setting(
        1, "make one optimiser step and one exchange per N global batches", low=1
    )
    lr: float = _setting(0.1, "learning rate of SGD; with vgg11 the default is 0.01", low=0)
    momentum: float = _setting(0.0, "momentum of SGD", low=0)
    weight_decay: float = _setting(0.0, "weight decay of SGD", low=0)
    seed: int = _setting(
        42, "random seed of the weights, the order of the samples and a subset", low=0
    )
    batch_norm: str = _setting(
        "broadcast",
        "how ranks share BatchNorm's running statistics",
        choices=("broadcast", "local", "sync", "untracked"),
        group="computation",
    )
    precision: str = _setting(
        "fp32",
        "number format of the computation and of the gradients sent",
        choices=("fp32", "bf16"),
    )
    compile: bool = _setting(False, "compile the model with torch.compile")
    data_dir: str = _setting(
        "~/.cache/rankboard/data",
        "folder with the data sets on each host",
        group="data",
        metavar="PATH",
    )
    verify_data: bool = _setting(
        True, "refuse data files whose checksum differs from the published one"
    )
    limit: int = _setting(
        0, "train on a random subset of N images, and test on as many (0: all)", low=0
    )
    partition: str = _setting(
        "iid", "how the training images are split over the ranks", choices=("iid", "by_label")
    )
    image_size: int = _setting(
        0,
        "resize images to N x N pixels (0: keep their size; for an imagefolder 64, or what the "
        "model takes)",
        low=0,
        high=MOST_PIXELS,
    )
    log_every: int = _setting(
        20,
        "print a line, and compare the ranks' models, every N steps of the run",
        low=1,
        group="log and checkpoints",
    )
    log_format: str = _setting(
        "short",
        "format of the ranks' lines; reference is that of PyTorch courses",
        choices=("short", "reference"),
    )
    checkpoint_every: str = _setting(
        "", "save a checkpoint every N iterations or every epoch", metavar="N|epoch"
    )
    checkpoint_keep: int = _setting(3, "keep the N newest checkpoints", low=1)
    resume: str = _setting(
        "",
        "continue from the last checkpoint of this run: its name, last, or a checkpoint folder on "
        "the hosts",
        metavar="RUN",
    )

    def __post_init__(self) -> None:
        for setting in fields(self):
            _check(setting, getattr(self, setting.name))
        if self.epochs and self.steps:
            raise JobError("--epochs and --steps exclude each other: give one of them")
        if self.checkpoint_every not in ("", "epoch") and not (
            self.checkpoint_every.isdecimal() and int(self.checkpoint_every)
        ):
            raise JobError(
                f"--checkpoint-every {self.checkpoint_every}: write a number of iterations, at "
                "least 1, or epoch"
            )
        self.sync_options()

    def sync_options(self) -> SimpleNamespace:
        """The values of the sync method's options. Raises: JobError."""
        try:
            return options.parse(options.declared(self.sync), self.sync_option)
        except options.OptionError as error:
            raise JobError(f"--sync {self.sync} --sync-option {error}") from None

    def traits(self) -> Traits:
        """The traits of the sync method with these options."""
        return traits.read(self.sync, self.sync_options())

    @property
    def image_side(self) -> int:
        """Pixels of a side of the images that the model sees; 0 where that is not known."""
        own = registry.declared("datasets", self.dataset, "IMAGE_SIZE", 0)
        if self.image_size or own:
            return self.image_size or int(own)
        wanted = int(registry.declared("datasets", self.dataset, "DEFAULT_SIZE", 0))
        low, high = self._image_sizes
        return wanted if low <= wanted <= high else low

    @property
    def _image_sizes(self) -> tuple[int, int]:
        """The smallest and the largest side of the images that the model takes."""
        sizes = registry.declared("models", self.model, "IMAGE_SIZES", (0, 0))
        if isinstance(sizes, dict):
            name = registry.split("models", self.model)[1][0]
            sizes = next((sizes[begin] for begin in sizes if name.startswith(begin)), (0, 0))
        low, high = sizes
        return low, high or MOST_PIXELS

    def _check_model(self) -> None:
        """Raises: JobError, where there is no such model, or it does not take the images."""
        model, argument = registry.split("models", self.model)
        if model == "torchvision" and (problem := torchvision_names.problem(*argument)):
            raise JobError(problem)
        side, (low, high) = self.image_side, self._image_sizes
        if not side or low <= side <= high:
            return
        takes = f"{low}x{low} " + (
            "and larger" if high == MOST_PIXELS else f"to {high}x{high}" if high > low else ""
        )
        raise JobError(
            f"--model {self.model} cannot take images of {side}x{side}: it takes "
            f"{takes.rstrip()}; give --image-size {low}"
        )

    def check_world(self, world_size: int) -> None:
        """Raises: JobError, where the job's parts do not fit each other, or that many ranks."""
        self._check_model()
        if self.batch_size < (sharing := len(self.trainers(world_size))):
            raise JobError(
                f"--batch-size {self.batch_size} is smaller than the {sharing} ranks that share "
                "it: "
                f"give at least {sharing}, or use fewer ranks"
            )
        try:
            options.check(options.declared(self.sync), self.sync_options(), world_size)
        except options.OptionError as error:
            raise JobError(f"--sync {self.sync} --sync-option {error}") from None
        if self.batch_norm == "sync" and sharing > 1 and self.traits().stale:
            raise JobError(
                "--batch-norm sync makes the ranks wait for each other in every layer, but with "
                f"these options --sync {self.sync} lets no rank wait: choose broadcast, local or "
                "untracked"
            )

    def trainers(self, world_size: int) -> list[int]:
        """The ranks that take samples; one that does not serves those that do."""
        traits = self.traits()
        return [rank for rank in range(world_size) if traits.trains(rank)]

    def argv(self) -> tuple[str, ...]:
        """The arguments of `python -m training` that say this job: every setting that is given,
        defaults too."""
        return self._words(fields(self))

    def command_line(self) -> str:
        """The command of one rank as a person would type it: what it trains, and what is not the
        default."""
        usual = {one.name: one.default for one in fields(self)} | {"lr": usual_lr(self.model)}
        told = [
            one
            for one in fields(self)
            if one.metadata["folder"] or getattr(self, one.name) != usual[one.name]
        ]
        return shlex.join(("python", "-m", "training", *self._words(told)))

    def _words(self, settings: Iterable[Field[Any]]) -> tuple[str, ...]:
        """The flags of these settings."""
        words: list[str] = []
        for setting in settings:
            value = getattr(self, setting.name)
            if value is None:
                continue
            if setting.type == SEVERAL:
                words += [word for item in value for word in (flag(setting), item)]
            elif setting.type == "bool":
                words.append(flag(setting) if value else flag(setting).replace("--", "--no-", 1))
            else:
                words += [flag(setting), str(value)]
        return tuple(words)

    def differs(self, other: Job) -> bool:
        """Whether they train otherwise, apart from how long."""
        mine, theirs = (
            {name: value for name, value in vars(job).items() if name not in INCIDENTAL}
            for job in (self, other)
        )
        return mine != theirs

    @classmethod
    def of(cls, given: Mapping[str, Any]) -> Job:
        """The job of flags as a parser gives them: lists, and None where a flag is left out; the
        learning rate is the model's usual one then. Raises: JobError, UnknownName."""
        said: dict[str, Any] = {}
        for name, value in given.items():
            if value is not None:
                said[name] = tuple(value) if isinstance(value, list) else value
        said.setdefault("lr", usual_lr(said.get("model", cls.model)))
        return cls(**said)

    @classmethod
    def parse(cls, argv: Sequence[str]) -> Job:
        """The job of the arguments of `python -m training`. Ends the process with a usage message
        where they are none."""
        parser = argparse.ArgumentParser(
            "python -m training", description="Train as one rank, under torchrun or rankboard."
        )
        for setting in fields(cls):
            kind = TYPES[str(setting.type)]
            if kind is bool:
                more: dict[str, Any] = {"action": argparse.BooleanOptionalAction}
            else:
                more = {"type": str if kind is tuple else kind, "metavar": setting.name.upper()}
            if kind is tuple:
                more["action"] = "append"
            parser.add_argument(flag(setting), help=help_text(setting).replace("%", "%%"), **more)
        given = vars(parser.parse_args(argv))
        try:
            return cls.of(given)
        except (JobError, registry.UnknownName) as error:
            parser.error(str(error))


INCIDENTAL = {
    "resume",
    "checkpoint_every",
    "checkpoint_keep",
    "log_every",
    "log_format",
    "data_dir",
    "verify_data",
    "epochs",
    "steps",
}
"""The job's settings that change nothing in what is trained."""
SEVERAL = "tuple[str, ...]"
TYPES: dict[str, type[Any]] = {
    "str": str,
    "int": int,
    "int | None": int,
    "float": float,
    "bool": bool,
    SEVERAL: tuple,
}
"""The types that a job's field may have, by the text of its annotation."""


def usual_lr(model: str) -> float:
    """The learning rate that a model is trained with where the user gives none. Raises:
    UnknownName."""
    return float(registry.declared("models", model, "LR", Job.lr))


def flag(setting: Field[Any]) -> str:
    """The command-line flag of a field of `Job`."""
    return "--" + setting.name.replace("_", "-")


def groups() -> dict[str, tuple[Field[Any], ...]]:
    """The fields of `Job`, by the names of their groups."""
    found: dict[str, tuple[Field[Any], ...]] = {}
    for setting in fields(Job):
        name = setting.metadata["group"] or list(found)[-1]
        found[name] = (*found.get(name, ()), setting)
    return found


def choices(setting: Field[Any]) -> tuple[str, ...]:
    """What a field of `Job` may be, where that is a choice; else nothing."""
    folder = setting.metadata["folder"]
    return registry.names(folder) if folder else tuple(setting.metadata["choices"])


def help_text(setting: Field[Any]) -> str:
    """The help of a field of `Job`, with its choices."""
    known = choices(setting)
    return (
        f"{setting.metadata['help']}: {', '.join(known)}"
        if known
        else str(setting.metadata["help"])
    )


def _check(setting: Field[Any], value: Any) -> None:
    low, high, known = (
        setting.metadata["low"],
        setting.metadata["high"],
        setting.metadata["choices"],
    )
    if setting.metadata["folder"]:
        registry.check(setting.metadata["folder"], value)
    if known and value not in known:
        raise JobError(
            f"{flag(setting)} {value}: unknown{registry.did_you_mean(value, known)} (known: "
            f"{', '.join(known)})"
        )
    if isinstance(value, int) and value > high:
        raise JobError(f"{flag(setting)} {value}: must be at most {high}")
    if isinstance(value, float) and not math.isfinite(value):
        raise JobError(f"{flag(setting)} {value}: write a finite number")
    if low is not None and value is not None and not value >= low:
        raise JobError(f"{flag(setting)} {value}: must be at least {low}")
