"""Picks the last lines of a program that are worth showing.

Of a long traceback these are above all the frames in the user's own files.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import IntEnum

PREFIX = re.compile(r"^\[rank\d+\]: ?")
"""What torch.distributed's own hook writes before each line of a traceback."""
HEADER = "Traceback (most recent call last):"
LINKS = (
    "During handling of the above exception, another exception occurred:",
    "The above exception was the direct cause of the following exception:",
)
RAISED = re.compile(r"^(?P<type>[A-Za-z_][\w.]*)(?:: (?P<message>.*))?$")
"""The line below a traceback."""

_FRAME = re.compile(r'^ +File "(?P<path>[^"]*)", line \d+')
_LONG = re.compile(r'(?<=File ")[^"]*(?:/(?:site|dist)-packages/|/code/[0-9a-f]{32}[^/"]*/)')
"""What a path of a package or of our own code on a host begins with."""
_PACKAGE = re.compile(r"torch/")
_GAP = re.compile(r"  … (?P<count>\d+) (?P<what>frame|line)s? left out")
_MARKS = re.compile(r"[ ~^]*")
"""Blank lines, and those that mark a part of the code above."""
_FOREIGN = re.compile(
    r"[/\\](?:site|dist)-packages[/\\]|[/\\]lib(?:64)?[/\\]python3[^/\\]*[/\\]|^<frozen "
)
_MESSAGE = 3
"""Lines of an exception's message below its first; torch adds stacks of C++ there."""


class Worth(IntEnum):
    """What is shown first where there is no room for all."""

    RAISED = 0
    NEAREST = 1
    """The user's frame that is nearest to what was raised."""
    RAISING = 2
    """The frame that raised, wherever it is."""
    HEAD = 3
    OWN = 4
    """Another frame in the user's files."""
    MESSAGE = 5
    FOREIGN = 6
    """A frame in a package or the standard library."""
    REST = 7


@dataclass(frozen=True)
class Block:
    """Lines that are shown together or not at all."""

    worth: Worth
    lines: tuple[str, ...]
    left_out: int = 0
    """How much it stands for, where an earlier choice has left it out already."""

    @property
    def is_frame(self) -> bool:
        return self.worth in (Worth.NEAREST, Worth.RAISING, Worth.OWN, Worth.FOREIGN)


def last_words(lines: Sequence[str], room: int) -> tuple[str, ...]:
    """Return at most `room` of these lines.

    They are the last ones or, if the last chain of tracebacks is longer, what matters of it. A line
    such as " … 12 frames left out" stands for what is left out; paths begin with the package.
    """
    plain = [PREFIX.sub("", line) for line in lines]
    start = _start(plain)
    if start is None or len(plain) - start <= room:
        return tuple(plain[-room:])
    blocks = _blocks(plain[start:])
    chosen: set[int] = set()
    whole = [number for number, block in enumerate(blocks) if not block.left_out]
    for number in sorted(whole, key=lambda number: (blocks[number].worth, -number)):
        if len(_rendered(blocks, chosen | {number})) <= room:
            chosen.add(number)
    return tuple(_rendered(blocks, chosen))


def _start(lines: Sequence[str]) -> int | None:
    """Return where the last chain of tracebacks begins; 0 if its head is out of sight."""
    start: int | None = None
    linked = False
    for number, line in enumerate(lines):
        if line.strip() in LINKS:
            linked = True
        elif line.strip() == HEADER:
            start = start if linked and start is not None else number
            linked = False
    return 0 if start is None and any(map(_FRAME.match, lines)) else start


def _blocks(lines: Sequence[str]) -> list[Block]:
    blocks: list[Block] = []
    inside = True
    for line in (line for line in lines if not _MARKS.fullmatch(line)):
        before = blocks[-1] if blocks else None
        if line.strip() == HEADER or line.strip() in LINKS:
            inside = True
            blocks.append(Block(Worth.HEAD, (line,)))
        elif gap := _GAP.fullmatch(line):
            worth = Worth.FOREIGN if gap["what"] == "frame" else Worth.REST
            blocks.append(Block(worth, (line,), int(gap["count"])))
        elif frame := _FRAME.match(line):
            inside = True
            is_foreign = _FOREIGN.search(frame["path"]) or _PACKAGE.match(frame["path"])
            worth = Worth.FOREIGN if is_foreign else Worth.OWN
            blocks.append(Block(worth, (_LONG.sub("", line),)))
        elif inside and before and line.startswith(" ") and before.is_frame and not before.left_out:
            blocks[-1] = Block(before.worth, (*before.lines, line))
        elif inside and RAISED.match(line):
            inside = False
            _raised_by(blocks)
            blocks.append(Block(Worth.RAISED, (line,)))
        else:
            blocks.append(Block(Worth.REST if _is_far(blocks) else Worth.MESSAGE, (line,)))
    return blocks


def _raised_by(blocks: list[Block]) -> None:
    if blocks and blocks[-1].is_frame and not blocks[-1].left_out:
        own = [number for number, block in enumerate(blocks) if block.worth is Worth.OWN]
        blocks[-1] = Block(Worth.RAISING, blocks[-1].lines)
        if own:
            blocks[own[-1]] = Block(Worth.NEAREST, blocks[own[-1]].lines)


def _is_far(blocks: Sequence[Block]) -> bool:
    """Return True if the next line is no longer near the exception that it follows."""
    return not any(block.worth is Worth.RAISED for block in blocks[-1 - _MESSAGE :])


def _rendered(blocks: Sequence[Block], chosen: Iterable[int]) -> list[str]:
    lines: list[str] = []
    gap: list[Block] = []
    for number, block in enumerate(blocks):
        if number not in chosen:
            gap.append(block)
            continue
        lines += [*_left_out(gap), *block.lines]
        gap = []
    return lines + _left_out(gap)


def _left_out(gap: Sequence[Block]) -> list[str]:
    if not gap:
        return []
    if all(block.is_frame for block in gap):
        count = sum(block.left_out or 1 for block in gap)
        unit = "frame" if count == 1 else "frames"
    else:
        count = sum(block.left_out or len(block.lines) for block in gap)
        unit = "line" if count == 1 else "lines"
    return [f"  … {count} {unit} left out"]
