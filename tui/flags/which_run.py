"""Which run a command line means, where it may be recorded here or known to hosts alone."""

from __future__ import annotations

import math
import shlex
import time
from collections.abc import Sequence
from pathlib import Path

from remote.cluster.hosts import Cluster, HostsError
from remote.cluster.load import has_usual, load, load_usual
from remote.format import listed
from remote.host_commands.kept_plan import (
    KeptPlan,
    PlansOnHosts,
    ask_for_plans,
)
from remote.plan.plan import PlanError
from remote.record import lock, marks, read, trust
from remote.record.events_file import RunFolderError
from remote.record.files import is_folder
from remote.record.find import LISTED, find, is_path, labels, meant
from remote.record.layout import EVENTS, NODE
from remote.record.layout import recorded as recorded_folders
from remote.record.read import has_begun
from remote.sanitise import one_line
from remote.transport import Transport
from remote.transport.registry import is_here
from training.agent.layout import LAST
from tui.kit.exit import UsageError
from tui.kit.narrate import narrate
from tui.kit.prompt import confirm

ASKED = 5.0
"""Seconds in which hosts have to tell of newer runs, where one is recorded here that may be meant:
a command on what is recorded here waits no longer for hosts that are gone."""
LATELY = 7 * 86_400.0
"""Seconds since a run was last recorded for which its own hosts are asked where no file names any:
later they may be gone, or others."""
NOBODY = PlansOnHosts({}, {}, ())
KNOWN_THERE_ONLY = (
    "a run on this machine is known only in the folder where it was started: go there, or give its "
    "path, such as ../homework/runs/last"
)


def find_run(
    transport: Transport, run: str, hosts: Path | None, runs_dir: Path, *, ends: bool = False
) -> Path | KeptPlan:
    """Find a run: its folder, where it is recorded here, else the plan that its hosts keep.

    The whole name of a recorded run and a path are certain. Anything else may mean a run that is
    not recorded here, so the hosts are asked as well. `ends`: the command ends the run, so it asks
    the user where it is not certain which run is the last. Raises: HostsError, PlanError,
    RunFolderError, UsageError.
    """
    local_folder = find(run, runs_dir)
    if local_folder and (run == local_folder.name or is_path(run)):
        return local_folder
    cluster = _find_hosts(run, hosts, local_folder, runs_dir)
    on_hosts = NOBODY
    if cluster:
        on_hosts = ask_for_plans(transport, cluster, run, ASKED if local_folder else math.inf)
        _narrate_problems(on_hosts, is_known=local_folder is not None)
    recorded_labels = labels(runs_dir)
    if run == LAST:
        found_name = _find_newest(local_folder, on_hosts)
        _narrate_unbelieved(found_name, on_hosts)
        if found_name and ends and _is_doubtful(found_name, on_hosts, runs_dir):
            _ask_which(
                [found_name, *_other_candidates(found_name, on_hosts, runs_dir)],
                hosts,
                on_hosts,
                runs_dir,
            )
        else:
            _narrate_last(found_name, local_folder, on_hosts, runs_dir)
    else:
        labels_on_hosts = {
            found_name: found.plan.label for found_name, found in on_hosts.runs.items()
        }
        unread_names = dict.fromkeys(on_hosts.mistakes, "")
        # A name that was given here later counts here.
        known_labels = labels_on_hosts | unread_names | recorded_labels
        found_name = meant(run, dict(sorted(known_labels.items())))
    if found_name in recorded_labels:
        return runs_dir / found_name
    if found_name in on_hosts.runs:
        narrate(f"{found_name} is not recorded here: using the plan of its hosts")
        narrate(*on_hosts.runs[found_name].remarks)
        return on_hosts.runs[found_name].kept
    if on_hosts.mistakes:
        # A plan that cannot be read may be that of the run that is meant.
        raise on_hosts.mistakes.get(found_name) or next(iter(on_hosts.mistakes.values()))
    asked_text = f" of {cluster.file or cluster.name}" if cluster else ""
    remarks = [KNOWN_THERE_ONLY] if cluster is None or is_here(cluster.hosts) else []
    raise PlanError(
        f"No run called {run!r} here or on the hosts{asked_text}; rankboard ps lists all runs",
        *remarks,
    )


def _find_hosts(
    run: str, hosts: Path | None, local_folder: Path | None, runs_dir: Path
) -> Cluster | None:
    """Return the hosts that may know a run: those of the file or job, else those of the last run
    that is recorded here; None where nothing says that there are any. Raises: HostsError."""
    if hosts:
        return load(hosts)
    if local_folder and not has_usual():
        return _hosts_of(local_folder) if run == LAST else None
    try:
        return load_usual()
    except HostsError as error:
        if local_folder is None:
            raise HostsError(
                f"No run called {run!r} in {runs_dir}, and no hosts to ask for it: {error}",
                KNOWN_THERE_ONLY,
            ) from None
        narrate(f"{error}; hosts are not asked for newer runs")
        return None


def _hosts_of(folder: Path) -> Cluster | None:
    """Return the hosts of a run that this user has recorded, where they may have a newer one."""
    try:
        plan = read.load_plan(folder)
        record_age = time.time() - (folder / EVENTS).stat().st_mtime
    except (OSError, PlanError, RunFolderError):
        # What cannot be read says nothing of hosts; the run itself is still the last one.
        return None
    # Hosts of a run that somebody else has recorded are not asked: they may be any.
    is_on_others = trust.has_ways(plan) and not is_here(plan.hosts)
    if not is_on_others or is_folder(folder / NODE) or record_age > LATELY or lock.launcher(folder):
        return None
    return Cluster(plan.run, plan.hosts, file=plan.hosts_file)


def _find_newest(local_folder: Path | None, on_hosts: PlansOnHosts) -> str:
    """Return the newest run that has begun; "" where there is none. A run that a single host
    invents for others is not believed."""
    shared_runs = {name: run for name, run in on_hosts.runs.items() if run.is_shared}
    begun_names = [name for name, run in shared_runs.items() if run.has_begun]
    if local_folder and (has_begun(local_folder) or not begun_names):
        begun_names.append(local_folder.name)
    # A name begins with the time of the start, so the greatest one is the newest.
    return max(begun_names or shared_runs, default="")


def _is_doubtful(name: str, on_hosts: PlansOnHosts, runs_dir: Path) -> bool:
    """Return whether the user may not mean the last run: another one is live, or it was not started
    from here. A run that is known to have ended loses nothing."""
    if _live_runs(on_hosts, runs_dir) - {name}:
        return True
    folder = runs_dir / name
    return not read.verdict(folder) and not trust.is_started_here(folder)


def _live_runs(on_hosts: PlansOnHosts, runs_dir: Path) -> set[str]:
    """Return the runs that are live: on hosts that have answered, or with a launcher that records
    them here."""
    live_on_hosts = {name for name, run in on_hosts.runs.items() if run.live and run.is_shared}
    folders = recorded_folders(runs_dir)
    return live_on_hosts | {folder.name for folder in folders if lock.launcher(folder)}


def _other_candidates(name: str, on_hosts: PlansOnHosts, runs_dir: Path) -> list[str]:
    """Return the runs that may be meant instead, the newest first: the live ones, and the newest
    one that was started from here."""
    other_names = _live_runs(on_hosts, runs_dir)
    newest_first = reversed(recorded_folders(runs_dir))
    newest_own = next(filter(trust.is_started_here, newest_first), None)
    if newest_own:
        other_names.add(newest_own.name)
    return sorted(other_names - {name}, reverse=True)


def _ask_which(
    candidates: Sequence[str], hosts: Path | None, on_hosts: PlansOnHosts, runs_dir: Path
) -> None:
    """Ask the user whether the first of these runs is to be stopped. Raises: UsageError."""
    hosts_option = f" --hosts {shlex.quote(str(hosts))}" if hosts else ""
    if len(candidates) == 1:
        narrate(f"{LAST} is a run that was not started here:")
        instead_text = "write this command"
    else:
        narrate(f"{LAST} may mean one of {len(candidates)} runs:")
        instead_text = "write one of these commands"
    for name in candidates[:LISTED]:
        narrate(
            f"  rankboard stop {name}{hosts_option}  ({_describe_run(name, on_hosts, runs_dir)})"
        )
    if not confirm(f"stop {candidates[0]}? [y/N]", yes=False, instead=instead_text):
        raise UsageError(f"nothing was stopped; {instead_text}")


# Words --------------------------------------------------------------------------------------------


def _narrate_problems(on_hosts: PlansOnHosts, *, is_known: bool) -> None:
    """Say which hosts did not answer. Where a run is known without them, one line is enough."""
    if not on_hosts.problems or not is_known:
        narrate(*on_hosts.problems)
        return
    num_hidden = len(on_hosts.problems) - 1
    others_text = f" (and {num_hidden} more)" if num_hidden else ""
    narrate(f"{on_hosts.problems[0]}{others_text}; runs that only such hosts know do not count")


def _narrate_unbelieved(name: str, on_hosts: PlansOnHosts) -> None:
    """Say which newer runs are not taken for the last one."""
    for other, run in on_hosts.runs.items():
        if not run.is_shared and other > name:
            narrate(
                f"{other} is not taken for {LAST}: most of its hosts do not know it, only "
                f"{listed(run.hosts)}"
            )


def _narrate_last(
    name: str, local_folder: Path | None, on_hosts: PlansOnHosts, runs_dir: Path
) -> None:
    """Say which run is the last one."""
    if not name:
        return
    is_newer = local_folder is not None and local_folder.name != name
    newest_text = (
        f"; the newest run that is recorded here is {local_folder.name}"
        if local_folder and is_newer
        else ""
    )
    narrate(f"{LAST} is {name}, {_describe_run(name, on_hosts, runs_dir)}{newest_text}")


def _describe_run(name: str, on_hosts: PlansOnHosts, runs_dir: Path) -> str:
    """Say what is known of a run: its name, where it was started, and whether it is live."""
    run_on_hosts = on_hosts.runs.get(name)
    folder = runs_dir / name
    given_label = marks.name(folder) or (run_on_hosts.plan.label if run_on_hosts else "")
    descriptions = [f"named {one_line(given_label)}"] if given_label else []
    descriptions.append("started here" if trust.is_started_here(folder) else "not started here")
    launcher_process = lock.launcher(folder)
    verdict = read.verdict(folder) if is_folder(folder) else None
    if run_on_hosts:
        descriptions.append(
            f"live on {listed(run_on_hosts.live)}"
            if run_on_hosts.live
            else f"ended on {listed(run_on_hosts.hosts)}"
        )
    elif launcher_process:
        descriptions.append(f"live: its launcher is {launcher_process}")
    if verdict:
        descriptions.append(f"recorded here as {verdict}")
    elif not run_on_hosts and not launcher_process:
        descriptions.append("its end is not recorded here")
    return ", ".join(descriptions)
