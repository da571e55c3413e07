"""Mistakes that somebody could make, for the harness to find: each takes away one check."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any
from unittest.mock import patch

from remote.study.folder import StudyFolder
from tests.hostile.fuzz.cases import Outcome, read_folders, run_stories

Run = Callable[[int, int, float], Outcome]


@dataclass(frozen=True)
class Mistake:
    """What is replaced in the product by what, and the cases that must find it."""

    run: Run
    replaced: dict[str, Any]

    @contextmanager
    def made(self) -> Iterator[None]:
        """Make the mistake."""
        with ExitStack() as stack:
            for name, instead in self.replaced.items():
                stack.enter_context(patch(name, instead))
            yield


def _any_rank(run: Any, number: int) -> Any:
    return run.ranks[number]


def _any_host(run: Any, numbers: tuple[int, ...]) -> bool:
    return bool(numbers)


def _unsanitised(text: str) -> list[str]:
    return text.split("\n")


def _entries(folder: StudyFolder) -> Iterator[Any]:
    yield from (folder.path / "journal.jsonl").read_text().splitlines()


MISTAKES: dict[str, Mistake] = {
    "a rank is looked up without a check": Mistake(
        run_stories, {"remote.run.run_state.RunState.rank": _any_rank}
    ),
    "hosts of an attempt are not checked": Mistake(
        run_stories, {"remote.run.run_state.RunState.are_hosts": _any_host}
    ),
    "text reaches a terminal as it is": Mistake(
        run_stories, {"tui.run.narration.shown": _unsanitised}
    ),
    "a journal is taken for what we wrote": Mistake(
        read_folders, {"remote.study.folder.StudyFolder.entries": _entries}
    ),
}
