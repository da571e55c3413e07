"""Reads the output of one rank: finds out its format, and what each line tells."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from remote.formats import records, unread
from remote.formats.candidates import candidates, finder, starts_of
from remote.formats.format import MOST_NAMES, Finder, Format, Reader
from remote.formats.known import ALL
from remote.formats.known.bars import TQDM as BARS
from remote.formats.memory import Memory, is_of_evaluation
from remote.formats.reading import EVALUATION, OTHER, STEP, Reading
from remote.formats.rules import OWN, Rule, of_user
from remote.formats.shapes import Shapes

LOCK = 3
"""Readings of one format after which it is that of the rank."""
TAKE_OVER = 8
"""Readings of another format, with none of the rank's own between them, after which it is that."""
MANY = 8
"""Lines of the rank's format in one text from which on their shapes are learned."""
HEAD = 1 << 13
"""Characters of a text from which the shapes in the rest of it are learned."""
PIECE = 1 << 16
"""A text of so many characters without a newline is a piece of a longer line."""
GENERIC = frozenset(one.kin for one in ALL if one.generic)


Told = tuple[str, Format, Reading]


class LogReader:
    """Reads the output of one rank, stdout and stderr together. Keeps state; deterministic.

    `rules` are the user's own, tried first. `format` is the name of the format that is read, "" as
    long as nothing is. `unread` counts the lines that bear numbers and are not read; `on_unread` is
    called with each.
    """

    def __init__(
        self, rules: Sequence[Rule] = (), on_unread: Callable[[str], None] | None = None
    ) -> None:
        self.unread = 0
        self._on_unread = on_unread
        self._formats = (*of_user(rules), *ALL)
        self._order = {one: number for number, one in enumerate(self._formats)}
        self._readers: dict[Format, Reader] = {}
        self._memory = Memory()
        self._read_as: Format | None = None
        self._locked: Format | None = None
        self._open: Format | None = None
        self._first: list[Format] = []
        self._others: list[Format] = list(self._formats)
        self._marks: list[str] = []
        self._hints: dict[str, Format] = {}
        self._hits: dict[str, int] = {}
        self._rest = ""
        self._told: dict[int, int] = {}
        self._evaluated: set[str] = set()
        self._shapes = Shapes()
        self._read_slowly: list[tuple[str, Format]] = []
        self._named: Format | None = None

    @property
    def format(self) -> str:
        """The name of the format that is read; "" as long as nothing is."""
        return self._read_as.name if self._read_as else ""

    def read(self, text: str) -> list[Reading]:
        """What the text of one `Text` event tells: whole lines, or a piece of a long one."""
        return [reading for _, _, reading in self.told(text)]

    def told(self, text: str) -> list[Told]:
        """The readings of `read`, each with the last line that tells it, and its format."""
        block = records.clean(self._whole(text))
        found: list[Told] = []
        head = 0 if self._shapes or len(block) < HEAD else block.find("\n", HEAD) + 1
        left = self._lines(block[:head], found) if head else ""
        left += self._lines(block[head:], found)
        self._pass(left)
        return self._steps_once(found)

    def _lines(self, block: str, found: list[Told]) -> str:
        """Read what lines tell; return the other lines."""
        memory = self._memory
        left: list[str] = []
        end = 0
        step = -1
        for begin, stop, shape, values in () if self._open else self._shapes.hits(block):
            if begin > end:
                left.append(self._search(block[end:begin], found))
                end = begin
                step = -1
                if self._open or not self._shapes:
                    break
            if begin == end and (reading := shape.tell(values, memory)) is not None:
                if reading.step == step or step < 0 or self._hits or shape.one is not self._named:
                    self._add(found, block[begin : stop - 1], shape.one, reading)
                    self._named = shape.one
                else:
                    found.append((block[begin : stop - 1], shape.one, reading))
                end = stop
                if reading.step:
                    memory.step = step = reading.step
        left.append(self._search(block[end:], found))
        self._learn()
        return "".join(left)

    def _learn(self) -> None:
        """Know the shapes of lines that many were like. A few lines are read sooner."""
        slow = self._read_slowly
        self._read_slowly = []
        if len(slow) < MANY or self._formats[0].kin == OWN:
            return
        for line, one in slow[-MANY:]:
            reader = self._readers[one]
            start, _ = records.peel(line)
            may_be_rank = line[start:].lstrip()[:1].isdigit()  # that depends on what follows
            if may_be_rank or not isinstance(reader, Finder):
                continue
            found = reader.numbers(line, start)
            if found:
                self._shapes.learn(line, start, one, found)

    def _search(self, block: str, found: list[Told]) -> str:
        """Read what is told by lines of any shape; return the others."""
        if self._first:
            block = self._scan(block, starts_of(block, self._marks), self._first, found)
        if block:
            block = self._scan(block, candidates(block), self._others, found)
        return block

    def _whole(self, text: str) -> str:
        """The text, from the beginning of a record to the end of one."""
        if self._rest:
            text = self._rest + text
            self._rest = ""
        if len(text) >= PIECE and "\n" not in text:
            end = max(text.rfind("\r"), text.rfind("\x1b[K"), text.rfind("\x08"))
            if len(text) - end <= records.LONGEST:
                text, self._rest = text[:end], text[end:]
        return text

    def _scan(
        self, block: str, starts: Sequence[int], formats: Sequence[Format], found: list[Told]
    ) -> str:
        """Read lines of these formats, which begin at some of `starts`; return the other lines."""
        lines = "\n".join([block[start : _end(block, start)] for start in starts])
        may_have = finder(lines)
        active = [(mark, one) for one in formats for mark in one.marks if may_have(mark)]
        left: list[str] = []
        end = 0
        for start in starts:
            end = self._follow(block, end, start, found, left)
            if start < end:
                continue
            stop = _end(block, start)
            if self._try(block[start:stop], active, found):
                left.append(block[end:start])
                end = stop + 1
        end = self._follow(block, end, len(block), found, left)
        left.append(block[end:])
        return "".join(left)

    def _follow(self, block: str, end: int, until: int, found: list[Told], left: list[str]) -> int:
        """Show the lines from `end` to the format that is open, if there is one, and return where
        the next one begins."""
        while end < until and (one := self._open):
            stop = _end(block, end)
            line = block[end:stop]
            reading = self._reading(line, one)
            if reading is not None:
                self._add(found, line, one, reading)
            else:
                left.append(f"{line}\n")
            end = stop + 1
        return end

    def _try(self, line: str, active: Sequence[tuple[str, Format]], found: list[Told]) -> bool:
        """Read a line, if it is of an active format."""
        one = self._open
        if one and (reading := self._reading(line, one)) is not None:
            self._add(found, line, one, reading)
            return True
        for mark, one in active:
            if mark in line and (reading := self._reading(line, one)) is not None:
                self._add(found, line, one, reading)
                return True
        return False

    def _pass(self, block: str) -> None:
        """Count lines that are not read."""
        if self._on_unread is None:
            self.unread += unread.count(block)
            return
        for line in filter(unread.bears_number, block.split("\n")):
            self.unread += 1
            self._on_unread(line)

    def _reading(self, line: str, one: Format) -> Reading | None:
        if len(line) > records.LONGEST:
            line = line[: records.LONGEST]
        reader = self._readers.get(one)
        if reader is None:
            reader = self._readers[one] = one.make()
        start, rank = records.peel(line)
        try:
            reading = reader.read(line, start, self._memory)
        except (ValueError, ArithmeticError):  # no number, such as 0.5.3, or too large a one
            reading = None
        self._open = one if reader.open else None
        if reading is not None:
            if rank >= 0:
                reading = _changed(reading, rank=rank)
            elif reading.values and self._locked and one.kin == self._locked.kin:
                self._read_slowly.append((line, one))
            if reading.step:
                self._memory.step = reading.step
        return reading

    def _fit(self, one: Format, reading: Reading) -> Reading | None:
        """The reading as far as it counts, now that the rank's format is known."""
        locked = self._locked
        if one.kin == OWN:
            self._read_as = one
            return reading
        beside: Reading | None = None
        if locked is not None and one.generic and one.kin != locked.kin:
            beside = self._beside(reading)
            if beside and reading.kind is EVALUATION:
                return beside
        elif len(self._evaluated) < MOST_NAMES:
            self._evaluated.update(filter(is_of_evaluation, reading.values))
        if locked is None or one.kin != locked.kin:
            hits = self._hits[one.kin] = self._hits.get(one.kin, 0) + 1
            if hits >= (
                LOCK if locked is None or (locked.generic and not one.generic) else TAKE_OVER
            ):
                self._lock(one)
            elif locked is not None:
                return _changed(reading, kind=OTHER) if one.companion else beside
        elif self._hits:
            kept = self._hits if locked.generic else {}
            self._hits = {kin: hits for kin, hits in kept.items() if kin not in GENERIC}
        self._name(one)
        return reading

    def _beside(self, reading: Reading) -> Reading | None:
        """What a line of another format tells of an evaluation that the rank's own does not."""
        values = {
            name: value
            for name, value in reading.values.items()
            if is_of_evaluation(name) and name not in self._evaluated
        }
        return _changed(reading, kind=EVALUATION, values=values) if values else None

    def _lock(self, one: Format) -> None:
        self._locked = one
        self._read_as = None
        self._evaluated.clear()
        self._hits.clear()
        self._shapes.clear()
        first = () if one.generic else (OWN, one.kin, BARS)
        self._first = [each for each in self._formats if each.kin in first]
        self._first.sort(key=lambda each: first.index(each.kin))
        self._others = [each for each in self._formats if each.kin not in first]
        self._marks = [mark for each in self._first for mark in each.marks]

    def _name(self, one: Format) -> None:
        """Read as this format, or as the more specific one of its family."""
        hint = self._hints.get(one.kin)
        if hint is not None and self._order[hint] < self._order[one]:
            one = hint
        named = self._read_as
        if named is None or one.kin != named.kin or self._order[one] < self._order[named]:
            self._read_as = one

    def _add(self, found: list[Told], line: str, one: Format, reading: Reading) -> None:
        """Add a reading if it counts; one of the same step joins it: the states of a bar, the lines
        of a table."""
        if not reading.values:
            self._hints[one.kin] = one
            return
        fit = self._fit(one, reading)
        if fit is None:
            return
        reading = fit
        if found:
            _, before, last = found[-1]
            if (
                last.step == reading.step != 0
                and last.rank == reading.rank
                and before.kin == one.kin
                and (last.kind is reading.kind or EVALUATION not in (last.kind, reading.kind))
            ):
                kind = last.kind if last.kind is reading.kind else STEP
                joined = last.values | reading.values
                found[-1] = (line, one, _changed(reading, kind=kind, values=joined))
                return
        found.append((line, one, reading))

    def _steps_once(self, found: list[Told]) -> list[Told]:
        """Tell no step twice: what comes later of a step is more values of it."""
        told = self._told
        for place, (line, one, reading) in enumerate(found):
            if reading.kind is STEP and reading.step:
                if told.get(reading.rank) == reading.step:
                    found[place] = (line, one, _changed(reading, kind=OTHER))
                else:
                    told[reading.rank] = reading.step
        return found


def _end(block: str, start: int) -> int:
    """Where the line ends that begins at `start`."""
    end = block.find("\n", start)
    return end if end >= 0 else len(block)


def _changed(reading: Reading, **changes: object) -> Reading:
    return replace(reading, **changes)  # type: ignore[arg-type]
