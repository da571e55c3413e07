"""What there is to know of a rank: its figures, its process and its host, each in a line. Pure."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator

from textual.content import Content

from remote.format import UNKNOWN, count, duration, loss, number, percent, rate, size, step_time
from remote.lab.spec import is_of_lab
from remote.run.diagnosis.host_load import loads
from remote.run.diagnosis.straggler import describe_stragglers
from remote.run.findings.rates import busy_seconds, rank_means
from remote.run.run_state import RunState
from remote.run.state.host_state import HostState
from remote.run.state.phases import FATES, HostPhase, RankPhase
from remote.run.state.rank_state import RankState
from remote.run.state.script_rank import CollectiveTotals, ScriptRank
from training.wire.host_events import Exited, GpuSample, Hello
from training.wire.rank_events import Collectives
from tui.kit.widgets.phase import phase_cell
from tui.run.components.rank_cells import PHASES, phase_bar, rank_accuracy, silent_seconds

BAR_WIDTH = 20
"""Cells of the bar that splits a step."""
MAX_VALUES = 40
"""Newest values that a page names."""
TROUBLE = "!"
RankFact = tuple[str, str | Content]
"""What it is about, and what there is to say."""


def rank_facts(rank: RankState, run: RunState, now: float, *, is_roomy: bool) -> Iterator[RankFact]:
    """All lines of which something is known; unless `is_roomy`, those that matter."""
    trouble_text = _describe_trouble(rank, run, now)
    if trouble_text:
        yield TROUBLE, trouble_text
    if rank.step:
        yield "progress", _describe_progress(rank, run)
    if rank.pace:
        yield "a step", _describe_step(rank, is_roomy=is_roomy)
    if isinstance(rank, ScriptRank):
        yield from _script_facts(rank)
    yield "process", _describe_process(rank, run)
    if rank.gpu:
        yield "GPU", _describe_gpu(rank.gpu)
    host = run.hosts[rank.host]
    yield "host", _describe_host(host, run)
    if host.hello and is_roomy:
        yield "machine", _describe_machine(host.hello)


def _describe_trouble(rank: RankState, run: RunState, now: float) -> str:
    """What is wrong with it, the worst first."""
    # What it died of goes first: all else, such as its silence, follows from it.
    if rank.death and rank.death.problem:
        return rank.death.problem
    if rank.stalled and run.stall:
        return run.stall.text
    silence = silent_seconds(rank, run, now)
    if silence:
        return f"last seen {duration(silence)} ago"
    straggler = run.stragglers.current(rank.rank)
    return describe_stragglers([straggler], run.hosts) if straggler else ""


def _script_facts(rank: ScriptRank) -> Iterator[RankFact]:
    """What a user's own program tells, and how that is read."""
    if rank.only_exchanges and rank.collectives.newest:
        yield "exchange", _describe_exchange(rank.collectives, rank.collectives.newest)
    if rank.metrics:
        value_texts = [f"{name} {number(value)}" for name, value in rank.metrics.items()]
        num_more = len(value_texts) - MAX_VALUES
        more_text = f" and {num_more} more" if num_more > 0 else ""
        yield "values", ", ".join(value_texts[:MAX_VALUES]) + more_text
    if rank.parsed:
        num_unread = rank.parsed.unread
        reading_parts = (
            f"as {rank.parsed.format}" if rank.parsed.format else "",
            f"{count(num_unread, 'line')} with numbers not read" if num_unread else "",
        )
        if any(reading_parts):
            yield "read", _join(*reading_parts)


def _describe_exchange(totals: CollectiveTotals, newest: Collectives) -> str:
    return _join(
        count(totals.count, "collective"),
        f"{size(totals.bytes)}",
        f"blocked for {totals.seconds:.2f} s",
        _known_fact("now {} of the time", totals.per_second("seconds"), percent),
        _known_fact("{}/s", totals.per_second("bytes"), size),
        f"last {newest.name}",
    )


def _join(*parts: str) -> str:
    """Join what is known, which is not empty."""
    return ", ".join(filter(None, parts))


def _known_fact(text: str, value: float, format_value: Callable[[float], str] = str) -> str:
    """Put a value into a text; "" if it is not known."""
    return "" if math.isnan(value) else text.format(format_value(value))


def _describe_progress(rank: RankState, run: RunState) -> str:
    total_steps = rank.begun.steps if rank.begun else run.progress.printed_steps
    total_text = f" of {total_steps}" if total_steps else ""
    means = rank_means(rank)
    return _join(
        f"step {rank.step}{total_text}",
        _known_fact("epoch {}", rank.epoch or math.nan),
        "" if rank.recent_loss is None else f"loss {loss(rank.recent_loss)}",
        _known_fact("accuracy {}", rank_accuracy(rank), percent),
        _known_fact("{} samples/s", means.throughput or math.nan, rate),
        _known_fact("{}/s sent", means.bytes_per_second or math.nan, size),
        _known_fact("checkpoint of step {}", rank.saved_step or math.nan),
    )


def _describe_step(rank: RankState, *, is_roomy: bool) -> Content:
    """How long a step takes, and its phases in their inks; if `is_roomy`, with a bar of them."""
    means = rank_means(rank)
    step_text = Content(step_time(means.seconds))
    shares = [means.share(getattr(means, name)) for name in PHASES]
    bar = phase_bar(shares, BAR_WIDTH)
    if not bar:
        return step_text
    phase_texts = [
        Content.styled(f"{name} {percent(share)}", f"$ink-{name}")
        for name, share in zip(PHASES, shares, strict=True)
    ]
    ready_seconds = busy_seconds(rank)
    if ready_seconds > 0:
        phase_texts.append(Content(f"busy {step_time(ready_seconds)}"))
    text = Content.assemble(step_text, ": ", Content(", ").join(phase_texts))
    if not is_roomy:
        return text
    return Content.assemble(text, "  ", *((part, f"$ink-{name}") for name, part in bar.items()))


def _describe_process(rank: RankState, run: RunState) -> str:
    if rank.exited:
        return _describe_end(rank, rank.exited)
    lab_text = " in the lab" if is_of_lab(run.plan.hosts[rank.host]) else ""
    device_text = ""
    if rank.begun:
        threads_text = count(rank.begun.threads, "thread")
        device_text = f"on {rank.begun.device} with {threads_text}, {rank.begun.backend}"
    return _join(
        f"pid {rank.pid}{lab_text}" if rank.pid else "not started",
        f"started by process {rank.process}" if rank.process >= 0 else "",
        device_text,
        _known_fact("CPU {} of a core", rank.cpu / 100, percent),
        _known_fact("memory {}", rank.memory or math.nan, size),
    )


def _describe_end(rank: RankState, exited: Exited) -> str:
    """How it ended, and what it did then, unless it ended by itself and well."""
    end_text = f"killed by {rank.exit}" if exited.signal else rank.exit
    if not exited.code or rank.exited_from in (RankPhase.WAITING, *FATES):
        return end_text
    comma = "," if exited.out_of_memory else ""
    return f"{end_text}{comma} while {rank.exited_from.activity}"


def _describe_gpu(gpu: GpuSample) -> str:
    memory_text = f"memory {size(gpu.memory_used)} of {size(gpu.memory_total)}"
    clock_text = f", {gpu.clock} of {gpu.clock_most} MHz" if gpu.clock and gpu.clock_most else ""
    return f"{percent(gpu.use / 100)} busy, {memory_text}{clock_text}"


def _describe_host(host: HostState, run: RunState) -> str:
    reason_text = f": {host.reason}" if host.reason else ""
    state_text = phase_cell(host.phase).text + reason_text
    if host.phase in (HostPhase.ENDED, HostPhase.LOST):  # its figures are old
        return state_text
    # Of all hosts, since several may be on one machine.
    load = loads(run.hosts, run.ranks)[host.index]
    sample = host.sample
    ranks_text = " by its ranks" if load.own else ""
    memory_text = f"memory {size(sample.memory_used)} of {size(sample.memory_total)}"
    traffic_text = f"out {size(sample.sent)}/s, in {size(sample.received)}/s"
    return _join(
        state_text,
        _known_fact(f"CPU {{}} of {count(load.cores, 'core')}{ranks_text}", load.cpu, percent),
        memory_text if sample.memory_total else "",
        traffic_text if sample.sent or sample.received else "",
        _known_fact("{} of disk free", sample.disk_free or math.nan, size),
    )


def _describe_machine(hello: Hello) -> str:
    python_text = f"Python {hello.python}" if hello.python else ""
    torch_text = f"torch {hello.torch}" if hello.torch else ""
    return _join(hello.hostname, hello.platform, python_text, torch_text, *hello.gpus) or UNKNOWN
