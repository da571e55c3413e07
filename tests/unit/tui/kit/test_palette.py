"""What is drawn where the terminal's locale is not UTF-8."""

from __future__ import annotations

import io
import os
import pty
import re
import select
import signal
import time
from pathlib import Path

import pytest
from rich.cells import cell_len

from tests.kit.acted import until
from tests.kit.dashboard import Stage, asked
from tests.kit.launches import RANKBOARD
from tui.commands.cli import load, make_root_app
from tui.flags.parsing import Flags
from tui.kit import palette

C, UTF8, GERMAN = "C", "C.UTF-8", "de_DE.UTF-8"


@pytest.mark.parametrize(
    ("environ", "encoding", "speaks"),
    [
        ({}, "utf-8", True),
        ({}, "ascii", False),
        ({"LC_ALL": C}, "utf-8", False),
        ({"LC_ALL": "POSIX", "LANG": GERMAN}, "utf-8", False),
        ({"LC_ALL": GERMAN, "LANG": C}, "utf-8", True),
        ({"LC_ALL": GERMAN}, "latin-1", False),
        ({"LANG": GERMAN, "LC_CTYPE": C}, "utf-8", False),
        ({"LANG": C, "LC_CTYPE": GERMAN}, "utf-8", True),
        ({"LANG": C, "LC_CTYPE": UTF8}, "utf-8", False),  # Python may have set it
        ({"LC_CTYPE": UTF8}, "utf-8", True),
        ({"LANG": "", "LC_ALL": ""}, "utf-8", True),
    ],
)
def test_the_variables_of_the_locale_say_whether_it_is_utf8(
    environ: dict[str, str], encoding: str, speaks: bool
) -> None:
    assert palette.speaks_utf8(environ, encoding) is speaks


def on_a_terminal(text: str) -> str:
    """The text as a stream to a terminal without UTF-8 writes it."""

    class Terminal(io.TextIOWrapper):
        def isatty(self) -> bool:
            return True

    stream = Terminal(io.BytesIO(), "utf-8")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(palette, "has_utf8", lambda: False)
        palette.make_streams_fit(stream)
    stream.write(text)
    stream.flush()
    raw = stream.buffer
    assert isinstance(raw, io.BytesIO)
    return raw.getvalue().decode("ascii")


def test_each_character_keeps_its_cells() -> None:
    for character in [
        *map(chr, range(0xA0, 0x3000)),
        *palette._STAND_INS,
        "训",
        "é",
        "🔎",
        "\U0001f600",
    ]:
        assert cell_len(on_a_terminal(character)) == cell_len(character), character
    assert on_a_terminal("● training ┌─┐│ … ━━") == "* training +-+| ~ =="


async def test_every_screen_is_drawn_in_ascii(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(palette, "has_utf8", lambda: False)
    stage = Stage()
    async with stage.training() as pilot:
        for key, part in (
            ("3", "* training"),
            ("question_mark", "smooth the curves"),
            ("s", "stacks of all ranks"),
            ("D", "checks of 2 hosts"),
            ("ctrl+p", "Stacks"),
            ("q", "Detach"),
        ):
            await pilot.press(key)
            await until(pilot, lambda part=part: part in on_a_terminal(stage.text()))
            if key == "q":
                await asked(pilot)
            if key != "3":
                await pilot.press("escape")
                await until(pilot, lambda: stage.app.screen is stage.screen)
        stage.session.finish(60, 1)
        await stage.ended(pilot)
        assert "+ finished in" in on_a_terminal(stage.text())


@pytest.mark.parametrize(
    ("flags", "ascii_only"), [(("--ascii",), True), ((), False)], ids=["ascii", "utf8"]
)
def test_without_a_hosts_file_the_form_is_for_this_machine_and_in_the_terminals_characters(
    flags: tuple[str, ...], ascii_only: bool, tmp_path: Path
) -> None:
    """A process of its own in a terminal of its own: the form, its help, and out."""
    pid, terminal = pty.fork()
    if pid == 0:
        os.chdir(tmp_path)
        environ = {
            "HOME": str(tmp_path),
            "PATH": os.environ["PATH"],
            "TERM": "xterm",
            "LANG": UTF8,
        }
        os.execve(
            RANKBOARD,
            [RANKBOARD, "--form", *flags],
            environ | {"COLUMNS": "120", "LINES": "40"},
        )
    try:
        drawn = read_until(terminal, "local  127.0.0.1  ranks 0 to 3")
        drawn += read_until(terminal, "There is no hosts.toml in this folder")
        os.write(terminal, b"\x1bOP")  # f1
        drawn += read_until(terminal, "launch form:")
        os.write(terminal, b"\x1b")
        time.sleep(0.2)  # a key right behind would make it another key
        os.write(terminal, b"\x11")  # ctrl+q
        drawn += read_until(terminal, "")
    except BaseException:
        os.kill(pid, signal.SIGKILL)
        raise
    finally:
        _, status = os.waitpid(pid, 0)
        os.close(terminal)
    assert os.waitstatus_to_exitcode(status) == 0
    assert drawn.isascii() is ascii_only


@pytest.mark.parametrize("name", ["attach", "compare", "open", "run", "serve", "study", "watch"])
def test_every_command_with_a_dashboard_draws_in_ascii_on_request(name: str) -> None:
    app = make_root_app() if name == "run" else load(name)
    assert "--ascii" in Flags(app, "rankboard").names


def read_until(terminal: int, part: str) -> bytes:
    """What is drawn until that is, or where it is empty, until the end."""
    drawn, deadline = b"", time.monotonic() + 60
    while not part or part not in words(drawn):
        assert select.select([terminal], [], [], max(0.0, deadline - time.monotonic()))[0], words(
            drawn
        )
        try:
            drawn += os.read(terminal, 65536)
        except OSError:  # the other end is closed
            assert not part, words(drawn)
            break
    return drawn


def words(drawn: bytes) -> str:
    """Without the terminal's control sequences."""
    return re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]|\x1b.", " ", drawn.decode("utf-8", "replace"))


def test_the_variable_asks_for_ascii_in_any_locale(monkeypatch: pytest.MonkeyPatch) -> None:
    for value, speaks in (("1", False), ("", True)):
        monkeypatch.setenv(palette.ASCII_ONLY, value)
        palette.has_utf8.cache_clear()
        assert palette.has_utf8() is speaks
