"""Launchers read JSON as hosts do, only faster."""

from __future__ import annotations

import random

import pytest

from remote.jsonl import load
from training.wire import jsonl


@pytest.mark.parametrize(
    "line",
    [
        *("", " ", "{", "null", "[]", "7", '"a"', "{}", " \t{}\r\n", "\x0b{}", "{}x", "{}{}"),
        *('{"a":NaN}', '{"a":-Infinity}', '{"a":1e400}', '{"a":-0}', '{"a":-0.0}', '{"a":1E5}'),
        *('{"a":01}', '{"a":+1}', '{"a":1.}', '{"a":.5}', '{"a":0.1234567890123456789}'),
        *('{"a":9223372036854775808}', '{"a":-9223372036854775808}', '{"a":1,"a":2}', "{'a':1}"),
        *(
            '{"a":"\\ud800"}',
            '{"a":"\\ud83c\\udfd6"}',
            '{"a":"\ud800"}',
            '{"a":"\\x"}',
            '{"a":"a\tb"}',
        ),
        *(
            '{"a":"é\\n\\u0000"}',
            '{"a":[{"b":[]}],}',
            '{"a":tru}',
            '{"a":' * 2_000 + "1" + "}" * 2_000,
        ),
        "[" * 100_000,
    ],
    ids=lambda line: line[:30],
)
def test_what_hosts_read(line: str) -> None:
    assert repr(load(line)) == repr(jsonl.load(line))
    data = line.encode("utf-8", "surrogatepass")
    assert repr(load(data)) == repr(jsonl.load(data))


def test_damaged_lines_are_what_they_are_to_hosts() -> None:
    dice = random.Random(5)
    whole = '{"host":2,"time":12.5,"event":"text","text":"\\"a\\\\b\\"\\n\\té€","ok":[true,null]}\n'
    for _ in range(3_000):
        at, much = dice.randrange(len(whole)), dice.randrange(3)
        line = whole[:at] + "".join(dice.choices('0123456789-+.eE"\\{}[]:, \n\tnul', k=much))
        line += whole[at + dice.randrange(3) :]
        assert repr(load(line)) == repr(jsonl.load(line)), line


def test_bytes_that_are_no_text_are_no_object() -> None:
    assert load(b'{"event":"\xff"}') is None
