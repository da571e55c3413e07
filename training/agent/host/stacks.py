"""The stacks of the ranks of this host: from the rank itself; else what the kernel tells of it.

On a signal, faulthandler writes the stacks of a rank to a file in the run's folder (`register`;
user programs do it by site/sitecustomize.py). The file is unlinked, so it is only found among the
open files of its process, and ends with it. Only a process that has such a file and catches the
signal is sent it; any other could die.
"""

from __future__ import annotations

import faulthandler
import os
import re
import selectors
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from queue import SimpleQueue
from typing import NamedTuple

from training.agent.host import processes
from training.agent.host.proc_files import (
    describe_state,
    open_files,
    read_command,
    read_status,
    shorten_command,
    state_letter,
)
from training.agent.layout import STACKS
from training.wire.events import Event
from training.wire.host_events import Stack

BLOCK = 1 << 16
"""Bytes that are read at a time."""
SIGNAL = 49
"""A real-time signal from the middle of the range, which programs seldom use."""
ANSWER = 1.0
"""Seconds to wait for a process to write its stacks."""
LOOK = 0.01
"""Seconds between two checks whether a process has written its stacks."""
MOST = 64 << 10
"""The most characters of a stack that are reported: the last ones, because faulthandler writes the
main thread last."""
OUTER_PROGRAMS = 2
"""Processes that are named of those above the last one."""
SOURCE = 2 << 20
"""Bytes of the largest source file of which a line is shown."""


def register(folder: str) -> None:
    """Let this process report its stacks to the agent of this folder (Linux only)."""
    if sys.platform != "linux":
        return
    path = f"{folder}/{STACKS}/{os.getpid()}"
    with suppress(OSError):
        file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND, 0o600)
        os.unlink(path)
        faulthandler.register(SIGNAL, file)


class StackSubject(NamedTuple):
    """Of whom a stack is asked for: a rank, or a worker that its program has started."""

    rank: int
    pid: int
    is_worker: bool = False


def can_report(pid: int) -> bool:
    """Return True if a process catches the signal, as those do that report their stacks."""
    return _has_signal(pid, "SigCgt")


class StackCollector:
    """Collects stacks in a thread of its own, because that takes up to a second; the agent loop
    reports them."""

    def __init__(
        self, selector: selectors.BaseSelector, report_event: Callable[[Event], None], folder: str
    ) -> None:
        self._report_event = report_event
        self._folder = f"{os.path.realpath(folder)}/{STACKS}"
        os.makedirs(self._folder, mode=0o700, exist_ok=True)
        self._collected: deque[Stack] = deque()
        self._wake_reader, self._wake_writer = os.pipe()
        selector.register(self._wake_reader, selectors.EVENT_READ, self._report_collected)
        self._requested: SimpleQueue[Sequence[StackSubject]] = SimpleQueue()
        self._thread = threading.Thread(target=self._collect_requested, name="stacks", daemon=True)

    def ask(self, subjects: Sequence[StackSubject]) -> None:
        """Report the stacks of these soon. A request before that is merged with it."""
        self._requested.put(subjects)
        if not self._thread.ident:
            self._thread.start()

    def _collect_requested(self) -> None:
        while True:
            subjects = self._requested.get()
            while not self._requested.empty():
                subjects = self._requested.get()
            for stack in collect_stacks(subjects, self._folder):
                self._collected.append(stack)
                os.write(self._wake_writer, b"\n")

    def _report_collected(self) -> None:
        os.read(self._wake_reader, BLOCK)
        while self._collected:
            self._report_event(self._collected.popleft())


@dataclass
class StackRequest:
    """A request for the stacks of a rank. `process` is the rank's, or a descendant, that has the
    file for its stacks at `path`. `size` is that of the file before; `blocked` are threads that
    always block the signal. `problem` is why the process was not asked, `program` what it runs if
    that is no Python program."""

    subject: StackSubject
    process: int
    path: str = ""
    size: int = 0
    blocked: frozenset[str] = frozenset()
    problem: str = ""
    program: str = ""


def collect_stacks(subjects: Sequence[StackSubject], folder: str) -> Iterator[Stack]:
    """Yield the stack of each of these, in the order in which they answer, within about a
    second."""
    requests = [_request_stack(subject, folder) for subject in subjects]
    pending = [request for request in requests if not request.problem]
    deadline = time.monotonic() + ANSWER
    while pending and time.monotonic() < deadline:
        for request in pending.copy():
            stack_text = _read_answer(request)
            if stack_text:
                pending.remove(request)
                yield _make_stack(request, "faulthandler", stack_text)
        time.sleep(LOOK)
    for request in pending:
        request.problem = f"it has not reported its stack within {ANSWER:g} s"
    for request in requests:
        if request.problem:
            program_line = f"\nruns: {request.program}" if request.program else ""
            stack_text = f"no Python stack: {request.problem}{program_line}"
            yield _make_stack(request, "kernel", stack_text)


def _make_stack(request: StackRequest, source: str, text: str) -> Stack:
    subject = request.subject
    stack_text = f"{describe_state(request.process)}\n{text}"
    return Stack(subject.rank, source, stack_text, worker=subject.is_worker)


def _request_stack(subject: StackSubject, folder: str) -> StackRequest:
    """Send the signal to a rank or worker, unless there is a `problem`."""
    pid = subject.pid
    if not pid:
        return StackRequest(subject, 0, problem="its process does not exist yet")
    # The rank may be a shell or a wrapper: the first process below it that can answers.
    pids = (pid, *processes.descendants(pid))
    for asked_pid in pids:
        path = _stack_file(asked_pid, folder)
        if path and can_report(asked_pid):
            break
    else:
        problem = "it is no Python program that was started with rankboard's sitecustomize"
        return StackRequest(subject, pid, problem=problem, program=_describe_programs(pids))
    state_code = state_letter(asked_pid)
    if state_code in "Tt":  # T by a signal, t by a debugger
        problem = "it is stopped, so it cannot report its stack"
        if state_code == "T":
            problem += f"; it goes on by: kill -CONT {asked_pid}"
        return StackRequest(subject, asked_pid, problem=problem)
    try:
        old_size = os.stat(path).st_size
    except OSError:
        return StackRequest(subject, asked_pid, problem="it has just ended")
    request = StackRequest(subject, asked_pid, path, old_size, _blocking_threads(asked_pid))
    if not _has_signal(asked_pid, "ShdPnd"):  # else an earlier one is still pending
        processes.send(asked_pid, SIGNAL)
    return request


def _describe_programs(pids: Sequence[int]) -> str:
    """Return what these processes run, parents first: "bash -c …: sleep 600"."""
    all_words = [words for words in map(read_command, pids) if words]
    if not all_words:
        return ""
    *outer_words, last_words = all_words
    # Those in between are seldom news, and there may be many.
    if len(outer_words) > OUTER_PROGRAMS:
        outer_words[OUTER_PROGRAMS - 1 : -1] = []
    outer_texts = [shorten_command(words, words_shown=2) for words in outer_words]
    return ": ".join([*outer_texts, shorten_command(last_words, words_shown=len(last_words))])


def _stack_file(process: int, folder: str) -> str:
    """Return the path below /proc of the file for stacks that the process has open, or "".

    A fork may have a file of its own beside that of its parent.
    """
    path_by_name = {
        os.path.basename(target).partition(" ")[0]: path
        for path, target in open_files(process)
        if os.path.dirname(target) == folder
    }
    return path_by_name.get(str(process)) or next(iter(path_by_name.values()), "")


def _read_answer(request: StackRequest) -> str:
    """Return the stacks that the process wrote, once it has written all of them; "" before.

    A thread that writes blocks the signal.
    """
    with suppress(OSError):
        has_grown = os.stat(request.path).st_size != request.size
        if not has_grown or _blocking_threads(request.process) - request.blocked:
            return ""
        with open(request.path, "rb") as file:
            file.seek(request.size)
            stack_text = file.read().decode(errors="replace")
        return _add_source_lines(stack_text[-MOST:], f"/proc/{request.process}/cwd")
    return ""


def _blocking_threads(process: int) -> frozenset[str]:
    with suppress(OSError):
        thread_ids = os.listdir(f"/proc/{process}/task")
        return frozenset(
            thread for thread in thread_ids if _has_signal(f"{process}/task/{thread}", "SigBlk")
        )
    return frozenset()


def _has_signal(process: int | str, mask_name: str) -> bool:
    """Return True if this signal mask of a process or thread contains SIGNAL."""
    signal_bits = int(read_status(process, mask_name) or "0", 16)
    return bool(signal_bits >> (SIGNAL - 1) & 1)


_FRAME = re.compile(r'  File "(.+)", line (\d+) in .*')


def _add_source_lines(text: str, work_folder: str) -> str:
    """Add the source line below each frame, if there is one. Relative paths are in `folder`."""
    read_source = cache(_read_source)  # for this text only: a file may change
    lines: list[str] = []
    for line in text.splitlines():
        lines.append(line)
        match = _FRAME.fullmatch(line)
        if match:
            line_number = int(match[2])
            source_lines = read_source(os.path.join(work_folder, match[1]))
            code_line = "".join(source_lines[line_number - 1 : line_number]).strip()
            if code_line:
                lines.append(f"    {code_line}")
    return "\n".join(lines)


def _read_source(path: str) -> list[str]:
    try:
        if not os.path.isfile(path) or os.path.getsize(path) > SOURCE:
            return []
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read().split("\n")
    except (OSError, ValueError):
        return []
