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
from training.agent.host import facts, processes
from training.agent.host.dial import Dialler
from training.agent.host.gpus import GpuSampler
from training.agent.host.redaction import Redaction
from training.agent.host.samples import sampler
from training.agent.host.stacks import StackCollector
from training.agent.journal import Journal
from training.agent.options import AgentOptions
from training.agent.ranks import ports
from training.agent.ranks.launch import CODE, Preload
from training.agent.ranks.pipes import CHUNK
from training.agent.ranks.ranks import RankProcesses
from training.agent.ranks.starts import RankStarter
from training.agent.times import AgentTimes
from training.agent.written_files import WrittenFiles, find_written
from training.wire import commands
from training.wire.events import (
    AGENT,
    AgentEnded,
    Connected,
    Event,
    Exited,
    Hello,
    Launched,
    OutputText,
    Reserved,
)
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
        guard: int,
    ) -> None:
        self._options = options
        self._times = times
        self._guard = guard
        self._selector = selector = selectors.DefaultSelector()
        self._journal = Journal(".", options.host)
        hello = facts.hello(options.folder, options.route_to, options.needs)
        self._pending: list[Event] = [Hello(**hello)]
        self._redaction = Redaction()
        self._ranks = RankProcesses(selector, self._say, times.gather, self._redaction)
        self._starter = RankStarter(options, selector, self._say, self._ranks, preload)
        self._followed = FileFollower(self._redaction)
        self._dialler = Dialler(selector, lambda *result: self._say(Connected(*result)))
        self._sampler = sampler()
        self._gpus = GpuSampler(selector, self._complain)
        self._stacks = StackCollector(selector, self._say, options.folder)
        self._connections = FollowerConnections(selector, listener, self._take, self._obey)
        self._reserved: socket.socket | None = None
        self._reserve_command: commands.Reserve | None = None
        self._attempt = 0
        self._run_began_at = math.inf  # by the monotonic clock; infinite: not known
        self._runs_programs = False
        self._writes_since = 0.0
        self._is_over = False
        now = time.monotonic()
        self._state = decide.AgentState(options.keep, alone_since=now, heard_at=now)
        self._inputs: deque[decide.Input] = deque()
        self._tick_at = now + times.tick

    def run(self) -> None:
        """Run until `decide` returns `Finish`. Raises: OSError, if the journal is unwritable."""
        processes.lower_priority(NICE)
        self._listen_to_signals()
        keep_file(layout.CODE, CODE)
        while not self._is_over:
            self._flush()
            for key, _ in self._selector.select(self._timeout()):
                # An earlier one of this turn may have ended this one.
                if self._selector.get_map().get(key.fd) is key:
                    key.data()
            self._look_at_clock(time.monotonic())
        self._flush()
        self._journal.close()

    # Deciding

    def _take(self, incoming: decide.Input) -> None:
        """Pass an input to `decide` and carry out the actions. Inputs that arise in between come
        next."""
        self._inputs.append(incoming)
        if len(self._inputs) > 1:
            return
        while self._inputs:
            now = time.monotonic()
            for action in decide.decide(self._state, self._times, now, self._inputs[0]):
                self._act(action)
            self._inputs.popleft()

    def _act(self, action: decide.Action) -> None:
        match action:
            case decide.Write(event):
                self._pending.append(event)
            case decide.StartRanks(command):
                self._start(command)
            case decide.TerminateRanks():
                self._starter.stop()
            case decide.KillRanks():
                self._gpus.end()
                self._look_for_leftovers()
                self._ranks.sweep()
            case decide.Finish(end):
                self._finish(end)

    def _say(self, event: Event) -> None:
        match event:
            case Launched():
                self._pending.append(replace(event, age=self._age))
            case Exited():
                if not self._ranks.live:
                    self._pending += self._followed.end()
                self._pending.append(event)
                self._take(event)
            case _:
                self._pending.append(event)

    def _complain(self, text: str) -> None:
        self._pending.append(OutputText(AGENT, "stderr", text))

    def _start(self, command: commands.StartAttempt) -> None:
        self._flush()  # the events of the attempt before
        self._attempt = command.attempt
        if command.tell_written and not self._writes_since:  # since the first attempt
            self._writes_since = time.time()
        self._runs_programs = not command.preload
        self._redaction.learn(command.placements)
        self._gpus.place(command.placements)
        if command.placements:
            first = min(command.placements, key=lambda placement: placement.local_rank)
            self._followed.start(command.follow, self._options.cwd, first.rank)
        self._starter.start(command, self._reserved)
        self._reserved = None

    def _look_for_leftovers(self) -> None:
        """Report what programs that have all ended well have left running."""
        if self._runs_programs and not (self._ranks.live or self._state.incomplete):
            names = processes.leftovers(LEFT)
            if names:
                self._complain(describe_leftovers(names))

    def _finish(self, end: AgentEnded) -> None:
        surviving_pids = processes.end_descendants(self._times.last)
        files = WrittenFiles()
        if self._writes_since:
            folder = self._options.folder
            own_folders = (folder, layout.workdir_of(folder))
            files = find_written(self._options.cwd, self._writes_since, own_folders)
        end = replace(
            end,
            left=tuple(surviving_pids),
            age=self._age,
            written=tuple(files.paths),
            written_count=files.count,
            written_cut=files.is_cut,
        )
        self._pending.append(end)
        self._is_over = True

    @property
    def _age(self) -> float:
        """Return the seconds since the run began; 0 if that is not known."""
        return max(0.0, time.monotonic() - self._run_began_at)

    # Signals

    def _listen_to_signals(self) -> None:
        self._signals, wakeup = os.pipe()
        os.set_blocking(wakeup, False)
        signal.set_wakeup_fd(wakeup, warn_on_full_buffer=False)
        for number in (signal.SIGCHLD, signal.SIGTERM, signal.SIGHUP):
            # A handler, as ranks would inherit that a signal is ignored.
            signal.signal(number, lambda *_: None)
        self._selector.register(self._signals, selectors.EVENT_READ, self._on_signals)

    def _on_signals(self) -> None:
        numbers = os.read(self._signals, CHUNK)
        if signal.SIGTERM in numbers:
            self._look_for_guard()
            self._take(decide.Terminated())
        with suppress(ChildProcessError):
            while True:
                pid, status = os.waitpid(-1, os.WNOHANG)
                if not pid:
                    break
                self._starter.reaped(pid, status)

    def _look_for_guard(self) -> None:
        if os.getppid() != self._guard:
            self._take(decide.GuardGone())

    # Commands

    def _obey(self, line: bytes) -> None:
        command = commands.decode(line)
        self._take(decide.LineReceived(command, len(line)))
        match command:
            case commands.Reserve():
                self._reserve(command)
            case commands.Connect(targets, seconds):
                self._dialler.dial(targets, seconds)
            case commands.Stacks():
                preload = self._starter.preload
                self._stacks.ask([(rank.number, rank.pid or preload) for rank in self._ranks.live])
            case commands.Keep(name, text, age):
                if age and self._run_began_at == math.inf:  # else an earlier launcher has set it
                    self._run_began_at = time.monotonic() - age
                problem = keep_file(name, text)
                if problem:
                    self._complain(problem)

    def _reserve(self, command: commands.Reserve) -> None:
        """Reserve a port. The same command comes once more over a new connection."""
        if self._reserved and command != self._reserve_command:
            self._reserved.close()
            self._reserved = None
        self._reserve_command = command
        port = 0
        error = ""
        try:
            self._reserved = self._reserved or ports.reserve_port(command.address, command.port)
            port = self._reserved.getsockname()[1]
        except ports.PortError as problem:
            error = str(problem)
        self._say(Reserved(command.address, port, error))

    # Time

    def _timeout(self) -> float:
        now = time.monotonic()
        due = min(
            self._tick_at,
            self._ranks.listen_at,
            self._dialler.due,
            decide.due(self._state, self._times, now),
        )
        return max(0.0, due - now)

    def _look_at_clock(self, now: float) -> None:
        if now >= self._ranks.listen_at:
            self._ranks.listen()
        self._dialler.expire(now)
        if now >= self._tick_at:
            self._tick_at = max(self._tick_at + self._times.tick, now)
            self._tick()
        self._take(decide.TimePassed())

    def _tick(self) -> None:
        self._ranks.out_of_memory.tick()
        self._look_for_guard()
        running = [rank for rank in self._ranks.live if rank.pid]
        if self._sampler:
            self._pending.append(self._sampler.host())
            for rank in running:
                sample = self._sampler.rank(rank.number, rank.pid)
                if sample:
                    self._pending.append(sample)
        self._pending += self._followed.news()
        self._pending += self._gpus.sample([rank.number for rank in running])

    # The journal

    def _flush(self) -> None:
        if self._journal.full:
            self._take(decide.JournalFull())
            self._pending = [event for event in self._pending if not isinstance(event, OutputText)]
        if self._pending:
            self._journal.write(self._attempt, self._redaction.clean(self._pending))
            self._pending = []
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


def describe_leftovers(names: list[str]) -> str:
    """Say which processes programs have left behind."""
    listed = ", ".join(names[:NAMED])
    number = "a process"
    if len(names) > 1:
        number = f"{len(names)} processes"
    if len(names) > NAMED:
        listed += f" and {len(names) - NAMED} more"
    return (
        f"the program ended but left {number} behind, now killed: {listed}; a rank ends with its "
        "program, so the program has to wait for what it starts"
    )
