"""All mistakes in a command line at once."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from training.job import Job, JobError, find_mistakes
from training.mistake import Mistake
from tui.kit.exit import MISTAKES, UsageError


class Mistakes:
    """Gathers mistakes. `wrong` are those that the parser has found: what these flags say is not
    known."""

    def __init__(self, wrong: Sequence[Mistake] = ()) -> None:
        self._found: list[Mistake | Exception] = [*wrong]
        self._flags = {mistake.flag for mistake in wrong}

    def __bool__(self) -> bool:
        return bool(self._found)

    @contextmanager
    def noting(self, *needed: str) -> Iterator[None]:
        """Note a mistake of the user, and go on. What depends on a flag that is wrong itself is no
        mistake: `needed` are such flags."""
        try:
            yield
        except MISTAKES as error:
            if self._flags.isdisjoint(needed):
                self._found.append(error)

    def refuse(self) -> None:
        """End with all mistakes, a line each, where there are any. Raises: UsageError."""
        lines = [line for one in self._found for line in str(one).splitlines()]
        if lines:
            raise UsageError("\n".join(dict.fromkeys(lines)))


def check_job(flags: Mapping[str, Any], method: str = Job.sync) -> None:
    """Check the flags of a job. `method` is the sync method where they name none; "" where that may
    be any, as in a study. That of a run to resume is not known yet. Raises: JobError, with all
    mistakes."""
    given = {name: value for name, value in flags.items() if value is not None}
    if not given.get("resume"):
        given.setdefault("sync", method or None)
    mistakes = find_mistakes(given)
    if mistakes:
        raise JobError(*mistakes)
