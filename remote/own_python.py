"""The Python that runs rankboard: how to start modules of ours, and how to install packages."""

from __future__ import annotations

import shlex
import sys
from importlib.util import find_spec
from pathlib import Path

CODE = Path(__file__).absolute().parents[1]
"""The folder that contains our packages."""
RUN_MODULE = (
    "import runpy, sys; sys.path.insert(0, sys.argv.pop(1)); "
    "runpy.run_module(sys.argv.pop(1), run_name='__main__', alter_sys=True)"
)


def module_command(module: str, *arguments: str) -> list[str]:
    """Return the command that runs a module of ours as a program."""
    # `python -m` would not find it in a wheel, or find a package of the user that has its name.
    return [sys.executable, "-P", "-c", RUN_MODULE, str(CODE), module, *arguments]


def install_command(packages: str, python: str = sys.executable) -> str:
    """Return what to type to install packages for a Python of this machine."""
    if python == sys.executable and find_spec("pip") is None:  # made by uv
        return f"uv pip install --python {shlex.quote(python)} {packages}"
    return f"{shlex.quote(python)} -m pip install {packages}"
