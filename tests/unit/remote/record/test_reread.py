"""A part of a recorded run that is read again."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from remote.events import Restarted
from remote.record.events_file import RunFolderError
from remote.record.reread import RunClocks, reread_steps
from tests.kit.histories import History, block_of, plan, state_of, stepped
from tests.kit.recorded import recorded
from training.wire.events import PREFIX, dumps, to_object
from training.wire.host_events import OutputText
from training.wire.rank_events import Started

AGAIN = Started(0, 7, 2, "cpu", "gloo", "2", 1, 6, 40, 10, 640, 100, resumed=750)


def long_run() -> History:
    history = History(plan(2)).training(steps=0)
    for step in range(1, 1_501):
        for rank in (0, 1):
            event = replace(stepped(rank, step), loss=step + rank / 2)
            line = f"epoch 1 step {step}/1500"
            text = f"{PREFIX}{dumps(to_object(event))}\n{line}"
            history.rank(rank, OutputText(rank, "stdout", text))
    return history


def long_run_in_blocks() -> History:
    """The same, told in blocks of 40 steps."""
    history = History(plan(2)).training(steps=0)
    for first in range(1, 1_501, 40):
        for rank in (0, 1):
            steps = range(first, min(first + 40, 1_501))
            events = [replace(stepped(rank, step), loss=step + rank / 2) for step in steps]
            history.say(rank, block_of(events, history.now + 0.4), after=0.4)
    return history


@pytest.mark.parametrize("make_run", [long_run, long_run_in_blocks])
def test_every_step_of_a_part_is_there_again(
    tmp_path: Path, make_run: Callable[[], History]
) -> None:
    history = make_run()
    state = state_of(history.plan, history.records)
    assert len(state.curves.of("loss", 0)) < 1_000, "its curve is coarser"
    found = reread_steps(recorded(tmp_path, history), 2, RunClocks.of(state), 501, 800)
    assert list(found.of("loss", 1).step) == list(range(501, 801))
    assert list(found.of("loss", 1).mean) == [step + 0.5 for step in range(501, 801)]
    whole = found.whole("loss")
    assert list(whole.mean) == [step + 0.25 for step in range(501, 801)]
    coarse = state.curves.whole("loss")
    near = abs(coarse.step - 650).argmin()
    assert whole.time[149] == pytest.approx(coarse.time[near], abs=1.0)


@pytest.mark.parametrize(("first", "last"), [(1, 1), (5, 7), (39, 42), (701, 900), (1_490, 1_500)])
def test_blocks_around_a_part_have_its_first_and_last_steps(
    tmp_path: Path, first: int, last: int
) -> None:
    history = long_run_in_blocks()
    folder = recorded(tmp_path, history)
    found = reread_steps(folder, 2, RunClocks.of(history.state()), first, last)
    for rank in (0, 1):
        assert list(found.of("loss", rank).step) == list(range(first, last + 1))


@pytest.mark.parametrize("make_run", [long_run, long_run_in_blocks])
def test_steps_that_were_made_anew_count_once(
    tmp_path: Path, make_run: Callable[[], History]
) -> None:
    history = make_run().session(Restarted((0, 1), "a rank failed"))
    history.attempt = 1
    history.rank(0, AGAIN)
    history.rank(1, replace(AGAIN, rank=1))
    again = [replace(stepped(0, step), loss=7.0) for step in range(751, 770)]
    if make_run is long_run:
        history.rank(0, *again)
    else:
        history.rank(0, block_of(again, history.now))
    state = state_of(history.plan, history.records)
    found = reread_steps(recorded(tmp_path, history), 2, RunClocks.of(state), 740, 850)
    assert list(found.of("loss", 0).step) == list(range(740, 770))
    assert list(found.of("loss", 0).mean[-19:]) == [7.0] * 19
    assert list(found.of("loss", 1).step) == list(range(740, 751))


def test_what_is_no_record_is_passed_over(tmp_path: Path) -> None:
    history = long_run()
    folder = recorded(tmp_path, history)
    odd = [b'{"step": 700', b'step":700 resumed', b"\xff\x00", b'{"event":"step","step":700}']
    with (folder / "events.jsonl").open("ab") as file:
        file.write(b"\n".join(odd) + b"\n")
    clocks = RunClocks.of(history.state())
    assert len(reread_steps(folder, 2, clocks, 700, 700).of("loss", 0)) == 1
    with pytest.raises(RunFolderError, match="No such file"):
        reread_steps(tmp_path / "no", 2, clocks, 1, 2)
