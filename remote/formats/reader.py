"""Read the output of one rank: find out its format, and what each line reports."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import chain
from typing import NamedTuple

from remote.formats import candidates, records
from remote.formats.catalog import LogFormat, known_formats
from remote.formats.memory import Memory, is_of_evaluation
from remote.formats.patterns import MAX_NAMES
from remote.formats.readers import FormatReader, make_reader
from remote.formats.reading import EVALUATION, OTHER, STEP, Reading
from remote.formats.rules import OWN, Rule, rule_formats

LOCK = 3
"""Readings of one format after which it is that of the rank."""
TAKE_OVER = 8
"""Readings of another format, with none of the rank's own between them, after which it is that."""
MAX_RANKS = 1_024
"""Ranks in a log that are kept apart."""
PIECE = 1 << 16
"""A text of so many characters without a newline is a piece of a longer line."""
BARS = "tqdm"
"""The family of bars of tqdm: formats without a step of their own take theirs from them."""


class LineReading(NamedTuple):
    """A reading, with the last line that reports it, and the format of that line."""

    line: str
    format: LogFormat
    reading: Reading


class LogReader:
    """Reads the output of one rank, stdout and stderr together. Keeps state; deterministic.

    `rules` are the user's own, tried first. `unread` counts the lines that have numbers and are not
    read; `on_unread` is called with each.
    """

    def __init__(
        self, rules: Sequence[Rule] = (), on_unread: Callable[[str], None] | None = None
    ) -> None:
        self.unread = 0
        self._on_unread = on_unread
        self._choice = FormatChoice((*rule_formats(rules), *known_formats()))
        self._readers: dict[tuple[LogFormat, int], FormatReader] = {}
        """By format and the rank that lines begin with; -1 for lines without one."""
        self._memories: dict[int, Memory] = {}
        """By the same rank: ranks that print into one log need not be at the same step."""
        self._first_rank = -1
        self._open_format: LogFormat | None = None
        self._cut_record = ""
        self._last_steps: dict[int, int] = {}
        self._readings: list[LineReading] = []
        self._unread_texts: list[str] = []

    @property
    def format(self) -> str:
        """The name of the format that is read; "" as long as nothing is."""
        return self._choice.name

    def read(self, text: str) -> list[Reading]:
        """Return what the text of one `Text` event reports: whole lines, or a piece of a long
        one."""
        return [line_reading.reading for line_reading in self.read_lines(text)]

    def read_lines(self, text: str) -> list[LineReading]:
        """Return the readings of `read`, each with its line and its format."""
        block = records.clean(self._whole_records(text))
        while block:
            block = block[self._read_block(block) :]
        readings = self._readings
        self._readings = []
        self._count_unread()
        self._report_steps_once(readings)
        return readings

    def _whole_records(self, text: str) -> str:
        """Return the text from the beginning of a record to the end of one."""
        text = self._cut_record + text
        self._cut_record = ""
        # A bar writes over its own line and never ends it. A piece may be cut within one of its
        # states, so the last one waits for the text that follows.
        if len(text) >= PIECE and "\n" not in text:
            end = max(text.rfind("\r"), text.rfind("\x1b[K"), text.rfind("\x08"))
            if len(text) - end <= records.LONGEST:
                self._cut_record = text[end:]
                text = text[:end]
        return text

    def _read_block(self, block: str) -> int:
        """Read lines up to the end, or until another format is chosen. Return where that is."""
        first = self._choice.first
        active = _active_marks(first, block)
        end = 0
        for start in candidates.find_lines(block, self._choice.first_marks):
            if start < end:
                continue
            end += self._read_other_lines(block[end:start])
            # A line in between may have opened its format, or taken over.
            if end < start or self._choice.first is not first:
                return end
            stop = _line_end(block, start)
            line = block[start:stop]
            if not self._try_formats(line, active):
                # Marks are short: a line of another format may have one as well.
                self._read_other_lines(f"{line}\n")
            end = stop + 1
            if self._choice.first is not first:
                return end
        return end + self._read_other_lines(block[end:])

    def _read_other_lines(self, block: str) -> int:
        """Read lines without a mark of the rank's format. Return where it stopped, as in
        `_read_block`."""
        if not block:
            return 0
        first = self._choice.first
        starts = candidates.find_candidates(block)
        # To look for marks in all of the block would take longer than to find these lines.
        lines = "\n".join([block[start : _line_end(block, start)] for start in starts])
        active = _active_marks(self._choice.others, lines)
        end = 0
        for start in starts:
            end = self._read_open(block, end, start)
            if start < end:
                continue
            stop = _line_end(block, start)
            if self._try_formats(block[start:stop], active):
                self._unread_texts.append(block[end:start])
                end = stop + 1
                if self._choice.first is not first:
                    return end
        end = self._read_open(block, end, len(block))
        self._unread_texts.append(block[end:])
        return len(block)

    def _read_open(self, block: str, end: int, until: int) -> int:
        """Show the lines from `end` to the format that is open, if there is one. Return where the
        next line begins that is to be read."""
        while end < until and self._open_format is not None:
            stop = _line_end(block, end)
            line = block[end:stop]
            if not self._read_as(self._open_format, line):
                self._unread_texts.append(f"{line}\n")
            end = stop + 1
        return end

    def _try_formats(self, line: str, active: Sequence[tuple[str, LogFormat]]) -> bool:
        """Read a line by the first format that can. Return False if none can."""
        if self._open_format is not None and self._read_as(self._open_format, line):
            return True
        tried_format = None
        for mark, format_ in active:
            # Marks of one format follow each other, and a line may have several.
            if format_ is tried_format or mark not in line:
                continue
            tried_format = format_
            if self._read_as(format_, line):
                return True
        return False

    def _read_as(self, log_format: LogFormat, line: str) -> bool:
        """Read a line as one of this format. Return False if it is none."""
        line = line[: records.LONGEST]
        start, rank = records.peel(line)
        memory = self._memory_of(rank)
        # A reader keeps state, so each rank has its own; most formats never need one.
        reader = self._readers.get((log_format, memory.rank))
        if reader is None:
            reader = self._readers[log_format, memory.rank] = make_reader(log_format)
        try:
            reading = reader.read(line, start, memory)
        except (ValueError, ArithmeticError):  # no number, such as 0.5.3, or too large a one
            reading = None
        self._open_format = log_format if reader.open else None
        if reading is None:
            return False
        if rank >= 0:
            reading = replace(reading, rank=rank)
        if reading.step:
            memory.step = reading.step
        chosen = self._choice.filter(log_format, reading)
        if chosen is not None:
            self._add(LineReading(line, log_format, chosen))
        return True

    def _memory_of(self, rank: int) -> Memory:
        # Lines that name no rank go on with those of the first one that is named: most programs
        # name their rank in some lines only.
        if self._first_rank < 0:
            self._first_rank = rank
        is_full = len(self._memories) >= MAX_RANKS
        if rank == self._first_rank or (is_full and rank not in self._memories):
            rank = -1
        memory = self._memories.get(rank)
        if memory is None:
            memory = self._memories[rank] = Memory(rank)
        return memory

    def _add(self, new: LineReading) -> None:
        """Add a reading. One of the same step joins the one before: the states of a bar, the lines
        of a table."""
        if self._readings and _belong_together(self._readings[-1], new):
            last = self._readings.pop().reading
            reading = new.reading
            kind = reading.kind if reading.kind is last.kind else STEP
            joined = replace(reading, kind=kind, values=last.values | reading.values)
            new = new._replace(reading=joined)
        self._readings.append(new)

    def _report_steps_once(self, readings: list[LineReading]) -> None:
        """Report no step twice: what comes later of a step is more values of it."""
        for place, line_reading in enumerate(readings):
            reading = line_reading.reading
            if reading.kind is not STEP or not reading.step:
                continue
            if self._last_steps.get(reading.rank) == reading.step:
                readings[place] = line_reading._replace(reading=replace(reading, kind=OTHER))
            else:
                self._last_steps[reading.rank] = reading.step

    def _count_unread(self) -> None:
        text = "".join(self._unread_texts)
        self._unread_texts = []
        if self._on_unread is None:
            self.unread += candidates.count_unread(text)
            return
        for line in filter(candidates.looks_unread, text.split("\n")):
            self.unread += 1
            self._on_unread(line)


def _line_end(block: str, start: int) -> int:
    end = block.find("\n", start)
    return end if end >= 0 else len(block)


def _active_marks(formats: Sequence[LogFormat], text: str) -> list[tuple[str, LogFormat]]:
    """Return the marks that may be in a text, each with its format."""
    if not formats or not text:
        return []
    may_have = candidates.searcher(text)
    return [(mark, format_) for format_ in formats for mark in format_.marks if may_have(mark)]


def _belong_together(last: LineReading, new: LineReading) -> bool:
    before = last.reading
    after = new.reading
    if before.step != after.step or not after.step or before.rank != after.rank:
        return False
    if last.format.kin != new.format.kin:
        return False
    return before.kind is after.kind or EVALUATION not in (before.kind, after.kind)


class FormatChoice:
    """Chooses the format of a rank, and which readings of others count beside it."""

    def __init__(self, formats: Sequence[LogFormat]) -> None:
        self._order = {log_format: number for number, log_format in enumerate(formats)}
        self._generic_kin = {log_format.kin for log_format in formats if log_format.generic}
        self._locked_kin = ""
        self._named: LogFormat | None = None
        self._hints: dict[str, LogFormat] = {}  # by kin, the format of a line without values
        self._hits: dict[str, int] = {}  # readings of others in a row, by kin
        self._evaluated: set[str] = set()
        self.first: list[LogFormat] = []
        """The formats that are tried first, once that of the rank is known."""
        self.first_marks: list[str] = []
        self.others: list[LogFormat] = list(formats)

    @property
    def name(self) -> str:
        """The name of the format; "" as long as nothing is read."""
        return self._named.name if self._named else ""

    def filter(self, log_format: LogFormat, reading: Reading) -> Reading | None:
        """Return a reading as far as it counts."""
        kin = log_format.kin
        values = reading.values
        if not values:
            self._hints[kin] = log_format
            return None
        if kin == OWN:
            self._named = log_format
            return reading
        is_locked = kin == self._locked_kin
        beside = None
        if self._locked_kin and log_format.generic and not is_locked:
            beside = self._evaluation_beside(reading)
            if beside is not None and reading.kind is EVALUATION:
                return beside
        elif len(self._evaluated) < MAX_NAMES:
            self._evaluated.update(filter(is_of_evaluation, values))
        if is_locked:
            self._forget_hits()
        elif not self._count_hit(log_format):
            return replace(reading, kind=OTHER) if log_format.companion else beside
        self._name(log_format)
        return reading

    def _evaluation_beside(self, reading: Reading) -> Reading | None:
        """Return what a line of a generic format reports of an evaluation that the rank's own
        format does not."""
        values: dict[str, float] = {}
        for name, value in reading.values.items():
            if is_of_evaluation(name) and name not in self._evaluated:
                values[name] = value
        return replace(reading, kind=EVALUATION, values=values) if values else None

    def _count_hit(self, log_format: LogFormat) -> bool:
        """Count a reading of another format than the rank's. Return True if it counts, as there is
        none yet, or this becomes that of the rank."""
        kin = log_format.kin
        locked_kin = self._locked_kin
        hits = self._hits.get(kin, 0) + 1
        self._hits[kin] = hits
        gives_way = locked_kin in self._generic_kin and not log_format.generic
        is_better = not locked_kin or gives_way
        if hits >= (LOCK if is_better else TAKE_OVER):
            self._lock(log_format)
            return True
        return not locked_kin

    def _forget_hits(self) -> None:
        """Begin to count anew. Formats that are better than a generic one need not come in a
        row."""
        if not self._hits:
            return
        if self._locked_kin not in self._generic_kin:
            self._hits.clear()
        for kin in self._hits.keys() & self._generic_kin:
            del self._hits[kin]

    def _lock(self, log_format: LogFormat) -> None:
        self._locked_kin = log_format.kin
        self._named = None
        self._evaluated.clear()
        self._hits.clear()
        self.others = []
        # Any other format may still take over from a generic one, so the usual order stays.
        first_kin = [] if log_format.generic else [OWN, log_format.kin, BARS]
        # Its order is that in which the formats are tried: the user's own rules first.
        by_kin: dict[str, list[LogFormat]] = {kin: [] for kin in first_kin}
        for known_format in self._order:
            by_kin.get(known_format.kin, self.others).append(known_format)
        self.first = [*chain(*by_kin.values())]
        self.first_marks = [mark for known_format in self.first for mark in known_format.marks]

    def _name(self, log_format: LogFormat) -> None:
        """Take the name of this format, or of a more specific one of its family."""
        named = self._named
        # So it is for nearly every line, and what follows takes as long as parsing five numbers.
        if named is log_format and not self._hints:
            return
        candidates = [log_format, self._hints.get(log_format.kin, log_format)]
        if named is not None and named.kin == log_format.kin:
            candidates.append(named)
        # Of a family, the catalog has the more specific formats first.
        self._named = min(candidates, key=self._order.__getitem__)
