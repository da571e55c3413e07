"""Why cells take as long as they do, in a few sentences, each computed."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from remote.format import percent, seconds, size
from remote.plan.expected import IN_BUCKETS, IN_TURN, RING
from tui.report.document import Section
from tui.report.formatting import format_link
from tui.report.subject import ReportSubject, RunGroup
from tui.report.timing import SubjectTiming
from tui.report.topics.network import GroupTraffic, measure_traffic
from tui.report.topics.phases import PhaseSeconds, mean_phases

MOST_GROUPS = 8
"""Cells that a sentence names."""
GroupPhases = Sequence[tuple[RunGroup, PhaseSeconds]]


def make_section(subject: ReportSubject, timing: SubjectTiming) -> Section | None:
    """Make the sentences; None if there are none."""
    groups = [group for group in subject.select_groups(MOST_GROUPS) if timing.find(group)]
    measured = [measure_traffic(group) for group in groups]
    traffic = [one for one in measured if one]
    sentences = [
        *_describe_amounts(traffic),
        *_describe_sync(_measure_phases(groups)),
        *_describe_hidden(traffic),
        *_describe_computing(subject, _measure_phases(subject.measured)),
    ]
    if not sentences:
        return None
    sentences += subject.describe_left_out(MOST_GROUPS)
    return Section("why", "What the numbers say", sentences)


def _measure_phases(groups: Sequence[RunGroup]) -> GroupPhases:
    measured = [(group, mean_phases(group)) for group in groups]
    return [
        (group, phases)
        for group, phases in measured
        if phases["seconds"] > 0 and phases["compute"] > 0
    ]


def _describe_amounts(traffic: Sequence[GroupTraffic]) -> Iterator[str]:
    """Say what has to go over the busiest link, and how long that takes at least."""
    labels: dict[str, list[str]] = {}
    for one in traffic:
        if one.pattern and math.isfinite(one.payload):
            labels.setdefault(_describe_amount(one), []).append(one.group.label)
    for amount, cells in labels.items():
        yield f"{'; '.join(cells)}: {amount}."


def _describe_amount(traffic: GroupTraffic) -> str:
    ranks = traffic.group.ranks
    payload = size(traffic.payload)
    if traffic.pattern == RING:
        factor = _format_factor(2 * (ranks - 1) / ranks)
        amount = f"each rank sends and receives {factor}{payload} per step"
    elif traffic.pattern == IN_BUCKETS:
        amount = f"the root receives and sends {_format_factor(ranks - 1)}{payload} per step"
    else:
        assert traffic.pattern == IN_TURN
        factor = _format_factor(ranks - 1)
        amount = f"the root receives {factor}{payload} per step, then sends as much"
    link = traffic.group.link_per_rank
    if link:
        amount += f", at least {seconds(traffic.at_best)} s on a link of {format_link(link)}"
    return amount


def _format_factor(factor: float) -> str:
    return "" if factor == 1 else f"{factor:.3g} x "


def _describe_sync(measured: GroupPhases) -> Iterator[str]:
    """Say how much of a step ranks are blocked on others."""
    shares = []
    for group, phases in measured:
        if group.ranks > 1:
            shares.append((phases["sync"] / phases["seconds"], group.label))
    if shares:
        yield f"Share of a step that ranks spend in sync: {_list_shares(shares)}."


def _describe_hidden(traffic: Sequence[GroupTraffic]) -> Iterator[str]:
    """Say how much of the exchange overlaps with computing."""
    shares = [(one.hidden_share, one.group.label) for one in traffic if one.hidden_share > 0]
    if shares:
        listed = _list_shares(shares)
        yield f"Share of the exchange that is hidden behind computing, at least: {listed}."


def _describe_computing(subject: ReportSubject, measured: GroupPhases) -> Iterator[str]:
    """Say how much less there is to compute than in the baseline."""
    baseline = subject.baseline_group
    if baseline is None:
        return
    own_seconds = math.nan
    other_seconds = []
    for group, phases in measured:
        if group is baseline:
            own_seconds = phases["compute"]
        elif group.ranks > baseline.ranks and group.batch == baseline.batch:
            other_seconds.append(phases["compute"])
    if not other_seconds or not math.isfinite(own_seconds):
        return
    span = seconds(min(other_seconds))
    if len(other_seconds) > 1:
        span += f" to {seconds(max(other_seconds))}"
    yield (
        f"Computing a step takes {seconds(own_seconds)} s in the cell {baseline.label}, and {span} "
        "s where there are more ranks."
    )


def _list_shares(shares: list[tuple[float, str]]) -> str:
    """Return labels with their shares, the largest first."""
    descending = sorted(shares, reverse=True)
    return "; ".join(f"{label} {percent(share)}" for share, label in descending)
