"""Which address of a host the others reach, and what became of the connections that they tried.
Pure.

Judged by routes and addresses: an interface's name says nothing, and is used only to tell a person
what it probably is.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from ipaddress import ip_address, ip_interface

from remote.doctor.check import FAILED, OK, WARNING, Facts, Found
from remote.plan.place import is_loopback
from training.wire.events import Connected, Reserved

_BRIDGE = re.compile(r"(docker|br-|virbr|podman|cni|lxcbr|lxdbr|vmnet|vboxnet)")


def own_address(facts: Facts, index: int) -> str:
    """The host's address for the other ranks: its `interface`'s, else the one that leads to the
    master; "" for none."""
    wanted = facts.host(index).interface
    hello = facts.hello(index)
    if not wanted:
        return hello.route_address
    return next((address for name, address, _ in hello.interfaces if name == wanted), "")


def interface(facts: Facts, index: int) -> Found:
    """Which interface leads from the host to the master, and whether others could use its
    address."""
    own = facts.host(index)
    hello = facts.hello(index)
    address = own_address(facts, index)
    name = own.interface or hello.route_interface
    if not address:
        return _no_address(facts, index)
    if is_loopback(address):
        return _loopback(facts, index, address)
    twins = [other for other in facts.elsewhere(index) if address in _addresses(facts, other)]
    if twins:
        names = ", ".join(facts.host(other).name for other in twins[:3])
        what = (
            "a bridge of its containers or virtual machines"
            if _BRIDGE.match(name)
            else "no address of its own"
        )
        return Found(
            FAILED,
            f"{name} ({address}) is {what}: {names} has the same address, so nobody else can "
            "reach it there",
            _choose(facts, index),
        )
    return _compared_speed(facts, index, f"{name} {address}")


def _compared_speed(facts: Facts, index: int, what: str) -> Found:
    """Compare the speed of the interface with those of the other hosts: all wait for the slowest
    link."""

    def speed(other: int) -> float:
        name = facts.host(other).interface or facts.hello(other).route_interface
        return dict(facts.hello(other).link_speeds).get(name, 0)

    usual = facts.median_if_behind(index, speed)
    if not usual or not facts.waits_for_slowest:
        return Found(OK, what)
    return Found(
        WARNING,
        f"{what} runs at {speed(index):g} Mbit/s, but {usual:g} Mbit/s on {facts.median_host}: "
        "every step waits for it",
        "look at its cable and its port of the switch, or leave it out with --exclude "
        f"{facts.host(index).name}",
    )


def _no_address(facts: Facts, index: int) -> Found:
    own = facts.host(index)
    master = facts.host(0)
    if own.interface:
        return Found(
            FAILED,
            f"it has no interface {own.interface!r} with an IPv4 address",
            _choose(facts, index),
        )
    return Found(
        FAILED,
        f"it cannot reach {master.address}: the name does not resolve there, or there is no route",
        f"set the address of {master.name} in {facts.plan.hosts_file} to one that all hosts reach, "
        "as ip route get ADDRESS on each "
        f"shows, or set interface on all hosts",
    )


def _loopback(facts: Facts, index: int, address: str) -> Found:
    """Fine where all hosts are one machine."""
    if not facts.elsewhere(index):
        return Found(OK, f"{facts.hello(index).route_interface or 'lo'} {address}")
    own = facts.host(index)
    master = facts.host(0)
    if index == 0 or 0 in facts.machine(index):
        why = f"{own.address} means {address} there, itself alone"
        why += ", as Debian's /etc/hosts has it" if address == "127.0.1.1" else ""
        return Found(FAILED, f"the other hosts cannot reach it: {why}", _choose(facts, index))
    return Found(
        FAILED,
        f"{master.address}, the address of {master.name}, means {address} there, which is this "
        "host itself",
        f"set the address of {master.name} in {facts.plan.hosts_file} to one that means the same "
        "on all hosts, as its IP address",
    )


def _choose(facts: Facts, index: int) -> str:
    """Which interfaces there are instead: those in a network with others' addresses, else all that
    are this host's alone."""
    taken = {address for other in facts.elsewhere(index) for address in _addresses(facts, other)}
    own = [
        one
        for one in facts.hello(index).interfaces
        if not is_loopback(one[1]) and one[1] not in taken
    ]
    near = [(name, address) for name, address, prefix in own if _joins(address, prefix, taken)]
    known = near or [(name, address) for name, address, _ in own]
    if not known:
        return "give it an IPv4 address on the network that joins the hosts"
    listed = " or ".join(f'"{name}" ({address})' for name, address in known)
    return f"in {facts.plan.hosts_file} set interface for {facts.host(index).name} to {listed}"


def _joins(address: str, prefix: int, others: set[str]) -> bool:
    network = ip_interface(f"{address}/{prefix}").network
    return any(ip_address(other) in network for other in others if not is_loopback(other))


def _addresses(facts: Facts, index: int) -> set[str]:
    return {address for _, address, _ in facts.hello(index).interfaces}


def port(facts: Facts, index: int, reserved: Reserved) -> Found:
    """The port that was reserved on the host: the rendezvous on the first, any other one
    elsewhere."""
    if not reserved.error:
        return Found(OK, f"{reserved.port} is free")
    hosts_file = facts.plan.hosts_file
    if index:
        return Found(FAILED, reserved.error, f"set interface for it in {hosts_file}")
    advice = (
        f"set another master_port for it in {hosts_file}, or leave the key out and a free one is "
        "chosen"
    )
    return Found(FAILED, reserved.error, advice)


def connect(
    facts: Facts, index: int, listening: Sequence[Reserved | None], tried: Sequence[Connected]
) -> Found:
    """Whether the host reached the master and its neighbour."""
    failed = [one for one in tried if one.error]
    if not tried:
        return Found(
            FAILED,
            "it did not say whether it reaches the others",
            "see whether its agent is held up, and try again",
        )
    if not failed:
        return Found(OK, f"{1000 * max(one.seconds for one in tried):.1f} ms")
    missed = " and ".join(
        f"{_name(facts, one, listening)} at {one.address}:{one.port} ({one.error})"
        for one in failed
    )
    return Found(
        FAILED, f"cannot reach {missed} from {own_address(facts, index)}", _advice(facts, failed)
    )


def _name(facts: Facts, tried: Connected, listening: Sequence[Reserved | None]) -> str:
    where = (tried.address, tried.port)
    found = [
        index for index, one in enumerate(listening) if one and (one.address, one.port) == where
    ]
    return facts.host(found[0]).name if found else "another host"


def _advice(facts: Facts, failed: Sequence[Connected]) -> str:
    errors = " ".join(one.error.lower() for one in failed)
    if "refused" in errors:
        why = "another machine has that address, or a firewall rejects"
    elif "timed out" in errors:
        why = "a firewall drops it, or that address is on a network which this host does not reach"
    else:
        why = "that address is on a network which this host does not reach"
    return (
        f"{why}; let the hosts reach each other by TCP on all ports, or set interface in "
        f"{facts.plan.hosts_file} to their common network"
    )
