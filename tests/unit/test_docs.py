"""The documentation names what is there: files, links, flags and commands. A
site can be built of it."""

from __future__ import annotations

import ast
import io
import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import redirect_stderr, redirect_stdout
from functools import cache
from itertools import chain
from pathlib import Path
from typing import Any

import pytest
import tomllib
from cyclopts import App

from remote.cluster.hosts import HostsError
from remote.cluster.load import load
from remote.record.figures import FIGURES
from tests.kit.agents import ROOT
from tests.kit.pages import (
    DOCS_PAGES,
    PAGES,
    README,
    Block,
    list_blocks,
    list_commands,
    name_page,
    read_prose,
)
from training.job import JobError
from tui.commands import cli
from tui.flags import torchrun
from tui.flags.job import JobFlags
from tui.flags.mistakes import check_job
from tui.flags.parsing import Flags, ParsedCommand
from tui.kit.exit import UsageError

DOCUMENTATION = [README, *DOCS_PAGES]
FOR_USERS = [page for page in DOCUMENTATION if page.parent.name != "explanation"]
OTHERS = {
    *("--help", "--logdir", "--extra-index-url", "--force", "--from", "--locked", "--extra"),
    *("--nodes", "--ntasks", "--ntasks-per-node", "--gpus-per-node", "--cpus-per-task"),
    *("--time", "--output", "--steps"),
}
"""Flags of every command, and of other programs: TensorBoard, pip, pipx, uv, and those of Slurm."""
OF_SCRIPTS = (
    *("--rank", "--world-size", "--num-nodes", "--master-ip", "--init-method", "--dist-url"),
    *("--local-rank", "--max", "--num-train-steps", "--way", "--bad-label"),
)
"""Flags of scripts that are examples; a word ends before an underscore."""
WIDTH = 120
LENGTHS = {README: 120}
LENGTH = 250
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


@cache
def known_flags() -> set[str]:
    return {
        *OTHERS,
        *OF_SCRIPTS,
        *torchrun.KNOWN,
        *torchrun.FABRIC_FLAGS,
        *flags(cli.make_whole_app()),
    }


def anchors(page: Path) -> set[str]:
    """The anchors of the headings of a page, as GitHub makes them."""
    headings = re.findall(r"^#+ (.*)$", read_prose(page), re.MULTILINE)
    return {ANCHOR.sub("", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES, ids=name_page)
def test_links_lead_somewhere(page: Path) -> None:
    wrong = []
    for target in re.findall(r"\]\(([^)]*)\)", read_prose(page)):
        if target.startswith("https://"):
            continue
        path, _, anchor = target.partition("#")
        linked = page.parent / path if path else page
        if not linked.exists() or (anchor and anchor not in anchors(linked)):
            wrong.append(target)
    assert wrong == []


@pytest.mark.parametrize("page", PAGES, ids=name_page)
def test_files_that_are_named_exist(page: Path) -> None:
    named = re.findall(
        r"`((?:tui|remote|training|tests|bench|examples)/[\w/.]*)`", page.read_text()
    )
    missing = [path for path in named if "NAME" not in path and not (ROOT / path).exists()]
    assert missing == []


@pytest.mark.parametrize("page", FOR_USERS, ids=name_page)
def test_flags_that_are_named_exist(page: Path) -> None:
    """Those in blocks of commands are parsed."""
    named = set(re.findall(r"(?<![\w-])--[a-z][a-z-]*", read_prose(page)))
    assert named - known_flags() == set()


@pytest.mark.parametrize("page", PAGES, ids=name_page)
def test_lines_of_text_are_short(page: Path) -> None:
    assert [line for line in read_prose(page).splitlines() if len(line) > WIDTH] == []


@pytest.mark.parametrize("page", DOCUMENTATION, ids=name_page)
def test_pages_are_short(page: Path) -> None:
    assert len(page.read_text().splitlines()) <= LENGTHS.get(page, LENGTH)


@pytest.mark.parametrize("page", DOCUMENTATION, ids=name_page)
def test_lists_begin_after_an_empty_line(page: Path) -> None:
    """The site would make them part of the paragraph above."""
    lines = read_prose(page).splitlines()
    is_item = [bool(re.match(r" *([-*]|\d+\.) ", line)) for line in lines]
    wrong = [
        line
        for before, item_before, line, item in zip(
            lines, is_item, lines[1:], is_item[1:], strict=False
        )
        if item and not item_before and before and not before.startswith(" ")
    ]
    assert wrong == []


@pytest.mark.parametrize("page", DOCUMENTATION, ids=name_page)
def test_what_belongs_to_an_item_is_indented_by_four(page: Path) -> None:
    """With less, the site would not see that a list or a block of code belongs to it."""
    wrong = re.findall(r"^ {1,3}(?:[-*] |\d+\. |```).*", page.read_text(), re.MULTILINE)
    assert wrong == []


@pytest.mark.parametrize("page", DOCUMENTATION, ids=name_page)
def test_blocks_of_code_name_their_language(page: Path) -> None:
    assert [str(block) for block in list_blocks(page) if not block.language] == []


def test_figures_of_runs_are_named() -> None:
    page = (ROOT / "docs" / "reference" / "figures.md").read_text()
    keys = [figure.field for figure in FIGURES if f"`{figure.field}`" not in page]
    columns = [figure.title for figure in FIGURES if f"*{figure.title}*" not in page]
    assert (keys, [title for title in columns if title]) == ([], [])


def refuse_mistakes(command: ParsedCommand, extras: dict[str, Any]) -> None:
    """In place of a call of the command."""
    extras["mistakes"].refuse()
    for argument in command.bound.arguments.values():
        if isinstance(argument, JobFlags):
            check_job(argument.settings, method="")


def parse_rankboard(words: Sequence[str]) -> str:
    """Parse a command line of rankboard without doing what it says. Return what is wrong."""
    if "--install-completion" in words:
        return "" if len(words) == 1 else "one word too many"
    messages = io.StringIO()
    try:
        with redirect_stderr(messages), redirect_stdout(io.StringIO()):
            cli.call(words)
    except (UsageError, JobError) as error:
        return str(error)
    except SystemExit:
        return messages.getvalue()
    return ""


def check_make(words: Sequence[str]) -> str:
    """Return what is wrong with a call of make here."""
    targets = re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
    unknown = [word for word in words if "=" not in word and word not in targets]
    return f"no such target: {unknown}" if unknown else ""


def check_extras(words: Sequence[str]) -> str:
    """Return what is wrong with the extras of rankboard that are to be installed."""
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"][
        "optional-dependencies"
    ]
    named = re.findall(r"(?:^| )(?:rankboard|\.)\[([\w,]*)\]", " ".join(words))
    unknown = set(",".join(named).split(",")) - {*extras, ""}
    return f"no such extra: {unknown}" if unknown else ""


def check_command(words: Sequence[str]) -> str:
    """Return what is wrong with a command, as far as it is one of ours."""
    name = Path(words[0]).name
    if name == "rankboard":
        return parse_rankboard(words[1:])
    if name == "uvx" and "rankboard" in words:
        return parse_rankboard(words[words.index("rankboard") + 1 :])
    if name == "make":
        return check_make(words[1:])
    return check_extras(words)


@pytest.mark.parametrize("page", DOCUMENTATION, ids=name_page)
def test_commands_can_be_parsed(page: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ParsedCommand, "call", refuse_mistakes)
    blocks = [block for block in list_blocks(page) if block.language == "sh"]
    checked = {
        f"{block}: {' '.join(words)}": check_command(words) for block, words in commands(blocks)
    }
    assert {command: problem for command, problem in checked.items() if problem} == {}


def commands(blocks: Sequence[Block]) -> Iterator[tuple[Block, list[str]]]:
    """Each command of these blocks."""
    for block in blocks:
        for words in list_commands(block):
            yield block, words


READERS: dict[str, Callable[[str], object]] = {
    "json": json.loads,
    "python": ast.parse,
    "toml": tomllib.loads,
}
"""What reads a block of code, by its language."""


@pytest.mark.parametrize("page", DOCUMENTATION, ids=name_page)
def test_blocks_of_code_can_be_read(page: Path) -> None:
    wrong = {}
    for block in list_blocks(page):
        try:
            READERS.get(block.language, str)(block.text)
        except (SyntaxError, ValueError) as error:
            wrong[str(block)] = str(error)
    assert wrong == {}


def test_hosts_files_are_right(tmp_path: Path) -> None:
    wrong = {}
    for block in chain.from_iterable(map(list_blocks, DOCUMENTATION)):
        if block.language == "toml" and "[[host]]" in block.text:
            path = tmp_path / "hosts.toml"
            path.write_text(block.text)
            try:
                load(path)
            except HostsError as error:
                wrong[str(block)] = str(error)
    assert wrong == {}


def test_the_site_can_be_built(tmp_path: Path) -> None:
    """Each link of it leads somewhere, and each page is in its menu."""
    words = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir"]
    env = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    done = subprocess.run(
        [*words, str(tmp_path)], cwd=ROOT, env=env, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout + done.stderr) == (0, "")
    pages = [path.read_text() for path in tmp_path.rglob("*.html")]
    assert len(pages) > len(DOCS_PAGES)  # beside the page for what is not found
    fetched = re.findall(r'<(?:script|link|img|iframe)[^>]*(?:src|href)="?https?:', "".join(pages))
    assert fetched == []
