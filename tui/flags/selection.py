"""Which hosts a command line selects, and their transports."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any

import typer

from remote.cluster.hosts import (
    LOCAL,
    Cluster,
    Host,
    HostsError,
    select,
    with_slots,
)
from remote.cluster.load import has_usual, is_slurm, load, load_named, load_slurm, load_usual
from remote.lab.spec import LabError, Spec, parse, shared
from remote.plan.plan import PlanError
from remote.transport import Transport
from remote.transport.registry import Transports
from tui.flags.common import HOSTS, LAB_ENDS, Exclude, HostsFile, Only, split_names
from tui.flags.group import with_group
from tui.kit.exit import UNREACHABLE
from tui.kit.narrate import narrate

RANKS = 4
"""Ranks on this machine that the form starts with where there is no hosts file."""
NO_FILE = (
    f"There is no {HOSTS} in this folder: the ranks run on this machine. For other hosts, write "
    f"{HOSTS} with two lines per "
    'host, [[host]] and address = "192.168.0.11", or name a file with --hosts.'
)


def _flags(
    hosts: HostsFile = None,
    host: Annotated[
        str,
        typer.Option(
            "--host",
            "-H",
            metavar="HOSTS",
            help="use these hosts, each with its number of ranks, such as a:4,b:4",
        ),
    ] = "",
    slurm: Annotated[
        bool,
        typer.Option("--slurm", help="the nodes of this Slurm job (default: within a job)"),
    ] = False,
    local: Annotated[
        int | None,
        typer.Option(metavar="N", help="train with N ranks on this machine, without a hosts file"),
    ] = None,
    link: Annotated[
        str,
        typer.Option(
            metavar="RATE",
            help="with --local: give each host a link of this rate, such as 1gbit or 100mbit",
        ),
    ] = "",
    slots: Annotated[
        int | None,
        typer.Option(
            metavar="M",
            help="with --local N: N/M hosts of M ranks each; in a Slurm job: M ranks on each node",
        ),
    ] = None,
    cpus: Annotated[
        str,
        typer.Option(
            metavar="CORES", help="with --link: limit each host to this many cores, e.g. 0.5"
        ),
    ] = "",
    nodes: Annotated[
        int | None, typer.Option(metavar="K", help="use only the first K hosts")
    ] = None,
    only: Only = "",
    exclude: Exclude = "",
) -> None:
    """The parameters are the options."""


def with_host_flags(command: Callable[..., None]) -> Callable[..., None]:
    """Replace the parameter `host_flags` of a command by the options that select hosts."""
    return with_group(command, "host_flags", _flags)


@dataclass(frozen=True)
class Selection:
    """The hosts of a command line: `cluster` are all hosts, `hosts` the selected ones.

    `spec`: the lab to make of them, if any.
    """

    cluster: Cluster
    hosts: Cluster
    spec: Spec | None

    @property
    def ends(self) -> str:
        """Why a run ends with this command, and what to do instead; "" where it need not."""
        return LAB_ENDS if self.spec else self.cluster.ends


def usual() -> Selection:
    """The hosts of the job, or of the usual file; this machine where there are none, or
    mistakes."""
    why = NO_FILE
    if has_usual():
        try:
            found = load_usual()
            return Selection(found, found, None)
        except HostsError as error:
            why = str(error)
    here = Cluster("this machine", (_local_host("local", RANKS),), (why,))
    return Selection(here, here, None)


def selection(flags: Mapping[str, Any], upload: Sequence[Path] = ()) -> Selection:
    """Select hosts by the options of `with_host_flags`, and print remarks on them.

    `upload` adds to the uploads of the hosts file. Raises: HostsError, PlanError.
    """
    check(flags, upload)
    link = flags["link"]
    spec = _lab_spec(flags["local"], flags["slots"], link, flags["cpus"])
    cluster = _cluster(flags, upload)
    if spec:
        cluster = Cluster(f"lab, {link}", spec.hosts(), spec.remarks())
    narrate(*cluster.remarks)
    only = split_names(flags["only"])
    exclude = split_names(flags["exclude"])
    hosts = select(cluster, flags["nodes"], only, exclude)
    return Selection(cluster, hosts, spec)


def check(flags: Mapping[str, Any], upload: Sequence[Path] = ()) -> None:
    """Check these options for what is wrong whatever the hosts are. Raises: PlanError, with all
    mistakes."""
    mistakes = [*_mistakes(flags, upload)]
    if mistakes:
        raise PlanError(*mistakes)


def _mistakes(flags: Mapping[str, Any], upload: Sequence[Path]) -> Iterator[str]:
    local = flags["local"]
    slots = flags["slots"]
    nodes = flags["nodes"]
    is_counted = all(count is None or count > 0 for count in (local, slots))
    if local is not None and local < 1:
        yield (
            f"--local {local}: give the number of ranks, 1 or more, or leave it out to use the "
            "hosts file"
        )
    if slots is not None and slots < 1:
        yield f"--slots {slots}: give the number of ranks of each host, 1 or more, or leave it out"
    if nodes is not None and nodes < 1:
        yield f"--nodes {nodes}: give the number of hosts, 1 or more, or leave it out"
    given = {
        f"--hosts {flags['hosts']}": flags["hosts"],
        f"--host {flags['host']}": flags["host"],
        "--slurm": flags["slurm"],
        f"--local {local}": local,
    }
    words = [word for word, value in given.items() if value]
    if len(words) > 1:
        yield f"{' and '.join(words)} cannot be combined: give one of them"
    if upload and local:
        yield (
            f"--upload {upload[0]} is for other machines: with --local {local} the ranks work in "
            "this folder"
        )
    in_slurm = flags["slurm"] or (is_slurm() and not flags["hosts"] and not flags["host"])
    if slots and not local and not in_slurm:
        yield f"--slots {slots} needs --local N; in a hosts file, write slots = {slots}"
    if is_counted:
        try:
            _lab_spec(local, slots, flags["link"], flags["cpus"])
        except LabError as error:
            yield str(error)


def check_file(flags: Mapping[str, Any]) -> None:
    """Check the hosts file, if these options need one. Raises: HostsError, with all mistakes."""
    if flags["local"] is None:
        _elsewhere(flags)


def _cluster(flags: Mapping[str, Any], upload: Sequence[Path]) -> Cluster:
    """Load the hosts that the options name, or make this machine one host or several. Raises:
    HostsError."""
    local = flags["local"]
    slots = flags["slots"]
    if local:
        return _here(local, slots)
    found = _elsewhere(flags)
    return replace(
        found,
        hosts=tuple(with_slots(host, slots or host.slots) for host in found.hosts),
        sync=(*found.sync, *(os.path.abspath(one.expanduser()) for one in upload)),
    )


def _elsewhere(flags: Mapping[str, Any]) -> Cluster:
    """The hosts that are named, else the usual ones."""
    if flags["hosts"]:
        return load(flags["hosts"])
    if flags["host"]:
        return load_named(flags["host"])
    if flags["slurm"]:
        return load_slurm()
    if not has_usual():
        raise HostsError(
            f"{HOSTS}: no such file: write it with two lines per host, [[host]] and address = "
            '"192.168.0.11", or name yours with --hosts FILE; --local N runs on this machine'
        )
    return load_usual()


def _here(local: int, slots: int | None) -> Cluster:
    """This machine as one host or several."""
    if not slots:
        return Cluster("this machine", (_local_host("local", local),))
    count = local // slots
    hosts = tuple(_local_host(f"local{index}", slots) for index in range(1, count + 1))
    remarks = (shared(count, os.cpu_count() or 1),) if count > 1 else ()
    return Cluster("this machine", hosts, remarks)


def _local_host(name: str, slots: int) -> Host:
    return Host(name, "127.0.0.1", python=sys.executable, slots=slots, transport=LOCAL)


def _lab_spec(local: int | None, slots: int | None, link: str, cpus: str) -> Spec | None:
    """Read the options of a lab, if any."""
    if local and slots and local % slots:
        fit = ", ".join(str(number) for number in range(1, local + 1) if local % number == 0)
        raise LabError(
            f"--slots {slots} does not divide the {local} ranks of --local: give one of {fit}"
        )
    if not link:
        if cpus:
            raise LabError(
                f"--cpus {cpus} needs --link; for links without a limit, give --link 10gbit"
            )
        return None
    if not local:
        raise LabError(
            f"--link {link} needs --local N: it gives the ranks of this machine a network; add "
            "--local 4"
        )
    return parse(local // (slots or 1), link, cpus, slots or 1)


@contextmanager
def transports(chosen: Selection) -> Iterator[Transports]:
    """Make the transports of the chosen hosts; their lab is up meanwhile. Raises: LabError."""
    if not chosen.spec:
        yield Transports(chosen.cluster.hosts)
        return
    from remote.lab.lab import Lab

    with Lab.start(chosen.spec) as lab:
        yield Transports(chosen.cluster.hosts, lab.enter)


def reach_hosts(path: Path | None) -> tuple[Transport | None, tuple[Host, ...]]:
    """Load the hosts of a file or job, with the transport to them; nothing without any.

    Raises: HostsError.
    """
    if path is None and not has_usual():
        return None, ()
    cluster = load(path) if path else load_usual()
    narrate(*cluster.remarks)
    return Transports(cluster.hosts), cluster.hosts


def report_unreachable(problems: Sequence[str]) -> None:
    """Name the hosts that did not answer, and end the command with exit code 3."""
    narrate(*problems)
    if problems:
        raise SystemExit(UNREACHABLE)
