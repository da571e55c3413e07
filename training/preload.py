"""`python -m training.preload`: imports torch once and forks all ranks that a host runs.

    --report-fd N  --pipes RANK:OUT:ERR,…  [--listen-fd N]

After the imports it reads one `StartAttempt` from stdin and forks a rank per placement, each in a
process group of its own, with the placement's environment and the rank's pipes. It writes lines
`pid RANK PID` and `exit RANK STATUS` (as of `waitpid`) to the report descriptor, and ends when all
ranks have ended. When it dies, they die.

This process itself may not use CUDA, run an operator or start a thread, in `main` or at an import:
these do not survive a fork. The ranks may, from `training.__main__.main` on.
"""

from __future__ import annotations

import argparse
import gc
import os
import sys
import traceback
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import NoReturn

from training.agent.host import stacks
from training.agent.host.processes import die_with, redirect_output, set_process_name
from training.agent.ranks.fork import handle_by_default
from training.place import FOLDER, LISTEN_FD
from training.wire.commands import Placement, StartAttempt, decode


@dataclass(frozen=True)
class PreloadDescriptors:
    """The descriptors from the agent: the report, each rank's (stdout, stderr), and the listening
    socket of rank 0, or -1."""

    report: int
    pipes: dict[int, tuple[int, int]]
    listen: int

    @classmethod
    def parse(cls, argv: Sequence[str]) -> PreloadDescriptors:
        """Parse the command line."""
        parser = argparse.ArgumentParser("python -m training.preload")
        parser.add_argument("--report-fd", type=int, required=True)
        parser.add_argument("--pipes", required=True)
        parser.add_argument("--listen-fd", type=int, default=-1)
        options = parser.parse_args(argv)
        pipe_triples = (map(int, triple.split(":")) for triple in options.pipes.split(","))
        return cls(
            options.report_fd,
            {rank: (out, err) for rank, out, err in pipe_triples},
            options.listen_fd,
        )


def main(argv: Sequence[str]) -> int:
    """Run the ranks of one start. Return 0 when all have ended, whatever their exit codes; 1 if
    there is nothing to start."""
    die_with(os.getppid())  # where agent and guard are killed together
    descriptors = PreloadDescriptors.parse(argv)
    run_folder = os.environ.get(FOLDER)
    if run_folder:
        stacks.register(run_folder)  # for the imports; each rank registers itself again
    import_torch()
    command_line = sys.stdin.buffer.readline()
    start_command = decode(command_line)
    if not isinstance(start_command, StartAttempt):
        if command_line:
            problem = f"not a start: a line of {len(command_line)} bytes"
            sys.stderr.write(f"python -m training.preload: error: {problem}\n")
        return 1
    rank_by_pid = {
        fork_rank(placement, descriptors): placement.rank for placement in start_command.placements
    }
    # A write end that stays open here would keep the agent from seeing the end of its rank.
    pipe_ends = {end for ends in descriptors.pipes.values() for end in ends}
    for descriptor in {descriptors.listen, *pipe_ends} - {-1}:
        os.close(descriptor)
    while rank_by_pid:
        pid, status = os.wait()
        report_to_agent(descriptors, f"exit {rank_by_pid.pop(pid)} {status}")
    return 0


def import_torch() -> None:
    """Import what ranks need.

    The garbage collector is off meanwhile: the imports make half a million objects, none of which
    is garbage.
    """
    gc.disable()
    # torch imports numpy, which would start threads.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    import torch._dynamo  # noqa: F401 - DistributedDataParallel and the optimisers import it when they are made

    import training.__main__  # noqa: F401

    # Frozen objects are not visited, so ranks go on sharing the memory they lie in.
    gc.freeze()
    gc.enable()


def fork_rank(placement: Placement, own_descriptors: PreloadDescriptors) -> int:
    """Start a rank and report it. Return its pid."""
    parent_pid = os.getpid()
    pid = os.fork()
    if pid == 0:
        become_rank(placement, own_descriptors, parent_pid)
    with suppress(OSError):  # the rank has already done it, and may have ended
        os.setpgid(pid, pid)
    report_to_agent(own_descriptors, f"pid {placement.rank} {pid}")
    return pid


def become_rank(
    placement: Placement, own_descriptors: PreloadDescriptors, parent_pid: int
) -> NoReturn:
    """Turn the forked process into the rank."""
    try:
        os.setpgid(0, 0)
        die_with(parent_pid)
        set_process_name(f"rank {placement.rank}")
        handle_by_default()
        listen_fd = own_descriptors.listen if placement.rank == 0 else -1
        redirect_output(*own_descriptors.pipes[placement.rank], [listen_fd])
        os.environ.update(placement.env)
        if listen_fd >= 0:
            os.environ[LISTEN_FD] = str(listen_fd)
        from training.__main__ import end

        end(placement.argv)
    finally:
        traceback.print_exc()
        os._exit(1)


def report_to_agent(own_descriptors: PreloadDescriptors, line: str) -> None:
    """Send a line to the agent."""
    os.write(own_descriptors.report, f"{line}\n".encode())


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
