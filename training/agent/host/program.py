"""Looks for what a script needs on this host, before it is started: itself, and what
frameworks would miss. Nothing is imported or run."""

from __future__ import annotations

import os
import sys

from training.agent.layout import expand_path

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


def check_script(script: dict[str, Any]) -> dict[str, Any]:
    """Return the fields of `Hello` about the script.

    `script` has the folder `cwd` that it works in, and one of `file`, `module` and `command`,
    unless that is not there yet.
    """
    return {
        "program_lacks": _lacks(script),
        "packages": tuple(name for name in PACKAGES if _is_installed(name)),
        "unnamed": _unnamed(script),
        "accelerator": any(os.path.exists(f"/dev/{name}") for name in DEVICES),
    }


def _lacks(script: dict[str, Any]) -> str:
    cwd = script.get("cwd")
    if not cwd:
        return ""
    cwd = expand_path(cwd)
    if not os.path.isdir(cwd):
        return FOLDER
    file = script.get("file")
    if file:
        return _unreadable(os.path.join(cwd, file))
    module = script.get("module")
    if module:
        top = f"{cwd}/{module.partition('.')[0]}"
        is_there = os.path.isdir(top) or os.path.isfile(f"{top}.py")
        return "" if is_there or _is_installed(os.path.basename(top)) else MODULE
    return _unexecutable(cwd, script.get("command") or "")


def _unnamed(script: dict[str, Any]) -> tuple[str, ...]:
    """Return those of PACKAGES that the file of a script or module does not name; none if it cannot
    be read."""
    text = next(_texts(script), None)
    if text is None:
        return ()
    return tuple(
        package
        for package in PACKAGES
        if not any(name.encode() in text for name in NAMES.get(package, (package,)))
    )


def _texts(script: dict[str, Any]) -> Iterator[bytes]:
    """Yield the text of the script, if it is a file of Python that can be read."""
    module = (script.get("module") or "").replace(".", "/")
    names = [script.get("file")] if not module else [f"{module}.py", f"{module}/__main__.py"]
    for name in filter(None, names):
        path = os.path.join(os.path.expanduser(script.get("cwd") or "."), name)
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
    paths = (f"{folder}/{command}" for folder in folders)
    if any(os.path.isfile(path) and os.access(path, os.X_OK) for path in paths):
        return ""
    return NO_FILE if os.path.isdir(f"{cwd}/{command}") else COMMAND


def _is_installed(package: str) -> bool:
    """Return True if Python finds the package, as `importlib.util.find_spec` would."""
    if package in sys.builtin_module_names:
        return True
    for finder in sys.meta_path:
        try:
            if hasattr(finder, "find_spec") and finder.find_spec(package, None):
                return True
        except (ImportError, ValueError):
            continue
    return False
