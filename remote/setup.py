"""Setting hosts up: what their Pythons have of the packages that ranks need, and an environment for those that lack some."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from enum import Enum
from importlib import metadata
from typing import Any

from remote.errands import perform
from remote.hosts import Host
from remote.lines import one_line
from remote.transport import Errand, Line, Transport, Unreachable
from training.jsonl import dumps, load

PACKAGES = ("torch", "torchvision")


@dataclass(frozen=True)
class Wanted:
    """What is to be on every host: `packages` by name, and as pip's `requirements`; `index` is where pip gets them from, ""
    where it is configured to."""

    packages: tuple[str, ...]
    requirements: tuple[str, ...]
    index: str = ""

    @classmethod
    def of(cls, torch: str = "", index: str = "") -> Wanted:
        """This torch with the torchvision that goes with it; without a version, those that the launcher itself has."""
        if torch:
            return cls(PACKAGES, (f"torch=={torch}", "torchvision"), index)
        # a local part, as in 2.14.1+cpu, is known to few indexes
        own = [f"{package}=={metadata.version(package).partition('+')[0]}" for package in PACKAGES]
        return cls(PACKAGES, tuple(own), index)


class Condition(Enum):
    """Whether a host's python has all; or has not, but its environment has; or lacks some; or cannot be helped."""

    READY = "ready"
    BUILT = "built"
    LACKING = "lacking"
    HOPELESS = "hopeless"


@dataclass(frozen=True)
class Outlook:
    """What was found on a host, in words; `venv` is its environment's python, where there is one or could be."""

    host: Host
    condition: Condition
    text: str
    venv: str = ""


def look(transport: Transport, hosts: Sequence[Host], wanted: Wanted) -> list[Outlook]:
    """What all hosts have, in their order."""
    answers = perform(transport, hosts, lambda host: Errand(("environment", host.workdir, *wanted.packages)))
    return [
        Outlook(answer.host, Condition.HOPELESS, answer.error or f"{answer.host.name}: it gave no answer")
        if answer.error or not answer.objects
        else _outlook(answer.host, answer.objects[0])
        for answer in answers
    ]


def _outlook(host: Host, found: dict[str, Any]) -> Outlook:
    venv = str(found["venv"])
    python = f"{host.python} (Python {found['python']})"
    if all(found["versions"].values()):
        return Outlook(host, Condition.READY, f"{host.name}: {python} has {_listed(found['versions'])}", venv)
    if found["installed"] and all(found["installed"].values()):
        return Outlook(host, Condition.BUILT, f"{host.name}: {venv} has {_listed(found['installed'])}", venv)
    lacks = " and no ".join(package for package, version in found["versions"].items() if not version)
    if found["obstacle"]:
        return Outlook(host, Condition.HOPELESS, f"{host.name}: {python} has no {lacks}, and {found['obstacle']}")
    return Outlook(host, Condition.LACKING, f"{host.name}: {python} has no {lacks}", venv)


def _listed(versions: dict[str, str]) -> str:
    return ", ".join(f"{package} {version}" for package, version in versions.items())


@dataclass(frozen=True)
class Installed:
    """What came of an installation: `text` says it in words, `venv` is the python to name in hosts.toml, "" where it failed."""

    host: Host
    text: str
    venv: str = ""


class Installation:
    """Makes the environments of several hosts at once. `hear` is told how far each is, from threads of their own."""

    def __init__(self, transport: Transport, wanted: Wanted, hear: Callable[[Host, str], None]) -> None:
        self._transport, self._wanted, self._hear = transport, wanted, hear
        self._lines: list[Line] = []

    def perform(self, hosts: Sequence[Host]) -> list[Installed]:
        """What came of it, in the order of the hosts. Interrupted, it ends what it has begun there."""
        with ThreadPoolExecutor(max(1, len(hosts)), thread_name_prefix="install") as pool:
            done = [pool.submit(self._install, host) for host in hosts]
            try:
                return [one.result() for one in done]
            except BaseException:
                for line in list(self._lines):
                    line.close()
                raise

    def _install(self, host: Host) -> Installed:
        try:
            line = self._transport.open(host, Errand(("install", host.workdir)), _Heard(host, self._hear))
        except Unreachable as error:
            return Installed(host, str(error))
        self._lines.append(line)
        try:
            order = {name: getattr(self._wanted, name) for name in ("requirements", "packages", "index")}
            line.write(dumps(order).encode() + b"\n")
            return self._follow(host, line)
        except OSError as error:
            return Installed(host, f"{host.name}: the line broke: {error}")
        finally:
            line.close()

    def _follow(self, host: Host, line: Line) -> Installed:
        rest, phase = b"", ""
        while data := line.read():
            *whole, rest = (rest + data).split(b"\n")
            for told in filter(None, map(load, whole)):
                if "error" in told:
                    return Installed(host, f"{host.name}: {one_line(str(told['error']))}")
                if "installed" in told:
                    return Installed(host, f"{host.name}: {_listed(told['installed'])}", str(told["venv"]))
                phase = one_line(str(told.get("phase", phase)))
                self._hear(host, f"{phase} {told['bytes'] / told['of']:.0%}" if told.get("of") else phase)
        said = line.close()
        return Installed(host, f"{host.name}: it broke off: {one_line(said) or 'no reason given'}; call it again to go on")


@dataclass(frozen=True)
class _Heard:
    """Tells how far the way to a host is."""

    host: Host
    hear: Callable[[Host, str], None]

    def phase(self, name: str) -> None:
        self.hear(self.host, name)

    def said(self, text: str) -> None:
        pass
