"""The documentation names what is there: files, links and flags."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import chain
from pathlib import Path

import pytest
from cyclopts import App

from remote.record.figures import FIGURES
from tests.kit.agents import ROOT
from tui.commands import cli
from tui.flags.parsing import Flags

PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
FOR_USERS = [
    ROOT / "README.md",
    *(ROOT / "docs" / f"{name}.md" for name in ("hosts", "lab", "running", "studies", "sync")),
]
OTHERS = ("--help", "--logdir")
"""Flags of every command, and of TensorBoard."""
WIDTH = 120
ANCHOR = re.compile(r"[^\w\- ]")


def flags(app: App) -> Iterator[str]:
    """Every flag of a command and of its sub-commands."""
    for name in app:
        if name.startswith("-"):
            yield name
        else:
            yield from flags(app[name])
    if app.default_command:
        yield from Flags(app, "rankboard").names


def anchors(page: Path) -> set[str]:
    """The anchors of the headings of a page, as GitHub makes them."""
    headings = re.findall(r"^#+ (.*)$", page.read_text(), re.MULTILINE)
    return {ANCHOR.sub("", heading.lower()).replace(" ", "-") for heading in headings}


def page_id(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


@pytest.mark.parametrize("page", PAGES, ids=page_id)
def test_links_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)]*)\)", page.read_text()):
        if target.startswith("https://"):
            continue
        path, _, anchor = target.partition("#")
        linked = page.parent / path if path else page
        assert linked.exists(), target
        assert not anchor or anchor in anchors(linked), target


@pytest.mark.parametrize("page", PAGES, ids=page_id)
def test_files_that_are_named_exist(page: Path) -> None:
    named = re.findall(r"`((?:tui|remote|training|tests|bench)/[\w/.]*)`", page.read_text())
    missing = [path for path in named if "NAME" not in path and not (ROOT / path).exists()]
    assert missing == []


@pytest.mark.parametrize("page", FOR_USERS, ids=page_id)
def test_flags_that_are_named_exist(page: Path) -> None:
    commands = [cli.make_whole_app()]
    known = {*OTHERS, *chain.from_iterable(map(flags, commands))}
    named = set(re.findall(r"(?<![\w-])--[a-z][a-z-]*", page.read_text()))
    assert named - known == set()


@pytest.mark.parametrize("page", PAGES, ids=page_id)
def test_lines_of_text_are_short(page: Path) -> None:
    text = re.sub(r"^```.*?^```", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)
    assert [line for line in text.splitlines() if len(line) > WIDTH] == []


def test_figures_of_runs_are_named() -> None:
    page = (ROOT / "docs" / "studies.md").read_text()
    keys = [figure.field for figure in FIGURES if f"`{figure.field}`" not in page]
    columns = [figure.title for figure in FIGURES if f"*{figure.title}*" not in page]
    assert (keys, [title for title in columns if title]) == ([], [])
