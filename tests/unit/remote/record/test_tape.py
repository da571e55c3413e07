"""A recorded run at any of its times."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

import numpy as np
import pytest

from remote.events import expand
from remote.plan.plan import Plan
from remote.record import snapshots, tape
from remote.record.events_file import RunFolderError
from remote.record.loss_course import read_loss_course, read_loss_points
from remote.record.tape import Tape
from remote.run.apply import apply_record
from remote.run.run_state import RunState
from tests.kit.histories import History, block_of, plan
from tests.kit.recorded import recorded
from training.wire.events import PREFIX
from training.wire.host_events import GpuSample, OutputText
from training.wire.jsonl import dumps
from training.wire.rank_events import Evaluated, StepFinished
from training.wire.step_block import StepBlock

END = float("inf")


def stepped(rank: int, step: int) -> OutputText:
    """A step as its rank prints it."""
    told = {
        "event": "step",
        **{name: 0 for name in StepFinished.__dataclass_fields__ if name != "rank"},
        "rank": rank,
        "epoch": 1,
        "step": step,
        "loss": 2.0 / step,
        "seconds": 0.01,
        "loss_known": True,
    }
    return OutputText(rank, "stdout", f"{PREFIX}{dumps(told)}")


def block(rank: int, first: int, count: int, time: float) -> StepBlock:
    """Steps of a rank, 10 ms apart, the last one at this time."""
    steps = [StepFinished(rank, 1, first + number, 2.0 / first, 0.01) for number in range(count)]
    return block_of(steps, time)


def history(steps: int) -> History:
    """A run that makes so many steps, and ends."""
    made = History(plan(2)).training(0, steps)
    for step in range(1, steps + 1):
        for rank in range(2):
            made.rank(rank, stepped(rank, step))
    made.done(0, 1).closed()
    return made


def previewed(folder: Path, of: Plan) -> RunState:
    """The state that a preview of a run comes to."""
    made = tape.preview_tape(folder, of)
    made.close()
    return made.state


def told(state: RunState) -> tuple[object, ...]:
    """What can be compared of a state."""
    curves = [state.curves.of("loss", rank.rank).mean.tolist() for rank in state.ranks]
    return state.phase, state.verdict, state.step, state.log.count, state.now, curves


def applied(of: Plan, made: History, until: float) -> RunState:
    """The state at a time, by the records up to it."""
    state = RunState(of)
    for record in made.records:
        if record.time <= until:
            for part in expand(record):
                apply_record(state, part)
    return state


def test_the_state_at_any_time_is_that_of_the_records_up_to_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tape, "APART", 4_000)
    made = history(100)
    folder = recorded(tmp_path, made)
    first, last = made.records[0].time, made.records[-1].time
    played = Tape(folder, made.plan)
    for share in (0.0, 0.3, 0.9, 0.5, 0.51, 1.0, 0.1, 0.99):
        until = first + share * (last - first)
        if played.state.now > until:
            played.rewind(until)
        assert not played.advance(until, 10**6)
        assert told(played.state) == told(applied(made.plan, made, until)), share
    assert len(played._copies) > 5
    played.close()


def test_a_tape_that_never_rewinds_keeps_no_copies(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tape, "APART", 4_000)
    made = history(100)
    played = Tape(recorded(tmp_path, made), made.plan, rewinds=False)
    assert not played.advance(END, 10**6)
    assert played.state.step == 100
    assert not played._copies
    played.close()


def test_lines_are_taken_in_a_part_at_a_time(tmp_path: Path) -> None:
    made = history(20)
    played = Tape(recorded(tmp_path, made), made.plan)
    assert played.advance(END, 10)
    assert 0 < played.share < 1
    assert not played.advance(END, 10**6)
    assert (played.share, played.state.step) == (1.0, 20)
    played.close()


def test_a_line_that_is_being_written_is_read_once_it_is_whole(tmp_path: Path) -> None:
    made = history(20)
    folder = recorded(tmp_path, made)
    file = folder / "events.jsonl"
    whole = file.read_bytes()
    file.write_bytes(whole[:-20])
    played = Tape(folder, made.plan)
    assert not played.advance(END, 10**6)
    assert played.state.verdict is None
    file.write_bytes(whole)
    assert not played.advance(END, 10**6)
    assert played.state.verdict is not None
    played.close()


def test_the_steps_of_a_block_are_taken_in_up_to_the_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tape, "APART", 1)
    made = History(plan(1)).training(0, 300)
    begin = made.now
    for first in (1, 101, 201):
        made.say(0, block(0, first, 100, made.now + 1.0), after=1.0)
    played = Tape(recorded(tmp_path, made), made.plan)
    for step in (37, 150, 299, 250, 100, 8, 300):
        until = begin + (step + 0.5) / 100
        if played.state.now > until:
            played.rewind(until)
        assert not played.advance(until, 10**6)
        assert played.state.step == step
        assert played.state.now == pytest.approx(begin + step / 100)
    played.close()


def test_at_any_time_all_ranks_are_at_the_step_of_that_time_though_their_blocks_come_in_turn(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tape, "APART", 1)
    made = History(plan(4)).training(0, 300)
    begin = made.now
    for first in (1, 101, 201):
        made.now += 1.0
        for rank in range(4):
            made.say(rank, block(rank, first, 100, made.now), after=0.0)
            made.say(rank, OutputText(rank, "stdout", f"{first} done"), after=0.0)
    played = Tape(recorded(tmp_path, made), made.plan)
    for step in (37, 150, 151, 299, 250, 100, 8, 300):
        until = begin + (step + 0.5) / 100
        if played.state.now > until:
            played.rewind(until)
        while played.advance(until, 100):
            pass
        assert [rank.step for rank in played.state.ranks] == [step] * 4
    assert not played.advance(END, 10**6)
    at_once = Tape(tmp_path / made.plan.run, made.plan)
    assert not at_once.advance(END, 10**6)
    assert told(played.state) == told(at_once.state), "each record was applied once"
    at_once.close()
    played.close()


@pytest.mark.parametrize("ranks", [2, 16])
def test_an_overview_applies_few_steps_of_few_blocks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ranks: int
) -> None:
    values = {"LARGE": 0, "LINES": 100, "PLACES": 4, "WHOLE": 6_000, "BLOCK": 4_000}
    values["SMALLEST_BLOCK"] = 1
    for name, value in values.items():
        monkeypatch.setattr(tape, name, value)
    made = History(plan(ranks)).training(0, 20_000)
    for first in range(1, 20_001, 100):
        for rank in range(ranks):
            made.rank(rank, block(rank, first, 100, made.now))
        made.rank(0, Evaluated(0, first // 100 + 1, first, 0.5, 0.7, 9, 1.0))
    state = previewed(recorded(tmp_path, made), made.plan)
    assert state.step == 20_000
    assert len(state.progress.evaluations) == 200
    assert all(100 < rank.timing.count < 2_000 for rank in state.ranks)
    steps = [{*state.curves.of("loss", rank).step.tolist()} for rank in range(ranks)]
    common_steps = set[float].intersection(*steps)
    assert all(len(common_steps) > 0.7 * len(each) for each in steps), "those of all ranks"


def test_an_overview_leaves_out_steps_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in (("LARGE", 0), ("LINES", 100), ("WHOLE", 6_000), ("BLOCK", 1_000)):
        monkeypatch.setattr(tape, name, value)
    made = history(600)
    folder = recorded(tmp_path, made)
    state, whole = previewed(folder, made.plan), made.state()
    assert (state.phase, state.verdict, state.step) == (whole.phase, whole.verdict, whole.step)
    assert [rank.exit for rank in state.ranks] == [rank.exit for rank in whole.ranks]
    taken = state.ranks[0].timing.count
    assert 30 < taken < 300
    curve = state.curves.of("loss", 0)
    assert curve.mean[0] == 2.0
    assert (np.diff(curve.step) > 0).all()
    assert (np.diff(curve.mean) < 0).all()


def test_an_overview_goes_on_with_what_comes(tmp_path: Path) -> None:
    made = history(20)
    folder = recorded(tmp_path, made)
    file = folder / "events.jsonl"
    whole = file.read_bytes()
    lines = whole.splitlines(keepends=True)
    for torn in (whole[:-20], b"".join(lines[:-3]), whole):
        file.write_bytes(torn)
        shown = tape.preview_tape(folder, made.plan)
        file.write_bytes(whole)
        assert not shown.advance(END, 10**6)
        assert told(shown.state) == told(made.state())
        shown.close()


def test_an_overview_has_what_a_rank_tells_in_one_line_with_its_steps(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in (("LARGE", 0), ("LINES", 100), ("WHOLE", 6_000), ("BLOCK", 1_000)):
        monkeypatch.setattr(tape, name, value)
    made = History(plan(2)).training(0, 600)
    for step in range(1, 601):
        lines = [stepped(0, step).text]
        if step % 100 == 0:
            told = Evaluated(0, step // 100, step, 1.0, step / 1000, 100, 0.1)
            lines.append(f"{PREFIX}{dumps({'event': 'evaluated', **asdict(told)})}")
        made.rank(0, OutputText(0, "stdout", "\n".join(lines)))
        made.rank(1, stepped(1, step))
    made.done(0, 1).closed()
    state = previewed(recorded(tmp_path, made), made.plan)
    assert state.ranks[0].timing.count < 400
    assert [one.step for one in state.progress.evaluations] == [*range(100, 601, 100)]


def test_an_overview_takes_few_samples_of_gpus(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in (("LARGE", 0), ("LINES", 100), ("WHOLE", 6_000), ("BLOCK", 1_000)):
        monkeypatch.setattr(tape, name, value)
    made = History(plan(2)).training(0, 600, device="cuda:0")
    for step in range(1, 601):
        for rank in range(2):
            made.rank(rank, stepped(rank, step), GpuSample(rank, 50.0, 1, 2))
    curves = previewed(recorded(tmp_path, made), made.plan).curves
    assert 0 < len(curves.of("gpu", 0)) < 300


def test_a_tape_without_records_waits_for_them(tmp_path: Path) -> None:
    made = history(5)
    played = Tape(tmp_path / made.plan.run, made.plan)
    assert not played.advance(END, 10**6)
    assert played.share == 1.0
    recorded(tmp_path, made)
    assert not played.advance(END, 10**6)
    assert played.state.step == 5
    played.close()
    with pytest.raises(RunFolderError, match="holds no run"):
        tape.preview_tape(tmp_path / "none", made.plan)


def test_the_course_of_the_loss_is_read_at_a_few_places(tmp_path: Path) -> None:
    course = read_loss_course(recorded(tmp_path, history(300)), 10)
    assert 8 <= len(course) <= 10
    assert course == sorted(course, reverse=True)
    assert course[0] > 10 * course[-1]
    with pytest.raises(RunFolderError, match="No such file"):
        read_loss_course(tmp_path / "none", 10)


def test_the_points_of_the_loss_have_their_steps_and_all_tests(tmp_path: Path) -> None:
    made = history(300)
    course = read_loss_points(recorded(tmp_path, made), 10)
    steps = [step for step, _ in course.training]
    assert steps == sorted(steps)
    assert 1 <= steps[0] < 30
    assert 270 < steps[-1] <= 300
    tests = [(test.step, test.loss) for test in made.state().progress.evaluations]
    assert list(course.tests) == tests


def test_the_loss_has_one_course_though_each_rank_reports_many_steps_at_once(
    tmp_path: Path,
) -> None:
    made = History(plan(2)).training()
    for first in range(1, 301, 100):
        for rank in range(2):
            steps = [
                StepFinished(rank, 1, step, 300.0 / step, 0.01)
                for step in range(first, first + 100)
            ]
            made.rank(rank, block_of(steps, made.now))
    course = read_loss_points(recorded(tmp_path, made.done(0, 1)), 30).training
    assert len(course) == 30
    steps_and_losses = [*zip(*course, strict=True)]
    assert list(steps_and_losses[0]) == sorted(steps_and_losses[0])
    assert list(steps_and_losses[1]) == sorted(steps_and_losses[1], reverse=True)


def test_copies_take_bounded_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tape, "APART", 4_000)
    made = history(200)
    size = len(snapshots.compress(snapshots.freeze(made.state(), expand)))
    monkeypatch.setattr(tape, "MEMORY", most := 5 * size)
    played = Tape(recorded(tmp_path, made), made.plan)
    played.advance(END, 10**6)
    assert 1 <= len(played._copies) < 20
    assert sum(len(copy.data) for copy in played._copies) <= most
    for record in made.records[-10::-50]:
        played.rewind(record.time)
        played.advance(record.time, 10**6)
        assert told(played.state) == told(applied(made.plan, made, record.time))
    played.close()
