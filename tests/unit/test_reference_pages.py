"""The pages of the reference that are written from the code: they are as the code is now."""

from __future__ import annotations

from itertools import chain
from pathlib import Path
from types import ModuleType

import pytest

from tests.kit.agents import ROOT
from tui.commands.cli import COMMANDS


@pytest.fixture
def reference_pages(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The program that writes them."""
    monkeypatch.syspath_prepend(ROOT / "docs")
    import reference_pages

    return reference_pages


def test_they_are_as_the_code_is_now(reference_pages: ModuleType) -> None:
    pages: list[Path] = reference_pages.find_pages()
    stale = [
        page.name for page in pages if reference_pages.renew(page.read_text()) != page.read_text()
    ]
    assert stale == [], "run make reference"


def test_they_have_every_command(reference_pages: ModuleType) -> None:
    pages: list[Path] = reference_pages.find_pages()
    assert {page.name for page in pages} >= {*reference_pages.GROUPS, "commands.md", "options.md"}
    assert sorted(chain.from_iterable(reference_pages.GROUPS.values())) == sorted(COMMANDS)
