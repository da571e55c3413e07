"""The user's own rules: regular expressions with named groups, tried before all formats.

A rule is data, as it stands in a plan: to make one compiles nothing. `Rule.check` is for the place
where a user writes it. Only `remote.formats.linear` runs it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from remote.formats.catalog import FormatLine, LogFormat
from remote.formats.linear import LONGEST, UnknownExpression, compile_linear
from remote.formats.names import PLACES
from remote.formats.numbers import NUMBER
from remote.formats.patterns import LinePattern
from remote.formats.reading import ReadingKind

OWN = "own rules"
"""The family of the rules, and the name of the format of a rule without a name."""
_SHORT_FORM = re.compile(r"\{([A-Za-z_]\w{0,63})\}")
_WHOLE = r"\d{1,18}"
_USUAL_NAMES = (
    *("step", "steps", "epoch", "epochs"),
    *("loss", "val_loss", "accuracy", "step_seconds"),
)
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
"""A repetition in Python, and text in RE2."""
_SPACES = re.compile(r"\\.|\[\^?\]?(?:\\.|[^\]\\])*\]|(?P<spaces> +)(?![*+?{])", re.DOTALL)
"""The spaces of an expression, and what may have spaces that stay as they are: classes."""
_PARTS = re.compile(r"\\.|\[\^?\]?(?:\\.|[^\]\\])*\]|[()|]", re.DOTALL)


@dataclass(frozen=True)
class Rule:
    """A line of the user's own format."""

    line: str
    """A regular expression. `{NAME}` in it is a number called NAME, `{step}`, `{epoch}`, `{steps}`
    and the like are whole numbers, `{num}` and `{int}` are numbers without a name."""
    name: str = OWN
    kind: ReadingKind | None = None
    """None: as the names of the values say."""

    def check(self) -> None:
        """Refuse a rule with a mistake. Raises: ValueError, which says what to write instead."""
        pattern = self._expression
        try:
            regex = re.compile(pattern)
        except (re.error, OverflowError, RecursionError) as error:
            raise ValueError(f"this is not a regular expression: {error}") from None
        names = set(regex.groupindex)
        if names <= set(PLACES):
            raise ValueError(
                "it names no value: write {loss} or (?P<loss>…) where the value stands in the line"
            )
        self._check_typing()
        self._check_branches(names)
        up_to = _UP_TO.search(pattern)
        if up_to:
            raise ValueError(f"write {{0,{up_to[1]}}} for {up_to[0]}")
        problem = self.problem
        if problem:
            raise ValueError(problem)

    @property
    def problem(self) -> str:
        """Why the rule cannot be run, and what to write instead; "" if it can. A plan of an older
        version may have such a rule."""
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
        for name in set(_SHORT_FORM.findall(self.line)).difference(_USUAL_NAMES):
            for usual in _USUAL_NAMES:
                if _is_mistyped(name, usual):
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
        """The regular expression with its short forms written out. A space matches any number of
        spaces and tabs: programs align what they print."""
        return _SPACES.sub(_any_spaces, self._expression)

    @property
    def _expression(self) -> str:
        """The line with its short forms written out."""
        return _SHORT_FORM.sub(_expanded, self.line)


def _expanded(short_form: re.Match[str]) -> str:
    name = short_form[1]
    if name == "num":
        return f"(?:{NUMBER})"
    if name == "int":
        return f"(?:{_WHOLE})"
    return f"(?P<{name}>{_WHOLE if name in PLACES else NUMBER})"


def _any_spaces(part: re.Match[str]) -> str:
    return r"[ \t]+" if part["spaces"] else part[0]


def _is_mistyped(name: str, usual: str) -> bool:
    """Return True if a name has the letters of a usual one in another order, or lacks one."""
    if len(name) == len(usual):
        return sorted(name) == sorted(usual)
    return name in {usual[:place] + usual[place + 1 :] for place in range(len(usual))}


def _branches(pattern: str) -> Iterator[str]:
    """Yield the alternatives of a regular expression that are outside of all parentheses."""
    depth = 0
    begin = 0
    for part in _PARTS.finditer(pattern):
        if part[0] == "(":
            depth += 1
        elif part[0] == ")":
            depth -= 1
        elif part[0] == "|" and depth == 0:
            yield pattern[begin : part.start()]
            begin = part.end()
    yield pattern[begin:]


class RulePattern(LinePattern):
    """The pattern of a rule, which RE2 runs: see `remote.formats.linear`."""

    @cached_property
    def regex(self) -> Any:
        """The compiled expression."""
        return compile_linear(self._pattern)

    def find(self, line: str, start: int) -> Any:
        """Return the match in the first `LONGEST` characters of a line."""
        return super().find(line[:LONGEST], start) if start < LONGEST else None


class RuleLine(FormatLine, frozen=True, kw_only=True, dict=True):
    """The line of a rule."""

    @cached_property
    def matcher(self) -> LinePattern:
        """The compiled pattern."""
        return RulePattern(self.pattern)


def rule_formats(rules: Sequence[Rule]) -> tuple[LogFormat, ...]:
    """Return a format for each of the rules, without rules that cannot be run."""
    formats: list[LogFormat] = []
    for rule in rules:
        if not rule.problem:
            line = RuleLine(pattern=rule.pattern, kind=rule.kind.value if rule.kind else "any")
            formats.append(
                LogFormat(name=rule.name, marks=("",), lines=(line,), family=OWN, own=True)
            )
    return tuple(formats)
