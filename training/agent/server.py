"""The agent's loop: one thread that reads ranks and followers, carries out what `decide` returns,
takes samples, and writes everything to the journal."""

from __future__ import annotations

import math
import os
import re
import selectors
import signal
import socket
import time
from collections import deque
from contextlib import suppress
from dataclasses import replace

from training.agent import decide, layout
from training.agent.connections import FollowerConnections
from training.agent.file_tail.files import FileFollower
from training.agent.host import facts, ports, processes
from training.agent.host.dial import Dialler
from training.agent.host.gpus import GpuSampler
from training.agent.host.redaction import Redaction
from training.agent.host.samples import sampler
from training.agent.host.stacks import StackCollector, StackSubject
from training.agent.journal import Journal
from training.agent.options import AgentOptions
from training.agent.ranks.launch import CODE, Preload
from training.agent.ranks.pipes import CHUNK
from training.agent.ranks.ranks import RankProcesses
from training.agent.ranks.starts import RankStarter
from training.agent.times import AgentTimes
from training.agent.written_files import WrittenFiles, find_written
from training.wire import commands
from training.wire.events import Event
from training.wire.host_events import (
    AGENT,
    AgentEnded,
    BeforeEnded,
    BeforeStarted,
    Connected,
    Exited,
    Hello,
    Launched,
    OutputText,
    Reserved,
)
from training.wire.step_block import StepBlock
from training.writing import write_whole

NICE = 10
LEFT = 0.5
"""Seconds in which what the programs of ranks have started may end after them."""
NAMED = 3
"""How many processes are named that programs left behind."""
_PLAIN_NAME = re.compile(r"[A-Za-z0-9][\w.-]{0,99}", re.ASCII)
_OWN_NAMES = re.compile(
    rf"{layout.LOCK}|{layout.RESERVE}|{layout.CHECKPOINTS}|start-.*|agent\..*|.*\.(?:journal|part)",
    re.IGNORECASE,
)


class AgentServer:
    """Owns the pipes, sockets and processes of a run on this host. When to start, stop and kill
    ranks, and when to end, is decided in `decide`. The working directory is the run's folder."""

    def __init__(
        self,
        options: AgentOptions,
        listener: socket.socket,
        times: AgentTimes,
        preload: Preload,
        guard_pid: int,
    ) -> None:
        self._options = options
        self._times = times
        self._guard_pid = guard_pid
        self._selector = selector = selectors.DefaultSelector()
        self._journal = Journal(".", options.host)
        hello = facts.hello(options.folder, options.route_to, options.needs)
        self._pending_events: list[Event] = [Hello(**hello)]
        self._redaction = Redaction()
        self._ranks = RankProcesses(selector, self._report_event, times.gather, self._redaction)
        self._rank_starter = RankStarter(
            options, selector, self._report_event, self._ranks, preload
        )
        self._file_follower = FileFollower(self._redaction)
        self._dialler = Dialler(selector, lambda *result: self._report_event(Connected(*result)))
        self._sampler = sampler()
        self._gpus = GpuSampler(selector, self._complain)
        self._stacks = StackCollector(selector, self._report_event, options.folder)
        self._connections = FollowerConnections(
            selector, listener, self._take_input, self._obey_line
        )
        self._reserved_socket: socket.socket | None = None
        self._reserve_command: commands.Reserve | None = None
        self._attempt = 0
        self._run_began_at = math.inf  # by the monotonic clock; infinite: not known
        self._runs_programs = False
        self._writes_since = 0.0
        self._is_over = False
        now = time.monotonic()
        self._agent_state = decide.AgentState(options.keep, alone_since=now, heard_at=now)
        self._pending_inputs: deque[decide.Input] = deque()
        self._tick_at = now + times.tick

    def run(self) -> None:
        """Run until `decide` returns `Finish`. Raises: OSError, if the journal is unwritable."""
        processes.lower_priority(NICE)
        self._listen_to_signals()
        keep_file(layout.CODE, CODE)
        while not self._is_over:
            self._write_pending()
            for key, _ in self._selector.select(self._timeout()):
                # An earlier one of this turn may have ended this one.
                if self._selector.get_map().get(key.fd) is key:
                    key.data()
            self._look_at_clock(time.monotonic())
        self._write_pending()
        self._journal.close()

    # Deciding

    def _take_input(self, incoming: decide.Input) -> None:
        """Pass an input to `decide` and carry out the actions. Inputs that arise in between come
        next."""
        self._pending_inputs.append(incoming)
        if len(self._pending_inputs) > 1:
            return
        while self._pending_inputs:
            now = time.monotonic()
            for action in decide.decide(
                self._agent_state, self._times, now, self._pending_inputs[0]
            ):
                self._carry_out(action)
            self._pending_inputs.popleft()

    def _carry_out(self, action: decide.Action) -> None:
        match action:
            case decide.Write(event):
                self._pending_events.append(event)
            case decide.StartRanks(command):
                self._start_attempt(command)
            case decide.TerminateRanks():
                self._rank_starter.stop()
            case decide.KillRanks():
                self._gpus.end()
                self._look_for_leftovers()
                self._ranks.sweep()
            case decide.Finish(end):
                self._finish_run(end)

    def _report_event(self, event: Event) -> None:
        match event:
            case Launched():
                self._pending_events.append(replace(event, age=self._run_age))
            case BeforeStarted() | BeforeEnded():
                self._pending_events.append(event)
                self._take_input(event)
            case Exited():
                if not self._ranks.live:
                    self._pending_events += self._file_follower.end()
                self._pending_events.append(event)
                self._take_input(event)
            case _:
                self._pending_events.append(event)

    def _complain(self, text: str) -> None:
        self._pending_events.append(OutputText(AGENT, "stderr", text))

    def _start_attempt(self, command: commands.StartAttempt) -> None:
        self._write_pending()  # the events of the attempt before
        self._attempt = command.attempt
        if command.tell_written and not self._writes_since:  # since the first attempt
            self._writes_since = time.time()
        self._runs_programs = not command.preload
        self._redaction.learn(command.placements)
        self._gpus.place(command.placements)
        if command.placements:
            first_placement = min(command.placements, key=lambda placement: placement.local_rank)
            self._file_follower.start(command.follow, self._options.cwd, first_placement.rank)
        self._rank_starter.start(command, self._reserved_socket)
        self._reserved_socket = None

    def _look_for_leftovers(self) -> None:
        """Report what programs that have all ended well have left running."""
        if self._runs_programs and not (self._ranks.live or self._agent_state.incomplete):
            process_names = processes.leftovers(LEFT)
            if process_names:
                self._complain(describe_leftovers(process_names))

    def _finish_run(self, agent_end: AgentEnded) -> None:
        surviving_pids = processes.end_descendants(self._times.last)
        written_files = WrittenFiles()
        if self._writes_since:
            folder = self._options.folder
            own_folders = (folder, layout.workdir_of(folder))
            written_files = find_written(self._options.cwd, self._writes_since, own_folders)
        agent_end = replace(
            agent_end,
            left=tuple(surviving_pids),
            age=self._run_age,
            written=tuple(written_files.paths),
            written_count=written_files.count,
            written_cut=written_files.is_cut,
        )
        self._pending_events.append(agent_end)
        self._is_over = True

    @property
    def _run_age(self) -> float:
        """Return the seconds since the run began; 0 if that is not known."""
        return max(0.0, time.monotonic() - self._run_began_at)

    # Signals

    def _listen_to_signals(self) -> None:
        self._signal_reader, wakeup_descriptor = os.pipe()
        # `set_wakeup_fd` takes only a descriptor that does not block.
        os.set_blocking(wakeup_descriptor, False)
        signal.set_wakeup_fd(wakeup_descriptor, warn_on_full_buffer=False)
        for signal_number in (signal.SIGCHLD, signal.SIGTERM, signal.SIGHUP):
            # A handler, as ranks would inherit that a signal is ignored.
            signal.signal(signal_number, lambda *_: None)
        self._selector.register(self._signal_reader, selectors.EVENT_READ, self._on_signals)

    def _on_signals(self) -> None:
        signal_numbers = os.read(self._signal_reader, CHUNK)
        if signal.SIGTERM in signal_numbers:
            # The kernel also sends SIGTERM when the guard dies: then that is the reason to report.
            self._look_for_guard()
            self._take_input(decide.Terminated())
        with suppress(ChildProcessError):
            while True:
                pid, status = os.waitpid(-1, os.WNOHANG)
                if not pid:
                    break
                self._rank_starter.reaped(pid, status)

    def _look_for_guard(self) -> None:
        if os.getppid() != self._guard_pid:
            self._take_input(decide.GuardGone())

    # Commands

    def _obey_line(self, line: bytes) -> None:
        command = commands.decode(line)
        self._take_input(decide.LineReceived(command, len(line)))
        match command:
            case commands.Reserve():
                self._reserve_port(command)
            case commands.RunBefore(placement) if not self._agent_state.end:
                self._redaction.learn((placement,))
                self._rank_starter.before.start(placement)
            case commands.Connect(targets, seconds):
                self._dialler.dial(targets, seconds)
            case commands.Stacks():
                preload_pid = self._rank_starter.preload
                subjects: list[StackSubject] = []
                for rank in self._ranks.live:
                    subjects += rank.list_subjects(preload_pid)
                self._stacks.ask(subjects)
            case commands.Keep(name, text, age):
                if age and self._run_began_at == math.inf:  # else an earlier launcher has set it
                    self._run_began_at = time.monotonic() - age
                problem = keep_file(name, text)
                if problem:
                    self._complain(problem)

    def _reserve_port(self, command: commands.Reserve) -> None:
        """Reserve a port. The same command comes once more over a new connection."""
        if self._reserved_socket and command != self._reserve_command:
            self._reserved_socket.close()
            self._reserved_socket = None
        self._reserve_command = command
        port = 0
        error = ""
        try:
            self._reserved_socket = self._reserved_socket or ports.reserve_port(
                command.address, command.port
            )
            port = self._reserved_socket.getsockname()[1]
        except ports.PortError as problem:
            error = str(problem)
        self._report_event(Reserved(command.address, port, error))

    # Time

    def _timeout(self) -> float:
        now = time.monotonic()
        next_deadline = min(
            self._tick_at,
            self._ranks.listen_at,
            self._dialler.due,
            decide.next_deadline(self._agent_state, self._times, now),
        )
        return max(0.0, next_deadline - now)

    def _look_at_clock(self, now: float) -> None:
        if now >= self._ranks.listen_at:
            self._ranks.listen()
        self._dialler.expire(now)
        if now >= self._tick_at:
            # Ticks that were missed, as while the machine slept, are not made up for.
            self._tick_at = max(self._tick_at + self._times.tick, now)
            self._take_samples()
        self._take_input(decide.TimePassed())

    def _take_samples(self) -> None:
        self._ranks.out_of_memory.tick()
        self._ranks.look_at_workers()
        self._look_for_guard()
        running_ranks = [rank for rank in self._ranks.live if rank.pid]
        if self._sampler:
            self._pending_events.append(self._sampler.host())
            for rank in running_ranks:
                self._pending_events += rank.sample(self._sampler)
        self._pending_events += self._file_follower.news()
        self._pending_events += self._gpus.sample([rank.number for rank in running_ranks])

    # The journal

    def _write_pending(self) -> None:
        if self._journal.full:
            self._take_input(decide.JournalFull())
            # The reserve is for what explains the end of the run, not for output.
            self._pending_events = [
                event
                for event in self._pending_events
                if not isinstance(event, (OutputText, StepBlock))
            ]
        if self._pending_events:
            self._journal.write(self._attempt, self._redaction.clean(self._pending_events))
            self._pending_events = []
            self._connections.wake()


def keep_file(name: str, text: str) -> str:
    """Write a small file of a launcher to the working directory, whole or not at all, for its owner
    only. Return "", or why that failed."""
    if not _PLAIN_NAME.fullmatch(name) or _OWN_NAMES.fullmatch(name):
        return f"{name[:100]!r} is not kept: give a plain file name that is none of the agent's own"
    try:
        write_whole(name, text.encode("utf-8", "backslashreplace"))
    except OSError as error:
        return f"{name} is not kept: {error.strerror}"
    return ""


def describe_leftovers(process_names: list[str]) -> str:
    """Say which processes programs have left behind."""
    listed_names = ", ".join(process_names[:NAMED])
    how_many = "a process"
    if len(process_names) > 1:
        how_many = f"{len(process_names)} processes"
    if len(process_names) > NAMED:
        listed_names += f" and {len(process_names) - NAMED} more"
    return (
        f"the program ended but left {how_many} behind, now killed: {listed_names}; a rank ends "
        "with its program, so the program has to wait for what it starts"
    )
