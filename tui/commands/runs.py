"""`rankboard ps` and `rankboard prune`: the runs on the hosts and here, and what ended ones have
left."""

from __future__ import annotations

import math
import re
import shlex
import shutil
import sys
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from json import dumps
from pathlib import Path
from typing import Annotated, Any

import typer

from remote.cluster.hosts import HOSTS_FILE, Host, HostsError, load, naming
from remote.errands import cleaning, inventory
from remote.errands.cleaning import Kept, Leftover, Removable
from remote.errands.inventory import Inventory, Run
from remote.format import UNKNOWN, age, count, moment, or_unknown, size
from remote.plan.plan import PlanError
from remote.sanitise import shown
from remote.transport import Transport
from remote.transport.registry import Transports
from tui.text.prompt import Yes, agreed
from tui.text.usage import USAGE

UNREACHABLE = 3
"""Exit code of an answer that lacks a host's."""
HOSTS, AGE = Path(HOSTS_FILE), "7d"
"""The hosts file, and how long ago a run has ended that is removed, where nothing else is given."""

HostsFile = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="the hosts file (default: hosts.toml, if there is one)"),
]
RunsDir = Annotated[Path, typer.Option(metavar="PATH", help="where runs are recorded")]


def ps(
    hosts: HostsFile = None,
    live: Annotated[bool, typer.Option("--live", help="show live runs only")] = False,
    json: Annotated[bool, typer.Option("--json", help="print one JSON object per run")] = False,
    orphans: Annotated[
        bool,
        typer.Option(
            "--orphans",
            help="show processes that ended runs left behind, and kill them if you agree",
        ),
    ] = False,
    yes: Yes = False,
    runs_dir: RunsDir = Path("runs"),
) -> None:
    """List the live and ended runs: those that the hosts keep, and those recorded here.

    The age is the time since the run's last sign of life: a few seconds for a healthy run. The
    phase "unknown" is that of a run recorded here that was left to hosts which were not asked.

    Examples:
      rankboard ps --live
      rankboard ps --hosts other.toml --json
      rankboard ps --orphans

    Exit codes:
      0  all hosts answered
      2  the command line is wrong, or you could not be asked
      3  a host did not answer
    """
    with _told():
        transport, known = _reach(hosts)
        if orphans:
            problems = _orphans(transport, known, runs_dir, yes, json)
        else:
            if yes:
                raise PlanError("--yes goes with --orphans")
            found = inventory.take(transport, known, runs_dir)
            runs = [run for run in found.runs if run.live or not live]
            nothing = "no live runs" if live else "no runs"
            _print(map(_object, runs)) if json else _show(
                RUN_COLUMNS, list(map(_row, runs)), nothing
            )
            problems = found.problems
        _complain(problems, hosts)


def prune(
    names: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="RUN", help="just these runs, also if their hosts cannot be reached"
        ),
    ] = None,
    hosts: HostsFile = None,
    older_than: Annotated[
        str | None,
        typer.Option(
            metavar="AGE",
            help="only runs that ended at least this long ago: 12h, 7d, 2w; 0 for all (default: "
            "7d)",
        ),
    ] = None,
    keep: Annotated[int, typer.Option(metavar="N", min=0, help="keep the N newest of them")] = 0,
    yes: Yes = False,
    runs_dir: RunsDir = Path("runs"),
) -> None:
    """Delete ended runs, with their checkpoints, on the hosts and here, if you agree.

    Also removes deployed code that no live run uses. Live runs are kept.

    Examples:
      rankboard prune
      rankboard prune --older-than 0 --keep 3
      rankboard prune 20261120-0930 20261121-1145

    Exit codes:
      0  done
      2  the command line is wrong, or you could not be asked
      3  a host did not answer
    """
    with _told():
        if names and (older_than or keep):
            raise PlanError("name runs, or give --older-than and --keep, not both")
        older = _seconds(older_than or AGE)
        transport, known = _reach(hosts)
        found = inventory.take(transport, known, runs_dir)
        named = _named(names or (), found)
        going, kept = cleaning.removable(found, older, keep, named)
        _show(REMOVABLE_COLUMNS, _removable_rows(going), "")
        flag = f" --hosts {shlex.quote(str(hosts))}" if hosts else ""
        _narrate([*_reasons(kept, flag), *_staying(found, {one.run for one in going} & named)])
        if going and agreed(f"remove {_total(going)}? [y/N]", yes):
            freed, left = cleaning.remove(transport, known, runs_dir, going)
            _narrate(
                [*(naming(str(hosts or HOSTS), one) for one in left), f"removed {size(freed)}"]
            )
        elif not going and not named:
            _narrate([_nothing(older_than or AGE if older else "", keep)])
        _complain(found.problems, hosts)


def _named(names: Sequence[str], found: Inventory) -> set[str]:
    """The runs that somebody means. Raises: PlanError."""
    known = [run.name for run in found.runs]
    meant = {
        name: [run for run in known if run == name]
        or [run for run in known if run.startswith(name)]
        for name in names
    }
    for name, runs in meant.items():
        if not runs:
            raise PlanError(
                f"no run called {name!r} here or on the hosts: give its name, or the beginning of "
                "it, from rankboard ps"
            )
        if len(runs) > 1:
            raise PlanError(f"{name}: several runs begin so: {', '.join(runs)}")
    return {run for runs in meant.values() for run in runs}


def _reasons(kept: Sequence[Kept], flag: str) -> list[str]:
    """Why runs are kept, each reason once. `flag` names the hosts file, where it is not the usual
    one."""
    by_reason: dict[tuple[str, bool], list[str]] = defaultdict(list)
    for one in kept:
        by_reason[one.why, one.by_name].append(one.run)
    return [
        _kept(runs, why, f"{flag} {' '.join(runs)}" if by_name else "")
        for (why, by_name), runs in by_reason.items()
    ]


def _kept(runs: Sequence[str], why: str, words: str) -> str:
    whose = f"{runs[0]} is kept" if len(runs) == 1 else f"{count(len(runs), 'run')} are kept"
    return f"{whose}: {why}" + (
        f"; to remove the record anyway: rankboard prune{words}" if words else ""
    )


def _staying(found: Inventory, going: set[str]) -> list[str]:
    """What stays on hosts that cannot be reached."""
    away = [(run.name, cleaning.unreachable(run, found)) for run in found.runs if run.name in going]
    return [
        f"{run}: {', '.join(hosts)} cannot be asked: what the run left there stays, and so does "
        "the run if it is still live"
        for run, hosts in away
        if hosts
    ]


def _total(going: Sequence[Removable]) -> str:
    runs, code = {one.run for one in going if one.run}, any(not one.run for one in going)
    what = " and ".join(
        [*([count(len(runs), "run")] if runs else []), *(["unused code"] if code else [])]
    )
    return f"{what}, {size(sum(one.size for one in going))}"


def _nothing(older_than: str, keep: int) -> str:
    age = f" that ended at least {older_than} ago" if older_than else " that has ended"
    return f"nothing to remove{age}" + (f", except for the {keep} newest" if keep else "")


@contextmanager
def _told() -> Iterator[None]:
    """Mistakes in a line or two."""
    try:
        yield
    except (HostsError, PlanError) as error:
        typer.echo(f"rankboard: {error}", err=True)
        raise typer.Exit(USAGE) from None


def _reach(path: Path | None) -> tuple[Transport | None, tuple[Host, ...]]:
    """The way to the hosts, and these; neither where no file is named and there is none. Raises:
    HostsError."""
    if path is None and not HOSTS.exists():
        return None, ()
    cluster = load(path or HOSTS)
    _narrate(cluster.remarks)
    return Transports(cluster.hosts), cluster.hosts


def _seconds(age: str) -> float:
    """The seconds of an age. Raises: PlanError."""
    found = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([smhdw]?)", age.strip())
    if not found or not (found[2] or float(found[1]) == 0):
        raise PlanError(
            f"--older-than {age}: write a number and s, m, h, d or w, such as 12h or 7d"
        )
    return float(found[1]) * {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86400, "w": 604800}[found[2]]


# Orphans


def _orphans(
    transport: Transport | None, hosts: Sequence[Host], runs_dir: Path, yes: bool, json: bool
) -> Sequence[str]:
    """Show processes of ended runs, and end them where that is wanted. Returns what hosts could not
    tell."""
    left = cleaning.orphans(transport, hosts, runs_dir)
    if json:
        _print({"host": one.host or None, **_plain(one.orphan)} for one in left.found)
    else:
        _show(ORPHAN_COLUMNS, list(map(_orphan_row, left.found)), "no processes of ended runs")
    _narrate(
        [f"{run} is live on another host: its processes are left alone" for run in left.spared]
    )
    if left.found and agreed(f"kill these {len(left.found)} processes? [y/N]", yes):
        still, problems = cleaning.end(transport, hosts, runs_dir, left.found)
        _narrate(
            [f"still there: pid {one.orphan.pid} on {one.host or 'this machine'}" for one in still]
        )
        _narrate([f"ended {len(left.found) - len(still)} processes"])
        return (*left.problems, *problems)
    return left.problems


# Tables

RUN_COLUMNS = ("run", "phase", "hosts", "ranks", "step", "started", "age", "size")
ORPHAN_COLUMNS = ("host", "run", "pid", "started", "found as", "command")
REMOVABLE_COLUMNS = ("run", "phase", "age", "size", "where")
DISPENSABLE = {"started": 1, "ranks": 2, "found as": 3}
"""Columns that a narrow terminal does without, the first first: a run's name has its start."""


def _row(run: Run) -> tuple[str, ...]:
    step = f"{run.step}/{run.steps}" if run.steps else or_unknown(run.step)
    hosts = f"{run.live} of {run.hosts} live" if 0 < run.live < run.hosts else or_unknown(run.hosts)
    idle = age(run.idle) if run.record or any(part.folder.now for part in run.parts) else UNKNOWN
    extent = size(run.size) if run.size else UNKNOWN
    return run.name, run.phase, hosts, or_unknown(run.ranks), step, moment(run.began), idle, extent


def _orphan_row(left: Leftover) -> tuple[str, ...]:
    one = left.orphan
    return left.host or "here", one.run, str(one.pid), moment(one.began), one.found, one.command


def _removable_rows(going: Sequence[Removable]) -> list[tuple[str, ...]]:
    """One row per run, and one for all code."""
    runs: dict[str, list[Removable]] = defaultdict(list)
    for one in sorted(going, key=lambda one: not one.run):
        runs[one.run].append(one)
    return [
        (
            name or "code that no live run uses",
            parts[0].phase if name else UNKNOWN,
            age(min(one.idle for one in parts)),
            size(sum(one.size for one in parts)),
            ", ".join(dict.fromkeys(one.host or "here" for one in parts)),
        )
        for name, parts in runs.items()
    ]


def _show(head: Sequence[str], rows: list[tuple[str, ...]], nothing: str) -> None:
    """Print a table, as narrow as the terminal; where there is nothing, say so."""
    if not rows:
        _narrate([nothing] if nothing else [])
        return
    table = [tuple(head), *(tuple(" ".join(shown(cell)) for cell in row) for row in rows)]
    width = shutil.get_terminal_size().columns if sys.stdout.isatty() else math.inf
    for name in sorted(set(head) & DISPENSABLE.keys(), key=lambda name: DISPENSABLE[name]):
        if sum(_widths(table)) + 2 * (len(table[0]) - 1) > width:
            column = table[0].index(name)
            table = [(*row[:column], *row[column + 1 :]) for row in table]
    widths = [*_widths(table)[:-1], 0]
    for row in table:
        line = "  ".join(map(str.ljust, row, widths)).rstrip()
        typer.echo(line if len(line) <= width or len(row) < 3 else line[: int(width) - 1] + "…")


def _widths(table: list[tuple[str, ...]]) -> list[int]:
    return [max(map(len, column)) for column in zip(*table, strict=True)]


# JSON


def _object(run: Run) -> dict[str, Any]:
    figures = {
        name: getattr(run, name)
        for name in ("phase", "live", "hosts", "ranks", "step", "steps", "began", "idle", "size")
    }
    parts = [
        {
            "name": part.host or None,
            "idle": part.idle,
            "reason": part.reason,
            **_plain(part.folder),
        }
        for part in run.parts
    ]
    return {"run": run.name, **figures, "reasons": run.reasons, "parts": parts}


def _plain(value: Any) -> dict[str, Any]:
    return asdict(value)


def _print(objects: Iterator[dict[str, Any]] | map[dict[str, Any]]) -> None:
    for one in objects:
        typer.echo(dumps(one))


# Narration


def _narrate(lines: Sequence[str]) -> None:
    for text in lines:
        for line in shown(text):
            typer.echo(f"rankboard: {line}", err=True)


def _complain(problems: Sequence[str], hosts: Path | None) -> None:
    """Name the hosts of this file that did not answer."""
    _narrate([naming(str(hosts or HOSTS), problem) for problem in problems])
    if problems:
        raise typer.Exit(UNREACHABLE)
