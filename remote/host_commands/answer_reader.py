"""Reads what an errand answers, within the limits of size and time."""

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
    """A host has answered more than the limits allow. The text says so, and fits behind the name of
    the host."""


@dataclass
class AnswerReader:
    """The objects of one answer, out of its bytes. `moment` is when the first bytes came."""

    limits: Limits
    moment: float = 0.0
    size: int = 0
    values: int = 0

    def __post_init__(self) -> None:
        self._cutter = LineCutter(self.limits.line)

    def take(self, block: bytes) -> list[dict[str, Any]]:
        """The objects that the next bytes complete. Raises: AnswerTooLong, LineTooLong."""
        self.moment = self.moment or time.time()
        self.size += len(block)
        if self.size > self.limits.answer:
            raise AnswerTooLong(f"its answer is longer than {size(self.limits.answer)}")
        objects: list[dict[str, Any]] = []
        for line in self._cutter.feed(block):
            self.values += most_values(line)
            if self.values > self.limits.values:
                raise AnswerTooLong(f"its answer has more than {self.limits.values:,} values")
            # a failed parse takes microseconds, and there may be a million lines that are no JSON
            if line.lstrip().startswith(b"{") and (found := load(line)) is not None:
                objects.append(found)
        return objects


def read_until_end(channel: Channel, patience: float, in_all: float = math.inf) -> Iterator[bytes]:
    """All that comes, up to the end of the channel. Raises: TimeoutError, where nothing comes for
    `patience` seconds, or the end does not within `in_all` seconds. While nobody asks for more,
    patience does not wear out."""
    watch = _Watch(channel, patience, in_all)
    try:
        while block := watch.wait():
            yield block
    finally:
        watch.over.set()


class _Watch:
    """Closes a channel that has gone silent. A thread of its own looks at the time."""

    def __init__(self, channel: Channel, patience: float, in_all: float) -> None:
        self._channel = channel
        self._patience = patience
        self._in_all = in_all
        self._end = time.monotonic() + in_all
        self._due = math.inf
        self._late = ""
        self.over = threading.Event()
        if patience < math.inf:
            threading.Thread(target=self._look, name="patience", daemon=True).start()

    def wait(self) -> bytes:
        """The next bytes; none at the end. Raises: TimeoutError."""
        self._due = time.monotonic() + self._patience
        block = self._channel.read()
        self._due = math.inf
        if self._late:
            raise TimeoutError(self._late)
        return block

    def _look(self) -> None:
        pause = min(
            self._patience, threading.TIMEOUT_MAX
        )  # a due that comes later is not earlier than the next look
        while not self.over.wait(
            max(0.0, min(self._due - time.monotonic(), self._end - time.monotonic(), pause))
        ):
            now = time.monotonic()
            if now >= self._due:
                self._late = f"no answer within {self._patience:g} s"
            elif now >= self._end:
                self._late = f"no end of its answer within {self._in_all:g} s"
            if self._late:
                self._channel.close()
                return
