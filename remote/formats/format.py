"""A log format, as data: which lines it has, what they mean, samples that prove it."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Protocol, runtime_checkable

from remote.formats.fields import Field, Found
from remote.formats.memory import RATE, Memory, whole
from remote.formats.names import NEVER, PLACES, canonical
from remote.formats.numbers import GROUPED, NUMBER, number
from remote.formats.reading import STEP, UNDERSTOOD, Kind, Reading

UNITS = {"ms": 1e-3, "us": 1e-6, "percent": 1e-2, "min": 60.0}
"""Factors of the units that the name of a group may end in: `step_seconds__ms`."""
SHAPES = {"<num>": f"({NUMBER})", "<int>": r"(\d{1,18})", "<commas>": f"({GROUPED})"}
MOST_NAMES = 2_000
"""Of values that a format keeps in mind."""


def shape(pattern: str) -> str:
    """A pattern written out. `<loss>` is a number of this name, `<step:int>` an integer,
    `<tokens_per_second:commas>` a number with commas; `<num>`, `<int>` and `<commas>` have no
    name."""
    return _GROUP.sub(_written, pattern)


_GROUP = re.compile(r"(?<!\?P)<(\w+)(?::(\w+))?>")


def _written(found: re.Match[str]) -> str:
    name, kind = found.groups()
    if f"<{name}>" in SHAPES:
        return SHAPES[f"<{name}>"]
    return f"(?P<{name}>" + SHAPES[f"<{kind or 'num'}>"][1:]


class Names:
    """What the names in lines of one format mean. Remembers each."""

    def __init__(self, own: Mapping[str, str] | None = None) -> None:
        self._own = dict(own or {})
        self._known: dict[str, tuple[str, float]] = {}

    def __call__(self, name: str) -> tuple[str, float]:
        """The normalised name and the factor into its unit."""
        known = self._known.get(name)
        if known is None:
            known = self._find(name)
            if len(self._known) >= MOST_NAMES:
                self._known.clear()
            self._known[name] = known
        return known

    def _find(self, name: str) -> tuple[str, float]:
        if name not in self._own:
            return canonical(name)
        found, _, unit = self._own[name].partition("__")
        return found, UNITS.get(unit, 1.0)


class Lazy:
    """A pattern, see `shape`, which is compiled when it is first used: most never are."""

    def __init__(self, pattern: str, flags: int = 0) -> None:
        self._made_of = pattern, flags

    def __reduce__(self) -> tuple[type[Lazy], tuple[str, int]]:
        """It is copied by what it was made of."""
        return Lazy, self._made_of

    def __getattr__(self, name: str) -> Any:
        """A method of the compiled expression."""
        pattern, flags = self._made_of
        found = getattr(re.compile(shape(pattern), flags), name)
        self.__dict__[name] = found
        return found


class Matcher:
    """A pattern that is found in lines: an anchored one, which begins with `^`, where the prefixes
    of the line end."""

    def __init__(self, pattern: str) -> None:
        self.anchored = pattern.startswith("^")
        self._made_of: tuple[object, ...] = (pattern,)
        self._pattern = pattern.removeprefix("^")
        self._regex = Lazy(self._pattern, re.MULTILINE)

    def __reduce__(self) -> tuple[type[Matcher], tuple[object, ...]]:
        """It is copied by what it was made of."""
        return type(self), self._made_of

    @cached_property
    def find(self) -> Callable[[str, int], re.Match[str] | None]:
        """Finds the match in a line, from this place on."""
        found: Callable[[str, int], re.Match[str] | None]
        found = self._regex.match if self.anchored else self._regex.search
        return found


class Pairs:
    """Names with values, `pattern` matching one of them with the groups name and value."""

    def __init__(self, pattern: str, names: Mapping[str, str] | None = None) -> None:
        self._made_of = pattern, names
        self._regex = Lazy(pattern)
        self._names = Names(names)

    def __reduce__(self) -> tuple[type[Pairs], tuple[object, ...]]:
        """It is copied by what it was made of."""
        return Pairs, self._made_of

    def fields(self, text: str, begin: int, fields: list[Field]) -> None:
        """Add the numbers of the text, which begins at this place of the line."""
        known = {field.name for field in fields}
        for found in self._regex.finditer(text):
            name, factor = self._names(found[1])
            name = NEVER if name in known else name
            known.add(name)
            start, end = (begin + place for place in found.span(2))
            fields.append(Field(name, factor, start, end, begin + found.start(1)))

    def read(self, text: str, values: dict[str, float]) -> None:
        """Put the pairs of the text into the values. The first of a name counts."""
        names = self._names
        for name, value in self._regex.findall(text):
            known, factor = names(name)
            if known is not NEVER and known not in values:
                try:
                    values[known] = float(value) * factor
                except ValueError:
                    values[known] = number(value) * factor


_REPEATS = r"\1"
"""In a pattern that compares the numbers of a line."""


class Line(Matcher):
    """One kind of line: the reading of a match of `pattern`, see `shape`.

    A named group is a value or a place of `remote.formats.names`; the group `pairs` is text with
    pairs. `kind` None: as the values tell. A pattern that begins with `^` is matched after the
    line's prefixes (timestamps, ranks, hosts), any other one is searched in the line.
    """

    def __init__(self, pattern: str, kind: Kind | None = STEP, pairs: Pairs | None = None) -> None:
        super().__init__(pattern)
        self._made_of = pattern, kind, pairs
        self._kind = kind
        self._pairs = pairs

    @cached_property
    def _fields(self) -> list[tuple[int, str, float]]:
        """The groups that are values and places: number, name, factor of its unit."""
        return [
            (index - 1, name.partition("__")[0], UNITS.get(name.partition("__")[2], 1.0))
            for name, index in self._regex.groupindex.items()
            if name != "pairs"
        ]

    @cached_property
    def _whole(self) -> list[bool]:
        """Whether each of the fields is a whole number."""
        names = [name for name in self._regex.groupindex if name != "pairs"]
        return [f"<{name}:int>" in self._pattern for name in names]

    @cached_property
    def _only(self) -> tuple[str, int] | None:
        """The only place in the line, if it is a step, and what to add to it; `Memory.place` takes
        longer."""
        found = [name for name in self._regex.groupindex if name in (*PLACES, RATE, "pairs")]
        return (
            {"step": ("step", 0), "index": ("index", 1)}.get(found[0]) if len(found) == 1 else None
        )

    def read(self, line: str, start: int, memory: Memory) -> Reading | None:
        """What the line tells; its prefixes end at `start`."""
        found = self.find(line, start if self.anchored else 0)
        return None if found is None else self.tell(self._values(found), memory)

    def values(self, line: str, start: int) -> dict[str, float] | None:
        """The values and places in the line; None if it is of another kind."""
        found = self.find(line, start if self.anchored else 0)
        return None if found is None else self._values(found)

    def numbers(self, line: str, start: int) -> Found | None:
        """Where the numbers of the line stand; None if it is of another kind, or tells no value."""
        found = self.find(line, start if self.anchored else 0)
        if found is None or _REPEATS in self._pattern:
            return None
        fields = [
            Field(name, factor, *found.span(index + 1), found.start(index + 1), whole)
            for (index, name, factor), whole in zip(self._fields, self._whole, strict=True)
            if found[index + 1] is not None
        ]
        if self._pairs:
            self._pairs.fields(found["pairs"], found.start("pairs"), fields)
        return Found(fields, self.tell)

    def tell(self, values: dict[str, float], memory: Memory) -> Reading | None:
        """What the values and places of a line tell."""
        name, more = self._only or ("", 0)
        if self._kind is None or len(values) < 2 or name not in values:
            return memory.place(self._kind, values)
        number = values.pop(name)
        number = number + more if more else memory.count(self._kind, number, values)
        return Reading(self._kind, whole(number), 0.0, values, memory.steps)

    def _values(self, found: re.Match[str]) -> dict[str, float]:
        values: dict[str, float] = {}
        groups = found.groups()
        for index, name, factor in self._fields:
            text = groups[index]
            if text is not None:
                try:
                    values[name] = float(text.replace(",", "")) * factor
                except ValueError:
                    values[name] = number(text) * factor
        if self._pairs:
            self._pairs.read(found["pairs"], values)
        return values


class Ignored(Matcher):
    """A kind of line that belongs to a format and tells nothing by itself."""

    def read(self, line: str, start: int, memory: Memory) -> Reading | None:
        """See `Line.read`."""
        return UNDERSTOOD if self.find(line, start if self.anchored else 0) else None


KNOWN: dict[str, Format] = {}
"""The formats that are known, by name; `remote.formats.known` fills it."""


def _known(name: str) -> Format:
    return KNOWN[name]


class Reader(Protocol):
    """Reads the lines of a format of one rank. Keeps state. While it is `open`, the next lines are
    shown to it first, whether a mark is in them or not."""

    @property
    def open(self) -> bool:
        """Whether more of what it has read may follow."""

    def read(self, line: str, start: int, memory: Memory) -> Reading | None:
        """What the line tells; its prefixes end at `start`. None: it is not of this format, or
        tells nothing by itself. Raises: ValueError, where a number in it is none."""


@runtime_checkable
class Finder(Protocol):
    """A reader that says where the numbers stand that it reads: its lines have shapes."""

    def numbers(self, line: str, start: int) -> Found | None:
        """Of a line that it has read. None: it cannot say."""


@dataclass(frozen=True)
class Sample:
    """Text as a program writes it, and what is read of it."""

    text: str
    readings: Sequence[Reading]


class Table:
    """The reader of a format without state: the first kind of line that matches."""

    open = False

    def __init__(self, lines: Sequence[Line | Ignored]) -> None:
        self._lines = lines

    def read(self, line: str, start: int, memory: Memory) -> Reading | None:
        """See `Reader`."""
        for one in self._lines:
            reading = one.read(line, start, memory)
            if reading is not None:
                return reading
        return None

    def numbers(self, line: str, start: int) -> Found | None:
        """See `Finder`."""
        for one in self._lines:
            if one.find(line, start if one.anchored else 0):
                return one.numbers(line, start) if isinstance(one, Line) else None
        return None


@dataclass(frozen=True, eq=False)
class Format:
    """A log format.

    Each of its lines has one of `marks` in it; looking for marks is cheap. `lines` read them, or
    `reader` makes what reads them where lines need state. `family` is that of formats whose lines
    are alike, so that one may go on with the other. A `generic` format is tried last, and gives way
    to any other; beside another, it tells of evaluations only. Lines of a `companion` tell values
    beside those of the rank's format.
    """

    name: str
    marks: tuple[str, ...]
    samples: tuple[Sample, ...]
    lines: tuple[Line | Ignored, ...] = ()
    reader: Callable[[], Reader] | None = None
    family: str = ""
    generic: bool = False
    companion: bool = False
    known: bool = True
    kin: str = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "kin", self.family or self.name)

    def __reduce__(self) -> tuple[Callable[..., Format], tuple[object, ...]]:
        """A copy of a known format is the format itself."""
        if self.known:
            return _known, (self.name,)
        return Format, (self.name, self.marks, (), self.lines, None, self.family)

    def make(self) -> Reader:
        """A reader for one rank."""
        return self.reader() if self.reader else Table(self.lines)
