"""Declare the flags of `rankboard` itself, which starts a run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter

from tui.flags.common import OPTIONS, RUNS, Ascii, AsLines, Notify, RunsDir, Verbose
from tui.flags.policy import PolicyFlags
from tui.flags.script import ScriptFlags
from tui.flags.selection import HostFlags
from tui.flags.torchrun import ScriptLine


@Parameter(name="*", group=OPTIONS)
@dataclass(frozen=True)
class RunFlags:
    """The flags of a run that are not about hosts, the job, a script or the policy."""

    upload: Annotated[
        tuple[Path, ...],
        Parameter(
            metavar="PATH",
            help="copy this folder to every host and run the ranks there (repeatable)",
        ),
    ] = ()
    as_lines: AsLines = False
    form: Annotated[
        bool, Parameter(help="open the form with these options, and start nothing yet")
    ] = False
    dry_run: Annotated[bool, Parameter(help="print which rank runs where, and start nothing")] = (
        False
    )
    json: Annotated[
        bool,
        Parameter(
            help="with --run: print one JSON object per event; with --dry-run: the plan as JSON"
        ),
    ] = False
    detach: Annotated[
        bool,
        Parameter(
            help="with --run: return once all ranks train, or your own script has made a step or "
            "run for 10 s; the run continues on the hosts"
        ),
    ] = False
    verbose: Verbose = False
    notify: Notify = ""
    ascii_only: Ascii = False
    name: Annotated[str, Parameter(metavar="NAME", help="a name for the run, to find it by")] = ""
    runs_dir: RunsDir = RUNS


@dataclass(frozen=True)
class RunCommand:
    """A command line that starts a run."""

    hosts: HostFlags = HostFlags()
    run: RunFlags = RunFlags()
    script: ScriptFlags = ScriptFlags()
    policy: PolicyFlags = PolicyFlags()
    job: Mapping[str, Any] = field(default_factory=dict)
    """The settings of the job that are given, by the names of their fields."""
    line: ScriptLine = ScriptLine()
    """The script after `--`, if any."""
