"""Looks for what a script needs on this host, before it is started: itself, and what
frameworks would miss. Nothing is imported or run."""

from __future__ import annotations

import os
import re
import sys

from training.agent.host.system import find_package
from training.agent.layout import expand_path

TYPE_CHECKING = False  # as typing itself takes long to import
if TYPE_CHECKING:
    from collections.abc import Sequence
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
NAMES = {
    "accelerate": ("accelerate", "transformers", "trl"),
    "lightning": ("lightning", "pytorch_lightning"),
}
"""What a program that uses a package names, where that is more than the package."""
LARGEST = 1 << 20
"""Bytes of a program that are looked through."""
DEVICES = ("nvidiactl", "nvidia0", "kfd", "dxg", "accel", "davinci0", "hl0", "mthreads-gpu")
"""Entries of /dev of accelerators: NVIDIA's, AMD's, those of Windows, Google's, Huawei's,
Intel's, Moore Threads'."""


def check_script(script: dict[str, Any]) -> dict[str, Any]:
    """Return the fields of `Hello` about the script.

    `script` has the folder `cwd` that it works in, and one of `file`, `module` and `command`,
    unless that is not there yet; perhaps `others`, which further ranks here have in its place; and
    `ports`, which its rank 0 binds.
    """
    lack, name_lacking = _find_first_lack(script)
    return {
        "program_lacks": lack,
        "program_lacking": name_lacking,
        "packages": tuple(filter(find_package, PACKAGES)),
        "unnamed": _find_unnamed(script),
        "ports_taken": _find_taken_ports(script.get("ports", ())),
        "accelerator": any(os.path.exists(f"/dev/{name}") for name in DEVICES),
    }


def _find_first_lack(script: dict[str, Any]) -> tuple[str, str]:
    """Return what is wrong with the program of a rank, and its name; nothing if all are well."""
    kind = next((kind for kind in ("file", "module", "command") if kind in script), "")
    for name in (script.get(kind, ""), *script.get("others", ())):
        lack = _find_lack({**script, kind: name})
        if lack:
            return lack, name
    return "", ""


def _find_lack(script: dict[str, Any]) -> str:
    cwd = script.get("cwd")
    if not cwd:
        return ""
    cwd = expand_path(cwd)
    if not os.path.isdir(cwd):
        return FOLDER
    script_file = script.get("file")
    if script_file:
        return _check_readable(os.path.join(cwd, script_file))
    module = script.get("module")
    if module:
        module_path = f"{cwd}/{module.partition('.')[0]}"
        is_there = os.path.isdir(module_path) or os.path.isfile(f"{module_path}.py")
        return "" if is_there or find_package(os.path.basename(module_path)) else MODULE
    return _check_executable(cwd, script.get("command") or "")


def _find_taken_ports(port_numbers: Sequence[int]) -> tuple[tuple[int, str], ...]:
    """Return the ports that cannot be bound, and why."""
    if not port_numbers:
        return ()
    from training.agent.host import ports  # which most scripts do not need

    taken_ports = []
    for port_number in port_numbers:
        try:
            ports.reserve_port("", port_number).close()
        except ports.PortError as error:
            taken_ports.append((port_number, str(error)))
    return tuple(taken_ports)


def _find_unnamed(script: dict[str, Any]) -> tuple[str, ...]:
    """Return those of PACKAGES that the file of a script or module does not name; none if it cannot
    be read."""
    script_text = _read_script(script)
    if not script_text:
        return ()
    unnamed_packages = []
    for package in PACKAGES:
        names = NAMES.get(package, (package,))
        # Whole names only: `pytorch-transformers` is another package than `transformers`.
        if not re.search(rf"(?<![\w-])({'|'.join(names)})\b".encode(), script_text):
            unnamed_packages.append(package)
    return tuple(unnamed_packages)


def _read_script(script: dict[str, Any]) -> bytes:
    """Return the text of the script; nothing if it is no file of Python that can be read."""
    file_name = script.get("file") or ""
    # The script of a shell may start a program that names more.
    file_names = ["" if file_name.endswith(".sh") else file_name]
    module = script.get("module")
    if module:
        path = module.replace(".", "/")
        file_names = [f"{path}.py", f"{path}/__main__.py"]
    cwd = os.path.expanduser(script.get("cwd") or ".")
    for file_name in filter(None, file_names):
        try:
            with open(os.path.join(cwd, file_name), "rb") as file:
                return file.read(LARGEST)
        except OSError:
            continue
    return b""


def _check_readable(path: str) -> str:
    if not os.path.exists(path):
        return FILE
    return "" if os.access(path, os.R_OK) else READ


def _check_executable(cwd: str, command: str) -> str:
    if not command:
        return ""
    if "/" in command:
        path = os.path.join(cwd, os.path.expanduser(command))
        if not os.path.isfile(path):
            return NO_FILE if os.path.isdir(path) else FILE
        return "" if os.access(path, os.X_OK) else EXECUTE
    from shutil import which  # slow to import

    search_folders = [os.path.dirname(sys.executable), *os.get_exec_path()]
    if which(command, path=os.pathsep.join(search_folders)):
        return ""
    return NO_FILE if os.path.isdir(f"{cwd}/{command}") else COMMAND
