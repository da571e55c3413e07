"""Find out where the training is, from the beginning of a line that people print themselves:
`epoch 3 step 20/98`, `| epoch 1 | 200/ 2323 batches |`, `[0/5][20/98]`, `20 loss:`."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from remote.formats.patterns import LazyRegex

EVALUATION_WORDS = r"test(?:ing)?|val(?:id(?:ation)?)?|eval(?:uation)?|dev"
_UNITS = (
    r"(?:global|train|epoch)[_ ]step|epochs?|ep|iterations?|iters?|steps?|it|(?:mini-?)?batch"
    r"|updates?|rounds?|episodes?"
)
_NUMBERED = (
    r"[\s:=#\[(]{1,12}(?P<n>\d{1,12})(?:\s{0,4}(?:/|of)\s{0,4}(?P<total>\d{1,12}))?"
    r"(?![\w%]|\.\d)\]?"
)
_FIRST_COUNTER = LazyRegex(
    r"[\W_]{0,16}(?:rank[= :]{1,2}\d{1,6}[\s,|\]]{1,4})?"
    rf"(?:(?:train(?:ing)?|current|end of|(?P<evaluation>{EVALUATION_WORDS}))[\s\]:|>-]{{1,4}})?"
    rf"(?P<unit>{_UNITS})\]?{_NUMBERED}",
    re.IGNORECASE,
)
_NEXT_COUNTER = LazyRegex(rf"[^\n\d]{{0,16}}?\b(?P<unit>{_UNITS})\b{_NUMBERED}", re.IGNORECASE)
_COUNTED = LazyRegex(
    r"[\s|,:-]{1,8}(?P<n>\d{1,12})\s?/\s{0,4}(?P<total>\d{1,12})\s"
    r"(?P<unit>batches|steps|iterations|iters)\b"
)
"""A counter with its unit behind it: `| 200/ 2323 batches |`."""
_BRACKETS = LazyRegex(
    r"[\s|,:-]{0,8}\[\s{0,8}(?P<n>\d{1,12})/\s{0,8}(?P<total>\d{1,12})"
    r"(?:\s{1,4}\([\d. ]{1,6}%\))?\]"
)
_NUMBER_ALONE = LazyRegex(
    r"\s{0,8}(?:\[,?\s{0,8}(?P<bracketed>\d{1,12})\]|(?P<n>\d{1,12})(?:/(?P<total>\d{1,12}))?)"
    r"[\s,:|-]{1,6}(?=[A-Za-z])"
)
_PART_ALONE = LazyRegex(
    rf"[\W_]{{0,12}}(?:train(?:ing)?|(?P<evaluation>{EVALUATION_WORDS}))(?=[ :_.])", re.IGNORECASE
)
_EPOCH_ALONE = LazyRegex(
    r"[\W_]{0,60}epoch:? {1,4}(?P<n>\d{1,9})(?: ?/ ?(?P<total>\d{1,9}))?"
    r"(?: \| Epoch Time: [\dhms :.]{1,20})?[\W_]{0,60}$",
    re.IGNORECASE,
)
_MAX_COUNTERS = 4


@dataclass(slots=True)
class LineHead:
    """The beginning of a line."""

    end: int
    places: dict[str, float] = field(default_factory=dict)
    """`step`, `steps`, `epoch`, `epochs`, or the `part` of the epoch that is over; `n` and `total`
    of an epoch that the line does not name."""
    is_evaluation: bool = False
    is_number_alone: bool = False
    """Nothing but the name behind it says what the number is."""
    is_batch: bool = False
    """The step is a batch, which many programs count anew in each epoch."""
    is_of_begun_epoch: bool = False
    """It names no place, but says what the values are of: "val loss"."""
    _has_word_step: bool = False

    def add_counter(self, unit: str, count: str, total: str | None) -> None:
        """Add a number with its unit. An optimizer's `step` goes before iterations."""
        unit = unit.lower().replace("_", " ")
        if unit in ("epoch", "epochs", "ep"):
            names = "epoch", "epochs"
        else:
            is_step = unit.rstrip("s").endswith("step")
            if "step" in self.places and (self._has_word_step or not is_step):
                return
            self.places.pop("steps", None)
            self._has_word_step = is_step
            self.is_batch = unit.endswith("batch") or unit == "epoch step"
            names = "step", "steps"
        self._add(names, count, total)

    def add_brackets(self, count: str, total: str) -> None:
        """Add `[20/98]` behind a counter."""
        if "epoch" not in self.places:
            # A batch without an epoch may be followed by its samples.
            if not self.is_batch and "steps" in self.places:
                self._add(("epoch", "epochs"), count, total)
        elif "step" not in self.places:
            # They may be samples as well as steps.
            self.places.setdefault("part", float(count) / max(1.0, float(total)))

    def _add(self, names: tuple[str, str], count: str, total: str | None) -> None:
        if names[0] in self.places and names[0] == "epoch":
            return
        self.places[names[0]] = float(count)
        if total:
            self.places[names[1]] = float(total)


def read_head(line: str, start: int) -> LineHead | None:
    """Return what a line begins with behind its prefixes, which end at `start`; None if it is no
    place of the training."""
    first = _FIRST_COUNTER.match(line, start)
    if first is None:
        if line[start : start + 1].isalpha():
            return _read_word(line, start)
        return _read_brackets(line, start) or _read_number(line, start) or _read_word(line, start)
    head = LineHead(first.end(), is_evaluation=first["evaluation"] is not None)
    head.add_counter(first["unit"], first["n"], first["total"])
    for _ in range(_MAX_COUNTERS):
        counter = _COUNTED.match(line, head.end) or _NEXT_COUNTER.match(line, head.end)
        if counter is not None:
            head.add_counter(counter["unit"], counter["n"], counter["total"])
        else:
            counter = _BRACKETS.match(line, head.end)
            if counter is None:
                break
            head.add_brackets(counter["n"], counter["total"])
        head.end = counter.end()
    return head


def read_epoch_alone(line: str, start: int) -> tuple[float, float] | None:
    """Return the epoch of a line that has nothing else, and the number of epochs or 0."""
    if "poch" not in line and "POCH" not in line:  # cheaper than the expression, in most lines
        return None
    epoch = _EPOCH_ALONE.match(line, start)
    return (float(epoch["n"]), float(epoch["total"] or 0)) if epoch is not None else None


def _read_brackets(line: str, start: int) -> LineHead | None:
    """Read `[epoch/epochs][step/steps]`."""
    epoch = _BRACKETS.match(line, start)
    step = _BRACKETS.match(line, epoch.end()) if epoch is not None else None
    if epoch is None or step is None:
        return None
    head = LineHead(step.end(), is_number_alone=True)
    head.add_counter("epoch", epoch["n"], epoch["total"])
    head.add_counter("iter", step["n"], step["total"])
    return head


def _read_number(line: str, start: int) -> LineHead | None:
    number = _NUMBER_ALONE.match(line, start)
    if number is None:
        return None
    head = LineHead(number.end(), is_number_alone=True)
    if number["total"]:
        head.places |= {"n": float(number["n"]), "total": float(number["total"])}
    else:
        head.add_counter("iter", number["bracketed"] or number["n"], None)
    return head


def _read_word(line: str, start: int) -> LineHead | None:
    part = _PART_ALONE.match(line, start)
    if part is None:
        return None
    is_evaluation = part["evaluation"] is not None
    return LineHead(start, is_evaluation=is_evaluation, is_of_begun_epoch=True)
