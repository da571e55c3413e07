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
from tui.flags.common import RUNS, RunsDir
from tui.flags.recorded import folder_of
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
    JSON = "json"


OPTIONAL = ("tensorboardX", "pyarrow")
"""Packages that the extra `export` installs."""


def export(
    runs: Annotated[
        list[str],
        Parameter(
            name="RUN",
            help="the names of runs, their beginnings, or last for the newest run",
        ),
    ],
    /,
    *,
    to: Annotated[
        Format,
        Parameter(
            metavar="FORMAT",
            help="the format of the files: tensorboard, csv, parquet, json",
        ),
    ],
    out: Annotated[
        Path | None,
        Parameter(metavar="PATH", help="the folder for the files (default: exports/FORMAT)"),
    ] = None,
    force: Annotated[bool, Parameter(help="replace what was exported there before")] = False,
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
        write = _writer(to)
        into = OutputFolder(out or Path("exports") / to.value, "export")
        names = [_name(folder, into, to, force) for folder in folders]
        from remote.metrics.run import read_figures  # which needs numpy, as few commands do

        for folder, name in zip(folders, names, strict=True):
            _export(read_figures(folder, narrate), write, into, name)
            echo(into.path / name)


def _writer(to: Format) -> Callable[[RunFigures, Path], None]:
    """What writes a format. Raises: UsageError, where a package is missing."""
    try:
        write: Callable[[RunFigures, Path], None] = import_module(f"tui.export.{to.value}").write
    except ModuleNotFoundError as error:
        package = (error.name or "").partition(".")[0]
        if package not in OPTIONAL:
            raise
        raise UsageError(
            f"--to {to.value} needs the package {package}, which is not installed:\n"
            f"{to_install('export')}"
        ) from None
    return write


def _name(folder: Path, into: OutputFolder, to: Format, force: bool) -> str:
    """The name of the folder or file that a run goes to. Raises: UsageError, where that may not be
    written."""
    name = f"{folder.name}.json" if to is Format.JSON else folder.name
    target = into.path / name
    if (target / PLAN).exists():
        raise UsageError(f"{target} is the directory of a run: give another folder with --out")
    if os.path.lexists(target):
        if not force:
            raise UsageError(f"{target} exists: replace it with --force, or give another --out")
        into.check_below(name)
    return name


def _export(
    run: RunFigures, write: Callable[[RunFigures, Path], None], into: OutputFolder, name: str
) -> None:
    """Write a run whole, or not at all. Raises: UsageError."""
    target = into.path / name
    try:
        into.path.mkdir(parents=True, exist_ok=True)
        with TemporaryDirectory(prefix=f".{name}.", dir=into.path) as aside:
            part = Path(aside) / name
            write(run, part)
            into.check_below(name)
            into.remove_below(name)
            into.note(OutputFolder(Path(aside), into.command).files_of(name))
            part.replace(target)
    except OSError as error:
        raise UsageError(f"cannot write {target}: {error.strerror or error}") from error
