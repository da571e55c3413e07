"""Looks for what a user's own program needs on this host, before it is started: itself, and what
frameworks would miss. Nothing is imported or run."""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False  # as typing itself takes long to import
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

FOLDER = "folder"
FILE = "file"
NO_FILE = "no file"
READ = "read"
EXECUTE = "execute"
MODULE = "module"
COMMAND = "command"
"""What is wrong: there is no such folder, file, module or command; or it is a folder, not a file;
or the file is there, and this user may not read or execute it."""
PACKAGES = ("accelerate", "lightning", "pytorch_lightning", "rich")
"""Packages for which ranks are given more variables where they are installed."""
NAMES = {"accelerate": ("accelerate", "transformers", "trl")}
"""What a program that uses a package names, where that is more than the package."""
LARGEST = 1 << 20
"""Bytes of a program that are looked through."""
DEVICES = ("nvidiactl", "nvidia0", "kfd", "dxg", "accel", "davinci0", "hl0", "mthreads-gpu")
"""Entries of /dev of accelerators: NVIDIA's, AMD's, those of Windows, Google's, Huawei's,
Intel's, Moore Threads'."""


def look(wanted: dict[str, Any]) -> dict[str, Any]:
    """The fields of `Hello` about the program. `wanted`: the folder `cwd` that it works in, and one
    of `file`, `module` and `command`, unless that is not there yet."""
    return {
        "program_lacks": _lacks(wanted),
        "packages": tuple(name for name in PACKAGES if _is_installed(name)),
        "unnamed": _unnamed(wanted),
        "accelerator": any(os.path.exists(f"/dev/{name}") for name in DEVICES),
    }


def _lacks(wanted: dict[str, Any]) -> str:
    cwd = wanted.get("cwd")
    if not cwd:
        return ""
    cwd = os.path.abspath(os.path.expanduser(cwd))
    if not os.path.isdir(cwd):
        return FOLDER
    file = wanted.get("file")
    if file:
        return _unreadable(os.path.join(cwd, file))
    module = wanted.get("module")
    if module:
        top = os.path.join(cwd, module.partition(".")[0])
        there = os.path.isdir(top) or os.path.isfile(f"{top}.py")
        return "" if there or _is_installed(os.path.basename(top)) else MODULE
    return _unexecutable(cwd, wanted.get("command") or "")


def _unnamed(wanted: dict[str, Any]) -> tuple[str, ...]:
    """Those of PACKAGES that a file of Python, or the one of a module, does not name; none where
    it cannot be read."""
    text = next(_texts(wanted), None)
    if text is None:
        return ()
    return tuple(
        package
        for package in PACKAGES
        if not any(name.encode() in text for name in NAMES.get(package, (package,)))
    )


def _texts(wanted: dict[str, Any]) -> Iterator[bytes]:
    """The text of the program, where it is a file of Python that can be read."""
    module = (wanted.get("module") or "").replace(".", "/")
    names = [wanted.get("file")] if not module else [f"{module}.py", f"{module}/__main__.py"]
    for name in filter(None, names):
        path = os.path.join(os.path.expanduser(wanted.get("cwd") or "."), name)
        try:
            with open(path, "rb") as file:
                yield file.read(LARGEST)
        except OSError:
            continue


def _unreadable(path: str) -> str:
    if not os.path.exists(path):
        return FILE
    return "" if os.access(path, os.R_OK) else READ


def _unexecutable(cwd: str, command: str) -> str:
    if not command:
        return ""
    if "/" in command:
        path = os.path.join(cwd, os.path.expanduser(command))
        if not os.path.isfile(path):
            return NO_FILE if os.path.isdir(path) else FILE
        return "" if os.access(path, os.X_OK) else EXECUTE
    folders = [os.path.dirname(sys.executable), *os.get_exec_path()]
    paths = (os.path.join(folder, command) for folder in folders)
    if any(os.path.isfile(path) and os.access(path, os.X_OK) for path in paths):
        return ""
    return NO_FILE if os.path.isdir(os.path.join(cwd, command)) else COMMAND


def _is_installed(package: str) -> bool:
    """Whether Python finds the package, as `importlib.util.find_spec` would say."""
    if package in sys.builtin_module_names:
        return True
    for finder in sys.meta_path:
        try:
            if hasattr(finder, "find_spec") and finder.find_spec(package, None):
                return True
        except (ImportError, ValueError):
            continue
    return False
