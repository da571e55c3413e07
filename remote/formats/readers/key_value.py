"""Lines that people print themselves: `step=3 loss=0.5`, `epoch 3: train loss 0.5, lr 0.1`."""

from __future__ import annotations

import re

from remote.formats.catalog import LogFormat
from remote.formats.memory import Memory
from remote.formats.names import NEVER, PLACES, is_outcome
from remote.formats.numbers import NUMBER, number
from remote.formats.patterns import LazyRegex, NameTable
from remote.formats.readers.objects import WRAPPED
from remote.formats.reading import Reading
from remote.formats.step_counter import StepCounter, reports_progress

_QUALIFIER = r"[Tt]rain(?:ing)?|[Vv]al(?:id(?:ation)?)?|[Tt]est|[Ee]val(?:uation)?"
"""The first word of a name of two, such as "train loss"."""
_PAIR = LazyRegex(
    rf"((?:(?:{_QUALIFIER}|[Ll]earning|[Gg]rad|[Aa]vg|[Aa]verage|[Mm]ean|[Tt]otal|[Rr]unning) )?"
    rf"[A-Za-z_][\w/.@-]{{0,63}})(?: {{0,2}}= {{0,2}}| ?: {{0,4}})({NUMBER})(%?)(?![\w.:/@-]|,\d)"
)
_SPACED = LazyRegex(
    rf"(?<![\w.])(?<![Bb]est )((?:(?:{_QUALIFIER}) )?"
    rf"[A-Za-z_][\w/@]{{0,40}}):? {{1,4}}({NUMBER})(%?)(?![\w.:/@-])"
)
_LISTED = LazyRegex(
    rf"(?:(?<=[\d.%,;|:)\]>-])|(?<=nan|inf|NaN|NAN|INF))\s{{1,8}}((?:(?:{_QUALIFIER}) )?"
    rf"[A-Za-z_][\w/@.-]{{0,63}})\s{{1,4}}({NUMBER})(%?)(?=\s{{0,8}}(?:$|[,;|)\]])"
    r"|\s{1,8}[A-Za-z_][\w/@.-]{0,63}(?: [A-Za-z_][\w/@.-]{0,63})?[:=\s]\s{0,4}[-+.\d])"
)
"""A name and a number without a sign between them, after the end of another pair and before one."""
_PROSE_WORDS = """
a after all and at before best but by each every for from in is last of on or over per since so the
then to took until up was with within
"""
_PROSE = frozenset(_PROSE_WORDS.split())
"""What stands before a number in a sentence and is no name of it."""
_NUMBERED = (
    r"[\s:=#\[(]{1,6}(?P<n>\d{1,12})(?:\s{0,4}(?:/|of)\s{0,4}(?P<total>\d{1,12}))?(?![\w.%])"
)
_FIRST_COUNTER = LazyRegex(
    r"[\W_]{0,8}(?:rank[= :]{1,2}\d{1,6}[\s,|\]]{1,4})?(?:train(?:ing)?[\s:|>-]{1,4})?"
    r"(?P<unit>global[_ ]step|train[_ ]step|epoch|iteration|iter|step|it|batch|update)\]?"
    + _NUMBERED,
    re.IGNORECASE,
)
_SECOND_COUNTER = LazyRegex(
    r"[^\n]{0,12}?\b(?P<unit>step|iter|iteration|batch)\b" + _NUMBERED, re.IGNORECASE
)

_Fields = dict[str, tuple[str, float, tuple[int, int]]]
"""By name: a number as printed, the factor into its unit, and where it stands."""


class KeyValueLine:
    """Reads lines that begin with a counter such as `epoch 3`, or with name=value."""

    open = False

    def __init__(self, log_format: LogFormat) -> None:
        self._names = NameTable(log_format.names)
        self._counter = StepCounter()

    def read(self, line: str, start: int, memory: Memory) -> Reading | None:
        """See `FormatReader`."""
        counter = _FIRST_COUNTER.match(line, start)
        if "(" in line:
            if counter is None:
                return None
            line = WRAPPED.sub(r"\1", line)
        elif counter is None and not _PAIR.match(line, start):
            return None
        fields = self._fields(line, start, counter)
        if not reports_progress(fields):
            return None
        values: dict[str, float] = {}
        for name, (text, factor, _) in fields.items():
            values[name] = number(text) * factor
        return self._counter.reading(values, memory)

    def _fields(self, line: str, start: int, counter: re.Match[str] | None) -> _Fields:
        fields: _Fields = {}
        for pair in _PAIR.finditer(line, start):
            self._add(fields, pair)
        # In prose a number follows a word as well, so such pairs are looked for only if there are
        # no others.
        if not any(map(is_outcome, fields)):
            self._add_spaced(fields, line, start)
        if counter is not None:
            _add_counter(fields, counter)
            second = _SECOND_COUNTER.match(line, counter.end())
            if second is not None:
                _add_counter(fields, second)
            if any(map(is_outcome, fields)):
                self._add_listed(fields, line, (second or counter).end())
        return fields

    def _add_spaced(self, fields: _Fields, line: str, start: int) -> None:
        """Add pairs with a space between name and number, if the name is one that is known."""
        for pair in _SPACED.finditer(line, start):
            name, _ = self._names(pair[1])
            is_known = name != pair[1] and name not in PLACES
            if is_outcome(name) or is_known:
                self._add(fields, pair)

    def _add_listed(self, fields: _Fields, line: str, begin: int) -> None:
        """Add pairs without a sign, which stand between commas or one after the other."""
        for pair in _LISTED.finditer(line, begin):
            name, _ = self._names(pair[1])
            if name not in PLACES and pair[1].lower() not in _PROSE:
                self._add(fields, pair)

    def _add(self, fields: _Fields, pair: re.Match[str]) -> None:
        name, factor = self._names(pair[1])
        if name is not NEVER and name not in fields:
            is_percentage = pair[3] != ""
            fields[name] = pair[2], 0.01 if is_percentage else factor, pair.span(2)


def _add_counter(fields: _Fields, counter: re.Match[str]) -> None:
    unit = counter["unit"].lower()
    if unit == "epoch":
        names = "epoch", "epochs"
    elif unit != "batch" or "epoch" in fields:
        names = "step", "steps"
    else:
        return  # "batch 3" may be of an epoch that another line names
    for name, group in zip(names, ("n", "total"), strict=True):
        span = counter.span(group)
        # A pair such as `step: 3` has read the same number before; another one stays.
        if counter[group] and (name not in fields or fields[name][2] == span):
            fields[name] = counter[group], 1.0, span
