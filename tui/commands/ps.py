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
from remote.transport.registry import Transports, is_here
from training.wire.format import READABLE
from tui.flags.common import RUNS, HostsFile, RunsDir, Yes
from tui.flags.selection import reach_hosts, report_unreachable
from tui.flags.which_run import KNOWN_THERE_ONLY
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
    file. The state is "left" if no host knows the run and nobody
    here has seen its end.

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
    # Also without a hosts file: runs that were left have hosts of their own to ask.
    inventory = take_inventory(
        transport or Transports(), hosts, runs_dir, asks_left_hosts=True, figures=True
    )
    listed_runs = [run for run in inventory.runs if run.live or not live]
    if json:
        for run in listed_runs:
            echo(dumps(_run_object(run)))
    elif listed_runs:
        table_columns, table_rows = _make_table(listed_runs)
        print_table(table_columns, table_rows, DISPENSABLE)
    else:
        narrate("no live runs" if live else "no runs")
        if is_here(hosts) or not hosts:
            narrate(KNOWN_THERE_ONLY)
    narrate(*_other_formats(listed_runs), *inventory.gone)
    return inventory.problems


def _other_formats(runs: Sequence[ListedRun]) -> list[str]:
    """Return a line for each other format in which some of these runs are recorded."""
    by_format: dict[int, list[str]] = defaultdict(list)
    for run in runs:
        if run.format not in READABLE:
            by_format[run.format].append(run.name)
    format_lines = []
    for format_number, run_names in sorted(by_format.items()):
        runs_text = run_names[0] if len(run_names) == 1 else count(len(run_names), "run")
        format_lines.append(str(OtherFormat(runs_text, format_number)))
    return format_lines


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
        table_rows = [_orphan_row(leftover) for leftover in processes]
        print_table(ORPHAN_COLUMNS, table_rows, DISPENSABLE)
    else:
        narrate("no processes of ended runs")
    for run in leftovers.spared:
        narrate(f"{run} is live on another host: its processes are kept")
    if not processes or not confirm(f"kill {_count_processes(len(processes))}? [y/N]", yes):
        return leftovers.problems
    living_leftovers, problems = end_leftovers(transport, hosts, runs_dir, processes)
    for leftover in living_leftovers:
        host_name = leftover.host or "this machine"
        narrate(f"not killed: pid {leftover.orphan.pid} on {host_name}")
    narrate(f"killed {_count_processes(len(processes) - len(living_leftovers))}")
    return (*leftovers.problems, *problems)


def _count_processes(number: int) -> str:
    return count(number, "process", "processes")


def _make_table(runs: Sequence[ListedRun]) -> tuple[Row, list[Row]]:
    """Make the table of runs; their names have a column where one has a name."""
    run_rows = [_run_row(run) for run in runs]
    if not any(run.label for run in runs):
        return RUN_COLUMNS, run_rows
    named_rows = [
        (first_cell, run.label, *other_cells)
        for run, (first_cell, *other_cells) in zip(runs, run_rows, strict=True)
    ]
    first_cell, *other_cells = RUN_COLUMNS
    return (first_cell, "name", *other_cells), named_rows


def _run_row(run: ListedRun) -> Row:
    # Only where some hosts have ended and others have not: else the state says it.
    live_text = f"{run.live} of {run.hosts} live"
    # Without a record and an answer, nobody knows when it last gave a sign of life.
    has_answered = run.record or any(part.folder.now for part in run.parts)
    return (
        run.name,
        run.state,
        live_text if 0 < run.live < run.hosts else or_unknown(run.hosts),
        or_unknown(run.ranks),
        f"{run.step}/{run.steps}" if run.steps else or_unknown(run.step),
        moment(run.began),
        age(run.idle) if has_answered else UNKNOWN,
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
    part_objects = []
    for part in run.parts:
        part_facts = {"name": part.host or None, "idle": part.idle, "reason": part.reason}
        part_objects.append({**part_facts, **asdict(part.folder)})
    return {
        "run": run.name,
        "name": run.label,
        "state": run.state,
        "live": run.live,
        "hosts": run.hosts,
        "ranks": run.ranks,
        "step": run.step,
        "steps": run.steps,
        "began": run.began,
        "idle": run.idle,
        "size": run.size,
        "reasons": run.reasons,
        "parts": part_objects,
    }
