"""How far a run of a user's own program is, in a line, where its ranks do not say so."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

from remote.format import UNKNOWN, loss, percent, step_time
from remote.run.findings.rates import step_means
from remote.run.findings.training_loss import find_training_loss
from remote.run.run_state import RunState
from tui.kit.session_clock import SessionClock
from tui.run.components.eta_text import describe_eta
from tui.run.components.exchange_text import describe_exchange

INTERVAL = 10.0
"""Seconds between two such lines, and after a line of a rank that tells steps."""


class ProgressLines:
    """Tells now and then how far the ranks are that print no steps."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._monotonic, self._clock = clock, SessionClock(clock)
        self._printed_at = clock()
        self._step = 0
        self._calls = 0

    def lines(self, state: RunState, *, printed: bool) -> Iterator[str]:
        """A line, where one is due and the ranks have gone on. `printed`: lines of ranks were shown
        just now."""
        monotonic_now = self._monotonic()
        if printed and state.progress.formats:
            self._printed_at = monotonic_now
        if state.plan.job or monotonic_now < self._printed_at + INTERVAL:
            return
        exchanging_ranks = state.exchanging_ranks
        num_calls = sum(rank.collectives.count for rank in exchanging_ranks)
        if state.step == self._step and (state.step or num_calls == self._calls):
            return
        self._printed_at = monotonic_now
        self._step = state.step
        self._calls = num_calls
        if state.step:
            yield progress_text(state, self._clock.now(state))
        else:
            yield describe_exchange(exchanging_ranks)


def progress_text(state: RunState, now: float) -> str:
    """How far the run is: "step 120/1000, loss 0.6332, 9.8 ms/step, sync 61%, ETA 1:20"."""
    total_steps = state.progress.steps
    training_loss = find_training_loss(state)
    means = step_means(state)
    pace_text = step_time(means.seconds)
    share_of_sync = means.share(means.sync)
    time_left = describe_eta(state, now).point
    facts = [
        f"step {state.step}/{total_steps}" if total_steps else f"step {state.step}",
        "" if training_loss is None else f"loss {loss(training_loss)}",
        f"{pace_text}/step" if pace_text != UNKNOWN else "",
        f"sync {percent(share_of_sync)}" if share_of_sync > 0 else "",
        f"ETA {time_left}" if time_left != UNKNOWN else "",
    ]
    return ", ".join(filter(None, facts))
