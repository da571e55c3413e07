"""Reads the pipes of ranks: the whole lines of one read become one `OutputText`."""

from __future__ import annotations

import codecs
import fcntl
import os
import re
import sys
import termios
import time
from array import array
from collections.abc import Callable, Iterator

from training.agent.host.redaction import Redaction
from training.wire.host_events import OutputText

CHUNK = 1 << 16
"""Bytes of one read. A longer line is forwarded in pieces."""
FILLING = CHUNK // 2
"""A pipe holds 64 KiB, as much as one read: from this on its rank may soon have to wait."""
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
        self._most_bytes = most
        # Bytes of the present line, and how many of them are left out.
        self._line_bytes = 0
        self._left_out = 0
        self._decode_bytes = codecs.getincrementaldecoder("utf-8")("replace").decode
        self._text_parts: list[str] = []
        self._text_size = 0

    def feed(self, block: bytes) -> str | None:
        """Return the lines that this block completes, joined by newlines; a piece of a line of more
        than CHUNK characters; or None."""
        whole_lines, newline, incomplete_line = self._decode_bytes(
            self._shorten_line(block)
        ).rpartition("\n")
        if newline:
            text = self._take_text(whole_lines).removesuffix("\r")
        self._text_parts.append(incomplete_line)
        self._text_size += len(incomplete_line)
        if newline:
            return text
        return self.piece() if self._text_size >= CHUNK + self._redaction.longest else None

    def piece(self) -> str | None:
        """Return the present part of an incomplete line, without what may be the beginning of a
        secret."""
        text, possible_secret = self._redaction.cut(self._take_text(""))
        self._restart_with(possible_secret)
        return text or None

    def states(self) -> str | None:
        """Return the states so far of a line that its program writes over, but the present one."""
        text = "".join(self._text_parts)
        present_start = text.rfind("\r", 0, -1)  # the last character may be half a CR LF
        if present_start <= 0:
            return None
        self._restart_with(text[present_start:])
        return text[:present_start]

    def end(self) -> str | None:
        """Return the last line, if it has no newline."""
        return self._take_text(self._decode_bytes(self._describe_left_out(), True)) or None

    def _shorten_line(self, block: bytes) -> bytes:
        """Return the block without what is too much of the present line."""
        line_end = max(block.rfind(b"\n"), block.rfind(b"\r"))
        if line_end < 0 and self._line_bytes < self._most_bytes:
            self._line_bytes += len(block)
            return block
        if line_end < 0:
            if not self._left_out:  # what may be the beginning of a secret goes, too
                text, possible_secret = self._redaction.cut(self._take_text(""))
                self._restart_with(text)
                self._left_out = len(possible_secret.encode(errors="replace"))
            self._left_out += len(block)
            return b""
        self._line_bytes = len(block) - line_end - 1
        if not self._left_out:
            return block
        line_rest = _LINE_END.split(block, maxsplit=1)[0]
        self._left_out += len(line_rest)
        return self._describe_left_out() + block.removeprefix(line_rest)

    def _describe_left_out(self) -> bytes:
        """Say how much of the present line is left out, if anything is."""
        left_out_bytes = self._left_out
        self._left_out = 0
        return f" … {left_out_bytes:,} bytes left out".encode() if left_out_bytes else b""

    def _restart_with(self, text: str) -> None:
        self._text_parts = [text]
        self._text_size = len(text)

    def _take_text(self, last_part: str) -> str:
        text = "".join((*self._text_parts, last_part)).replace("\r\n", "\n")
        self._text_parts.clear()
        self._text_size = 0
        return text


class Pipe:
    """The reading end of one stream of a rank, or (`is_of_watch`) of what its watch reports."""

    def __init__(
        self,
        descriptor: int,
        rank: int,
        stream: str,
        redaction: Redaction | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        os.set_blocking(descriptor, False)
        self._clock = clock
        self._reported_at = clock()
        self._descriptor = descriptor
        self._rank = rank
        self._stream = stream
        self._line_decoder = LineDecoder(redaction, MOST)
        self.is_of_watch = False
        self.ended = False
        self.filled = False

    def fileno(self) -> int:
        """Return the descriptor, for a selector."""
        return self._descriptor

    @property
    def is_filling(self) -> bool:
        """Return True if so much is waiting that its rank may soon wait, too."""
        waiting_bytes = array("i", [0])
        fcntl.ioctl(self._descriptor, termios.FIONREAD, waiting_bytes)
        return waiting_bytes[0] >= FILLING

    def read(self) -> Iterator[OutputText]:
        """Read once. `ended` is true at the end of the pipe, `filled` if more may be waiting."""
        block = self._read_block()
        if block is None:
            return
        self.filled = len(block) >= FILLING
        text = self._line_decoder.feed(block) if block else self._line_decoder.end()
        now = self._clock()
        if text is None and b"\r" in block and now - self._reported_at >= STATES:
            text = self._line_decoder.states()
        if text is not None:
            self._reported_at = now
        yield from self._output_events(text)

    def finish(self) -> Iterator[OutputText]:
        """Read the rest of the pipe after its rank has exited, and close it."""
        bytes_left = _LEFT
        while bytes_left > 0 and not self.ended:
            block = self._read_block()
            if block is None:
                break
            bytes_left -= len(block)
            yield from self._output_events(self._line_decoder.feed(block))
        yield from self._output_events(
            self._line_decoder.end() if bytes_left > 0 else self._line_decoder.piece()
        )
        os.close(self._descriptor)

    def _read_block(self) -> bytes | None:
        """Return the next bytes; none at the end, None if none are there yet."""
        try:
            block = os.read(self._descriptor, CHUNK)
        except BlockingIOError:
            return None
        self.ended = not block
        return block

    def _output_events(self, text: str | None) -> Iterator[OutputText]:
        if text is not None:
            yield OutputText(self._rank, self._stream, text)
