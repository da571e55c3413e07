"""Steps as blocks of columns: what comes back, how small they are, and what is refused."""

from __future__ import annotations

import math
import random
import zlib
from binascii import b2a_base64
from collections.abc import Sequence

import pytest

from remote import events as launcher_events
from training.wire.events import Record, decode, encode, expand, fault, parse_report, split_steps
from training.wire.rank_events import StepFinished
from training.wire.step_block import (
    MOST_STEPS,
    ROW_BYTES,
    StepBlock,
    decode_rows,
    encode_row,
    pack_rows,
    read_row,
)

BEGAN = 1.79e9


def random_step(dice: random.Random, number: int) -> StepFinished:
    seconds = dice.lognormvariate(-7.0, 0.3)
    data = seconds * dice.uniform(0.01, 0.1)
    sync = seconds * dice.uniform(0.1, 0.5)
    return StepFinished(
        *(3, 1 + number // 60, number, dice.uniform(0.1, 3.0), seconds, data),
        *(max(0.0, seconds - data - sync), sync, seconds - sync, dice.uniform(0.5, 2.0) * seconds),
        *(32, dice.randint(0, 32), dice.choice((0, 2**40)), dice.randint(0, 3), True),
    )


def random_steps(seed: int, count: int) -> list[tuple[StepFinished, float]]:
    dice = random.Random(seed)
    now = BEGAN
    steps = []
    for number in range(1, count + 1):
        step = random_step(dice, number)
        now += step.seconds
        steps.append((step, now))
    return steps


def rows_of(steps: Sequence[tuple[StepFinished, float]]) -> bytes:
    rows = decode_rows("".join(encode_row(step, time) for step, time in steps))
    assert rows is not None
    return rows


def figures(step: StepFinished) -> list[float]:
    return [float(getattr(step, name)) for name in StepFinished.__match_args__]


@pytest.mark.parametrize("count", [1, 2, 100, MOST_STEPS])
def test_steps_come_back_as_they_went(count: int) -> None:
    steps = random_steps(count, count)
    line = encode(Record(2, 1, 7, BEGAN + 1e6, pack_rows(rows_of(steps))))
    for read in (decode, launcher_events.decode):
        record = read(line)
        assert record is not None
        assert isinstance(record.event, StepBlock)
        assert (record.event.step, record.event.count) == (count, count)
        assert [*expand(record)] == [*launcher_events.expand(record)] == [record]
        found = split_steps(record)
        assert [(one.host, one.attempt, one.seq) for one in found] == [(2, 1, 7)] * count
        for one, (step, time) in zip(found, steps, strict=True):
            assert one.time == pytest.approx(time, abs=2e-6, rel=0)
            assert isinstance(one.event, StepFinished)
            assert one.event.loss == pytest.approx(step.loss, rel=1e-7)
            # Times have 16 bits; the rest of a step is a difference of such.
            assert figures(one.event) == pytest.approx(figures(step), rel=2**-16, abs=1e-5)


@pytest.mark.parametrize(("per_block", "most"), [(100, 29.0), (16, 41.0)])
def test_the_steps_of_a_week_are_small(per_block: int, most: float) -> None:
    steps = random_steps(1, 1600)
    for step, _ in steps:  # as most methods have it
        step.bytes_sent = 712_440
        step.staleness = 0
    rows = rows_of(steps)
    size = per_block * ROW_BYTES
    blocks = [rows[start : start + size] for start in range(0, len(rows), size)]
    lines = [
        encode(Record(0, 0, 10_000_000 + place, BEGAN + 0.1234567, pack_rows(block)))
        for place, block in enumerate(blocks)
    ]
    assert sum(map(len, lines)) / len(steps) <= most


@pytest.mark.parametrize("loss", [math.nan, math.inf, -math.inf, 1e38, 1e300])
def test_a_loss_may_be_any_number(loss: float) -> None:
    step = StepFinished(0, 1, 1, loss, 0.1, loss_known=loss < 1e300)
    record = decode(encode(Record(0, 0, 1, BEGAN, pack_rows(rows_of([(step, BEGAN)])))))
    assert record is not None
    (found,) = split_steps(record)
    assert isinstance(found.event, StepFinished)
    expected = math.inf if loss == 1e300 else loss  # beyond 32 bits
    assert found.event.loss == pytest.approx(expected, nan_ok=True)
    assert found.event.loss_known == step.loss_known


def test_a_step_is_never_later_than_its_record() -> None:
    block = pack_rows(rows_of([(StepFinished(0, 1, 1, 1.0, 0.1), BEGAN + 60)]))
    record = decode(encode(Record(0, 0, 1, BEGAN, block)))
    assert record is not None
    assert [one.time for one in split_steps(record)] == [BEGAN]


@pytest.mark.parametrize(
    "changed",
    [
        {"seconds": -1.0},
        {"seconds": math.nan},
        {"data": math.inf},
        {"step": -1},
        {"samples": 2**53 + 1},
        {"time": math.nan},
    ],
    ids=str,
)
def test_an_impossible_number_is_refused(changed: dict[str, float]) -> None:
    time = changed.pop("time", BEGAN)
    good = StepFinished(0, 1, 1, 1.0, 0.1)
    values = {name: getattr(good, name) for name in StepFinished.__match_args__} | changed
    rows = rows_of([(good, BEGAN), (StepFinished(**values), time), (good, BEGAN)])
    with pytest.raises(ValueError, match="is not between"):
        pack_rows(rows)
    with pytest.raises(ValueError, match="is not between"):
        read_row(rows[ROW_BYTES : 2 * ROW_BYTES])


def damaged_columns() -> dict[str, str]:
    good = pack_rows(rows_of(random_steps(5, 10)))
    bomb = zlib.compress(bytes(1 << 24))
    return {
        "no base64": "é" * 8,
        "not deflated": b2a_base64(b"abcdefgh", newline=False).decode(),
        "cut": good.columns[: len(good.columns) // 2],
        "of other steps": pack_rows(rows_of(random_steps(5, 9))).columns,
        "a bomb": b2a_base64(bomb, newline=False).decode(),
        "empty": "",
    }


@pytest.mark.parametrize("damage", damaged_columns())
def test_a_damaged_block_is_no_record(damage: str) -> None:
    block = StepBlock(3, 10, 10, damaged_columns()[damage])
    line = encode(Record(0, 0, 7, BEGAN, block))
    for read in (decode, launcher_events.decode):
        assert read(line) is None
    assert fault(line).startswith("steps: columns: ")


@pytest.mark.parametrize("count", [0, -1, MOST_STEPS + 1, 2**60])
def test_the_count_of_steps_has_bounds(count: int) -> None:
    columns = pack_rows(rows_of(random_steps(5, 10))).columns
    assert decode(encode(Record(0, 0, 7, BEGAN, StepBlock(3, 10, count, columns)))) is None


def test_damage_anywhere_is_refused_or_within_bounds() -> None:
    dice = random.Random(11)
    block = pack_rows(rows_of(random_steps(5, 40)))
    for _ in range(300):
        columns = bytearray(block.columns.encode())
        for _ in range(dice.randint(1, 4)):
            columns[dice.randrange(len(columns))] = dice.choice(b"ABCxyz019+/=")
        damaged = StepBlock(3, 40, 40, columns.decode())
        record = decode(encode(Record(0, 0, 7, BEGAN, damaged)))
        for one in split_steps(record) if record else ():
            one.event.validate()


@pytest.mark.parametrize("text", ["", "AAAA", "é" * 156, "A" * 155, "A" * 152 + "!!!!", "{}"])
def test_what_is_no_row_is_no_step(text: str) -> None:
    assert decode_rows(text) is None
    assert parse_report(f"step {text}") is None


def test_rows_of_several_ranks_are_no_block() -> None:
    steps = [(StepFinished(rank, 1, 1, 1.0, 0.1), BEGAN) for rank in (0, 0, 1)]
    with pytest.raises(ValueError, match="rank is 1"):
        pack_rows(rows_of(steps))
