"""The commands for `ip -batch` and `tc -batch` that make and change the network of a lab. No I/O.

Each host has one end of a virtual cable as its interface; the other end is in the hub, where a
bridge joins them. As a token bucket only shapes what leaves an interface, both ends have one: the
host's limits what it sends, the hub's what it receives.
"""

from __future__ import annotations

from remote.lab.spec import HUB, INTERFACE

BRIDGE = "bridge"
BURST = 0.001
"""The burst in seconds at full rate. It is short, so that an idle link does not look faster than it
is."""
LEAST_BURST = 16 * 1024
QUEUE = 0.02
"""The queue in seconds at full rate. Packets beyond it are dropped."""
LEAST_QUEUE = 256 * 1024
SMALL_PACKET = 256
"""Bytes. A link with a delay holds as many packets as have this size at full rate."""


def hub() -> list[str]:
    """The bridge, for `ip` in the hub."""
    return [
        "link set dev lo "
        "up",  # by which the kernel tells a program here that a host does not answer
        f"link add {BRIDGE} type bridge",
        f"link set dev {BRIDGE} addrgenmode none up",
        f"address add {HUB}/24 broadcast + dev {BRIDGE}",
    ]


def cable(host: str, pid: int) -> list[str]:
    """The cable from the bridge to the namespace of process `pid`, for `ip` in the hub. Without
    IPv6."""
    return [
        f"link add name {host} type veth peer name {INTERFACE} netns {pid}",
        f"link set dev {host} master {BRIDGE} addrgenmode none up",
    ]


def address(own_address: str) -> list[str]:
    """The interfaces of a host, for `ip` on it."""
    return [
        "link set dev lo up",
        f"link set dev {INTERFACE} addrgenmode none up",
        f"address add {own_address}/24 broadcast + dev {INTERFACE}",
    ]


def limit(interface: str, bits: int, delay: float = 0.0) -> list[str]:
    """Limit what leaves an interface to `bits` per second, `delay` seconds late, for `tc`."""
    burst_bytes, queue_bytes = (
        max(least_bytes, int(bits / 8 * seconds))
        for least_bytes, seconds in ((LEAST_BURST, BURST), (LEAST_QUEUE, QUEUE))
    )
    token_bucket = f"tbf rate {bits}bit burst {burst_bytes}b limit {queue_bytes}b"
    if not delay:
        return [f"qdisc replace dev {interface} root {token_bucket}"]
    # 1000 is what netem holds by itself.
    delayed_packets = max(1000, int(bits * delay / 8 / SMALL_PACKET))
    return [
        f"qdisc replace dev {interface} root handle 1: netem delay {round(delay * 1e6)}us limit "
        f"{delayed_packets}",
        f"qdisc replace dev {interface} parent 1:1 handle 10: {token_bucket}",
    ]


def plug(host: str, connected: bool) -> list[str]:
    """Pull the host's cable out of the bridge, or put it back, for `ip` in the hub."""
    return [f"link set dev {host} {'up' if connected else 'down'}"]
