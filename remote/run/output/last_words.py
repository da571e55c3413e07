"""Picks the last lines of a program that are worth showing.

Of a long traceback these are above all the frames in the user's own files.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import IntEnum

from remote.format import count

PREFIX = re.compile(r"^\[rank\d+\]: ?")
"""What torch.distributed's own hook writes before each line of a traceback."""
HEADER = "Traceback (most recent call last):"
LINKS = (
    "During handling of the above exception, another exception occurred:",
    "The above exception was the direct cause of the following exception:",
)
RAISED = re.compile(r"^(?P<type>[A-Za-z_][\w.]*)(?:: (?P<message>.*))?$")
"""The line below a traceback."""

_FRAME = re.compile(r'^ +File "(?P<path>[^"]*)", line (?P<line>\d+)(?:, in (?P<function>.*))?')
_LONG = re.compile(r'(?<=File ")[^"]*(?:/(?:site|dist)-packages/|/code/[0-9a-f]{32}[^/"]*/)')
"""What a path of a package or of our own code on a host begins with."""
_PACKAGE = re.compile(r"torch/")
_MARKS = re.compile(r"[ ~^]*")
"""Blank lines, and those that mark a part of the code above."""
_FOREIGN = re.compile(
    r"[/\\](?:site|dist)-packages[/\\]|[/\\]lib(?:64)?[/\\]python3[^/\\]*[/\\]|^<frozen "
)
_MESSAGE = 4
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


_FRAMES = (Worth.NEAREST, Worth.RAISING, Worth.OWN, Worth.FOREIGN)


@dataclass
class Block:
    """Lines that are shown together or not at all."""

    worth: Worth
    lines: list[str]

    @property
    def is_frame(self) -> bool:
        return self.worth in _FRAMES


def last_words(lines: Sequence[str], room: int) -> tuple[str, ...]:
    """Return at most `room` of these lines.

    They are the last ones or, if the last chain of tracebacks is longer, what matters of it. A line
    such as " … 12 frames left out" stands for what is left out; paths begin with the package.
    """
    plain_lines = [PREFIX.sub("", line) for line in lines]
    chain_start = find_chain(plain_lines)
    if chain_start is None or len(plain_lines) - chain_start <= room:
        return tuple(plain_lines[-room:])
    blocks = _split_blocks(plain_lines[chain_start:])
    chosen_blocks: set[int] = set()
    # Of equal worth, the later ones go first: they are nearer to the end.
    for block_number in sorted(
        range(len(blocks)), key=lambda block_number: (blocks[block_number].worth, -block_number)
    ):
        if len(_render(blocks, chosen_blocks | {block_number})) <= room:
            chosen_blocks.add(block_number)
    return tuple(_render(blocks, chosen_blocks))


def find_raising_line(lines: Sequence[str]) -> str:
    """Return the line of the user's own program that is nearest to the last exception; "" if there
    is none. Such as "train.py:41, load_batch: raise ValueError(path)"."""
    plain_lines = [PREFIX.sub("", line) for line in lines]
    chain_start = find_chain(plain_lines)
    blocks = _split_blocks(plain_lines[chain_start:]) if chain_start is not None else []
    frame = next((block.lines for block in reversed(blocks) if block.worth is Worth.NEAREST), [])
    frame_match = _FRAME.match(frame[0]) if frame else None
    if not frame_match:
        return ""
    file_name = frame_match["path"].rpartition("/")[2]
    place = f"{file_name}:{frame_match['line']}"
    if frame_match["function"] and frame_match["function"] != "<module>":
        place += f", {frame_match['function']}"
    code = " ".join(line.strip() for line in frame[1:])
    return f"{place}: {code}" if code else place


def find_error_line(lines: Sequence[str]) -> str:
    """Return the first line of the last exception, such as "KeyError: 'label'"; "" if there is
    none."""
    plain_lines = [PREFIX.sub("", line) for line in lines]
    chain_start = find_chain(plain_lines)
    blocks = _split_blocks(plain_lines[chain_start:]) if chain_start is not None else []
    raised = (block.lines[0] for block in reversed(blocks) if block.worth is Worth.RAISED)
    return next(raised, "")


def find_chain(lines: Sequence[str]) -> int | None:
    """Return where the last chain of tracebacks begins; 0 if its head is out of sight."""
    chain_start: int | None = None
    is_linked = False
    for line_number, line in enumerate(lines):
        stripped_line = line.strip()
        if stripped_line in LINKS:
            is_linked = True
        elif stripped_line == HEADER:
            if chain_start is None or not is_linked:
                chain_start = line_number
            is_linked = False
    return 0 if chain_start is None and any(map(_FRAME.match, lines)) else chain_start


def _split_blocks(lines: Sequence[str]) -> list[Block]:
    blocks: list[Block] = []
    is_inside = True
    lines_of_message = 0
    for line in lines:
        # They say nothing, and would take the room of a line that does.
        if _MARKS.fullmatch(line):
            continue
        frame_match = _FRAME.match(line)
        if line.strip() in (HEADER, *LINKS):
            is_inside = True
            blocks.append(Block(Worth.HEAD, [line]))
        elif frame_match:
            is_inside = True
            is_foreign = _FOREIGN.search(frame_match["path"]) or _PACKAGE.match(frame_match["path"])
            frame_worth = Worth.FOREIGN if is_foreign else Worth.OWN
            blocks.append(Block(frame_worth, [_LONG.sub("", line)]))
        elif is_inside and line[:1].isspace() and blocks and blocks[-1].is_frame:
            blocks[-1].lines.append(line)
        elif is_inside and RAISED.match(line):
            is_inside = False
            lines_of_message = 0
            _mark_raising(blocks)
            blocks.append(Block(Worth.RAISED, [line]))
        else:
            lines_of_message += 1
            is_near = not is_inside and lines_of_message <= _MESSAGE
            blocks.append(Block(Worth.MESSAGE if is_near else Worth.REST, [line]))
    return blocks


def _mark_raising(blocks: Sequence[Block]) -> None:
    """Mark the frame that has raised, and the nearest one of the user."""
    if not blocks or not blocks[-1].is_frame:
        return
    own_frames = [block for block in blocks if block.worth is Worth.OWN]
    blocks[-1].worth = Worth.RAISING
    if own_frames:
        # Last, since the frame that raised may be the user's own: it is then the nearest, too.
        own_frames[-1].worth = Worth.NEAREST


def _render(blocks: Sequence[Block], chosen: Iterable[int]) -> list[str]:
    lines: list[str] = []
    hidden_blocks: list[Block] = []
    for block_number, block in enumerate(blocks):
        if block_number not in chosen:
            hidden_blocks.append(block)
            continue
        lines += [*_describe_gap(hidden_blocks), *block.lines]
        hidden_blocks = []
    return lines + _describe_gap(hidden_blocks)


def _describe_gap(hidden_blocks: Sequence[Block]) -> list[str]:
    if not hidden_blocks:
        return []
    if all(block.is_frame for block in hidden_blocks):
        return [f"  … {count(len(hidden_blocks), 'frame')} left out"]
    return [f"  … {count(sum(len(block.lines) for block in hidden_blocks), 'line')} left out"]
