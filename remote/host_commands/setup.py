"""Sets hosts up: looks for the packages that ranks need, and installs an environment where some are
missing or have another version."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from importlib import metadata
from pathlib import PurePosixPath
from typing import Any

from remote.cluster.hosts import Host
from remote.concurrently import map_concurrently
from remote.format import duration
from remote.host_commands.answer_reader import read_until_end
from remote.host_commands.run_on_hosts import HostAnswer, run_on_hosts
from remote.jsonl import load
from remote.limits import LIMITS
from remote.sanitise import one_line
from remote.transport import Channel, HostCommand, Transport, Unreachable
from training.wire.jsonl import dumps
from training.wire.line_cutter import LineCutter, LineTooLong
from training.wire.requirements import lacking

PACKAGES = ("torch", "torchvision")
SILENT = 60.0
"""Seconds without output after which an installation is given up. A host writes every few
seconds."""

ProgressListener = Callable[[Host, str, str], None]
"""Receives what a host is doing, and its progress."""


@dataclass(frozen=True)
class WantedPackages:
    """The packages for every host, by name and as the `requirements` of pip. `index` is pip's index
    URL; with "" pip uses its configuration."""

    packages: tuple[str, ...]
    requirements: tuple[str, ...]
    index: str = ""

    @classmethod
    def of(cls, torch: str = "", index: str = "") -> WantedPackages:
        """This version of torch with the torchvision that matches; without a version, those of the
        launcher."""
        if torch:
            return cls(PACKAGES, (f"torch=={torch}", "torchvision"), index)
        # few indexes have versions with a local part, such as 2.14.1+cpu
        own = [f"{package}=={metadata.version(package).partition('+')[0]}" for package in PACKAGES]
        return cls(PACKAGES, tuple(own), index)


class PackageCondition(Enum):
    """Whether the python of a host has all packages (READY), its environment has them (BUILT), they
    are missing (LACKING), or cannot be installed (HOPELESS)."""

    READY = "ready"
    BUILT = "built"
    LACKING = "lacking"
    HOPELESS = "hopeless"


@dataclass(frozen=True)
class HostPackages:
    """What was found on a host, as a sentence. `venv` is the python of its environment, which may
    not exist yet; `named`: hosts.toml names it already."""

    host: Host
    condition: PackageCondition
    text: str
    venv: str = ""
    named: bool = False


def inspect_hosts(
    transport: Transport, hosts: Sequence[Host], wanted: WantedPackages
) -> list[HostPackages]:
    """What each host has, in order."""
    return [
        _outlook(answer, wanted)
        for answer in run_on_hosts(transport, hosts, "environment", lambda _: wanted.packages)
    ]


def _outlook(answer: HostAnswer, wanted: WantedPackages) -> HostPackages:
    host = answer.host
    if answer.error or not answer.objects:
        return HostPackages(
            host, PackageCondition.HOPELESS, answer.error or f"{host.name}: it gave no answer"
        )
    try:
        return _found(host, answer.objects[0], wanted)
    except (LookupError, TypeError, ValueError, AttributeError) as error:
        unknown = f"{host.name}: it sent an answer that this version does not know: {error!r}"
        return HostPackages(host, PackageCondition.HOPELESS, unknown)


def _found(host: Host, found: dict[str, Any], wanted: WantedPackages) -> HostPackages:
    venv = str(found["venv"])
    named = PurePosixPath(found["executable"]).parent == PurePosixPath(venv).parent
    python = f"{host.name}: {host.python} (Python {found['python']}) has"
    lacks = _lacks(found["versions"], wanted)
    if not lacks:
        return HostPackages(
            host, PackageCondition.READY, f"{python} {_listed(found['versions'])}", venv, named
        )
    if found["installed"] and not _lacks(found["installed"], wanted):
        return HostPackages(
            host,
            PackageCondition.BUILT,
            f"{host.name}: {venv} has {_listed(found['installed'])}",
            venv,
            named,
        )
    if found["obstacle"] and not found["installed"]:
        return HostPackages(
            host, PackageCondition.HOPELESS, f"{python} {lacks}, and {found['obstacle']}"
        )
    too = (
        f"; {venv} has {_lacks(found['installed'], wanted)}"
        if found["installed"] and not named
        else ""
    )
    return HostPackages(host, PackageCondition.LACKING, f"{python} {lacks}{too}", venv, named)


def _lacks(versions: dict[str, str], wanted: WantedPackages) -> str:
    """The packages that are missing or have another version: "no torch and no torchvision", "torch
    2.13.0 instead of 2.14.1"."""
    return " and ".join(
        f"{package} {versions[package]} instead of {version}"
        if versions[package]
        else f"no {package}"
        for package, version in lacking(versions, wanted.requirements).items()
    )


def _listed(versions: dict[str, str]) -> str:
    return ", ".join(f"{package} {version}" for package, version in versions.items())


@dataclass(frozen=True)
class InstallOutcome:
    """The outcome of an installation: `text` is a sentence, `venv` the python for hosts.toml, ""
    where it failed."""

    host: Host
    text: str
    venv: str = ""


class Installation:
    """Installs the environments of several hosts at once. `hear` is called by several threads."""

    def __init__(
        self, transport: Transport, wanted: WantedPackages, hear: ProgressListener
    ) -> None:
        self._transport = transport
        self._wanted = wanted
        self._hear = hear
        self._channels: list[Channel] = []

    def perform(self, hosts: Sequence[Host]) -> list[InstallOutcome]:
        """The outcomes, in the order of the hosts. An interrupt ends the installations."""
        try:
            return map_concurrently(self._install, hosts)
        except BaseException:
            for channel in list(self._channels):
                channel.close()
            raise

    def _install(self, host: Host) -> InstallOutcome:
        course = _Course(host, self._hear)
        try:
            channel = self._transport.open(host, HostCommand(("install", host.workdir)), course)
        except Unreachable as error:
            return InstallOutcome(host, str(error))
        self._channels.append(channel)
        try:
            order = {
                name: getattr(self._wanted, name) for name in ("requirements", "packages", "index")
            }
            channel.write(dumps(order).encode() + b"\n")
            return _follow(course, channel)
        except TimeoutError as error:
            late = f"{host.name}: {error} while {course.doing}"
            return InstallOutcome(
                host, f"{late}; see that it is up and its disks answer, then call it again to go on"
            )
        except LineTooLong as error:
            return InstallOutcome(host, f"{host.name}: {error}")
        except (LookupError, TypeError, ValueError, AttributeError, ArithmeticError) as error:
            return InstallOutcome(
                host, f"{host.name}: it sent an answer that this version does not know: {error!r}"
            )
        except OSError as error:
            return InstallOutcome(host, f"{host.name}: the connection broke: {error}")
        finally:
            channel.close()


@dataclass
class _Course:
    """The progress of one host: what it does, and since when."""

    host: Host
    hear: ProgressListener
    doing: str = ""
    share: str = ""
    since: float = 0.0

    def phase(self, name: str) -> None:
        self.doing, self.share, self.since = name, "", time.monotonic()
        self.hear(self.host, name, "")

    def said(self, text: str) -> None:
        pass

    def take(self, told: dict[str, Any]) -> None:
        """Take a line of progress from the host."""
        if "phase" in told:
            self.phase(one_line(str(told["phase"])))
            return
        if told.get("of"):
            self.share = f"{told['bytes'] / told['of']:.0%} "
        self.hear(self.host, self.doing, f"{self.share}({duration(time.monotonic() - self.since)})")


def _follow(course: _Course, channel: Channel) -> InstallOutcome:
    """Follow a host to its end. Raises: TimeoutError, where it falls silent."""
    host = course.host
    cutter = LineCutter(LIMITS.line)
    for data in read_until_end(channel, SILENT, LIMITS.install):
        for told in filter(None, map(load, cutter.feed(data))):
            if "error" in told:
                return InstallOutcome(host, f"{host.name}: {one_line(str(told['error']))}")
            if "installed" in told:
                return InstallOutcome(
                    host, f"{host.name}: {_listed(told['installed'])}", str(told["venv"])
                )
            course.take(told)
    said = channel.close()
    return InstallOutcome(
        host,
        f"{host.name}: it broke off: {one_line(said) or 'no reason given'}; call it again to go on",
    )
