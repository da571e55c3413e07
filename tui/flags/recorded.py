"""Which run a command line names, with its plan and the connection to its hosts."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from remote.cluster.hosts import HostsError
from remote.cluster.load import load
from remote.host_commands.kept_plan import KeptPlan
from remote.launch import Launcher
from remote.plan.plan import Plan, PlanError, Policy
from remote.record import lock, read, trust
from remote.record.events_file import RunFolderError, follow_records
from remote.record.files import is_folder
from remote.record.find import find, runs_dir_of
from remote.record.layout import NODE
from remote.run.output.script_readings import expander
from remote.transport import Transport
from remote.transport.registry import Transports, is_here
from training.wire.events import Record
from tui.flags.common import HOSTS
from tui.flags.which_run import find_run
from tui.kit.exit import UsageError, refusing
from tui.kit.narrate import narrate


@contextmanager
def open_run(
    run: str,
    hosts: Path | None,
    runs_dir: Path,
    max_restarts: int | None = None,
    *,
    ends: bool = False,
) -> Iterator[tuple[Launcher, KeptPlan]]:
    """Find a run here or on the hosts of the file; yield a launcher for its hosts, and its plan.

    `max_restarts` replaces the number of restarts that the run was started with. `ends`: see
    `find_run`. A mistake ends the command with exit code 2.
    """
    with refusing():
        transports = Transports()
        runs_dir = runs_dir_of(run, runs_dir)
        kept_plan = find_kept(transports, run, hosts, runs_dir, ends=ends)
        if max_restarts is not None:
            policy = replace(kept_plan.plan.policy, max_restarts=max_restarts)
            kept_plan = replace(kept_plan, plan=replace(kept_plan.plan, policy=policy))
        # Ranks on this machine may end with the command; those on others are not to end with a
        # connection.
        policy = Policy(keep=not is_here(kept_plan.plan.hosts))
        yield Launcher(transports, runs_dir.absolute(), policy, narrate), kept_plan


def find_kept(
    transport: Transport, run: str, hosts: Path | None, runs_dir: Path, *, ends: bool = False
) -> KeptPlan:
    """Find the plan of a run here or on the hosts of the file. `ends`: see `find_run`. Raises:
    HostsError, PlanError, RunFolderError, UsageError."""
    folder_or_plan = find_run(transport, run, hosts, runs_dir, ends=ends)
    return find_here(folder_or_plan, hosts) if isinstance(folder_or_plan, Path) else folder_or_plan


def folder_of(run: str, runs_dir: Path) -> Path:
    """Find the folder of a run that is recorded here. Raises: PlanError, UsageError."""
    folder = find(run, runs_dir)
    if folder is None:
        raise UsageError(f"No run called {run!r} in {runs_dir}; rankboard runs lists them")
    return folder


def recorded_here(run: str, runs_dir: Path) -> tuple[Path, Plan]:
    """The folder and the plan of a run that is recorded here. Raises: PlanError, RunFolderError,
    UsageError."""
    folder = folder_of(run, runs_dir).absolute()
    return folder, _plan_of(folder)


def read_records(launcher: Launcher, plan: Plan, follow: bool) -> Iterator[Record]:
    """Read the records of a run here; with `follow`, also those that a live launcher adds."""
    run_folder = launcher.runs_dir / plan.run
    if follow and lock.launcher(run_folder):
        return follow_records(run_folder, len(plan.hosts), launcher.remark, expander(plan))
    return launcher.recorded(plan)


def find_here(folder: Path, hosts: Path | None) -> KeptPlan:
    """Load a run that is recorded here. Raises: HostsError, PlanError, RunFolderError."""
    plan = _plan_of(folder)
    kept_plan = KeptPlan(plan, {}, foreign=not trust.has_ways(plan))
    node_folder = folder / NODE
    if is_folder(node_folder):
        return replace(kept_plan, plan=trust.on_this_machine(plan, node_folder.absolute()))
    if hosts:
        return replace(kept_plan, plan=trust.with_ways(plan, load(hosts)))
    if not kept_plan.foreign:
        return kept_plan
    try:
        return replace(kept_plan, plan=trust.with_ways(plan, load(HOSTS)))
    except (HostsError, PlanError) as error:
        return replace(kept_plan, refusal=trust.unknown(plan, str(error)))


def _plan_of(folder: Path) -> Plan:
    """The plan of a run that is recorded here. Raises: PlanError, RunFolderError."""
    plan = read.load_plan(folder)
    # Hosts know the run by the name in its plan: commands would mean another one there.
    if plan.run != folder.name:
        raise RunFolderError(
            f"{folder} has the plan of another run, {plan.run}: rename the folder to {plan.run}"
        )
    return plan
