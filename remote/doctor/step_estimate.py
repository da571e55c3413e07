"""Estimates what it is worth to leave hosts out: how long a step computes with and without them, by
the cores of their ranks. Pure."""

from __future__ import annotations

from collections.abc import Container, Sequence
from dataclasses import replace
from statistics import median_high
from typing import NamedTuple

from remote.doctor.host_facts import CheckedHost, reached_hosts
from remote.plan.expected import expect_work
from remote.plan.plan import Plan
from training.wire.host_events import Hello


class StepEstimate(NamedTuple):
    """What a step of the whole batch takes on some hosts."""

    hosts: int
    compute_factor: float
    """How many times as long the slowest rank computes as one with the usual cores would, if all
    hosts took part."""
    samples_per_rank: int
    """The most samples of a rank; 0 of a script, whose batch is not known."""


class ExclusionEstimate(NamedTuple):
    """Steps with all hosts, and without some."""

    usual_cores: float
    """The cores per rank of the median host, which computes a step in the time 1."""
    with_all: StepEstimate
    without: StepEstimate

    @property
    def speedup(self) -> float:
        """Return how many times as fast the steps are computed without the hosts."""
        return self.with_all.compute_factor / self.without.compute_factor


def estimate_exclusion(
    plan: Plan, facts: Sequence[Hello | None], excluded: Container[str]
) -> ExclusionEstimate | None:
    """Estimate the steps of a plan with all its hosts and without the excluded ones, by name.

    `facts` are None for hosts that were not reached. Return None where cores say nothing: before
    all hosts are reached, on GPUs, or with a method whose ranks do not wait for each other.
    """
    kept = [index for index, host in enumerate(plan.hosts) if host.name not in excluded]
    if not 0 < len(kept) < len(plan.hosts) or None in facts:
        return None
    # Hosts that are one machine share its cores, so fewer of them leave each other more.
    reached = list(reached_hosts(plan, facts).values())
    kept_plan = replace(plan, hosts=tuple(plan.hosts[index] for index in kept))
    kept_hosts = list(reached_hosts(kept_plan, [facts[index] for index in kept]).values())
    if not reached[0].waits_for_slowest:
        return None
    if reached[0].has_gpu_per_rank or kept_hosts[0].has_gpu_per_rank:
        return None
    usual_cores = median_high(map(cores_of_rank, reached))
    if not min(map(cores_of_rank, reached)):
        return None
    return ExclusionEstimate(
        usual_cores,
        _estimate_step(plan, plan, reached, usual_cores),
        _estimate_step(kept_plan, plan, kept_hosts, usual_cores),
    )


def _estimate_step(
    part: Plan, whole: Plan, hosts: Sequence[CheckedHost], usual_cores: float
) -> StepEstimate:
    """Estimate a step on the hosts of a part of the whole plan."""
    # The ranks of fewer hosts have more samples each, as the batch stays the same.
    growth = whole.world_size / part.world_size
    work = expect_work(part)
    whole_work = expect_work(whole)
    if work and whole_work:
        growth = max(work.shares) / max(whole_work.shares)
    return StepEstimate(
        len(hosts),
        growth * usual_cores / min(map(cores_of_rank, hosts)),
        max(work.shares) if work else 0,
    )


def cores_of_rank(checked: CheckedHost) -> float:
    """Return the cores that a rank of a host has for itself."""
    core_share = checked.hello.cores / checked.ranks_sharing
    # More cores than it has threads do not help a rank.
    return min(core_share, checked.host.threads or core_share)
