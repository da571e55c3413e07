"""Log formats as data: which lines they have, what these mean, samples that prove it.

The formats that are known are in the files `known/*.toml`, one file for each family of programs.
"""

from __future__ import annotations

from functools import cache, cached_property, partial
from pathlib import Path
from typing import Any, Literal

import msgspec

from remote.formats.patterns import LinePattern
from remote.formats.reading import Reading, ReadingKind

KNOWN = Path(__file__).parent / "known"
FAMILIES = (
    "large",
    "pretraining",
    "pytorch",
    "vision",
    "others",
    "hugging_face",
    "bars",
    "by_hand",
)
"""The files of `known/`, in the order in which their formats are tried: the more specific first, of
a family the one with more than the others first, the generic ones last."""


class Sample(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Text as a program writes it, and the values that are read from it, in order: each with its
    `kind` (default: step), its `step`, `steps`, `epoch` and `rank` if it has some, and its values
    by name."""

    text: str
    readings: list[dict[str, str | int | float]]

    def expected(self) -> list[Reading]:
        """Return the readings."""
        return [_reading(dict(fields)) for fields in self.readings]


def _reading(fields: dict[str, Any]) -> Reading:
    kind = ReadingKind(fields.pop("kind", ReadingKind.STEP))
    places = {name: fields.pop(name) for name in ("step", "steps", "rank") if name in fields}
    epoch = float(fields.pop("epoch", 0.0))
    values = {name: float(value) for name, value in fields.items()}
    return Reading(kind=kind, epoch=epoch, values=values, **({"step": 0} | places))


class FormatLine(msgspec.Struct, frozen=True, kw_only=True, dict=True, forbid_unknown_fields=True):
    """One kind of line of a format. `LinePattern` describes `pattern`, `pairs` and `names`."""

    pattern: str
    kind: Literal["step", "evaluation", "other", "any"] = "step"
    """What its values belong to; `any`: as the names of the values say."""
    role: Literal["values", "ignored", "header", "row"] = "values"
    """`ignored`: the line has no values by itself. `header`: it says where the training is, and
    `row` lines with the values follow."""
    mark: str = ""
    """Text that must be in the line, beside the pattern."""
    pairs: str = ""
    names: dict[str, str] = {}
    columns: tuple[str, ...] = ()
    """The names of what the group `cells` has, where no header names them."""
    derive: str = ""
    """The function of `remote.formats.derive` that computes values from those of the line."""

    @cached_property
    def matcher(self) -> LinePattern:
        """The compiled pattern."""
        return LinePattern(self.pattern, self.pairs, self.names)

    @cached_property
    def reading_kind(self) -> ReadingKind | None:
        """The kind of its readings; None: as the names of the values say."""
        return None if self.kind == "any" else ReadingKind(self.kind)


# Formats are keys of dicts that are asked for each line. Without `eq` they are hashed by identity,
# which is quicker than by all of their fields.
class LogFormat(
    msgspec.Struct, frozen=True, kw_only=True, eq=False, dict=True, forbid_unknown_fields=True
):
    """A log format."""

    name: str
    marks: tuple[str, ...]
    """Each of its lines has one of these in it: to look for them costs little."""
    lines: tuple[FormatLine, ...] = ()
    samples: tuple[Sample, ...] = ()
    reader: str = "lines"
    """The class of `remote.formats.readers` that reads the lines, if patterns are not enough."""
    names: dict[str, str] = {}
    """What names mean for this reader."""
    like: str = ""
    """Another format whose lines, reader and names this one has."""
    family: str = ""
    """A name that formats share whose lines are alike: one may go on with the other."""
    stays_open: bool = False
    """Rows may follow after other lines, not only after the header and each other."""
    generic: bool = False
    """It gives way to any other format. Beside another one, only its evaluations count."""
    companion: bool = False
    """Its lines add values to those of the rank's format."""
    own: bool = False
    """It is a rule of the user."""

    @cached_property
    def kin(self) -> str:
        """The family, or the name of a format without one."""
        return self.family or self.name

    def __reduce__(self) -> tuple[Any, ...]:
        """Copy a known format by its name, so that copies of readers are small."""
        # This gives the very object back, so a copied reader finds it in its dicts, which go by
        # identity.
        if not self.own:
            return format_named, (self.name,)
        return partial(LogFormat, **msgspec.structs.asdict(self)), ()


class _File(msgspec.Struct, forbid_unknown_fields=True):
    format: list[LogFormat]


@cache
def known_formats() -> tuple[LogFormat, ...]:
    """Return all known formats, in the order in which they are tried."""
    # Read on first use: most commands read no log, and the files take 25 ms.
    formats: list[LogFormat] = []
    for family in FAMILIES:
        text = (KNOWN / f"{family}.toml").read_text(encoding="utf-8")
        formats += msgspec.toml.decode(text, type=_File).format
    by_name = {log_format.name: log_format for log_format in formats}
    return tuple(_completed(log_format, by_name) for log_format in formats)


def _completed(log_format: LogFormat, by_name: dict[str, LogFormat]) -> LogFormat:
    """Return the format with what it has from the one that it is like."""
    if not log_format.like:
        return log_format
    model = by_name[log_format.like]
    return msgspec.structs.replace(
        log_format, lines=model.lines, reader=model.reader, names=model.names, family=model.family
    )


@cache
def _by_name() -> dict[str, LogFormat]:
    return {log_format.name: log_format for log_format in known_formats()}


def format_named(name: str) -> LogFormat:
    """Return a known format. Raises: KeyError."""
    return _by_name()[name]
