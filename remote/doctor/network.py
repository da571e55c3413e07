"""Checks which address of a host the others reach, and what became of the connections that they
tried. Pure.

Judged by routes and addresses: an interface's name says nothing, and is used only to tell a person
what it probably is.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from ipaddress import ip_address, ip_interface

from remote.doctor.host_facts import FAILED, WARNING, CheckedHost, HostFinding
from remote.plan.place import interface_addresses, is_loopback
from remote.plan.plan import Plan
from training.wire.events import Connected, Reserved

_BRIDGE = re.compile(r"(docker|br-|virbr|podman|cni|lxcbr|lxdbr|vmnet|vboxnet)")


def own_address(own: CheckedHost) -> str:
    """Return the host's address for the other ranks: its `interface`'s, else the one that leads to
    the master; "" if there is none."""
    interface = own.host.interface
    if not interface:
        return own.hello.route_address
    return interface_addresses(own.hello).get(interface, "")


def check_interface(own: CheckedHost) -> HostFinding | str:
    """Check which interface leads from the host to the master, and whether others could use its
    address."""
    address = own_address(own)
    name = own.host.interface or own.hello.route_interface
    if not address:
        return _no_address(own)
    if is_loopback(address):
        return _loopback(own, address)
    twins = [other for other in own.elsewhere if address in _addresses(other)]
    if not twins:
        return _compare_speed(own, f"{name} {address}")
    names = ", ".join(other.host.name for other in twins[:3])
    is_bridge = _BRIDGE.match(name)
    what = (
        "a bridge of its containers or virtual machines" if is_bridge else "no address of its own"
    )
    return HostFinding(
        FAILED,
        f"{name} ({address}) is {what}: {names} has the same address, so nobody else can reach it "
        "there",
        _suggest_interface(own),
    )


def _compare_speed(own: CheckedHost, what: str) -> HostFinding | str:
    """Compare the speed of the interface with those of the other hosts: all wait for the slowest
    link."""
    usual = own.median_if_behind(_speed_of)
    if not usual or not own.waits_for_slowest:
        return what
    return HostFinding(
        WARNING,
        f"{what} runs at {_speed_of(own):g} Mbit/s, but {usual:g} Mbit/s on {own.median_host}: "
        "every step waits for it",
        "look at its cable and its port of the switch, or leave it out with --exclude "
        f"{own.host.name}",
    )


def _speed_of(own: CheckedHost) -> float:
    name = own.host.interface or own.hello.route_interface
    return dict(own.hello.link_speeds).get(name, 0)


def _no_address(own: CheckedHost) -> HostFinding | str:
    interface = own.host.interface
    master = own.plan.hosts[0]
    if interface:
        what = f"it has no interface {interface!r} with an IPv4 address"
        return HostFinding(FAILED, what, _suggest_interface(own))
    return HostFinding(
        FAILED,
        f"it cannot reach {master.address}: the name does not resolve there, or there is no route",
        f"set the address of {master.name} in {master.hosts_file} to one that all hosts reach, as "
        "ip route get ADDRESS on each shows, or set interface on all hosts",
    )


def _loopback(own: CheckedHost, address: str) -> HostFinding | str:
    """Refuse an address that leads to the own machine only, unless all hosts are one machine."""
    if not own.elsewhere:
        return f"{own.hello.route_interface or 'lo'} {address}"
    master = own.plan.hosts[0]
    if own.same_machine[0].index == 0:
        why = f"{own.host.address} means {address} there, itself alone"
        if address == "127.0.1.1":
            why += ", as Debian's /etc/hosts has it"
        what = f"the other hosts cannot reach it: {why}"
        return HostFinding(FAILED, what, _suggest_interface(own))
    return HostFinding(
        FAILED,
        f"{master.address}, the address of {master.name}, means {address} there, which is this "
        "host itself",
        f"set the address of {master.name} in {master.hosts_file} to one that means the same on "
        "all hosts, as its IP address",
    )


def _suggest_interface(own: CheckedHost) -> str:
    """Say which interfaces there are instead: those in a network with others' addresses, else all
    that are this host's alone."""
    taken: set[str] = set().union(*map(_addresses, own.elsewhere))
    alone = []
    near = []
    for name, address, prefix in own.hello.interfaces:
        if is_loopback(address) or address in taken:
            continue
        choice = f'"{name}" ({address})'
        alone.append(choice)
        network = ip_interface(f"{address}/{prefix}").network
        if any(ip_address(other) in network for other in taken):
            near.append(choice)
    choices = " or ".join(near or alone)
    if not choices:
        return "give it an IPv4 address on the network that joins the hosts"
    host = own.host
    return f"in {host.hosts_file} set interface for {host.name} to {choices}"


def _addresses(own: CheckedHost) -> set[str]:
    return set(interface_addresses(own.hello).values())


def check_port(own: CheckedHost, reserved: Reserved) -> HostFinding | str:
    """Check the port that was reserved on the host: the rendezvous on the first, any other one
    elsewhere."""
    if not reserved.error:
        return f"{reserved.port} is free"
    hosts_file = own.plan.hosts_file
    if own.index:
        return HostFinding(FAILED, reserved.error, f"set interface for it in {hosts_file}")
    advice = (
        f"set another master_port for it in {hosts_file}, or leave the key out and a free one is "
        "chosen"
    )
    return HostFinding(FAILED, reserved.error, advice)


def check_connect(
    own: CheckedHost, listening: Sequence[Reserved | None], tried: Sequence[Connected]
) -> HostFinding | str:
    """Check whether the host reached the master and its neighbour."""
    if not tried:
        return HostFinding(
            FAILED,
            "it did not say whether it reaches the others",
            "see whether its agent is held up, and try again",
        )
    failed = [answer for answer in tried if answer.error]
    if not failed:
        slowest = max(answer.seconds for answer in tried)
        return f"{1000 * slowest:.1f} ms"
    missed: list[str] = []
    for answer in failed:
        name = _name_of(own.plan, answer, listening)
        missed.append(f"{name} at {answer.address}:{answer.port} ({answer.error})")
    what = f"cannot reach {' and '.join(missed)} from {own_address(own)}"
    return HostFinding(FAILED, what, _advise_on_network(own, failed))


def _name_of(plan: Plan, tried: Connected, listening: Sequence[Reserved | None]) -> str:
    for host, reserved in zip(plan.hosts, listening, strict=True):
        if reserved and (reserved.address, reserved.port) == (tried.address, tried.port):
            return host.name
    return "another host"


def _advise_on_network(own: CheckedHost, failed: Sequence[Connected]) -> str:
    errors = " ".join(answer.error.lower() for answer in failed)
    elsewhere = "that address is on a network which this host does not reach"
    if "refused" in errors:
        why = "another machine has that address, or a firewall rejects"
    elif "timed out" in errors:
        why = f"a firewall drops it, or {elsewhere}"
    else:
        why = elsewhere
    return (
        f"{why}; let the hosts reach each other by TCP on all ports, or set interface in "
        f"{own.plan.hosts_file} to their common network"
    )
