"""The bytes that ranks send, and how well they use their links."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from remote.format import UNKNOWN, percent, seconds, size
from remote.metrics.run import RunFigures
from remote.plan.expected import IN_BUCKETS, IN_TURN, RING, traffic_pattern
from remote.statistics.bandwidth import BEST
from training.job import Job
from tui.report.document import Section, make_table
from tui.report.formatting import format_link
from tui.report.subject import ReportSubject, RunGroup
from tui.report.timing import SubjectTiming

HEAD = (
    "cell",
    "sent, mean",
    "sent, most",
    "gradients",
    "blocked s",
    "busbw",
    "link",
    "share of link",
    "at best s",
    "hidden",
)
NOTE = (
    "sent: what ranks send in a step, as the mean over them and as the most that any sends. The "
    "root of gather and scatter sends most and receives as much. blocked: seconds that even the "
    "last rank to have its gradients spends in the exchange. busbw: what the busiest link carries "
    "in that time, 2(n-1)/n times the gradients in a ring, at the root of gather and scatter "
    "2(n-1) times, in buckets n-1 times. Where the exchange overlaps with computing, nobody "
    "knows how long it took: ≥ is what the link carried on average over the whole iteration. at "
    "best: the seconds that the link allows. hidden: the share of the exchange that overlapped "
    "with computing, at least."
)
WAYS = {
    RING: "each rank sends and receives {}",
    IN_BUCKETS: "the root receives and sends {}",
    IN_TURN: "the root receives {}, then sends as much",
}
"""What the busiest link carries, by the pattern of an exchange."""
NO_LINK = "The rate of the links is not recorded: name it with rankboard report --link 1gbit."
BUCKET = "bucket"
"""The granularity of methods that send gradients while others are computed."""


@dataclass(frozen=True)
class GroupTraffic:
    """The exchange of a step, as medians over steps and means over runs.

    Sizes are in bytes, bandwidths in bytes per second; NaN is not known.
    """

    group: RunGroup
    sent: float
    """What a rank sends, as the mean over ranks."""
    most: float
    """The most that any rank sends."""
    payload: float
    """The gradients of the model."""
    blocked: float
    """Seconds from when all ranks have their gradients to the end of the exchange: those of the
    rank that was blocked least."""
    bus_bandwidth: float
    """What the busiest link carried in that time. If the exchange overlaps with computing, over the
    whole iteration, and so the least that the link carried."""
    at_best: float
    """Seconds that the link allows."""
    overlaps: bool
    pattern: str
    """How gradients are averaged, as in `remote.statistics.bandwidth.BEST`; "" if no formula
    holds."""

    @property
    def link_share(self) -> float:
        """Return the bus bandwidth as a share of the link."""
        link = self.group.link_per_rank
        return self.bus_bandwidth / link if link else math.nan

    @property
    def hidden_share(self) -> float:
        """Return the share of the exchange that at least was hidden behind the ranks' own work."""
        if not self.overlaps or not self.at_best > 0:
            return math.nan
        return max(0.0, 1 - self.blocked / self.at_best)


def measure_traffic(group: RunGroup) -> GroupTraffic | None:
    """Return the traffic of a group; None if nothing was sent."""
    sending_runs = [run for run in group.runs if run.world_size > 1 and len(run.steps)]
    if not sending_runs:
        return None
    early_steps = [run.steps.early() for run in sending_runs]
    mean_sent = float(np.mean([steps.mean("bytes_sent") for steps in early_steps]))
    # Also True of NaN, as of a script that does not report what it sends.
    if not mean_sent > 0:
        return None
    blocked_seconds = float(np.mean([_blocked_seconds(run) for run in sending_runs]))
    payload = float(max(run.payload() for run in sending_runs)) or math.nan
    job = sending_runs[0].job
    exchange_pattern = _find_pattern(job)
    carried_bytes = math.nan
    if exchange_pattern and math.isfinite(payload):
        carried_bytes = BEST[exchange_pattern](sending_runs[0].world_size) * payload
    overlaps = _sends_while_computing(job)
    # While ranks compute, nobody knows when the exchange began.
    exchange_seconds = blocked_seconds
    if overlaps:
        exchange_seconds = float(np.mean([run.step_seconds() for run in sending_runs]))
    link_rate = group.link_per_rank
    return GroupTraffic(
        group,
        mean_sent,
        most=float(np.mean([steps.per_rank("bytes_sent").max() for steps in early_steps])),
        payload=payload,
        blocked=blocked_seconds,
        bus_bandwidth=carried_bytes / exchange_seconds if exchange_seconds > 0 else math.nan,
        at_best=carried_bytes / link_rate if link_rate else math.nan,
        overlaps=overlaps,
        pattern=exchange_pattern,
    )


def _sends_while_computing(job: Job | None) -> bool:
    if job is None:
        return False
    return job.sync == "ddp" or getattr(job.sync_options(), "granularity", "") == BUCKET


def _blocked_seconds(run: RunFigures) -> float:
    _, sync = run.steps.early().matrix("sync")
    # The rank that is blocked least was ready last, so that it waited for the exchange alone.
    return float(np.median(sync.min(axis=1))) if sync.size else math.nan


def _find_pattern(job: Job | None) -> str:
    """Return how the job averages gradients; "" if the assignment's formulas do not hold."""
    if job is None or job.accumulate > 1:
        return ""
    # Fewer bytes are sent than the gradients have.
    if getattr(job.sync_options(), "compression", "none") != "none":
        return ""
    return traffic_pattern(job)


def make_section(subject: ReportSubject, timing: SubjectTiming) -> Section | None:
    """Make the table; None if nothing was sent."""
    traffic_rows = list(filter(None, map(measure_traffic, subject.groups)))
    if not traffic_rows:
        return None
    paragraphs = list(_describe_amounts(traffic_rows))
    if not all(group_traffic.group.link for group_traffic in traffic_rows):
        paragraphs.append(NO_LINK)
    table = make_table(
        "Network", HEAD, [_make_row(group_traffic) for group_traffic in traffic_rows], NOTE
    )
    return Section("network", "Network", paragraphs, [table])


def _make_row(traffic: GroupTraffic) -> tuple[str, ...]:
    bandwidth_text = UNKNOWN
    share_text = UNKNOWN
    least_sign = "≥ " if traffic.overlaps else ""
    if math.isfinite(traffic.bus_bandwidth):
        bandwidth_text = f"{least_sign}{traffic.bus_bandwidth * 8 / 1e9:.3g} Gbit/s"
    if math.isfinite(traffic.link_share):
        share_text = f"{least_sign}{percent(traffic.link_share)}"
    return (
        traffic.group.label,
        size(traffic.sent),
        size(traffic.most),
        size(traffic.payload),
        seconds(traffic.blocked),
        bandwidth_text,
        format_link(traffic.group.link),
        share_text,
        seconds(traffic.at_best),
        percent(traffic.hidden_share),
    )


def _describe_amounts(traffic: Sequence[GroupTraffic]) -> Iterator[str]:
    """Say what has to go over the busiest link, and how long that takes at least."""
    labels_of_amount: dict[str, list[str]] = {}
    for group_traffic in traffic:
        if group_traffic.pattern and math.isfinite(group_traffic.payload):
            labels_of_amount.setdefault(_describe_amount(group_traffic), []).append(
                group_traffic.group.label
            )
    for amount, cells in labels_of_amount.items():
        yield f"{'; '.join(cells)}: {amount}."


def _describe_amount(traffic: GroupTraffic) -> str:
    factor = BEST[traffic.pattern](traffic.group.ranks)
    # The root receives all before it sends: it carries the gradients twice.
    way_text = WAYS[traffic.pattern]
    # The factor counts both ways, one after the other; the sentence names each.
    if traffic.pattern == IN_TURN:
        factor /= 2
    times_text = "" if factor == 1 else f"{factor:.3g} x "
    amount_text = way_text.format(f"{times_text}{size(traffic.payload)} per step")
    if math.isfinite(traffic.at_best):
        link = format_link(traffic.group.link_per_rank)
        amount_text += f", at least {seconds(traffic.at_best)} s on a link of {link}"
    return amount_text
