"""A launcher that hangs, whatever holds its interpreter, ends at the second signal."""

from __future__ import annotations

import itertools
import os
import pty
import select
import signal
import subprocess
import sys
import termios
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from tests.kit.launches import left_behind
from tests.kit.wait import wait
from training.agent.host.system import LINUX
from tui.app.second_signal import ENDING, PATIENCE, ended_by_second_signal

pytestmark = pytest.mark.skipif(not LINUX, reason="needs /proc")
PROGRAM = """
import ctypes, os, re, signal, sys, threading, time, tty
from tui.app.second_signal import ENDING, ended_by_second_signal

kind = sys.argv[1]
seen = []
for number in ENDING:
    signal.signal(number, lambda number, _: seen.append(number))

def hang():
    os.write(1, b"ready\\n")
    re.match("(?:a|aa)+$", "a" * 90 + "b")

if kind == "keys":
    tty.setraw(0)
with ended_by_second_signal(has_keys=kind == "keys") as watched:
    if kind == "thread":
        watched.on_asked = watched.answer
        threading.Thread(target=hang, daemon=True).start()
        while True:
            time.sleep(1)
    elif kind == "held":
        mutex, lock = ctypes.create_string_buffer(64), ctypes.PyDLL(None).pthread_mutex_lock
        os.write(1, b"ready\\n")
        lock(mutex)
        lock(mutex)  # never returns, and holds the interpreter
    elif kind == "loop":
        os.write(1, b"ready\\n")
        while True:
            pass
    elif kind == "well":
        os.write(1, b"ready\\n")
        while len(seen) < 2:
            watched.answer()
            time.sleep(0.01)
        deadline = time.monotonic() + float(sys.argv[2])
        while time.monotonic() < deadline:
            watched.answer()
            time.sleep(0.01)
    else:
        hang()
print(*sorted(seen), "ended well")
"""
BUSY = 0.1
"""Seconds of its processor after which a process is taken to hang."""


class Hanging:
    """A process that hangs in one of the ways of `PROGRAM`, or does not."""

    def __init__(self, *words: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", PROGRAM, *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
        assert self.process.stdout
        assert self.process.stdout.readline() == b"ready\n"
        self.watching = psutil.Process(self.process.pid).children()

    def wait_until_busy(self) -> None:
        """Wait until it can only be in the call that holds it."""
        wait_until_busy(self.process.pid)

    def send(self, *numbers: signal.Signals) -> None:
        """Send each once the one before has arrived: two of one number may be one else."""
        for number in numbers:
            wait(lambda: not _has_pending(self.process.pid), "a signal that has arrived")
            self.process.send_signal(number)

    def end(self) -> tuple[int, str, str]:
        """Its exit code, and what it has printed; the process that watched it is gone."""
        out, err = self.process.communicate(timeout=30)
        wait(lambda: not any(map(_is_alive, self.watching)), "the end of its watcher")
        return self.process.returncode, out.decode(), err.decode()


def _is_alive(process: psutil.Process) -> bool:
    with suppress(psutil.NoSuchProcess):
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    return False


def _has_pending(pid: int) -> bool:
    status = Path(f"/proc/{pid}/status").read_text()
    words = [line.split()[1] for line in status.splitlines() if line.startswith("ShdPnd:")]
    return any(int(word, 16) for word in words)


def wait_until_busy(pid: int) -> None:
    process = psutil.Process(pid)
    before = process.cpu_times().user
    wait(lambda: process.cpu_times().user > before + BUSY, "a process that hangs")


@pytest.fixture
def begin() -> Iterator[Callable[..., Hanging]]:
    """Begins a process that hangs, or does not; none is left after the test."""
    begun: list[Hanging] = []

    def begin(*words: str) -> Hanging:
        begun.append(Hanging(*words))
        return begun[-1]

    yield begin
    for one in begun:
        one.process.kill()
        one.process.communicate()


def test_a_second_signal_ends_a_process_that_hangs(begin: Callable[..., Hanging]) -> None:
    """Any two of them; the first one ends nothing."""
    pairs = list(itertools.product(ENDING, repeat=2))
    hanging = [begin("held") for _ in pairs]
    alone = begin("held")
    assert all(one.watching for one in (*hanging, alone))
    alone.send(signal.SIGTERM)
    for one, pair in zip(hanging, pairs, strict=True):
        one.send(*pair)
    for one in hanging:
        code, _, said = one.end()
        assert code == -signal.SIGKILL
        assert said == (
            "rankboard: two signals were not answered, and ended it at once; rankboard ps shows "
            "what runs on its hosts\n"
        )
    assert alone.process.poll() is None
    alone.process.kill()
    assert alone.end()[2] == "", "who watched it has said nothing, and is gone"


@pytest.mark.parametrize("kind", ["main", "thread", "loop"])
def test_nor_does_it_matter_what_hangs(kind: str, begin: Callable[..., Hanging]) -> None:
    """A function in C that has handlers called, in a thread one that does not, or a loop."""
    one = begin(kind)
    one.wait_until_busy()
    one.send(signal.SIGINT, signal.SIGTERM)
    assert one.end()[0] == -signal.SIGKILL


@pytest.mark.parametrize("numbers", [(signal.SIGINT, signal.SIGTERM), (signal.SIGQUIT,) * 2])
def test_signals_of_a_process_that_works_are_its_own(
    numbers: tuple[signal.Signals, ...], begin: Callable[..., Hanging]
) -> None:
    """It goes on for longer than one that hangs would."""
    one = begin("well", str(PATIENCE + 0.3))
    one.send(*numbers)
    code, out, said = one.end()
    assert (code, said) == (0, "")
    assert out == f"{' '.join(repr(number.value) for number in sorted(numbers))} ended well\n"


def test_without_the_calls_of_linux_nothing_is_watched(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(os, "pidfd_open")
    before = psutil.Process().children()
    with ended_by_second_signal() as watched:
        assert psutil.Process().children() == before
        watched.answer()


# Keys of a dashboard ------------------------------------------------------------------------------


class Terminal:
    """A program in a terminal of its own."""

    def __init__(self, folder: Path, *words: str) -> None:
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            os.chdir(folder)
            os.environ["TERM"] = "xterm-256color"
            os.execv(sys.executable, [sys.executable, *words])
        self.shown = b""
        self.code: int | None = None

    def shows(self, text: bytes) -> bool:
        """Whether this text has been shown since the beginning."""
        while select.select([self.fd], [], [], 0)[0]:
            try:
                self.shown += os.read(self.fd, 1 << 16)
            except OSError:  # nobody has it open
                break
        return text in self.shown

    def press(self, keys: bytes) -> None:
        os.write(self.fd, keys)

    def has_ended(self) -> bool:
        """Whether the program has, what it shows being taken."""
        self.shows(b"")
        if self.code is None:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            self.code = os.waitstatus_to_exitcode(status) if pid else None
        return self.code is not None

    def close(self) -> None:
        if not self.has_ended():
            os.kill(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)
        os.close(self.fd)


@pytest.fixture
def terminals() -> Iterator[list[Terminal]]:
    """Those of a test, closed after it."""
    opened: list[Terminal] = []
    yield opened
    for one in opened:
        one.close()


@pytest.mark.parametrize("keys", [b"\x03\x03", b"\x03\x1c", b"\x1b[99;5u\x1b[99;5u"])
def test_keys_that_nobody_takes_are_signals(
    keys: bytes, terminals: list[Terminal], tmp_path: Path
) -> None:
    """The terminal is one for a person again."""
    program = tmp_path / "program.py"
    program.write_text(f"import sys; sys.path.insert(0, {os.getcwd()!r})\n{PROGRAM}")
    terminal = Terminal(tmp_path, str(program), "keys")
    terminals.append(terminal)
    wait(lambda: terminal.shows(b"ready"), "a program in a terminal")
    wait_until_busy(terminal.pid)
    terminal.press(b"q" + keys)
    wait(terminal.has_ended, "the end of the program")
    assert terminal.code == -signal.SIGKILL
    wait(lambda: terminal.shows(b"two signals were not answered"), "the message")
    assert terminal.shows(b"\x1b[?1049l")
    wanted = termios.ISIG | termios.ECHO | termios.ICANON
    assert termios.tcgetattr(terminal.fd)[3] & wanted == wanted


# The launcher -------------------------------------------------------------------------------------

LAUNCHER = """
import os, re, sys
sys.path.insert(0, {root!r})
from remote.run.output.script_expander import Expander
from training.wire.events import OutputText
take = Expander.__call__

def hang(self, record):
    if isinstance(record.event, OutputText) and "hang" in record.event.text:
        open("hanging", "w").close()
        re.match("(?:a|aa)+$", "a" * 90 + "b")
    return take(self, record)

Expander.__call__ = hang
sys.argv = ["rankboard", *sys.argv[1:]]
from tui import main
main()
"""
SCRIPT = "print('hang', flush=True); import time; time.sleep(1000)"


@pytest.fixture
def launcher(tmp_path: Path) -> Iterator[Path]:
    """A launcher that hangs as soon as a rank has said so, and the script that does; none of its
    ranks is left."""
    path = tmp_path / "launcher.py"
    path.write_text(LAUNCHER.format(root=os.getcwd()))
    (tmp_path / "train.py").write_text(SCRIPT)
    yield path
    wait(lambda: not left_behind(tmp_path), "the end of all that it has started")


def test_a_launcher_that_hangs_ends_and_its_ranks_end(launcher: Path) -> None:
    folder = launcher.parent
    words = ("--run", "--local", "1", "--no-watch", "--", "train.py")
    with subprocess.Popen(
        [sys.executable, str(launcher), *words], cwd=folder, stderr=subprocess.PIPE, text=True
    ) as process:
        try:
            wait(lambda: (folder / "hanging").exists(), "a launcher that hangs")
            wait_until_busy(process.pid)
            process.send_signal(signal.SIGINT)
            process.send_signal(signal.SIGTERM)  # of another number, so that they cannot be one
            _, said = process.communicate(timeout=30)
        finally:
            process.kill()
    assert process.returncode == -signal.SIGKILL
    assert "two signals were not answered" in said


def test_ctrl_c_ends_a_dashboard_that_hangs(launcher: Path, terminals: list[Terminal]) -> None:
    folder = launcher.parent
    words = ("--local", "1", "--no-watch", "--", "train.py")
    terminal = Terminal(folder, str(launcher), *words)
    terminals.append(terminal)
    with suppress(OSError):
        termios.tcsetwinsize(terminal.fd, (40, 120))
    wait(lambda: terminal.shows(b"") and (folder / "hanging").exists(), "a dashboard that hangs")
    wait_until_busy(terminal.pid)
    terminal.press(b"\x03")
    terminal.press(b"\x03")
    wait(terminal.has_ended, "the end of the dashboard")
    assert terminal.code == -signal.SIGKILL
    wait(lambda: terminal.shows(b"two signals were not answered"), "the message")
