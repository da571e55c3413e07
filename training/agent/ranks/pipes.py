"""Lines out of pipes: what one read of a rank's stdout or stderr gives becomes one `Text` of whole
lines."""

from __future__ import annotations

import codecs
import os
from collections.abc import Iterator

from training.agent.host.redaction import Redaction
from training.wire.events import Text

CHUNK = 1 << 16
"""Bytes of one read, and the length at which a line that does not end is passed on in pieces."""
_LEFT = 1 << 20
"""Bytes read at most after a rank has exited: no pipe of an ordinary user holds more, but a
descendant may go on writing."""


class Lines:
    """Cuts a stream of bytes into whole lines of text. What is no UTF-8 shows as U+FFFD; CR LF ends
    a line like LF.

    No secret that `redaction` knows is cut in two: a piece of a line has them hidden, and ends
    before its last characters, which may be the beginning of one.
    """

    def __init__(self, redaction: Redaction | None = None) -> None:
        self._redaction = redaction or Redaction()
        self._decode = codecs.getincrementaldecoder("utf-8")("replace").decode
        self._parts: list[str] = []
        self._size = 0

    def feed(self, block: bytes) -> str | None:
        """The lines that this block completes, joined by newlines, or None; of a line of CHUNK
        characters it is a piece."""
        whole, newline, rest = self._decode(block).rpartition("\n")
        if newline:
            text = self._take(whole).removesuffix("\r")
        self._parts.append(rest)
        self._size += len(rest)
        if newline:
            return text
        return self.piece() if self._size >= CHUNK + self._redaction.longest else None

    def piece(self) -> str | None:
        """What has come of a line that goes on, but for what may be the beginning of a secret."""
        text, rest = self._redaction.cut(self._take(""))
        self._parts, self._size = [rest], len(rest)
        return text or None

    def end(self) -> str | None:
        """The last line, where it has no newline."""
        return self._take(self._decode(b"", True)) or None

    def _take(self, more: str) -> str:
        text = "".join((*self._parts, more)).replace("\r\n", "\n")
        self._parts.clear()
        self._size = 0
        return text


class Pipe:
    """The reading end of one stream of a rank."""

    def __init__(self, fd: int, rank: int, stream: str, redaction: Redaction | None = None) -> None:
        os.set_blocking(fd, False)
        self._fd, self._rank, self._stream = fd, rank, stream
        self._lines = Lines(redaction)
        self.ended = self.filled = False

    def fileno(self) -> int:
        """The descriptor, for a selector."""
        return self._fd

    def read(self) -> Iterator[Text]:
        """What one read gives. At the pipe's end `ended` turns true; `filled`: there was so much
        that more may be waiting."""
        try:
            block = os.read(self._fd, CHUNK)
        except BlockingIOError:
            return
        self.ended, self.filled = not block, len(block) >= CHUNK // 2
        text = self._lines.feed(block) if block else self._lines.end()
        if text is not None:
            yield Text(self._rank, self._stream, text)

    def finish(self) -> Iterator[Text]:
        """What is still in the pipe, now that its rank has exited, and the end of it."""
        left = _LEFT
        while left > 0 and not self.ended:
            try:
                block = os.read(self._fd, CHUNK)
            except BlockingIOError:
                break
            self.ended = not block
            left -= len(block)
            if block and (text := self._lines.feed(block)) is not None:
                yield Text(self._rank, self._stream, text)
        if (text := self._lines.end() if left > 0 else self._lines.piece()) is not None:
            yield Text(self._rank, self._stream, text)
        os.close(self._fd)
