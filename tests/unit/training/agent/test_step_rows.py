"""The steps in what a rank writes become blocks; all else stays, in order."""

from __future__ import annotations

from tests.kit.rank_reports import take_apart
from training.agent.ranks.ranks import FEW_STEPS, LONGEST_GATHER, choose_block_seconds
from training.agent.ranks.step_rows import gather_steps
from training.wire.events import PREFIX, WORKER, Event, Record, decode, encode, to_object
from training.wire.host_events import OutputText
from training.wire.jsonl import dumps
from training.wire.rank_events import Epoch, StepFinished
from training.wire.step_block import MOST_STEPS, StepBlock, encode_row

RANK = 1
NOW = 1.79e9


def row(step: int, rank: int = RANK, seconds: float = 0.5) -> str:
    return f"{PREFIX}step {encode_row(StepFinished(rank, 1, step, 0.5, seconds), NOW)}"


def epoch(number: int) -> str:
    return PREFIX + dumps({"time": NOW} | to_object(Epoch(RANK, number, number, 0.5, 0.5, 1, 1.0)))


def gathered(*lines: str) -> list[Event]:
    return list(gather_steps(OutputText(RANK, "stdout", "\n".join(lines))))


def told(*lines: str) -> list[str]:
    """What each event that a launcher makes of the lines is about."""
    words = []
    for event in gathered(*lines):
        record = decode(encode(Record(0, 0, 7, NOW, event)))
        assert record is not None
        for one in take_apart(record):
            match one.event:
                case StepFinished(rank=rank, step=step):
                    words.append(f"step {step} of {rank}")
                case Epoch(epoch=number):
                    words.append(f"epoch {number}")
                case OutputText(text=text):
                    words.append(text)
    return words


def test_few_steps_are_reported_at_once_and_many_at_a_moment_of_each_host() -> None:
    assert choose_block_seconds(0.9 * FEW_STEPS) == 0.0
    for rate, whole_turn in ((1.1 * FEW_STEPS, LONGEST_GATHER), (1000.0, 0.1)):
        turns = [choose_block_seconds(rate) for _ in range(50)]
        assert all(0.5 * whole_turn < turn <= whole_turn for turn in turns), "no steps wait longer"
        assert max(turns) - min(turns) > 0.05 * whole_turn, "hosts drift apart"


def test_text_without_steps_stays_as_it_is() -> None:
    output = OutputText(RANK, "stdout", f"a\n{epoch(1)}\nb")
    assert list(gather_steps(output)) == [output]


def test_the_steps_between_two_events_are_one_block() -> None:
    events = gathered(row(1), "loss 0.5", row(2), row(3), epoch(1), row(4), "done")
    kinds = [type(event) for event in events]
    assert kinds == [StepBlock, OutputText, StepBlock, OutputText]
    assert told(row(1), "loss 0.5", row(2), row(3), epoch(1), row(4), "done") == [
        *("step 1 of 1", "step 2 of 1", "step 3 of 1", "loss 0.5", "epoch 1"),
        *("step 4 of 1", "done"),
    ]


def test_events_keep_their_place_among_steps() -> None:
    assert told(epoch(1), row(1), epoch(2), epoch(3), row(2)) == [
        *("epoch 1", "step 1 of 1", "epoch 2", "epoch 3", "step 2 of 1"),
    ]


def test_workers_have_blocks_of_their_own() -> None:
    lines = [
        row(1, rank=4).replace(PREFIX, PREFIX + WORKER),
        row(1, rank=5).replace(PREFIX, PREFIX + WORKER),
        row(2, rank=4).replace(PREFIX, PREFIX + WORKER),
    ]
    assert told(*lines) == ["step 1 of 4", "step 2 of 4", "step 1 of 5"]


def test_a_rank_reports_no_steps_of_another() -> None:
    line = row(1, rank=7)
    assert told(line, row(2)) == [line, "step 2 of 1"]


def test_impossible_steps_are_shown_as_they_were_written() -> None:
    impossible = row(2, seconds=-1.0)
    assert told(row(1), impossible, row(3)) == ["step 1 of 1", impossible, "step 3 of 1"]


def test_many_steps_are_several_blocks() -> None:
    blocks = gathered(*map(row, range(1, MOST_STEPS + 11)))
    assert [event.count for event in blocks if isinstance(event, StepBlock)] == [MOST_STEPS, 10]
