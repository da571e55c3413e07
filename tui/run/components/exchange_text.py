"""What ranks exchange of which only collectives are seen, in words. Pure."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from statistics import fmean

from remote.format import count, percent, size
from remote.run.run_state import RunState
from remote.run.state.script_rank import ScriptRank

ALIKE = 0.1
"""Ranks whose shares differ by less are blocked alike."""


def list_exchanging(run: RunState) -> list[ScriptRank]:
    """Return the ranks of which only collectives are seen."""
    return [rank for rank in run.script_ranks if rank.only_exchanges]


def describe_exchange(ranks: Sequence[ScriptRank]) -> str:
    """Say what these ranks have exchanged, and who waits; "" if there are none.

    Such as "80 collectives, 6.0 MiB/s, blocked 1% (rank 1) to 99% (rank 0)".
    """
    if not ranks:
        return ""
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
    """Return the share of all ranks; where they differ, of those that wait least and most.

    The others wait for the one that waits least.
    """
    least, most = min(shares, key=shares.__getitem__), max(shares, key=shares.__getitem__)
    if shares[most] - shares[least] < ALIKE:
        return percent(fmean(shares.values()))
    return f"{percent(shares[least])} (rank {least}) to {percent(shares[most])} (rank {most})"
