"""Starts ranks: each as a program of its own; or all through `training.preload`, which imports
torch once and forks them; or, where this process has imported torch, as forks of it."""

from __future__ import annotations

import os
import selectors
import signal
import socket
import threading
from collections.abc import Callable
from dataclasses import dataclass, field

from training.agent.host import processes
from training.agent.layout import ERRORS, expand_path
from training.agent.options import AgentOptions
from training.agent.ranks.before import BeforeCommand
from training.agent.ranks.launch import (
    PRELOAD,
    Preload,
    ProcessSpec,
    RankFunction,
    Spawner,
    rank_environment,
    script_environment,
    shared_variables,
)
from training.agent.ranks.pipes import CHUNK, LineDecoder, Pipe
from training.agent.ranks.ranks import RankProcesses
from training.place import ERROR_FILE, EVENTS_FD, LISTEN_FD, PROCESS, WATCH
from training.wire import commands
from training.wire.commands import Placement
from training.wire.events import Event
from training.wire.host_events import AGENT, Launched

_CANNOT_START = 127 << 8
"""The wait status of a program that could not be started, as in a shell."""
_FAILED = 1 << 8


@dataclass
class PreloadProcess:
    """The process that forks the ranks. It writes `pid RANK PID` and `exit RANK STATUS` to
    `report`; `pipes` are its output."""

    pid: int
    pipes: tuple[Pipe, ...]
    report: int
    lines: LineDecoder = field(default_factory=LineDecoder)


class RankStarter:
    """Starts the ranks of each attempt."""

    def __init__(
        self,
        options: AgentOptions,
        selector: selectors.BaseSelector,
        report_event: Callable[[Event], None],
        ranks: RankProcesses,
        preload: Preload,
    ) -> None:
        self._options = options
        self._selector = selector
        self._report_event = report_event
        self._ranks = ranks
        self._rank_source = preload
        self._spawner = Spawner()
        self._preload: PreloadProcess | None = None
        self.before = BeforeCommand(options, report_event, ranks, self._spawn)

    @property
    def preload(self) -> int:
        """Return the pid of the process that forks ranks; 0 if there is none."""
        return self._preload.pid if self._preload else 0

    def start(self, command: commands.StartAttempt, listener: socket.socket | None) -> None:
        """Start all placements. Rank 0 inherits the reserved socket `listener` under preload; else
        it is closed just before."""
        if self._preload:  # the attempt before is over, but its preload has not exited
            self._preload_ended(0)
        ranks = tuple(placement.rank for placement in command.placements)
        self._report_event(Launched(ranks, command.hosts, command.attempts))
        rank_function = self._rank_function() if command.preload else None
        if rank_function:
            for placement in command.placements:
                rank_env = rank_environment(self._options, *placement.env)
                self._start_alone(placement, rank_env, rank_function, listener)
        elif command.preload and command.placements:
            self._start_preload(command, listener)
        if listener:
            listener.close()
        if not command.preload:
            for placement in command.placements:
                self._start_alone(placement, script_environment(self._options, placement))

    def _rank_function(self) -> RankFunction | None:
        """Return what a fork of this process does to run a rank, if it can.

        No thread may run at a fork besides this one and the spawner's: what it has locked would
        stay locked in the fork.
        """
        is_alone = threading.active_count() <= 2
        return self._rank_source if is_alone and not isinstance(self._rank_source, tuple) else None

    def _start_alone(
        self,
        placement: Placement,
        rank_env: dict[str, str],
        rank_function: RankFunction | None = None,
        listener: socket.socket | None = None,
    ) -> None:
        rank, ends = self._ranks.open(placement.rank)
        error_path = dict(placement.env).get(ERROR_FILE)
        if error_path:
            os.makedirs(ERRORS, exist_ok=True)
            rank.error_file = error_path
        own_ends: list[int] = []
        if rank_env.get(WATCH) == "1":
            world_size = rank_env.get("WORLD_SIZE", "")
            process_count = int(world_size) if world_size.isdigit() else 1
            events_end = self._ranks.open_events(rank, process_count)
            own_ends.append(events_end)
            rank_env[EVENTS_FD] = str(events_end)
            rank_env[PROCESS] = f"{placement.rank}/{process_count}"
        inherited_descriptors = own_ends.copy()
        if listener and placement.rank == 0:  # it stays open here, for `start` to close
            inherited_descriptors.append(listener.fileno())
            rank_env[LISTEN_FD] = str(listener.fileno())
        spec = ProcessSpec(
            placement.argv,
            rank_env,
            expand_path(placement.cwd) if placement.cwd else self._options.cwd,
            *ends,
            inherited=inherited_descriptors,
            umask=self._options.umask,
            function=rank_function,
        )
        pid = self._spawn(spec, *own_ends)
        if pid:
            self._ranks.spawned(rank, pid)
        else:
            self._ranks.exited(rank, _CANNOT_START)

    def _start_preload(
        self, command: commands.StartAttempt, listener: socket.socket | None
    ) -> None:
        pipes, own_ends = self._ranks.open_pipes(AGENT)
        self._ranks.hear(pipes)
        rank_ends: list[int] = []
        numbered_ends: list[str] = []
        for placement in command.placements:
            _, (out_end, error_end) = self._ranks.open(placement.rank)
            rank_ends += (out_end, error_end)
            numbered_ends.append(f"{placement.rank}:{out_end}:{error_end}")
        report_reader, report_end = os.pipe()
        # Each rank inherits the write end, so after preload's exit a read might wait for the ranks.
        os.set_blocking(report_reader, False)
        self._selector.register(report_reader, selectors.EVENT_READ, self._read_report)
        preload_program = self._rank_source if isinstance(self._rank_source, tuple) else PRELOAD
        preload_argv = [
            *preload_program,
            "--report-fd",
            str(report_end),
            "--pipes",
            ",".join(numbered_ends),
        ]
        inherited_descriptors = [report_end, *rank_ends]
        if listener and any(placement.rank == 0 for placement in command.placements):
            preload_argv += ["--listen-fd", str(listener.fileno())]
            inherited_descriptors.append(listener.fileno())
        preload_env = rank_environment(self._options, *shared_variables(command.placements))
        command_file = _write_command_file(command)
        spec = ProcessSpec(
            preload_argv,
            preload_env,
            self._options.cwd,
            *own_ends,
            stdin=command_file,
            inherited=inherited_descriptors,
            umask=self._options.umask,
        )
        self._preload = PreloadProcess(0, pipes, report_reader)
        self._preload.pid = self._spawn(spec, command_file, report_end, *rank_ends)
        if not self._preload.pid:
            self._preload_ended(_CANNOT_START)

    def _spawn(self, spec: ProcessSpec, *other_ends: int) -> int:
        """Start a process and return its pid; 0 if it failed, and the reason is on its stderr.
        Close our copies of the ends."""
        try:
            return self._spawner.start(spec)
        except (OSError, ValueError) as error:
            reason = getattr(error, "strerror", None) or error
            error_line = f"cannot start {spec.argv[0]} in {spec.cwd}: {reason}\n"
            os.write(spec.stderr, error_line.encode(errors="replace"))
            return 0
        finally:
            for descriptor in (spec.stdout, spec.stderr, *other_ends):
                os.close(descriptor)

    def _read_report(self) -> None:
        """Read reports of preload."""
        assert self._preload
        block = os.read(self._preload.report, CHUNK)
        if not block:
            self._selector.unregister(self._preload.report)
        for line in (self._preload.lines.feed(block) or "").splitlines():
            verb, rank_number, value = line.split()
            rank = self._ranks.find(int(rank_number))
            if rank and verb == "pid":
                self._ranks.spawned(rank, int(value))
            elif rank:
                self._ranks.exited(rank, int(value))

    def reaped(self, pid: int, status: int) -> None:
        """Note that a child of the agent has exited: preload, a rank that was started as a program,
        or an orphan."""
        if self._preload and pid == self._preload.pid:
            self._preload_ended(status)
        else:
            self.before.reaped(pid, status)
            self._ranks.reaped(pid, status)

    def _preload_ended(self, wait_status: int) -> None:
        """Note that preload has exited.

        Ranks whose exit it did not report count as exited with it, because nobody else can wait for
        them.
        """
        assert self._preload
        while self._preload.report in self._selector.get_map():
            try:
                self._read_report()
            except BlockingIOError:  # a rank still has the write end open
                self._selector.unregister(self._preload.report)
        os.close(self._preload.report)
        self._ranks.finish(self._preload.pipes)
        self._preload = None
        if self._ranks.live:
            self._ranks.sweep()
        for rank in self._ranks.live:
            self._ranks.exited(rank, wait_status or _FAILED)

    def stop(self) -> None:
        """Send TERM to every rank, to preload if it has not forked all of them, and to the command
        that comes before them."""
        self.before.stop()
        self._ranks.stop()
        if self._preload and not all(rank.pid for rank in self._ranks.live):
            processes.send_group(self._preload.pid, signal.SIGTERM)


def _write_command_file(command: commands.StartAttempt) -> int:
    """Write the command's line to a file for preload: other than a pipe it takes a line of any
    length at once.

    It has no name any more: the environments in it may hold secrets, and end with whoever holds it
    open.
    """
    file_path = f"start-{command.attempt}"
    descriptor = os.open(file_path, os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    os.unlink(file_path)
    with open(descriptor, "wb", closefd=False) as file:
        file.write(commands.encode(command))
    os.lseek(descriptor, 0, os.SEEK_SET)
    return descriptor
