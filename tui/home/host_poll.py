"""Which runs the list asks the hosts of, and what they have answered."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from typing import TYPE_CHECKING

from tui.home.history import Answered

if TYPE_CHECKING:
    from remote.host_commands.listed_runs import ListedRun


class HostPoll:
    """What the hosts said of live runs and of those whose end nobody here knows.

    Of a run whose end is not known they are asked once. So hosts that are gone are tried once, and
    again if a person asks. Of a run that was live they are asked until they say how it has ended.
    """

    def __init__(self) -> None:
        self.answered = Answered()
        self.is_shown = False
        """A person waits for the answer."""
        self._pending: set[str] = set()
        self._asked: set[str] = set()
        self._were_live: set[str] = set()
        self._ended: dict[str, ListedRun] = {}

    def begin_anew(self) -> None:
        """Ask again of all runs, also those of which the hosts did not answer."""
        self.is_shown = True
        self._asked.clear()
        self._ended.clear()

    def has_asked(self, unknown: Collection[str]) -> bool:
        """Return True if the hosts were asked of all these runs."""
        return self._asked.issuperset(unknown)

    def choose_runs(self, unknown: set[str], recorded: set[str]) -> frozenset[str]:
        """Return the runs to ask of. `unknown`: the runs whose end is not known, of all that are
        `recorded` here."""
        were_live = (self._were_live & unknown) | (self._were_live - recorded)
        self._pending |= (unknown - self._asked) | were_live
        self._pending -= self._ended.keys()
        self._asked |= self._pending
        return frozenset(self._pending)  # also those of a question that this one replaces

    def take(self, answered: Answered) -> bool:
        """Take an answer. Return True if there is something to draw."""
        has_news = not (answered.is_silent and self.answered.is_silent)
        self._ended |= {run.name: run for run in answered.ended}
        for run in answered.live:
            self._ended.pop(run.name, None)
            self._were_live.add(run.name)
        self.answered = replace(answered, ended=tuple(self._ended.values()))
        self.is_shown = False
        self._pending.clear()
        return has_news
