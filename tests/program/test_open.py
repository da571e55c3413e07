"""`rankboard` alone and `rankboard open`: the real program at a terminal."""

from __future__ import annotations

import contextlib
import os
import pty
import re
import select
import signal
import termios
from collections.abc import Iterator
from pathlib import Path

import pyte
import pytest

from tests.kit.histories import History, plan
from tests.kit.launches import RANKBOARD
from tests.kit.recorded import recorded
from tests.kit.wait import wait
from training.wire.enums import EndReason
from training.wire.host_events import AgentEnded, Exited
from training.wire.rank_events import Finished

SEQUENCE = re.compile(rb"\x1b\[[0-9;?>=]*[A-Za-z]|\x1b[()][A-Z0-9]|\x1b[=>]|\x1b\][^\x07]*\x07")

KEYBOARD_PROTOCOL = re.compile(rb"\x1b\[[<>=]\d*u")
"""What Textual asks of keyboards, and pyte would print."""


class Terminal:
    """The program at a terminal of 80 x 24; `text` is all that it has written since the last key,
    without what moves the cursor."""

    def __init__(self, folder: Path, *words: str) -> None:
        self.text = self.raw = b""
        self.screen = pyte.Screen(80, 24)
        self.stream = pyte.ByteStream(self.screen)
        self.pid, self.file = pty.fork()
        if not self.pid:  # pragma: no cover - another process
            os.chdir(folder)
            os.environ |= {"TERM": "xterm-256color", "COLUMNS": "80", "LINES": "24"}
            os.execv(RANKBOARD, [RANKBOARD, *words])

    def shows(self, *words: str) -> bool:
        """Whether all of these stand on the screen. It is drawn by changed cells, so that a text
        may be written in parts."""
        with contextlib.suppress(OSError):  # it has ended, and all is read
            while select.select([self.file], [], [], 0)[0]:
                written = os.read(self.file, 65536)
                if not written:  # the same on macOS
                    break
                self.raw += written
                self.stream.feed(KEYBOARD_PROTOCOL.sub(b"", written))
        self.text = SEQUENCE.sub(b"", self.raw)
        shown = "\n".join(self.screen.display)
        return all(word in shown for word in words)

    def press(self, keys: str) -> None:
        """Type; what was written before does not count any more."""
        self.raw = b""
        os.write(self.file, keys.encode())

    def exit_code(self) -> int:
        """Wait for the end."""
        found: list[int] = []

        def ended() -> bool:
            self.shows()
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                found.append(os.waitstatus_to_exitcode(status))
                self.shows()  # what it wrote last
            return bool(pid)

        wait(ended, "the end of the program")
        self.pid = 0
        return found[0]

    def close(self) -> None:
        """End the program, where it has not ended."""
        if self.pid:
            os.kill(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)
        os.close(self.file)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The folder of a run that has failed."""
    told = History(plan(2)).training(40, 60)
    told.closed()
    recorded(tmp_path / "runs", told)
    return tmp_path


@pytest.fixture
def terminals() -> Iterator[list[Terminal]]:
    begun: list[Terminal] = []
    yield begun
    for one in begun:
        one.close()


def test_an_ended_run_is_opened_and_replayed(folder: Path, terminals: list[Terminal]) -> None:
    terminals.append(one := Terminal(folder, "open", "last"))
    wait(lambda: one.shows("step 40/60", "space replays"), "the end of the run")
    one.press("\x1b[H")  # home
    wait(lambda: one.shows("0 s "), "the beginning of the run")
    one.press(">>>>>")
    wait(lambda: one.shows("‖ 32x"), "the speed")
    assert not one.shows("step 40/60")
    one.press(" ")  # it plays for a moment that may be over before it is drawn
    wait(lambda: one.shows("step 40/60"), "that it has come to the end")
    one.press("q")
    assert one.exit_code() == 0


@pytest.mark.parametrize(("exit_code", "says"), [(0, "finished in"), (1, "failed")])
def test_attach_shows_an_ended_run_as_open_does_and_exits_as_the_run(
    exit_code: int, says: str, tmp_path: Path, terminals: list[Terminal]
) -> None:
    told = History(plan(2)).training(40, 40)
    for rank in range(2):
        told.rank(rank, Finished(rank, 4, 40, 4.0), Exited(rank, exit_code))
        told.say(rank, AgentEnded(EndReason.ALL_ENDED))
    told.closed()
    before = recorded(tmp_path / "runs", told).stat()
    terminals.append(one := Terminal(tmp_path, "attach", "last"))
    wait(lambda: one.shows(says, "space replays"), "the end of the run")
    one.press("q")
    assert one.exit_code() == exit_code
    assert says.encode() in one.text
    assert b"recorded in runs/" in one.text
    assert next((tmp_path / "runs").glob("2*")).stat().st_mtime_ns == before.st_mtime_ns


def test_keys_before_the_first_paint_are_not_echoed_and_not_lost(
    folder: Path, terminals: list[Terminal]
) -> None:
    terminals.append(one := Terminal(folder, "open", "last"))
    wait(lambda: not echoes(one), "that the terminal is quiet")
    one.press(">>")
    wait(lambda: one.shows("‖ 4x"), "that the keys are obeyed")
    assert b">>" not in one.text
    one.press("q")
    assert one.exit_code() == 0
    assert not one.raw.endswith(b">>")


def echoes(terminal: Terminal) -> bool:
    """Whether the terminal shows what is typed."""
    return bool(termios.tcgetattr(terminal.file)[3] & termios.ECHO)


@pytest.mark.parametrize("hosts", ["", "[[host]]\n", '[[host]]\naddress = "127.0.0.1"\nport = 1\n'])
def test_home_opens_with_and_without_hosts(
    hosts: str, folder: Path, terminals: list[Terminal]
) -> None:
    if hosts:
        (folder / "hosts.toml").write_text(hosts)
    terminals.append(one := Terminal(folder))
    wait(lambda: one.shows("runs in ./runs", "1 run, 0 live", plan(2).run[:8]), "the list")
    one.press("q")
    assert one.exit_code() == 0, one.text[-3000:].decode(errors="replace")


def test_no_such_run(folder: Path, terminals: list[Terminal]) -> None:
    terminals.append(one := Terminal(folder, "open", "nothing"))
    assert one.exit_code() == 2
    assert b"No run called 'nothing' in runs" in one.text
