"""A part of a recorded run that is read again."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from remote.events import Restarted
from remote.record.events_file import RunFolderError
from remote.record.reread import RunClocks, reread_steps
from tests.kit.histories import History, plan, state_of, stepped
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


def test_every_step_of_a_part_is_there_again(tmp_path: Path) -> None:
    history = long_run()
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


def test_steps_that_were_made_anew_count_once(tmp_path: Path) -> None:
    history = long_run().session(Restarted((0, 1), "a rank failed"))
    history.attempt = 1
    history.rank(0, AGAIN)
    history.rank(1, replace(AGAIN, rank=1))
    for step in range(751, 770):
        history.rank(0, replace(stepped(0, step), loss=7.0))
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
