"""The manual page: it has all that --help all has, and man can read it."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from cyclopts import App

from tests.kit.agents import ROOT
from tui.commands.cli import COMMANDS, make_whole_app
from tui.flags.command_help import collect_panels


@pytest.fixture(scope="module")
def page() -> str:
    """The page in the language of man."""
    words = [sys.executable, str(ROOT / "docs" / "man_page.py")]
    return subprocess.run(words, capture_output=True, text=True, check=True).stdout


def list_labels(app: App) -> Iterator[str]:
    """All flags, arguments and commands of a command and of those below it."""
    for panel in collect_panels(app):
        for entry in panel.entries:
            yield from entry.display_labels
    for name in app:
        if not name.startswith("-"):
            yield from list_labels(app[name])


def test_it_has_every_command_and_every_flag(page: str) -> None:
    text = page.replace("\\-", "-")
    words = set(re.findall(r"[\w|\[\].-]+", text.replace("\\fB", " ").replace("\\fR", " ")))
    assert set(list_labels(make_whole_app())) - words == {"--help", "-h"} - words
    for command in COMMANDS:
        assert f".SS rankboard {command}\n" in text
    assert "130  stopped by the user" in text


def test_it_is_plain_ascii(page: str) -> None:
    assert page.isascii()


@pytest.mark.skipif(not shutil.which("groff"), reason="needs groff")
def test_man_finds_nothing_wrong_in_it(page: str, tmp_path: Path) -> None:
    (tmp_path / "rankboard.1").write_text(page)
    words = ["groff", "-man", "-Tutf8", "-ww", "-z", "rankboard.1"]
    done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, check=True)
    assert done.stderr == ""
