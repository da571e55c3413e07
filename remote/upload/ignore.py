"""What .gitignore files leave out, as git understands them, but for what git already tracks."""

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
    """The rules that hold in a folder: those of each .gitignore above it, outermost first, with the
    folder that it lies in."""

    levels: tuple[tuple[str, tuple[IgnoreRule, ...]], ...] = ()

    @classmethod
    def above(cls, path: Path) -> IgnoreRules:
        """Those of the repository that a folder lies in; none where they leave the folder itself
        out, which is wanted."""
        repository = next(
            (folder for folder in path.parents if (folder / REPOSITORY).exists()), None
        )
        if (path / REPOSITORY).exists() or repository is None:
            return cls()
        rules = cls()
        down = [*reversed(path.relative_to(repository).parents), path.relative_to(repository)]
        for folder, inner in pairwise(down):
            rules = rules.inside(str(repository / folder))
            if rules.leave_out(str(repository / inner), is_folder=True):
                return cls()
        return rules

    def inside(self, folder: str) -> IgnoreRules:
        """Those that hold inside this folder. Raises: OSError, where its .gitignore cannot be
        read."""
        try:
            text = Path(folder, FILE).read_text(encoding="utf-8", errors="surrogateescape")
        except (FileNotFoundError, IsADirectoryError):
            return self
        return IgnoreRules((*self.levels, (folder, _rules(text))))

    def leave_out(self, path: str, *, is_folder: bool) -> bool:
        """Whether a file or folder is left out: the innermost .gitignore that speaks of it decides,
        and in it the last rule."""
        for folder, rules in reversed(self.levels):
            inner = path[len(folder.rstrip("/")) + 1 :] + "/" * is_folder
            for pattern, out in reversed(rules):
                if pattern.search(inner):
                    return out
        return False


def _rules(text: str) -> tuple[IgnoreRule, ...]:
    lines = [line.removesuffix("\r") for line in text.removeprefix("\ufeff").split("\n")]
    return tuple(rule for line in lines if (rule := _rule(line)))


def _rule(line: str) -> IgnoreRule | None:
    try:
        expression, out = GitIgnoreSpecPattern.pattern_to_regex(line)
    except GitIgnorePatternError:  # git takes such a line for none
        return None
    if expression is None or out is None:
        return None
    # pathspec's expressions also match all below what they name; that is not asked for here, and
    # git's negations differ there
    end = "." if expression.endswith("/") else "" if expression == "." else r"\Z"
    return re.compile(expression + end, re.DOTALL), out
