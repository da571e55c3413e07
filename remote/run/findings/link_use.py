"""How much of a host's link to the others a run uses, where the rate of the link is known. Pure."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from msgspec import Struct

from remote.run.run_state import RunState
from remote.run.state.host_state import HostState
from remote.run.state.phases import RunPhase

if TYPE_CHECKING:  # numpy takes a while to import
    from remote.run.series.downsampling import Points

MBIT = 1e6 / 8
"""Bytes per second."""


class LinkUse(Struct, frozen=True):
    """What goes over a link, in bytes per second."""

    host: int
    used: float
    """In the direction that has more."""
    rate: float
    """What it could carry."""

    @property
    def share(self) -> float:
        """Return the used share of the link."""
        return self.used / self.rate


def link_rate(run: RunState, host: HostState) -> float:
    """Return the bytes per second that a host's link carries each way; 0 if that is not known."""
    if not host.hello or len(run.plan.hosts) < 2:
        return 0.0
    interface = run.plan.hosts[host.index].interface or host.hello.route_interface
    return dict(host.hello.link_speeds).get(interface, 0) * MBIT


def find_link_use(run: RunState) -> LinkUse | None:
    """Return the use of the link that is used most; None if no rate is known.

    It is that of the last second; once the run has ended, the mean while it trained.
    """
    uses = []
    for host in run.hosts:
        rate = link_rate(run, host)
        if rate > 0:
            uses.append(LinkUse(host.index, _used(run, host), rate))
    known_uses = [use for use in uses if not math.isnan(use.used)]
    return max(known_uses, key=lambda use: use.share, default=None)


def _used(run: RunState, host: HostState) -> float:
    if run.phase is not RunPhase.ENDED:
        return float(max(host.sample.sent, host.sample.received))
    directions = (run.curves.of(series, host.index) for series in ("sent", "received"))
    return max(_mean_while_training(run, points) for points in directions)


def _mean_while_training(run: RunState, points: Points) -> float:
    """Return the mean between the first step and the last; NaN if there is no value."""
    steps = run.curves.whole("seconds").time
    if not len(steps):
        return math.nan
    is_training = (points.time >= steps[0]) & (points.time <= steps[-1])
    values = points.mean[is_training]
    known_values = values[values == values]  # NaN is not equal to itself
    return float(known_values.mean()) if known_values.size else math.nan
