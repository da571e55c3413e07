"""Hosts with something wrong with them: a Python in whose ranks something happens, another torch,
another clock."""

from __future__ import annotations

import os
import shlex
import sys
import textwrap
from dataclasses import replace
from pathlib import Path

from remote.cluster.hosts import Host

STEP = 5
"""Before this step of the optimiser something happens in a spoiled rank."""

SPOILED = """\
import os, sys

def wrong():
{wrong}

def arm():
    if "torch" not in sys.modules:
        return
    from torch.optim.optimizer import register_optimizer_step_pre_hook
    steps = iter(range({step}, 0, -1))

    def before(*_):
        if next(steps, 0) == 1:
            wrong()

    register_optimizer_step_pre_hook(before)

os.register_at_fork(after_in_child=arm)
"""


def python(host: Host, folder: Path, *lines: str, path: Path | None = None) -> Host:
    """The host with a Python of its own, a shell script that does these lines first; `path` comes
    first in sys.path."""
    script = folder / f"python-{host.name}"
    said = [f"export PYTHONPATH={shlex.quote(str(path))}"] if path else []
    script.write_text(
        "\n".join(("#!/bin/sh", *said, *lines, f'exec {shlex.quote(sys.executable)} "$@"', ""))
    )
    script.chmod(0o755)
    return replace(host, python=str(script))


def spoiled(host: Host, folder: Path, wrong: str, *lines: str) -> Host:
    """The host, in whose ranks these lines of Python are run before step `STEP`."""
    path = folder / f"spoiled-{host.name}"
    path.mkdir()
    (path / "sitecustomize.py").write_text(
        SPOILED.format(wrong=textwrap.indent(wrong, "    "), step=STEP)
    )
    return python(host, folder, *lines, path=path)


def with_torch(host: Host, folder: Path, version: str) -> Host:
    """The host with a torch that gives itself out as another version."""
    path = folder / f"torch-{host.name}"
    (path / "torch").mkdir(parents=True)
    (path / "torch" / "__init__.py").write_text("")
    (path / "torch" / "version.py").write_text(f"__version__ = {version!r}\n")
    return python(host, folder, path=path)


def without_torch(host: Host, folder: Path) -> Host:
    """The host with a Python that sees no installed packages."""
    script = folder / f"python-{host.name}"
    script.write_text(
        f'#!/bin/sh\nexec {shlex.quote(os.path.realpath(sys.executable))} -S -I "$@"\n'
    )
    script.chmod(0o755)
    return replace(host, python=str(script))


def faketime() -> str:
    """Where the library of Debian's package faketime is, or empty text."""
    return next((str(path) for path in Path("/usr/lib").glob("*/faketime/libfaketime.so.1")), "")


def with_clock(host: Host, folder: Path, offset: str) -> Host:
    """The host with its wall clock off, as by "+1h"; what measures time spans is right."""
    return python(
        host,
        folder,
        f"export LD_PRELOAD={faketime()} FAKETIME={offset} FAKETIME_DONT_FAKE_MONOTONIC=1",
    )
