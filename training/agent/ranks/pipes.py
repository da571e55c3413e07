"""Reads the pipes of ranks: the whole lines of one read become one `OutputText`."""

from __future__ import annotations

import codecs
import os
import re
import sys
import time
from collections.abc import Callable, Iterator

from training.agent.host.redaction import Redaction
from training.wire.events import OutputText

CHUNK = 1 << 16
"""Bytes of one read. A longer line is forwarded in pieces."""
MOST = 16 << 20
"""Bytes of one line that are forwarded. Who prints more means no line, and would fill the disks."""
STATES = 1.0
"""Seconds after which the states of a line that is written over, such as a progress bar, are
forwarded, as the line may end in hours."""
_LINE_END = re.compile(rb"[\r\n]")
_LEFT = 1 << 20
"""The most bytes that are read after a rank has exited. No pipe of an ordinary user holds more, but
a descendant may still write."""


class LineDecoder:
    """Cuts a stream of bytes into whole lines of text. Invalid UTF-8 becomes U+FFFD; CR LF ends a
    line like LF.

    No secret that `redaction` knows is cut in two: a piece of a line has them hidden, and ends
    before its last characters, which may be the beginning of one.

    Of a line, or of one state of a line that is written over, so many bytes or a little more are
    kept; how many are left out stands in their place.
    """

    def __init__(self, redaction: Redaction | None = None, most: int = sys.maxsize) -> None:
        self._redaction = redaction or Redaction()
        self._most = most
        # Bytes of the present line, and how many of them are left out.
        self._length = 0
        self._left_out = 0
        self._decode = codecs.getincrementaldecoder("utf-8")("replace").decode
        self._parts: list[str] = []
        self._size = 0

    def feed(self, block: bytes) -> str | None:
        """Return the lines that this block completes, joined by newlines; a piece of a line of more
        than CHUNK characters; or None."""
        whole, newline, rest = self._decode(self._shortened(block)).rpartition("\n")
        if newline:
            text = self._take(whole).removesuffix("\r")
        self._parts.append(rest)
        self._size += len(rest)
        if newline:
            return text
        return self.piece() if self._size >= CHUNK + self._redaction.longest else None

    def piece(self) -> str | None:
        """Return the present part of an incomplete line, without what may be the beginning of a
        secret."""
        text, rest = self._redaction.cut(self._take(""))
        self._restart_with(rest)
        return text or None

    def states(self) -> str | None:
        """Return the states so far of a line that its program writes over, but the present one."""
        text = "".join(self._parts)
        end = text.rfind("\r", 0, -1)  # the last character may be half a CR LF
        if end <= 0:
            return None
        self._restart_with(text[end:])
        return text[:end]

    def end(self) -> str | None:
        """Return the last line, if it has no newline."""
        return self._take(self._decode(self._remark(), True)) or None

    def _shortened(self, block: bytes) -> bytes:
        """Return the block without what is too much of the present line."""
        end = max(block.rfind(b"\n"), block.rfind(b"\r"))
        if end < 0 and self._length < self._most:
            self._length += len(block)
            return block
        if end < 0:
            if not self._left_out:  # what may be the beginning of a secret goes, too
                text, rest = self._redaction.cut(self._take(""))
                self._restart_with(text)
                self._left_out = len(rest.encode(errors="replace"))
            self._left_out += len(block)
            return b""
        self._length = len(block) - end - 1
        if not self._left_out:
            return block
        line_rest = _LINE_END.split(block, maxsplit=1)[0]
        self._left_out += len(line_rest)
        return self._remark() + block.removeprefix(line_rest)

    def _remark(self) -> bytes:
        """Say how much of the present line is left out, if anything is."""
        number = self._left_out
        self._left_out = 0
        return f" … {number:,} bytes left out".encode() if number else b""

    def _restart_with(self, text: str) -> None:
        self._parts = [text]
        self._size = len(text)

    def _take(self, more: str) -> str:
        text = "".join((*self._parts, more)).replace("\r\n", "\n")
        self._parts.clear()
        self._size = 0
        return text


class Pipe:
    """The reading end of one stream of a rank."""

    def __init__(
        self,
        fd: int,
        rank: int,
        stream: str,
        redaction: Redaction | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        os.set_blocking(fd, False)
        self._clock = clock
        self._reported_at = clock()
        self._fd = fd
        self._rank = rank
        self._stream = stream
        self._lines = LineDecoder(redaction, MOST)
        self.ended = False
        self.filled = False

    def fileno(self) -> int:
        """Return the descriptor, for a selector."""
        return self._fd

    def read(self) -> Iterator[OutputText]:
        """Read once. `ended` is true at the end of the pipe, `filled` if more may be waiting."""
        block = self._read_block()
        if block is None:
            return
        self.filled = len(block) >= CHUNK // 2
        text = self._lines.feed(block) if block else self._lines.end()
        now = self._clock()
        if text is None and b"\r" in block and now - self._reported_at >= STATES:
            text = self._lines.states()
        if text is not None:
            self._reported_at = now
        yield from self._events(text)

    def finish(self) -> Iterator[OutputText]:
        """Read the rest of the pipe after its rank has exited, and close it."""
        bytes_left = _LEFT
        while bytes_left > 0 and not self.ended:
            block = self._read_block()
            if block is None:
                break
            bytes_left -= len(block)
            yield from self._events(self._lines.feed(block))
        yield from self._events(self._lines.end() if bytes_left > 0 else self._lines.piece())
        os.close(self._fd)

    def _read_block(self) -> bytes | None:
        """Return the next bytes; none at the end, None if none are there yet."""
        try:
            block = os.read(self._fd, CHUNK)
        except BlockingIOError:
            return None
        self.ended = not block
        return block

    def _events(self, text: str | None) -> Iterator[OutputText]:
        if text is not None:
            yield OutputText(self._rank, self._stream, text)
