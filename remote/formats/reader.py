"""Read the output of one rank: find out its format, and what each line reports."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
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
        self._readers: dict[LogFormat, FormatReader] = {}
        self._memory = Memory()
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
        unread = "".join(self._unread_texts)
        self._readings = []
        self._unread_texts = []
        self._count_unread(unread)
        self._report_steps_once(readings)
        return readings

    def _whole_records(self, text: str) -> str:
        """Return the text from the beginning of a record to the end of one."""
        text = self._cut_record + text
        self._cut_record = ""
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
        return any(mark in line and self._read_as(format_, line) for mark, format_ in active)

    def _read_as(self, log_format: LogFormat, line: str) -> bool:
        """Read a line as one of this format. Return False if it is none."""
        line = line[: records.LONGEST]
        # A reader keeps state, so each rank has its own; most formats never need one.
        reader = self._readers.get(log_format)
        if reader is None:
            reader = self._readers[log_format] = make_reader(log_format)
        start, rank = records.peel(line)
        try:
            reading = reader.read(line, start, self._memory)
        except (ValueError, ArithmeticError):  # no number, such as 0.5.3, or too large a one
            reading = None
        self._open_format = log_format if reader.open else None
        if reading is None:
            return False
        if rank >= 0:
            reading = replace(reading, rank=rank)
        if reading.step:
            self._memory.step = reading.step
        chosen = self._choice.filter(log_format, reading)
        if chosen is not None:
            self._add(LineReading(line, log_format, chosen))
        return True

    def _add(self, new: LineReading) -> None:
        """Add a reading. One of the same step joins the one before: the states of a bar, the lines
        of a table."""
        if self._readings and _belong_together(self._readings[-1], new):
            last = self._readings.pop().reading
            kind = last.kind if last.kind is new.reading.kind else STEP
            values = last.values | new.reading.values
            new = new._replace(reading=replace(new.reading, kind=kind, values=values))
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

    def _count_unread(self, text: str) -> None:
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
        self._formats = formats
        self._order = {format_: number for number, format_ in enumerate(formats)}
        self._generic_kin = {format_.kin for format_ in formats if format_.generic}
        self._locked: LogFormat | None = None
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
        if not reading.values:
            self._hints[log_format.kin] = log_format
            return None
        if log_format.kin == OWN:
            self._named = log_format
            return reading
        beside = self._values_beside(log_format, reading)
        if beside is not None and reading.kind is EVALUATION:
            return beside
        if self._is_locked_as(log_format):
            self._forget_hits()
        elif not self._count_hit(log_format):
            return replace(reading, kind=OTHER) if log_format.companion else beside
        self._name(log_format)
        return reading

    def _is_locked_as(self, log_format: LogFormat) -> bool:
        return self._locked is not None and self._locked.kin == log_format.kin

    def _values_beside(self, log_format: LogFormat, reading: Reading) -> Reading | None:
        """Return what a line of a generic format reports of an evaluation that the rank's own
        format does not."""
        is_beside = self._locked is not None and log_format.generic
        if not is_beside or self._is_locked_as(log_format):
            if len(self._evaluated) < MAX_NAMES:
                self._evaluated.update(filter(is_of_evaluation, reading.values))
            return None
        values: dict[str, float] = {}
        for name, value in reading.values.items():
            if is_of_evaluation(name) and name not in self._evaluated:
                values[name] = value
        return replace(reading, kind=EVALUATION, values=values) if values else None

    def _count_hit(self, log_format: LogFormat) -> bool:
        """Count a reading of another format than the rank's. Return True if it counts, as there is
        none yet, or this becomes that of the rank."""
        locked = self._locked
        hits = self._hits.get(log_format.kin, 0) + 1
        self._hits[log_format.kin] = hits
        is_better = locked is None or (locked.generic and not log_format.generic)
        if hits >= (LOCK if is_better else TAKE_OVER):
            self._lock(log_format)
            return True
        return locked is None

    def _forget_hits(self) -> None:
        """Begin to count anew. Formats that are better than a generic one need not come in a
        row."""
        if not self._hits:
            return
        better: dict[str, int] = {}
        if self._locked is not None and self._locked.generic:
            for kin, hits in self._hits.items():
                if kin not in self._generic_kin:
                    better[kin] = hits
        self._hits = better

    def _lock(self, log_format: LogFormat) -> None:
        self._locked = log_format
        self._named = None
        self._evaluated.clear()
        self._hits.clear()
        first_kin = [] if log_format.generic else [OWN, log_format.kin, BARS]
        self.others = [other for other in self._formats if other.kin not in first_kin]
        self.first = [other for other in self._formats if other.kin in first_kin]
        self.first.sort(key=lambda format_: first_kin.index(format_.kin))
        self.first_marks = [mark for format_ in self.first for mark in format_.marks]

    def _name(self, log_format: LogFormat) -> None:
        """Take the name of this format, or of a more specific one of its family."""
        hint = self._hints.get(log_format.kin, log_format)
        if self._order[hint] < self._order[log_format]:
            log_format = hint
        named = self._named
        if (
            named is None
            or named.kin != log_format.kin
            or self._order[log_format] < self._order[named]
        ):
            self._named = log_format
