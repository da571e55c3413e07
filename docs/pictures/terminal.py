"""A terminal of its own for a program: what it draws stands in cells, as a person sees it."""

from __future__ import annotations

import codecs
import contextlib
import copy
import fcntl
import os
import pty
import re
import select
import signal
import struct
import termios
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pyte
from pyte.screens import Char

LOOK = 0.05
"""Seconds between two looks at what has been drawn."""
QUIET = 0.6
"""Seconds without anything new after which a screen is taken for drawn."""
PATIENCE = 180.0
"""Seconds after which a text that does not come is given up."""
SECOND_SCREEN = 1049
"""The mode in which programs draw that leave the terminal as it was."""
KEYBOARD_PROTOCOL = re.compile(r"\x1b\[[<>=]\d*u")
"""What Textual asks of keyboards, and pyte would print."""
ENVIRONMENT = {"TERM": "xterm-256color", "COLORTERM": "truecolor", "LANG": "C.UTF-8"}


class Cells(NamedTuple):
    """What a terminal shows at a time: the characters of each row, with their colours."""

    rows: tuple[tuple[Char, ...], ...]

    @property
    def text(self) -> str:
        """The characters alone, in lines."""
        return "\n".join("".join(cell.data for cell in row) for row in self.rows)


class _Screen(pyte.Screen):
    """A screen that a program may leave as it was: pyte has no second one."""

    _left: tuple[Any, Any] | None = None

    def set_mode(self, *modes: int, **kwargs: Any) -> None:
        """Begin a second screen, besides what pyte does."""
        super().set_mode(*modes, **kwargs)
        if SECOND_SCREEN in modes and kwargs.get("private"):
            self._left = copy.deepcopy((self.buffer, self.cursor))
            self.erase_in_display(2)

    def reset_mode(self, *modes: int, **kwargs: Any) -> None:
        """Show the first screen again, besides what pyte does."""
        super().reset_mode(*modes, **kwargs)
        if SECOND_SCREEN in modes and kwargs.get("private") and self._left:
            self.buffer, self.cursor = self._left
            self._left = None
            self.dirty.update(range(self.lines))


class Terminal:
    """A program, and the screen that it draws on."""

    def __init__(
        self,
        command: Sequence[str],
        folder: Path,
        size: tuple[int, int],
        variables: Mapping[str, str],
    ) -> None:
        """Start a program in a folder. `size`: columns and rows."""
        columns, rows = size
        self._screen = _Screen(columns, rows)
        self._stream = pyte.Stream(self._screen)
        # A character may come in two parts.
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._pid, self._terminal = pty.fork()
        if self._pid == 0:
            os.chdir(folder)
            # Textual takes these for the size of the terminal.
            os.environ |= {**ENVIRONMENT, **variables, "COLUMNS": str(columns), "LINES": str(rows)}
            os.execvp(command[0], list(command))
        fcntl.ioctl(self._terminal, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    @property
    def cells(self) -> Cells:
        """What the screen shows now."""
        columns = range(self._screen.columns)
        rows = (self._screen.buffer[row] for row in range(self._screen.lines))
        return Cells(tuple(tuple(row[column] for column in columns) for row in rows))

    @property
    def text(self) -> str:
        """The characters that it shows now."""
        return "\n".join(self._screen.display)

    def type(self, keys: str) -> None:
        """Type these keys."""
        os.write(self._terminal, keys.encode())

    def read_for(self, seconds: float) -> bool:
        """Draw what the program writes in this time. Returns whether it has written anything."""
        end = time.monotonic() + seconds
        has_drawn = False
        while (remaining := end - time.monotonic()) > 0:
            if not select.select([self._terminal], [], [], remaining)[0]:
                break
            try:
                written = os.read(self._terminal, 65536)
            except OSError:  # the program has ended
                break
            self._stream.feed(KEYBOARD_PROTOCOL.sub("", self._decoder.decode(written)))
            has_drawn = True
        return has_drawn

    def wait_for(self, pattern: str) -> None:
        """Draw until the screen shows what this regular expression matches, in small letters or
        not. Raises: TimeoutError."""
        end = time.monotonic() + PATIENCE
        while not re.search(pattern, self.text, re.IGNORECASE):
            self.read_for(LOOK)
            if time.monotonic() > end:
                raise TimeoutError(f"{pattern!r} has not come, but:\n{self.text}")

    def settle(self) -> None:
        """Draw until nothing new comes, or for a few seconds."""
        for _ in range(10):
            if not self.read_for(QUIET):
                return

    def close(self) -> None:
        """End the program."""
        with contextlib.suppress(ProcessLookupError):
            os.kill(self._pid, signal.SIGHUP)
        end = time.monotonic() + 20.0
        while os.waitpid(self._pid, os.WNOHANG)[0] == 0:
            self.read_for(LOOK)
            if time.monotonic() > end:
                os.kill(self._pid, signal.SIGKILL)
        os.close(self._terminal)
