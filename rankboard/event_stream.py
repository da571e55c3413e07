"""A command that prints the events of a run for as long as it lives, read by a thread."""

from __future__ import annotations

import atexit
import json
import os
import signal
import threading
from collections.abc import Callable, Sequence
from tempfile import TemporaryFile

from rankboard import commands
from rankboard.commands import JsonObject
from rankboard.errors import Mistake, RankboardError

STOP = signal.SIGUSR1
"""Asks a launcher to stop its run, as `rankboard stop` does."""
STOP_NOW = signal.SIGQUIT
LEAVE = signal.SIGTERM
"""Asks it to end: the run is stopped, or left if it is to be kept."""
PATIENCE = 30.0
"""Seconds that it has to end. Its hosts stop their ranks themselves if it is killed then."""


class EventStream:
    """A command that prints events, and the thread that reads them."""

    def __init__(self, words: Sequence[str], receive: Callable[[JsonObject], None]) -> None:
        """`receive` is called with each event, in the thread."""
        self.owner = os.getpid()
        """The process that has started it."""
        self._words = words
        self._receive = receive
        self._messages = TemporaryFile()  # noqa: SIM115 (the thread closes it)
        self._mistakes: list[Mistake] = []
        self._last_messages: list[str] = []
        self._signals: set[signal.Signals] = set()
        self._has_begun = threading.Event()
        self._has_ended = threading.Event()
        self._process = commands.start(words, self._messages)
        _live_streams.add(self)
        threading.Thread(target=self._read, name="rankboard", daemon=True).start()

    def wait_for_first(self) -> None:
        """Wait for the first event, or the end."""
        self._has_begun.wait()

    def wait(self, timeout: float | None = None) -> bool:
        """Wait for the end; return False if it has not come within that many seconds."""
        return self._has_ended.wait(timeout)

    @property
    def has_ended(self) -> bool:
        """Return True if the command has ended, and all that it printed was received."""
        return self._has_ended.is_set()

    def ask(self, request: signal.Signals) -> None:
        """Send a request to the command, unless another one was sent before: a second one would end
        it as it is. Only a stop can still be made quicker."""
        is_quicker = request is STOP_NOW and request not in self._signals
        if not self._signals or is_quicker:
            self._signals.add(request)
            self._process.send_signal(request)

    def end(self) -> None:
        """Ask the command to end, and wait for that."""
        self.ask(LEAVE)
        if not self.wait(PATIENCE):
            self._process.kill()
            self.wait()

    def make_error(self) -> RankboardError:
        """Make the error of a command that has ended without a result."""
        exit_code = self._process.returncode
        return commands.make_error(self._words, exit_code, self._mistakes, self._last_messages)

    def _read(self) -> None:
        assert self._process.stdout
        try:
            with self._process.stdout as lines:
                for line in lines:
                    self._take(json.loads(line))
        finally:
            self._process.wait()
            with self._messages as messages:
                self._last_messages = commands.read_messages(messages)
            _live_streams.discard(self)
            self._has_begun.set()
            self._has_ended.set()

    def _take(self, item: JsonObject) -> None:
        if item["event"] == "mistake":
            self._mistakes.append(commands.read_mistake(item))
        else:
            self._receive(item)
            self._has_begun.set()


_live_streams: set[EventStream] = set()


def _end_all() -> None:
    """End all commands when the interpreter exits."""
    # A process that was forked does not end those of its parent.
    streams = [stream for stream in _live_streams if stream.owner == os.getpid()]
    for stream in streams:  # all at once
        stream.ask(LEAVE)
    for stream in streams:
        stream.end()


atexit.register(_end_all)
