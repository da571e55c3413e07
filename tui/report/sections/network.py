"""What the ranks sent, and how well they used their links."""

from __future__ import annotations

import math

from remote.format import UNKNOWN, percent, seconds, size
from tui.report import text
from tui.report.document import Section, Table
from tui.report.numbers.network import Traffic, traffic
from tui.report.numbers.timing import Timing
from tui.report.subject import Subject

HEAD = (
    *(
        "cell",
        "sent, mean",
        "sent, most",
        "gradients",
        "blocked s",
        "busbw",
        "link",
        "share of link",
    ),
    *("at best s", "hidden"),
)

NOTE = (
    "sent: what ranks send in a step, as the mean over them and as the most that any sends. The "
    "root of gather and scatter sends most and receives as much. blocked: seconds that even the "
    "last rank to have its gradients spends in the exchange. busbw: what the busiest link carries "
    "in that time, 2(n-1)/n times the gradients in a ring, at the root of gather and scatter "
    "2(n-1) times, in buckets n-1 times. Where the exchange overlaps with computing, nobody "
    "knows how long it took: ≥ is what the link carried on average over the whole iteration."
)
LINKS = (
    " at best: the seconds that the link allows. hidden: the share of the exchange that overlapped "
    "with computing, at least."
)
LEAST = "≥ "


def section(subject: Subject, timing: Timing) -> Section | None:
    """The table; None where nothing was sent."""
    found = [one for group in subject.groups if (one := traffic(group))]
    if not found:
        return None
    is_known = any(one.group.link for one in found)
    table = Table("Network", HEAD, [_row(one) for one in found], NOTE + (LINKS if is_known else ""))
    return Section("network", "Network", _unknown(found), [table])


def _row(one: Traffic) -> tuple[str, ...]:
    link = text.link(one.group.link)
    least = LEAST if one.overlaps else ""
    return (
        one.group.label,
        size(one.sent),
        size(one.most),
        size(one.payload) if math.isfinite(one.payload) else UNKNOWN,
        seconds(one.blocked),
        f"{least}{one.busbw * 8 / 1e9:.3g} Gbit/s" if math.isfinite(one.busbw) else UNKNOWN,
        link,
        f"{least}{percent(one.share)}" if math.isfinite(one.share) else UNKNOWN,
        seconds(one.at_best),
        percent(one.hidden),
    )


def _unknown(found: list[Traffic]) -> list[str]:
    if all(one.group.link for one in found):
        return []
    return ["The rate of the links is not recorded: give it with --link, such as --link 1gbit."]
