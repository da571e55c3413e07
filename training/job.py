"""The job: what to train and how. One dataclass whose fields are at once the command line of a
rank, the launcher's flags, the fields of the launch form and the record in the run directory.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import Field, dataclass, fields, replace
from types import SimpleNamespace
from typing import Any

from training import model_fit, options, registry, traits
from training.mistake import WRITE_NUMBER, Mistake, MistakeError
from training.setting import TRAINED, Effect, Shown, declare_setting, explain_value
from training.traits import Traits


class JobError(MistakeError):
    """A job that cannot be run."""


@dataclass(frozen=True)
class Job:
    """One training job; None means that a setting is not given. `training.setting` says what a
    field may say of itself."""

    sync: str = declare_setting(
        "ddp",
        "how ranks synchronise their gradients",
        folder="sync",
        group="method",
        effect=Effect.METHOD,
        shown=Shown.IN_REPORTS,
    )
    sync_option: tuple[str, ...] = declare_setting(
        (),
        "an option of the sync method, such as bucket_mb=10 (repeatable)",
        metavar="KEY=VALUE",
        effect=Effect.METHOD,
    )
    model: str = declare_setting(
        "lenet5",
        "network to train; lenet5 is small and quick",
        folder="models",
        group="model and data set",
        shown=Shown.ALWAYS,
    )
    dataset: str = declare_setting(
        "digits",
        "images to train on; digits needs no download",
        folder="datasets",
        shown=Shown.ALWAYS,
    )
    epochs: int | None = declare_setting(
        None,
        "number of epochs (default: 1, unless --steps is given)",
        low=1,
        group="optimisation",
        effect=Effect.LENGTH,
        shown=Shown.ALWAYS,
    )
    steps: int | None = declare_setting(
        None,
        "number of iterations, instead of whole epochs",
        low=1,
        effect=Effect.LENGTH,
        shown=Shown.ALWAYS,
    )
    batch_size: int = declare_setting(
        64,
        "global batch size, split over the ranks",
        low=1,
        effect=Effect.BATCH,
        shown=Shown.ALWAYS,
    )
    accumulate: int = declare_setting(
        1, "number of global batches per optimiser step and synchronisation", low=1
    )
    lr: float = declare_setting(
        0.1,
        "learning rate of SGD; with vgg11 the default is 0.01",
        low=0,
        effect=Effect.OPTIMISER,
        shown=Shown.ALWAYS,
    )
    momentum: float = declare_setting(
        0.0, "momentum of SGD", low=0, effect=Effect.OPTIMISER, shown=Shown.IN_REPORTS
    )
    weight_decay: float = declare_setting(
        0.0, "weight decay of SGD", low=0, effect=Effect.OPTIMISER, shown=Shown.IN_REPORTS
    )
    seed: int = declare_setting(
        42,
        "random seed of the weights, the order of the samples and --limit",
        low=0,
        effect=Effect.REPETITION,
        shown=Shown.IN_REPORTS,
    )
    batch_norm: str = declare_setting(
        "broadcast",
        "how ranks share BatchNorm's running statistics",
        choices=("broadcast", "local", "sync", "untracked"),
        group="computation",
        shown=Shown.IN_REPORTS,
    )
    precision: str = declare_setting(
        "fp32",
        "number format for computing and for sending gradients",
        choices=("fp32", "bf16"),
        shown=Shown.IN_REPORTS,
    )
    compile: bool = declare_setting(False, "compile the model with torch.compile")
    data_dir: str = declare_setting(
        "~/.cache/rankboard/data",
        "folder with the data sets on each host",
        group="data files",
        metavar="PATH",
        effect=Effect.NOTHING,
    )
    verify_data: bool = declare_setting(
        True,
        "refuse data files whose checksum differs from the published one",
        effect=Effect.NOTHING,
    )
    limit: int = declare_setting(
        0, "use only N images of each split, chosen by --seed (0: all)", low=0
    )
    partition: str = declare_setting(
        "iid", "how the training images are split over the ranks", choices=("iid", "by_label")
    )
    image_size: int = declare_setting(
        0,
        "resize images to N x N pixels (0: keep their size; imagefolder: 64, or a size that the "
        "model takes)",
        low=0,
        high=model_fit.LARGEST_SIDE,
    )
    log_every: int = declare_setting(
        20,
        "print a line and compare the ranks' models every N steps",
        low=1,
        group="log and checkpoints",
        effect=Effect.LOG,
    )
    log_format: str = declare_setting(
        "short",
        "format of the ranks' lines; reference: as in the exercises of PyTorch courses",
        choices=("short", "reference"),
        effect=Effect.NOTHING,
    )
    checkpoint_every: str = declare_setting(
        "",
        "save a checkpoint every N iterations or every epoch",
        metavar="N|epoch",
        effect=Effect.CHECKPOINTS,
    )
    checkpoint_keep: int = declare_setting(
        3, "number of checkpoints to keep", low=1, effect=Effect.CHECKPOINTS
    )
    resume: str = declare_setting(
        "",
        "continue from the last checkpoint of this run: its name, last, or a checkpoint folder on "
        "the hosts",
        metavar="RUN",
        effect=Effect.CHECKPOINTS,
    )

    def __post_init__(self) -> None:
        mistakes = find_mistakes(vars(self))
        if mistakes:
            raise JobError(*mistakes)

    def sync_options(self) -> SimpleNamespace:
        """Return the values of the sync method's options. Raises: JobError."""
        try:
            return options.parse_options(options.declared_options(self.sync), self.sync_option)
        except options.OptionError as error:
            raise JobError(_mistake_in_option(self.sync, error)) from None

    def traits(self) -> Traits:
        """Return the traits of the sync method with these options."""
        return traits.read_traits(self.sync, self.sync_options())

    @property
    def image_side(self) -> int:
        """Return the side in pixels of the images that the model sees; 0 if it is not known."""
        return model_fit.choose_side(self.model, self.dataset, self.image_size)

    def check_world(self, world_size: int) -> None:
        """Check that the settings fit each other and that many ranks. Raises: JobError."""
        mistakes: list[Mistake] = []
        problem = self._model_problem()
        if problem:
            mistakes.append(Mistake(problem=problem, about="--model"))
        ranks = len(self.trainers(world_size))
        if self.batch_size < ranks:
            problem = (
                f"--batch-size {self.batch_size} is smaller than the {ranks} ranks that share it"
            )
            hint = f"give at least {ranks}, or use fewer ranks"
            mistakes.append(Mistake(problem=problem, hint=hint, about="--batch-size"))
        option_values = self.sync_options()
        for option in options.declared_options(self.sync):
            try:
                option.check(option_values, world_size)
            except options.OptionError as error:
                mistakes.append(_mistake_in_option(self.sync, error))
        if self.batch_norm == "sync" and ranks > 1 and self.traits().stale:
            problem = (
                "--batch-norm sync makes the ranks wait for each other in every layer, but with "
                f"these options --sync {self.sync} lets no rank wait"
            )
            hint = "choose broadcast, local or untracked"
            mistakes.append(Mistake(problem=problem, hint=hint, about="--batch-norm"))
        if mistakes:
            raise JobError(*mistakes)

    def _model_problem(self) -> str:
        """Say why there is no such model, or why it does not take the images. Return "" if all is
        well."""
        module_name, argument = registry.split_name("models", self.model)
        if module_name == "torchvision":
            problem = model_fit.explain_unknown_torchvision_model(*argument)
            if problem:
                return problem
        return model_fit.explain_wrong_side(self.model, self.image_side)

    def trainers(self, world_size: int) -> list[int]:
        """Return the ranks that take samples; the others serve them."""
        traits = self.traits()
        return [rank for rank in range(world_size) if traits.trains(rank)]

    def total_steps(self, steps_per_epoch: int) -> int:
        """Return the steps of the whole run; 0 if neither they nor those of an epoch are known."""
        return self.steps or (self.epochs or 1) * steps_per_epoch

    def argv(self) -> tuple[str, ...]:
        """Return the arguments of `python -m training` for this job: every setting that is given,
        with defaults."""
        return self._flag_words(fields(self))

    def command_line(self) -> str:
        """Return the command of one rank as a person would type it: the model, the data set, the
        sync method, and every setting that is not the default."""
        changed_names = self.changed()
        shown_settings = [
            setting
            for setting in fields(self)
            if setting.metadata["folder"] or setting.name in changed_names
        ]
        return shlex.join(("python", "-m", "training", *self._flag_words(shown_settings)))

    def flags(self, names: Collection[str] | None = None) -> tuple[str, ...]:
        """Return the flags of these settings, else of those that are not the defaults, with their
        values."""
        chosen_names = self.changed() if names is None else names
        return self._flag_words(setting for setting in fields(self) if setting.name in chosen_names)

    def changed(self) -> set[str]:
        """Return the names of the settings that are not the defaults."""
        defaults = {setting.name: setting.default for setting in fields(self)}
        defaults["lr"] = usual_lr(self.model)
        return {name for name, value in vars(self).items() if value != defaults[name]}

    def _flag_words(self, settings: Iterable[Field[Any]]) -> tuple[str, ...]:
        """Return the flags of these settings, with their values."""
        flag_words: list[str] = []
        for setting in settings:
            value = getattr(self, setting.name)
            if value is None:
                continue
            if setting.type == SEVERAL:
                flag_words += [word for item in value for word in (flag(setting), item)]
            elif setting.type == "bool":
                flag_words.append(flag(setting) if value else negative_flag(setting))
            else:
                flag_words += [flag(setting), str(value)]
        return tuple(flag_words)

    def differs(self, other: Job) -> bool:
        """Return True if two jobs differ in what they train, apart from how long."""
        return any(
            getattr(self, name) != getattr(other, name) for name in names_by_effect(*TRAINED)
        )

    @classmethod
    def of(cls, given: Mapping[str, Any]) -> Job:
        """Make the job of flags as a parser gives them: lists, and None for a flag that is not
        given. The default of the learning rate is the model's. Raises: JobError."""
        field_values: dict[str, Any] = {}
        for name, value in given.items():
            if value is not None:
                field_values[name] = tuple(value) if isinstance(value, list) else value
        with suppress(registry.UnknownName):  # the job says it, with what else is wrong
            field_values.setdefault("lr", usual_lr(field_values.get("model", cls.model)))
        return cls(**field_values)

    @classmethod
    def parse(cls, argv: Sequence[str]) -> Job:
        """Make the job of the arguments of `python -m training`. End the process with a usage
        message if they are wrong."""
        import argparse  # here, as only ranks parse such arguments

        parser = argparse.ArgumentParser(
            "python -m training", description="Train as one rank, under torchrun or rankboard."
        )
        for setting in fields(cls):
            field_type = TYPES[str(setting.type)]
            action: dict[str, Any] = {"action": argparse.BooleanOptionalAction}
            if field_type is not bool:
                action = {"metavar": setting.name.upper(), "type": _argument_type(field_type)}
            if field_type is tuple:
                action |= {"action": "append", "type": str}
            # argparse formats the help with %.
            argument_help = help_text(setting).replace("%", "%%")
            parser.add_argument(flag(setting), help=argument_help, **action)
        given_values = vars(parser.parse_args(argv))
        try:
            return cls.of(given_values)
        except (JobError, registry.UnknownName) as error:
            parser.error(str(error))


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


def _argument_type(kind: type[Any]) -> Callable[[str], Any]:
    """Return what reads a value of this type for argparse."""

    def read_value(text: str) -> Any:
        try:
            return kind(text)
        except ValueError:
            from argparse import ArgumentTypeError

            raise ArgumentTypeError(f"{text}: {WRITE_NUMBER[kind]}") from None

    return read_value if kind in WRITE_NUMBER else kind


def usual_lr(model: str) -> float:
    """Return the learning rate of a model where the user gives none. Raises: UnknownName."""
    return float(registry.read_constant("models", model, "LR", Job.lr))


def flag(setting: Field[Any]) -> str:
    """Return the command-line flag of a field of `Job`."""
    return "--" + setting.name.replace("_", "-")


def flags_of(names: Collection[str]) -> tuple[str, ...]:
    """Return the command-line flags of the fields of `Job` with these names."""
    return tuple(flag(setting) for setting in fields(Job) if setting.name in names)


def negative_flag(setting: Field[Any]) -> str:
    """Return the flag that turns a field of type bool off."""
    return flag(setting).replace("--", "--no-", 1)


def names_by_effect(*effects: Effect) -> tuple[str, ...]:
    """Return the names of the settings that change one of these."""
    return tuple(setting.name for setting in fields(Job) if setting.metadata["effect"] in effects)


def field_groups() -> dict[str, tuple[Field[Any], ...]]:
    """Return the fields of `Job`, by the names of their groups."""
    groups: dict[str, tuple[Field[Any], ...]] = {}
    group_name = ""
    for setting in fields(Job):
        group_name = setting.metadata["group"] or group_name
        groups[group_name] = (*groups.get(group_name, ()), setting)
    return groups


def choices_of(setting: Field[Any]) -> tuple[str, ...]:
    """Return the choices of a field of `Job`; none where any value will do."""
    folder = setting.metadata["folder"]
    return registry.list_names(folder) if folder else tuple(setting.metadata["choices"])


def help_text(setting: Field[Any]) -> str:
    """Return the help of a field of `Job`, with its choices."""
    help_line = str(setting.metadata["help"])
    known_choices = choices_of(setting)
    return f"{help_line}: {', '.join(known_choices)}" if known_choices else help_line


def find_mistakes(values: Mapping[str, Any]) -> list[Mistake]:
    """Find all mistakes in these settings of a job, by the names of their fields; None is not
    given. Without a sync method an option may be that of any."""
    given_values = {name: value for name, value in values.items() if value is not None}
    mistakes: list[Mistake] = []
    for setting in fields(Job):
        if setting.name in given_values:
            mistakes += _mistakes_in_setting(setting, given_values[setting.name])
    if given_values.get("epochs") and given_values.get("steps"):
        problem = "--epochs and --steps exclude each other"
        mistakes.append(Mistake(problem=problem, hint="give one of them", about="--epochs"))
    method_name = str(given_values.get("sync", ""))
    errors = options.find_errors(method_name, given_values.get("sync_option", ()))
    known_method = method_name if method_name in registry.list_names("sync") else ""
    return mistakes + [_mistake_in_option(known_method, error) for error in errors]


def check_setting(setting: Field[Any], value: Any) -> None:
    """Check a value against the metadata of its field. Raises: JobError."""
    mistakes = _mistakes_in_setting(setting, value)
    if mistakes:
        raise JobError(*mistakes)


def _mistakes_in_setting(setting: Field[Any], value: Any) -> list[Mistake]:
    """Return the mistake in the value of a setting, if there is one."""
    problem, hint = explain_value(setting, value)
    return [Mistake(flag(setting), str(value), problem, hint)] if problem or hint else []


def _mistake_in_option(method: str, error: options.OptionError) -> Mistake:
    """Describe a mistake in an option of a sync method."""
    method_flag = f"--sync {method} " if method else ""
    return replace(error.mistakes[0], flag=f"{method_flag}--sync-option")
