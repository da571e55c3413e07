"""Find names with values in lines that people print themselves: `loss: 0.5`, `| ms/batch 15.9 |`,
`Loss 0.5 (0.6)`, `[2.9 sec/step, loss=0.3]`."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from remote.formats.numbers import NUMBER
from remote.formats.patterns import LazyRegex

_QUALIFIER = r"[Tt]rain(?:ing)?|[Vv]al(?:id(?:ation)?)?|[Tt]est|[Ee]val(?:uation)?|[Dd]ev"
"""The first word of a name of two, such as "train loss"."""
_WORD = r"[A-Za-z_][\w/.@-]{0,63}(?: ?\([\w()/]{1,12}\))?"
_PERCENT_AHEAD = r"(?:\((?=[\d.]{1,8} ?%\)))?"
"""The parenthesis before a share, as in "Accuracy: (71%)"."""
_SIGN = rf"(?P<sign> {{0,4}}[:=]\s{{0,12}}{_PERCENT_AHEAD}| {{1,4}}is {{1,4}}|\s{{1,8}})"
_VALUE = (
    rf"(?P<value>{NUMBER})(?P<percent> ?%)?"
    r"(?: {0,2}/ {0,4}(?P<total>\d{1,12})(?![\w.%]))?"
    r"(?: ?(?P<unit>ms|us|s|secs?|seconds|min)\b(?!/))?(?![\w:/@-]|\.\w|,\d)"
)
_AT_BEGINNING = LazyRegex(rf"(?P<name>{_WORD}(?:(?: {{1,4}}| / ){_WORD}){{0,3}}?){_SIGN}{_VALUE}")
"""A name has several words only if nothing but a separator stands before it."""
_WITHIN = LazyRegex(rf"(?P<name>(?:(?:{_QUALIFIER}) {{1,4}})?{_WORD}){_SIGN}{_VALUE}")
_RATE = LazyRegex(
    rf"(?P<value>{NUMBER}) ?(?P<name>(?:s|sec|ms)/(?:step|it|iter)|(?:it|step)s?/s(?:ec)?"
    r"|(?:samples|images|imgs?|examples|tokens|tok|words)/s(?:ec)?)(?![\w/])"
)
_MEAN = LazyRegex(rf" {{0,2}}\( {{0,8}}{NUMBER} ?%?\)")
"""The mean so far, behind a value."""
_BETWEEN = LazyRegex(r"[\s,;|()\[\]{}<>*#=:'\"/&~-]{1,80}")
_SKIPPED = LazyRegex(r"(?<=[\])])\.(?=[A-Za-z])|[A-Za-z_]{1,80}|[\w.+%@]{1,80}|[^\n]")
_BOUNDARY = LazyRegex(
    r"\s{0,8}(?:\.?\s{0,8}$|[,;|)\]]|-{1,2} |\s[A-Za-z_][\w/.@-]{0,63}(?: [A-Za-z_][\w/.@-]{0,63})?"
    r"[:=\s]\s{0,4}[-+.\d])"
)
"""What follows a pair without a sign: the end, a separator, or another pair."""
_SEPARATORS = frozenset(",;|()[]{}<>-:\t")
_PROSE_WORDS = """
a after all and at before but by each every for from in is last of on or over per since so the
then to took until up was with within complete completed done finished current now
"""
_PROSE = frozenset(_PROSE_WORDS.split())
"""What stands before a number in a sentence and is no name of it."""


class Pair(NamedTuple):
    """A name as printed, and its value."""

    name: str
    value: str
    unit: str
    """As printed: %, s, ms …; "" without one."""
    total: str
    """What the value is part of, as in "97/100"; "" without one."""
    is_signed: bool
    """A colon, = or "is" stands between name and value."""
    is_separate: bool
    """The end of the line, a separator or another pair follows."""
    begin: int
    """Where the name begins."""


def find_pairs(line: str, begin: int) -> Iterator[Pair]:
    """Yield the pairs of a line from `begin` on."""
    after_separator = True
    while begin < len(line):
        between = _BETWEEN.match(line, begin)
        if between is not None:
            after_separator = after_separator or not _SEPARATORS.isdisjoint(between[0])
            begin = between.end()
        # A look at one character is cheaper than an expression that does not match.
        if line[begin : begin + 1].isalpha() or line.startswith("_", begin):
            match = (_AT_BEGINNING if after_separator else _WITHIN).match(line, begin)
            pair = _pair(line, match) if match is not None else None
        else:
            match = _RATE.match(line, begin) if after_separator else None
            pair = _rate(match) if match is not None else None
        if match is None:
            skipped = _SKIPPED.match(line, begin)
            if skipped is None:
                return
            begin = skipped.end()
            after_separator = False
            continue
        if pair is not None:
            yield pair
        begin = match.end()
        mean = _MEAN.match(line, begin) if "(" in line[begin : begin + 3] else None
        if mean is not None:
            begin = mean.end()
        after_separator = True


def begins_with_pair(line: str, begin: int) -> bool:
    """Return True if a pair with a sign stands at `begin`. Most lines have none there, which this
    finds out in less time than to look at all of a line."""
    match = _AT_BEGINNING.match(line, begin)
    return match is not None and not match["sign"].isspace()


def _pair(line: str, match: re.Match[str]) -> Pair | None:
    """Return the pair of a match, None if it is part of a sentence or tells the best value so
    far."""
    printed_name, sign, value, percent, total, unit = match.groups()
    name = _without_prose(printed_name) if " " in printed_name else printed_name
    if not name or name in _PROSE:
        return None
    end = match.end()
    is_signed = not sign.isspace()
    is_separate = is_signed or _BOUNDARY.match(line, end) is not None
    begin = match.start() + len(printed_name) - len(name)
    if " " in name:
        name = " ".join(name.split()).replace(" / ", "/")
    unit = "%" if percent else unit or ""
    return Pair(name, value, unit, total or "", is_signed, is_separate, begin)


def _rate(match: re.Match[str]) -> Pair:
    """Return the pair of a rate, whose name is its unit. It is as clear as one with a sign."""
    value, name = match.groups()
    return Pair(name, value, "", "", True, True, match.start())


def _without_prose(name: str) -> str:
    """Return a name without the words of a sentence before it, "" if there is none."""
    words = name.split()
    lowercase = [word.lower() for word in words]
    if "best" in lowercase:
        return ""
    if lowercase[-1] in _PROSE:
        return ""
    for place in reversed(range(len(words))):
        # "time per iteration" is a name.
        if lowercase[place] in _PROSE and lowercase[place] != "per":
            return name.split(None, place + 1)[-1]
    return name
