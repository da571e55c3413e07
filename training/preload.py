"""`python -m training.preload`: imports torch once and forks all ranks that a host runs.

    --report-fd N  --pipes RANK:OUT:ERR,…  [--listen-fd N]

It reads one `Start` from stdin, after the imports, and forks a rank per placement into a process
group of its own, with the placement's environment and the rank's pipes. On the report descriptor it
says `pid RANK PID` and `exit RANK STATUS` (as `waitpid` gives it), each on a line, and it ends when
all ranks have. When it dies, they die.

Before the fork nothing may touch CUDA, run an operator or start a thread: forked processes could
not use them.
"""

from __future__ import annotations

import argparse
import ctypes
import gc
import os
import signal
import sys
import traceback
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import NoReturn

from training.agent.host import stacks
from training.agent.ranks.processes import name
from training.place import FOLDER, LISTEN_FD
from training.wire.commands import Placement, Start, decode

PR_SET_PDEATHSIG = 1
DEFAULT = (
    signal.SIGTERM,
    signal.SIGINT,
    signal.SIGHUP,
    signal.SIGQUIT,
    signal.SIGCHLD,
    signal.SIGUSR1,
    signal.SIGUSR2,
)
"""The signals whose dispositions a rank does not inherit."""


@dataclass(frozen=True)
class Descriptors:
    """What the agent handed over: where to report, each rank's (stdout, stderr), and rank 0's
    listening socket or -1."""

    report: int
    pipes: dict[int, tuple[int, int]]
    listen: int

    @classmethod
    def parse(cls, argv: Sequence[str]) -> Descriptors:
        """The descriptors of the command line."""
        parser = argparse.ArgumentParser("python -m training.preload")
        parser.add_argument("--report-fd", type=int, required=True)
        parser.add_argument("--pipes", required=True)
        parser.add_argument("--listen-fd", type=int, default=-1)
        given = parser.parse_args(argv)
        triples = (map(int, triple.split(":")) for triple in given.pipes.split(","))
        return cls(
            given.report_fd, {rank: (out, err) for rank, out, err in triples}, given.listen_fd
        )


def main(argv: Sequence[str]) -> int:
    """Runs the ranks of one start: 0 when all have ended, however they did; 1 where there was
    nothing to start."""
    die_with(
        os.getppid()
    )  # the agent has a guard for that; where both are killed at once, it is the kernel
    fds = Descriptors.parse(argv)
    if folder := os.environ.get(FOLDER):
        stacks.register(folder)  # of the imports; each rank does so anew for itself
    load()
    line = sys.stdin.buffer.readline()
    start = decode(line)
    if not isinstance(start, Start):
        if line:
            sys.stderr.write(
                f"python -m training.preload: error: not a start: a line of {len(line)} bytes\n"
            )
        return 1
    ranks = {fork(placement, fds): placement.rank for placement in start.placements}
    for descriptor in {fds.listen, *(end for ends in fds.pipes.values() for end in ends)} - {-1}:
        os.close(descriptor)
    while ranks:
        pid, status = os.wait()
        report(fds, f"exit {ranks.pop(pid)} {status}")
    return 0


def load() -> None:
    """Imports what ranks need. The collector would go through half a million new objects again and
    again; none is garbage."""
    gc.disable()
    os.environ.setdefault(
        "OPENBLAS_NUM_THREADS", "1"
    )  # numpy, which torch imports, would start threads
    import torch._dynamo  # noqa: F401 - DistributedDataParallel and the optimisers import it when they are made

    import training.__main__  # noqa: F401

    gc.freeze()
    gc.enable()


def fork(placement: Placement, fds: Descriptors) -> int:
    """Starts a rank and reports it: its process id."""
    parent = os.getpid()
    pid = os.fork()
    if pid == 0:
        become(placement, fds, parent)
    with suppress(OSError):  # it was first, and perhaps is already gone
        os.setpgid(pid, pid)
    report(fds, f"pid {placement.rank} {pid}")
    return pid


def become(placement: Placement, fds: Descriptors, parent: int) -> NoReturn:
    """Turns the forked process into the rank."""
    try:
        os.setpgid(0, 0)
        die_with(parent)
        name(f"rank {placement.rank}")
        for number in DEFAULT:
            signal.signal(number, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_SETMASK, ())
        listen = fds.listen if placement.rank == 0 else -1
        redirect(*fds.pipes[placement.rank], keep=listen)
        os.environ.update(placement.env)
        if listen >= 0:
            os.environ[LISTEN_FD] = str(listen)
        from training.__main__ import end

        end(placement.argv)
    finally:
        traceback.print_exc()
        os._exit(1)


def die_with(parent: int) -> None:
    """Lets the kernel kill this process when its parent dies, or ends it where it has already
    died."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(1)


def redirect(out: int, err: int, keep: int) -> None:
    """Nothing on stdin, the pipes on stdout and stderr, and every other descriptor closed but
    `keep`."""
    nothing = os.open(os.devnull, os.O_RDONLY)
    for number, descriptor in enumerate((nothing, out, err)):
        os.dup2(descriptor, number)
    for descriptor in map(int, os.listdir("/dev/fd")):
        if descriptor > 2 and descriptor != keep:
            with suppress(OSError):  # the listing's own is closed by now
                os.close(descriptor)


def report(fds: Descriptors, line: str) -> None:
    """Tells the agent."""
    os.write(fds.report, f"{line}\n".encode())


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
