"""The user's own rules: regular expressions with named groups, tried before all formats."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from remote.formats.format import Format, Line
from remote.formats.names import PLACES
from remote.formats.numbers import NUMBER
from remote.formats.reading import Kind

OWN = "own rules"
"""The name of the format where a rule has none."""
_ALIAS = re.compile(r"\{([A-Za-z_]\w{0,63})\}")
_WHOLE = r"\d{1,18}"


@dataclass(frozen=True)
class Rule:
    """A line of the user's own format.

    `line` is a regular expression. `{NAME}` in it is a number called NAME, `{step}`, `{epoch}`,
    `{steps}` and the like are whole numbers, `{num}` and `{int}` are numbers without a name.
    `kind` None: as the names tell. Raises: ValueError, which says what to write instead.
    """

    line: str
    name: str = OWN
    kind: Kind | None = None

    def __post_init__(self) -> None:
        try:
            regex = re.compile(self.pattern)
        except re.error as error:
            raise ValueError(f"this is no regular expression: {error}") from None
        if not set(regex.groupindex) - set(PLACES):
            raise ValueError(
                "it names no value: write {loss} or (?P<loss>…) where the value stands in the line"
            )

    @property
    def pattern(self) -> str:
        """The regular expression with its aliases written out."""
        return _ALIAS.sub(_written, self.line)


def _written(found: re.Match[str]) -> str:
    name = found[1]
    if name in ("num", "int"):
        return f"(?:{NUMBER if name == 'num' else _WHOLE})"
    return f"(?P<{name}>{_WHOLE if name in PLACES else NUMBER})"


def of_user(rules: Sequence[Rule]) -> tuple[Format, ...]:
    """The formats that these rules amount to."""
    return tuple(
        Format(rule.name, ("",), (), (Line(rule.pattern, rule.kind),), family=OWN, known=False)
        for rule in rules
    )
