"""`rankboard --info`: what a report of a bug needs to say of this machine.

Nothing of it is secret: of the environment only well-known values are shown, and neither names of
hosts and users nor addresses.
"""

from __future__ import annotations

import getpass
import os
import platform
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import suppress
from importlib import metadata
from pathlib import Path
from typing import NamedTuple

from rankboard.__main__ import CODE, PRIVATE
from remote.cluster.hosts import HOSTS_FILE, SSH_CONFIG
from remote.cluster.rules import RULES_FILE
from training.agent.local_api import usable_cores
from tui.kit import keymap
from tui.kit.narrate import echo
from tui.launch import presets

LIBRARIES = ("torch", "torchvision", "numpy", "scipy", "textual", "rich", "paramiko", "cyclopts")
"""Packages whose versions explain bugs. None is imported."""
PROGRAMS = ("git", "nvidia-smi", "srun", "ssh", "sshd", "tmux")
"""Programs that rankboard or its users start."""
SYSTEM_FOLDERS = ("/usr/local/sbin", "/usr/sbin", "/sbin")
"""Where sshd is, which few have on their PATH."""
TERMINAL = re.compile(
    r"(alacritty|foot|ghostty|kitty|linux|rxvt|screen|st|tmux|vt|wezterm|xterm)"
    r"(-(16|88|256)?color|-direct|-ghostty|-kitty|-unicode|\d{3})*"
)
"""Names of terminals. Any other value of TERM is not shown."""
GIT_SECONDS = 5.0
"""Seconds that git has to name the commit of a checkout."""


class InfoRow(NamedTuple):
    """A line of the information."""

    name: str
    text: str


def print_info() -> None:
    """Print versions, the system, the terminal, and which programs and files are there."""
    rows = list(_find_rows())
    width = max(len(row.name) for row in rows)
    for row in rows:
        echo(f"{row.name:{width}}  {row.text}")


def _find_rows() -> Iterator[InfoRow]:
    yield InfoRow("rankboard", f"{metadata.version('rankboard')}, {_describe_installation()}")
    python_text = f"{platform.python_version()}, {platform.python_implementation()}"
    yield InfoRow("Python", f"{python_text}, in {_hide_names(Path(sys.prefix))}")
    for library in LIBRARIES:
        yield InfoRow(library, _find_version(library))
    yield InfoRow("system", platform.platform())
    yield InfoRow("cores", f"{usable_cores():g} of {os.cpu_count()}")
    yield InfoRow("terminal", _describe_terminal())
    search_path = os.pathsep.join((os.environ.get("PATH", ""), *SYSTEM_FOLDERS))
    programs = {name: shutil.which(name, path=search_path) is not None for name in PROGRAMS}
    yield InfoRow("programs", _divide(programs))
    settings_files = (
        Path(HOSTS_FILE),
        Path(RULES_FILE),
        SSH_CONFIG.expanduser(),
        keymap.path(),
        presets.folder(),
    )
    yield InfoRow(
        "files", _divide({str(_hide_names(path)): path.exists() for path in settings_files})
    )


def _describe_installation() -> str:
    """Say how rankboard was installed, and of a checkout which commit it is."""
    if CODE == PRIVATE:
        return f"wheel in {_hide_names(CODE.parents[1])}"
    commit = _find_commit(CODE)
    return f"checkout in {_hide_names(CODE)}" + (f", commit {commit}" if commit else "")


def _find_commit(folder: Path) -> str:
    """Return the commit of a checkout, marked if files were changed; "" if git does not tell."""
    command = ("git", "--no-optional-locks", "describe", "--always", "--dirty")
    if not (folder / ".git").exists():
        return ""
    with suppress(OSError, subprocess.SubprocessError):
        answer = subprocess.run(
            command, cwd=folder, capture_output=True, text=True, check=True, timeout=GIT_SECONDS
        )
        return answer.stdout.strip()
    return ""


def _find_version(package: str) -> str:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return "not installed"


def _describe_terminal() -> str:
    """Describe the terminal by what it is known to be able to do."""
    streams = (sys.stdin, sys.stdout, sys.stderr)
    terminal = next((stream for stream in streams if stream.isatty()), None)
    if terminal is None:
        return "none"
    terminal_name = os.environ.get("TERM", "")
    is_known = TERMINAL.fullmatch(terminal_name) is not None
    descriptions = [terminal_name if is_known else "a terminal of another name"]
    with suppress(OSError):
        size = os.get_terminal_size(terminal.fileno())
        descriptions.append(f"{size.columns}x{size.lines}")
    descriptions.append(sys.stdout.encoding)
    if os.environ.get("COLORTERM") in ("truecolor", "24bit"):
        descriptions.append("true colour")
    if "TMUX" in os.environ:
        descriptions.append("in tmux")
    if "SSH_CONNECTION" in os.environ:
        descriptions.append("over SSH")
    return ", ".join(descriptions)


def _divide(found_by_name: Mapping[str, bool]) -> str:
    """Name those that were found, then those that were not."""
    found_names = [name for name, is_found in found_by_name.items() if is_found]
    missing_names = [name for name, is_found in found_by_name.items() if not is_found]
    parts = [", ".join(found_names)] if found_names else []
    if missing_names:
        parts.append(f"not there: {', '.join(missing_names)}")
    return "; ".join(parts)


def _hide_names(path: Path) -> Path:
    """Return a path with ~ for the home, and without the name of the user."""
    if path.is_relative_to(Path.home()):
        path = Path("~", path.relative_to(Path.home()))
    user_name = _find_user_name()
    return Path(*("USER" if part == user_name else part for part in path.parts))


def _find_user_name() -> str:
    """Return the name of the user; "" if the system knows none, as in some containers."""
    with suppress(OSError, KeyError):  # KeyError: until Python 3.12
        return getpass.getuser()
    return ""
