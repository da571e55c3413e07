"""Start a host's agent as a process of this machine: the transport of `--local N`. It deploys
nothing."""

from __future__ import annotations

import os
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from msgspec import structs

from remote.cluster.hosts import Host
from remote.transport import Enter, Program, ReachProgress, TransportKind, Unreachable
from remote.transport.bootstrap.archive import PACKAGE
from remote.transport.failure import Deadline, Failure, FailureCause, ReachError
from remote.transport.process_channel import ProcessChannel, start_process
from remote.transport.program_start import ProgramStart
from remote.transport.start_dialog import last_line, quote_output
from training.wire.enums import Reach

START = (
    "import sys; sys.path[:] = [{code!r}] + [path for path in sys.path if path]; "
    "from training.agent.__main__ import main; sys.exit(main(sys.argv[1:]))"
)

ADVICE = {
    FailureCause.NO_ROOM: "make room there, or choose a folder on a larger disk with --runs-dir",
    FailureCause.WORKDIR: "make it accessible, or choose another folder with --runs-dir",
}
"""What to do if the folder of the runs cannot be used, which no hosts file names."""


class LocalTransport:
    """Reaches agents on this machine.

    On Linux, a new process has the niceness of the thread that forks it, and only root can lower
    it. So one thread, started here, forks all agents: ranks keep the niceness that the launcher has
    now, even if the launcher raises its own later.
    """

    def __init__(self, package: Path = PACKAGE, enter: Enter = lambda _: ()) -> None:
        """`package`: the folder of the package `training` that the agents run. `enter`: see
        `Enter`."""
        self._code = str(package.parent)
        self._enter = enter
        self._spawner = ThreadPoolExecutor(1, thread_name_prefix="spawner")
        # The pool makes its thread only for the first task; this one makes it now.
        self._spawner.submit(threading.get_native_id).result()

    def open(self, host: Host, program: Program, progress: ReachProgress) -> ProcessChannel:
        """Start a follower here, and return the channel to it once its marker has come. Raises:
        Unreachable."""
        progress.phase(Reach.STARTING)
        python_path = host.python or sys.executable
        agent_argv = [
            *self._enter(host.name),
            os.path.expanduser(python_path),
            "-c",
            START.format(code=self._code),
            *program.argv(),
        ]
        try:
            channel = ProcessChannel(self._spawner.submit(start_process, agent_argv).result())
        except OSError as error:
            failure_text = f"cannot start {python_path}: {error.strerror}"
            advice = "set python to one that works"
            raise Unreachable(
                host.name, Failure(FailureCause.PYTHON, failure_text, advice)
            ) from error
        try:
            return ProgramStart(host, Deadline(host.timeout), progress).await_program(channel)
        except ReachError as error:
            failure = error.failure
        except TimeoutError:
            failure = Failure(
                FailureCause.TIMEOUT, f"its agent said nothing for {host.timeout:g} s"
            )
        stderr = channel.close()
        if failure.cause in ADVICE:
            failure = structs.replace(failure, advice=ADVICE[failure.cause])
        elif failure.cause is FailureCause.TIMEOUT:
            failure = structs.replace(failure, advice=quote_output(last_line(stderr)))
        raise Unreachable(host.name, failure)


TRANSPORT = TransportKind(
    make=lambda enter: LocalTransport(enter=enter), is_here=True, shares_environment=True
)
