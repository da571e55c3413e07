"""Lines out of what a host sends."""

from __future__ import annotations

import tracemalloc

import pytest

from remote.limits import LIMITS
from training.wire.line_cutter import LineCutter, LineTooLong

SENT = b"one\n\ntwo\r\nthr\ree\nrest"


@pytest.mark.parametrize("size", [1, 2, 5, 100])
def test_lines_are_whole_however_they_come(size: int) -> None:
    cutter = LineCutter()
    pieces = [SENT[start : start + size] for start in range(0, len(SENT), size)]
    lines = [line for piece in pieces for line in cutter.feed(piece)]
    assert lines == [b"one\n", b"\n", b"two\r\n", b"thr\ree\n"]
    assert cutter.rest == b"rest"


@pytest.mark.parametrize("size", [1, 3, 100])
def test_a_line_may_have_as_many_bytes_as_the_limit_says_and_no_more(size: int) -> None:
    def fed(sent: bytes) -> list[bytes]:
        cutter = LineCutter(5)
        return [
            line
            for start in range(0, len(sent), size)
            for line in cutter.feed(sent[start : start + size])
        ]

    assert fed(b"12345\n12345\n12345") == [b"12345\n"] * 2
    for sent in (b"1\n123456", b"1\n123456\n2\n"):
        with pytest.raises(LineTooLong, match="it sent a line longer than 5 bytes"):
            fed(sent)


def test_a_line_without_end_is_refused_before_it_takes_memory() -> None:
    cutter, block = LineCutter(LIMITS.line), bytes(64 * 1024)
    tracemalloc.start()
    for _ in range(LIMITS.line // len(block)):
        assert cutter.feed(block) == []
    with pytest.raises(LineTooLong, match="longer than 4,194,304 bytes"):
        cutter.feed(b"1")
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 3 * LIMITS.line
