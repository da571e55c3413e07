"""Which runs the list asks the hosts of, and what they have answered."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from tui.home.history import Answered


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

    def begin_anew(self) -> None:
        """Ask again of all runs, also those of which the hosts did not answer."""
        self.is_shown = True
        self._asked.clear()
        # A run with an answer of this kind would not be asked of, see `choose_runs`.
        self.answered = replace(self.answered, ended={})

    def has_asked(self, unknown: Collection[str]) -> bool:
        """Return True if the hosts were asked of all these runs."""
        return self._asked.issuperset(unknown)

    def choose_runs(self, unknown: set[str], recorded: set[str]) -> frozenset[str]:
        """Return the runs to ask of. `unknown`: the runs whose end is not known, of all that are
        `recorded` here."""
        were_live = (self._were_live & unknown) | (self._were_live - recorded)
        self._pending |= (unknown - self._asked) | were_live
        self._pending -= self.answered.ended.keys()
        self._asked |= self._pending
        return frozenset(self._pending)  # also those of a question that this one replaces

    def take(self, answered: Answered) -> bool:
        """Take an answer. Return True if there is something to draw."""
        has_news = not (answered.is_silent and self.answered.is_silent)
        self._were_live |= answered.live.keys()
        ended = {**self.answered.ended, **answered.ended}
        for name in answered.live:  # it may have ended, and been continued
            ended.pop(name, None)
        self.answered = replace(answered, ended=ended)
        self.is_shown = False
        self._pending.clear()
        return has_news
