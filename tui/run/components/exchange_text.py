"""What ranks exchange of which only collectives are seen, in words. Pure."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from statistics import fmean

from remote.format import count, fixed, percent, size
from remote.run.state.script_rank import ScriptRank

ALIKE = 0.1
"""Ranks are blocked alike if they differ by less: of the time, or of the seconds of the longest."""


def describe_exchange(ranks: Sequence[ScriptRank], *, is_over: bool = False) -> str:
    """Say how often these ranks have exchanged something, and who waits; "" if there are none.

    Such as "80 calls each, 6.0 MiB/s, blocked 1% (rank 1) to 99% (rank 0)" of the last second, or
    "800 calls each, blocked 3.10 s (rank 1) to 58.00 s (rank 0)" of a run that is over.
    """
    if not ranks:
        return ""
    num_calls = [rank.collectives.count for rank in ranks]
    fewest, most = min(num_calls), max(num_calls)
    beginning = f"{fewest:,} to " if fewest < most else ""
    calls_text = f"{beginning}{count(most, 'call')} each"
    if is_over:
        seconds_blocked = {rank.rank: rank.collectives.seconds for rank in ranks}
        return f"{calls_text}, blocked {_describe_range(seconds_blocked, _seconds_text)}"
    rates = [rank.collectives.per_second("bytes") for rank in ranks]
    total_rate = sum(filter(math.isfinite, rates))
    shares = {rank.rank: rank.collectives.per_second("seconds") for rank in ranks}
    known_shares = {rank: share for rank, share in shares.items() if math.isfinite(share)}
    facts = [
        calls_text,
        f"{size(total_rate)}/s" if total_rate else "",
        f"blocked {_describe_range(known_shares, percent)}" if known_shares else "",
    ]
    return ", ".join(filter(None, facts))


def _seconds_text(value: float) -> str:
    return fixed(value, 2, " s")


def _describe_range(blocked: Mapping[int, float], format_value: Callable[[float], str]) -> str:
    """Return the value of all ranks; where they differ, of those that wait least and most.

    The others wait for the one that waits least.
    """
    least, most = min(blocked, key=blocked.__getitem__), max(blocked, key=blocked.__getitem__)
    difference = blocked[most] - blocked[least]
    if difference < ALIKE * max(1.0, blocked[most]):
        return format_value(fmean(blocked.values()))
    least_text, most_text = format_value(blocked[least]), format_value(blocked[most])
    return f"{least_text} (rank {least}) to {most_text} (rank {most})"
