"""Reads what the other end of a transfer sends: lines of JSON, and the bytes of files between
them."""

from __future__ import annotations

import errno
import sys
from collections.abc import Callable, Iterator
from typing import Any

from training.wire.jsonl import load, most_values


class TransferReader:
    """Lines and bytes out of what `read` gives (b"" at the end). A line may have `longest` bytes,
    and `values` values in its JSON."""

    def __init__(
        self, read: Callable[[], bytes], longest: int = sys.maxsize, values: int = sys.maxsize
    ) -> None:
        self._read = read
        self._longest = longest
        self._values = values
        self._held = bytearray()

    def line(self) -> dict[str, Any]:
        """Return the object of the next line. Raises: OSError, at the end, and if it is no object
        or too long."""
        searched = 0
        while (end := self._held.find(b"\n", searched)) < 0:
            searched = len(self._held)
            if searched > self._longest:
                raise OSError(
                    errno.EMSGSIZE, f"the other end sent a line longer than {self._longest:,} bytes"
                )
            self._held += self._more()
        line = bytes(self._held[:end])
        del self._held[: end + 1]
        if most_values(line) > self._values:
            raise OSError(
                errno.EMSGSIZE, f"the other end sent a line with more than {self._values:,} values"
            )
        message = load(line)
        if message is None:
            raise OSError(
                errno.EPROTO, f"the other end said {line[:80]!r}, which this version does not know"
            )
        return message

    def take(self, size: int) -> Iterator[bytes]:
        """Yield the next so many bytes. Raises: OSError, at the end."""
        while size:
            data = bytes(self._held) or self._more()
            self._held[:] = data[size:]
            data = data[:size]
            size -= len(data)
            yield data

    def _more(self) -> bytes:
        data = self._read()
        if data:
            return data
        raise ConnectionAbortedError(errno.ECONNABORTED, "the line broke")
