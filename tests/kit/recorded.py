"""Run directories for the tests, as a session writes them."""

from __future__ import annotations

from pathlib import Path

from remote.record.write import Recorder
from remote.run.state import RunState
from tests.kit.histories import History
from training.wire.events import SESSION, encode, expand


def record(into: Recorder, history: History, state: RunState) -> None:
    """Record and apply a history as a session does."""
    for one in history.records:
        if one.host == SESSION:
            into.write(one)
        else:
            into.raw(encode(one).encode())
        for part in expand(one):
            into.text(part)
            state.apply(part)
        into.flush()


def recorded(runs_dir: Path, history: History) -> Path:
    """The directory of a run with this history; it has a summary where the run has closed."""
    into, state = Recorder(runs_dir, history.plan), RunState(history.plan)
    record(into, history, state)
    if state.verdict:
        into.close(state)
    else:
        into.release()
    return into.folder
