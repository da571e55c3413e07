"""The facts of this host that `Hello` tells. Torch is asked for its version by its files, never imported."""

from __future__ import annotations

import contextlib
import importlib.util
import math
import os
import pwd
import re
import socket
import struct
import sys
from pathlib import Path

from training.agent import Options
from training.agent.processes import LINUX, psutil
from training.agent.samples import cgroups
from training.events import Hello

Interface = tuple[str, str, int]
_SIOCGIFADDR, _SIOCGIFNETMASK = 0x8915, 0x891B


def hello(options: Options) -> Hello:
    """What this host is and has."""
    system = os.uname()
    addresses = interfaces()
    source = _source_address(options.route_to)
    return Hello(
        hostname=socket.gethostname(),
        user=_user(),
        pid=os.getpid(),
        python=".".join(map(str, sys.version_info[:3])),
        executable=sys.executable,
        platform=f"{system.sysname} {system.release} {system.machine}",
        boot_id=_text(Path("/proc/sys/kernel/random/boot_id")).strip() or socket.gethostname(),
        cores=usable_cores(),
        memory=os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"),
        torch=version("torch"),
        torchvision=version("torchvision"),
        gpus=gpus(),
        interfaces=addresses,
        route_address=source,
        route_interface=_interface_of(source, addresses),
        folder=options.folder,
    )


def _user() -> str:
    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:  # a container may run under a number that has no name
        return str(os.getuid())


def _text(path: Path) -> str:
    with contextlib.suppress(OSError):
        return path.read_text(errors="replace")
    return ""


def version(package: str) -> str:
    """The version that an installed package gives in its version.py, or "" where there is none."""
    try:
        spec = importlib.util.find_spec(package)
    except (ImportError, ValueError):
        return ""
    for folder in (spec.submodule_search_locations or ()) if spec else ():
        if found := re.search(r"""^__version__\s*=\s*['"]([^'"]+)""", _text(Path(folder, "version.py")), re.MULTILINE):
            return found[1]
    return ""


def usable_cores(root: Path = Path("/sys/fs/cgroup")) -> float:
    """The cores that this process may use under its affinity and the CPU quota of its control group and those above."""
    cores = float(len(os.sched_getaffinity(0)) if LINUX else os.cpu_count() or 1)
    for controllers, path in cgroups():
        folder = root / "cpu" if "cpu" in controllers else root if controllers == [""] else None
        if folder:
            inside = [folder, *(folder.joinpath(*Path(path).parts[:depth]) for depth in range(1, len(Path(path).parts) + 1))]
            cores = min(cores, *map(_quota, inside))
    return cores


def _quota(folder: Path) -> float:
    """Cores' worth of time per time that a control group has, or infinity."""
    given = _text(folder / "cpu.max") or _text(folder / "cpu.cfs_quota_us") + _text(folder / "cpu.cfs_period_us")
    quota, period = (*given.split(), "", "")[:2]
    return int(quota) / int(period) if quota.isdigit() and period.isdigit() else math.inf


def gpus() -> tuple[str, ...]:
    """The names of the NVIDIA GPUs that the driver shows here."""
    texts = map(_text, sorted(Path("/proc/driver/nvidia/gpus").glob("*/information")))
    return tuple(found[1].strip() for text in texts if (found := re.search(r"^Model:(.*)$", text, re.MULTILINE)))


def interfaces() -> tuple[Interface, ...]:
    """The network interfaces with an IPv4 address: name, address, prefix length."""
    if not LINUX:
        return _psutil_interfaces()
    found = []
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        for _, name in socket.if_nameindex():
            with contextlib.suppress(OSError):  # it has no IPv4 address
                address, mask = (_ask(sock, question, name) for question in (_SIOCGIFADDR, _SIOCGIFNETMASK))
                found.append((name, socket.inet_ntoa(address), _prefix(mask)))
    return tuple(found)


def _ask(sock: socket.socket, question: int, name: str) -> bytes:
    import fcntl

    return fcntl.ioctl(sock.fileno(), question, struct.pack("256s", name.encode()[:15]))[20:24]


def _prefix(mask: bytes) -> int:
    return int.from_bytes(mask, "big").bit_count()


def _psutil_interfaces() -> tuple[Interface, ...]:
    if psutil is None:
        return ()
    return tuple(
        (name, entry.address, _prefix(socket.inet_aton(entry.netmask or "255.255.255.255")))
        for name, entries in psutil.net_if_addrs().items()
        for entry in entries
        if entry.family == socket.AF_INET
    )


def _source_address(route_to: str) -> str:
    """The address of this host from which a packet to `route_to` would leave, or "". Nothing is sent."""
    if not route_to:
        return ""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock, contextlib.suppress(OSError):
        sock.connect((route_to, 9))
        return str(sock.getsockname()[0])
    return ""


def _interface_of(address: str, known: tuple[Interface, ...]) -> str:
    """The interface that has this address; any 127.x belongs to the one that has 127.0.0.1."""
    wanted = "127.0.0.1" if address.startswith("127.") else address
    return next((name for name, own, _ in known if own == wanted), "")
