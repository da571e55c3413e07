"""List the runs that hosts and the runs directory of this machine know of."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from operator import attrgetter
from pathlib import Path
from typing import Any, TypeVar

from remote.cluster.hosts import Host
from remote.host_commands.listed_runs import (
    HostCode,
    HostPart,
    ListedRun,
    LocalRecord,
    join_parts,
)
from remote.host_commands.run_on_hosts import HostAnswer, run_on_hosts
from remote.limits import LIMITS
from remote.plan import serialize
from remote.plan.plan import Plan, is_label
from remote.record import lock, marks
from remote.record.entry import Entry, read_entry
from remote.record.events_file import RunFolderError
from remote.record.files import is_folder
from remote.record.layout import EVENTS, NODE, PLAN, SUMMARY
from remote.record.read import load_plan, verdict
from remote.record.trust import has_ways
from remote.transport import Transport
from remote.transport.registry import is_here
from training.agent import local_api
from training.wire.format import FORMAT
from training.wire.host_replies import CodeArchive, RunFolder

Report = TypeVar("Report", RunFolder, CodeArchive)
MAX_AGE = 1e11
MAX_BYTES = 10**18
MAX_COUNT = 10**6
MOMENTS = ("began", "last", "now", "stop_heard", "failed", "moved")
PLAUSIBLE = {
    **dict.fromkeys((*MOMENTS, "idle", "step_seconds"), MAX_AGE),
    **dict.fromkeys(("size", "step", "steps"), MAX_BYTES),
    **dict.fromkeys(("hosts", "world_size", "attempt"), MAX_COUNT),
}
"""The largest number in each field of what a host reports; one beyond it is taken for unknown. A
host may report anything, and what is listed of other runs must not depend on that."""
LATELY = 7 * 86_400.0
"""Seconds since a run was last recorded for which its hosts are asked of it: later they may be
gone, or others."""


@dataclass
class RunInventory:
    """All that is known."""

    runs: Sequence[ListedRun] = ()
    """The newest last."""
    code: list[HostCode] = field(default_factory=list)
    answered: set[str] = field(default_factory=set)
    """The names of the hosts of the hosts file that answered."""
    problems: list[str] = field(default_factory=list)
    """Why others of them did not, one line each."""
    gone: list[str] = field(default_factory=list)
    """Why hosts did not answer that were asked of unfinished runs only. They may be gone for
    good."""

    def take(self, answer: HostAnswer, only_runs: Collection[str] | None) -> list[HostPart]:
        """Take in the answer of a host; return its parts of runs. `only_runs`: it is asked of these
        runs alone, as it is not in the hosts file."""
        host = answer.host
        run_folders = [
            _plausible(reply) for reply in answer.replies if isinstance(reply, RunFolder)
        ]
        clock_ahead = _clock_ahead(answer, run_folders)
        host_parts = [
            HostPart(host.name, host.workdir, folder, clock_ahead) for folder in run_folders
        ]
        if only_runs is not None:
            if answer.error:
                self.gone.append(answer.error)
            return [part for part in host_parts if part.folder.run in only_runs]
        for reply in answer.replies:
            if isinstance(reply, CodeArchive):
                self.code.append(HostCode(host.name, _plausible(reply)))
        if answer.error:
            self.problems.append(answer.error)
        else:
            self.answered.add(host.name)
        return host_parts


def take_inventory(
    transport: Transport | None,
    hosts: Sequence[Host],
    runs_dir: Path,
    run_names: Collection[str] | None = None,
    *,
    asks_left_hosts: bool = False,
    figures: bool = False,
    only_live: bool = False,
) -> RunInventory:
    """Ask all hosts at once, each for as long as its timeout, and look into the runs directory.

    `run_names`: look there at these runs only, as looking at all takes long. `asks_left_hosts`: ask
    also the hosts of recorded runs whose end is not known, of these runs alone. `figures`: see
    `find_records`. `only_live`: hosts report live runs, and of ended ones those with these
    `run_names`, without sizes; that costs them little.
    """
    record_by_run = {
        record.run: record for record in find_records(runs_dir, run_names, figures=figures)
    }
    left_runs = _runs_by_left_host(record_by_run.values(), hosts) if asks_left_hosts else {}
    command_verb = "live" if only_live else "runs"
    command_words = sorted(run_names or ()) if only_live else []
    inventory = RunInventory()
    host_parts = list(find_local_parts(runs_dir, run_names))
    if transport:
        for answer in run_on_hosts(
            transport, (*hosts, *left_runs), command_verb, lambda _: command_words
        ):
            host_parts += inventory.take(answer, left_runs.get(answer.host))
    runs = [
        replace(run, record=record_by_run.pop(run.name, None)) for run in join_parts(host_parts)
    ]
    runs += [ListedRun(run_name, (), record) for run_name, record in record_by_run.items()]
    inventory.runs = sorted(runs, key=attrgetter("name"))
    return inventory


def _runs_by_left_host(
    records: Iterable[LocalRecord], asked_hosts: Sequence[Host]
) -> dict[Host, set[str]]:
    """Return the hosts of runs whose end is not known and that were recorded lately, without those
    that are asked anyway: each with these runs."""
    known_identities = {_identity(host) for host in asked_hosts}
    first_host: dict[object, Host] = {}
    runs_by_host: dict[Host, set[str]] = defaultdict(set)
    for record in records:
        if record.verdict or record.idle >= LATELY:
            continue
        for host in record.ways:
            identity = _identity(host)
            if identity not in known_identities:
                runs_by_host[first_host.setdefault(identity, host)].add(record.run)
    return runs_by_host


_identity = attrgetter(
    *("name", "transport", "user", "address", "port"),
    *("jump", "proxy_command", "slurm_job", "workdir"),
)
"""The settings in which two hosts must agree to give the same answers."""


# What a host may report ---------------------------------------------------------------------------


def _clock_ahead(answer: HostAnswer, folders: Sequence[RunFolder]) -> float:
    """Return how many seconds the clock of a host is ahead: by how much the moment at which it
    looked at its first folder lies outside of the time that its answer took. A host may look for
    long, so a moment within that time is no difference of clocks."""
    if not folders or not folders[0].now:
        return 0.0
    looked_at = folders[0].now
    earliest = answer.moment - LIMITS.clock_step
    return looked_at - min(max(looked_at, earliest), answer.completed)


def _plausible(report: Report) -> Report:
    """Return what a host reports, with 0 (not known) in place of impossible numbers."""
    corrected_fields: dict[str, Any] = {}
    for field_name, largest_value in PLAUSIBLE.items():
        # Written so that NaN, for which each comparison is false, counts as impossible.
        if not 0 <= getattr(report, field_name, 0) <= largest_value:
            corrected_fields[field_name] = 0
    if not corrected_fields.keys().isdisjoint(MOMENTS):
        corrected_fields |= dict.fromkeys(MOMENTS, 0)  # the others are by the same clock
    if isinstance(report, RunFolder) and not is_label(report.label):
        corrected_fields["label"] = ""
    return replace(report, **corrected_fields) if corrected_fields else report


# The runs directory -------------------------------------------------------------------------------


def find_local_parts(
    runs_dir: Path, run_names: Collection[str] | None = None
) -> Iterator[HostPart]:
    """Yield the parts of runs of this machine, which lie beside the records of the runs."""
    for folder in _run_folders(runs_dir, run_names):
        node_folder = folder / NODE
        if not is_folder(node_folder) or folder.is_symlink() or not (folder / PLAN).is_file():
            continue
        workdir = str(node_folder.absolute())
        for run, host in local_api.list_run_folders(workdir):
            with suppress(OSError):  # it is just being removed
                examined = local_api.examine(workdir, run, host)
                yield HostPart("", workdir, _plausible(examined))


def find_records(
    runs_dir: Path, run_names: Collection[str] | None = None, *, figures: bool
) -> Iterator[LocalRecord]:
    """Yield the runs recorded here. What has no plan in it is no run, and neither is a link.
    `figures`: with their steps and their start, which takes longer."""
    for folder in _run_folders(runs_dir, run_names):
        is_run = (folder / PLAN).is_file() and not folder.is_symlink()
        if is_run and not folder.name.startswith("."):
            yield _read_record(folder, figures=figures)


def _run_folders(runs_dir: Path, run_names: Collection[str] | None) -> list[Path]:
    if run_names is None:
        return sorted(runs_dir.glob("*"))
    named_folders = [runs_dir / run_name for run_name in sorted(run_names)]
    return [folder for folder in named_folders if folder.is_dir()]


def _read_record(folder: Path, *, figures: bool) -> LocalRecord:
    plan: Plan | None = None
    plan_format = FORMAT
    try:
        plan = load_plan(folder)
    except serialize.OtherFormat as error:
        plan_format = error.number
    except RunFolderError:
        pass
    hosts = plan.hosts if plan else ()
    is_local = (folder / NODE).is_dir()
    is_reachable = plan and not is_local and has_ways(plan) and not is_here(hosts)
    list_entry = read_entry(folder) if figures else Entry(folder.name)
    return LocalRecord(
        run=folder.name,
        folder=folder,
        hosts=tuple(host.name for host in hosts),
        ranks=plan.world_size if plan else 0,
        local=is_local,
        verdict=verdict(folder) if plan_format == FORMAT else "",
        size=local_api.folder_size(str(folder)),
        idle=_seconds_since_written(folder),
        format=plan_format,
        ways=hosts if is_reachable else (),
        label=marks.name(folder),
        step=list_entry.step,
        steps=list_entry.steps,
        began=list_entry.started or 0.0,
        made_no_step=list_entry.made_no_step,
        # What a launcher has found counts as long as it looks.
        trouble=list_entry.trouble if list_entry.trouble and lock.launcher(folder) else "",
    )


def _seconds_since_written(folder: Path) -> float:
    written_files = (folder / file_name for file_name in (PLAN, EVENTS, SUMMARY))
    newest_change = max(file.stat().st_mtime for file in written_files if file.exists())
    return max(0.0, time.time() - newest_change)
