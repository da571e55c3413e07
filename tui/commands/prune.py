"""`rankboard prune`: delete ended runs on the hosts and here."""

from __future__ import annotations

import re
import shlex
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter
from cyclopts.validators import Number

from remote.format import UNKNOWN, age, count, size
from remote.host_commands import inventory, pruning
from remote.host_commands.inventory import RunInventory
from remote.host_commands.pruning import ELSEWHERE, KeptRun, Removable
from tui.flags.common import RUNS, WHOLE_NUMBER, HostsFile, RunsDir, Yes
from tui.flags.selection import reach_hosts, report_unreachable
from tui.kit.exit import UsageError, refusing
from tui.kit.narrate import narrate
from tui.kit.prompt import confirm
from tui.kit.text_table import Row, print_table

AGE = "7d"
"""How long ago a run has ended that is removed, where nothing else is given."""
COLUMNS = ("run", "state", "age", "size", "recorded", "where")
UNITS = {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}


def prune(
    names: Annotated[
        tuple[str, ...],
        Parameter(name="RUN", help="only these runs, even if their hosts cannot be reached"),
    ] = (),
    /,
    *,
    hosts: HostsFile = None,
    older_than: Annotated[
        str | None,
        Parameter(
            metavar="AGE",
            help="only runs that ended at least this long ago: 12h, 7d, 2w; 0 for all (default: "
            "7d)",
        ),
    ] = None,
    keep: Annotated[
        int,
        WHOLE_NUMBER,
        Parameter(metavar="N", validator=Number(gte=0), help="keep the N newest of them"),
    ] = 0,
    not_started: Annotated[
        bool,
        Parameter(
            help="only runs that ended before their first step, of any age",
        ),
    ] = False,
    elsewhere: Annotated[
        bool,
        Parameter(
            help="also runs on the hosts that are not recorded here: started from another folder, "
            "or by somebody else",
        ),
    ] = False,
    dry_run: Annotated[bool, Parameter(help="only show what would be removed")] = False,
    yes: Yes = False,
    runs_dir: RunsDir = RUNS,
) -> None:
    """Delete ended runs, with their checkpoints, on the hosts and here, if you agree.

    Code on the hosts that no live run uses is removed too. Live runs and runs with a star are kept.
    So are runs that are not recorded here, unless --elsewhere is given or they are named.

    Examples:
      rankboard prune
      rankboard prune --older-than 0 --keep 3
      rankboard prune --not-started --dry-run
      rankboard prune 20261120-0930 20261121-1145

    Exit codes:
      0  done
      2  the command line is wrong, or confirmation was not possible
      3  a host did not answer
    """
    with refusing():
        if names and (older_than or keep or not_started or elsewhere):
            flags = "--older-than, --keep, --not-started and --elsewhere"
            raise UsageError(f"name runs, or choose them with {flags}, not both")
        age_limit = older_than or ("0" if not_started else AGE)
        older = _seconds(age_limit)
        transport, known = reach_hosts(hosts)
        found = inventory.take_inventory(transport, known, runs_dir, figures=not_started)
        named = _match_names(names, found)
        going, kept = pruning.find_removable(
            found, older, keep, named, elsewhere=elsewhere, without_step=not_started
        )
        _show(going, kept, hosts)
        narrate(*_unreachable(found, {one.run for one in going} & named))
        if going and dry_run:
            narrate(f"would remove {_total(going)}; nothing was removed")
        elif going and confirm(f"remove {_total(going)}? [y/N]", yes):
            freed, problems = pruning.remove_files(transport, known, runs_dir, going)
            narrate(*problems)
            narrate(f"removed {size(freed)}")
        elif not going and not named:
            narrate(_nothing(age_limit if older else "", keep, not_started))
        report_unreachable(found.problems)


def _show(going: Sequence[Removable], kept: Sequence[KeptRun], hosts: Path | None) -> None:
    """Print what would be removed, and why the rest is kept."""
    if going:
        print_table(COLUMNS, _rows(going))
    narrate(*_reasons(kept, f" --hosts {shlex.quote(str(hosts))}" if hosts else ""))


def _seconds(older_than: str) -> float:
    """Read an age such as 12h. Raises: UsageError."""
    found = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([smhdw]?)", older_than.strip())
    if not found or not (found[2] or float(found[1]) == 0):
        raise UsageError(
            f"--older-than {older_than}: write a number and s, m, h, d or w, such as 12h or 7d"
        )
    return float(found[1]) * UNITS[found[2]]


def _match_names(names: Sequence[str], found: RunInventory) -> set[str]:
    """Find the runs with these names, or that begin with them. Raises: UsageError."""
    known = [run.name for run in found.runs]
    return {_match_name(name, known) for name in names}


def _match_name(name: str, known: Sequence[str]) -> str:
    runs = [run for run in known if run == name] or [run for run in known if run.startswith(name)]
    if not runs:
        raise UsageError(
            f"no run called {name!r} here or on the hosts: give its name, or the beginning of it, "
            "from rankboard ps"
        )
    if len(runs) > 1:
        raise UsageError(f"{name}: several runs begin with it: {', '.join(runs)}")
    return runs[0]


def _rows(going: Sequence[Removable]) -> list[Row]:
    """Make one row per run, and one for all code."""
    runs: dict[str, list[Removable]] = defaultdict(list)
    for one in sorted(going, key=lambda one: not one.run):
        runs[one.run].append(one)
    return [
        (
            name or "code that no live run uses",
            parts[0].state if name else UNKNOWN,
            age(min(one.idle for one in parts)),
            size(sum(one.size for one in parts)),
            _recorded(parts) if name else UNKNOWN,
            ", ".join(dict.fromkeys(one.host or "here" for one in parts)),
        )
        for name, parts in runs.items()
    ]


def _recorded(parts: Sequence[Removable]) -> str:
    """Say whether a run is recorded here, and so is the user's own to remove."""
    return "here" if parts[0].is_recorded_here else "elsewhere"


def _reasons(kept: Sequence[KeptRun], flag: str) -> list[str]:
    """Say why runs are kept, each reason once. `flag` names the hosts file, if one was given."""
    by_reason: dict[str, list[KeptRun]] = defaultdict(list)
    for one in kept:
        by_reason[one.why].append(one)
    lines = []
    for why, runs in by_reason.items():
        subject = f"{runs[0].run} is" if len(runs) == 1 else f"{count(len(runs), 'run')} are"
        lines.append(f"{subject} kept: {why}{_remedy(runs, flag)}")
    return lines


def _remedy(kept: Sequence[KeptRun], flag: str) -> str:
    """Say how these runs, which are kept for one reason, are removed all the same."""
    if kept[0].is_elsewhere:
        return f"; to remove such runs, too: rankboard prune{flag} --elsewhere"
    if kept[0].by_name:
        names = " ".join(one.run for one in kept)
        return f"; to remove the record anyway: rankboard prune{flag} {names}"
    return ""


def _unreachable(found: RunInventory, going: set[str]) -> list[str]:
    """Say what is left on hosts that cannot be reached."""
    away = [
        (run.name, pruning.unreachable_hosts(run, found)) for run in found.runs if run.name in going
    ]
    return [
        f"{run}: cannot reach {', '.join(hosts)}: files of the run stay there, and a live run "
        "continues"
        for run, hosts in away
        if hosts
    ]


def _total(going: Sequence[Removable]) -> str:
    runs = {one.run for one in going if one.run}
    others = {one.run for one in going if one.run and not one.is_recorded_here}
    parts = [count(len(runs), "run")] if runs else []
    if others:
        parts[0] += f", {len(others)} of them {ELSEWHERE}"
    parts += ["unused code"] if any(not one.run for one in going) else []
    return f"{' and '.join(parts)}, {size(sum(one.size for one in going))}"


def _nothing(older_than: str, keep: int, without_step: bool) -> str:
    ended = "has ended"
    if older_than:
        ended = f"ended at least {older_than} ago"
    if without_step:
        ended += ", before its first step"
    return f"nothing to remove that {ended}" + (f", except for the {keep} newest" if keep else "")
