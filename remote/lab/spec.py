"""What a lab is to be: the number of hosts, the rates of their links, and their CPU quotas. No
I/O."""

from __future__ import annotations

import os
import re
import sys
from dataclasses import dataclass

from remote.cluster.hosts import LOCAL, Host

NETWORK = "10.10.1"
MOST = 253
"""The most hosts of a lab: the addresses of a /24 without that of the hub."""
HUB = f"{NETWORK}.254"
"""The address of the hub, from where the hosts of a lab can be reached."""
INTERFACE = "eth0"
LINK = re.compile(r"(?P<rate>[^/]+)(?:/(?P<delay>\d+(?:\.\d+)?)(?P<unit>us|ms|s))?")
TIMES = {"us": 1e-6, "ms": 1e-3, "s": 1.0}
UNITS = {"kbit": 10**3, "mbit": 10**6, "gbit": 10**9}
SLOWEST = 8 * 10**3
FASTEST = 100 * 10**9
DEFAULT = "lab"
"""The name of a lab if none is given."""
RELAY = "lab/relay.py"
"""Leads to the hosts of a lab that stays, see `remote.lab.relay`."""
LEAST = 0.01
"""The smallest quota in cores that the kernel accepts."""


class LabError(ValueError):
    """A lab cannot be made or changed. The text says why and what to do, in one or two lines."""


@dataclass(frozen=True)
class LabSpec:
    """One host per rate, in bits per second each way. `cpus` are the hosts' quotas in cores; empty
    for none. `delays` are added to what each host sends, in seconds; empty for none. `slots` are
    the ranks of each host.
    """

    rates: tuple[int, ...]
    cpus: tuple[float, ...] = ()
    delays: tuple[float, ...] = ()
    slots: int = 1

    def hosts(self) -> tuple[Host, ...]:
        """Return node1, node2, … at 10.10.1.1, 10.10.1.2, …."""
        return tuple(
            Host(
                name=f"node{number}",
                address=f"{NETWORK}.{number}",
                python=sys.executable,
                interface=INTERFACE,
                slots=self.slots,
                transport=LOCAL,
                threads=max(1, int(self.cpus[number - 1] / self.slots)) if self.cpus else 0,
            )
            for number in range(1, len(self.rates) + 1)
        )

    def remarks(self, cores: int = os.cpu_count() or 1) -> tuple[str, ...]:
        """Return what a user should know of how the hosts share the cores, one line each."""
        count = len(self.rates)
        if not self.cpus:
            if count == 1:
                return ()
            share = max(LEAST, int(100 * cores / count) / 100)
            return (f"{shared(count, cores)} (--cpus {share:g} gives each a share of its own)",)
        if sum(self.cpus) <= cores:
            return ()
        return (
            f"the hosts' --cpus sum up to {sum(self.cpus):g} of {cores} cores: they still take "
            "time from each other",
        )


def shared(hosts: int, cores: int) -> str:
    """Return what a user should know of hosts that share the cores of this machine."""
    about = "their times say nothing about separate machines"
    return f"the {hosts} hosts share {cores} cores: {about}"


def is_of_lab(host: Host) -> bool:
    """Return True if a host is one of a lab: the numbers of its processes are its own."""
    leads = host.transport == LOCAL or RELAY in host.proxy_command
    return leads and host.address.startswith(f"{NETWORK}.")


def flag(name: str) -> str:
    """Return the flag that selects the lab of this name; "" for the default lab."""
    return "" if name == DEFAULT else f" --name {name}"


def parse(hosts: int, link: str, cpus: str = "", slots: int = 1) -> LabSpec:
    """Return the lab of `hosts` hosts of `slots` ranks that `--link` and `--cpus` ask for: one
    value for all, or one per host.

    Raises: LabError.
    """
    if not 1 <= hosts <= MOST:
        raise LabError(f"a lab has 1 to {MOST} hosts, not {hosts}")
    rates, delays = zip(*map(_parse_link, _spread("--link", link, hosts)), strict=True)
    cores = tuple(map(_parse_cores, _spread("--cpus", cpus, hosts))) if cpus else ()
    return LabSpec(rates, cores, delays if any(delays) else (), slots)


def _parse_link(text: str) -> tuple[int, float]:
    """Return rate and delay of a link such as `1gbit` or `1gbit/5ms`."""
    match = LINK.fullmatch(text)
    if not match:
        raise LabError(
            f"--link {text!r}: give a rate, and behind a slash, if you want, a delay in us, ms or "
            "s: 1gbit/5ms"
        )
    delay = float(match["delay"]) * TIMES[match["unit"]] if match["delay"] else 0.0
    return rate(match["rate"]), delay


def _spread(flag: str, text: str, hosts: int) -> list[str]:
    words = [word.strip() for word in text.split(",")]
    if len(words) == 1:
        return words * hosts
    if len(words) != hosts:
        raise LabError(
            f"{flag} {text}: {len(words)} values for {hosts} hosts; give one for all of them, or "
            f"{hosts}"
        )
    return words


def rate(text: str, where: str = "--link ") -> int:
    """Return bits per second of a rate such as `1gbit`, `2.5gbit` or `500kbit`. Raises: LabError,
    which begins with `where`."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)(kbit|mbit|gbit)", text.lower())
    if not match:
        raise LabError(
            f"{where}{text!r}: give a number and a unit, kbit, mbit or gbit (per second): 1gbit, "
            "2.5gbit, 100mbit"
        )
    bits = round(float(match[1]) * UNITS[match[2]])
    if not SLOWEST <= bits <= FASTEST:
        raise LabError(f"{where}{text}: give a rate from {show(SLOWEST)} to {show(FASTEST)}")
    return bits


def show(bits: int) -> str:
    """Return a rate as `rate` reads it."""
    unit = max((unit for unit in UNITS if bits >= UNITS[unit]), key=UNITS.__getitem__)
    return f"{bits / UNITS[unit]:.12g}{unit}"


def _parse_cores(text: str) -> float:
    try:
        cores = float(text)
    except ValueError:
        cores = 0.0
    if not LEAST <= cores < float("inf"):
        raise LabError(
            f"--cpus {text!r}: give a number of cores, {LEAST:g} or more: 0.5 is half of one"
        )
    return cores
