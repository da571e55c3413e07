"""Ends this process at a second signal, where it has not answered to the first one.

Python calls a handler once the main thread gets on. A function in C that holds the interpreter, or
a loop without an end, keeps it from that, and then a signal that has a handler ends nothing. So a
small process watches from outside, with no interpreter to share:

- Python's own handler in C writes the number of each signal into a pipe (`signal.set_wakeup_fd`),
  also where no handler in Python can run. The watching process reads the pipe.
- At each signal that should end this process, it asks by `QUESTION` whether the work goes on, and
  whoever works answers through the same pipe. An answer forgives all signals so far: they have been
  heard, and mean what they always mean.
- After two signals, and `PATIENCE` without an answer, it kills this process.

In a dashboard, Ctrl+C and Ctrl+\\ are keys and not signals. Keys that nobody takes from the
terminal are read by the watching process once there is no answer. It is this file, run as a program
of its own; it ends with the process that it watches.
"""

from __future__ import annotations

import os
import re
import select
import signal
import sys
import termios
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGQUIT)
"""The signals of which a second one ends this process."""
QUESTION = signal.SIGUSR2
"""How the watching process asks whether the work goes on."""
ANSWER = 0
FAREWELL = 255
"""What this process writes into the pipe; other bytes are numbers of signals."""
PATIENCE = 0.8
"""Seconds without an answer after which two signals end this process."""
QUIET = 0.2
"""Seconds after which keys that nobody has taken are a reason to ask."""
LOOK = 0.05
"""Seconds between two looks while an answer is missing, or keys are not taken."""


class Watched:
    """What the watching process knows this one by. `answer` is to be called as the work goes on.
    `on_asked` is called in the main thread once somebody asks."""

    def __init__(self, pipe: int) -> None:
        self._pipe = pipe
        self._is_asked = False
        self.on_asked: Callable[[], object] | None = None

    def answer(self) -> None:
        """Tell that the work goes on, if that was asked."""
        if self._is_asked:
            self._is_asked = False
            self._write(ANSWER)

    def ask(self, *_: object) -> None:
        """Take the question: this is a handler of signals."""
        self._is_asked = True
        if self.on_asked:
            self.on_asked()

    def end(self) -> None:
        """Tell that nothing needs to be watched any more."""
        self._write(FAREWELL)

    def _write(self, byte: int) -> None:
        with suppress(OSError):  # a full pipe: nobody reads it
            os.write(self._pipe, bytes([byte]))


@contextmanager
def ended_by_second_signal(*, has_keys: bool = False) -> Iterator[Watched]:
    """Have this process ended by a second signal without an answer, also while the interpreter is
    held. To be entered in the main thread. `has_keys`: a dashboard reads keys from the terminal on
    stdin."""
    read_end, write_end = os.pipe()  # both stay open here: writing never fails for want of a reader
    os.set_blocking(write_end, False)
    watched = Watched(write_end)
    before = signal.signal(QUESTION, watched.ask)
    watching = _start(read_end, has_keys)
    fd_before = signal.set_wakeup_fd(write_end, warn_on_full_buffer=False)
    try:
        yield watched
    finally:
        signal.set_wakeup_fd(fd_before)
        watched.end()
        if watching:
            with suppress(ChildProcessError):
                os.waitpid(watching, 0)
        signal.signal(QUESTION, before)
        os.close(read_end)
        os.close(write_end)


def _start(pipe: int, has_keys: bool) -> int:
    """Start the watching process, in a session of its own, which Ctrl+C does not reach. Return its
    number; 0 where none can be started, as on macOS, and nothing is watched."""
    if not hasattr(os, "pidfd_open"):
        return 0
    # This file needs only the standard library: neither site packages nor paths of the user.
    words = [sys.executable, "-I", "-S", __file__, str(os.getpid())]
    if has_keys:
        words.append("keys")
    places = [
        (os.POSIX_SPAWN_DUP2, 0 if has_keys else 2, TERMINAL),
        (os.POSIX_SPAWN_DUP2, pipe, PIPE),
    ]
    # Python itself may not start without it, if its library lies in another place.
    needed = {name: os.environ[name] for name in ("LD_LIBRARY_PATH",) if name in os.environ}
    with suppress(OSError):  # it gets no variables beside: some are secret
        return os.posix_spawn(sys.executable, words, needed, file_actions=places, setsid=True)
    return 0


# The watching process -----------------------------------------------------------------------------

PIPE = 0
TERMINAL = 1
STDERR = 2
"""Its descriptors."""
KEYS = re.compile(rb"\x03|\x1c|\x1b\[(?:99|92);5u")
"""Ctrl+C and Ctrl+\\, as terminals send them to a dashboard."""
LEAVE = (
    b"\x1b[?1000l\x1b[?1003l\x1b[?1015l\x1b[?1006l\x1b[?1004l\x1b[?2004l\x1b[?2048l\x1b[?7h\x1b[<u"
    b"\x1b[?1049l"
)
"""Ends what a dashboard has asked of its terminal: mouse, focus, paste, keys, the other screen."""
SHOW_CURSOR = b"\x1b[?25h"
MESSAGE = (
    b"rankboard: two signals were not answered, and ended it at once; rankboard ps shows what runs "
    b"on its hosts\n"
)


class Watcher:
    """Watches a process by its number, and the keys of its dashboard where it `has_keys`."""

    def __init__(self, process: int, has_keys: bool) -> None:
        self._process = process
        self._has_keys = has_keys
        self._handle = os.pidfd_open(process)
        self._signals = 0
        self._asked_at: float | None = None
        self._keys_since: float | None = None

    def watch(self) -> None:
        """Watch the process until its end, or until it says farewell; end it where it is due."""
        while True:
            ready = self._wait()
            if self._handle in ready or (PIPE in ready and not self._hear(os.read(PIPE, 4096))):
                return
            if self._has_keys:
                self._look_at_keys(TERMINAL in ready)
            if self._signals >= 2 and self._is_silent():
                self._end()
                return

    def _wait(self) -> list[int]:
        """Wait until there is something to read, or to decide."""
        sources = [self._handle, PIPE]
        # Keys that the process has not taken yet would end every wait at once.
        if self._has_keys and (self._keys_since is None or self._is_silent()):
            sources.append(TERMINAL)
        is_pending = self._asked_at is not None or self._keys_since is not None
        return select.select(sources, [], [], LOOK if is_pending else None)[0]

    def _hear(self, data: bytes) -> bool:
        """Take in bytes of the pipe. Return False where nothing is to be watched any more."""
        for byte in data:
            if byte == ANSWER:
                self._signals = 0
                self._asked_at = None
                self._keys_since = None
            elif byte in ENDING:
                self._signals += 1
                self._ask()
        return bool(data) and FAREWELL not in data

    def _ask(self) -> None:
        if self._asked_at is None:
            self._asked_at = time.monotonic()
            with suppress(ProcessLookupError):
                signal.pidfd_send_signal(self._handle, QUESTION)

    def _is_silent(self) -> bool:
        """Return whether a question has had no answer for too long."""
        return self._asked_at is not None and time.monotonic() - self._asked_at >= PATIENCE

    def _look_at_keys(self, are_there: bool) -> None:
        """Ask where keys are not taken from the terminal; count them where nobody answers."""
        now = time.monotonic()
        if self._keys_since is None:
            self._keys_since = now if are_there else None
        elif self._asked_at is None and now >= self._keys_since + QUIET:
            self._keys_since = None
            if select.select([TERMINAL], [], [], 0)[0]:  # they are still there
                self._keys_since = now
                self._ask()
        elif self._is_silent() and are_there:
            if self._reads_keys():
                self._signals += len(KEYS.findall(self._read_keys()))
            else:  # stopped, or in the background: the keys are for somebody else
                time.sleep(QUIET)

    def _read_keys(self) -> bytes:
        data = b""
        with suppress(OSError):
            data = os.read(TERMINAL, 4096)
        self._has_keys = bool(data)  # it is gone otherwise
        return data

    def _reads_keys(self) -> bool:
        """Return whether keys are for the process: it is in the foreground, and takes each as it is
        typed."""
        try:
            line = Path(f"/proc/{self._process}/stat").read_text()
            modes = termios.tcgetattr(TERMINAL)[3]
        except (OSError, termios.error):
            self._has_keys = False
            return False
        state, _, group, _, _, foreground = line.rpartition(")")[2].split()[:6]
        # T and t: stopped, by a signal or by a debugger. Without ISIG, Ctrl+C comes as a key.
        return state not in "Tt" and group == foreground and not modes & termios.ISIG

    def _end(self) -> None:
        """Kill the process; leave the terminal as a person needs it."""
        with suppress(ProcessLookupError):
            signal.pidfd_send_signal(self._handle, signal.SIGKILL)
        # Not sooner than its end, since it could still change the terminal.
        select.select([self._handle], [], [])
        with suppress(OSError, termios.error):
            if self._has_keys:
                os.write(TERMINAL, LEAVE)
                modes = termios.tcgetattr(TERMINAL)
                # These are the modes that Textual switches off for its keys.
                modes[0] |= termios.ICRNL | termios.IXON
                modes[3] |= termios.ECHO | termios.ICANON | termios.IEXTEN | termios.ISIG
                termios.tcsetattr(TERMINAL, termios.TCSANOW, modes)
            if os.isatty(STDERR):
                os.write(STDERR, SHOW_CURSOR)
            os.write(STDERR, MESSAGE)


def main() -> None:
    """Watch the process that has started this one."""
    # The watcher must outlive the signals that it counts.
    for number in (*ENDING, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    os.chdir("/")
    process = int(sys.argv[1])
    # If the other process has ended before, its number may soon be that of a stranger.
    if os.getppid() == process:
        Watcher(process, "keys" in sys.argv[2:]).watch()


if __name__ == "__main__":
    main()
