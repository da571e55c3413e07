"""Host commands that see which versions of packages this host's Python has, and put them into an
environment of their own.

    environment WORKDIR PACKAGE …   tells what there is
    install WORKDIR                 reads a line of JSON: `requirements`, `packages`, `index`; makes
                                    WORKDIR/venv with the requirements in it, and tells how far it
                                    is, or that it is `busy`

`index` is the address of the package index, "" for the one that pip is configured for. An
environment counts as complete once nothing of it is missing: one that was left half made is made
anew. One that has other versions than the requirements ask for gets those.
"""

from __future__ import annotations

import importlib.util
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from importlib import metadata
from pathlib import Path
from typing import Any

from training.agent.host import facts, system
from training.file_locks import hold_lock
from training.wire.jsonl import load
from training.wire.line_cutter import read_line
from training.wire.requirements import lacking

Answers = Iterator[dict[str, Any]]
_UNFINISHED = "unfinished"
_INSTALLING = "Installing collected packages"
_ERROR = "ERROR: "
"""How pip begins a line with an error."""
_USER = re.compile(r"(?<=//)\S*@")
"""User and password in an address, also where a / in them is not written as %2F."""
_UNREACHABLE = re.compile(
    r"Retrying \(|NewConnectionError|NameResolutionError|ConnectTimeout|SSLError|ProxyError"
)
_RAW_PROGRESS = (24, 1)
"""From this version on pip tells its progress in lines."""
BEAT = 5.0
"""Seconds after which an installation says that it goes on, whatever else it has to say."""


class CannotInstall(Exception):
    """Why an environment could not be made, in a line, with what to do."""


class Venv:
    """The virtual environment of a workdir."""

    def __init__(self, workdir: str) -> None:
        self.folder = Path(workdir, "venv")
        self.python = str(self.folder / "bin" / "python")
        self.unfinished_mark = self.folder / _UNFINISHED

    def complete(self) -> bool:
        """Return True if it works, and nothing was going on in it when it was left."""
        return os.access(self.python, os.X_OK) and not self.unfinished_mark.exists()

    def versions(self, packages: Sequence[str]) -> dict[str, str]:
        """Return the versions of these packages in it, "" for one that it does not have."""
        versions = dict.fromkeys(packages, "")
        package_folders = map(str, self.folder.glob("lib/python3*/site-packages"))
        for distribution in metadata.distributions(path=list(package_folders)):
            package_name = distribution.metadata["Name"]
            if package_name in versions:
                versions[package_name] = distribution.version
        return versions


def look(workdir: str, *packages: str) -> Answers:
    """Report what this Python has of the packages, what the workdir's environment has, and why none
    could be made."""
    venv = Venv(workdir)
    yield {
        "executable": sys.executable,
        "python": ".".join(map(str, sys.version_info[:3])),
        "versions": {package: facts.package_version(package) for package in packages},
        "venv": venv.python,
        "installed": venv.versions(packages) if venv.complete() else {},
        "obstacle": _venv_obstacle(),
    }


def _venv_obstacle() -> str:
    if importlib.util.find_spec("venv") and importlib.util.find_spec("ensurepip"):
        return ""
    package = f"python{sys.version_info[0]}.{sys.version_info[1]}-venv"
    return (
        f"its {sys.executable} can make no environments (no ensurepip): on Debian and Ubuntu, apt "
        f"install {package} there"
    )


def install(workdir: str) -> Answers:
    """Make the environment, complete it, or give it other versions."""
    venv = Venv(workdir)
    install_order = load(read_line(0)) or {}
    child_process = ChildProcess()
    threading.Thread(target=child_process.end_with_launcher, daemon=True).start()
    threading.Thread(target=_report_beat, args=(str(venv.folder.parent),), daemon=True).start()
    try:
        venv.folder.parent.mkdir(parents=True, exist_ok=True)
        # Hosts that share a home make one environment, one after the other.
        with hold_lock(f"{venv.folder}.lock"):
            versions = venv.versions(install_order["packages"])
            if not venv.complete() or lacking(versions, install_order["requirements"]):
                yield from _make_venv(venv, install_order, child_process)
        yield {"venv": venv.python, "installed": venv.versions(install_order["packages"])}
    except CannotInstall as error:
        yield {"error": str(error)}


def _report_beat(folder: str) -> None:
    """Report all the while that this host goes on, as pip may be quiet for minutes; not while its
    disk hangs."""
    while True:
        time.sleep(BEAT)
        system.disk_free(folder)  # which no cache answers
        os.write(1, b'{"busy":""}\n')


def _make_venv(venv: Venv, install_order: dict[str, Any], child_process: ChildProcess) -> Answers:
    if not venv.complete():
        yield {"phase": f"making {venv.folder}"}
        venv_obstacle = _venv_obstacle()
        if venv_obstacle:
            raise CannotInstall(venv_obstacle)
        venv_command = [sys.executable, "-m", "venv", "--clear", str(venv.folder)]
        output_lines = list(child_process.lines(venv_command))
        _check_status(output_lines, child_process, install_order)
    pip_command = [venv.python, "-m", "pip", "--disable-pip-version-check", "--no-input"]
    version_text = "".join(child_process.lines([*pip_command, "--version"]))
    pip_version = re.search(r"pip (\d+)\.(\d+)", version_text)
    progress_bar = "off"
    if not pip_version:  # it was left before it had pip
        venv.unfinished_mark.touch()
    elif tuple(map(int, pip_version.groups())) >= _RAW_PROGRESS:
        progress_bar = "raw"
    output_lines = []
    # No argument: it may hold a password.
    pip_variables = {"PIP_INDEX_URL": install_order["index"]} if install_order["index"] else {}
    pip_options = ["--retries", "2", "--progress-bar", progress_bar]
    install_command = [*pip_command, "install", *pip_options, *install_order["requirements"]]
    for line in child_process.lines(install_command, **pip_variables):
        output_lines.append(line)
        if line.startswith(_INSTALLING):
            # not earlier: where pip gets nothing, the environment stays as it was
            venv.unfinished_mark.touch()
        progress = _parse_progress(line)
        if progress:
            yield progress
    _check_status(output_lines, child_process, install_order)
    venv.unfinished_mark.unlink(missing_ok=True)


def _parse_progress(line: str) -> dict[str, Any] | None:
    """Read a line of pip: the phase that begins, or how many bytes of how many are there."""
    match = re.match(r"Progress (\d+) of (\d+)", line)
    if match:
        return {"bytes": int(match[1]), "of": int(match[2])}
    match = re.match(r"\s*(?:Downloading|Using cached|Processing) (\S+)", line)
    if match:
        return {"phase": f"getting {match[1].rpartition('/')[2]}"}
    if line.startswith(_INSTALLING):
        return {"phase": f"installing {line.count(',') + 1} packages"}
    return None


def _check_status(
    output_lines: list[str], child_process: ChildProcess, install_order: dict[str, Any]
) -> None:
    """Raise CannotInstall, with the reason in the output of the child, unless it ended well."""
    if child_process.status == 0:
        return
    error_lines = [line.removeprefix(_ERROR) for line in output_lines if line.startswith(_ERROR)]
    first_lines = [*error_lines, *filter(None, output_lines), f"exit code {child_process.status}"]
    reason = first_lines[0].strip()[:500]
    if any(map(_UNREACHABLE.search, output_lines)):
        index_name = _USER.sub("", install_order["index"]) or "its package index"
        raise CannotInstall(
            f"pip cannot reach {index_name} from there; give the host network, or an --index-url "
            "that it can reach"
        )
    program_name = "pip" if "pip" in child_process.words else "python -m venv"
    raise CannotInstall(f"{program_name} says: {reason}")


class ChildProcess:
    """What is run for a host command: one program after the other, each in a process group of its
    own."""

    def __init__(self) -> None:
        self.status = 0
        self.words: Sequence[str] = ()
        self._pid = 0

    def lines(self, words: Sequence[str], **env: str) -> Iterator[str]:
        """Run a program to its end. Yield its lines as they come, without the passwords of
        addresses."""
        self.words = words
        process = subprocess.Popen(
            words,
            env={**os.environ, **env, "PYTHONUNBUFFERED": "1"},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            # pip starts compilers, which have to end with it.
            start_new_session=True,
            text=True,
            errors="replace",
        )
        self._pid = process.pid
        assert process.stdout
        with process.stdout as out:
            yield from (_USER.sub("", line.rstrip("\n")) for line in out)
        self.status = process.wait()
        self._pid = 0

    def end_with_launcher(self) -> None:
        """End all when nobody is there any more for whom it is done."""
        while os.read(0, 1 << 16):
            pass
        if self._pid:
            with suppress(ProcessLookupError):
                os.killpg(self._pid, signal.SIGKILL)
        os._exit(1)
