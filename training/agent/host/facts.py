"""The facts of this host for `Hello`. The version of torch is read from its files; torch is never
imported.

The host command `check` does little more than this, so this module avoids what is slow to import or
compile: contextlib, importlib.util and regular expressions.
"""

from __future__ import annotations

import math
import os
import pwd
import socket
import sys

from training import agent
from training.agent.host.system import (
    LINUX,
    cgroups,
    cpu_flags,
    disk_free,
    find_package,
    memory,
    psutil,
    read_figures,
    read_text,
)
from training.agent.live_runs import find_live_runs
from training.wire.jsonl import load as load_json

TYPE_CHECKING = False  # as typing itself takes long to import
if TYPE_CHECKING:
    from typing import Any

    from training.agent.host.busiest import BusyProcesses

BACKENDS = ("cuda", "hip", "xpu")
"""The backends that torch may be built for besides CPUs, by their names in its version.py."""
UNKNOWN_SPEED = 2**32 - 1
"""Mbit/s that Linux tells of an interface whose driver does not know its speed, as -1."""
BUSY_SHARE = 0.5
"""The share of the cores that may be busy without being worth a warning, as the launcher has it."""
LEAST_BUSY_SHARE = 0.25
"""The share of the cores that others use at least if they make a load that is worth a warning."""
LOOPBACK = "lo"
MAX_SECONDS_OF_TC = 2.0
Interface = tuple[str, str, int]
_SIOCGIFADDR = 0x8915
_SIOCGIFNETMASK = 0x891B


def hello(folder: str, route_to: str, needs: str = "") -> dict[str, Any]:
    """Return the fields of `Hello`.

    `folder` is the run's folder, which need not exist; `needs` is what the job needs (see the
    module `needs`), as JSON.
    """
    # First, so that processes are watched while the other facts are found.
    load = cpu_load()
    cores = usable_cores()
    busy_processes = _watch_processes(load, cores)
    system_info = os.uname()
    interfaces = list_interfaces()
    route_source = _source_address(route_to)
    torch_constants = _version_constants("torch")
    busiest = busy_processes.find_busiest() if busy_processes else ()
    if busy_processes:
        other_cores = busy_processes.other_cores * _usable_share()
        if other_cores < LEAST_BUSY_SHARE * cores:
            # What kept the host busy a moment ago, such as a run, has ended.
            load = round(other_cores, 2)
    return {
        "hostname": socket.gethostname(),
        "user": _user_name(),
        "pid": os.getpid(),
        "python": ".".join(map(str, sys.version_info[:3])),
        "executable": sys.executable,
        "platform": f"{system_info.sysname} {system_info.release} {system_info.machine}",
        "boot_id": read_text("/proc/sys/kernel/random/boot_id").strip() or socket.gethostname(),
        "cores": cores,
        "memory": os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"),
        "torch": torch_constants.get("__version__", ""),
        "torchvision": package_version("torchvision"),
        "gpus": list_gpus(),
        "interfaces": interfaces,
        "route_address": route_source,
        "route_interface": _interface_of(route_source, interfaces),
        "folder": folder,
        "memory_free": memory_free(),
        "disk_free": disk_free(folder),
        "load": load,
        "backends": tuple(
            f"{name} {torch_constants[name]}" for name in BACKENDS if name in torch_constants
        ),
        "flags": cpu_flags(),
        "link_speeds": link_speeds([name for name, *_ in interfaces]),
        "code_changed": agent.code_changed,
        "runs": find_live_runs(folder),
        **(_check_job_needs(needs, folder) if needs else {}),
        "busiest": busiest,
    }


def _watch_processes(load: float, cores: float) -> BusyProcesses | None:
    """Watch the processes of this host from now on, if the load is worth a warning."""
    if not LINUX or load <= max(1.0, BUSY_SHARE * cores):
        return None
    from training.agent.host.busiest import BusyProcesses  # which most hosts do not need

    return BusyProcesses()


def _check_job_needs(needs: str, folder: str) -> dict[str, Any]:
    from training.agent.host.needs import check_needs

    return check_needs(load_json(needs) or {}, folder)


def _user_name() -> str:
    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:  # in a container, the user's number may have no name
        return str(os.getuid())


def package_version(package: str) -> str:
    """Return the version in the version.py of an installed package, or ""."""
    return _version_constants(package).get("__version__", "")


def _version_constants(package: str) -> dict[str, str]:
    """Return the strings that the version.py of an installed package assigns to names; none if
    there is no such file."""
    constants = {}
    for line in _version_file(package).splitlines():
        constant_name, _, value = line.partition("=")
        quote = value.strip()[:1]
        if quote in ("'", '"'):
            constants[constant_name.partition(":")[0].strip()] = value.split(quote)[1]
    return constants


def _version_file(package: str) -> str:
    """Return the text of the version.py of an installed package, or ""."""
    spec = find_package(package)
    folders = spec.submodule_search_locations if spec else None
    texts = (read_text(f"{folder}/version.py") for folder in folders or ())
    return next(filter(None, texts), "")


def usable_cores(root: str = "/sys/fs/cgroup") -> float:
    """Return the cores that this process may use under its affinity and the CPU quota of its
    control group and those above."""
    cores = float(len(os.sched_getaffinity(0)) if LINUX else os.cpu_count() or 1)
    return min(cores, *map(_cpu_quota, _cgroup_folders("cpu", root)))


def _cgroup_folders(controller: str, root: str) -> list[str]:
    """Return the folders of this process's control group and of its parents, as far as they are
    visible."""
    folders = [root]
    for controllers, path in cgroups():
        if controller in controllers:
            folder = f"{root}/{controller}"
        elif controllers == [""]:  # version 2, which has one tree for all controllers
            folder = root
        else:
            continue
        folders.append(folder)
        for part in path.split("/"):
            if part:
                folder = f"{folder}/{part}"
                folders.append(folder)
    return folders


def _cpu_quota(folder: str) -> float:
    """Return the CPU quota of a control group in cores, or infinity."""
    quota_text = read_text(f"{folder}/cpu.max")
    if not quota_text:  # version 1
        file_names = ("cpu.cfs_quota_us", "cpu.cfs_period_us")
        quota_text = " ".join(read_text(f"{folder}/{name}") for name in file_names)
    figures = quota_text.split()
    if len(figures) < 2 or not all(map(str.isdigit, figures)):  # "max" or -1
        return math.inf
    return int(figures[0]) / int(figures[1])


def memory_free(root: str = "/sys/fs/cgroup") -> int:
    """Return the bytes that are available to new processes under the limits of their control
    groups; 0 if unknown."""
    if not LINUX:
        return int(psutil.virtual_memory().available) if psutil else 0
    return int(min(memory()[1], *map(_memory_left, _cgroup_folders("memory", root))))


def _memory_left(folder: str) -> float:
    """Return the bytes that a control group may still use, or infinity. Cached files count as
    free."""
    files = (("memory.max", "memory.current"), ("memory.limit_in_bytes", "memory.usage_in_bytes"))
    for limit_file, usage_file in files:  # of version 2, and of version 1
        limit_text = read_text(f"{folder}/{limit_file}").strip()
        used_text = read_text(f"{folder}/{usage_file}").strip()
        if limit_text.isdigit() and used_text.isdigit():
            figures = read_figures(f"{folder}/memory.stat")
            cached_bytes = figures.get("total_inactive_file") or figures.get("inactive_file", 0)
            return max(1, int(limit_text) - int(used_text) + cached_bytes)
    return math.inf


def cpu_load() -> float:
    """Return the number of tasks that keep the usable cores busy: the mean of the last minute, or
    the present number if it is less.

    So neither a run that just ended nor a short burst counts.
    """
    minute_average = os.getloadavg()[0]
    present_load = math.inf
    load_text = read_text("/proc/loadavg")
    if load_text:  # as "0.52 0.58 0.59 2/613 4242": 2 of 613 tasks are busy, one of them this one
        present_load = int(load_text.split()[3].partition("/")[0]) - 1
    return round(min(minute_average, present_load) * _usable_share(), 2)


def _usable_share() -> float:
    """Return the share of the machine's cores that a container may use, and so of its load."""
    return usable_cores() / (os.cpu_count() or 1)


def list_gpus() -> tuple[str, ...]:
    """Return the names of the NVIDIA GPUs that the driver lists."""
    folder = "/proc/driver/nvidia/gpus"
    gpu_folders = sorted(os.listdir(folder)) if os.path.isdir(folder) else ()
    model_names: list[str] = []
    for gpu_folder in gpu_folders:
        lines = read_text(f"{folder}/{gpu_folder}/information").splitlines()
        model_names += (
            line.partition(":")[2].strip() for line in lines if line.startswith("Model:")
        )
    return tuple(model_names)


def list_interfaces() -> tuple[Interface, ...]:
    """Return name, address and prefix length of the network interfaces with an IPv4 address."""
    if not LINUX:
        return _psutil_interfaces()
    interfaces = []
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe_socket:
        for _, name in socket.if_nameindex():
            try:
                address = _ask_interface(probe_socket, _SIOCGIFADDR, name)
                netmask = _ask_interface(probe_socket, _SIOCGIFNETMASK, name)
            except OSError:  # it has no IPv4 address
                continue
            interfaces.append((name, socket.inet_ntoa(address), _prefix_length(netmask)))
    return tuple(interfaces)


def link_speeds(names: list[str], root: str = "/sys/class/net") -> tuple[tuple[str, int], ...]:
    """Return the speeds in Mbit/s of those of these interfaces that have one and report it."""
    speeds = {}
    for name in names:
        speed_text = read_text(f"{root}/{name}/speed").strip()
        if speed_text.isdecimal() and int(speed_text) != UNKNOWN_SPEED:
            speeds[name] = int(speed_text)
    # A process takes milliseconds, so it is asked only where an interface may have a rate.
    if any(name not in speeds and name != LOOPBACK for name in names):
        speeds = {name: rate for name, rate in _shaped_rates().items() if name in names} | speeds
    return tuple(speeds.items())


def _shaped_rates() -> dict[str, int]:
    """Return the rates in Mbit/s to which the kernel limits what interfaces send, as in a lab."""
    import json
    import subprocess

    variables = {**os.environ, "PATH": f"{os.environ.get('PATH', os.defpath)}:/usr/sbin:/sbin"}
    try:
        listing = subprocess.run(
            ["tc", "-json", "qdisc", "show"],
            capture_output=True,
            env=variables,
            timeout=MAX_SECONDS_OF_TC,
        ).stdout
        return shaped_rates(json.loads(listing))
    except (OSError, ValueError, subprocess.SubprocessError):
        return {}


def shaped_rates(queues: object) -> dict[str, int]:
    """Return the rates in Mbit/s of the token buckets in what tc lists."""
    rates = {}
    for queue in queues if isinstance(queues, list) else ():
        if isinstance(queue, dict) and queue.get("kind") == "tbf":
            bytes_per_second = queue.get("options", {}).get("rate", 0)
            rates[str(queue.get("dev"))] = max(1, round(bytes_per_second * 8 / 1e6))
    return rates


def _ask_interface(probe_socket: socket.socket, request_code: int, name: str) -> bytes:
    import fcntl

    # A `struct ifreq`: 16 bytes of the name with its NUL, then a `struct sockaddr_in`, whose bytes
    # 4 to 8 are the address.
    request = name.encode()[:15].ljust(256, b"\0")
    return fcntl.ioctl(probe_socket.fileno(), request_code, request)[20:24]


def _prefix_length(mask: bytes) -> int:
    return int.from_bytes(mask, "big").bit_count()


def _psutil_interfaces() -> tuple[Interface, ...]:
    if psutil is None:
        return ()
    return tuple(
        (name, entry.address, _prefix_length(socket.inet_aton(entry.netmask or "255.255.255.255")))
        for name, entries in psutil.net_if_addrs().items()
        for entry in entries
        if entry.family == socket.AF_INET
    )


def _source_address(route_to: str) -> str:
    """Return the source address of packets from this host to `route_to`, or "". Nothing is sent."""
    if not route_to:
        return ""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe_socket:
        try:
            # To connect a datagram socket only looks up the route. Port 9 discards.
            probe_socket.connect((route_to, 9))
        except OSError:
            return ""
        return str(probe_socket.getsockname()[0])


def _interface_of(address: str, interfaces: tuple[Interface, ...]) -> str:
    """Return the interface of this address, or "". Any 127.x belongs to that of 127.0.0.1."""
    own_address = "127.0.0.1" if address.startswith("127.") else address
    return next((name for name, candidate, _ in interfaces if candidate == own_address), "")
