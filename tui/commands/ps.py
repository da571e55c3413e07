"""`rankboard ps`: the runs on the hosts and here, and the processes that ended runs left behind."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import asdict
from json import dumps
from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter

from remote.cluster.hosts import Host
from remote.format import UNKNOWN, age, count, moment, or_unknown, size
from remote.host_commands.inventory import take_inventory
from remote.host_commands.listed_runs import ListedRun
from remote.host_commands.orphans import Leftover, end_leftovers, find_leftovers
from remote.plan.serialize import OtherFormat
from remote.transport import Transport
from remote.transport.registry import Transports
from training.wire.format import FORMAT
from tui.flags.common import RUNS, HostsFile, RunsDir, Yes
from tui.flags.selection import reach_hosts, report_unreachable
from tui.kit.exit import UsageError, refusing
from tui.kit.narrate import echo, narrate
from tui.kit.prompt import confirm
from tui.kit.text_table import Row, print_table

RUN_COLUMNS = ("run", "state", "hosts", "ranks", "step", "started", "age", "size")
ORPHAN_COLUMNS = ("host", "run", "pid", "started", "found as", "command")
DISPENSABLE = ("started", "ranks", "found as")
"""Columns that a narrow terminal leaves out, in this order: a run's name has its start."""


def ps(
    *,
    hosts: HostsFile = None,
    live: Annotated[bool, Parameter(help="show live runs only")] = False,
    json: Annotated[bool, Parameter(help="print one JSON object per run")] = False,
    orphans: Annotated[
        bool,
        Parameter(
            help="show processes that ended runs left behind, and kill them if you agree",
        ),
    ] = False,
    yes: Yes = False,
    runs_dir: RunsDir = RUNS,
) -> None:
    """List live and ended runs: those on the hosts, and those recorded here.

    The age is the time since the run's last sign of life: a few seconds for a healthy run. Hosts of
    a run that was left in the last seven days are asked of it also if they are not in the hosts
    file. The state is "unknown" if no host knows the run.

    Examples:
      rankboard ps --live
      rankboard ps --hosts other.toml --json
      rankboard ps --orphans

    Exit codes:
      0  all hosts of the hosts file answered
      2  the command line is wrong, or confirmation was not possible
      3  a host of the hosts file did not answer
    """
    with refusing():
        transport, inventory = reach_hosts(hosts)
        if orphans:
            problems = _end_orphans(transport, inventory, runs_dir, yes, json)
        else:
            if yes:
                raise UsageError("--yes needs --orphans")
            problems = _list_runs(transport, inventory, runs_dir, live, json)
        report_unreachable(problems)


def _list_runs(
    transport: Transport | None, hosts: Sequence[Host], runs_dir: Path, live: bool, json: bool
) -> Sequence[str]:
    """Print the runs; return why hosts did not answer."""
    inventory = take_inventory(transport or Transports(), hosts, runs_dir, left=True, figures=True)
    runs = [run for run in inventory.runs if run.live or not live]
    if json:
        for run in runs:
            echo(dumps(_run_object(run)))
    elif runs:
        columns, rows = _table(runs)
        print_table(columns, rows, DISPENSABLE)
    else:
        narrate("no live runs" if live else "no runs")
    narrate(*_other_formats(runs), *inventory.gone)
    return inventory.problems


def _other_formats(runs: Sequence[ListedRun]) -> list[str]:
    """Return a line for each other format in which some of these runs are recorded."""
    by_format: dict[int, list[str]] = defaultdict(list)
    for run in runs:
        if run.format != FORMAT:
            by_format[run.format].append(run.name)
    lines = []
    for number, names in sorted(by_format.items()):
        which = names[0] if len(names) == 1 else count(len(names), "run")
        lines.append(str(OtherFormat(which, number)))
    return lines


def _end_orphans(
    transport: Transport | None, hosts: Sequence[Host], runs_dir: Path, yes: bool, json: bool
) -> Sequence[str]:
    """Print the processes of ended runs, and kill them if the user agrees; return why hosts did not
    answer."""
    leftovers = find_leftovers(transport, hosts, runs_dir)
    processes = leftovers.processes
    if json:
        for leftover in processes:
            echo(dumps({"host": leftover.host or None, **asdict(leftover.orphan)}))
    elif processes:
        rows = [_orphan_row(leftover) for leftover in processes]
        print_table(ORPHAN_COLUMNS, rows, DISPENSABLE)
    else:
        narrate("no processes of ended runs")
    for run in leftovers.spared:
        narrate(f"{run} is live on another host: its processes are kept")
    if not processes or not confirm(f"kill {_processes(len(processes))}? [y/N]", yes):
        return leftovers.problems
    alive, problems = end_leftovers(transport, hosts, runs_dir, processes)
    for leftover in alive:
        where = leftover.host or "this machine"
        narrate(f"not killed: pid {leftover.orphan.pid} on {where}")
    narrate(f"killed {_processes(len(processes) - len(alive))}")
    return (*leftovers.problems, *problems)


def _processes(number: int) -> str:
    return count(number, "process", "processes")


def _table(runs: Sequence[ListedRun]) -> tuple[Row, list[Row]]:
    """Make the table of runs; their names have a column where one has a name."""
    rows = [_run_row(run) for run in runs]
    if not any(run.label for run in runs):
        return RUN_COLUMNS, rows
    named = [(first, run.label, *rest) for run, (first, *rest) in zip(runs, rows, strict=True)]
    first, *rest = RUN_COLUMNS
    return (first, "name", *rest), named


def _run_row(run: ListedRun) -> Row:
    live = f"{run.live} of {run.hosts} live"
    answered = run.record or any(part.folder.now for part in run.parts)
    return (
        run.name,
        run.state,
        live if 0 < run.live < run.hosts else or_unknown(run.hosts),
        or_unknown(run.ranks),
        f"{run.step}/{run.steps}" if run.steps else or_unknown(run.step),
        moment(run.began),
        age(run.idle) if answered else UNKNOWN,
        size(run.size) if run.size else UNKNOWN,
    )


def _orphan_row(leftover: Leftover) -> Row:
    orphan = leftover.orphan
    return (
        leftover.host or "here",
        orphan.run,
        str(orphan.pid),
        moment(orphan.began),
        orphan.found,
        orphan.command,
    )


def _run_object(run: ListedRun) -> dict[str, Any]:
    """Return what `--json` prints of a run."""
    parts = []
    for part in run.parts:
        inventory = {"name": part.host or None, "idle": part.idle, "reason": part.reason}
        parts.append({**inventory, **asdict(part.folder)})
    return {
        "run": run.name,
        "name": run.label,
        "phase": run.phase,
        "live": run.live,
        "hosts": run.hosts,
        "ranks": run.ranks,
        "step": run.step,
        "steps": run.steps,
        "began": run.began,
        "idle": run.idle,
        "size": run.size,
        "reasons": run.reasons,
        "parts": parts,
    }
