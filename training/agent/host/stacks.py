"""The stacks of the ranks of this host: from the rank itself, py-spy or the kernel.

On a signal, faulthandler writes the stacks of a rank to a file in the run's folder (`register`;
user programs do it by site/sitecustomize.py). The file is unlinked, so it is only found among the
open files of its process, and ends with it. Only a process that has such a file and catches the
signal is sent it; any other could die.
"""

from __future__ import annotations

import contextlib
import faulthandler
import os
import re
import selectors
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from queue import Empty, SimpleQueue

from training.agent.host import processes, spy
from training.agent.layout import STACKS
from training.wire.events import Event, Stack

BLOCK = 1 << 16
"""Bytes that are read at a time."""
SIGNAL = 49
"""A real-time signal from the middle of the range, which programs seldom use."""
ANSWER = 1.0
"""Seconds to wait for a process to write its stacks."""
SPY = 0.8
"""Seconds to wait for py-spy."""
LOOK = 0.01
"""Seconds between two checks whether a process has written its stacks."""
MOST = 64 << 10
"""The most characters of a stack that are reported: the last ones, because faulthandler writes the
main thread last."""
SOURCE = 2 << 20
"""Bytes of the largest source file of which a line is shown."""


def register(folder: str) -> None:
    """Let this process report its stacks to the agent of this folder (Linux only)."""
    if sys.platform != "linux":
        return
    path = os.path.join(folder, STACKS, str(os.getpid()))
    with contextlib.suppress(OSError):
        file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND, 0o600)
        os.unlink(path)
        faulthandler.register(SIGNAL, file)


class StackCollector:
    """Collects stacks in a thread of its own, because that takes up to two seconds; the agent loop
    reports them."""

    def __init__(
        self, selector: selectors.BaseSelector, say: Callable[[Event], None], folder: str
    ) -> None:
        self._say = say
        self._folder = os.path.join(os.path.realpath(folder), STACKS)
        os.makedirs(self._folder, mode=0o700, exist_ok=True)
        self._found: SimpleQueue[Stack] = SimpleQueue()
        self._ready, self._wake = os.pipe()
        selector.register(self._ready, selectors.EVENT_READ, self._hear)
        self._asked: SimpleQueue[Sequence[tuple[int, int]]] = SimpleQueue()
        self._thread = threading.Thread(target=self._work, name="stacks", daemon=True)

    def ask(self, ranks: Sequence[tuple[int, int]]) -> None:
        """Report the stacks of these (rank, pid) soon. A request before that is merged with it."""
        self._asked.put(ranks)
        if not self._thread.ident:
            self._thread.start()

    def _work(self) -> None:
        while True:
            ranks = self._asked.get()
            while not self._asked.empty():
                ranks = self._asked.get()
            for stack in collect_stacks(ranks, self._folder):
                self._found.put(stack)
                os.write(self._wake, b"\n")

    def _hear(self) -> None:
        os.read(self._ready, BLOCK)
        with contextlib.suppress(Empty):
            while True:
                self._say(self._found.get_nowait())


@dataclass
class StackRequest:
    """A request for the stacks of a rank. `process` is the rank's, or a descendant, that has a
    file for its stacks, open as `descriptor`. `size` is that of the file before; `blocked` are
    threads that always block the signal."""

    rank: int
    process: int
    descriptor: str = ""
    size: int = 0
    blocked: frozenset[str] = frozenset()
    why: str = ""


def collect_stacks(ranks: Sequence[tuple[int, int]], folder: str) -> Iterator[Stack]:
    """Yield the stack of each of these (rank, pid), in the order in which they answer, within about
    two seconds."""
    mute: list[StackRequest] = []
    asked: list[StackRequest] = []
    for rank, pid in ranks:
        question = _ask(rank, pid, folder)
        (mute if question.why else asked).append(question)
    deadline = time.monotonic() + ANSWER
    while asked and time.monotonic() < deadline:
        for question in asked.copy():
            text = _answer(question)
            if text:
                asked.remove(question)
                text = f"{spy.describe_state(question.process)}\n{text}"
                yield Stack(question.rank, "faulthandler", text)
        time.sleep(LOOK)
    for question in asked:
        question.why = f"it has not reported its stack within {ANSWER:g} s"
    yield from _look_from_outside([*mute, *asked])


# By faulthandler ----------------------------------------------------------------------------------


def _ask(rank: int, pid: int, folder: str) -> StackRequest:
    """Send the signal to a rank. If that is not possible, `why` says why."""
    if not pid:
        return StackRequest(rank, 0, why="its process does not exist yet")
    for process in (pid, *processes.descendants(pid)):
        descriptor = _descriptor(process, folder)
        if descriptor and _mask(process, "SigCgt"):
            break
    else:
        return StackRequest(
            rank, pid, why="it is no Python program that was started with rankboard's sitecustomize"
        )
    if spy.state_letter(process) in "Tt":
        return StackRequest(rank, process, why="it is stopped, so it cannot report its stack")
    try:
        size = os.stat(f"/proc/{process}/fd/{descriptor}").st_size
    except OSError:
        return StackRequest(rank, process, why="it has just ended")
    question = StackRequest(rank, process, descriptor, size, _blocking(process))
    if not _mask(process, "ShdPnd"):  # else an earlier one is still pending
        processes.send(process, SIGNAL)
    return question


def _descriptor(process: int, folder: str) -> str:
    """Return the descriptor of the file for stacks in the process, or ""."""
    with contextlib.suppress(OSError):
        for number in os.listdir(f"/proc/{process}/fd"):
            with contextlib.suppress(OSError):
                if os.path.dirname(os.readlink(f"/proc/{process}/fd/{number}")) == folder:
                    return number
    return ""


def _answer(question: StackRequest) -> str:
    """Return the stacks that the process wrote, once it has written all of them; "" before.

    A thread that writes blocks the signal.
    """
    path = f"/proc/{question.process}/fd/{question.descriptor}"
    with contextlib.suppress(OSError):
        if os.stat(path).st_size == question.size or _blocking(question.process) - question.blocked:
            return ""
        with open(path, "rb") as file:
            file.seek(question.size)
            text = file.read().decode(errors="replace")
        return _with_code(text[-MOST:], f"/proc/{question.process}/cwd")
    return ""


def _blocking(process: int) -> frozenset[str]:
    with contextlib.suppress(OSError):
        threads = os.listdir(f"/proc/{process}/task")
        return frozenset(
            thread for thread in threads if _mask(f"{process}/task/{thread}", "SigBlk")
        )
    return frozenset()


def _mask(process: int | str, name: str) -> bool:
    """Return True if this signal mask of a process or thread contains SIGNAL."""
    return bool(int(spy.read_status(process, name) or "0", 16) >> (SIGNAL - 1) & 1)


_FRAME = re.compile(r'  File "(.+)", line (\d+) in .*')


def _with_code(text: str, folder: str) -> str:
    """Add the source line below each frame, if there is one. Relative paths are in `folder`."""
    files: dict[str, list[str]] = {}
    lines: list[str] = []
    for line in text.splitlines():
        lines.append(line)
        match = _FRAME.fullmatch(line)
        if match:
            path = os.path.join(folder, match[1])
            source = files[path] if path in files else files.setdefault(path, _source(path))
            code = source[int(match[2]) - 1 : int(match[2])]
            lines += [f"    {code_line.strip()}" for code_line in code if code_line.strip()]
    return "\n".join(lines)


def _source(path: str) -> list[str]:
    try:
        if not os.path.isfile(path) or os.path.getsize(path) > SOURCE:
            return []
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read().split("\n")
    except (OSError, ValueError):
        return []


# By others ----------------------------------------------------------------------------------------


def _look_from_outside(questions: Sequence[StackRequest]) -> Iterator[Stack]:
    """Yield the stacks by py-spy, if it is installed and finds one, else by the kernel."""
    spy_path = spy.find_py_spy()
    spies = {
        question.rank: spy.start_py_spy(spy_path, question.process)
        for question in questions
        if spy_path and question.process
    }
    deadline = time.monotonic() + SPY
    for question in questions:
        text = spy.read_output(spies.get(question.rank), deadline)
        source = "py-spy" if text else "kernel"
        yield Stack(
            question.rank,
            source,
            f"{spy.describe_state(question.process)}\n{text or _excuse(question, bool(spy_path))}",
        )


def _excuse(question: StackRequest, has_spy: bool) -> str:
    tried = (
        "py-spy found none either"
        if has_spy
        else "py-spy, which could look from outside, is not installed here"
    )
    again = (
        f"; it goes on by: kill -CONT {question.process}"
        if spy.state_letter(question.process) == "T"
        else ""
    )
    return f"no Python stack: {question.why}{again}\n{tried}" if question.process else question.why
