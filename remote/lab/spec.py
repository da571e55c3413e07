"""What a lab is to be: the number of hosts, the rates of their links, and their CPU quotas. No
I/O."""

from __future__ import annotations

import os
import re
import sys
from dataclasses import dataclass

from remote.cluster.hosts import LOCAL, Host
from training.mistake import MistakeError

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


class LabError(MistakeError):
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
                name=f"node{host_number}",
                address=f"{NETWORK}.{host_number}",
                python=sys.executable,
                interface=INTERFACE,
                slots=self.slots,
                transport=LOCAL,
                threads=max(1, int(self.cpus[host_number - 1] / self.slots)) if self.cpus else 0,
            )
            for host_number in range(1, len(self.rates) + 1)
        )

    def remarks(self, core_count: int = os.cpu_count() or 1) -> tuple[str, ...]:
        """Return what a user should know of how the hosts share the cores, one line each."""
        host_count = len(self.rates)
        if not self.cpus:
            if host_count == 1:
                return ()
            core_share = max(LEAST, int(100 * core_count / host_count) / 100)
            sharing_remark = shared(host_count, core_count)
            return (f"{sharing_remark} (--cpus {core_share:g} gives each a share of its own)",)
        if sum(self.cpus) <= core_count:
            return ()
        return (
            f"the hosts' --cpus sum up to {sum(self.cpus):g} of {core_count} cores: "
            "they still take time from each other",
        )


def shared(host_count: int, core_count: int) -> str:
    """Return what a user should know of hosts that share the cores of this machine."""
    timing_remark = "their times say nothing about separate machines"
    return f"the {host_count} hosts share {core_count} cores: {timing_remark}"


def is_of_lab(host: Host) -> bool:
    """Return True if a host is one of a lab: the numbers of its processes are its own."""
    leads_there = host.transport == LOCAL or RELAY in host.proxy_command
    return leads_there and host.address.startswith(f"{NETWORK}.")


def flag(lab_name: str) -> str:
    """Return the flag that selects the lab of this name; "" for the default lab."""
    return "" if lab_name == DEFAULT else f" --name {lab_name}"


def parse(host_count: int, link: str, cpus: str = "", slots: int = 1) -> LabSpec:
    """Return the lab of `host_count` hosts of `slots` ranks that `--link` and `--cpus` ask for: one
    value for all, or one per host.

    Raises: LabError.
    """
    if not 1 <= host_count <= MOST:
        raise LabError(f"a lab has 1 to {MOST} hosts, not {host_count}")
    rates, delays = zip(*map(_parse_link, _spread("--link", link, host_count)), strict=True)
    core_quotas = tuple(map(_parse_cores, _spread("--cpus", cpus, host_count))) if cpus else ()
    return LabSpec(rates, core_quotas, delays if any(delays) else (), slots)


def _parse_link(link_text: str) -> tuple[int, float]:
    """Return rate and delay of a link such as `1gbit` or `1gbit/5ms`."""
    link_match = LINK.fullmatch(link_text)
    if not link_match:
        raise LabError(
            f"--link {link_text!r}: give a rate, and behind a slash, if you want, a delay in us, "
            "ms or s: 1gbit/5ms"
        )
    delay = float(link_match["delay"]) * TIMES[link_match["unit"]] if link_match["delay"] else 0.0
    return rate(link_match["rate"]), delay


def _spread(flag_name: str, values_text: str, host_count: int) -> list[str]:
    host_values = [host_value.strip() for host_value in values_text.split(",")]
    if len(host_values) == 1:
        return host_values * host_count
    if len(host_values) != host_count:
        raise LabError(
            f"{flag_name} {values_text}: {len(host_values)} values for {host_count} hosts; "
            f"give one for all of them, or {host_count}"
        )
    return host_values


def rate(rate_text: str, text_origin: str = "--link ") -> int:
    """Return bits per second of a rate such as `1gbit`, `2.5gbit` or `500kbit`. Raises: LabError,
    which begins with `text_origin`."""
    rate_match = re.fullmatch(r"(\d+(?:\.\d+)?)(kbit|mbit|gbit)", rate_text.lower())
    if not rate_match:
        raise LabError(
            f"{text_origin}{rate_text!r}: give a number and a unit, kbit, mbit or gbit (per "
            "second): 1gbit, 2.5gbit, 100mbit"
        )
    bits_per_second = round(float(rate_match[1]) * UNITS[rate_match[2]])
    if not SLOWEST <= bits_per_second <= FASTEST:
        raise LabError(
            f"{text_origin}{rate_text}: give a rate from {show(SLOWEST)} to {show(FASTEST)}"
        )
    return bits_per_second


def show(bits_per_second: int) -> str:
    """Return a rate as `rate` reads it."""
    unit_name = max(
        (unit_name for unit_name in UNITS if bits_per_second >= UNITS[unit_name]),
        key=UNITS.__getitem__,
    )
    return f"{bits_per_second / UNITS[unit_name]:.12g}{unit_name}"


def _parse_cores(cores_text: str) -> float:
    try:
        core_quota = float(cores_text)
    except ValueError:
        core_quota = 0.0
    if not LEAST <= core_quota < float("inf"):
        raise LabError(
            f"--cpus {cores_text!r}: give a number of cores, {LEAST:g} or more: 0.5 is half of one"
        )
    return core_quota
