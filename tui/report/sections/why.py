"""Why cells take as long as they do, in a few sentences, each computed."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence

from remote.format import percent, seconds, size
from remote.plan.expected import IN_BUCKETS, IN_TURN, RING
from tui.report import text
from tui.report.document import Section
from tui.report.numbers.network import Traffic, traffic
from tui.report.numbers.phases import phases
from tui.report.numbers.timing import Timing
from tui.report.subject import Group, Subject

TITLE = "What the numbers say"
MOST = 8
"""Cells that a sentence names."""
Phased = Sequence[tuple[Group, Mapping[str, float]]]
"""Groups with the seconds of a step and its phases."""


def section(subject: Subject, timing: Timing) -> Section | None:
    """The sentences; None where nothing was sent."""
    groups = [group for group in subject.shown(MOST) if timing.of(group)]
    sent = [one for group in groups if (one := traffic(group))]
    known = _phases(groups)
    says = [*_exchange(sent), *_sync(known), *_hidden(sent)]
    says += [*_compute(subject, _phases(subject.measured)), *subject.selection(MOST)]
    return Section("why", TITLE, says) if len(says) > len(subject.selection(MOST)) else None


def _phases(groups: Sequence[Group]) -> Phased:
    parts = [(group, phases(group)) for group in groups]
    return [(group, one) for group, one in parts if one["seconds"] > 0 and one["compute"] > 0]


def _exchange(sent: list[Traffic]) -> Iterator[str]:
    """What has to go over the busiest link, and how long that takes at least."""
    found: dict[str, list[str]] = {}
    for one in sent:
        if one.pattern and math.isfinite(one.payload):
            found.setdefault(_amount(one), []).append(one.group.label)
    for amount, labels in found.items():
        yield f"{'; '.join(labels)}: {amount}."


def _amount(one: Traffic) -> str:
    ranks = one.group.ranks
    payload = size(one.payload)
    turns = _times(ranks - 1)
    share = _times(2 * (ranks - 1) / ranks)
    amounts = {
        IN_TURN: f"the root receives {turns}{payload} per step, then sends as much",
        IN_BUCKETS: f"the root receives and sends {turns}{payload} per step",
        RING: f"each rank sends and receives {share}{payload} per step",
    }
    rate = one.group.own_link
    least = f", at least {seconds(one.at_best)} s on a link of {text.link(rate)}" if rate else ""
    return f"{amounts[one.pattern]}{least}"


def _times(factor: float) -> str:
    return "" if factor == 1 else f"{factor:.3g} x "


def _sync(known: Phased) -> Iterator[str]:
    """How much of a step ranks are blocked on others."""
    shares = [(one["sync"] / one["seconds"], group) for group, one in known if group.ranks > 1]
    if shares:
        said = _listed([(share, group.label) for share, group in shares])
        yield f"Share of a step that ranks spend in sync: {said}."


def _hidden(sent: list[Traffic]) -> Iterator[str]:
    """How much of the exchange overlaps with computing."""
    found = [(one.hidden, one.group.label) for one in sent if one.hidden > 0]
    if found:
        yield (
            f"Share of the exchange that is hidden behind computing, at least: {_listed(found)}."
        )


def _compute(subject: Subject, known: Phased) -> Iterator[str]:
    """How much less there is to compute than in the baseline."""
    base = None if subject.baseline is None else subject.groups[subject.baseline]
    own = next((one["compute"] for group, one in known if group is base), math.nan)
    others = sorted(
        one["compute"]
        for group, one in known
        if base and group.ranks > base.ranks and group.batch == base.batch
    )
    if not base or not others or not math.isfinite(own):
        return
    least = others[0]
    most = others[-1]
    span = seconds(least) if len(others) == 1 else f"{seconds(least)} to {seconds(most)}"
    yield (
        f"Computing a step takes {seconds(own)} s in the cell {base.label}, and {span} s where "
        "there are more ranks."
    )


def _listed(found: list[tuple[float, str]]) -> str:
    """Names with their shares, the largest first."""
    return "; ".join(f"{label} {percent(share)}" for share, label in sorted(found, reverse=True))
