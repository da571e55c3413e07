"""Print what is read from the output of a script, for `rankboard logs --parse`."""

from __future__ import annotations

import math
import os
import shlex
from collections.abc import Collection, Iterable
from pathlib import Path

from remote.format import count, number
from remote.plan.plan import Plan
from remote.record.layout import rank_log
from remote.run.apply import apply_record
from remote.run.findings import script_visibility
from remote.run.run_state import RunState
from remote.sanitise import one_line
from training.wire.events import Event, Record, split_steps
from training.wire.rank_events import ScriptMetrics, StepFinished
from tui.kit.narrate import echo, narrate


def show(
    records: Iterable[Record], plan: Plan, folder: Path, ranks: Collection[int] | None
) -> None:
    """Print the steps and values of some ranks, or (None) of all, as they are read anew from the
    records in `folder`; then how they are read, and how many lines with numbers are not."""
    state = RunState(plan)
    for record in records:
        apply_record(state, record)
        for part in split_steps(record):
            event_rank = getattr(part.event, "rank", None)
            text = _event_text(part.event)
            if text and (ranks is None or event_rank in ranks):
                echo(text)
    # Remarks go to stderr, so that stdout has nothing but what is read.
    narrate(*script_visibility.unused_rules(state))
    ways = script_visibility.ways(state)
    narrate(*(ways or ["nothing is read: no line has a known format"]))
    for script_rank in state.script_ranks:
        parsed = script_rank.parsed
        is_asked_for = ranks is None or script_rank.rank in ranks
        if is_asked_for and parsed is not None and parsed.unread:
            _narrate_unread(script_rank.rank, parsed.unread, folder)


def _narrate_unread(rank: int, unread: int, folder: Path) -> None:
    lines = count(unread, "line")
    log = shlex.quote(os.path.relpath(rank_log(folder, rank)))
    narrate(f"rank {rank}: {lines} with numbers not read: rankboard parse {log} shows them")


def _event_text(event: Event) -> str:
    """Format a step or values in one line: "rank 3 step 120: loss 2.31, lr 0.001". Return "" for
    any other event."""
    match event:
        case StepFinished():
            values = {"loss": event.loss, "step_seconds": event.seconds}
            known = {name: value for name, value in values.items() if not math.isnan(value)}
            return f"rank {event.rank} step {event.step}: {_values_text(known)}"
        case ScriptMetrics():
            place = f"step {event.step}" if event.step else f"epoch {event.epoch:g}"
            return f"rank {event.rank} {place}: {_values_text(dict(event.values))}"
    return ""


def _values_text(values: dict[str, float]) -> str:
    return ", ".join(f"{one_line(name)} {number(value)}" for name, value in values.items())
