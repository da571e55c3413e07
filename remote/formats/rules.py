"""The user's own rules: regular expressions with named groups, tried before all formats.

A rule is data, as it stands in a plan: to make one compiles nothing. `Rule.check` is for where a
user writes it. Nothing but `remote.formats.linear` runs it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from remote.formats.format import Format, Line
from remote.formats.linear import LONGEST, UnknownExpression, compile_linear
from remote.formats.names import PLACES
from remote.formats.numbers import NUMBER
from remote.formats.reading import Kind

OWN = "own rules"
"""The name of the format where a rule has none."""
_ALIAS = re.compile(r"\{([A-Za-z_]\w{0,63})\}")
_WHOLE = r"\d{1,18}"
_USUAL = ("step", "steps", "epoch", "epochs", "loss", "val_loss", "accuracy", "step_seconds")
_REPLACEMENTS = (
    (
        re.compile(r"\(\?<?[=!]"),
        "a rule cannot look ahead or behind: write what stands there, such as (?:^|\\s)loss {loss}",
    ),
    (
        re.compile(r"\\[1-9]|\(\?P="),
        "a rule cannot compare with an earlier group: write {num} or \\S+",
    ),
    (re.compile(r"\(\?>"), "a rule has no atomic groups: write (?: for (?>"),
    (re.compile(r"[*+?}]\+"), "a repetition has one sign: leave out the + after the other one"),
    (re.compile(r"\\Z"), "write $ for the end of the line, not \\Z"),
    (re.compile(r"\{\d*,?\d{4,}\}"), "a repetition has 1000 rounds at most: write * or +"),
)
"""What Python's regular expressions have and those of rules have not, and what to write instead."""
_UP_TO = re.compile(r"(?<!\\)\{,(\d+)\}")
"""What Python takes for a repetition, and RE2 for text."""
_PARTS = re.compile(r"\\.|\[\^?\]?(?:\\.|[^\]\\])*\]|[()|]", re.DOTALL)


@dataclass(frozen=True)
class Rule:
    """A line of the user's own format.

    `line` is a regular expression. `{NAME}` in it is a number called NAME, `{step}`, `{epoch}`,
    `{steps}` and the like are whole numbers, `{num}` and `{int}` are numbers without a name.
    `kind` None: as the names tell.
    """

    line: str
    name: str = OWN
    kind: Kind | None = None

    def check(self) -> None:
        """Refuse a rule with a mistake. Raises: ValueError, which says what to write instead."""
        try:
            regex = re.compile(self.pattern)
        except (re.error, OverflowError, RecursionError) as error:
            raise ValueError(f"this is not a regular expression: {error}") from None
        if not set(regex.groupindex) - set(PLACES):
            raise ValueError(
                "it names no value: write {loss} or (?P<loss>…) where the value stands in the line"
            )
        self._check_typing()
        self._check_branches(set(regex.groupindex))
        up_to = _UP_TO.search(self.pattern)
        if up_to:
            raise ValueError(f"write {{0,{up_to[1]}}} for {up_to[0]}")
        problem = self.problem
        if problem:
            raise ValueError(problem)

    @property
    def problem(self) -> str:
        """Why the rule cannot be run, and what to write instead; "" where it can. A plan of an
        older version may have such a rule."""
        try:
            compile_linear(self.pattern)
        except UnknownExpression as error:
            for construct, instead in _REPLACEMENTS:
                if construct.search(self.pattern):
                    return instead
            return f"a rule is a regular expression of RE2, which does not take this one: {error}"
        return ""

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


class RuleLine(Line):
    """The line of a rule: see `remote.formats.linear`."""

    def __init__(self, pattern: str, kind: Kind | None) -> None:
        super().__init__(pattern, kind)
        self._made_of = pattern, kind
        self._regex = compile_linear(self._pattern)

    @cached_property
    def find(self) -> Callable[[str, int], Any]:
        """Find the match in the first `LONGEST` characters of a line, from a place on."""
        find = self._regex.match if self.anchored else self._regex.search
        return lambda line, start: find(line[:LONGEST], start) if start < LONGEST else None


def of_user(rules: Sequence[Rule]) -> tuple[Format, ...]:
    """The formats that these rules amount to, without rules that cannot be run."""
    return tuple(
        Format(rule.name, ("",), (), (RuleLine(rule.pattern, rule.kind),), family=OWN, known=False)
        for rule in rules
        if not rule.problem
    )
