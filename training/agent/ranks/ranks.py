"""The ranks of one attempt on this host: reads their pipes, stops them, and reports their exits."""

from __future__ import annotations

import fcntl
import math
import os
import random
import selectors
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial

from training.agent.host import processes
from training.agent.host.redaction import Redaction
from training.agent.host.samples import OutOfMemory, Sampler, subtract_sample
from training.agent.host.stacks import StackSubject
from training.agent.live_runs import open_regular
from training.agent.ranks.pipes import CHUNK, Pipe
from training.agent.ranks.step_rows import gather_steps
from training.agent.ranks.workers import Worker, Workers, describe_exit
from training.wire.events import Event
from training.wire.host_events import Exited, OutputText, Raised, RankSample, Spawned
from training.wire.jsonl import load
from training.wire.step_block import StepBlock

Ends = tuple[int, int]
"""The write ends of a stdout and a stderr."""
ERROR_BYTES = 1 << 18
"""Bytes of the largest error file that is read."""
FEW_STEPS = 4.0
"""Steps a second of a rank below which each is reported at once: a person may watch them."""
BLOCK_STEPS = 100
"""About how many steps of a rank are read together if it makes more."""
LONGEST_GATHER = 1.0
"""Seconds that they wait for this at the most."""
SHORTEST_TURN = 0.8
"""The share of this time that a turn takes at least."""
EVENTS = 1 << 18
"""Bytes that the pipe of a watch holds where the kernel lets it, as its rank never waits."""


def choose_block_seconds(steps_per_second: float) -> float:
    """Return how long the steps of a rank that makes so many gather to a block; 0 if not at all."""
    if steps_per_second < FEW_STEPS:
        return 0.0
    full_block_seconds = min(LONGEST_GATHER, BLOCK_STEPS / steps_per_second)
    # Ranks step together. So that not all hosts report at the same moment, which would hold up the
    # frames of a dashboard, each of them shortens each turn by another share.
    return full_block_seconds * random.uniform(SHORTEST_TURN, 1.0)


@dataclass
class RankProcess:
    """A rank that has not exited. `pid` is 0 until its process exists; `stopped`: the agent sent it
    a signal. `error_file` is where its program may say what it failed of. `events` is the pipe of
    its watch, `workers` are those that this has told of."""

    number: int
    pipes: tuple[Pipe, ...]
    pid: int = 0
    stopped: bool = False
    error_file: str = ""
    events: Pipe | None = None
    workers: Workers | None = None

    def list_subjects(self, preload_pid: int) -> list[StackSubject]:
        """Return of whom stacks are asked for: the process that trains, or preload until there is
        one, and the workers."""
        if self.workers is None:
            return [StackSubject(self.number, self.pid or preload_pid)]
        # One below its own may stand in for it.
        training_pid = self.workers.stand_in or self.pid or preload_pid
        return [StackSubject(self.number, training_pid), *self.workers.list_subjects(self.pid)]

    def sample(self, sampler: Sampler) -> Iterator[RankSample]:
        """Yield samples of all its processes together, and of its workers. If its program is a
        worker itself, it has what the others leave of the sample of all."""
        rest = sampler.rank(self.number, self.pid)
        if rest is None:
            return
        yield rest
        own_number = None
        for worker in self.workers.live if self.workers else ():
            if worker.pid == self.pid:
                own_number = worker.rank
                continue
            sample = sampler.rank(worker.rank, worker.pid)
            if sample:
                rest = subtract_sample(rest, sample)
                yield replace(sample, worker=True)
        if own_number is not None:
            yield replace(rest, rank=own_number, worker=True)


class RankProcesses:
    """Tells `say` what becomes of the ranks. What it registers with the selector are functions for
    the agent's loop to call.

    Ranks that take hundreds of steps a second would wake everybody up to the dashboard as often. So
    after a turn of reading, their pipes gather for `gather` seconds, or if they make more than
    `FEW_STEPS`, until a block is full, up to `LONGEST_GATHER`. At `listen_at` they are looked at
    again: one that fills is read before that, as its rank would have to wait.
    """

    def __init__(
        self,
        selector: selectors.BaseSelector,
        report_event: Callable[[Event], None],
        gather: float,
        redaction: Redaction,
    ) -> None:
        self._selector = selector
        self._report_event = report_event
        self._gather_seconds = gather
        self._redaction = redaction
        # All pipes are behind one descriptor, which leaves the loop while they gather.
        self._pipes = selectors.DefaultSelector()
        self._selector.register(self._pipes, selectors.EVENT_READ, self._read_ready_pipes)
        self.listen_at = math.inf
        self._gathered_at = math.inf
        self._turn_at = time.monotonic()
        self._steps_of_turn: dict[int, int] = {}
        self._live_ranks: dict[int, RankProcess] = {}
        self.out_of_memory = OutOfMemory()

    def find(self, rank_number: int) -> RankProcess | None:
        """Return the rank of this number, unless it has exited."""
        return self._live_ranks.get(rank_number)

    @property
    def live(self) -> list[RankProcess]:
        """Return the ranks that have not exited."""
        return list(self._live_ranks.values())

    def open(self, rank_number: int) -> tuple[RankProcess, Ends]:
        """Add a rank that is not started, and return it with the ends of its pipes for its process.

        Its pipes are read once it is `spawned`: a rank that preload forks may write before preload
        reports it.
        """
        pipes, pipe_ends = self.open_pipes(rank_number)
        rank = self._live_ranks[rank_number] = RankProcess(rank_number, pipes)
        return rank, pipe_ends

    def open_pipes(self, rank_number: int) -> tuple[tuple[Pipe, ...], Ends]:
        """Open pipes for the stdout and stderr of this rank, or of AGENT."""
        out_reader, out_end = os.pipe()
        error_reader, error_end = os.pipe()
        pipes = (
            self._make_pipe(out_reader, rank_number, "stdout"),
            self._make_pipe(error_reader, rank_number, "stderr"),
        )
        return pipes, (out_end, error_end)

    def _make_pipe(self, descriptor: int, rank_number: int, stream: str) -> Pipe:
        return Pipe(descriptor, rank_number, stream, self._redaction)

    def open_events(self, rank: RankProcess, process_count: int) -> int:
        """Open one more pipe, for what the watch reports of a rank that is not started, one of so
        many. Return the end for its process.

        What comes there is as if the rank had written it on stdout.
        """
        reader, write_end = os.pipe()
        # Linux only, and there within the user's share (/proc/sys/fs/pipe-user-pages-soft).
        with suppress(OSError, AttributeError):
            fcntl.fcntl(write_end, fcntl.F_SETPIPE_SZ, EVENTS)
        rank.events = self._make_pipe(reader, rank.number, "stdout")
        rank.events.is_of_watch = True
        rank.workers = Workers(
            rank.number,
            process_count,
            self._selector,
            self._report_event,
            partial(self._worker_exited, rank),
        )
        rank.pipes = (rank.events, *rank.pipes)
        return write_end

    def hear(self, pipes: Sequence[Pipe]) -> None:
        """Read these pipes from now on, until they end or `finish`."""
        for pipe in pipes:
            self._pipes.register(pipe, selectors.EVENT_READ, pipe)

    def listen(self) -> None:
        """Read the pipes again, if they have gathered for long enough or one of them fills."""
        now = time.monotonic()
        pipes: list[Pipe] = [key.data for key in self._pipes.get_map().values()]
        if now < self._gathered_at and not any(pipe.is_filling for pipe in pipes):
            self.listen_at = min(self._gathered_at, now + self._gather_seconds)
            return
        self._selector.register(self._pipes, selectors.EVENT_READ, self._read_ready_pipes)
        self.listen_at = math.inf

    def _read_ready_pipes(self) -> None:
        ready_pipes: list[Pipe] = [key.data for key, _ in self._pipes.select(0)]
        # Steps come before the lines that their rank has printed after them.
        ready_pipes.sort(key=lambda pipe: not pipe.is_of_watch)
        for pipe in ready_pipes:
            for text in pipe.read():
                self._report_output(pipe, text)
            if pipe.ended:
                self._pipes.unregister(pipe)
        if not any(pipe.filled for pipe in ready_pipes):
            self._selector.unregister(self._pipes)
            now = time.monotonic()
            self._gathered_at = now + self._choose_gather(now - self._turn_at)
            self.listen_at = min(self._gathered_at, now + self._gather_seconds)
            self._turn_at = now
            self._steps_of_turn.clear()

    def _choose_gather(self, turn_seconds: float) -> float:
        """Return how long the pipes gather, by the steps of the fastest rank since the turn
        before."""
        steps_per_second = max(self._steps_of_turn.values(), default=0) / max(turn_seconds, 1e-3)
        return max(self._gather_seconds, choose_block_seconds(steps_per_second))

    def finish(self, pipes: Sequence[Pipe]) -> None:
        """Report the rest of the pipes, and close them."""
        for pipe in pipes:
            if pipe.fileno() in self._pipes.get_map():
                self._pipes.unregister(pipe)
            for text in pipe.finish():
                self._report_output(pipe, text)

    def _report_output(self, pipe: Pipe, text: OutputText) -> None:
        rank = self._live_ranks.get(text.rank)
        other_text: OutputText | None = text
        if rank and rank.workers and pipe is rank.events:
            other_text = rank.workers.take(text, rank.pid)
        for event in gather_steps(other_text) if other_text else ():
            if isinstance(event, StepBlock):
                known_steps = self._steps_of_turn.get(event.rank, 0)
                self._steps_of_turn[event.rank] = known_steps + event.count
            self._report_event(event)

    def _worker_exited(self, rank: RankProcess, worker: Worker, status: int | None) -> None:
        """Report that a worker is gone, after what it has written."""
        if rank.events:
            for _ in range(EVENTS // CHUNK):  # a pipe may hold several reads
                for text in rank.events.read():
                    self._report_output(rank.events, text)
        exited = describe_exit(worker, status)
        out_of_memory = (
            exited.code == -signal.SIGKILL and not rank.stopped and self.out_of_memory.rose()
        )
        self._report_event(replace(exited, stopped=rank.stopped, out_of_memory=out_of_memory))

    def look_at_workers(self) -> None:
        """Report workers that are gone, and whose system has not told so."""
        for rank in self.live:
            if rank.workers:
                rank.workers.look()

    def spawned(self, rank: RankProcess, pid: int) -> None:
        """Note that the rank's process exists."""
        rank.pid = pid
        self._report_event(Spawned(rank.number, pid))
        self.hear(rank.pipes)
        if rank.stopped:  # it was forked after the others were stopped
            processes.send_group(pid, signal.SIGTERM)

    def exited(self, rank: RankProcess, status: int) -> None:
        """Note that the process of the rank has exited with this wait status."""
        # What it and its workers printed comes before its exit, in the journal too.
        self.finish(rank.pipes)
        rank.events = None
        if rank.workers:
            rank.workers.look()
            rank.workers.close()
        del self._live_ranks[rank.number]
        exit_code = os.waitstatus_to_exitcode(status)
        if exit_code and rank.error_file:
            error_text = read_error_file(rank.error_file)
            if error_text:
                self._report_event(Raised(rank.number, error_text))
        out_of_memory = (
            exit_code == -signal.SIGKILL and not rank.stopped and self.out_of_memory.rose()
        )
        signal_text = processes.signal_name(exit_code)
        self._report_event(Exited(rank.number, exit_code, signal_text, rank.stopped, out_of_memory))

    def reaped(self, pid: int, status: int) -> None:
        """Note that a child of the agent has exited: a rank that was started as a program, or an
        orphan."""
        for rank in self.live:
            if rank.pid == pid:
                self.exited(rank, status)

    def stop(self) -> None:
        """Send TERM to the process group of every rank."""
        for rank in self.live:
            rank.stopped = True
            if rank.pid:
                processes.send_group(rank.pid, signal.SIGTERM)

    def sweep(self) -> None:
        """Send KILL to all descendants of the agent: ranks, preload, and processes that left their
        process groups."""
        # The groups first: without /proc no descendants are known.
        for rank in self.live:
            if rank.pid:
                processes.send_group(rank.pid, signal.SIGKILL)
        for pid in processes.descendants(os.getpid()):
            processes.send(pid, signal.SIGKILL)


def read_error_file(path: str) -> str:
    """Return the traceback in the error file of a script, or its message; "" if there is none.

    `torch.distributed.elastic`'s `record` writes the file, whose path torchrun gives it. The script
    may have put anything there.
    """
    try:
        with open(open_regular(path), "rb") as file:
            message = (load(file.read(ERROR_BYTES)) or {}).get("message")
    except (OSError, ValueError):  # a path may hold anything as well
        return ""
    if isinstance(message, dict):
        extra_info = message.get("extraInfo")
        python_stack = extra_info.get("py_callstack") if isinstance(extra_info, dict) else None
        has_stack = isinstance(python_stack, str) and python_stack.strip()
        message = python_stack if has_stack else message.get("message")
    return message.strip() if isinstance(message, str) else ""
