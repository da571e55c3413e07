"""The pages of the documentation, and the blocks of code in them."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from textwrap import dedent

from tests.kit.agents import ROOT

DOCS = ROOT / "docs"
DOCS_PAGES = sorted(DOCS.rglob("*.md"))
README = ROOT / "README.md"
PAGES = sorted([*ROOT.glob("*.md"), *DOCS_PAGES])
FENCE = re.compile(r"^(?P<indent> *)(?P<fence>`{3,})(?P<language>[\w-]*)(?P<options>.*)$")
TITLE = re.compile(r'title="([^"]+)"')
NOT_RUN = re.compile(r"^ *<!-- not run: (.+) -->$")
HEREDOC = re.compile(r"<<-?\s*['\"]?(\w+)")
KEYWORDS = {"do", "else", "if", "then", "time", "until", "while", "!"}
"""Words of the shell that stand before a command."""


@dataclass(frozen=True)
class Block:
    """A block of code in a page."""

    page: Path
    line: int
    """Where it begins, from 1."""
    language: str
    title: str
    """The file that it shows, or nothing."""
    text: str
    not_run: str
    """Why the page says that its commands are not to be run, or nothing."""

    def __str__(self) -> str:
        return f"{name_page(self.page)}:{self.line}"


def name_page(page: Path) -> str:
    """Return the path of a page in the repository."""
    return str(page.relative_to(ROOT))


def list_blocks(page: Path) -> list[Block]:
    """Return the blocks of code of a page, in its order."""
    lines = page.read_text().splitlines()
    blocks = []
    index = 0
    while index < len(lines):
        opening = FENCE.match(lines[index])
        start = index
        index += 1
        if opening is None:
            continue
        while lines[index].strip() != opening["fence"]:
            index += 1
        title = TITLE.search(opening["options"])
        not_run = NOT_RUN.match(lines[start - 1])
        blocks.append(
            Block(
                page,
                start + 1,
                opening["language"],
                title[1] if title else "",
                dedent("\n".join(lines[start + 1 : index])) + "\n",
                not_run[1] if not_run else "",
            )
        )
        index += 1
    return blocks


def read_prose(page: Path) -> str:
    """Return the text of a page without its blocks of code."""
    return re.sub(r"^ *(```+).*?^ *\1$", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)


def list_commands(block: Block) -> Iterator[list[str]]:
    """Yield the words of each command in a block of shell, without redirections and variables."""
    for line in _join_lines(block.text):
        words: list[str] = []
        tokens = _split_words(line)
        while tokens:
            token = tokens.pop(0)
            if set(token) <= set("<>&") and set(token) & set("<>"):
                if words and words[-1].isdigit():
                    words.pop()  # the number of the stream
                del tokens[:1]
            elif set(token) <= set(";|&()"):
                yield from _strip(words)
                words = []
            else:
                words.append(token)
        yield from _strip(words)


def _join_lines(text: str) -> Iterator[str]:
    """Yield the lines of a block; lines that belong together are joined, and here-documents left
    out."""
    lines = text.replace("\\\n", " ").splitlines()
    while lines:
        line = lines.pop(0)
        while lines and not _is_whole(line):
            line += "\n" + lines.pop(0)
        yield line
        end = HEREDOC.search(line)
        while end and lines and lines.pop(0).strip() != end[1]:
            pass


def _is_whole(line: str) -> bool:
    """Return whether each quotation of the line ends in it."""
    try:
        _split_words(line)
    except ValueError:
        return False
    return True


def _split_words(line: str) -> list[str]:
    lexer = shlex.shlex(line, posix=True, punctuation_chars=True)
    lexer.whitespace_split = True
    return list(lexer)


def _strip(words: list[str]) -> Iterator[list[str]]:
    """Yield the words of a command without keywords and variables before it, if any are left."""
    while words and (words[0] in KEYWORDS or re.match(r"\w+=", words[0])):
        words = words[1:]
    if words:
        yield words
