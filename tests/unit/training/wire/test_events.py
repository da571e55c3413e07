"""The codec of records: what is written is read back, and nothing that a rank prints makes it
raise."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import astuple, dataclass, fields, replace
from typing import Any, ClassVar, get_args

import pytest

from remote.events import LAUNCHER_EVENTS, expand
from remote.events import decode as decode_by_launcher
from training.wire.codec import Codec, wire_name
from training.wire.commands import Command
from training.wire.enums import EndReason, Phase, Reach
from training.wire.events import (
    EVENTS,
    PREFIX,
    Event,
    Record,
    decode,
    encode,
    fault,
    other_format,
    to_object,
)
from training.wire.events import expand as expand_by_host
from training.wire.format import FORMAT, READABLE_TEXT
from training.wire.host_events import (
    AgentEnded,
    Connected,
    Exited,
    Hello,
    HostSample,
    Launched,
    OutputText,
    RankSample,
    RecordsDropped,
    Reserved,
)
from training.wire.host_replies import (
    CodeArchive,
    LiveRun,
    Orphan,
    Removed,
    RunFolder,
    Signalled,
)
from training.wire.jsonl import dumps, load
from training.wire.rank_events import (
    Entered,
    Epoch,
    Evaluated,
    Finished,
    Saved,
    Started,
    StepFinished,
)
from training.wire.step_block import StepBlock, decode_rows, encode_row, pack_rows

TEXTS = ("", "a", "ä — 🏖️", 'quo"te\\', "two\nlines", "\x1b[31m\r\t", "@rankboard {}", "null")
VALUES: dict[str, Any] = {
    "int": (0, -1, 7, 2**40),
    "float": (0.0, -1.5, 3, 1e300, float("inf")),
    "bool": (True, False),
    "str": TEXTS,
    "Phase": tuple(Phase),
    "Reach": tuple(Reach),
    "EndReason": tuple(EndReason),
    "tuple[int, ...]": ((), (1, 2, 3)),
    "tuple[float, ...]": ((), (1.0, 2.5)),
    "tuple[str, ...]": ((), ("a", "ö")),
    "tuple[tuple[int, ...], ...]": ((), ((1, 2), (3,))),
    "tuple[tuple[int, str], ...]": ((), ((7, "a"), (0, "ö"))),
    "tuple[tuple[str, int], ...]": ((), (("a", 7), ("ö", 0))),
    "tuple[tuple[str, str], ...]": ((), (("a", ""), ("ö", "b"))),
    "tuple[tuple[str, float], ...]": ((), (("a", 0.5), ("ö", 2))),
    "tuple[tuple[str, str, int], ...]": ((), (("eth0", "10.0.0.1", 24), ("lo", "127.0.0.1", 8))),
}


def some(cls: type[Any], dice: random.Random) -> Event:
    if cls is StepBlock:
        step = some(StepFinished, dice)
        assert isinstance(step, StepFinished)
        step.rank = dice.randint(0, 1000)
        row = decode_rows(encode_row(step, 1.79e9 * dice.random()))
        assert row is not None
        return pack_rows(row * dice.randint(1, 9))
    while True:
        made = cls(**{field.name: dice.choice(VALUES[str(field.type)]) for field in fields(cls)})
        assert isinstance(made, Event)
        with suppress(ValueError):
            getattr(made, "validate", lambda: None)()
            return made


@pytest.mark.parametrize("cls", EVENTS, ids=lambda cls: cls.__name__)
def test_every_event_comes_back_as_it_went(cls: type[Event]) -> None:
    dice = random.Random(cls.__name__)
    for seq in range(50):
        record = Record(
            dice.randint(-1, 9), dice.randint(0, 2), seq, dice.random() * 2e9, some(cls, dice)
        )
        line = encode(record)
        assert line.endswith("\n")
        assert "\n" not in line[:-1]
        assert decode(line) == record
        assert decode(line.encode()) == record


def test_a_loss_that_is_no_number_comes_back() -> None:
    record = decode(encode(Record(0, 0, 1, 2.0, StepFinished(0, 1, 1, float("nan"), 0.1))))
    assert record is not None
    assert isinstance(record.event, StepFinished)
    assert math.isnan(record.event.loss)


def test_unknown_keys_are_ignored_and_missing_ones_take_their_defaults() -> None:
    line = (
        '{"event":"step","host":0,"attempt":0,"seq":7,"time":2,"rank":0,"epoch":1,"step":1,'
        '"loss":1,"seconds":2,"new":[1]}'
    )
    assert decode(line) == Record(0, 0, 7, 2.0, StepFinished(0, 1, 1, 1.0, 2.0))


@pytest.mark.parametrize(
    ("changed", "fits"),
    [({"data": 1}, True), ({"samples": 2**63}, False), ({"samples": 1.0}, False)],
)
def test_each_value_of_a_whole_step_is_looked_at(changed: dict[str, Any], fits: bool) -> None:
    step = StepFinished(0, 1, 1, 1.0, 2.0, 0.5, 1.0, 0.5, 1.0, 1.0, 16, 12, 123, 0)
    head = {"host": 0, "attempt": 0, "seq": 7, "time": 2.0}
    found = decode(dumps(head | to_object(step) | changed))
    assert found == (Record(0, 0, 7, 2.0, replace(step, **changed)) if fits else None)


@pytest.mark.parametrize(
    "event",
    [
        # The parts of a step come from other clocks than the whole, such as a GPU's.
        StepFinished(0, 1, 1, math.nan, 0.0, -1e-6, -1e-6, -1e-6, -1e-6, 0.0, 0, 0, 0, 0),
        # A step may take days, and a run may have many of them.
        StepFinished(0, 10**6, 10**12, 1e38, 1e6, samples=10**9, correct=10**9, bytes_sent=10**15),
        Epoch(0, 1, 1, math.inf, 1.0, 1, 0.0),
        Saved(0, 1, 1, 0.0, 10**14),
        # A file system of a cloud tells of nearly endless room.
        HostSample((100.0,) * 1024, 2**50, 2**50, 0, 2**40, 2**63 - 2**20),
        RankSample(0, 100.0 * 1024, 2**50, 10_000),
        # The port is the one that was asked for, also where there is no such port.
        Connected("127.0.0.1", 70_000, 0.0, "no such port"),
        Launched((0,), (), 10_001, 0.0),
        AgentEnded(EndReason.NO_LAUNCHER, "60 s", age=10.0**9),
    ],
    ids=lambda event: event.wire_name,
)
def test_what_an_honest_host_may_say_is_within_bounds(event: Event) -> None:
    line = encode(Record(0, 0, 7, 2.0, event))
    found = decode(line)
    assert found, fault(line)
    assert repr(found.event) == repr(event), "as NaN is not equal to itself"
    assert decode_by_launcher(line), "which has a reader of its own for steps"


def test_the_first_record_of_a_writer_names_the_format_of_all() -> None:
    first, second = (encode(Record(0, 0, seq, 2.0, Exited(0, 0))) for seq in (1, 2))
    assert [load(first)["format"], "format" in load(second)] == [FORMAT, False]
    for line, number in (
        (first.replace(f'"format":{FORMAT}', '"format":3'), 3),
        (first.replace(f'"format":{FORMAT},', ""), 0),
    ):
        assert decode(line) is None
        assert other_format(load(line)) == number
        assert fault(line) == f"exited: it is in format {number}, not {READABLE_TEXT}"
    assert other_format(load(second)) is None


def test_an_unknown_word_never_raises() -> None:
    end = Record(0, 0, 1, 2.0, AgentEnded(EndReason.CLOSED, left=(7,)))
    newer = decode(encode(end).replace("closed", "evicted"))
    assert newer == Record(0, 0, 1, 2.0, AgentEnded(EndReason.UNKNOWN, left=(7,)))
    assert decode(encode(end).replace('"closed"', "7")) is None
    dreams = encode(Record(0, 0, 1, 2.0, Entered(0, Phase.SAVING))).replace("saving", "dreaming")
    assert decode(dreams) is None
    assert fault(dreams) == "entered: phase: 'dreaming' is not a valid Phase"


def test_a_word_prints_as_its_value() -> None:
    assert f"{Phase.SAVING} {Reach.READY!s} {to_object(Entered(0, Phase.SAVING))['phase']}" == (
        "saving ready saving"
    )


@pytest.mark.parametrize(
    "line",
    [
        "",
        "{",
        "null",
        "[]",
        "7",
        '"step"',
        "{}",
        '{"event":"step"}',
        '{"event":[],"host":0,"attempt":0,"seq":0,"time":0}',
        '{"event":{},"host":0,"attempt":0,"seq":0,"time":0}',
        '{"event":"closed","host":"0","attempt":0,"seq":0,"time":0}',
        '{"event":"closed","host":0,"attempt":0,"seq":0,"time":null}',
        '{"event":"closed","host":0,"attempt":0,"seq":0,"time":NaN}',
        '{"event":"closed","host":0,"attempt":0,"seq":0,"time":1' + "0" * 400 + "}",
        '{"event":"launched","host":0,"attempt":0,"seq":0,"time":0,"ranks":"12"}',
        '{"event":"exited","host":0,"attempt":0,"seq":0,"time":0,"rank":true,"code":0}',
        '{"event":"exited","host":0,"attempt":0,"seq":0,"time":0,"rank":1'
        + "0" * 400
        + ',"code":0}',
        "[" * 100_000,
        b"\xff\xfe\x00",
        b'{"event":"\xff"}',
    ],
    ids=lambda line: str(line)[:40],
)
def test_what_is_no_record_is_none(line: str | bytes) -> None:
    assert decode(line) is None
    assert decode_by_launcher(line) is None


def figures(records: Sequence[Record]) -> str:
    """What they hold; numbers as floats, as NaN is like NaN and an int may stand for a float."""
    values = [
        value for one in records for value in (type(one.event), one.time, *astuple(one.event))
    ]
    return repr([float(value) if type(value) is int else value for value in values])


def test_junk_never_raises() -> None:
    """Lines that were records once: characters and values of them replaced, cut, doubled and
    swapped, seeded."""
    dice = random.Random(7)
    junk = (
        None,
        [],
        {},
        "",
        "x",
        -1,
        10**400,
        1e400,
        float("nan"),
        True,
        [[1]],
        {"a": 1},
        "\ud800",
    )
    for _ in range(1_000):
        cls = dice.choice((*EVENTS, *[StepFinished, OutputText] * 8))  # most lines are of these
        said = {
            "host": 1,
            "attempt": 0,
            "seq": dice.randint(1, 9),
            "time": dice.choice((1.0, 2, -1)),
        }
        said |= to_object(some(cls, dice))
        for key in dice.sample(sorted(said), k=dice.randint(0, 2)):
            said[key] = dice.choice(junk)
        wire = dumps(said)
        for _ in range(dice.randint(0, 3)):
            at = dice.randrange(len(wire) + 1)
            put = dice.choice(("", "\x00", '"', "{", "}", "9" * 5000, "\\u", "é"))
            wire = wire[:at] + put + wire[at + dice.randint(0, 3) :]
        for data in (wire, wire.encode(errors="replace")):
            assert repr(decode(data)) == repr(decode_by_launcher(data))  # NaN is like NaN
        rank = said.get("rank")
        rank = rank if rank in VALUES["int"] else 0
        record = Record(0, 0, 1, 5.0, OutputText(rank, "stdout", f"before\n{PREFIX}{wire}\nafter"))
        found = expand(record)
        assert figures(found) == figures(expand_by_host(record))
        for one in found:
            assert math.isfinite(one.time)
            encode(one)


def test_events_among_the_text_of_a_rank_are_found_in_order() -> None:
    step = StepFinished(2, 1, 5, 0.5, 0.25)
    wire = PREFIX + dumps({"time": 4.5} | to_object(step))
    text = OutputText(2, "stdout", f"one\n{wire}\ntwo\n{PREFIX}no json\n{wire}")
    found = [(one.time, one.seq, one.event) for one in expand(Record(1, 0, 9, 5.0, text))]
    assert found == [
        (5.0, 9, OutputText(2, "stdout", "one")),
        (4.5, 9, step),
        (5.0, 9, OutputText(2, "stdout", f"two\n{PREFIX}no json")),
        (4.5, 9, step),
    ]


def test_a_rank_cannot_speak_for_its_agent() -> None:
    wire = PREFIX + '{"event":"exited","rank":0,"code":0}'
    record = Record(0, 0, 1, 5.0, OutputText(0, "stdout", wire))
    assert list(expand(record)) == [record]


def test_facts_of_a_host_keep_their_types() -> None:
    hello = Hello(
        "h",
        "u",
        1,
        "3.11",
        "/p",
        "Linux",
        "b",
        2,
        1,
        interfaces=(("eth0", "10.0.0.1", 24),),
        gpus=("H200",),
    )
    record = decode(encode(Record(0, 0, 1, 2.0, hello)))
    assert record is not None
    assert record.event == hello
    assert hash(record.event) == hash(hello)


STEP = StepFinished(0, 1, 1, 2.0, 0.1)
BEYOND: list[tuple[Event, str]] = [
    *((replace(STEP, step=number), "step") for number in (-1, 2**53 + 1, 2**63 - 1)),
    *((replace(STEP, seconds=value), "seconds") for value in (-1.0, math.inf, math.nan, 1e300)),
    (replace(STEP, bytes_sent=-1), "bytes_sent"),
    (replace(STEP, compute=-1e300), "compute"),
    (Started(0, 1, 2, "cpu", "gloo", "2", 1, 1, -1, 10, 640, 100), "steps"),
    (Epoch(0, 1, 1, 1.0, 1.5, 1, 1.0), "accuracy"),
    (Saved(0, 1, 1, 1.0, -1), "size"),
    (Evaluated(0, 1, 1, 1.0, 0.5, 1, 1.0, ((-1,),)), "confusion"),
    (Finished(0, 1, 1, -1.0), "seconds"),
    (HostSample((1.0,), -1, 1), "memory_used"),
    (RankSample(0, 1.0, -1), "memory"),
    (Reserved("10.0.0.1", 2**62), "port"),
    (RecordsDropped(-1, 1), "first"),
]


@pytest.mark.parametrize(("event", "field"), BEYOND, ids=str)
def test_an_event_whose_figures_are_beyond_bounds_is_none(event: Event, field: str) -> None:
    line = encode(Record(0, 0, 2, 1.0, event))
    assert decode(line) is None
    assert decode_by_launcher(line) is None
    assert field in fault(line)


def test_a_rank_that_reports_figures_beyond_bounds_has_printed_text() -> None:
    text = OutputText(0, "stdout", PREFIX + dumps(to_object(replace(STEP, step=-1))))
    record = Record(0, 0, 2, 1.0, text)
    assert list(expand(record)) == list(expand_by_host(record)) == [record]


def test_what_is_left_of_a_step_may_be_a_little_below_zero() -> None:
    """It is a difference of times that overlap."""
    step = replace(STEP, compute=-1e-6, ready=-1e-6)
    record = Record(0, 0, 2, 1.0, step)
    assert decode(encode(record)) == decode_by_launcher(encode(record)) == record


def test_the_names_on_the_wire_are_those_of_all_recorded_runs() -> None:
    by_ranks = (
        "entered started step epoch drifted saved evaluated finished metrics collectives isolation"
    )
    by_agents = (
        "hello reserved connected beforestarted beforeended launched spawned text hostsample "
        "ranksample gpusample stack workerjoined workerexited raised exited stopheard ended "
        "dropped steps"
    )
    by_launchers = (
        "reaching clock said checked silent parted lost refused stalled stacksasked stallexplained "
        "attached preparing prepared starting failing transferring stopping restarted leaving "
        "detached closing closed"
    )
    to_agents = "reserve keep connect before start stacks stop close ondisconnect lease"
    of_hosts = "runfolder archive orphan live signalled removed"
    assert [event.wire_name for event in EVENTS] == f"{by_ranks} {by_agents}".split()
    assert {event.wire_name for event in LAUNCHER_EVENTS} == set(by_launchers.split())
    assert [wire_name(command) for command in get_args(Command)] == to_agents.split()
    replies = (RunFolder, CodeArchive, Orphan, LiveRun, Signalled, Removed)
    assert [wire_name(reply) for reply in replies] == of_hosts.split()


def test_a_field_may_have_another_key_on_the_wire() -> None:
    @dataclass(frozen=True, slots=True)
    class Sent:
        wire_keys: ClassVar[dict[str, str]] = {"host": "on"}
        host: int
        text: str = ""

    codec = Codec("kind", (Sent,))
    data = {"kind": "sent", "on": 3, "text": "a"}
    assert codec.object(Sent(3, "a")) == data
    assert codec.value(data) == Sent(3, "a")
    assert codec.value({"kind": "sent", "on": 3}) == Sent(3)
    assert codec.fault({"kind": "sent", "on": "3"}).startswith("on: ")
