"""What a printer makes of a history."""

from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path

from remote.events import ClockMeasured, HostPhaseChanged
from remote.run.apply import apply_record
from remote.run.output.script_readings import expander
from remote.run.run_state import RunState
from tests.kit.histories import History, plan, said
from training.wire.host_events import Hello
from training.wire.rank_events import Evaluated
from tui.run.printer import RunPrinter

FOLDER = Path("/runs/a-run")


HELLO = Hello("box", "me", 1, "3.11.2", "/usr/bin/python3", "Linux", "b", 2.0, 8 << 30, "2.14.1")


def show(history: History, to: RunPrinter, size: int = 7) -> RunState:
    """Feed a printer batch by batch, as the command line does."""
    state, expand = RunState(history.plan), expander(history.plan)
    for start in range(0, len(history.records), size):
        batch = [part for one in history.records[start : start + size] for part in expand(one)]
        for record in batch:
            apply_record(state, record)
        to.batch(batch, state)
    to.end(state)
    return state


def printed(
    history: History, make: Callable[[io.StringIO, io.StringIO], RunPrinter]
) -> tuple[str, str]:
    """What a printer writes to stdout and stderr."""
    out, err = io.StringIO(), io.StringIO()
    show(history, make(out, err))
    return out.getvalue(), err.getvalue()


def good() -> History:
    """A run of two hosts that ends well."""
    history = (
        History(plan(2))
        .session(HostPhaseChanged(0, "connecting"))
        .say(0, HELLO)
        .session(ClockMeasured(0, 0.0))
    )
    history.training(steps=40, data=0.01, compute=0.06, sync=0.03, samples=16)
    history.rank(
        0,
        said(0, "Batch Idx: 20\n\x1b[31m[red]Loss\r1.0", "stdout"),
        Evaluated(0, 1, 10, 0.5, 0.914, 100, 0.2),
    )
    history.say(1, said(-1, "preload speaks")).done(0, 1)
    history.closed()
    return history
