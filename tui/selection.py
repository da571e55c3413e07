"""Which hosts a command line means, and the way to them."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import typer

from remote.hosts import Cluster, Host, load
from remote.lab.spec import LabError, Spec, parse
from remote.plan import PlanError
from remote.transport import Transport


def names(text: str) -> tuple[str, ...]:
    """The names of a list joined by commas."""
    return tuple(name.strip() for name in text.split(",") if name.strip())


def cluster(path: Path | None, local: int, slots: int, upload: Sequence[Path] = ()) -> Cluster:
    """The hosts of the file, or this machine as one or several. `upload` goes to the hosts beside what the file says.

    Raises: HostsError, PlanError.
    """
    if not local:
        if slots:
            raise PlanError(f"--slots {slots} goes with --local N; in a hosts file, write slots = {slots}")
        found = load(path or Path("hosts.toml"))
        return replace(found, sync=(*found.sync, *(os.path.abspath(one.expanduser()) for one in upload)))
    if upload:
        raise PlanError(f"--upload {upload[0]} is for other machines: with --local {local} the ranks work in this folder")
    if path:
        raise PlanError(f"--hosts {path} and --local {local} exclude each other: give one of them")
    if not slots:
        return Cluster("this machine", (_local_host("local", local),))
    return Cluster("this machine", tuple(_local_host(f"local{index}", slots) for index in range(1, local // slots + 1)))


def _local_host(name: str, slots: int) -> Host:
    return Host(name, "127.0.0.1", python=sys.executable, slots=slots)


def lab_spec(local: int, slots: int, link: str, cpus: str) -> Spec | None:
    """The lab that the flags ask for, if any. Raises: LabError."""
    if slots and local % slots:
        fit = ", ".join(str(number) for number in range(1, local + 1) if local % number == 0)
        raise LabError(f"--slots {slots} does not divide the {local} ranks of --local: give one of {fit}")
    if not link:
        if cpus:
            raise LabError(f"--cpus {cpus} goes with --link: give --link 10gbit for links that hardly limit")
        return None
    if not local:
        raise LabError(f"--link {link} goes with --local N: it gives this machine's ranks a network; add --local 4")
    return parse(local // (slots or 1), link, cpus, slots or 1)


@contextmanager
def transport(local: bool, spec: Spec | None) -> Iterator[Transport]:
    """The way to the hosts. A lab is there as long as this is. Raises: LabError."""
    if spec:
        from remote.lab.lab import Lab
        from remote.transport.local import LocalTransport

        with Lab.start(spec) as lab:
            for remark in lab.remarks():
                typer.echo(f"rankboard: {remark}", err=True)
            yield LocalTransport(enter=lab.enter)
    elif local:
        from remote.transport.local import LocalTransport

        yield LocalTransport()
    else:
        from remote.transport.ssh import SshTransport

        yield SshTransport()
