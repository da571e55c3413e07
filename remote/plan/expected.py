"""What can be said of a job before it starts: shares of a batch, steps, parameters, bytes on the
network. Pure: models and data sets declare what it takes (see `training.registry`)."""

from __future__ import annotations

from bisect import bisect
from dataclasses import dataclass
from itertools import accumulate
from typing import NamedTuple

from remote.plan.plan import Plan
from remote.statistics.bandwidth import BEST
from training import registry, step_formulas
from training.job import Job

GRADIENT = {"fp32": 4, "bf16": 2}
"""Bytes of one number of a gradient that is sent, by precision."""
PARAMETER = 4
"""Bytes of one parameter."""
NARROW = ("fp16", "bf16")
"""Compressions that send two bytes for each number."""
IN_BUCKETS = "gather and scatter in buckets"
IN_TURN = "gather, then scatter"
RING = "ring"
RINGS = ("all_reduce", "ring", "ddp")


class Traffic(NamedTuple):
    """What is sent in a step to synchronise the ranks, in bytes, without headers."""

    each: float
    """What a rank sends."""
    most: float
    """What the rank sends that sends most, such as a server."""
    link: float
    """The least that the busiest link of a host carries in one direction; 0 if all ranks are on one
    host."""


@dataclass(frozen=True)
class Expected:
    """What is expected of a job; None and 0 are not known."""

    shares: tuple[int, ...]
    """The samples of a global batch, by the ranks that train."""
    steps: int
    """The steps of an epoch."""
    parameters: int
    """The number of parameters of the model."""
    gradients: int
    """The bytes of their gradients."""
    traffic: Traffic | None


def expected(plan: Plan) -> Expected | None:
    """Return what is expected of the job of a plan; None for a script."""
    job = plan.job
    if job is None:
        return None
    ranks = len(job.trainers(plan.world_size))
    count = parameters(job)
    hosts = [host.slots for host in plan.hosts]
    return Expected(
        tuple(step_formulas.share_sizes(job.batch_size, ranks)),
        steps_per_epoch(job, ranks),
        count,
        count * GRADIENT[job.precision],
        traffic(job, hosts, count) if count or job.sync == "none" else None,
    )


def length(job: Job, steps_per_epoch: int) -> int:
    """Return the steps of a whole run; 0 if they are not known."""
    return job.steps or (job.epochs or 1) * steps_per_epoch


def steps_per_epoch(job: Job, ranks: int) -> int:
    """Return the steps of an epoch on as many training ranks; 0 if they are not known."""
    images = _training(job)[0]
    samples = min(images, job.limit) if job.limit else images
    if not samples or samples < ranks:
        return 0
    if job.partition == "by_label":
        batches = step_formulas.count_batches_by_label(samples, job.batch_size, ranks)
    else:
        batches = step_formulas.count_batches(samples, job.batch_size, ranks)
    return step_formulas.count_steps(batches, job.accumulate)


def parameters(job: Job) -> int:
    """Return the number of parameters of the job's model; 0 if it is not known."""
    declared = registry.read_constant("models", job.model, "PARAMETERS")
    _, channels, classes = _training(job)
    if not declared or not channels or not classes:
        return 0
    always, per_channel, per_class = declared
    return int(always + channels * per_channel + classes * per_class)


def _training(job: Job) -> tuple[int, int, int]:
    """Return the training images of the job's data set, their channels and classes; 0 is not
    known."""
    images, channels, classes = registry.read_constant(
        "datasets", job.dataset, "TRAINING", (0, 0, 0)
    )
    return images, channels, classes


def pattern(job: Job) -> str:
    """Say how the job averages gradients, as `remote.statistics.bandwidth.BEST` calls it; "" if it
    has no formula."""
    if job.sync == "gather_scatter":
        return IN_TURN if job.sync_options().granularity == "parameter" else IN_BUCKETS
    return RING if job.sync in RINGS else ""


def traffic(job: Job, hosts: list[int], count: int) -> Traffic | None:
    """Return what the job sends in a step on hosts with so many ranks each, for a model of `count`
    parameters; None if no formula holds."""
    ranks = sum(hosts)
    options = job.sync_options()
    size = count * GRADIENT[job.precision]
    if ranks == 1:
        return Traffic(0, 0, 0)
    match job.sync:
        case "none":
            return Traffic(0, 0, 0)
        case "all_reduce" | "ring" | "ddp":
            compression = getattr(options, "compression", "none")
            if compression in NARROW:
                size = 2 * count
            return _ring(size, ranks, hosts) if compression in ("none", *NARROW) else None
        case "local_sgd":
            each, most, link = _ring(PARAMETER * count, ranks, hosts)
            return Traffic(each / options.every, most / options.every, link / options.every)
        case "hierarchical":
            _, most, link = _ring(size, len(hosts), hosts)
            return Traffic(0, most, link)
        case "gather_scatter":
            link = BEST[pattern(job)](ranks - hosts[0] + 1) * size
            return Traffic(size, step_formulas.star_bytes(size, ranks, root=True), link)
        case "parameter_server":
            answer = PARAMETER * count  # the server sends parameters, in their own type
            host_of_server = bisect(list(accumulate(hosts)), options.server)
            remote = ranks - hosts[host_of_server]
            most = step_formulas.star_bytes(answer, ranks, root=True)
            return Traffic(size, most, remote * max(size, answer))
    return None


def _ring(size: int, ranks: int, hosts: list[int]) -> Traffic:
    sent = step_formulas.ring_bytes(size, ranks)
    return Traffic(sent, sent, sent if len(hosts) > 1 else 0)
