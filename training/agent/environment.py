"""Errands that see which versions of packages this host's Python has, and put them into an environment of their own.

    environment WORKDIR PACKAGE …   tells what there is
    install WORKDIR                 reads an order, a line of JSON with `requirements`, `packages` and `index`, makes
                                    WORKDIR/venv with the requirements in it, and tells how far it is

`index` is the address of the package index, "" for the one that pip is configured for. An environment counts as complete once
nothing of it is missing: one that was left half made is made anew.
"""

from __future__ import annotations

import contextlib
import fcntl
import importlib.util
import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from importlib import metadata
from pathlib import Path
from typing import Any

from training.agent import facts
from training.jsonl import load

Told = Iterator[dict[str, Any]]
_UNFINISHED = "unfinished"
_UNREACHABLE = re.compile(r"Retrying \(|NewConnectionError|NameResolutionError|ConnectTimeout|SSLError|ProxyError")
_RAW_PROGRESS = (24, 1)
"""From this version on pip tells its progress in lines."""


class CannotInstall(Exception):
    """Why an environment could not be made, in a line, with what to do."""


class Venv:
    """The virtual environment of a workdir."""

    def __init__(self, workdir: str) -> None:
        self.folder = Path(os.path.abspath(os.path.expanduser(workdir)), "venv")
        self.python = str(self.folder / "bin" / "python")
        self.mark = self.folder / _UNFINISHED

    def complete(self) -> bool:
        """Whether it works, and nothing was going on in it when it was left."""
        return os.access(self.python, os.X_OK) and not self.mark.exists()

    def versions(self, packages: Sequence[str]) -> dict[str, str]:
        """The versions of these packages in it, "" for one that it does not have."""
        found = dict.fromkeys(packages, "")
        for installed in metadata.distributions(path=[str(path) for path in self.folder.glob("lib/python3*/site-packages")]):
            if installed.metadata["Name"] in found:
                found[installed.metadata["Name"]] = installed.version
        return found


def look(words: Sequence[str]) -> Told:
    """What this Python has of the packages, what the workdir's environment has, and whether one could be made."""
    workdir, *packages = words
    venv = Venv(workdir)
    yield {
        "executable": sys.executable,
        "python": ".".join(map(str, sys.version_info[:3])),
        "versions": {package: facts.version(package) for package in packages},
        "venv": venv.python,
        "installed": venv.versions(packages) if venv.complete() else {},
        "obstacle": _obstacle(),
    }


def _obstacle() -> str:
    if importlib.util.find_spec("venv") and importlib.util.find_spec("ensurepip"):
        return ""
    package = f"python{sys.version_info[0]}.{sys.version_info[1]}-venv"
    return f"its {sys.executable} can make no environments (no ensurepip): on Debian and Ubuntu, apt install {package} there"


def install(words: Sequence[str]) -> Told:
    """Make the environment, or complete it."""
    venv = Venv(words[0])
    order = load(_line()) or {}
    child = Child()
    threading.Thread(target=child.end_with_launcher, daemon=True).start()
    try:
        with _alone(venv):
            if not (venv.complete() and all(venv.versions(order["packages"]).values())):
                yield from _make(venv, order, child)
        yield {"venv": venv.python, "installed": venv.versions(order["packages"])}
    except CannotInstall as error:
        yield {"error": str(error)}


@contextlib.contextmanager
def _alone(venv: Venv) -> Iterator[None]:
    """Hosts that share a home make one environment, one after the other."""
    venv.folder.parent.mkdir(parents=True, exist_ok=True)
    with open(f"{venv.folder}.lock", "a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _make(venv: Venv, order: dict[str, Any], child: Child) -> Told:
    if not venv.complete():
        yield {"phase": f"making {venv.folder}"}
        if _obstacle():
            raise CannotInstall(_obstacle())
        _check(list(child.lines([sys.executable, "-m", "venv", "--clear", str(venv.folder)])), child, order)
    venv.mark.touch()
    pip = [venv.python, "-m", "pip", "--disable-pip-version-check", "--no-input"]
    version = re.search(r"pip (\d+)\.(\d+)", "".join(child.lines([*pip, "--version"])))
    raw = version is not None and (int(version[1]), int(version[2])) >= _RAW_PROGRESS
    said = []
    index = {"PIP_INDEX_URL": order["index"]} if order["index"] else {}  # not an argument: it may hold a password
    words = ["install", "--retries", "2", "--progress-bar", "raw" if raw else "off", *order["requirements"]]
    for line in child.lines([*pip, *words], **index):
        said.append(line)
        if told := _progress(line):
            yield told
    _check(said, child, order)
    venv.mark.unlink()


def _progress(line: str) -> dict[str, Any] | None:
    """What a line of pip tells: a phase, or how many bytes of how many are there."""
    if found := re.match(r"Progress (\d+) of (\d+)", line):
        return {"bytes": int(found[1]), "of": int(found[2])}
    if found := re.match(r"\s*(?:Downloading|Using cached|Processing) (\S+)", line):
        return {"phase": f"getting {found[1].rpartition('/')[2]}"}
    if line.startswith("Installing collected packages"):
        return {"phase": f"installing {line.count(',') + 1} packages"}
    return None


def _check(said: list[str], child: Child, order: dict[str, Any]) -> None:
    """Raises: CannotInstall, with the reason in what the child has said, unless it ended well."""
    if child.status == 0:
        return
    errors = [line.removeprefix("ERROR: ") for line in said if line.startswith("ERROR: ")] or [line for line in said if line]
    why = errors[0].strip()[:500] if errors else f"exit code {child.status}"
    if any(map(_UNREACHABLE.search, said)):
        where = order["index"] or "its package index"
        raise CannotInstall(f"pip cannot reach {where} from there; give the host network, or an --index-url that it can reach")
    raise CannotInstall(f"pip says: {why}" if "pip" in child.words else f"python -m venv says: {why}")


class Child:
    """What is run for an errand: one program after the other, each in a process group of its own."""

    def __init__(self) -> None:
        self.status = 0
        self.words: Sequence[str] = ()
        self._pid = 0

    def lines(self, words: Sequence[str], **env: str) -> Iterator[str]:
        """Run a program to its end; its lines as they come."""
        self.words = words
        process = subprocess.Popen(
            words,
            env={**os.environ, **env, "PYTHONUNBUFFERED": "1"},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            text=True,
            errors="replace",
        )
        self._pid = process.pid
        assert process.stdout
        with process.stdout as out:
            yield from (line.rstrip("\n") for line in out)
        self.status = process.wait()
        self._pid = 0

    def end_with_launcher(self) -> None:
        """End all when nobody is there any more for whom it is done."""
        while os.read(0, 1 << 16):
            pass
        if self._pid:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._pid, signal.SIGKILL)
        os._exit(1)


def _line() -> bytes:
    """The first line on stdin, read by the byte, so that the rest stays there."""
    line = b""
    while not line.endswith(b"\n") and (byte := os.read(0, 1)):
        line += byte
    return line
