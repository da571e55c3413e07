"""Set hosts up: look for the packages that ranks need, and install an environment where some are
missing or have another version."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
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
WRONG_ANSWER = (LookupError, TypeError, ValueError, AttributeError, ArithmeticError)
"""What is raised when an answer is read that has another shape."""
UNKNOWN_ANSWER = "it sent an answer that this version does not know"

ProgressListener = Callable[[Host, str, str], None]
"""Receives what a host is doing, and how far it is with that."""


@dataclass(frozen=True)
class WantedPackages:
    """The packages for every host."""

    packages: tuple[str, ...]
    """Their names."""
    requirements: tuple[str, ...]
    """As pip has them: `torch==2.14.1`."""
    index: str = ""
    """The URL of pip's index; with "" pip uses its configuration."""

    @classmethod
    def of(cls, torch: str = "", index: str = "") -> WantedPackages:
        """Want this version of torch with the torchvision that matches; without a version, those of
        the launcher, or any if it has none."""
        if torch:
            return cls(PACKAGES, (f"torch=={torch}", "torchvision"), index)
        requirements = []
        for package in PACKAGES:
            try:
                version = metadata.version(package)
            except metadata.PackageNotFoundError:
                requirements.append(package)
                continue
            # few indexes have versions with a local part, such as 2.14.1+cpu
            public_version = version.partition("+")[0]
            requirements.append(f"{package}=={public_version}")
        return cls(PACKAGES, tuple(requirements), index)


class PackageCondition(Enum):
    """Which python of a host has the packages."""

    READY = "ready"
    """The python that ranks use."""
    BUILT = "built"
    """The environment in its workdir."""
    LACKING = "lacking"
    """None, and they can be installed."""
    HOPELESS = "hopeless"
    """None, and they cannot be installed."""


@dataclass(frozen=True)
class HostPackages:
    """What was found on a host."""

    host: Host
    condition: PackageCondition
    text: str
    """A sentence about it."""
    venv: str = ""
    """The python of its environment, which may not exist yet."""
    is_named: bool = False
    """hosts.toml names that python already."""


def inspect_hosts(
    transport: Transport, hosts: Sequence[Host], wanted_packages: WantedPackages
) -> list[HostPackages]:
    """Return what each host has, in order."""
    answers = run_on_hosts(transport, hosts, "environment", lambda _: wanted_packages.packages)
    return [_read_packages(answer, wanted_packages) for answer in answers]


def _read_packages(answer: HostAnswer, wanted_packages: WantedPackages) -> HostPackages:
    host = answer.host
    problem_text = answer.error or f"{host.name}: it gave no answer"
    if not answer.error and answer.objects:
        try:
            return _judge(host, answer.objects[0], wanted_packages)
        except WRONG_ANSWER as error:
            problem_text = f"{host.name}: {UNKNOWN_ANSWER}: {error!r}"
    return HostPackages(host, PackageCondition.HOPELESS, problem_text)


def _judge(host: Host, host_facts: dict[str, Any], wanted_packages: WantedPackages) -> HostPackages:
    """Say what the facts of a host mean. Raises: WRONG_ANSWER."""
    venv_python = str(host_facts["venv"])
    python_versions = host_facts["versions"]
    venv_versions = host_facts["installed"]
    is_named = PurePosixPath(host_facts["executable"]).parent == PurePosixPath(venv_python).parent
    python_text = f"{host.name}: {host.python} (Python {host_facts['python']}) has"
    missing_text = _describe_missing(python_versions, wanted_packages)
    if not missing_text:
        sentence = f"{python_text} {_list_versions(python_versions)}"
        return HostPackages(host, PackageCondition.READY, sentence, venv_python, is_named)
    missing_in_venv = (
        _describe_missing(venv_versions, wanted_packages) if venv_versions else missing_text
    )
    if not missing_in_venv:
        sentence = f"{host.name}: {venv_python} has {_list_versions(venv_versions)}"
        return HostPackages(host, PackageCondition.BUILT, sentence, venv_python, is_named)
    sentence = f"{python_text} {missing_text}"
    # An environment that exists shows that one can be made.
    if host_facts["obstacle"] and not venv_versions:
        return HostPackages(
            host, PackageCondition.HOPELESS, f"{sentence}, and {host_facts['obstacle']}"
        )
    if venv_versions and not is_named:
        sentence += f"; {venv_python} has {missing_in_venv}"
    return HostPackages(host, PackageCondition.LACKING, sentence, venv_python, is_named)


def _describe_missing(versions: dict[str, str], wanted_packages: WantedPackages) -> str:
    """Say which packages are missing or have another version: "no torch and no torchvision",
    "torch 2.13.0 instead of 2.14.1"."""
    missing_parts = []
    for package, version in lacking(versions, wanted_packages.requirements).items():
        if versions[package]:
            missing_parts.append(f"{package} {versions[package]} instead of {version}")
        else:
            missing_parts.append(f"no {package}")
    return " and ".join(missing_parts)


def _list_versions(versions: Mapping[str, str]) -> str:
    return ", ".join(f"{package} {version}" for package, version in versions.items())


@dataclass(frozen=True)
class InstallOutcome:
    """What became of an installation."""

    host: Host
    text: str
    """A sentence about it."""
    venv: str = ""
    """The python for hosts.toml; "" if it failed."""


def install_packages(
    transport: Transport,
    hosts: Sequence[Host],
    wanted_packages: WantedPackages,
    listener: ProgressListener,
) -> list[InstallOutcome]:
    """Install the environments of several hosts at once; return the outcomes, in the order of the
    hosts. An interrupt ends the installations. Several threads call `listener`."""
    install_request = dumps(asdict(wanted_packages)).encode() + b"\n"
    open_channels: list[Channel] = []

    def install_on_host(host: Host) -> InstallOutcome:
        progress = _InstallProgress(host, listener)
        try:
            channel = transport.open(host, HostCommand(("install", host.workdir)), progress)
        except Unreachable as error:
            return InstallOutcome(host, str(error))
        open_channels.append(channel)
        try:
            channel.write(install_request)
            return _follow(progress, channel)
        except TimeoutError as error:
            advice = "see that it is up and its disks answer, then call it again to go on"
            problem_text = f"{error} while {progress.doing}; {advice}"
        except LineTooLong as error:
            problem_text = str(error)
        except WRONG_ANSWER as error:
            problem_text = f"{UNKNOWN_ANSWER}: {error!r}"
        except OSError as error:
            problem_text = f"the connection broke: {error}"
        finally:
            channel.close()
        return InstallOutcome(host, f"{host.name}: {problem_text}")

    try:
        return map_concurrently(install_on_host, hosts)
    except BaseException:
        # A copy, since the other threads still add to it.
        for channel in list(open_channels):
            channel.close()
        raise


@dataclass
class _InstallProgress:
    """How far one host is: what it does, and since when."""

    host: Host
    listener: ProgressListener
    doing: str = ""
    share: str = ""
    since: float = 0.0

    def phase(self, phase_name: str) -> None:
        self.doing = phase_name
        self.share = ""
        self.since = time.monotonic()
        self.listener(self.host, phase_name, "")

    def said(self, text: str) -> None:
        pass

    def take(self, report: dict[str, Any]) -> None:
        """Take a line of progress from the host."""
        if "phase" in report:
            self.phase(one_line(str(report["phase"])))
            return
        if report.get("of"):
            self.share = f"{report['bytes'] / report['of']:.0%} "
        elapsed_text = duration(time.monotonic() - self.since)
        self.listener(self.host, self.doing, f"{self.share}({elapsed_text})")


def _follow(progress: _InstallProgress, channel: Channel) -> InstallOutcome:
    """Follow a host to its end. Raises: TimeoutError, if it falls silent; LineTooLong; OSError;
    WRONG_ANSWER."""
    host = progress.host
    line_cutter = LineCutter(LIMITS.line)
    # Not the timeout of the host: a download may take long, while the host says how far it is.
    for new_bytes in read_until_end(channel, SILENT, LIMITS.install):
        for line in line_cutter.feed(new_bytes):
            report = load(line)
            if not report:
                continue
            if "error" in report:
                return InstallOutcome(host, f"{host.name}: {one_line(str(report['error']))}")
            if "installed" in report:
                versions_text = f"{host.name}: {_list_versions(report['installed'])}"
                return InstallOutcome(host, versions_text, str(report["venv"]))
            progress.take(report)
    end_reason = one_line(channel.close()) or "no reason given"
    return InstallOutcome(host, f"{host.name}: it broke off: {end_reason}; call it again to go on")
