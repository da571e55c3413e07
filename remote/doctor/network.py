"""Checks which address of a host the others reach, and what became of the connections that they
tried. Pure.

Judged by routes and addresses: an interface's name says nothing, and is used only to tell a person
what it probably is.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from ipaddress import ip_address, ip_interface

from remote.cluster.hosts import is_loopback
from remote.doctor.host_facts import FAILED, WARNING, CheckedHost, HostFinding
from remote.plan import placeholders
from remote.plan.place import interface_addresses
from remote.plan.plan import Plan
from training.wire.host_events import Connected, Reserved

_BRIDGE = re.compile(r"(docker|br-|virbr|podman|cni|lxcbr|lxdbr|vmnet|vboxnet)")


def own_address(checked: CheckedHost) -> str:
    """Return the host's address for the other ranks: its `interface`'s, else the one that leads to
    the master; "" if there is none."""
    interface = checked.host.interface
    if not interface:
        return checked.hello.route_address
    return interface_addresses(checked.hello).get(interface, "")


def check_interface(checked: CheckedHost) -> HostFinding | str:
    """Check which interface leads from the host to the master, and whether others could use its
    address."""
    address = own_address(checked)
    interface_name = checked.host.interface or checked.hello.route_interface
    if not address:
        return _no_address(checked)
    if is_loopback(address):
        return _loopback(checked, address)
    # Bridges of containers have the same default address on every machine.
    hosts_with_address = [
        other_host for other_host in checked.elsewhere if address in _addresses(other_host)
    ]
    if not hosts_with_address:
        return _compare_speed(checked, f"{interface_name} {address}")
    twin_names = ", ".join(other_host.host.name for other_host in hosts_with_address[:3])
    is_bridge = _BRIDGE.match(interface_name)
    problem_text = (
        "a bridge of its containers or virtual machines" if is_bridge else "no address of its own"
    )
    return HostFinding(
        FAILED,
        f"{interface_name} ({address}) is {problem_text}: {twin_names} has the same address, so "
        "nobody else can reach it there",
        _suggest_interface(checked),
    )


def _compare_speed(checked: CheckedHost, interface_text: str) -> HostFinding | str:
    """Compare the speed of the interface with those of the other hosts: all wait for the slowest
    link."""
    usual_speed = checked.median_if_behind(_speed_of)
    if not usual_speed or not checked.waits_for_slowest:
        return interface_text
    return HostFinding(
        WARNING,
        f"{interface_text} runs at {_speed_of(checked):g} Mbit/s, but {usual_speed:g} Mbit/s on "
        f"{checked.median_host}: every step waits for it",
        "look at its cable and its port of the switch, or leave it out with --exclude "
        f"{checked.host.name}",
        value=f"{_speed_of(checked):g} Mbit/s",
        command=checked.exclude_command,
        helps_to_exclude=True,
    )


def _speed_of(checked: CheckedHost) -> float:
    interface_name = checked.host.interface or checked.hello.route_interface
    return dict(checked.hello.link_speeds).get(interface_name, 0)


def _no_address(checked: CheckedHost) -> HostFinding | str:
    interface = checked.host.interface
    master_host = checked.plan.hosts[0]
    if interface:
        problem = f"it has no interface {interface!r} with an IPv4 address"
        return HostFinding(FAILED, problem, _suggest_interface(checked))
    return HostFinding(
        FAILED,
        f"it cannot reach {master_host.address}: the name does not resolve there, or there is no "
        "route",
        f"set the address of {master_host.name} in {master_host.hosts_file} to one that all hosts "
        "reach, as ip route get ADDRESS on each shows, or set interface on all hosts",
    )


def _loopback(checked: CheckedHost, address: str) -> HostFinding | str:
    """Refuse an address that leads to the own machine only, unless all hosts are one machine."""
    if not checked.elsewhere:
        return f"{checked.hello.route_interface or 'lo'} {address}"
    master_host = checked.plan.hosts[0]
    # This is the master's machine: it is its own address that is wrong.
    if checked.same_machine[0].index == 0:
        reason = f"{checked.host.address} means {address} there, itself alone"
        if address == "127.0.1.1":
            reason += ", as Debian's /etc/hosts has it"
        problem_text = f"the other hosts cannot reach it: {reason}"
        return HostFinding(FAILED, problem_text, _suggest_interface(checked))
    return HostFinding(
        FAILED,
        f"{master_host.address}, the address of {master_host.name}, means {address} there, which "
        "is this host itself",
        f"set the address of {master_host.name} in {master_host.hosts_file} to one that means the "
        "same on all hosts, as its IP address",
    )


def _suggest_interface(checked: CheckedHost) -> str:
    """Say which interfaces there are instead: those in a network with others' addresses, else all
    that are this host's alone."""
    taken_addresses: set[str] = set().union(*map(_addresses, checked.elsewhere))
    own_choices = []
    near_choices = []
    for interface_name, address, prefix_length in checked.hello.interfaces:
        if is_loopback(address) or address in taken_addresses:
            continue
        interface_choice = f'"{interface_name}" ({address})'
        own_choices.append(interface_choice)
        network = ip_interface(f"{address}/{prefix_length}").network
        # An address in the network of others' is the one that leads to them.
        if any(ip_address(other_address) in network for other_address in taken_addresses):
            near_choices.append(interface_choice)
    choices_text = " or ".join(near_choices or own_choices)
    if not choices_text:
        return "give it an IPv4 address on the network that joins the hosts"
    host = checked.host
    return f"in {host.hosts_file} set interface for {host.name} to {choices_text}"


def _addresses(checked: CheckedHost) -> set[str]:
    return set(interface_addresses(checked.hello).values())


def check_port(checked: CheckedHost, reserved: Reserved) -> HostFinding | str:
    """Check the port that was reserved on the host: the rendezvous on the first, any other one
    elsewhere."""
    if not reserved.error:
        # Where the script fixes the port, it does not use the one that was reserved.
        fixed_numbers = (
            [] if checked.index else [port.number for port in checked.plan.fixed_place.ports]
        )
        numbers = fixed_numbers or [reserved.port]
        free_text = f"{', '.join(map(str, numbers))} {'is' if len(numbers) == 1 else 'are'} free"
        return _check_fixed_ports(checked) or _check_fixed_addresses(checked) or free_text
    hosts_file = checked.plan.hosts_file
    if checked.index:
        return HostFinding(FAILED, reserved.error, f"set interface for it in {hosts_file}")
    if checked.plan.script:  # a line of torchrun sets the port, too
        advice = (
            f"choose another port where it is set, by --master-port or by master_port in "
            f"{hosts_file}, or leave it out there and a free one is chosen"
        )
    else:
        advice = (
            f"set another master_port for it in {hosts_file}, or leave the key out and a free one "
            "is chosen"
        )
    return HostFinding(FAILED, reserved.error, advice)


def _check_fixed_ports(checked: CheckedHost) -> HostFinding | None:
    """Check the ports of the first host that the script itself fixes."""
    reasons = dict(checked.hello.ports_taken)
    for port in checked.plan.fixed_place.ports:
        if port.number not in reasons:
            continue
        reason = reasons[port.number]
        if port.argument:
            advice = f"end what uses it, or write {placeholders.MASTER_PORT} for a free port"
            return HostFinding(FAILED, f"{port.argument}: {reason}", advice)
        # The script may come to use another one.
        advice = f"if the script takes {port.number}, end what uses it, or change it there"
        return HostFinding(WARNING, f"the source of the script names it: {reason}", advice)
    return None


def _check_fixed_addresses(checked: CheckedHost) -> HostFinding | None:
    """Check that the ranks do not meet at an address which the first host does not have."""
    if checked.index:
        return None
    for address in checked.plan.fixed_place.addresses:
        if not is_loopback(address) and address not in _addresses(checked):
            problem_text = f"the source of the script names {address}, which it does not have"
            advice = (
                f"if the ranks meet there, they never do: take {placeholders.MASTER_ADDR}, by an "
                "option or from the variable, or give it this address"
            )
            return HostFinding(WARNING, problem_text, advice)
    return None


def check_connect(
    checked: CheckedHost,
    reserved_ports: Sequence[Reserved | None],
    tried_connections: Sequence[Connected],
) -> HostFinding | str:
    """Check whether the host reached the master and its neighbour."""
    if not tried_connections:
        return HostFinding(
            FAILED,
            "it did not say whether it reaches the others",
            "see whether its agent is held up, and try again",
        )
    failed_answers = [answer for answer in tried_connections if answer.error]
    if not failed_answers:
        slowest_seconds = max(answer.seconds for answer in tried_connections)
        return f"{1000 * slowest_seconds:.1f} ms"
    missed_texts: list[str] = []
    for answer in failed_answers:
        target_name = _name_of(checked.plan, answer, reserved_ports)
        missed_texts.append(f"{target_name} at {answer.address}:{answer.port} ({answer.error})")
    problem_text = f"cannot reach {' and '.join(missed_texts)} from {own_address(checked)}"
    return HostFinding(FAILED, problem_text, _advise_on_network(checked, failed_answers))


def _name_of(
    plan: Plan, tried_connection: Connected, reserved_ports: Sequence[Reserved | None]
) -> str:
    for host, reserved_port in zip(plan.hosts, reserved_ports, strict=True):
        if reserved_port and (reserved_port.address, reserved_port.port) == (
            tried_connection.address,
            tried_connection.port,
        ):
            return host.name
    return "another host"


def _advise_on_network(checked: CheckedHost, failed_answers: Sequence[Connected]) -> str:
    error_texts = " ".join(answer.error.lower() for answer in failed_answers)
    other_network = "that address is on a network which this host does not reach"
    # A refusal comes from a machine that is there; silence may mean anything on the way.
    if "refused" in error_texts:
        likely_reason = "another machine has that address, or a firewall rejects"
    elif "timed out" in error_texts:
        likely_reason = f"a firewall drops it, or {other_network}"
    else:
        likely_reason = other_network
    return (
        f"{likely_reason}; let the hosts reach each other by TCP on all ports, or set interface in "
        f"{checked.plan.hosts_file} to their common network"
    )
