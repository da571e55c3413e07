"""Run directories for the tests, as a session writes them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from remote.record.write import Recorder
from remote.run.apply import apply_record
from remote.run.output.script_readings import expander
from remote.run.run_state import RunState
from tests.kit.histories import History, plan
from training.wire.events import SESSION, encode


def record(
    into: Recorder,
    history: History,
    state: RunState,
    keeps_snapshot: Callable[[], bool] | None = None,
) -> None:
    """Record and apply a history as a session does. `keeps_snapshot` is asked after each record."""
    expand = expander(history.plan)
    for one in history.records:
        if one.host == SESSION:
            into.write(one)
        else:
            into.raw(encode(one).encode())
        for part in expand(one):
            into.text(part)
            apply_record(state, part)
        into.flush()
        if keeps_snapshot and keeps_snapshot():
            into.keep_snapshot(state, expand)


@pytest.fixture
def recorder(tmp_path: Path) -> Iterator[Recorder]:
    """The launcher of a run of two hosts, which has recorded nothing yet."""
    made = Recorder(tmp_path, plan(2))
    yield made
    made.release()


def recorded(runs_dir: Path, history: History) -> Path:
    """The directory of a run with this history; it has a summary where the run has closed."""
    into, state = Recorder(runs_dir, history.plan), RunState(history.plan)
    record(into, history, state)
    if state.verdict:
        into.close(state)
    else:
        into.release()
    return into.folder
