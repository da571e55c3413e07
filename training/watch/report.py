"""Writes wire events to the pipe that the agent reads."""

from __future__ import annotations

import atexit
import json
import math
import os
import re
import select
import stat
import sys
import time
import traceback
from binascii import b2a_base64
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from struct import Struct
from typing import Any

from .exchange import Collectives
from .isolation import Isolation
from .steps import Step

_REPORT = re.compile(r"^@rankboard (?=\{|step )", re.MULTILINE)
_STEP_ROW = Struct("<i8d6q?")
MOST = 1 << 16
"""Bytes that wait to be written; what comes while there are more is dropped."""
LAST_WRITE_SECONDS = 1.0
"""Seconds that the agent has to take the rest, when the process ends."""
LONGEST_ERROR = select.PIPE_BUF // 2
"""Characters of a traceback that a worker reports, the last ones."""


@dataclass(frozen=True)
class Program:
    """Which of the programs that rankboard has started this is, and how many these are."""

    number: int
    count: int

    @classmethod
    def read(cls, env: Mapping[str, str]) -> Program:
        """Read it from an environment. What RANK says may be of a launcher within the program."""
        number, _, count = env.get("RANKBOARD_PROCESS", "").partition("/")
        number = number or env.get("RANK", "")
        count = count or env.get("WORLD_SIZE", "")
        return cls(
            int(number) if number.isdigit() else 0,
            int(count) if count.isdigit() else 1,
        )


class WatchReport:
    """The pipe. It never blocks: what does not fit waits for the next step, and is dropped where
    `MOST` bytes wait already. Ends for good at the first failure.

    The process that owns the pipe reports as the program that rankboard started. Any other one, as
    a fork of it, is silent until it joins a process group (`join`). If the group has more ranks
    than rankboard has started, its processes are workers, and report under their ranks in it.
    """

    def __init__(self, channel: str, program: Program) -> None:
        """Use the pipe of the channel NUMBER:PID:INODE. Raises: OSError, if it is none."""
        number, owner, inode = channel.split(":")
        self._pipe = int(number)
        self._owners_end = f"/proc/{owner}/fd/{number}"
        self._inode = int(inode)
        self._program = program
        self._rank = program.number
        self._worker_place: tuple[int, int] | None = None
        self._has_left = False
        self._error: BaseException | None = None
        self._waiting_bytes = b""
        self._has_failed = False
        self.on = os.getpid() == int(owner)
        if self.on:
            if not self._is_open():
                raise OSError("its pipe is closed")
            os.set_blocking(self._pipe, False)
        # A data loader's process would report as if it was the rank.
        os.register_at_fork(after_in_child=self._be_silent)
        atexit.register(self.close)

    def _is_open(self) -> bool:
        """Return True unless the program has closed the pipe: another file may have its number."""
        status = os.fstat(self._pipe)
        return status.st_ino == self._inode and stat.S_ISFIFO(status.st_mode)

    # Workers

    def join(self, rank: int, world_size: int) -> bool:
        """Take in that this process joins a process group. Return True if it begins to report by
        that."""
        is_worker = world_size > self._program.count
        if self._has_failed or not (is_worker or self.on or rank == self._program.number):
            return False
        begins = not self.on
        if begins:
            self._open_pipe()
        place = (rank, world_size)
        # It joins before it waits for the others, and again once it is known to have met them.
        if is_worker and (begins or place != self._worker_place):
            self._worker_place = place
            self._rank = rank
            self._has_left = False
            self._tell_agent({"joined": rank, "world_size": world_size, "pid": os.getpid()})
        elif begins:
            self._tell_agent({"stands_in": rank, "pid": os.getpid()})
        return begins

    def _open_pipe(self) -> None:
        """Open the pipe where its owner has it open. Raises: OSError."""
        self._pipe = os.open(self._owners_end, os.O_WRONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        if not self._is_open():
            raise OSError("its pipe is closed")
        self.on = True

    def _tell_agent(self, message: dict[str, Any]) -> None:
        self._queue_text(f"@rankboard {json.dumps(message)}\n")
        self._write_waiting()

    def note_error(self) -> None:
        """Keep what is being raised: the process ends by it."""
        self._error = sys.exc_info()[1]

    def _tell_end(self) -> None:
        """Say that this worker ends, and what it has raised, once."""
        self._has_left = True
        error = sys.exc_info()[1] or getattr(sys, "last_value", None) or self._error
        if isinstance(error, SystemExit):
            error = error.__context__ if error.code else None
        lines = traceback.format_exception(type(error), error, error.__traceback__) if error else []
        error_text = "".join(lines)[-LONGEST_ERROR:]
        # What is not ASCII takes more room as JSON.
        while len(json.dumps(error_text)) > select.PIPE_BUF - 200:
            error_text = error_text[len(error_text) // 2 :]
        self._tell_agent({"left": self._rank, "pid": os.getpid(), "error": error_text})

    # What is reported

    def steps(self, steps: Sequence[Step]) -> None:
        """Report steps."""
        self._queue_text("".join(map(self._format_step, steps)))
        self._write_waiting()

    def collectives(self, collectives: Collectives) -> None:
        """Report what was exchanged since the report before."""
        self._tell_event("collectives", vars(collectives))

    def isolation(self, isolation: Isolation) -> None:
        """Report that the rank trains alone, or no longer."""
        self._tell_event("isolation", vars(isolation))

    def entered(self, phase: str, call: str, address: str = "") -> None:
        """Report that the rank has entered a phase, in a call of this function, and where the ranks
        meet in it."""
        self._tell_event("entered", {"phase": phase, "call": call, "address": address})

    def _tell_event(self, event: str, values: Mapping[str, Any]) -> None:
        """Report an event of this rank, other than a step."""
        self._tell_agent({"time": time.time(), "event": event, "rank": self._rank, **values})

    def _format_step(self, step: Step) -> str:
        """Return the row of a step, see `training.wire.step_block`."""
        row = _STEP_ROW.pack(
            *(self._rank, step.time, math.nan if step.loss is None else step.loss, step.seconds),
            *(step.data, step.compute, step.sync, step.ready, step.cpu_seconds),
            *(0, step.step, step.samples, 0, 0, 0, step.loss is not None),
        )
        return f"@rankboard step {b2a_base64(row, newline=False).decode()}\n"

    def failed(
        self, error: BaseException, problem: str = "the watch has failed", *, ends: bool = True
    ) -> None:
        """Say so. If it `ends` the watch, report nothing more."""
        if self.on:
            last_frames = traceback.extract_tb(error.__traceback__)[-1:]
            place_text = "".join(
                f" ({os.path.basename(frame.filename)}:{frame.lineno})" for frame in last_frames
            )
            error_text = " ".join(f"{type(error).__name__}: {error}".split())
            consequence = "the program continues without it"
            self._queue_text(f"rankboard: {problem}, {consequence}: {error_text}{place_text}\n")
            self._write_waiting()
        if ends:
            self._stop_reporting()

    def _queue_text(self, text: str) -> None:
        if self._worker_place:
            text = _REPORT.sub(r"\g<0>worker ", text)
        if self.on and len(self._waiting_bytes) < MOST:
            self._waiting_bytes += text.encode("utf-8", "replace")

    def _write_waiting(self) -> None:
        """Write what is waiting, unless the program has closed the pipe.

        Several processes may write to it: each write is of whole lines, and short enough that
        nothing of another one comes in between.
        """
        try:
            if self._waiting_bytes and self.on and not self._is_open():
                self._stop_reporting()
            while self._waiting_bytes and self.on:
                end_of_lines = self._waiting_bytes.rfind(b"\n", 0, select.PIPE_BUF) + 1
                written = os.write(self._pipe, self._waiting_bytes[: end_of_lines or None])
                self._waiting_bytes = self._waiting_bytes[written:]
        except BlockingIOError:
            pass
        except OSError:
            self._stop_reporting()

    def close(self) -> None:
        """Write the rest, if the agent takes it soon: the process ends."""
        if not self.on:
            return
        if self._worker_place and not self._has_left:
            self._tell_end()
        self._write_waiting()
        if self._waiting_bytes:
            pipe_poll = select.poll()  # `select.select` knows no file from 1,024 on
            pipe_poll.register(self._pipe, select.POLLOUT)
            if pipe_poll.poll(1000 * LAST_WRITE_SECONDS):
                self._write_waiting()

    def _stop_reporting(self) -> None:
        self._has_failed = True
        self._be_silent()

    def _be_silent(self) -> None:
        self.on = False
        self._waiting_bytes = b""
