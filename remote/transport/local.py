"""Start a host's agent as a process of this machine: the transport of `--local N`. It deploys
nothing."""

from __future__ import annotations

import os
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

from remote.cluster.hosts import Host
from remote.transport import Enter, Program, ReachProgress, TransportKind, Unreachable
from remote.transport.bootstrap.archive import PACKAGE
from remote.transport.failure import Failure, FailureCause
from remote.transport.process_channel import ProcessChannel, start_process
from remote.transport.start_dialog import (
    AgentReady,
    ShellNoise,
    StartDialog,
    StartFailed,
    last_line,
    quote_output,
)
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
        self._spawner.submit(threading.get_native_id).result()

    def open(self, host: Host, program: Program, progress: ReachProgress) -> LocalChannel:
        """Start a follower here, and return the channel to it once its marker has come. Raises:
        Unreachable."""
        progress.phase(Reach.STARTING)
        python = host.python or sys.executable
        argv = [
            *self._enter(host.name),
            os.path.expanduser(python),
            "-c",
            START.format(code=self._code),
            *program.argv(),
        ]
        try:
            channel = LocalChannel(self._spawner.submit(start_process, argv).result())
        except OSError as error:
            what = f"cannot start {python}: {error.strerror}"
            advice = "set python to one that works"
            raise Unreachable(host.name, Failure(FailureCause.PYTHON, what, advice)) from error
        failure = channel.await_agent(host.timeout, progress)
        if not failure:
            return channel
        stderr = channel.close()
        if failure.cause in ADVICE:
            failure = replace(failure, advice=ADVICE[failure.cause])
        else:
            reason = quote_output(last_line(stderr)) or "no reason given"
            failure = replace(failure, what=f"its agent {failure.what}: {reason}")
        raise Unreachable(host.name, failure)


TRANSPORT = TransportKind(
    make=lambda enter: LocalTransport(enter=enter), is_here=True, shares_environment=True
)


class LocalChannel(ProcessChannel):
    """The pipes of the process that is the program."""

    def await_agent(self, timeout: float, progress: ReachProgress) -> Failure | None:
        """Read up to the agent's marker. Return None, or why it did not come within `timeout`
        seconds."""
        deadline = time.monotonic() + timeout
        dialog = StartDialog()
        while data := self._next(deadline):
            for step in dialog.feed(data):
                match step:
                    case ShellNoise(text):
                        progress.said(text)
                    case StartFailed(failure) if failure.cause in ADVICE:
                        return failure
                    case StartFailed(failure):
                        return replace(failure, what=f"was not started: {failure.what}")
                    case AgentReady(rest):
                        self._rest = rest
                        return None
        if time.monotonic() < deadline:
            return Failure(FailureCause.AGENT, "ended at its start")
        return Failure(FailureCause.TIMEOUT, f"said nothing for {timeout:g} s")
