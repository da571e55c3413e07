"""The commands of the documentation, as a reader enters them: page by page in an empty folder, with
four hosts in its hosts.toml that are all this machine."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.kit.launches import RANKBOARD, left_behind
from tests.kit.pages import DOCS_PAGES, README, Block, list_blocks, name_page
from tests.kit.slow import slow
from tests.kit.wait import wait

PATIENCE = 600
"""Seconds for the commands of a page."""
HOSTS_FILE = "hosts.toml"
HOST = """
[[host]]
name = "node{}"
address = "127.0.0.1"
"""
HOSTS_TOML = '[defaults]\ntransport = "local"\ninterface = "lo"\n' + "".join(
    map(HOST.format, range(4))
)
HEAD = """
set -eu -o pipefail
block='the start'
trap 'echo "$block: failed: $BASH_COMMAND" >&2' ERR
"""


def is_run(block: Block) -> bool:
    return block.language == "sh" and not block.not_run


RUN_PAGES = [page for page in (README, *DOCS_PAGES) if any(map(is_run, list_blocks(page)))]
SLOW_PAGES = {"course.md", "course-code.md"}
"""Tutorials with a study, whose dozen runs take minutes."""


def write_script(page: Path) -> str:
    """All commands of a page. A block that shows a file, by its title, makes the file, but for the
    hosts file: that of the test stays."""
    parts = [HEAD]
    for block in list_blocks(page):
        if is_run(block):
            parts += [f"block={shlex.quote(str(block))}", block.text]
        elif block.title and block.title != HOSTS_FILE:
            parts.append(f"cat > {shlex.quote(block.title)} <<'END OF THE FILE'")
            parts.append(f"{block.text}END OF THE FILE")
    return "\n".join(parts) + "\n"


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """The reader's folder. No process of it is left at the end."""
    folder = tmp_path / "work"
    folder.mkdir()
    (folder / HOSTS_FILE).write_text(HOSTS_TOML)
    yield folder
    try:
        wait(lambda: not left_behind(tmp_path), "the end of all that the page has started", 20)
    finally:
        for process in left_behind(tmp_path):
            process.kill()


@pytest.mark.timeout(PATIENCE + 60)
@pytest.mark.parametrize(
    "page",
    [
        pytest.param(page, id=name_page(page), marks=[slow] if page.name in SLOW_PAGES else [])
        for page in RUN_PAGES
    ],
)
def test_commands_of_a_page_run(page: Path, folder: Path) -> None:
    home = folder.parent / "home"
    home.mkdir()
    commands = (str(Path(RANKBOARD).parent), str(Path(sys.executable).parent))
    env = {name: value for name, value in os.environ.items() if not name.startswith("XDG_")}
    env |= {"HOME": str(home), "PATH": os.pathsep.join((*commands, os.environ["PATH"]))}
    script = folder.parent / "page.sh"
    script.write_text(write_script(page))
    done = subprocess.run(
        ["bash", str(script)],
        cwd=folder,
        env=env,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert done.returncode == 0, f"{done.stderr}\n{done.stdout}"
