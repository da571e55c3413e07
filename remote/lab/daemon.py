"""The process that holds a long-living lab. It ends at SIGTERM, or with the lab, and takes the lab
and its folder along.

Run as a program, with the lab's name, the number of hosts, their links and their quotas. It prints
READY, or why there is no lab. If it is killed, the kernel removes the lab all the same.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator

from remote.lab import logins
from remote.lab.folder import Folder
from remote.lab.lab import Lab
from remote.lab.spec import LabError, parse
from remote.own_python import module_command

READY = "ready"
ENDS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGCHLD)
"""The signals that end it. SIGCHLD: its only child, the lab, has ended."""


def begin(lab_name: str, host_count: int, link: str, cpus: str) -> None:
    """Start a daemon, and wait until its lab is up. Raises: LabError."""
    logins.check()
    argv = module_command("remote.lab.daemon", lab_name, str(host_count), link, cpus)
    output_pipe = subprocess.PIPE
    null_device = subprocess.DEVNULL
    daemon = subprocess.Popen(
        argv,
        stdin=null_device,
        stdout=output_pipe,
        stderr=subprocess.STDOUT,
        cwd="/",
        text=True,
        start_new_session=True,
    )
    assert daemon.stdout
    with daemon.stdout as output:
        output_lines = tuple(_until_ready(output))
    if output_lines[-1:] != (READY,):
        daemon.wait()
        raise LabError(
            "\n".join(output_lines[-2:])
            or f"the lab ended at its start, with exit code {daemon.returncode}"
        )
    daemon.returncode = 0  # it outlives this process, which does not wait for it


def _until_ready(output: Iterator[str]) -> Iterator[str]:
    for line in output:
        yield line.rstrip("\n")
        if line.strip() == READY:
            return


def main(lab_name: str, host_count: str, link: str, cpus: str) -> None:
    """Hold the lab."""
    folder = Folder(lab_name)
    try:
        with folder.held(), Lab.start(parse(int(host_count), link, cpus)) as lab:
            logins.prepare(folder.path, lab)
            for host in lab.hosts:
                logins.start(folder.path, lab, host.name)
            folder.publish(lab)
            # Blocked, so that `sigwait` takes them: a handler could raise in the middle of the
            # clean-up.
            signal.pthread_sigmask(signal.SIG_BLOCK, ENDS)
            _ready()
            signal.sigwait(ENDS)
    except (LabError, OSError) as error:
        sys.exit(str(error))


def _ready() -> None:
    """Print READY, and close the pipe to the process that started this one."""
    print(READY, flush=True)  # noqa: T201
    null_device = os.open(os.devnull, os.O_RDWR)
    for descriptor in (1, 2):
        os.dup2(null_device, descriptor)


if __name__ == "__main__":
    main(*sys.argv[1:])
