"""`rankboard ps` and `rankboard prune`: the runs on the hosts and here, and what ended ones have left."""

from __future__ import annotations

import math
import re
import shutil
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from json import dumps
from pathlib import Path
from typing import Annotated, Any

import typer

from remote import cleaning, inventory
from remote.cleaning import Leftover, Removable
from remote.hosts import Host, HostsError, load
from remote.inventory import Run
from remote.lines import shown
from remote.plan import PlanError
from remote.transport import Transport

USAGE, UNREACHABLE = 2, 3
"""Exit codes of a usage or configuration error, and of an answer that lacks a host's."""
HOSTS = Path("hosts.toml")
NOTHING = "-"

HostsFile = Annotated[Path | None, typer.Option(help="the hosts file (default: hosts.toml, where there is one)")]
RunsDir = Annotated[Path, typer.Option(help="where runs are recorded")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="do not ask")]


def ps(
    hosts: HostsFile = None,
    json: Annotated[bool, typer.Option("--json", help="one JSON object per run on stdout")] = False,
    orphans: Annotated[
        bool, typer.Option("--orphans", help="show processes of ended runs instead, and end them after asking")
    ] = False,
    yes: Yes = False,
    runs_dir: RunsDir = Path("runs"),
) -> None:
    """Show the live and ended runs of all hosts, as the hosts tell, and those of this machine.

    `age` is that of the last record: some seconds for a run that is well. Exit code 3: a host did not answer.
    """
    with _told():
        transport, known = _reach(hosts)
        if orphans:
            problems = _orphans(transport, known, runs_dir, yes, json)
        else:
            if yes:
                raise PlanError("--yes goes with --orphans")
            found = inventory.take(transport, known, runs_dir)
            _print(map(_object, found.runs)) if json else _show(RUN_COLUMNS, list(map(_row, found.runs)), "no runs")
            problems = found.problems
        _complain(problems)


def prune(
    hosts: HostsFile = None,
    older_than: Annotated[
        str, typer.Option(metavar="AGE", help="only what ended so long ago: 12h, 7d, 2w; 0 for all that has ended")
    ] = "7d",
    keep: Annotated[int, typer.Option(metavar="N", min=0, help="keep the N newest ended runs")] = 0,
    yes: Yes = False,
    runs_dir: RunsDir = Path("runs"),
) -> None:
    """Remove ended runs, with their checkpoints, from the hosts and from the runs directory, after asking.

    So goes code on the hosts that no live run uses. Live runs stay. Exit code 3: a host did not answer.
    """
    with _told():
        older = _seconds(older_than)
        transport, known = _reach(hosts)
        found = inventory.take(transport, known, runs_dir)
        going, kept = cleaning.removable(found, runs_dir, older, keep)
        _show(REMOVABLE_COLUMNS, [_removable_row(one, runs_dir) for one in going], "")
        _narrate(kept)
        if not going:
            _narrate([_nothing(older_than if older else "", keep)])
        elif _agreed(f"Remove these {len(going)} folders, {_bytes(sum(one.size for one in going))}?", yes):
            freed, left = cleaning.remove(transport, known, runs_dir, going)
            _narrate([*left, f"removed {_bytes(freed)}"])
        _complain(found.problems)


def _nothing(older_than: str, keep: int) -> str:
    age = f" that ended {older_than} ago or more" if older_than else " that has ended"
    return f"nothing to remove{age}" + (f", but for the {keep} newest" if keep else "")


@contextmanager
def _told() -> Iterator[None]:
    """Mistakes in a line or two."""
    try:
        yield
    except (HostsError, PlanError) as error:
        typer.echo(f"rankboard: {error}", err=True)
        raise typer.Exit(USAGE) from None


def _reach(path: Path | None) -> tuple[Transport | None, tuple[Host, ...]]:
    """The way to the hosts, and these; neither where no file is named and there is none. Raises: HostsError."""
    if path is None and not HOSTS.exists():
        return None, ()
    cluster = load(path or HOSTS)
    _narrate(cluster.remarks)
    from remote.transport.ssh import SshTransport

    return SshTransport(), cluster.hosts


def _seconds(age: str) -> float:
    """The seconds of an age. Raises: PlanError."""
    found = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([smhdw]?)", age.strip())
    if not found or not (found[2] or float(found[1]) == 0):
        raise PlanError(f"--older-than {age}: write a number and s, m, h, d or w, such as 12h or 7d")
    return float(found[1]) * {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86400, "w": 604800}[found[2]]


# Orphans


def _orphans(transport: Transport | None, hosts: Sequence[Host], runs_dir: Path, yes: bool, json: bool) -> Sequence[str]:
    """Show processes of ended runs, and end them where that is wanted. Returns what hosts could not tell."""
    left = cleaning.orphans(transport, hosts, runs_dir)
    if json:
        _print({"host": one.host or None, **_plain(one.orphan)} for one in left.found)
    else:
        _show(ORPHAN_COLUMNS, list(map(_orphan_row, left.found)), "no processes of ended runs")
    _narrate([f"{run} is live on another host: its processes are left alone" for run in left.spared])
    if left.found and _agreed(f"End these {len(left.found)} processes?", yes):
        still, problems = cleaning.end(transport, hosts, runs_dir, left.found)
        _narrate([f"still there: pid {one.orphan.pid} on {one.host or 'this machine'}" for one in still])
        _narrate([f"ended {len(left.found) - len(still)} processes"])
        return (*left.problems, *problems)
    return left.problems


def _agreed(question: str, yes: bool) -> bool:
    """Whether a person says so, or a script has said so before."""
    if yes:
        return True
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        _narrate(["nothing is done without a terminal to ask on: give --yes"])
        raise typer.Exit(USAGE)
    return typer.confirm(question, err=True)


# Tables

RUN_COLUMNS = ("run", "phase", "hosts", "ranks", "step", "started", "age", "size")
ORPHAN_COLUMNS = ("host", "run", "pid", "started", "found as", "command")
REMOVABLE_COLUMNS = ("run", "ended", "where", "age", "size")
DISPENSABLE = {"started": 1, "ranks": 2, "found as": 3}
"""Columns that a narrow terminal does without, the first first: a run's name has its start."""


def _row(run: Run) -> tuple[str, ...]:
    step = f"{run.step}/{run.steps}" if run.steps else str(run.step or NOTHING)
    live = f"{run.live} of {run.hosts}"
    return run.name, run.phase, live, str(run.ranks or NOTHING), step, _when(run.began), _age(run.idle), _bytes(run.size)


def _orphan_row(left: Leftover) -> tuple[str, ...]:
    one = left.orphan
    return left.host or "here", one.run, str(one.pid), _when(one.began), one.found, one.command


def _removable_row(one: Removable, runs_dir: Path) -> tuple[str, ...]:
    return one.run or one.name, one.phase, one.host or str(runs_dir), _age(one.idle), _bytes(one.size)


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


def _when(moment: float) -> str:
    return time.strftime("%m-%d %H:%M", time.localtime(moment)) if moment else NOTHING


def _age(seconds: float) -> str:
    for unit, length in (("d", 86400), ("h", 3600), ("m", 60)):
        if seconds >= 2 * length:
            return f"{seconds / length:.0f}{unit}"
    return f"{seconds:.0f}s"


def _bytes(size: float) -> str:
    for unit in ("B", "kB", "MB", "GB"):
        if size < 999.5:
            return f"{size:.0f} {unit}" if unit == "B" or size >= 100 else f"{size:.1f} {unit}"
        size /= 1000
    return f"{size:.1f} TB"


# JSON


def _object(run: Run) -> dict[str, Any]:
    figures = {
        name: getattr(run, name) for name in ("phase", "live", "hosts", "ranks", "step", "steps", "began", "idle", "size")
    }
    parts = [{"name": part.host or None, "idle": part.idle, **_plain(part.folder)} for part in run.parts]
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


def _complain(problems: Sequence[str]) -> None:
    """Name the hosts that did not answer."""
    _narrate(problems)
    if problems:
        raise typer.Exit(UNREACHABLE)
