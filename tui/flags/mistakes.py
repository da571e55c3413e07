"""Gather all mistakes in a command line, to tell them at once."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from training.job import Job, JobError, find_mistakes
from training.mistake import Mistake, MistakeError
from tui.kit.exit import MISTAKES, UsageError


class Mistakes:
    """The mistakes in a command line."""

    def __init__(self, parsing: Sequence[Mistake] = ()) -> None:
        """`parsing` are those that the parser has found: the values of these flags are unknown."""
        self._mistakes: list[Mistake | MistakeError | UsageError] = [*parsing]
        self._unknown_flags = {mistake.flag for mistake in parsing}

    def __bool__(self) -> bool:
        return bool(self._mistakes)

    @contextmanager
    def noting(self, *needed: str) -> Iterator[None]:
        """Note a mistake of the user, and go on.

        What follows from a flag that is wrong itself is no mistake: `needed` are such flags.
        """
        try:
            yield
        except MISTAKES as error:
            if self._unknown_flags.isdisjoint(needed):
                self._mistakes.append(error)

    def refuse(self) -> None:
        """End with all mistakes, a line each, if there are any. Raises: UsageError."""
        mistake_lines: list[str] = []
        single_mistakes: list[Mistake] = []
        for mistake in self._mistakes:
            mistake_lines += str(mistake).splitlines()
            single_mistakes += [mistake] if isinstance(mistake, Mistake) else mistake.mistakes
        if mistake_lines:
            # Each once: several checks may find the same mistake.
            text = "\n".join(dict.fromkeys(mistake_lines))
            raise UsageError(text, tuple(dict.fromkeys(single_mistakes)))


def check_job(settings: Mapping[str, Any], method: str = Job.sync) -> None:
    """Check the settings of a job that are given. Raises: JobError, with all mistakes.

    `method` is the sync method if they name none: "" if it may be any, as in a study. That of a run
    to resume is not known yet.
    """
    given_settings = dict(settings)
    if method and not given_settings.get("resume"):
        given_settings.setdefault("sync", method)
    mistakes = find_mistakes(given_settings)
    if mistakes:
        raise JobError(*mistakes)
