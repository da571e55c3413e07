"""The options of a run whose ranks are a program of the user's own."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Any

import typer

from remote.cluster.hosts import Cluster
from remote.plan.plan import PlanError, Script
from training.job import flags_of
from training.mistake import Mistake
from tui.flags.group import with_group

_option = partial(
    typer.Option, rich_help_panel="Your own program: rankboard … -- train.py --lr 0.1"
)


def _flags(
    cwd: Annotated[
        str,
        _option(
            metavar="PATH",
            help="the folder on the hosts to work in",
            show_default="the uploaded one, else the path of this folder",
        ),
    ] = "",
    watch: Annotated[
        bool, _option(help="watch torch in your program to see loss, iterations and waits")
    ] = True,
    follow: Annotated[
        list[str] | None,
        _option(
            "--follow",
            metavar="GLOB",
            help="read values from files that your program writes, such as '**/metrics.csv' "
            "(repeatable)",
        ),
    ] = None,
    results: Annotated[
        list[str] | None,
        _option(
            "--fetch",
            metavar="GLOB",
            help="copy these files from the hosts at the end, such as 'out/*.pt' (repeatable)",
        ),
    ] = None,
) -> None:
    """The parameters are the options."""


USUAL: Mapping[str, Any] = MappingProxyType({"watch": True, "follow": (), "results": ()})
"""The options of a program where none is given, but for its folder."""


def with_script_flags(command: Callable[..., None]) -> Callable[..., None]:
    """Replace the parameter `script_flags` of a command by the options of a program."""
    return with_group(command, "script_flags", _flags)


def script(
    words: Sequence[str], flags: Mapping[str, Any], job_flags: Mapping[str, Any]
) -> Script | None:
    """The program of a command line; None where it names none. Raises: PlanError."""
    if not words:
        for name, given in (
            ("--cwd", flags["cwd"]),
            ("--no-watch", not flags["watch"]),
            ("--follow", flags["follow"]),
            ("--fetch", flags["results"]),
        ):
            if given:
                raise PlanError(
                    f"{name} is for a program of your own, which comes last, after --, as in "
                    "rankboard --run -- train.py --lr 0.1"
                )
        return None
    given = flags_of({name for name, value in job_flags.items() if value is not None})
    if given:
        raise PlanError(
            f"{', '.join(given)}: options of rankboard's own training do not apply to your program "
            f"({words[0]}): leave them out, or write them after its name"
        )
    for pattern in flags["results"] or ():
        if pattern.startswith(("/", "~")) or ".." in pattern.split("/"):
            hint = "write a pattern below the folder that your program works in, such as 'out/*.pt'"
            raise PlanError(Mistake("--fetch", pattern, hint=hint))
    follow = tuple(flags["follow"] or ())
    if not all(pattern.strip() and pattern.isprintable() for pattern in follow):
        hint = "give the path of a file, or a pattern such as '**/metrics.csv'"
        raise PlanError(Mistake("--follow", hint=hint))
    return Script(tuple(words), flags["watch"], follow, tuple(flags["results"] or ()))


def with_cwd(cluster: Cluster, path: str) -> Cluster:
    """The hosts with this folder to work in; a relative one is relative to this folder."""
    if not path:
        return cluster
    if cluster.sync:
        what = "with --upload, the ranks work in the uploaded folder"
        raise PlanError(Mistake("--cwd", path, what, "leave one out"))
    folder = path if path.startswith("~") else str(Path(path).absolute())
    return replace(cluster, hosts=tuple(replace(host, cwd=folder) for host in cluster.hosts))
