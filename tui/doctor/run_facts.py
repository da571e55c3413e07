"""What is known of a run before its start: batches, steps, parameters, traffic, and its hosts."""

from __future__ import annotations

from collections.abc import Iterator

from remote.format import count, size, step_time
from remote.plan.expected import ExpectedWork, Traffic, expect_work
from remote.plan.plan import Plan
from training.job import Job

GIGABIT = 125e6
"""Bytes per second of the link for which a time is given if the rate of the real one is unknown."""


def describe_run(plan: Plan, link: float = 0.0) -> list[str]:
    """Return what is known of a run before its start, one line each.

    `link` is the rate of the slowest host's link in bytes per second; 0 if it is unknown.
    """
    estimate = expect_work(plan)
    job = plan.job
    if estimate is None or job is None:
        return []
    return [
        _describe_shares(estimate, plan),
        _describe_length(estimate, job),
        _describe_model(estimate, job),
        *_describe_traffic(estimate, link),
    ]


def describe_batch(plan: Plan) -> str:
    """Say what a rank has of a batch: "16 samples per rank"; "" for a script."""
    estimate = expect_work(plan)
    return f"{_format_share(estimate)} samples per rank" if estimate else ""


def _format_share(estimate: ExpectedWork) -> str:
    least = min(estimate.shares)
    most = max(estimate.shares)
    # A batch that does not divide evenly gives some ranks one sample more.
    return f"{least} or {most}" if least < most else f"{most}"


def _describe_shares(estimate: ExpectedWork, plan: Plan) -> str:
    batch = _format_share(estimate)
    places = f"{count(plan.world_size, 'rank')} on {count(len(plan.hosts), 'host')}"
    trainers = len(estimate.shares)
    if trainers < plan.world_size:
        places += f", {trainers} of them train"
    return f"{places}: batch of {batch} per rank"


def _describe_length(estimate: ExpectedWork, job: Job) -> str:
    if not estimate.steps_per_epoch:
        return f"steps per epoch: known once {job.dataset} is read"
    total = job.total_steps(estimate.steps_per_epoch)
    text = f"{count(estimate.steps_per_epoch, 'step')} per epoch, {count(total, 'step')} in all"
    if job.steps:
        epochs = total / estimate.steps_per_epoch
        text += f", {epochs:.3g} epochs"
    return text


def _describe_model(estimate: ExpectedWork, job: Job) -> str:
    if not estimate.parameters:
        return f"parameters: known once {job.model} is built"
    return f"{count(estimate.parameters, 'parameter')}, {size(estimate.gradients)} of gradients"


def _describe_traffic(estimate: ExpectedWork, link: float) -> Iterator[str]:
    traffic = estimate.traffic
    if traffic is None:
        if estimate.parameters:
            yield "traffic: not known for this method before the start"
    elif not traffic.most:
        yield "traffic: the ranks send nothing to synchronise"
    else:
        yield f"each step {_describe_senders(traffic)}"
        yield _describe_link_time(traffic, link)


def _describe_link_time(traffic: Traffic, link: float) -> str:
    if not traffic.link:
        return "one host: no network"
    rate = link or GIGABIT
    name = "the link" if link else "a link"
    least_time = step_time(traffic.link / rate)
    text = f"{name} of {_format_rate(rate)} needs at least {least_time}"
    return text if traffic.link == traffic.most else f"{text} for {size(traffic.link)}"


def _describe_senders(traffic: Traffic) -> str:
    if traffic.each == traffic.most:
        return f"a rank sends {size(traffic.each)}"
    if not traffic.each:
        return f"one rank per host sends {size(traffic.most)}"
    return f"a rank sends {size(traffic.each)}, the server {size(traffic.most)}"


def _format_rate(rate: float) -> str:
    """Return a rate in bytes per second as links are named: "1 Gbit/s"."""
    bits = 8 * rate
    for unit, size_of_unit in (("Gbit", 1e9), ("Mbit", 1e6)):
        if bits >= size_of_unit:
            return f"{bits / size_of_unit:g} {unit}/s"
    return f"{bits / 1e3:g} kbit/s"


def list_hosts(plan: Plan) -> list[str]:
    """Return a line per host, with its address and its ranks."""
    lines = []
    for index, host in enumerate(plan.hosts):
        ranks = [slot.rank for slot in plan.slots if slot.host == index]
        span = f"ranks {ranks[0]} to {ranks[-1]}" if len(ranks) > 1 else f"rank {ranks[0]}"
        address = f"{host.user}@{host.address}" if host.user else host.address
        lines.append(f"{host.name}  {address}  {span}")
    return lines
