"""Every screen looks as it did, in each size and mode: as in the files of `tests/fixtures/looks`.

After a change that is meant to be seen, write them anew, and look at what git finds changed:

    RANKBOARD_LOOKS=renew .venv/bin/pytest -q tests/unit/tui/test_looks.py
"""

from __future__ import annotations

import codecs
import difflib
import os
import re
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path

import pytest
from textual.pilot import Pilot

from tests.kit.looks import LOW, looks, looks_in_ascii
from tests.kit.scenes import SCREENS, VARIANTS, still
from tui.kit import palette

assert still  # the fixture
FOLDER = Path(__file__).parents[2] / "fixtures" / "looks"
RENEW = "RANKBOARD_LOOKS"
MACHINES = re.compile(r"\b\d+ KiB \(here\)")
"""What differs from machine to machine: how much a recorded run takes on this disk."""


@pytest.fixture(autouse=True)
def ascii_writer() -> None:
    """It is otherwise there once a terminal without UTF-8 is written to."""
    codecs.register_error(palette.ASCII, palette._in_ascii)


@pytest.mark.usefixtures("still")
@pytest.mark.parametrize("name", [*SCREENS, *VARIANTS])
async def test_a_screen_looks_as_it_did(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = await played(name, tmp_path, partial(looks, large=name in SCREENS))
    monkeypatch.setattr(palette, "has_utf8", lambda: False)
    found += await played(name, tmp_path / "ascii", looks_in_ascii)
    text = MACHINES.sub("99 KiB (here)", "\n".join(found) + "\n")
    path = FOLDER / f"{name}.txt"
    if os.environ.get(RENEW) == "renew":
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    expected = path.read_text() if path.exists() else ""
    if text != expected:
        pytest.fail(f"{name} looks otherwise than in {path}:\n{differing(expected, text)}")


async def played(
    name: str, folder: Path, look: Callable[[Pilot[None]], Awaitable[list[str]]]
) -> list[str]:
    """How a scene looks once it has been played."""
    scene = (SCREENS | VARIANTS)[name](folder)
    async with scene.app.run_test(size=LOW, notifications=True) as pilot:
        await scene.play(pilot)
        found = await look(pilot)
        scene.end()
        scene.app.exit()
    return found


def differing(expected: str, found: str) -> str:
    """The lines that differ, and to which size and mode they belong."""
    lines = []
    parts = zip(sections(expected).items(), sections(found).items(), strict=False)
    for (title, before), (_, after) in parts:
        diff = list(difflib.unified_diff(before, after, "expected", "found", n=0, lineterm=""))
        lines += [title, *diff[2:]] if diff else []
    return "\n".join(lines) or "the sizes and modes are others"


def sections(text: str) -> dict[str, list[str]]:
    """The lines under each title."""
    _, *parts = re.split(r"^## (\d+x\d+.*)$", text, flags=re.MULTILINE)
    return {title: lines.split("\n") for title, lines in zip(parts[::2], parts[1::2], strict=True)}


def test_there_is_a_file_for_each_screen_and_no_other() -> None:
    assert {path.stem for path in FOLDER.iterdir()} == {*SCREENS, *VARIANTS}
