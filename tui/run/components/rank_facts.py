"""What there is to know of a rank: its figures, its process and its host, each in a line. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterator

from remote.format import UNKNOWN, count, duration, number, percent, rate, seconds, size
from remote.lab.spec import is_of_lab
from remote.run.diagnosis.host_load import loads
from remote.run.diagnosis.straggler import describe_stragglers
from remote.run.run_state import RunState
from remote.run.state.host_state import HostState
from remote.run.state.phases import BEFORE_STEPS, FATES, HostPhase, RankPhase
from remote.run.state.rank_state import RankState
from remote.run.state.script_rank import ScriptRank
from training.wire.events import Exited, GpuSample
from tui.kit.widgets.phase import phase_cell
from tui.run.components.rank_columns import (
    PHASES,
    mean_loss,
    rank_accuracy,
    silent_seconds,
    step_split,
)

BAR = 20
"""Cells of the bar that splits a step."""
VALUES = 40
"""Newest values that a page names."""
TROUBLE = "!"
RankFact = tuple[str, str]
"""What it is about, and what there is to say."""


def rank_facts(rank: RankState, run: RunState, now: float, *, roomy: bool) -> Iterator[RankFact]:
    """All lines of which something is known; unless it is `roomy`, those that matter."""
    why = _trouble(rank, run, now)
    if why:
        yield TROUBLE, why
    if rank.step:
        yield "progress", _progress(rank, run)
    if rank.pace:
        yield "a step", _step(rank, BAR if roomy else 0)
    if isinstance(rank, ScriptRank):
        yield from _of_script(rank)
    yield "process", _process(rank, now, run)
    if rank.gpu:
        yield "GPU", _gpu(rank.gpu)
    host = run.hosts[rank.host]
    yield "host", _host(host, run)
    if host.hello and roomy:
        yield "machine", _machine(host)


def _trouble(rank: RankState, run: RunState, now: float) -> str:
    """What is wrong with it, the worst first."""
    if rank.death and rank.death.problem:
        return rank.death.problem
    if rank.stalled and run.stall:
        return run.stall.text
    silent = silent_seconds(rank, run, now)
    if silent:
        return f"not heard from for {duration(silent)}"
    straggler = run.stragglers.by_rank.get(rank.rank)
    return describe_stragglers([straggler], run.hosts) if straggler else ""


def _of_script(rank: ScriptRank) -> Iterator[RankFact]:
    """What a user's own program tells, and how that is read."""
    if rank.metrics:
        newest = list(rank.metrics.items())
        more = f" and {len(newest) - VALUES} more" if len(newest) > VALUES else ""
        told = ", ".join(f"{name} {number(value)}" for name, value in newest[:VALUES])
        yield "values", told + more
    if rank.parsed and (rank.parsed.format or rank.parsed.unread):
        said = [f"as {rank.parsed.format}"] if rank.parsed.format else []
        if rank.parsed.unread:
            said.append(f"{count(rank.parsed.unread, 'line')} with numbers not read")
        yield "read", ", ".join(said)


def _progress(rank: RankState, run: RunState) -> str:
    steps = rank.begun.steps if rank.begun else run.progress.printed_steps
    said = [f"step {rank.step}{f' of {steps}' if steps else ''}"]
    if rank.epoch:
        said.append(f"epoch {rank.epoch}")
    if not math.isnan(mean := mean_loss(rank)):
        said.append(f"loss {number(mean)}")
    if not math.isnan(share := rank_accuracy(rank)):
        said.append(f"accuracy {percent(share)}")
    samples = rank.pace.per_second("samples")
    if samples > 0:
        said.append(f"{rate(samples)} samples/s")
    sent = rank.pace.per_second("bytes_sent")
    if sent > 0:
        said.append(f"{size(sent)}/s sent")
    if rank.saved_step:
        said.append(f"checkpoint of step {rank.saved_step}")
    return ", ".join(said)


def _step(rank: RankState, width: int) -> str:
    pace = rank.pace
    shares = [pace.per_second(name) for name in PHASES]
    if not any(shares[1:]) or any(map(math.isnan, shares)):
        return f"{seconds(pace.mean('seconds'))} s"
    parts = ", ".join(
        f"{name} {percent(share)}" for name, share in zip(PHASES, shares, strict=True)
    )
    bar = f"  {step_split(shares, width)}" if width else ""
    ready = pace.median("ready")
    until = f", ready after {seconds(ready)} s" if ready > 0 else ""
    return f"{seconds(pace.mean('seconds'))} s: {parts}{until}{bar}"


def _process(rank: RankState, now: float, run: RunState) -> str:
    if rank.exited:
        return _end(rank, rank.exited)
    where = " in the lab" if is_of_lab(run.plan.hosts[rank.host]) else ""
    said = [f"pid {rank.pid}{where}"] if rank.pid else ["not started"]
    if rank.begun:
        threads = count(rank.begun.threads, "thread")
        said.append(f"on {rank.begun.device} with {threads}, {rank.begun.backend}")
    if not math.isnan(rank.cpu):
        said.append(f"CPU {percent(rank.cpu / 100)} of a core, memory {size(rank.memory)}")
    return ", ".join(said)


def _end(rank: RankState, exited: Exited) -> str:
    """How it ended, and what it did then, unless it ended by itself and well."""
    how = f"killed by {rank.exit}" if exited.signal else rank.exit
    doing = BEFORE_STEPS.get(rank.exited_from, rank.exited_from.value)
    is_known = exited.code != 0 and rank.exited_from not in (RankPhase.WAITING, *FATES)
    comma = "," if exited.out_of_memory else ""
    return f"{how}{comma} while {doing}" if is_known else how


def _gpu(gpu: GpuSample) -> str:
    memory = f"memory {size(gpu.memory_used)} of {size(gpu.memory_total)}"
    clock = f", {gpu.clock} of {gpu.clock_most} MHz" if gpu.clock and gpu.clock_most else ""
    return f"{percent(gpu.use / 100)} busy, {memory}{clock}"


def _host(host: HostState, run: RunState) -> str:
    load = loads(run.hosts, run.ranks)[host.index]
    said = [phase_cell(host.phase).text + (f": {host.reason}" if host.reason else "")]
    if host.phase in (HostPhase.ENDED, HostPhase.LOST):  # its figures are old
        return said[0]
    if not math.isnan(load.cpu):
        whose = " by its ranks" if load.own else ""
        said.append(f"CPU {percent(load.cpu)} of {count(load.cores, 'core')}{whose}")
    if host.memory_total:
        said.append(f"memory {size(host.memory_used)} of {size(host.memory_total)}")
    if host.sent or host.received:
        said.append(f"out {size(host.sent)}/s, in {size(host.received)}/s")
    if host.disk_free:
        said.append(f"{size(host.disk_free)} of disk free")
    return ", ".join(said)


def _machine(host: HostState) -> str:
    assert host.hello
    hello = host.hello
    gpus = ", ".join(hello.gpus)
    known = (hello.hostname, hello.platform, hello.python and f"Python {hello.python}")
    torch = hello.torch and f"torch {hello.torch}"
    return ", ".join(filter(None, (*known, torch, gpus))) or UNKNOWN
