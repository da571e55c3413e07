"""Select the hosts of a command line, and open transports to them."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from remote.cluster.file import TWO_LINES
from remote.cluster.hosts import (
    LOCAL,
    Cluster,
    Host,
    HostsError,
    select,
    with_slots,
)
from remote.cluster.load import has_usual, is_slurm, load, load_named, load_slurm, load_usual
from remote.lab.spec import LabError, LabSpec, parse, shared
from remote.plan.plan import PlanError
from remote.transport import Transport
from remote.transport.registry import Transports
from tui.flags.common import (
    HOSTS,
    LAB_ENDS,
    OPTIONS,
    WHOLE_NUMBER,
    Exclude,
    HostsFile,
    Only,
    split_names,
)
from tui.kit.exit import UNREACHABLE
from tui.kit.narrate import narrate

RANKS = 4
"""Ranks on this machine that the form starts with, if there is no hosts file."""
NO_FILE = (
    f"There is no {HOSTS} in this folder: the ranks run on this machine. For other hosts, write "
    f"{HOSTS} with {TWO_LINES}, or name a file with --hosts."
)


@Parameter(name="*", group=OPTIONS)
@dataclass(frozen=True)
class HostFlags:
    """The flags that select hosts."""

    hosts: HostsFile = None
    host: Annotated[
        str,
        Parameter(
            name=("--host", "-H"),
            metavar="HOSTS",
            help="use these hosts, each with its number of ranks, such as a:4,b:4",
        ),
    ] = ""
    slurm: Annotated[
        bool, Parameter(help="the nodes of this Slurm job (default: within a job)")
    ] = False
    local: Annotated[
        int | None,
        WHOLE_NUMBER,
        Parameter(metavar="N", help="train with N ranks on this machine, without a hosts file"),
    ] = None
    link: Annotated[
        str,
        Parameter(
            metavar="RATE",
            help="with --local: give each host a link of this rate, such as 1gbit or 100mbit",
        ),
    ] = ""
    slots: Annotated[
        int | None,
        WHOLE_NUMBER,
        Parameter(
            metavar="M",
            help="with --local N: N/M hosts of M ranks each; in a Slurm job: M ranks on each host",
        ),
    ] = None
    cpus: Annotated[
        str,
        Parameter(
            metavar="CORES", help="with --link: limit each host to this many cores, e.g. 0.5"
        ),
    ] = ""
    num_hosts: Annotated[
        int | None, WHOLE_NUMBER, Parameter(metavar="K", help="use only the first K hosts")
    ] = None
    only: Only = ""
    exclude: Exclude = ""


@dataclass(frozen=True)
class Selection:
    """The hosts of a command line."""

    cluster: Cluster
    """All hosts."""
    hosts: Cluster
    """The selected ones."""
    spec: LabSpec | None
    """The lab to make of them, if any."""

    @property
    def ends(self) -> str:
        """Why a run ends with this command, and what to do instead; "" if it need not end."""
        return LAB_ENDS if self.spec else self.cluster.ends


def select_usual() -> Selection:
    """Select the hosts of the Slurm job, or of the usual file.

    Without any, or if there are mistakes in them, select this machine.
    """
    remark_text = NO_FILE
    if has_usual():
        try:
            cluster = load_usual()
            return Selection(cluster, cluster, None)
        except HostsError as error:
            remark_text = str(error)
    # The form is shown with a remark, so that a mistake in a file can be corrected while it is
    # open.
    this_machine = Cluster("this machine", (_local_host("local", RANKS),), (remark_text,))
    return Selection(this_machine, this_machine, None)


def select_hosts(
    flags: HostFlags, upload: Sequence[Path] = (), *, has_own_cores: bool = False
) -> Selection:
    """Select hosts by these flags, and print remarks on them.

    `upload` adds to the uploads of the hosts file. `has_own_cores`: hosts that are this machine
    will each have cores of their own, in labs. Raises: HostsError, PlanError.
    """
    check_host_flags(flags, upload)
    spec = _make_spec(flags)
    if spec:
        cluster = Cluster(f"lab, {flags.link}", spec.hosts(), spec.remarks())
    elif flags.local:
        cluster = _make_local_cluster(flags.local, flags.slots)
        if has_own_cores:
            cluster = replace(cluster, remarks=())
    else:
        cluster = _with_flags(_load_hosts(flags), flags.slots, upload)
    narrate(*cluster.remarks)
    only = split_names(flags.only)
    exclude = split_names(flags.exclude)
    return Selection(cluster, select(cluster, flags.num_hosts, only, exclude), spec)


def check_host_flags(flags: HostFlags, upload: Sequence[Path] = ()) -> None:
    """Check these flags for what is wrong whatever the hosts are. Raises: PlanError, with all
    mistakes."""
    mistakes = [*_find_mistakes(flags, upload)]
    if mistakes:
        raise PlanError(*mistakes)


def _find_mistakes(flags: HostFlags, upload: Sequence[Path]) -> Iterator[str]:
    local = flags.local
    slots = flags.slots
    number_flags = (
        ("--local", local, "ranks", " to use the hosts file"),
        ("--slots", slots, "ranks of each host", ""),
        ("--num-hosts", flags.num_hosts, "hosts", ""),
    )
    for flag, flag_number, counted_noun, omission_effect in number_flags:
        if flag_number is not None and flag_number < 1:
            hint = f"give the number of {counted_noun}, 1 or more, or leave it out{omission_effect}"
            yield f"{flag} {flag_number}: {hint}"
    sources = {
        f"--hosts {flags.hosts}": flags.hosts,
        f"--host {flags.host}": flags.host,
        "--slurm": flags.slurm,
        f"--local {local}": local,
    }
    given_sources = [word for word, value in sources.items() if value]
    if len(given_sources) > 1:
        yield f"{' and '.join(given_sources)} cannot be combined: give one of them"
    if upload and local:
        yield (
            f"--upload {upload[0]} is for other machines: with --local {local} the ranks work in "
            "this folder"
        )
    # Within a job, its nodes are used unless other hosts are named.
    is_slurm_job = flags.slurm or (is_slurm() and not flags.hosts and not flags.host)
    # A hosts file has its own slots, which a flag would contradict.
    if slots and not local and not is_slurm_job:
        yield f"--slots {slots} needs --local N; in a hosts file, write slots = {slots}"
    # A number below 1 is told above, and no lab can be made of it.
    if all(count is None or count > 0 for count in (local, slots)):
        try:
            _make_spec(flags)
        except LabError as error:
            yield str(error)


def check_hosts_file(flags: HostFlags) -> None:
    """Check the hosts file, if these flags need one. Raises: HostsError, with all mistakes."""
    if flags.local is None:
        _load_hosts(flags)


def _load_hosts(flags: HostFlags) -> Cluster:
    """Load the hosts that are named, else the usual ones. Raises: HostsError."""
    if flags.hosts:
        return load(flags.hosts)
    if flags.host:
        return load_named(flags.host)
    if flags.slurm:
        return load_slurm()
    if not has_usual():
        raise HostsError(
            f"{HOSTS}: no such file: write it with {TWO_LINES}, or name yours with --hosts FILE; "
            "--local N runs on this machine"
        )
    return load_usual()


def _with_flags(cluster: Cluster, slots: int | None, upload: Sequence[Path]) -> Cluster:
    """Return the hosts with the flags --slots and --upload."""
    hosts = tuple(with_slots(host, slots or host.slots) for host in cluster.hosts)
    # Absolute, since the plan may be used from another folder later.
    uploads = (os.path.abspath(path.expanduser()) for path in upload)
    return replace(cluster, hosts=hosts, sync=(*cluster.sync, *uploads))


def _make_local_cluster(ranks: int, slots: int | None) -> Cluster:
    """Make this machine one host, or several of `slots` ranks each."""
    if not slots:
        return Cluster("this machine", (_local_host("local", ranks),))
    num_hosts = ranks // slots
    hosts = tuple(_local_host(f"local{index}", slots) for index in range(1, num_hosts + 1))
    remarks = (shared(num_hosts, os.cpu_count() or 1),) if num_hosts > 1 else ()
    return Cluster("this machine", hosts, remarks)


def _local_host(name: str, slots: int) -> Host:
    return Host(name, "127.0.0.1", python=sys.executable, slots=slots, transport=LOCAL)


def _make_spec(flags: HostFlags) -> LabSpec | None:
    """Make the lab of these flags, if any. Raises: LabError."""
    local = flags.local
    slots = flags.slots
    if local and slots and local % slots:
        divisor_texts = [str(divisor) for divisor in range(1, local + 1) if local % divisor == 0]
        raise LabError(
            f"--slots {slots} does not divide the {local} ranks of --local: give one of "
            f"{', '.join(divisor_texts)}"
        )
    if not flags.link:
        if flags.cpus:
            raise LabError(
                f"--cpus {flags.cpus} needs --link; for links without a limit, give --link 10gbit"
            )
        return None
    if not local:
        raise LabError(
            f"--link {flags.link} needs --local N: it gives the ranks of this machine a network; "
            "add --local 4"
        )
    ranks_per_host = slots or 1
    return parse(local // ranks_per_host, flags.link, flags.cpus, ranks_per_host)


@contextmanager
def open_transports(chosen: Selection) -> Iterator[Transports]:
    """Yield the transports of the chosen hosts; their lab is up meanwhile. Raises: LabError."""
    if not chosen.spec:
        yield Transports(chosen.cluster.hosts)
        return
    from remote.lab.lab import Lab

    with Lab.start(chosen.spec) as lab:
        yield Transports(chosen.cluster.hosts, lab.enter)


def reach_hosts(path: Path | None) -> tuple[Transport | None, tuple[Host, ...]]:
    """Load the hosts of a file or Slurm job; return a transport to them, and these hosts.

    Without any, there is no transport. Raises: HostsError.
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
