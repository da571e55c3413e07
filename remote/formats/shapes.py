"""Lines that are alike but for their numbers are read at once.

Programs print the same line over and over. The shape of a line that was read is a regular
expression: the text between its numbers as it is, and a class for each number. What has this shape
is read as that line was: each number tells the same. A reader says where the numbers stand that it
reads, see `Found`; where they stand follows from the text around them, not from the numbers.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, repeat
from operator import itemgetter

from remote.formats.fields import Field, Found
from remote.formats.format import Format

Hit = tuple[int, int, "Shape", dict[str, float]]
"""A line of a shape: where it begins, where the next one does, and its values."""
MOST = 8
"""Shapes that are kept."""
LONGEST = 2_000
"""Characters of a line that has a shape."""
WORTH = 200
FIRST = 16
"""To make a shape takes as long as to read so many lines: beyond the first ones, so many must have
been read by shapes for each."""
_PART = re.compile(
    r"(?P<word>[^\W\d][\w@.-]*)|(?P<digits>\d+)(?P<power>[eE][-+](?=\d))?|(?P<gap> +)"
)
_NUMBER = r"[-+]?[0-9]{1,30}+(?:\.[0-9]{0,30}+)?+(?:[eE][-+]?[0-9]{1,4}+)?+"
_GROUPED = r"[-+]?[0-9]{1,3}+(?:,[0-9]{3}){1,6}+(?:\.[0-9]{0,30}+)?+"
_WHOLE = r"[0-9]{1,12}+"
"""Classes of numbers. None gives back what it has taken, so that time is linear in the length of a
line."""


class Shape:
    """Of the lines of a format, see the module. `parts` are pieces of a regular expression; one
    that ends in `{1,` takes so many characters at the most."""

    def __init__(self, one: Format, parts: Sequence[tuple[str, int]], found: Found) -> None:
        self.one = one
        self.tell = found.tell
        self._parts = parts
        told = [field for field in found.fields if field.name]
        order = sorted(range(len(told)), key=lambda place: told[place].begin)
        self._columns = [(order.index(place), told[place].factor) for place in range(len(told))]
        self._names = [field.name for field in told]
        pattern = "".join(f"{piece}{most}}}+" if most else piece for piece, most in parts)
        self._all = re.compile(f"\n{pattern}(?=\n)").finditer

    @property
    def text(self) -> list[str]:
        """What shapes have in common that differ by the width of numbers alone."""
        return [piece for piece, _ in self._parts]

    def widened(self, parts: Sequence[tuple[str, int]]) -> list[tuple[str, int]]:
        """These parts, of the same text, as wide as they are here."""
        pairs = zip(self._parts, parts, strict=True)
        return [(piece, max(one, other)) for (piece, one), (_, other) in pairs]

    def covers(self, parts: Sequence[tuple[str, int]]) -> bool:
        """Whether all lines of these parts, of the same text, have this shape."""
        return self.widened(parts) == list(self._parts)

    def hits(self, block: str) -> list[Hit]:
        """The lines of a text that have this shape; `block` is the text between newlines."""
        matches = list(self._all(block))
        if not matches:
            return []
        texts = list(zip(*[match.groups() for match in matches], strict=True))
        try:
            columns = [_values(texts[place], factor) for place, factor in self._columns]
        except ValueError:  # a number that is none: read line by line, the other lines are read
            return []
        values = map(dict, map(zip, repeat(self._names), zip(*columns, strict=True)))
        begins = map(re.Match.start, matches)
        ends = map(re.Match.end, matches)
        return list(zip(begins, ends, repeat(self), values, strict=False))


class Shapes:
    """The shapes of the lines of a rank, those last met first."""

    def __init__(self) -> None:
        self._shapes: list[Shape] = []
        self._made = self._met = 0

    def __bool__(self) -> bool:
        return bool(self._shapes)

    def __reduce__(self) -> tuple[type[Shapes], tuple[()]]:
        """A copy finds them again."""
        return Shapes, ()

    def clear(self) -> None:
        """Forget all."""
        self._shapes.clear()

    def hits(self, text: str) -> list[Hit]:
        """The lines of a text that have one of the shapes, in order."""
        if not self._shapes:
            return []
        block = f"\n{text}\n"
        by_shape = [(shape, shape.hits(block)) for shape in self._shapes]
        by_shape.sort(key=lambda each: not each[1])
        self._shapes = [shape for shape, _ in by_shape]
        hits = list(chain.from_iterable(each for _, each in by_shape))
        self._met += len(hits)
        if len(by_shape) > 1:
            hits.sort(key=itemgetter(0))
        return hits

    def learn(self, line: str, start: int, one: Format, found: Found) -> None:
        """Know lines like this one from now on. Its prefixes end at `start`."""
        if len(line) > LONGEST or self._made > FIRST + self._met // WORTH:
            return
        parts = _parts(line, start, found.fields)
        text = [piece for piece, _ in parts]
        for place, shape in enumerate(self._shapes):
            if shape.text == text and shape.one is one:
                if shape.covers(parts):
                    return
                parts = shape.widened(parts)
                del self._shapes[place]
                break
        self._shapes.insert(0, Shape(one, parts, found))
        self._made += 1
        del self._shapes[MOST:]


def _values(texts: Sequence[str], factor: float) -> list[float]:
    """The values of a number in each line. Raises: ValueError."""
    if "," in texts[0]:
        values = [float(text.replace(",", "")) for text in texts]
    elif texts[0] == texts[-1] and len(distinct := set(texts)) * 2 < len(texts):
        by_text = {text: float(text) for text in distinct}
        values = [by_text[text] for text in texts]
    else:
        values = list(map(float, texts))
    return values if factor == 1.0 else [value * factor for value in values]


def _parts(line: str, start: int, fields: Iterable[Field]) -> list[tuple[str, int]]:
    """The pieces of the regular expression of a line, see `Shape`."""
    parts: list[tuple[str, int]] = list(_untold(line[:start], exact=True))
    end = start
    for field in sorted(fields, key=itemgetter(2)):
        since = max(field.since, end)
        name = line[since : field.begin].rstrip(" ")
        parts += _untold(line[end:since], after=line[since : since + 1])
        parts.append((re.escape(name), 0))
        parts += _gap(field.begin - since - len(name))
        parts.append((_class(field, line[field.begin : field.end]), 0))
        end = field.end
    return [*parts, *_untold(line[end:])]


def _untold(text: str, *, after: str = "", exact: bool = False) -> Iterator[tuple[str, int]]:
    """The pieces of text that tells nothing: other digits may stand in it, but not in its words;
    as many where it is `exact`, and where not, no more."""
    end = 0
    for found in _PART.finditer(text):
        yield re.escape(text[end : found.start()]), 0
        end = found.end()
        digits = found["digits"]
        if digits:
            yield (f"[0-9]{{{len(digits)}}}", 0) if exact else ("[0-9]{1,", len(digits))
            if found["power"]:
                yield "[eE][-+]", 0
        elif found["gap"] and not exact and (text[end : end + 1] or after).isdigit():
            yield from _gap(len(found[0]))
        else:
            yield re.escape(found[0]), 0
    yield re.escape(text[end:]), 0


def _gap(spaces: int) -> Iterator[tuple[str, int]]:
    """The piece of spaces before a number, which are fewer where that is longer."""
    if spaces:
        yield " {1,", spaces


def _class(field: Field, text: str) -> str:
    if text.lstrip("+-").isalpha():  # nan, inf
        kind = re.escape(text)
    elif field.whole:
        kind = _WHOLE
    else:
        kind = _GROUPED if "," in text else _NUMBER
    return f"({kind})" if field.name else f"(?:{kind})"
