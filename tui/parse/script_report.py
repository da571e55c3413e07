"""What is read out of the output of a user's own program, line by line."""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterable
from pathlib import Path

from remote.format import count, number
from remote.plan.plan import Plan
from remote.record.layout import rank_log
from remote.run.apply import apply_record
from remote.run.findings import script_visibility as seen
from remote.run.run_state import RunState
from remote.sanitise import one_line
from training.wire.events import Event, Record, ScriptMetrics, StepFinished
from tui.kit.narrate import echo, narrate


def show(records: Iterable[Record], plan: Plan, folder: Path, rank: int | None) -> None:
    """Print the steps and values of a rank, or (None) of all, as they are read anew out of the
    records in `folder`; then how they are read, and how many lines with numbers are not."""
    state = RunState(plan)
    for record in records:
        apply_record(state, record)
        if rank in (None, getattr(record.event, "rank", None)) and (text := _text(record.event)):
            echo(text)
    narrate(*seen.unused_rules(state))
    ranks = [one for one in seen.ranks_of(state) if rank in (None, one.rank)]
    unread = [one for one in ranks if one.parsed and one.parsed.unread]
    narrate(*(seen.ways(state) or ["nothing is read: no line has a known format"]))
    for one in unread:
        lines = count(one.parsed.unread if one.parsed else 0, "line")
        log = shlex.quote(os.path.relpath(rank_log(folder, one.rank)))
        narrate(f"rank {one.rank}: {lines} with numbers not read: rankboard parse {log} shows them")


def _text(event: Event) -> str:
    """A line: "rank 3 step 120: loss 2.31, lr 0.001"."""
    match event:
        case StepFinished():
            values = {"loss": event.loss, "step_seconds": event.seconds}
            known = {name: value for name, value in values.items() if value == value}
            return f"rank {event.rank} step {event.step}: {_values(known)}"
        case ScriptMetrics():
            place = f"step {event.step}" if event.step else f"epoch {event.epoch:g}"
            return f"rank {event.rank} {place}: {_values(dict(event.values))}"
    return ""


def _values(values: dict[str, float]) -> str:
    return ", ".join(f"{one_line(name)} {number(value)}" for name, value in values.items())
