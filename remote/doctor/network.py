"""Checks which address of a host the others reach, and what became of the connections that they
tried. Pure.

Judged by routes and addresses: an interface's name says nothing, and is used only to tell a person
what it probably is.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from ipaddress import ip_address, ip_interface

from remote.doctor.host_facts import FAILED, OK, WARNING, HostFacts, HostFinding
from remote.plan.place import is_loopback
from training.wire.events import Connected, Reserved

_BRIDGE = re.compile(r"(docker|br-|virbr|podman|cni|lxcbr|lxdbr|vmnet|vboxnet)")


def own_address(facts: HostFacts, index: int) -> str:
    """Return the host's address for the other ranks: its `interface`'s, else the one that leads to
    the master; "" if there is none."""
    interface = facts.host(index).interface
    hello = facts.hello(index)
    if not interface:
        return hello.route_address
    for name, address, _ in hello.interfaces:
        if name == interface:
            return address
    return ""


def check_interface(facts: HostFacts, index: int) -> HostFinding:
    """Check which interface leads from the host to the master, and whether others could use its
    address."""
    address = own_address(facts, index)
    name = facts.host(index).interface or facts.hello(index).route_interface
    if not address:
        return _no_address(facts, index)
    if is_loopback(address):
        return _loopback(facts, index, address)
    twins = [other for other in facts.elsewhere(index) if address in _addresses(facts, other)]
    if not twins:
        return _compare_speed(facts, index, f"{name} {address}")
    names = ", ".join(facts.host(other).name for other in twins[:3])
    is_bridge = _BRIDGE.match(name)
    what = (
        "a bridge of its containers or virtual machines" if is_bridge else "no address of its own"
    )
    return HostFinding(
        FAILED,
        f"{name} ({address}) is {what}: {names} has the same address, so nobody else can reach it "
        "there",
        _suggest_interface(facts, index),
    )


def _compare_speed(facts: HostFacts, index: int, what: str) -> HostFinding:
    """Compare the speed of the interface with those of the other hosts: all wait for the slowest
    link."""

    def speed_of(other: int) -> float:
        hello = facts.hello(other)
        name = facts.host(other).interface or hello.route_interface
        return dict(hello.link_speeds).get(name, 0)

    usual = facts.median_if_behind(index, speed_of)
    if not usual or not facts.waits_for_slowest:
        return HostFinding(OK, what)
    return HostFinding(
        WARNING,
        f"{what} runs at {speed_of(index):g} Mbit/s, but {usual:g} Mbit/s on {facts.median_host}: "
        "every step waits for it",
        "look at its cable and its port of the switch, or leave it out with --exclude "
        f"{facts.host(index).name}",
    )


def _no_address(facts: HostFacts, index: int) -> HostFinding:
    interface = facts.host(index).interface
    master = facts.host(0)
    if interface:
        what = f"it has no interface {interface!r} with an IPv4 address"
        return HostFinding(FAILED, what, _suggest_interface(facts, index))
    return HostFinding(
        FAILED,
        f"it cannot reach {master.address}: the name does not resolve there, or there is no route",
        f"set the address of {master.name} in {master.hosts_file} to one that all hosts reach, as "
        "ip route get ADDRESS on each shows, or set interface on all hosts",
    )


def _loopback(facts: HostFacts, index: int, address: str) -> HostFinding:
    """Refuse an address that leads to the own machine only, unless all hosts are one machine."""
    if not facts.elsewhere(index):
        return HostFinding(OK, f"{facts.hello(index).route_interface or 'lo'} {address}")
    master = facts.host(0)
    if 0 in facts.on_same_machine(index):
        why = f"{facts.host(index).address} means {address} there, itself alone"
        if address == "127.0.1.1":
            why += ", as Debian's /etc/hosts has it"
        what = f"the other hosts cannot reach it: {why}"
        return HostFinding(FAILED, what, _suggest_interface(facts, index))
    return HostFinding(
        FAILED,
        f"{master.address}, the address of {master.name}, means {address} there, which is this "
        "host itself",
        f"set the address of {master.name} in {master.hosts_file} to one that means the same on "
        "all hosts, as its IP address",
    )


def _suggest_interface(facts: HostFacts, index: int) -> str:
    """Say which interfaces there are instead: those in a network with others' addresses, else all
    that are this host's alone."""
    taken: set[str] = set()
    for other in facts.elsewhere(index):
        taken |= _addresses(facts, other)
    own: list[tuple[str, str]] = []
    near: list[tuple[str, str]] = []
    for name, address, prefix in facts.hello(index).interfaces:
        if is_loopback(address) or address in taken:
            continue
        own.append((name, address))
        if _is_in_network(address, prefix, taken):
            near.append((name, address))
    choices = near or own
    if not choices:
        return "give it an IPv4 address on the network that joins the hosts"
    listed = " or ".join(f'"{name}" ({address})' for name, address in choices)
    host = facts.host(index)
    return f"in {host.hosts_file} set interface for {host.name} to {listed}"


def _is_in_network(address: str, prefix: int, others: set[str]) -> bool:
    network = ip_interface(f"{address}/{prefix}").network
    return any(ip_address(other) in network for other in others if not is_loopback(other))


def _addresses(facts: HostFacts, index: int) -> set[str]:
    return {address for _, address, _ in facts.hello(index).interfaces}


def check_port(facts: HostFacts, index: int, reserved: Reserved) -> HostFinding:
    """Check the port that was reserved on the host: the rendezvous on the first, any other one
    elsewhere."""
    if not reserved.error:
        return HostFinding(OK, f"{reserved.port} is free")
    hosts_file = facts.plan.hosts_file
    if index:
        return HostFinding(FAILED, reserved.error, f"set interface for it in {hosts_file}")
    advice = (
        f"set another master_port for it in {hosts_file}, or leave the key out and a free one is "
        "chosen"
    )
    return HostFinding(FAILED, reserved.error, advice)


def check_connect(
    facts: HostFacts, index: int, listening: Sequence[Reserved | None], tried: Sequence[Connected]
) -> HostFinding:
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
        return HostFinding(OK, f"{1000 * slowest:.1f} ms")
    missed: list[str] = []
    for answer in failed:
        name = _name_of(facts, answer, listening)
        missed.append(f"{name} at {answer.address}:{answer.port} ({answer.error})")
    what = f"cannot reach {' and '.join(missed)} from {own_address(facts, index)}"
    return HostFinding(FAILED, what, _advise_on_network(facts, failed))


def _name_of(facts: HostFacts, tried: Connected, listening: Sequence[Reserved | None]) -> str:
    for index, reserved in enumerate(listening):
        if reserved and (reserved.address, reserved.port) == (tried.address, tried.port):
            return facts.host(index).name
    return "another host"


def _advise_on_network(facts: HostFacts, failed: Sequence[Connected]) -> str:
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
        f"{facts.plan.hosts_file} to their common network"
    )
