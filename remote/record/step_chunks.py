"""The columns of the steps of a run, packed, in a file of their own: one chunk behind the other.

An agent sends the packed columns of a block of steps in base64. A launcher appends the bytes
themselves to `steps.bin`; the line of the block in `events.jsonl` then names their place, as in
`"columns":"@1024+2400"`: 2,400 bytes behind the first 1,024. A chunk is written before the line
that names it, so what a line names is there as a whole. Bytes that no line names do no harm.
"""

from __future__ import annotations

import os
import re
import zlib
from binascii import a2b_base64, b2a_base64
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import msgspec

from remote.record import files
from remote.record.layout import EVENTS, STEP_CHUNKS
from training.wire.step_block import LARGEST_COLUMNS, StepBlock
from training.writing import write_all

COLUMNS_KEY = b',"columns":"'
BLOCK_HEAD = re.compile(
    rb'\{"host":\d+,"attempt":\d+,"seq":\d+,"time":[\d.]+,"event":"steps","rank":\d+,"step":\d+,'
    rb'"count":\d+,"columns":"'
)
"""The beginning of the line of a block, as agents write it."""
REFERENCE = re.compile(rb'"columns":"@(\d{1,16})\+(\d{1,7})"\}')
"""The end of the line of a block whose columns are in the file. "@" is no character of base64, so
nothing that a host sends is taken for it."""
LONGEST_REFERENCE = 48
"""Bytes, with the end of the line."""
REFERENCE_TEXT = re.compile(r"@(\d{1,16})\+(\d{1,7})")
MOST_CUT = 16 << 20
"""Bytes at the end of a record that a crash of the machine may cost, at the most."""
MOST_DENSE = 1000.0
"""What `measure_density` returns at the most, whatever somebody else's files are like."""
SEARCHED = 1 << 20
"""Bytes that are searched at once."""


class ChunkPlace(NamedTuple):
    """Where the packed columns of a block are."""

    offset: int
    size: int

    @property
    def end(self) -> int:
        """Return the byte behind the last one."""
        return self.offset + self.size


# Writing ------------------------------------------------------------------------------------------


def move_columns(folder: Path, lines: bytes) -> bytes:
    """Append the columns of the blocks of steps in whole lines to the file of a run. Return the
    lines, which name their places. Raises: OSError, perhaps after a part was written."""
    if COLUMNS_KEY not in lines:
        return lines
    flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT
    descriptor = files.open_regular(folder / STEP_CHUNKS, flags)
    try:
        # Not what was counted: a write that failed may have left any number of bytes.
        end = os.fstat(descriptor).st_size
        short_lines, chunks = split_chunks(lines, end)
        write_all(descriptor, chunks)
    finally:
        os.close(descriptor)
    return short_lines


def split_chunks(lines: bytes, end: int) -> tuple[bytes, bytes]:
    """Return the lines with the places of columns in a file of `end` bytes, and the bytes that are
    to be appended to it."""
    line_parts = list[bytes]()
    chunks = list[bytes]()
    copied = 0  # bytes of the lines that are dealt with
    position = lines.find(COLUMNS_KEY)
    while position >= 0:
        columns_begin = position + len(COLUMNS_KEY)
        columns_end = lines.find(b'"', columns_begin)
        line_begin = lines.rfind(b"\n", copied, position) + 1 or copied
        chunk = b""
        head = BLOCK_HEAD.match(lines, line_begin)
        # A line of any other form stays as it is, and can be read as well.
        if head and head.end() == columns_begin and lines.startswith(b'"}\n', columns_end):
            with suppress(ValueError):
                chunk = a2b_base64(memoryview(lines)[columns_begin:columns_end])
        if chunk:
            chunks.append(chunk)
            line_parts += (lines[copied:columns_begin], b"@%d+%d" % (end, len(chunk)))
            copied = columns_end
            end += len(chunk)
        position = lines.find(COLUMNS_KEY, columns_end if columns_end > 0 else len(lines))
    line_parts.append(lines[copied:])
    return b"".join(line_parts), b"".join(chunks)


# Reading ------------------------------------------------------------------------------------------


class ChunkReader:
    """Reads the chunks of a run. Its file may be somebody else's work, or shorter than lines say.

    It is not mapped: to read a mapped file that somebody cuts ends the program.
    """

    def __init__(self, folder: Path) -> None:
        self._path = folder / STEP_CHUNKS
        self._descriptor = -1
        self._size = 0
        self.problem = ""
        """Why the file cannot be read, if it cannot."""

    def has(self, place: ChunkPlace) -> bool:
        """Return True if the file has all of a chunk."""
        if place.size > LARGEST_COLUMNS:
            return False
        # A launcher may have written more since.
        if place.end > self._size:
            self._size = self._measure()
        return place.end <= self._size

    def read(self, place: ChunkPlace) -> bytes:
        """Return a chunk. Raises: ValueError, if the file does not have all of it."""
        if self.has(place):
            with suppress(OSError):
                chunk = os.pread(self._descriptor, place.size, place.offset)
                if len(chunk) == place.size:
                    return chunk
        raise ValueError(f"{STEP_CHUNKS} has no {place.size} bytes at {place.offset}")

    def has_intact(self, place: ChunkPlace) -> bool:
        """Return True if the file has all of a chunk, and no other bytes in its place."""
        inflater = zlib.decompressobj()
        with suppress(ValueError, zlib.error):
            inflater.decompress(self.read(place), LARGEST_COLUMNS)
        return inflater.eof

    def restore(self, line: bytes) -> bytes:
        """Return a line as its agent wrote it, with the columns that it names. Raises: ValueError,
        if the file does not have them."""
        # It stands at the end, and most lines have none.
        match = REFERENCE.search(line, max(0, len(line) - LONGEST_REFERENCE))
        if match is None:
            return line
        chunk = self.read(ChunkPlace(int(match[1]), int(match[2])))
        columns = b2a_base64(chunk, newline=False)
        return b'%b"columns":"%b"}%b' % (line[: match.start()], columns, line[match.end() :])

    def close(self) -> None:
        """Close the file. It is opened again if more is read."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
        self._descriptor = -1
        self._size = 0

    def _measure(self) -> int:
        try:
            if self._descriptor < 0:
                self._descriptor = files.open_regular(self._path, os.O_RDONLY)
            return os.fstat(self._descriptor).st_size
        except OSError as error:
            self.problem = error.strerror or ""
            return 0


class PlacedBlock(msgspec.Struct, frozen=True):
    """A block of steps whose columns stay in the file until they are needed."""

    rank: int
    step: int
    count: int
    place: ChunkPlace
    chunks: ChunkReader

    @property
    def packed(self) -> bytes:
        """Return the packed columns. Raises: ValueError, if the file does not have all of them."""
        return self.chunks.read(self.place)


def locate_columns(block: StepBlock, chunks: ChunkReader) -> StepBlock | PlacedBlock:
    """Return a block as its line has it, or with the chunk that this names."""
    match = REFERENCE_TEXT.fullmatch(block.columns)
    if match is None:
        return block
    place = ChunkPlace(int(match[1]), int(match[2]))
    return PlacedBlock(block.rank, block.step, block.count, place, chunks)


def measure_density(folder: Path) -> float:
    """Return how many bytes of records and chunks a run has for each byte of its record."""
    try:
        record_size = (folder / EVENTS).lstat().st_size
        chunks_size = (folder / STEP_CHUNKS).lstat().st_size
    except OSError:
        return 1.0
    return min(1.0 + chunks_size / record_size, MOST_DENSE) if record_size else 1.0


def describe_last_chunk(folder: Path, lines: bytes) -> bytes:
    """Return what tells the chunk that is named last in these lines from another one: its bytes,
    and the file that it is in; b"" if none is named. Raises: OSError, if it is not whole."""
    begin = lines.rfind(b'"columns":"@')
    match = REFERENCE.match(lines, begin) if begin >= 0 else None
    if match is None:
        return b""
    with files.opened(folder / STEP_CHUNKS) as file:
        place = ChunkPlace(int(match[1]), int(match[2]))
        inode = os.fstat(file.fileno()).st_ino
        chunk = os.pread(file.fileno(), min(place.size, LARGEST_COLUMNS), place.offset)
    if len(chunk) < place.size:
        raise OSError(f"{STEP_CHUNKS} is shorter")
    return b"%d %b" % (inode, chunk)


# After a crash ------------------------------------------------------------------------------------


def cut_unfinished(folder: Path) -> bool:
    """Cut the lines at the end of a record whose chunks are not whole, with all behind them: the
    hosts are asked for them again. Return False if chunks are missing for another reason.

    A machine that loses its power may have written a line, but not the chunk before it. Raises:
    OSError.
    """
    try:
        descriptor = files.open_regular(folder / EVENTS, os.O_RDWR)
    except FileNotFoundError:
        return True
    try:
        record_size = os.fstat(descriptor).st_size
        cut = record_size
        chunks = ChunkReader(folder)
        for line_begin, place in _list_references(descriptor, record_size):
            if chunks.has_intact(place):
                break
            cut = line_begin
        chunks.close()
        # Whoever has deleted the chunks is not to lose the record as well.
        if cut < record_size and (chunks.problem or record_size - cut > MOST_CUT):
            return False
        if cut < record_size:
            os.ftruncate(descriptor, cut)
    finally:
        os.close(descriptor)
    return True


def _list_references(descriptor: int, end: int) -> Iterator[tuple[int, ChunkPlace]]:
    """Yield the beginnings of the lines that name chunks, and the places, the last ones first."""
    while end > 0:
        begin = max(0, end - SEARCHED)
        block = os.pread(descriptor, end - begin, begin)
        # The first line may begin before the block; it is then part of the next one.
        lines_begin = block.find(b"\n") + 1 if begin else 0
        for match in reversed([*REFERENCE.finditer(block, lines_begin)]):
            line_begin = block.rfind(b"\n", 0, match.start()) + 1
            yield begin + line_begin, ChunkPlace(int(match[1]), int(match[2]))
        # A line that is longer than a block names no chunk.
        has_whole_line = 0 < lines_begin < len(block)
        end = begin + lines_begin if has_whole_line else begin
