"""What can be said of a job before it starts: shares of a batch, steps, parameters, bytes on the
network. Pure: models and data sets declare what it takes (see `training.registry`)."""

from __future__ import annotations

from bisect import bisect
from itertools import accumulate
from typing import NamedTuple

from msgspec import Struct

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


class ExpectedWork(Struct, frozen=True):
    """What is expected of a job; None and 0 are not known."""

    shares: tuple[int, ...]
    """The samples of a global batch, by the ranks that train."""
    steps_per_epoch: int
    parameters: int
    """The number of parameters of the model."""
    gradients: int
    """The bytes of their gradients."""
    traffic: Traffic | None


def expect_work(plan: Plan) -> ExpectedWork | None:
    """Return what is expected of the job of a plan; None for a script."""
    job = plan.job
    if job is None:
        return None
    training_ranks = len(job.trainers(plan.world_size))
    parameter_count = parameters(job)
    slots_by_host = [host.slots for host in plan.hosts]
    return ExpectedWork(
        tuple(step_formulas.share_sizes(job.batch_size, training_ranks)),
        steps_per_epoch(job, training_ranks),
        parameter_count,
        parameter_count * GRADIENT[job.precision],
        traffic(job, slots_by_host, parameter_count)
        if parameter_count or job.sync == "none"
        else None,
    )


def steps_per_epoch(job: Job, ranks: int) -> int:
    """Return the steps of an epoch on as many training ranks; 0 if they are not known."""
    image_count = _training(job)[0]
    sample_count = min(image_count, job.limit) if job.limit else image_count
    # Some ranks would have no samples.
    if not sample_count or sample_count < ranks:
        return 0
    if job.partition == "by_label":
        batch_count = step_formulas.count_batches_by_label(sample_count, job.batch_size, ranks)
    else:
        batch_count = step_formulas.count_batches(sample_count, job.batch_size, ranks)
    return step_formulas.count_steps(batch_count, job.accumulate)


def parameters(job: Job) -> int:
    """Return the number of parameters of the job's model; 0 if it is not known."""
    declared_counts = registry.read_constant("models", job.model, "PARAMETERS")
    _, channels, classes = _training(job)
    if not declared_counts or not channels or not classes:
        return 0
    fixed_count, per_channel, per_class = declared_counts
    return int(fixed_count + channels * per_channel + classes * per_class)


def class_count(job: Job) -> int:
    """Return the classes of the job's data set; 0 if they are not known."""
    return _training(job)[2]


def _training(job: Job) -> tuple[int, int, int]:
    """Return the training images of the job's data set, their channels and classes; 0 is not
    known."""
    image_count, channel_count, class_count = registry.read_constant(
        "datasets", job.dataset, "TRAINING", (0, 0, 0)
    )
    return image_count, channel_count, class_count


def traffic_pattern(job: Job) -> str:
    """Say how the job averages gradients, as `remote.statistics.bandwidth.BEST` calls it; "" if it
    has no formula."""
    if job.sync == "gather_scatter":
        return IN_TURN if job.sync_options().granularity == "parameter" else IN_BUCKETS
    return RING if job.sync in RINGS else ""


def traffic(job: Job, slots_by_host: list[int], parameter_count: int) -> Traffic | None:
    """Return what the job sends in a step on hosts with so many ranks each, for a model of
    `parameter_count` parameters; None if no formula holds."""
    world_size = sum(slots_by_host)
    options = job.sync_options()
    gradient_bytes = parameter_count * GRADIENT[job.precision]
    if world_size == 1:
        return Traffic(0, 0, 0)
    match job.sync:
        case "none":
            return Traffic(0, 0, 0)
        case "all_reduce" | "ring" | "ddp":
            compression = getattr(options, "compression", "none")
            if compression in NARROW:
                gradient_bytes = 2 * parameter_count
            return (
                _ring(gradient_bytes, world_size, slots_by_host)
                if compression in ("none", *NARROW)
                else None
            )
        case "local_sgd":
            bytes_each, bytes_most, link_bytes = _ring(
                PARAMETER * parameter_count, world_size, slots_by_host
            )
            return Traffic(
                bytes_each / options.every, bytes_most / options.every, link_bytes / options.every
            )
        case "hierarchical":
            _, bytes_most, link_bytes = _ring(gradient_bytes, len(slots_by_host), slots_by_host)
            return Traffic(0, bytes_most, link_bytes)
        case "gather_scatter":
            link_bytes = (
                BEST[traffic_pattern(job)](world_size - slots_by_host[0] + 1) * gradient_bytes
            )
            return Traffic(
                gradient_bytes,
                step_formulas.star_bytes(gradient_bytes, world_size, root=True),
                link_bytes,
            )
        case "parameter_server":
            answer_bytes = (
                PARAMETER * parameter_count
            )  # the server sends parameters, in their own type
            # Ranks on the server's own host do not load its link.
            host_of_server = bisect(list(accumulate(slots_by_host)), options.server)
            remote_ranks = world_size - slots_by_host[host_of_server]
            bytes_most = step_formulas.star_bytes(answer_bytes, world_size, root=True)
            return Traffic(
                gradient_bytes, bytes_most, remote_ranks * max(gradient_bytes, answer_bytes)
            )
    return None


def _ring(gradient_bytes: int, world_size: int, slots_by_host: list[int]) -> Traffic:
    sent_bytes = step_formulas.ring_bytes(gradient_bytes, world_size)
    return Traffic(sent_bytes, sent_bytes, sent_bytes if len(slots_by_host) > 1 else 0)
