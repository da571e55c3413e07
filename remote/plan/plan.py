"""The plan of a run: which ranks run where, and with which command and environment. Pure: it does
no I/O."""

from __future__ import annotations

import math
import posixpath
import secrets
import shlex
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from ipaddress import ip_address
from types import MappingProxyType

from remote.cluster.hosts import HOSTS, HOSTS_FILE, RANKS, Host, naming
from remote.format import count
from training.agent.host.redaction import stand_in
from training.agent.layout import NODE, UPLOADS, run_folder
from training.job import Job, JobError
from training.place import COPIES
from training.wire.commands import Placement
from training.wire.events import Hello

RESTARTS = 10_000
"""How often a run restarts at most."""
"""The folder in a run's directory that takes the place of a host's workdir where this machine is
the host."""


class PlanError(ValueError):
    """A plan that cannot be acted out; the text says what to change."""


@dataclass(frozen=True)
class Script:
    """A user's own program, started once per rank with torchrun's environment."""

    words: tuple[str, ...]

    def argv(self) -> tuple[str, ...]:
        """The program and its arguments."""
        return self.words

    def command_line(self) -> str:
        """The command of one rank, as a person would type it."""
        return shlex.join(self.words)


@dataclass(frozen=True)
class Slot:
    """The place of one rank: on host number `host` it is the `local_rank`-th."""

    rank: int
    local_rank: int
    host: int


class OnStall(StrEnum):
    """What follows when a rank makes no steps any more."""

    REPORT = "report"
    STOP = "stop"
    RESTART = "restart"


class OnNan(StrEnum):
    """What follows when a rank's loss is no finite number any more."""

    WARN = "warn"
    STOP = "stop"


@dataclass(frozen=True)
class Policy:
    """What a run does when something happens to it.

    `keep`: it goes on without its operator. `doctor`: the hosts are checked before the start.
    `start_timeout` is how many seconds the ranks have from the command to their first step (0: as
    long as it takes). A failed run is started again up to `max_restarts` times, without lost hosts
    as long as `min_nodes` (0: all) are left. `fetch`: checkpoints and reports come back from the
    hosts.
    """

    keep: bool = False
    doctor: bool = True
    start_timeout: float = 0.0
    on_stall: OnStall = OnStall.REPORT
    on_nan: OnNan = OnNan.WARN
    max_restarts: int = 0
    min_nodes: int = 0
    fetch: bool = True

    def __post_init__(self) -> None:
        """Refuse what no reader of policies may let through. Raises: PlanError."""
        if not 0 <= self.start_timeout < math.inf:
            raise PlanError(
                f"--start-timeout {self.start_timeout}: give a finite number of seconds (0: wait)"
            )
        for name, number, high in (
            ("--max-restarts", self.max_restarts, RESTARTS),
            ("--min-nodes", self.min_nodes, HOSTS),
        ):
            if not 0 <= number <= high:
                raise PlanError(f"{name} {number}: give a number from 0 to {high}")


@dataclass(frozen=True)
class Upload:
    """A file or folder of the operator's machine that goes to every host: `source` is its
    absolute path, `target` where it lands below the folder that the ranks work in ("": it is
    that folder)."""

    source: str
    target: str


@dataclass(frozen=True)
class Plan:
    """One run: `work` done by one rank per slot of the hosts, in their order.

    `uploads` land on each host in the folder `<workdir>/files/<project>`, and there the ranks then
    work; `project` is "" where there are none. `hosts_file` is where the hosts come from.
    """

    run: str
    hosts: tuple[Host, ...]
    work: Job | Script
    policy: Policy = Policy()
    uploads: tuple[Upload, ...] = ()
    project: str = ""
    hosts_file: str = HOSTS_FILE

    @property
    def is_local(self) -> bool:
        """Whether this machine itself is the hosts, as with `--local`: what they keep then lies in
        the run's own directory."""
        return all(host.workdir.endswith(f"/{self.run}/{NODE}") for host in self.hosts)

    def named(self, text: str) -> str:
        """The text with the name of the plan's own hosts file."""
        return naming(self.hosts_file, text)

    def __post_init__(self) -> None:
        """Refuse what no reader of plans may let through. Raises: PlanError."""
        if len(self.hosts) > HOSTS:
            raise PlanError(f"the run has {len(self.hosts)} hosts: {HOSTS} at most")
        if self.world_size > RANKS:
            raise PlanError(f"the run has {self.world_size} ranks: {RANKS} at most")

    @property
    def world_size(self) -> int:
        """The number of ranks."""
        return sum(host.slots for host in self.hosts)

    @property
    def slots(self) -> tuple[Slot, ...]:
        """The place of every rank, in rank order."""
        places = [
            (index, local) for index, host in enumerate(self.hosts) for local in range(host.slots)
        ]
        return tuple(Slot(rank, local, index) for rank, (index, local) in enumerate(places))

    @property
    def copies(self) -> bool:
        """Whether every host keeps a copy of a checkpoint's model, as the run may be started again
        without some of them."""
        return self.policy.max_restarts > 0 and 0 < self.policy.min_nodes < len(self.hosts)

    def folder(self, index: int) -> str:
        """Where host number `index` keeps what it knows of the run."""
        return run_folder(self.hosts[index].workdir, self.run, index)

    def cwd(self, index: int) -> str:
        """Where the ranks of host number `index` work."""
        workdir = self.hosts[index].workdir
        return f"{workdir}/{UPLOADS}/{self.project}" if self.project else workdir


def new_run(work: Job | Script, now: datetime) -> str:
    """A name for a run: when, what and four letters against doubles, as in
    `20261120-093000-ddp-lenet5-3f9a`."""
    what = f"{work.sync}-{work.model.replace('/', '-')}" if isinstance(work, Job) else "script"
    return f"{now:%Y%m%d-%H%M%S}-{what}-{secrets.token_hex(2)}"


def check(plan: Plan) -> None:
    """Raises: PlanError, where the work does not fit the ranks."""
    if not plan.hosts:
        raise PlanError(
            "no host is left to run on: choose one, or see --nodes, --only and --exclude"
        )
    if isinstance(plan.work, Job):
        try:
            plan.work.check_world(plan.world_size)
        except JobError as error:
            raise PlanError(str(error)) from None


def notes(plan: Plan) -> tuple[str, ...]:
    """What a user should know of the plan before it starts, one line each."""
    trainers = plan.work.trainers(plan.world_size) if isinstance(plan.work, Job) else []
    if not isinstance(plan.work, Job) or not trainers or plan.work.batch_size % len(trainers) == 0:
        return ()
    share, more = divmod(plan.work.batch_size, len(trainers))
    first = f"rank {trainers[0]} takes" if more == 1 else f"ranks {_listed(trainers[:more])} take"
    ranks = f"{len(trainers)} ranks{' that train' if len(trainers) < plan.world_size else ''}"
    return (
        f"batch size {plan.work.batch_size} does not divide by {ranks}: "
        f"{first} {share + 1} samples{'' if more == 1 else ' each'}, the others {share}",
    )


def _listed(ranks: Sequence[int]) -> str:
    """Ranks in order: all between the first and the last, but for those that are left out."""
    first, last = ranks[0], ranks[-1]
    without = ", ".join(str(rank) for rank in range(first, last) if rank not in ranks)
    return f"{first} to {last}{f' but {without}' if without else ''}"


def master_address(plan: Plan, facts: Sequence[Hello]) -> str:
    """The address of the first host at which the others meet.

    Raises: PlanError, where its interface is missing, or other machines could not reach the
    address.
    """
    host, hello = plan.hosts[0], facts[0]
    address = address_of(host, hello)
    if is_loopback(address) and len({fact.boot_id for fact in facts}) > 1:
        known = ", ".join(
            f"{name} ({address})"
            for name, address, _ in hello.interfaces
            if not is_loopback(address)
        )
        raise PlanError(
            f"{host.name}: the other hosts cannot reach it at {address}; "
            f"in hosts.toml set its interface to one of: {known or 'none found'}"
        )
    return address


def address_of(host: Host, hello: Hello) -> str:
    """The address at which other hosts reach this one: its `interface`'s, else that of the one that
    leads to the master.

    Raises: PlanError, where there is no such interface.
    """
    if not host.interface:
        return hello.route_address or host.address
    for name, address, _ in hello.interfaces:
        if name == host.interface:
            return address
    known = ", ".join(f"{name} ({address})" for name, address, _ in hello.interfaces)
    raise PlanError(
        f"{host.name}: no interface {host.interface!r} there; in hosts.toml set interface to one "
        f"of: {known}"
    )


def is_loopback(address: str) -> bool:
    try:
        return ip_address(address).is_loopback
    except ValueError:
        return False


def place(
    plan: Plan,
    facts: Sequence[Hello | None],
    address: str,
    port: int | str,
    forwarded: Mapping[str, str] = MappingProxyType({}),
) -> tuple[tuple[Placement, ...], ...]:
    """For every host its ranks' commands and environments.

    `facts` are the hosts', in order; None for those of a host not asked yet, whose choices then
    show as `<…>`. `address` and `port` are the rendezvous. `forwarded` has the values of what the
    hosts' `env_from` name (see `remote.plan.environment`). Raises: PlanError, where one is missing
    there.
    """
    threads = _threads(plan, facts)
    placements: list[list[Placement]] = [[] for _ in plan.hosts]
    for slot in plan.slots:
        host = plan.hosts[slot.host]
        interface = host.interface or _route_interface(plan, facts[slot.host])
        env = {
            "RANK": slot.rank,
            "LOCAL_RANK": slot.local_rank,
            "WORLD_SIZE": plan.world_size,
            "LOCAL_WORLD_SIZE": host.slots,
            "GROUP_RANK": slot.host,
            "GROUP_WORLD_SIZE": len(plan.hosts),
            "MASTER_ADDR": address,
            "MASTER_PORT": port,
            "OMP_NUM_THREADS": threads[slot.host],
            "RANKBOARD_RUN": plan.run,
        }
        if plan.copies:
            env[COPIES] = 1
        if interface:
            env |= {
                "GLOO_SOCKET_IFNAME": interface,
                "NCCL_SOCKET_IFNAME": f"={interface}",
            }  # else NCCL takes all that begin so
        given = (
            *host.env,
            *_forwarded(host, forwarded),
            *((key, str(value)) for key, value in env.items()),
        )
        placements[slot.host].append(
            Placement(slot.rank, slot.local_rank, plan.work.argv(), given, host.env_from)
        )
    return tuple(map(tuple, placements))


def _forwarded(host: Host, values: Mapping[str, str]) -> list[tuple[str, str]]:
    if missing := [name for name in host.env_from if name not in values]:
        raise PlanError(
            f"{host.name}: env_from names {', '.join(missing)}, which this launcher's environment "
            "does not have"
        )
    return [(name, values[name]) for name in host.env_from]


def _route_interface(plan: Plan, hello: Hello | None) -> str:
    return hello.route_interface if hello else f"<interface to {plan.hosts[0].name}>"


def _threads(plan: Plan, facts: Sequence[Hello | None]) -> list[int | str]:
    """OMP_NUM_THREADS per host: hosts that are one machine (one boot id) share its cores among all
    their ranks."""
    ranks = Counter[str]()
    for host, fact in zip(plan.hosts, facts, strict=True):
        ranks[fact.boot_id if fact else ""] += host.slots
    return [
        host.threads
        or (
            max(1, int(fact.cores) // ranks[fact.boot_id])
            if fact
            else "<cores of the machine / ranks on it>"
        )
        for host, fact in zip(plan.hosts, facts, strict=True)
    ]


def dry_run(plan: Plan) -> str:
    """The plan as text: every rank's host, command and environment, as far as they are known before
    a host is asked."""
    master = plan.hosts[0]
    address = (
        master.address
        if not master.interface
        else f"<address of {master.interface} on {master.name}>"
    )
    port = master.master_port or f"<chosen on {master.name}>"
    size = f"{count(plan.world_size, 'rank')} on {count(len(plan.hosts), 'host')}"
    lines = [f"{size}, for example as run {plan.run} (each start makes a new name)", *notes(plan)]
    lines.append(f"every rank: {plan.work.command_line()}")
    hidden = {name: stand_in(name) for host in plan.hosts for name in host.env_from}
    placed = place(plan, [None] * len(plan.hosts), address, port, hidden)
    for index, (host, placements) in enumerate(zip(plan.hosts, placed, strict=True)):
        lines.append(
            f"\n{host.name}  {host.user + '@' if host.user else ''}{host.address}  {host.python}  "
            f"{host.workdir}"
        )
        lines += [
            f"  upload {one.source} to {posixpath.join(plan.cwd(index), one.target)}"
            for one in plan.uploads
        ]
        for placement in placements:
            env = " ".join(f"{key}={_quoted(value)}" for key, value in placement.env)
            lines.append(f"  rank {placement.rank}: {env}")
    return "\n".join(lines)


def _quoted(value: str) -> str:
    """A value to read: in quotes where it would not be clear where it begins and ends, as that of
    NCCL_SOCKET_IFNAME."""
    return f"'{value}'" if value.startswith("=") or " " in value else value
