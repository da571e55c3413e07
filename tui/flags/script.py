"""Declare the flags of a run whose ranks are the user's own script."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter

from remote.cluster.hosts import Cluster
from remote.plan.plan import PlanError, Script
from training.job import flags_of
from training.mistake import Mistake
from tui.flags.common import SCRIPT
from tui.flags.torchrun import ScriptLine


@Parameter(name="*", group=SCRIPT)
@dataclass(frozen=True)
class ScriptFlags:
    """The flags of a script."""

    cwd: Annotated[
        str,
        Parameter(
            metavar="PATH",
            help="the folder on the hosts to work in (default: the uploaded one, else the path of "
            "this folder)",
        ),
    ] = ""
    watch: Annotated[
        bool,
        Parameter(
            negative="--no-watch",
            help="watch torch in your script to see loss, iterations and waits (default: on)",
        ),
    ] = True
    as_is: Annotated[
        bool,
        Parameter(
            negative=(),
            help="give all ranks the same arguments, also if they were typed for one node",
        ),
    ] = False
    before: Annotated[
        str,
        Parameter(
            metavar="COMMAND",
            help="run this on each host once, before the ranks, such as 'mkdir -p output'",
        ),
    ] = ""
    follow: Annotated[
        tuple[str, ...],
        Parameter(
            metavar="GLOB",
            help="read values from files that your script writes, such as '**/metrics.csv' "
            "(repeatable)",
        ),
    ] = ()
    results: Annotated[
        tuple[str, ...],
        Parameter(
            name="--fetch",
            metavar="GLOB",
            help="copy these files from the hosts at the end, such as 'out/*.pt' (repeatable)",
        ),
    ] = ()


def make_script(
    line: ScriptLine, flags: ScriptFlags, job_settings: Mapping[str, Any]
) -> Script | None:
    """Make the script of a command line, None if it names none. Raises: PlanError."""
    words = line.words
    if not words:
        _refuse_script_flags(flags)
        return None
    job_flags = flags_of(job_settings)
    if job_flags:
        raise PlanError(
            f"{', '.join(job_flags)}: options of rankboard's own training do not apply to your "
            f"script ({words[0]}): leave them out, or write them after its name"
        )
    for pattern in flags.results:
        # A pattern is matched on the hosts: one that leaves the folder could fetch any file of the
        # user.
        leaves_folder = pattern.startswith(("/", "~")) or ".." in pattern.split("/")
        if leaves_folder:
            pattern_hint = (
                "write a pattern below the folder that your script works in, such as 'out/*.pt'"
            )
            raise PlanError(Mistake("--fetch", pattern, hint=pattern_hint))
    for pattern in flags.follow:
        if not (pattern.strip() and pattern.isprintable()):
            pattern_hint = "give the path of a file, or a pattern such as '**/metrics.csv'"
            raise PlanError(Mistake("--follow", hint=pattern_hint))
    return Script(
        *(words, flags.watch, flags.follow, flags.results, flags.before.strip()),
        variables=line.variables,
    )


def _refuse_script_flags(flags: ScriptFlags) -> None:
    """Refuse the flags of a script, as there is none. Raises: PlanError."""
    given_flags = {
        "--cwd": flags.cwd,
        "--no-watch": not flags.watch,
        "--as-is": flags.as_is,
        "--before": flags.before,
        "--follow": flags.follow,
        "--fetch": flags.results,
    }
    for flag_name, value in given_flags.items():
        if value:
            raise PlanError(
                f"{flag_name} is for your own script, which comes last, after --, as in "
                "rankboard --run -- train.py --lr 0.1"
            )


def with_cwd(cluster: Cluster, path: str) -> Cluster:
    """Return the hosts with this folder to work in, which may be relative to the current one.

    Raises: PlanError.
    """
    if not path:
        return cluster
    if cluster.sync:
        upload_problem = "with --upload, the ranks work in the uploaded folder"
        raise PlanError(Mistake("--cwd", path, upload_problem, "leave one out"))
    # ~ is the home on the hosts, which may be another folder than here.
    work_folder = path if path.startswith("~") else str(Path(path).absolute())
    hosts = tuple(replace(host, cwd=work_folder) for host in cluster.hosts)
    return replace(cluster, hosts=hosts)
