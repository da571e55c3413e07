"""Setting hosts up: what their Pythons have of the packages that ranks need, and an environment for
those that lack some, or have them in other versions."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from importlib import metadata
from pathlib import PurePosixPath
from typing import Any

from remote.at_once import at_once
from remote.cluster.hosts import Host
from remote.errands.errands import Answer, ask
from remote.errands.reading import read
from remote.limits import LIMITS
from remote.sanitise import one_line
from remote.transport import Channel, Errand, Transport, Unreachable
from training.wire.jsonl import dumps, load
from training.wire.line_cutter import LineCutter, LineTooLong
from training.wire.requirements import lacking

PACKAGES = ("torch", "torchvision")
SILENT = 60.0
"""Seconds without a word after which an installation is given up; its host has one every few
seconds."""

Hear = Callable[[Host, str, str], None]
"""Takes what a host does, and figures on how far it is."""


@dataclass(frozen=True)
class Wanted:
    """What is to be on every host: `packages` by name, and as pip's `requirements`; `index` is
    where pip gets them from, "" where it is configured to."""

    packages: tuple[str, ...]
    requirements: tuple[str, ...]
    index: str = ""

    @classmethod
    def of(cls, torch: str = "", index: str = "") -> Wanted:
        """This torch with the torchvision that goes with it; without a version, those that the
        launcher itself has."""
        if torch:
            return cls(PACKAGES, (f"torch=={torch}", "torchvision"), index)
        # a local part, as in 2.14.1+cpu, is known to few indexes
        own = [f"{package}=={metadata.version(package).partition('+')[0]}" for package in PACKAGES]
        return cls(PACKAGES, tuple(own), index)


class Condition(Enum):
    """Whether a host's python has all as wanted; or has not, but its environment has; or neither;
    or it cannot be helped."""

    READY = "ready"
    BUILT = "built"
    LACKING = "lacking"
    HOPELESS = "hopeless"


@dataclass(frozen=True)
class Outlook:
    """What was found on a host, in words; `venv` is its environment's python, where there is one or
    could be; `named`: whether hosts.toml names that already."""

    host: Host
    condition: Condition
    text: str
    venv: str = ""
    named: bool = False


def look(transport: Transport, hosts: Sequence[Host], wanted: Wanted) -> list[Outlook]:
    """What all hosts have, in their order."""
    return [
        _outlook(answer, wanted)
        for answer in ask(transport, hosts, "environment", lambda _: wanted.packages)
    ]


def _outlook(answer: Answer, wanted: Wanted) -> Outlook:
    host = answer.host
    if answer.error or not answer.objects:
        return Outlook(host, Condition.HOPELESS, answer.error or f"{host.name}: it gave no answer")
    try:
        return _found(host, answer.objects[0], wanted)
    except (LookupError, TypeError, ValueError, AttributeError) as error:
        unknown = f"{host.name}: it sent an answer that this version does not know: {error!r}"
        return Outlook(host, Condition.HOPELESS, unknown)


def _found(host: Host, found: dict[str, Any], wanted: Wanted) -> Outlook:
    venv = str(found["venv"])
    named = PurePosixPath(found["executable"]).parent == PurePosixPath(venv).parent
    python = f"{host.name}: {host.python} (Python {found['python']}) has"
    if not (lacks := _lacks(found["versions"], wanted)):
        return Outlook(host, Condition.READY, f"{python} {_listed(found['versions'])}", venv, named)
    if found["installed"] and not _lacks(found["installed"], wanted):
        return Outlook(
            host,
            Condition.BUILT,
            f"{host.name}: {venv} has {_listed(found['installed'])}",
            venv,
            named,
        )
    if found["obstacle"] and not found["installed"]:
        return Outlook(host, Condition.HOPELESS, f"{python} {lacks}, and {found['obstacle']}")
    too = (
        f"; {venv} has {_lacks(found['installed'], wanted)}"
        if found["installed"] and not named
        else ""
    )
    return Outlook(host, Condition.LACKING, f"{python} {lacks}{too}", venv, named)


def _lacks(versions: dict[str, str], wanted: Wanted) -> str:
    """What is not as wanted, in words: "no torch and no torchvision", "torch 2.13.0 instead of
    2.14.1"."""
    return " and ".join(
        f"{package} {versions[package]} instead of {version}"
        if versions[package]
        else f"no {package}"
        for package, version in lacking(versions, wanted.requirements).items()
    )


def _listed(versions: dict[str, str]) -> str:
    return ", ".join(f"{package} {version}" for package, version in versions.items())


@dataclass(frozen=True)
class Installed:
    """What came of an installation: `text` says it in words, `venv` is the python to name in
    hosts.toml, "" where it failed."""

    host: Host
    text: str
    venv: str = ""


class Installation:
    """Makes the environments of several hosts at once. `hear` is told how far each is, from threads
    of their own."""

    def __init__(self, transport: Transport, wanted: Wanted, hear: Hear) -> None:
        self._transport, self._wanted, self._hear = transport, wanted, hear
        self._channels: list[Channel] = []

    def perform(self, hosts: Sequence[Host]) -> list[Installed]:
        """What came of it, in the order of the hosts. Interrupted, it ends what it has begun
        there."""
        try:
            return at_once(self._install, hosts)
        except BaseException:
            for channel in list(self._channels):
                channel.close()
            raise

    def _install(self, host: Host) -> Installed:
        course = _Course(host, self._hear)
        try:
            channel = self._transport.open(host, Errand(("install", host.workdir)), course)
        except Unreachable as error:
            return Installed(host, str(error))
        self._channels.append(channel)
        try:
            order = {
                name: getattr(self._wanted, name) for name in ("requirements", "packages", "index")
            }
            channel.write(dumps(order).encode() + b"\n")
            return _follow(course, channel)
        except TimeoutError as error:
            late = f"{host.name}: {error} while {course.doing}"
            return Installed(
                host, f"{late}; see that it is up and its disks answer, then call it again to go on"
            )
        except LineTooLong as error:
            return Installed(host, f"{host.name}: {error}")
        except (LookupError, TypeError, ValueError, AttributeError, ArithmeticError) as error:
            return Installed(
                host, f"{host.name}: it sent an answer that this version does not know: {error!r}"
            )
        except OSError as error:
            return Installed(host, f"{host.name}: the connection broke: {error}")
        finally:
            channel.close()


@dataclass
class _Course:
    """Tells how far a host is, and for how long it has been there."""

    host: Host
    hear: Hear
    doing: str = ""
    share: str = ""
    since: float = 0.0

    def phase(self, name: str) -> None:
        self.doing, self.share, self.since = name, "", time.monotonic()
        self.hear(self.host, name, "")

    def said(self, text: str) -> None:
        pass

    def take(self, told: dict[str, Any]) -> None:
        """What the host itself tells, if only that it is busy."""
        if "phase" in told:
            self.phase(one_line(str(told["phase"])))
            return
        if told.get("of"):
            self.share = f"{told['bytes'] / told['of']:.0%} "
        self.hear(self.host, self.doing, f"{self.share}({time.monotonic() - self.since:.0f} s)")


def _follow(course: _Course, channel: Channel) -> Installed:
    """Hear a host out. Raises: TimeoutError, where it falls silent."""
    host, cutter = course.host, LineCutter(LIMITS.line)
    for data in read(channel, SILENT, LIMITS.install):
        for told in filter(None, map(load, cutter.feed(data))):
            if "error" in told:
                return Installed(host, f"{host.name}: {one_line(str(told['error']))}")
            if "installed" in told:
                return Installed(
                    host, f"{host.name}: {_listed(told['installed'])}", str(told["venv"])
                )
            course.take(told)
    said = channel.close()
    return Installed(
        host,
        f"{host.name}: it broke off: {one_line(said) or 'no reason given'}; call it again to go on",
    )
