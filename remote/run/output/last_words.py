"""Which of a program's last lines are worth showing: of a long traceback above all the frames in
the user's own files."""

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
    """At most `room` of these lines: the last ones; or where the last chain of tracebacks is
    longer, what matters of it.

    What is left out stands as a line such as " … 12 frames left out"; paths are from the package
    on.
    """
    plain = [PREFIX.sub("", line) for line in lines]
    start = _start(plain)
    if start is None or len(plain) - start <= room:
        return tuple(plain[-room:])
    blocks = _blocks(plain[start:])
    chosen: set[int] = set()
    there = (number for number, block in enumerate(blocks) if not block.left_out)
    for number in sorted(there, key=lambda number: (blocks[number].worth, -number)):
        if len(_rendered(blocks, chosen | {number})) <= room:
            chosen.add(number)
    return tuple(_rendered(blocks, chosen))


def _start(lines: Sequence[str]) -> int | None:
    """Where the last chain of tracebacks begins; 0 where its head is out of sight."""
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
            blocks.append(
                Block(
                    Worth.FOREIGN if gap["what"] == "frame" else Worth.REST,
                    (line,),
                    int(gap["count"]),
                )
            )
        elif found := _FRAME.match(line):
            inside = True
            worth = (
                Worth.FOREIGN
                if _FOREIGN.search(found["path"]) or _PACKAGE.match(found["path"])
                else Worth.OWN
            )
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
    """Whether the line that follows is no longer near the exception that it follows."""
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
        what = "frame"
    else:
        count = sum(block.left_out or len(block.lines) for block in gap)
        what = "line"
    return [f"  … {count} {what}{'s' * (count > 1)} left out"]
