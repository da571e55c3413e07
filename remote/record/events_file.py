"""Read `events.jsonl`, the record of a run. No other module reads it.

The file may be somebody else's work, and a launcher may be writing it at the moment. So it is read
by whole lines: what stands behind the last newline waits for the next look.
"""

from __future__ import annotations

import os
import re
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from remote.cluster.hosts import HOSTS
from remote.events import Restarted, decode, decode_packed, expand
from remote.format import count
from remote.jsonl import load
from remote.limits import LIMITS
from remote.plan import serialize
from remote.record import files
from remote.record.layout import EVENTS, STEP_CHUNKS
from remote.record.lock import launcher
from remote.record.step_chunks import ChunkReader, measure_density
from remote.run.output.script_readings import Expand
from training.mistake import MistakeError
from training.wire.events import SESSION, Record, other_format
from training.wire.host_events import Launched

if TYPE_CHECKING:  # lists of runs need no state of any
    from remote.record.snapshots import RunMoment

LOOK = 0.2
"""Seconds between two looks at what another launcher has recorded."""
BLOCK = 1 << 16
"""Bytes that are read at once where whole blocks may be skipped."""
Remark = Callable[[str], object]
"""Is called with a sentence for the user."""


class RunFolderError(MistakeError):
    """A folder that holds no run that can be read; the text says what is wrong with it."""


# Scans --------------------------------------------------------------------------------------------

# A long record is scanned before any of it is decoded. To decode a hundred megabytes, even no more
# than the names of the events, takes longer than a user waits for the first screen. A scan only
# chooses lines: it may take a printed text for an event, and such a line is decoded in vain.

EVENT = rb'"event\\?": ?\\?"'
"""What stands before the name of an event. The quotes are escaped if a rank reported it."""
STEP = re.compile(rb'"step\\?": ?(\d{1,18})\b(?:, ?"count": ?(\d{1,6})\b)?')
"""What names a step, or the last one of a block with the number of its steps."""


def compile_scan(event_names: Iterable[str]) -> re.Pattern[bytes]:
    """Return a pattern that is found in lines with one of these events."""
    any_name = "|".join(event_names).encode()
    return re.compile(EVENT + rb'(?:%s)\\?"' % any_name)


def compile_scan_for_others(event_names: Iterable[str]) -> re.Pattern[bytes]:
    """Return a pattern that is found in lines with an event that is none of these."""
    any_name = "|".join(event_names).encode()
    return re.compile(EVENT + rb'(?!(?:%s)\\?")' % any_name)


def has_steps_between(lines: bytes, first_step: int, last_step: int) -> bool:
    """Return True if an event in these lines may be of a step from the first to the last one."""
    for step_digits, count_digits in STEP.findall(lines):
        step = int(step_digits)
        count = int(count_digits or 1)
        if step - count < last_step and first_step <= step:
            return True
    return False


def select_lines(block: bytes, is_needed: Callable[[bytes], object]) -> list[bytes]:
    """Return the lines of a block that are needed. Most blocks have none, and are asked as a whole,
    which is much faster than line by line."""
    if not is_needed(block):
        return []
    return [line for line in block.splitlines() if is_needed(line)]


def find_lines(block: bytes, pattern: re.Pattern[bytes]) -> Iterator[bytes]:
    """Yield the lines of a block that have the pattern. The others are passed over at the speed of
    the search, and are not cut."""
    position = 0
    while match := pattern.search(block, position):
        start = block.rfind(b"\n", 0, match.start()) + 1
        position = block.find(b"\n", match.end()) + 1 or len(block)
        yield block[start:position]


# Lines into records -------------------------------------------------------------------------------


class RecordParser:
    """Parses lines into records, expanded (see `remote.run.output.script_readings`), and leaves out
    those that no session and no host of the run can have written."""

    def __init__(
        self, run: str, hosts: int, expand: Expand = expand, chunks: ChunkReader | None = None
    ) -> None:
        """`hosts`: how many hosts the run has. `chunks` has the columns that lines name; without
        it, such a line is no record."""
        self._run = run
        self._hosts = hosts
        self._chunks = chunks
        self.expand = expand
        self.num_of_other_hosts = 0
        """How many records were left out, as they name hosts that the run does not have."""
        self.num_without_columns = 0
        """How many blocks of steps were left out, as the columns that they name are not whole."""

    @property
    def left_out(self) -> int:
        """Return how many records were left out."""
        return self.num_of_other_hosts + self.num_without_columns

    def parse(self, lines: Iterable[bytes], *, keeps_packed: bool = False) -> Iterator[Record]:
        """Yield the records of these lines. `keeps_packed`: a block of steps may be damaged, which
        shows once it is unpacked. Raises: OtherFormat."""
        decode_line = decode_packed if keeps_packed else decode
        for line in lines:
            whole_line = self._restore(line)
            record = decode_line(whole_line)
            if record is None:
                # Not a line that is none of ours, but one whose columns are damaged.
                self.num_without_columns += whole_line is not line
                self._check_format(whole_line)
            elif self._fits(record):
                yield from self.expand(record)
            else:
                self.num_of_other_hosts += 1

    def _restore(self, line: bytes) -> bytes:
        """Return a line with the columns that it names; b"" if they are not whole."""
        if self._chunks is None:
            return line
        try:
            return self._chunks.restore(line)
        except ValueError:
            return b""

    def _fits(self, record: Record) -> bool:
        event = record.event
        named_hosts = [record.host, getattr(event, "host", SESSION)]
        if not all(SESSION <= host < self._hosts for host in named_hosts):
            return False
        if isinstance(event, Launched | Restarted):
            return all(0 <= host < self._hosts for host in event.hosts)
        return True

    def _check_format(self, line: bytes) -> None:
        """Raises: OtherFormat, if it is a first record in another format."""
        format_number = other_format(load(line) or {})
        if format_number is not None:
            raise serialize.OtherFormat(self._run, format_number)


# The file -----------------------------------------------------------------------------------------


class EventsReader:
    """Reads the records of a run in order, also those that come while it reads.

    `offset` is the number of bytes before the next line to read. `parser` makes records of lines.
    """

    def __init__(self, folder: Path, hosts: int = HOSTS, expand: Expand = expand) -> None:
        """`hosts`: how many hosts the run has. The file need not be there yet."""
        self.path = folder / EVENTS
        self.offset = 0
        self.chunks = ChunkReader(folder)
        self.parser = RecordParser(folder.name, hosts, expand, self.chunks)
        self._file: BinaryIO | None = None

    @property
    def size(self) -> int:
        """Return how many bytes the file has now; 0 if there is none."""
        try:
            return self.path.lstat().st_size
        except OSError:
            return 0

    @property
    def density(self) -> float:
        """Return how many bytes of records and columns there are for each byte of the file."""
        return measure_density(self.path.parent)

    def __iter__(self) -> Iterator[Record]:
        """Yield the records from here to the end of the file. Raises: see `read_records`."""
        while records := self.read_records():
            yield from records

    def read_records(self) -> list[Record]:
        """Return the records of the next line that has some; none at the end of the file, or if
        there is no file yet. Raises: OtherFormat; RunFolderError, if the file cannot be read."""
        with self._explained():
            while line := self._read_line():
                records = list(self.parser.parse((line,)))
                if records:
                    return records
        return []

    def read_unfinished_line(self) -> list[Record]:
        """Return the records of a last line that lacks no more than its newline, as one does whose
        launcher was killed. Raises: as `read_records`."""
        with self._explained():
            line = self._open().readline(LIMITS.line + 1)
            return list(self.parser.parse((line,))) if line else []
        return []

    def read_lines(self, end: int = sys.maxsize) -> Iterator[bytes]:
        """Yield the whole lines up to the byte `end`, where a line begins. Raises: RunFolderError,
        if the file cannot be read."""
        with self._explained():
            while self.offset < end and (line := self._read_line()):
                yield line

    def read_packed_at(self, offset: int) -> Record | None:
        """Return the record of the line that begins at the byte `offset`, as it stands there, with
        a block of steps packed; None if it is not a record. Raises: RunFolderError, if the file
        cannot be read."""
        with self._explained():
            self.seek(offset)
            return decode_packed(self._read_line())
        return None

    def _read_line(self) -> bytes:
        """Return the next whole line, b"" at the end. A line beyond the limit is passed over."""
        events_file = self._open()
        while line := events_file.readline(LIMITS.line + 1):
            line_length = len(line)
            line_part = line
            # In blocks, so that such a line is never in memory as a whole.
            while line_length > LIMITS.line and line_part and not line_part.endswith(b"\n"):
                line_part = events_file.readline(BLOCK)
                line_length += len(line_part)
            if not line_part.endswith(b"\n"):
                events_file.seek(self.offset)  # the rest of the line is not written yet
                break
            self.offset += line_length
            if line_part is line:
                return line
        return b""

    def read_block(self, size: int = BLOCK) -> bytes:
        """Return the next whole lines of about `size` bytes, b"" at the end. Raises:
        RunFolderError, if the file cannot be read."""
        with self._explained():
            events_file = self._open()
            block = events_file.read(size)
            if not block.endswith(b"\n"):
                block += events_file.readline(LIMITS.line + 1)
            lines_end = block.rfind(b"\n") + 1
            self.offset += lines_end
            if lines_end < len(block):
                events_file.seek(self.offset)
            return block[:lines_end]
        return b""

    def seek(self, offset: int) -> None:
        """Continue at the byte `offset`, where a line begins."""
        self.offset = offset
        if self._file:
            self._file.seek(offset)

    def continue_from(self, moment: RunMoment) -> None:
        """Continue behind a moment of the run."""
        self.parser.expand = moment.expand
        self.seek(moment.offset)

    def seek_line(self, offset: int) -> None:
        """Continue at the first line that begins at the byte `offset` or later."""
        # One byte earlier: if that is a newline, a line begins at the offset itself.
        self.seek(max(0, offset - 1))
        if offset > 0:
            with self._explained():
                self.offset += len(self._open().readline(LIMITS.line + 1))

    def is_replaced(self) -> bool:
        """Return True if the file is another one now, or shorter than what was read of it. The
        next line to read is then its first."""
        if self._file is None:
            return False
        try:
            current_status = os.lstat(self.path)
            opened_status = os.fstat(self._file.fileno())
        except OSError:
            return False  # it is gone; what was read of it stays
        if (
            os.path.samestat(current_status, opened_status)
            and current_status.st_size >= self.offset
        ):
            return False
        self.close()
        self._file = None
        self.offset = 0
        return True

    def check_end(self) -> None:
        """Raises: RunFolderError, if what is behind the last line is too long for a line."""
        if self.size - self.offset > LIMITS.line:
            raise RunFolderError(f"{self.path}: it has a line longer than {LIMITS.line:,} bytes")

    def require_file(self) -> None:
        """Raises: RunFolderError, if there is no file or it cannot be read."""
        with self._explained(is_required=True):
            self._open()

    def remark_on_left_out(self, remark: Remark | None) -> None:
        """Say how many records were left out, if any were."""
        if not remark:
            return
        num_of_other_hosts = self.parser.num_of_other_hosts
        if num_of_other_hosts:
            explanation = "they name hosts that the run does not have"
            remark(f"{self.path}: {num_of_other_hosts} records were left out: {explanation}")
        num_without_columns = self.parser.num_without_columns
        if num_without_columns:
            explanation = f"columns are not whole in {STEP_CHUNKS}"
            if self.chunks.problem:
                explanation = f"{STEP_CHUNKS}: {self.chunks.problem}"
            blocks = count(num_without_columns, "block")
            remark(f"{self.path}: {blocks} of steps left out: {explanation}")

    def close(self) -> None:
        """Close the files."""
        self.chunks.close()
        if self._file is not None:
            self._file.close()

    def _open(self) -> BinaryIO:
        """Raises: OSError."""
        if self._file is None:
            self._file = files.opened(self.path)
            self._file.seek(self.offset)
        return self._file

    @contextmanager
    def _explained(self, *, is_required: bool = False) -> Iterator[None]:
        """Ignore that there is no file yet, unless it is required. Raises: RunFolderError, if it
        cannot be read."""
        try:
            yield
        except OSError as error:
            if is_required or not isinstance(error, FileNotFoundError):
                error_text = f"{self.path.parent} holds no run: {EVENTS}: {error.strerror}"
                raise RunFolderError(error_text) from error


# Whole records ------------------------------------------------------------------------------------


def read_records(
    folder: Path,
    hosts: int = HOSTS,
    remark: Remark | None = None,
    expand: Expand = expand,
    *,
    after: RunMoment | None = None,
) -> Iterator[Record]:
    """Yield the records of a run with so many hosts in order of arrival, expanded (see
    `remote.run.output.script_readings`), or only those after a moment. `remark` is called with what
    was left out.

    Raises: OtherFormat; RunFolderError.
    """
    with closing(EventsReader(folder, hosts, expand)) as reader:
        if after:
            reader.continue_from(after)
        reader.require_file()
        yield from reader
        yield from reader.read_unfinished_line()
        reader.remark_on_left_out(remark)


def follow_records(
    folder: Path,
    hosts: int,
    remark: Remark | None = None,
    expand: Expand = expand,
    *,
    start: int = 0,
) -> Iterator[Record]:
    """Yield what `read_records` does, and what a launcher adds to it as long as it records the run.
    `start`: the bytes of the record that are left out.

    Raises: OtherFormat; RunFolderError.
    """
    is_over = False
    with closing(EventsReader(folder, hosts, expand)) as reader:
        reader.seek(start)
        while not is_over:
            is_over = not launcher(folder)  # asked before the read, so as to miss no last record
            yield from reader
            reader.check_end()
            if not is_over:
                time.sleep(LOOK)
        reader.require_file()
        reader.remark_on_left_out(remark)


def read_samples(folder: Path, place_count: int, sample_size: int) -> Iterator[Sequence[Record]]:
    """Yield the records of about `sample_size` bytes, with their columns, at so many places, evenly
    spaced in the file.

    Raises: OtherFormat; RunFolderError.
    """
    with closing(EventsReader(folder)) as reader:
        reader.require_file()
        file_size = reader.size
        place_size = min(int(sample_size / reader.density), file_size // place_count) + 1
        for place_index in range(place_count):
            reader.seek_line(file_size * place_index // place_count)
            block = reader.read_block(place_size)
            yield list(reader.parser.parse(block.splitlines()))
