"""What a rank prints: it speaks for itself alone, hides nothing of a secret's length, and takes a
bounded memory."""

from __future__ import annotations

import io
import json
import sys
from dataclasses import fields, replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from remote.events import expand
from remote.run.apply import apply_record
from remote.run.run_state import RunState
from tests.hostile.values import ESCAPES, wild
from tests.kit.histories import History
from tests.kit.histories import plan as planned
from tests.kit.stage import HELLO
from training.agent.host.redaction import Redaction
from training.agent.ranks.pipes import CHUNK, LineDecoder
from training.wire import events, host_events, rank_events
from training.wire.commands import Placement
from training.wire.events import PREFIX, Event
from training.wire.host_events import OutputText
from training.wire.jsonl import dumps
from tui.run.json_printer import JsonPrinter
from tui.run.plain_printer import PlainPrinter

SECRET = "hunter2-SECRET-value-0123456789"


def said_by(rank: int, *texts: str) -> RunState:
    """A run of two ranks on each of two hosts, of which one has printed these."""
    history = History(planned(2, slots=2)).training(3)
    for text in texts:
        history.rank(rank, OutputText(rank, "stdout", text))
    state = RunState(history.plan)
    for record in history.records:
        for one in expand(record):
            apply_record(state, one)
    return state


def figures(state: RunState, rank: int) -> tuple[Any, ...]:
    """What is known of a rank."""
    one = state.ranks[rank]
    return one.step, one.phase, one.finished, one.exit, one.begun, one.timing.total


@pytest.mark.parametrize("other", [0, 2, 3, 99, -1])
@pytest.mark.parametrize("kind", rank_events.RANK_EVENTS, ids=lambda kind: kind.wire_name)
def test_a_rank_speaks_for_itself_alone(kind: type[Event], other: int) -> None:
    """Neither for another rank of its host nor for one of another host."""
    wire = next(one for one in wild(kind) if len(one) == len(fields(kind))) | {
        "event": kind.wire_name,
        "rank": other,
        "step": 77,
    }
    honest, forged = said_by(1), said_by(1, PREFIX + dumps(wire))
    for rank in (0, 2, 3):
        assert figures(honest, rank) == figures(forged, rank)
    assert forged.progress.evaluations == honest.progress.evaluations
    assert forged.progress.drift == honest.progress.drift


@pytest.mark.parametrize(
    "kind",
    [one for one in events.EVENTS if one not in rank_events.RANK_EVENTS],
    ids=lambda kind: kind.wire_name,
)
def test_a_rank_does_not_speak_for_its_agent_or_the_session(kind: type[Event]) -> None:
    wires = [
        PREFIX + dumps(one | {"event": kind.wire_name, "rank": 1, "on": 0}) for one in wild(kind)
    ]
    honest, forged = said_by(1), said_by(1, *wires)
    assert [figures(honest, rank) for rank in range(4)] == [
        figures(forged, rank) for rank in range(4)
    ]
    assert [host.phase for host in forged.hosts] == [host.phase for host in honest.hosts]
    assert (forged.verdict, forged.cause, forged.stop_reason) == (None, None, "")


TEXTS = {
    "escapes": ESCAPES,
    "a clipboard": "\x1b]52;c;" + "A" * 5000 + "\x07",
    "a title": "\x1b]0;pwned\x07",
    "a link": "\x1b]8;;http://x\x1b\\click\x1b]8;;\x1b\\",
    "a string without end": "\x1bP" + "x" * 5000,
    "c1": "".join(map(chr, range(0x80, 0xA0))),
    "c0": "".join(map(chr, range(0x20))),
    "bidi": "\u202e\u2066\u200f",
    "markup": "[bold red]x[/] [link=http://x]y[/link]",
    "a long line": "x" * 200_000,
    "many lines": "x\n" * 20_000,
}


@pytest.mark.parametrize(
    "printer", [PlainPrinter, partial(JsonPrinter, folder=Path("runs"))], ids=["lines", "json"]
)
@pytest.mark.parametrize("case", TEXTS)
def test_no_terminal_acts_on_what_a_rank_prints(case: str, printer: Any) -> None:
    history = History(planned(2, slots=2)).training(1)
    name = TEXTS[case]
    history.say(1, replace(HELLO, hostname=name, python=name, user=name))
    history.rank(
        1,
        OutputText(1, "stdout", TEXTS[case]),
        OutputText(1, "stderr", TEXTS[case]),
        host_events.Exited(1, 1, TEXTS[case][:99]),
    )
    state, out, err = RunState(history.plan), io.StringIO(), io.StringIO()
    show = printer(out, err)
    for record in history.records:
        found = list(expand(record))
        for one in found:
            apply_record(state, one)
        show.batch(found, state)
    show.end(state)
    assert all(one == "\n" or one.isprintable() for one in out.getvalue() + err.getvalue())
    if printer is not PlainPrinter:
        for line in out.getvalue().splitlines():
            json.loads(line)


# Secrets ------------------------------------------------------------------------------------------


def redacting() -> Redaction:
    redaction = Redaction()
    redaction.learn([Placement(0, 0, ("x",), (("TOKEN", SECRET),), ("TOKEN",))])
    return redaction


@pytest.mark.parametrize(
    "padding",
    [CHUNK - 1, CHUNK, CHUNK + 1, *range(CHUNK - len(SECRET) - 2, CHUNK, 5), 2 * CHUNK - 10],
)
@pytest.mark.parametrize("block", [1 << 16, 4096])
@pytest.mark.parametrize("most", [sys.maxsize, CHUNK, CHUNK - 4096])
def test_no_cut_of_a_long_line_shows_a_part_of_a_secret(
    padding: int, block: int, most: int
) -> None:
    redaction = redacting()
    data = b"x" * padding + SECRET.encode() * 3 + b"y" * 100 + b"\n"
    lines = LineDecoder(redaction, most)
    found = [lines.feed(data[start : start + block]) for start in range(0, len(data), block)]
    told = [redaction.hide(one) for one in (*found, lines.end()) if one]
    for size in (len(SECRET), 12):
        assert not any(
            SECRET[start : start + size] in one
            for one in told
            for start in range(len(SECRET) - size + 1)
        )
    assert "".join(told).count("[TOKEN]") == 3 or most < len(data)


@pytest.mark.parametrize("data", [b"x", b"\xff", "\u20ac".encode(), b"\0", b"\r"], ids=ascii)
def test_a_line_without_end_comes_in_pieces(data: bytes) -> None:
    """So an agent keeps a bounded part of it."""
    redaction = redacting()
    lines = LineDecoder(redaction)
    block = (data * (1 << 16))[: 1 << 16]
    pieces = [piece for piece in (lines.feed(block) for _ in range(40)) if piece]
    assert pieces
    assert max(map(len, pieces)) <= 2 * CHUNK + redaction.longest
