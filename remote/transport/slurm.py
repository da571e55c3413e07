"""Reach the nodes of a Slurm job by `srun`: one step per connection, beside those that run there.

Slurm kills what a step has started when the first process of the step ends. So that process stays
as long as the agent, and its `srun` with it: neither is killed when a channel is closed.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from msgspec import structs

from remote.cluster.hosts import Host
from remote.transport import Program, ReachProgress, TransportKind, Unreachable
from remote.transport.bootstrap.archive import PACKAGE, build_archive
from remote.transport.bootstrap.first import LEFT
from remote.transport.failure import Deadline, FailureCause, ReachError, explain_failure
from remote.transport.process_channel import BLOCK, LOOK, ProcessChannel, start_process, wait_ready
from remote.transport.program_start import ProgramStart
from remote.transport.start_dialog import last_line, quote_output
from training.wire.enums import Reach

CLOSING = 2.0
"""Seconds that a step has to end after its stdin is closed."""
OF_TASKS = re.compile(
    r"(?!SLURM_ARRAY_)(SLURM|SRUN)_\w*(TASK|NPROCS|PROCID|LOCALID|BIND|DISTRIBUTION)\w*"
)
"""Variables that are about the tasks of a job or of a step. srun would read them as options of the
new step, which has one task."""
OF_STEP = ("SLURM_PROCID", "SLURM_LOCALID", "SLURM_NODEID", "SLURM_NTASKS", "SLURM_NPROCS")
"""Variables with the place of a task in its step, from which some programs would take their
rank."""
EXITED = re.compile(r"srun: error: \S+: task 0: Exited with exit code \d+")
"""What srun says of a task that failed."""
REFUSED = re.compile(r"^srun: (?:error|fatal): (.*)", re.MULTILINE)
"""What it says if it starts none."""
OVER = re.compile(r"^srun: .*(?:Invalid job id|invalid job|already completing)", re.MULTILINE)
"""What it says of a job that is over."""

_staying: list[subprocess.Popen[bytes]] = []
"""Each srun whose channel is closed while the agent of its step still runs."""


class SlurmTransport:
    """Reaches agents on the nodes of a Slurm job."""

    def __init__(self, package: Path = PACKAGE) -> None:
        """`package`: the folder of the package `training` that the nodes get."""
        self._package = package

    def open(self, host: Host, program: Program, progress: ReachProgress) -> SlurmChannel:
        """Start a step on the node, send the code if it lacks it, and return the channel once the
        agent's marker has come. Raises: Unreachable."""
        progress.phase(Reach.CONNECTING)
        deadline = Deadline(host.timeout)
        stays = program.argv()[0] in ("follow", "serve")
        channel = None

        def execute(command: str) -> SlurmChannel:
            nonlocal channel
            channel = SlurmChannel(_srun(host, command), _job(host), stays=stays)
            return channel

        try:
            program_start = ProgramStart(host, deadline, progress)
            return program_start.run(program, build_archive(self._package), execute, stays=stays)
        except (ReachError, EOFError, OSError) as error:
            stderr = channel.give_up() if channel else ""
            failure = explain_failure(error, deadline, host)
            if failure.cause is FailureCause.TIMEOUT and stderr:
                failure = structs.replace(failure, advice=last_line(stderr))
            raise Unreachable(host.name, failure) from error


def _srun(host: Host, command: str) -> subprocess.Popen[bytes]:
    """Have the node run a command in a step of its own. Raises: ReachError."""
    unset_options = (word for name in OF_STEP for word in ("-u", name))
    shell_command = f"cd; exec env {' '.join(unset_options)} {command}"
    srun_argv = [
        *_srun_words(host),
        "--unbuffered",
        "--cpu-bind=none",
        "--chdir=/",
        "sh",
        "-c",
        shell_command,
    ]
    # An srun that nobody waits for would stay a zombie.
    _staying[:] = [process for process in _staying if process.poll() is None]
    try:
        return start_process(srun_argv, environment(os.environ))
    except FileNotFoundError:
        failure_text = "it is a node of a Slurm job, but this machine has no srun"
        advice = "start rankboard where Slurm is installed, such as on the cluster's login node"
        raise ReachError(FailureCause.SETTINGS, failure_text, advice) from None


def _job(host: Host) -> str:
    """Return the number of the job. Raises: ReachError."""
    job_number = str(host.slurm_job or os.environ.get("SLURM_JOB_ID", ""))
    if not job_number:
        failure_text = "it is a node of a Slurm job, but this is not a job"
        advice = (
            f"start rankboard within salloc or sbatch, or set slurm_job for it in {host.hosts_file}"
        )
        raise ReachError(FailureCause.SETTINGS, failure_text, advice)
    return job_number


def _srun_words(host: Host) -> list[str]:
    return ["srun", "--jobid", _job(host), "--overlap", "-N1", "-n1", "-w", host.name]


def environment(variables: Mapping[str, str]) -> dict[str, str]:
    """Return the variables with which a step is started, without those of other tasks."""
    return {
        variable_name: value
        for variable_name, value in variables.items()
        if not OF_TASKS.fullmatch(variable_name)
    }


def _by_hand(host: Host, words: Sequence[str]) -> str:
    """Return the command that runs these words on the node as `SlurmTransport` does."""
    return shlex.join([*_srun_words(host), *words])


TRANSPORT = TransportKind(
    make=lambda _: SlurmTransport(), shares_environment=True, reached="srun ok", by_hand=_by_hand
)


class SlurmChannel(ProcessChannel):
    """The pipes of one srun. `stays`: the step may go on once the program has ended."""

    def __init__(self, process: subprocess.Popen[bytes], job: str, *, stays: bool) -> None:
        super().__init__(process)
        self._job = job
        self._stays = stays
        self._has_left = False

    def begin(self, first_bytes: bytes) -> None:
        """Note that the program speaks, with these bytes first."""
        super().begin(self._without_sign(first_bytes))

    def ended(self) -> tuple[int, str]:
        """Return the exit status and the end of stderr, once the output has ended.

        Raises: ReachError, if srun has started no step.
        """
        status, stderr = super().ended()
        if OVER.search(stderr):
            failure_text = f"Slurm job {self._job} is over, and with it all that ran there"
            raise ReachError(FailureCause.GONE, failure_text)
        refusal = REFUSED.search(stderr)
        if refusal:
            failure_text = f"Slurm starts nothing there: {quote_output(refusal[1])}"
            raise ReachError(
                FailureCause.REFUSED, failure_text, "is the job over? squeue lists yours"
            )
        return status, stderr

    def give_up(self) -> str:
        """End the step of a program that does not speak. Return the end of stderr."""
        self._kill()
        return self.close()

    def read(self) -> bytes:
        """Return some bytes of the journal; b"" once the program has ended or the channel was
        closed."""
        if self._has_left:
            return b""
        data = self._rest
        self._rest = b""
        return data or self._without_sign(self._next(None))

    def _without_sign(self, data: bytes) -> bytes:
        """Return what the program said, without the sign that it has left something behind."""
        if self._stays and data.endswith(LEFT):
            self._has_left = True
            return data.removesuffix(LEFT)
        return data

    def _last_words(self) -> str:
        return EXITED.sub("", super()._last_words()).strip()

    def _leave(self) -> None:
        """Wait for the end of the program. The step is killed unless something may go on there."""
        deadline = time.monotonic() + CLOSING
        os.write(self._wake, b"x")  # so that a read of another thread ends
        output_descriptor = self._out.fileno()
        with self._reading:
            while not self._has_left:
                seconds_left = max(0.0, deadline - time.monotonic())
                if not wait_ready([output_descriptor], seconds_left):
                    break
                if not self._without_sign(os.read(output_descriptor, BLOCK)):
                    break
        if not self._has_left:
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(max(LOOK, deadline - time.monotonic()))
        if not self._stays:
            self._kill()
        if self._process.poll() is None:
            _staying.append(self._process)
