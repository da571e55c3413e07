"""The user's command that comes before the ranks, such as `mkdir -p output`: once on each host."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable

from training.agent.host import processes
from training.agent.options import AgentOptions
from training.agent.ranks.launch import ProcessSpec, script_environment
from training.agent.ranks.pipes import Pipe
from training.agent.ranks.ranks import RankProcesses
from training.wire.commands import Placement
from training.wire.events import Event
from training.wire.host_events import AGENT, BeforeEnded, BeforeStarted

_CANNOT_START = 127


class BeforeCommand:
    """Runs the command. What it prints is output of the agent."""

    def __init__(
        self,
        options: AgentOptions,
        report_event: Callable[[Event], None],
        ranks: RankProcesses,
        spawn: Callable[[ProcessSpec], int],
    ) -> None:
        """`spawn` starts a process, and returns its pid, or 0 if it failed."""
        self._options = options
        self._report_event = report_event
        self._ranks = ranks
        self._spawn = spawn
        self._began_at = 0.0
        self._pid = 0
        self._is_stopped = False
        self._pipes: tuple[Pipe, ...] = ()

    def start(self, placement: Placement) -> None:
        """Start the command, unless it was started before: the order comes again over a new
        connection."""
        if self._began_at:
            return
        self._began_at = time.monotonic()
        self._report_event(BeforeStarted())
        self._pipes, pipe_ends = self._ranks.open_pipes(AGENT)
        self._ranks.hear(self._pipes)
        environment = script_environment(self._options, placement)
        spec = ProcessSpec(
            placement.argv, environment, self._options.cwd, *pipe_ends, umask=self._options.umask
        )
        self._pid = self._spawn(spec)
        if not self._pid:
            self._end(_CANNOT_START)

    def reaped(self, pid: int, wait_status: int) -> None:
        """Note that a child of the agent has exited, perhaps the command."""
        if self._pid and pid == self._pid:
            self._end(os.waitstatus_to_exitcode(wait_status))

    def stop(self) -> None:
        """Send TERM to the command and to what it has started."""
        if self._pid:
            self._is_stopped = True
            processes.send_group(self._pid, signal.SIGTERM)

    def _end(self, exit_code: int) -> None:
        self._pid = 0
        # What it printed comes before its end, in the journal too.
        self._ranks.finish(self._pipes)
        seconds = time.monotonic() - self._began_at
        self._report_event(BeforeEnded(exit_code, seconds, stopped=self._is_stopped))
