"""The options that several commands share, each declared once."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from remote.cluster.hosts import HOSTS_FILE
from tui.kit import palette

HOSTS = Path(HOSTS_FILE)
"""The hosts file where none is named."""
LAB_ENDS = "the lab of --link ends with this command; start one that stays with rankboard lab up"
"""Why a run in a lab of --link cannot outlive its launcher."""
RUNS = Path("runs")
"""The folder where runs are recorded, where none is named."""

HostsFile = Annotated[
    Path | None, typer.Option(metavar="FILE", help=f"the hosts file (default: {HOSTS_FILE})")
]
RunsDir = Annotated[Path, typer.Option(metavar="PATH", help="the folder where runs are recorded")]
Only = Annotated[
    str, typer.Option(metavar="NAMES", help="use only these hosts (names separated by commas)")
]
Exclude = Annotated[
    str, typer.Option(metavar="NAMES", help="leave out these hosts (names separated by commas)")
]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="do not ask for confirmation")]
Run = Annotated[
    str,
    typer.Argument(
        metavar="RUN",
        help="the run: its name, the name that you gave it, the beginning of its name, its folder, "
        "or last for the newest run",
    ),
]


def _use_ascii(wanted: bool) -> None:
    if wanted:
        palette.use_ascii()


Ascii = Annotated[
    bool,
    typer.Option(
        "--ascii",
        is_eager=True,
        callback=_use_ascii,
        help="draw with ASCII characters only (default: if the locale is not UTF-8)",
    ),
]
"""Its callback does all; a command has no use for the value."""


def split_names(text: str) -> tuple[str, ...]:
    """Split a list of names at its commas."""
    return tuple(name.strip() for name in text.split(",") if name.strip())
