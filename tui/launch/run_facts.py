"""What a job amounts to, as the text of the launch form: shares, steps, parameters, traffic."""

from __future__ import annotations

from collections.abc import Iterator

from remote.doctor.job import INSTEAD, SLOW
from remote.format import count, seconds, size
from remote.plan.dry_run import notes
from remote.plan.expected import Expected, Traffic, expected, length
from remote.plan.plan import Plan
from training.job import Job

GIGABIT = 125e6
"""Bytes per second of the link for which a time is given where none is known."""


def facts(plan: Plan, link: float = 0.0) -> list[str]:
    """What is known of a run before its start, one line each. `link` is the rate of the slowest
    host's link in bytes per second; 0 where it is not known."""
    known = expected(plan)
    job = plan.job
    if known is None or job is None:
        return []
    return [_shares(known, plan), _length(known, job), _model(known, job), *_sent(known, link)]


def _shares(known: Expected, plan: Plan) -> str:
    least = min(known.shares)
    most = max(known.shares)
    each = f"{least} or {most}" if least < most else f"{most}"
    ranks = count(plan.world_size, "rank")
    trains = len(known.shares)
    serve = f", {trains} of them train" if trains < plan.world_size else ""
    return f"{ranks} on {count(len(plan.hosts), 'host')}{serve}: batch of {each} per rank"


def _length(known: Expected, job: Job) -> str:
    if not known.steps:
        return f"steps per epoch: known once {job.dataset} is read"
    total = length(job, known.steps)
    whole = f"{count(total, 'step')} in all"
    if job.steps:
        whole += f", {total / known.steps:.3g} epochs"
    return f"{count(known.steps, 'step')} per epoch, {whole}"


def _model(known: Expected, job: Job) -> str:
    if not known.parameters:
        return f"parameters: known once {job.model} is built"
    return f"{count(known.parameters, 'parameter')}, {size(known.gradients)} of gradients"


def _sent(known: Expected, link: float) -> Iterator[str]:
    sent = known.traffic
    if sent is None:
        if known.parameters:
            yield "traffic: not known for this method before the start"
        return
    if not sent.most:
        yield "traffic: the ranks send nothing to synchronise"
        return
    yield f"each step {_senders(sent)}"
    if not sent.link:
        yield "all ranks are on one host: no network takes part"
        return
    rate = link or GIGABIT
    of = "the link" if link else "a link"
    needs = f"{of} of {_rate(rate)} needs at least {seconds(sent.link / rate)} s"
    yield needs if sent.link == sent.most else f"{needs} for {size(sent.link)}"


def _senders(sent: Traffic) -> str:
    if sent.each == sent.most:
        return f"a rank sends {size(sent.each)}"
    if not sent.each:
        return f"one rank per host sends {size(sent.most)}"
    return f"a rank sends {size(sent.each)}, the server {size(sent.most)}"


def _rate(rate: float) -> str:
    """A rate in bytes per second, as links are named: "1 Gbit/s"."""
    bits = 8 * rate
    for unit, scale in (("Gbit/s", 1e9), ("Mbit/s", 1e6)):
        if bits >= scale:
            return f"{bits / scale:g} {unit}"
    return f"{bits / 1e3:g} kbit/s"


def warnings(plan: Plan) -> list[str]:
    """What should be known before the start, one line each: batches that do not divide, and what
    the doctor would warn of, as far as it is known here."""
    return [*notes(plan), *_slow(plan)]


def _slow(plan: Plan) -> list[str]:
    """A warning of the CPU, where the ranks are to run on this machine."""
    if not plan.job or plan.job.precision != "bf16":
        return []
    if plan.is_local:
        from training.agent.local_api import cpu_flags, lacks_bf16  # with all the errands

        return (
            [f"this CPU has no bf16 instructions: {SLOW} here; {INSTEAD}"]
            if lacks_bf16(cpu_flags())
            else []
        )
    return [f"{SLOW} on CPUs without bf16 instructions: the checks look at those of the hosts"]


def places(plan: Plan) -> list[str]:
    """The hosts, with their ranks."""
    lines = []
    for index, host in enumerate(plan.hosts):
        ranks = [slot.rank for slot in plan.slots if slot.host == index]
        span = f"ranks {ranks[0]} to {ranks[-1]}" if len(ranks) > 1 else f"rank {ranks[0]}"
        lines.append(f"{host.name}  {host.user + '@' if host.user else ''}{host.address}  {span}")
    return lines
