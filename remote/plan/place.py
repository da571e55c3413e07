"""Places the ranks of a plan: the address where they meet, and the command and environment of each.
Pure.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType

from remote.cluster.hosts import Host, is_loopback
from remote.plan import elastic, frameworks, placeholders
from remote.plan.elastic import Variables
from remote.plan.plan import Plan, PlanError, Script
from training.place import COPIES
from training.wire.commands import Placement
from training.wire.host_events import Hello

_OF_RANKS = re.compile(
    rf"RANK|LOCAL_RANK|WORLD_SIZE|LOCAL_WORLD_SIZE|ROLE_.*|TORCHELASTIC_.*|{elastic.WATCH}"
)
"""Variables that make a process a rank, or watched as one."""
Texts = tuple[tuple[str, str], ...]


def place(
    plan: Plan,
    facts: Sequence[Hello | None],
    address: str,
    port: int | str,
    forwarded: Mapping[str, str] = MappingProxyType({}),
    attempt: int = 0,
) -> tuple[tuple[Placement, ...], ...]:
    """Return for every host its ranks' commands and environments.

    `facts` are the hosts', in order; None for those of a host not asked yet, whose choices then
    show as `<…>`. `address` and `port` are the rendezvous. `forwarded` has the values of what the
    hosts' `env_from` name (see `remote.plan.environment`). `attempt` is the number of the attempt.
    Raises: PlanError, where a variable is missing there.
    """
    threads_by_host = threads_of_hosts(plan, facts)
    placements: list[list[Placement]] = [[] for _ in plan.hosts]
    for slot in plan.slots:
        host = plan.hosts[slot.host]
        hello = facts[slot.host]
        values = plan.place_values(slot) | {
            placeholders.MASTER_ADDR: address,
            placeholders.MASTER_PORT: port,
        }
        place_variables: Variables = placeholders.variables(values) | {"RANKBOARD_RUN": plan.run}
        if plan.keeps_copies:
            place_variables[COPIES] = 1
        thread_variables: Variables = {"OMP_NUM_THREADS": threads_by_host[slot.host]}
        interface_variables = _interface(host.interface or _route_interface(plan, hello))
        host_texts = tuple((name, placeholders.fill(value, values)) for name, value in host.env)
        chosen_variables = (*host_texts, *_forwarded(host, forwarded))
        default_texts: Texts = ()
        working_folder = ""
        if isinstance(plan.work, Script):
            argv = plan.work.argv(hello.executable if hello else host.python, values)
            working_folder = plan.rank_cwd(slot) if placeholders.is_of_rank(host.cwd) else ""
            place_variables |= elastic.fixed(plan, slot, hello, attempt)
            environment = (
                *_texts(elastic.replaceable(plan) | _said(host)),
                *chosen_variables,
                *_texts(place_variables),
            )
            # These count only if the host's own environment has none, as with torchrun; for a job
            # they always do.
            default_texts = _texts(
                elastic.DEFAULTS
                | frameworks.defaults(hello)
                | thread_variables
                | interface_variables
            )
        else:
            argv = plan.work.argv()
            environment = (
                *chosen_variables,
                *_texts(place_variables | thread_variables | interface_variables),
            )
        placements[slot.host].append(
            Placement(
                *(slot.rank, slot.local_rank, argv, environment, host.env_from, default_texts),
                cwd=working_folder,
            )
        )
    return tuple(map(tuple, placements))


def place_before(plan: Plan, host_index: int, placement: Placement) -> Placement:
    """Return how the command of a script runs that comes before the ranks of a host, by the
    placement of the first of them: as that rank, but without what makes a process a rank."""
    assert plan.script
    environment = dict(placement.env)
    values = plan.place_values(plan.first_slot(host_index))
    for placeholder in (placeholders.MASTER_ADDR, placeholders.MASTER_PORT):
        values[placeholder] = environment[placeholder.variable]
    for placeholder in (placeholders.RANK, placeholders.LOCAL_RANK):
        del values[placeholder]
    command = placeholders.fill(plan.script.before, values, is_code=True)
    kept_variables = tuple(
        (name, value) for name, value in placement.env if not _OF_RANKS.fullmatch(name)
    )
    return replace(placement, argv=("sh", "-c", command), env=kept_variables, cwd="")


def _said(host: Host) -> Variables:
    """Return the variables that the keys of the host itself set."""
    variables = _interface(host.interface)
    if host.threads:
        variables["OMP_NUM_THREADS"] = host.threads
    return variables


def _texts(variables: Variables) -> Texts:
    return tuple((name, str(value)) for name, value in variables.items())


def _interface(interface_name: str) -> Variables:
    """Make ranks use this interface. Without the `=`, NCCL takes all whose names begin so."""
    return (
        {"GLOO_SOCKET_IFNAME": interface_name, "NCCL_SOCKET_IFNAME": f"={interface_name}"}
        if interface_name
        else {}
    )


def _forwarded(host: Host, known_values: Mapping[str, str]) -> list[tuple[str, str]]:
    missing_names = [name for name in host.env_from if name not in known_values]
    if missing_names:
        raise PlanError(
            f"{host.name}: env_from names {', '.join(missing_names)}, which this launcher's "
            "environment does not have"
        )
    return [(name, known_values[name]) for name in host.env_from]


def _route_interface(plan: Plan, hello: Hello | None) -> str:
    return hello.route_interface if hello else f"<interface to {plan.hosts[0].name}>"


def threads_of_hosts(plan: Plan, facts: Sequence[Hello | None]) -> list[int | str]:
    """Return OMP_NUM_THREADS of each host's ranks: hosts that are one machine (one boot id) share
    its cores among all their ranks."""
    ranks_by_machine = Counter[str]()
    for host, hello in zip(plan.hosts, facts, strict=True):
        ranks_by_machine[hello.boot_id if hello else ""] += host.slots
    return [
        host.threads
        or (
            max(1, int(hello.cores) // ranks_by_machine[hello.boot_id])
            if hello
            else "<cores of the machine / ranks on it>"
        )
        for host, hello in zip(plan.hosts, facts, strict=True)
    ]


def master_address(plan: Plan, facts: Sequence[Hello]) -> str:
    """Return the address of the first host at which the others meet.

    Raises: PlanError, where its interface is missing, or other machines could not reach the
    address.
    """
    host = plan.hosts[0]
    hello = facts[0]
    address = address_of(host, hello)
    # Debian's /etc/hosts leads a host's own name to 127.0.1.1, which means another machine on
    # each.
    if is_loopback(address) and len({fact.boot_id for fact in facts}) > 1:
        known_interfaces = []
        for name, own_address in interface_addresses(hello).items():
            if not is_loopback(own_address):
                known_interfaces.append(f"{name} ({own_address})")
        raise PlanError(
            f"{host.name}: the other hosts cannot reach it at {address}; in {host.hosts_file} set "
            f"its interface to one of: {', '.join(known_interfaces) or 'none found'}"
        )
    return address


def address_of(host: Host, hello: Hello) -> str:
    """Return the address at which other hosts reach this one: its `interface`'s, else that of the
    one that leads to the master.

    Raises: PlanError, where there is no such interface.
    """
    if not host.interface:
        return hello.route_address or host.address
    addresses = interface_addresses(hello)
    if host.interface in addresses:
        return addresses[host.interface]
    known_interfaces = ", ".join(f"{name} ({address})" for name, address in addresses.items())
    raise PlanError(
        f"{host.name}: no interface {host.interface!r} there; in {host.hosts_file} set "
        f"interface to one of: {known_interfaces}"
    )


def interface_addresses(hello: Hello) -> dict[str, str]:
    """Return the addresses of a host by the names of its interfaces."""
    return {name: address for name, address, _ in hello.interfaces}
