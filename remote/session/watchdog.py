"""What is done when ranks make no steps any more: their stacks are told, and then what the plan's
policy says."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence

from remote.plan.plan import OnStall
from remote.run import stall
from remote.run.state import RunState
from remote.session.connection import Link
from training.wire.commands import Stacks
from training.wire.events import SESSION, Event, Said

STACKS = 5.0
"""Seconds that the ranks' stacks have to come before a stall is acted on."""


class Halts:
    """Watches for stalls. What there is to tell goes to `say`; to `stop`, why the policy wants the
    attempt to end."""

    def __init__(
        self,
        run: RunState,
        links: Sequence[Link],
        say: Callable[[Event], None],
        stop: Callable[[str], None],
    ) -> None:
        self._run, self._links, self._say, self._stop = run, links, say, stop
        self._policy = run.plan.policy.on_stall
        self._act_at, self._silent_at = math.inf, 0.0

    def forget(self) -> None:
        """The ranks begin anew."""
        self._act_at = math.inf

    def ask_stacks(self) -> None:
        """Have it told where each rank is."""
        for link in self._links:
            if link.running:
                link.send(Stacks())

    def look(self, now: float) -> None:
        """See whether ranks have come to a halt, and act on it once their stacks have come, or
        should have."""
        if found := stall.stalled(self._run, time.time()):
            self._say(found)
            self._ask_again(now)
        if not self._run.stall or self._act_at == math.inf:
            return
        silent = [link.heard for link in self._links if link.silent and not link.done]
        if silent and self._policy is not OnStall.REPORT:
            # The ranks wait for a host that is silent, and once it is back for TCP, which takes as
            # long again at the most.
            self._silent_at = min(*silent, self._silent_at or now)
            self._act_at = now + (now - self._silent_at) + STACKS
        elif now >= self._act_at and self._silent_at:
            self._ask_again(now)
        elif now >= self._act_at or (stall.complete(self._run) and not self._silent_at):
            self._act(self._run.stall.text)

    def _ask_again(self, now: float) -> None:
        self.ask_stacks()
        self._act_at, self._silent_at = now + STACKS, 0.0

    def _act(self, what: str) -> None:
        """A stall is known as well as it will be."""
        self._act_at = math.inf
        if self._policy is OnStall.REPORT:
            self._say(Said(SESSION, what))
        else:
            self._stop(what)
