"""Read what a host answers to a command, within the limits of size and time."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from remote.format import size
from remote.jsonl import load
from remote.limits import Limits
from remote.transport import Channel
from training.wire.jsonl import most_values
from training.wire.line_cutter import LineCutter


class AnswerTooLong(Exception):
    """A host has answered more than the limits allow. The text fits behind the name of the host."""


@dataclass
class AnswerReader:
    """Turns the bytes of one answer into objects."""

    limits: Limits
    moment: float = 0.0
    """When the first bytes came."""
    size: int = 0
    values: int = 0

    def __post_init__(self) -> None:
        self._cutter = LineCutter(self.limits.line)

    def take(self, block: bytes) -> list[dict[str, Any]]:
        """Return the objects that the next bytes complete. Raises: AnswerTooLong, LineTooLong."""
        self.moment = self.moment or time.time()
        self.size += len(block)
        if self.size > self.limits.answer:
            raise AnswerTooLong(f"its answer is longer than {size(self.limits.answer)}")
        objects: list[dict[str, Any]] = []
        for line in self._cutter.feed(block):
            # Counted before the line is parsed: parsed, it may take far more memory.
            self.values += most_values(line)
            if self.values > self.limits.values:
                raise AnswerTooLong(f"its answer has more than {self.limits.values:,} values")
            # a failed parse takes microseconds, and there may be a million lines that are no JSON
            parsed = load(line) if line.lstrip().startswith(b"{") else None
            if parsed is not None:
                objects.append(parsed)
        return objects


def read_until_end(
    channel: Channel, silence_limit: float, seconds_in_all: float = math.inf
) -> Iterator[bytes]:
    """Yield all that comes, up to the end of the channel.

    Time runs only while a block is asked for. Raises: TimeoutError, if nothing comes for
    `silence_limit` seconds, or the end does not come within `seconds_in_all` seconds.
    """
    silence_watch = _SilenceWatch(channel, silence_limit, seconds_in_all)
    try:
        while block := silence_watch.read():
            yield block
    finally:
        silence_watch.over.set()


class _SilenceWatch:
    """Closes a channel that has gone silent. A thread looks at the time, as `read` just waits."""

    def __init__(self, channel: Channel, silence_limit: float, seconds_in_all: float) -> None:
        self._channel = channel
        self._patience = silence_limit
        self._in_all = seconds_in_all
        self._end = time.monotonic() + seconds_in_all
        self._due = math.inf
        self._late = ""
        self.over = threading.Event()
        if silence_limit < math.inf:
            threading.Thread(target=self._watch, name="patience", daemon=True).start()

    def read(self) -> bytes:
        """Return the next bytes; none at the end. Raises: TimeoutError."""
        self._due = time.monotonic() + self._patience
        block = self._channel.read()
        self._due = math.inf
        if self._late:
            raise TimeoutError(self._late)
        return block

    def _watch(self) -> None:
        while not self.over.wait(self._pause()):
            now = time.monotonic()
            if now >= self._due:
                self._late = f"no answer within {self._patience:g} s"
            elif now >= self._end:
                self._late = f"no end of its answer within {self._in_all:g} s"
            if self._late:
                # Only this ends the blocked read of the other thread.
                self._channel.close()
                return

    def _pause(self) -> float:
        # a read that begins later is not due before this pause is over
        longest_pause = min(self._patience, threading.TIMEOUT_MAX)
        remaining_seconds = min(self._due, self._end) - time.monotonic()
        return max(0.0, min(remaining_seconds, longest_pause))
