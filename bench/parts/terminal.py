"""A program in a terminal of its own: what it draws, and the CPU time that it takes."""

from __future__ import annotations

import contextlib
import fcntl
import os
import pty
import re
import select
import signal
import struct
import termios
import time
from collections.abc import Sequence
from pathlib import Path

from parts.cpu import used

COLUMNS, LINES = 160, 48
ENVIRONMENT = {"TERM": "xterm-256color", "COLORTERM": "truecolor", "LANG": "C.UTF-8"}
SEQUENCES = re.compile(rb"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[ -/]*[0-~])")
BENCH = str(Path(__file__).parents[1])
KEPT = 500_000
PATIENCE = 120.0
LOOK, AGAIN = 0.01, 3.0
QUIT = b"\x11"


class Terminal:
    """Starts a program, which remembers nothing of others. `written` are the bytes that it has
    drawn."""

    def __init__(
        self, command: Sequence[str], folder: Path, size: tuple[int, int] = (COLUMNS, LINES)
    ) -> None:
        self.pid, self._terminal = pty.fork()
        if self.pid == 0:
            os.chdir(folder)
            columns, lines = size
            os.environ |= ENVIRONMENT | {
                "PYTHONPATH": BENCH,
                "COLUMNS": str(columns),
                "LINES": str(lines),
                "XDG_STATE_HOME": str(folder / "state"),
                "XDG_CONFIG_HOME": str(folder / "config"),
            }
            os.execv(command[0], list(command))
        fcntl.ioctl(self._terminal, termios.TIOCSWINSZ, struct.pack("HHHH", *size[::-1], 0, 0))
        self.written = 0
        self._drawn = b""
        self.code: int | None = None
        self._used = 0.0

    @property
    def cpu(self) -> float:
        """CPU seconds of the program alone, its children aside; after its end, all it has used."""
        if self.code is not None:
            return self._used
        return used(self.pid)

    @property
    def text(self) -> str:
        """The newest of what it has drawn, without sequences."""
        return SEQUENCES.sub(b"", self._drawn).decode(errors="replace")

    def read_for(self, seconds: float) -> None:
        """Take what the program draws off its terminal."""
        until = time.monotonic() + seconds
        while (left := until - time.monotonic()) > 0:
            if not select.select([self._terminal], [], [], left)[0]:
                return
            with contextlib.suppress(OSError):  # the terminal's other end is gone
                drawn = os.read(self._terminal, 65536)
                self.written += len(drawn)
                self._drawn = (self._drawn + drawn)[-KEPT:]
                continue
            return

    def read_until(self, text: str) -> None:
        """Read until the program has drawn this text."""
        until = time.monotonic() + PATIENCE
        while text not in self.text:
            self.read_for(LOOK)
            if self._has_ended() or time.monotonic() > until:
                raise SystemExit(f"the program has not drawn {text!r}, but:\n{self.text[-2000:]}")

    def leave(self) -> None:
        """Type ctrl+q, which no field takes, until the program has ended."""
        until = time.monotonic() + PATIENCE
        while not self._has_ended():
            os.write(self._terminal, QUIT)
            again = time.monotonic() + AGAIN
            while not self._has_ended() and time.monotonic() < again:
                self.read_for(LOOK)
            if time.monotonic() > until:
                os.kill(self.pid, signal.SIGKILL)
                raise SystemExit("the program does not end")
        os.close(self._terminal)

    def end(self, number: int) -> None:
        """Send the program a signal, and read until it has ended."""
        os.kill(self.pid, number)
        until = time.monotonic() + PATIENCE
        while not self._has_ended():
            self.read_for(LOOK)
            if time.monotonic() > until:
                raise SystemExit(f"the program does not end, but shows:\n{self.text[-2000:]}")
        os.close(self._terminal)

    def _has_ended(self) -> bool:
        if self.code is None:
            pid, status, used = os.wait4(self.pid, os.WNOHANG)
            if pid:
                self.code = os.waitstatus_to_exitcode(status)
                self._used = used.ru_utime + used.ru_stime
        return self.code is not None
