"""The user's own rules: regular expressions with named groups, tried before all formats."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from remote.formats.format import Format, Line
from remote.formats.names import PLACES
from remote.formats.numbers import NUMBER
from remote.formats.reading import Kind

OWN = "own rules"
"""The name of the format where a rule has none."""
_ALIAS = re.compile(r"\{([A-Za-z_]\w{0,63})\}")
_WHOLE = r"\d{1,18}"
_USUAL = ("step", "steps", "epoch", "epochs", "loss", "val_loss", "accuracy", "step_seconds")
_PARTS = re.compile(r"\\.|\[\^?\]?(?:\\.|[^\]\\])*\]|[()|]", re.DOTALL)


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
            raise ValueError(f"this is not a regular expression: {error}") from None
        if not set(regex.groupindex) - set(PLACES):
            raise ValueError(
                "it names no value: write {loss} or (?P<loss>…) where the value stands in the line"
            )
        self._check_typing()
        self._check_branches(set(regex.groupindex))

    def _check_typing(self) -> None:
        """Raises: ValueError, for a name that lacks a letter or has two of them swapped."""
        for name in _ALIAS.findall(self.line):
            for usual in _USUAL:
                if name not in _USUAL and name in _mistyped(usual):
                    raise ValueError(
                        f"{{{name}}}: did you mean {{{usual}}}? "
                        f"If it is called {name}, write (?P<{name}>…)"
                    )

    def _check_branches(self, names: set[str]) -> None:
        """Raises: ValueError, for a name that is in one of several alternatives only."""
        for branch in _branches(self.pattern):
            for name in sorted(names):
                if f"(?P<{name}>" not in branch:
                    raise ValueError(
                        f"| separates alternatives, so {{{name}}} may be missing: write \\| for "
                        "the character, or a rule for each kind of line"
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


def _mistyped(name: str) -> set[str]:
    """The name without one of its letters, and with two that are swapped."""
    places = range(len(name))
    swapped = {name[:at] + name[at : at + 2][::-1] + name[at + 2 :] for at in places[:-1]}
    return {name[:at] + name[at + 1 :] for at in places} | swapped - {name}


def _branches(pattern: str) -> Iterator[str]:
    """The alternatives of a regular expression that stand outside of all parentheses."""
    depth = begin = 0
    for part in _PARTS.finditer(pattern):
        depth += {"(": 1, ")": -1}.get(part[0], 0)
        if part[0] == "|" and not depth:
            yield pattern[begin : part.start()]
            begin = part.end()
    yield pattern[begin:]


def of_user(rules: Sequence[Rule]) -> tuple[Format, ...]:
    """The formats that these rules amount to."""
    return tuple(
        Format(rule.name, ("",), (), (Line(rule.pattern, rule.kind),), family=OWN, known=False)
        for rule in rules
    )
