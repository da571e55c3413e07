"""Tell what .gitignore files leave out, as git understands them, but for what git tracks."""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from pathspec.patterns.gitignore import GitIgnorePatternError
from pathspec.patterns.gitignore.spec import GitIgnoreSpecPattern

FILE = ".gitignore"
REPOSITORY = ".git"

IgnoreRule = tuple[re.Pattern[str], bool]
"""What a pattern matches (a folder's path ends with a slash), and whether that is left out, or
taken in again."""


@dataclass(frozen=True)
class IgnoreRules:
    """The rules that hold in a folder."""

    levels: tuple[tuple[str, tuple[IgnoreRule, ...]], ...] = ()
    """The folder of each .gitignore above it and its rules, outermost first."""

    @classmethod
    def above(cls, path: Path) -> IgnoreRules:
        """Return the rules of the repository that a folder lies in. There are none if they leave
        out the folder itself, as it is wanted."""
        repositories = (folder for folder in path.parents if (folder / REPOSITORY).exists())
        repository = next(repositories, None)
        # A folder that is a repository of its own knows no rules of the one around it.
        if (path / REPOSITORY).exists() or repository is None:
            return cls()
        rules = cls()
        inner_path = path.relative_to(repository)
        for outer_folder, folder in pairwise([*reversed(inner_path.parents), inner_path]):
            rules = rules.inside(str(repository / outer_folder))
            if rules.leave_out(str(repository / folder), is_folder=True):
                return cls()
        return rules

    def inside(self, folder: str) -> IgnoreRules:
        """Return the rules that hold inside this folder. Raises: OSError, if its .gitignore cannot
        be read."""
        try:
            ignore_text = Path(folder, FILE).read_text(encoding="utf-8", errors="surrogateescape")
        except (FileNotFoundError, IsADirectoryError):
            return self
        return IgnoreRules((*self.levels, (folder, _parse_rules(ignore_text))))

    def leave_out(self, path: str, *, is_folder: bool) -> bool:
        """Return True if a file or folder is left out: the innermost .gitignore that speaks of it
        decides, and in it the last rule."""
        for folder, rules in reversed(self.levels):
            inner_path = path[len(folder.rstrip("/")) + 1 :]
            if is_folder:
                inner_path += "/"
            for pattern, is_left_out in reversed(rules):
                if pattern.search(inner_path):
                    return is_left_out
        return False


def _parse_rules(text: str) -> tuple[IgnoreRule, ...]:
    rule_lines = text.removeprefix("\ufeff").split("\n")
    rules = (_parse_rule(rule_line.removesuffix("\r")) for rule_line in rule_lines)
    return tuple(filter(None, rules))


def _parse_rule(line: str) -> IgnoreRule | None:
    try:
        expression, is_left_out = GitIgnoreSpecPattern.pattern_to_regex(line)
    except GitIgnorePatternError:  # git takes such a line for none
        return None
    if expression is None or is_left_out is None:
        return None
    # pathspec's expressions also match all below what they name; that is not asked for here, and
    # git's negations differ there
    if expression.endswith("/"):
        expression += "."
    elif expression != ".":
        expression += r"\Z"
    return re.compile(expression, re.DOTALL), is_left_out
