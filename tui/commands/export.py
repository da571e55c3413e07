"""`rankboard export`: what a run measured, as files for other programs."""

from __future__ import annotations

import os
from collections.abc import Callable
from enum import StrEnum
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from remote.record.layout import PLAN
from training.wire.jsonl import dumps
from tui.flags.common import RUNS, RunsDir
from tui.flags.recorded import folder_of
from tui.flags.run_completion import complete_runs
from tui.kit.exit import UsageError, refusing, to_install
from tui.kit.narrate import echo, narrate
from tui.kit.output_folder import OutputFolder

if TYPE_CHECKING:
    from remote.metrics.run import RunFigures


class Format(StrEnum):
    """A format that a run can be exported to, as its module in `tui.export` is called."""

    TENSORBOARD = "tensorboard"
    CSV = "csv"
    PARQUET = "parquet"
    NUMPY = "numpy"
    JSON = "json"


OPTIONAL = ("tensorboardX", "pyarrow")
"""Packages that the extra `export` installs."""


def export(
    runs: Annotated[
        list[str],
        Parameter(
            name="RUN",
            help="the names of runs, their beginnings, or last for the newest run",
            completer=complete_runs,
        ),
    ],
    /,
    *,
    to: Annotated[
        Format,
        Parameter(
            metavar="FORMAT",
            help="the format of the files: tensorboard, csv, parquet, numpy, json",
        ),
    ],
    out: Annotated[
        Path | None,
        Parameter(metavar="PATH", help="the folder for the files (default: exports/FORMAT)"),
    ] = None,
    force: Annotated[bool, Parameter(help="replace what was exported there before")] = False,
    json: Annotated[
        bool, Parameter(help="print one JSON object per run, with the path of its files")
    ] = False,
    runs_dir: RunsDir = RUNS,
) -> None:
    """Export what recorded runs measured: each rank's series and their mean over ranks.

    Each run gets a folder with its name, or with json a file. In tensorboard, several runs are
    overlaid in one figure. tensorboard needs tensorboardX, parquet needs pyarrow.

    Examples:
      rankboard export last --to csv
      rankboard export 20261123-0931 last --to tensorboard
      tensorboard --logdir exports/tensorboard

    Exit codes:
      0  all runs were exported
      2  the command line is wrong, a run cannot be read, or a file cannot be written
    """
    with refusing():
        folders = [folder_of(run, runs_dir) for run in runs]
        # Before anything is read, as a package may be missing.
        write_run = _load_writer(to)
        output_folder = OutputFolder(out or Path("exports") / to.value, "export")
        # For all runs before any is written, so that a mistake in one exports none.
        target_names = [_choose_target(folder, output_folder, to, force) for folder in folders]
        from remote.metrics.run import read_figures  # which needs numpy, as few commands do

        for folder, name in zip(folders, target_names, strict=True):
            # TensorBoard draws no more than a sample of many steps anyway.
            figures = read_figures(folder, narrate, keeps_all=to is not Format.TENSORBOARD)
            _export_run(figures, write_run, output_folder, name)
            target_path = output_folder.path / name
            echo(dumps({"run": folder.name, "path": str(target_path)}) if json else target_path)


def _load_writer(to: Format) -> Callable[[RunFigures, Path], None]:
    """What writes a format. Raises: UsageError, where a package is missing."""
    try:
        write_run: Callable[[RunFigures, Path], None] = import_module(
            f"tui.export.{to.value}"
        ).write
    except ModuleNotFoundError as error:
        package_name = (error.name or "").partition(".")[0]
        # Any other missing module is a fault of ours, which a traceback shows.
        if package_name not in OPTIONAL:
            raise
        raise UsageError(
            f"--to {to.value} needs the package {package_name}, which is not installed:\n"
            f"{to_install('export')}"
        ) from None
    return write_run


def _choose_target(folder: Path, output_folder: OutputFolder, to: Format, force: bool) -> str:
    """The name of the folder or file that a run goes to. Raises: UsageError, where that may not be
    written."""
    target_name = f"{folder.name}.json" if to is Format.JSON else folder.name
    target = output_folder.path / target_name
    # A run's own folder would be replaced by what was exported of it.
    if (target / PLAN).exists():
        raise UsageError(f"{target} is the directory of a run: give another folder with --out")
    # A link that leads nowhere does not exist, but is in the way as well.
    if os.path.lexists(target):
        if not force:
            raise UsageError(f"{target} exists: replace it with --force, or give another --out")
        output_folder.check_below(target_name)
    return target_name


def _export_run(
    run: RunFigures,
    write: Callable[[RunFigures, Path], None],
    output_folder: OutputFolder,
    name: str,
) -> None:
    """Write a run whole, or not at all. Raises: UsageError."""
    target_path = output_folder.path / name
    try:
        output_folder.path.mkdir(parents=True, exist_ok=True)
        # In the same folder, so that it can be renamed: that is whole, or does not happen.
        with TemporaryDirectory(prefix=f".{name}.", dir=output_folder.path) as temporary_folder:
            partial_path = Path(temporary_folder) / name
            write(run, partial_path)
            output_folder.check_below(name)
            output_folder.remove_below(name)
            output_folder.note(
                OutputFolder(Path(temporary_folder), output_folder.command).files_of(name)
            )
            partial_path.replace(target_path)
    except OSError as error:
        raise UsageError(f"cannot write {target_path}: {error.strerror or error}") from error
