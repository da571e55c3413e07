"""How far a run of a user's own program is, in a line, where its ranks do not say so."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from statistics import fmean

from remote.format import UNKNOWN, between, count, loss, percent, seconds, size
from remote.run.findings.script_visibility import script_ranks
from remote.run.run_state import RunState
from remote.run.state.script_rank import ScriptRank
from tui.kit.session_clock import SessionClock

INTERVAL = 10.0
"""Seconds between two such lines, and after a line of a rank that tells steps."""
ALIKE = 0.1
"""Ranks whose shares differ by less are blocked alike."""


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
        exchanging_ranks = [rank for rank in script_ranks(state) if rank.only_exchanges]
        num_calls = sum(rank.collectives.count for rank in exchanging_ranks)
        if state.step == self._step and (state.step or num_calls == self._calls):
            return
        self._printed_at = monotonic_now
        self._step = state.step
        self._calls = num_calls
        if state.step:
            yield progress_text(state, self._clock.now(state))
        else:
            yield exchange_text(exchanging_ranks)


def exchange_text(ranks: Sequence[ScriptRank]) -> str:
    """What ranks do of which only collectives are seen: "80 collectives, 6.40 MB/s, blocked 1%
    (rank 1) to 99% (rank 0)"."""
    num_calls = sum(rank.collectives.count for rank in ranks)
    rates = [rank.collectives.per_second("bytes") for rank in ranks]
    total_rate = sum(filter(math.isfinite, rates))
    shares = {rank.rank: rank.collectives.per_second("seconds") for rank in ranks}
    known_shares = {rank: share for rank, share in shares.items() if math.isfinite(share)}
    facts = [
        count(num_calls, "collective"),
        f"{size(total_rate)}/s" if total_rate else "",
        f"blocked {_share_range(known_shares)}" if known_shares else "",
    ]
    return ", ".join(filter(None, facts))


def _share_range(shares: Mapping[int, float]) -> str:
    """The share of all ranks, or where they differ, of those that wait least and most: the others
    wait for the one that waits least."""
    least, most = min(shares, key=shares.__getitem__), max(shares, key=shares.__getitem__)
    if shares[most] - shares[least] < ALIKE:
        return percent(fmean(shares.values()))
    return f"{percent(shares[least])} (rank {least}) to {percent(shares[most])} (rank {most})"


def progress_text(state: RunState, now: float) -> str:
    """How far the run is: "step 120/1000, loss 0.6332, 0.0098 s/iter, sync 61%, ETA 1:20"."""
    total_steps = state.progress.steps
    known_losses = [rank.loss for rank in state.ranks if math.isfinite(rank.loss)]
    pace_text = seconds(state.step_seconds)
    time_left = between(*state.eta_between(now))
    facts = [
        f"step {state.step}/{total_steps}" if total_steps else f"step {state.step}",
        f"loss {loss(fmean(known_losses), len(known_losses))}" if known_losses else "",
        f"{pace_text} s/iter" if pace_text != UNKNOWN else "",
        f"sync {percent(state.sync_share)}" if state.sync_share > 0 else "",
        f"ETA {time_left}" if time_left != UNKNOWN else "",
    ]
    return ", ".join(filter(None, facts))
