"""Commands on hosts of which some answer without end, too slowly, or something that nobody asked
for."""

from __future__ import annotations

import itertools
import json
import threading
import time
import tracemalloc
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace

import pytest

from remote.cluster.hosts import Host
from remote.host_commands import setup
from remote.host_commands.journals import fetch_journals
from remote.host_commands.run_on_hosts import HostAnswer, run_on_hosts
from remote.host_commands.setup import PackageCondition, WantedPackages
from remote.limits import LIMITS, Limits
from remote.plan.plan import Plan
from remote.transport import Program, ReachProgress
from training.agent import WHOLE
from training.job import Job

GOOD, BAD = Host("good", "10.0.0.1", timeout=10.0), Host("bad", "10.0.0.2", timeout=10.0)
SMALL = replace(LIMITS, line=1000, answer=100_000, values=1000)
HASTY = replace(SMALL, patience=0.02)


def told(*objects: object) -> bytes:
    return b"".join(json.dumps(one).encode() + b"\n" for one in objects)


class Scripted:
    """A line over which these blocks come, each when `wait` lets it."""

    def __init__(self, blocks: Iterable[bytes], why: str = "") -> None:
        self._blocks, self._why = iter(blocks), why
        self.closed = threading.Event()

    def read(self) -> bytes:
        return b"" if self.closed.is_set() else next(self._blocks, b"")

    def write(self, data: bytes) -> None:
        pass

    def close(self) -> str:
        self.closed.set()
        return self._why


class Stage:
    """A transport to a host that answers as it should, and one that does not."""

    def __init__(self, blocks: Callable[[], Iterable[bytes]], why: str = "") -> None:
        self._blocks, self._why, self.lines = blocks, why, list[Scripted]()

    def open(self, host: Host, program: Program, progress: ReachProgress) -> Scripted:
        self.lines.append(
            Scripted(self._blocks(), self._why)
            if host == BAD
            else Scripted([told({"n": 1}, WHOLE)])
        )
        return self.lines[-1]


def asked(
    blocks: Callable[[], Iterable[bytes]], limits: Limits = SMALL, why: str = ""
) -> HostAnswer:
    """The answer of the bad host; the good one's is as ever, and both lines are closed."""
    stage = Stage(blocks, why)
    good, bad = run_on_hosts(stage, [GOOD, BAD], "runs", limits=limits)
    assert (good.objects, good.error) == (({"n": 1},), "")
    assert all(line.closed.is_set() for line in stage.lines)
    return bad


def dribble() -> Iterator[bytes]:
    while True:
        time.sleep(0.02)
        yield b"x"


@pytest.mark.parametrize(
    ("blocks", "error"),
    [
        (lambda: itertools.repeat(told({"n": 2})), "bad: its answer is longer than 97.7 KiB"),
        (lambda: itertools.repeat(b"x" * 100), "bad: it sent a line longer than 1,000 bytes"),
        (lambda: itertools.repeat(b"{}\n{}\n"), "bad: its answer has more than 1,000 values"),
        (
            lambda: [b'{"a":[' + b"[]," * 300 + b"[]]}\n"] * 2,
            "bad: its answer has more than 1,000 values",
        ),
        (
            dribble,
            "bad: no end of its answer within 0.2 s; if it is only slow, raise timeout in "
            "hosts.toml",
        ),
    ],
)
def test_an_answer_without_end_is_an_error_of_its_host_alone(
    blocks: Callable[[], Iterable[bytes]], error: str
) -> None:
    limits = (
        HASTY
        if blocks is dribble
        else SMALL
        if "longer than 97" not in error
        else replace(SMALL, values=10**6)
    )
    assert asked(blocks, limits) == HostAnswer(BAD, error=error)


def test_an_endless_answer_takes_bounded_memory() -> None:
    block = told({"n": "x" * 60_000})
    tracemalloc.start()
    assert (
        asked(lambda: itertools.repeat(block), LIMITS).error
        == "bad: its answer is longer than 64 MiB"
    )
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 1.5 * LIMITS.answer


def test_few_errors_are_shown_and_none_at_length() -> None:
    errors = [told({"error": "x" * 900})] * 50
    found = asked(lambda: errors, replace(SMALL, shown=10))
    assert found.error == "bad: " + "; ".join(["x" * 10] * 5 + ["and 45 more errors"])


@pytest.mark.parametrize(
    ("blocks", "error"), [([], "bad: it hung up"), ([told({"n": 1})], "bad: it hung up")]
)
def test_a_host_that_hangs_up_amid_its_answer_is_told_in_one_line(
    blocks: list[bytes], error: str, capfd: pytest.CaptureFixture[str]
) -> None:
    assert asked(lambda: blocks, why="Traceback\nit hung up").error == error
    assert capfd.readouterr() == ("", "")


def test_a_mistake_of_ours_is_told_and_prints_no_traceback(
    capfd: pytest.CaptureFixture[str],
) -> None:
    def broken() -> Iterator[bytes]:
        raise EOFError
        yield b""

    assert asked(broken).error == "bad: rankboard itself failed: EOFError()"
    assert capfd.readouterr() == ("", "")


def test_the_moment_of_an_answer_is_that_of_its_beginning() -> None:
    """The start of Python there and its end are not in it: a clock's offset is measured by it."""
    moments, ended = list[float](), list[float]()

    def blocks() -> Iterator[bytes]:
        time.sleep(0.04)
        moments.append(time.time())
        yield told({"now": moments[0]})
        time.sleep(0.04)
        ended.append(time.time())
        yield told(WHOLE)

    found = asked(blocks)
    assert moments[0] <= found.moment < ended[0]


def test_a_journal_of_which_no_line_ends_is_given_up_while_others_are_read() -> None:
    plan = Plan("a-run", (GOOD, BAD), Job())
    record = json.dumps(
        {"host": 0, "attempt": 1, "seq": 2, "time": 1.0, "event": "exited", "rank": 0, "code": 0}
    )

    class Journals(Stage):
        def open(self, host: Host, program: Program, progress: ReachProgress) -> Scripted:
            return Scripted([record.encode() + b"\n", told(WHOLE)] if host == GOOD else dribble())

    problems: list[tuple[int, str]] = []
    found = [
        one.host
        for _, one in fetch_journals(Journals(dribble), plan, {}, {}, problems, limits=HASTY)
    ]
    why = (
        "bad: one line of its journal took more than 0.2 s; if it is only slow, raise timeout in "
        "hosts.toml"
    )
    assert (found, problems) == ([0], [(1, why)])


@pytest.mark.parametrize(
    "said", [{}, {"executable": 5, "venv": [], "versions": None, "installed": 1}, {"versions": {}}]
)
def test_setup_says_which_host_answers_what_it_does_not_know(said: object) -> None:
    wanted = WantedPackages(("torch",), ("torch==1",))
    good, bad = setup.inspect_hosts(Stage(lambda: [told(said, WHOLE)]), [GOOD, BAD], wanted)
    assert good.condition is bad.condition is PackageCondition.HOPELESS
    assert bad.text.startswith("bad: it sent an answer that this version does not know: ")
    stage = Stage(lambda: [told({"bytes": "x", "of": 1})])
    (done,) = setup.install_packages(stage, (BAD,), wanted, lambda *_: None)
    assert done.text.startswith("bad: it sent an answer that this version does not know: ")
    endless = Stage(lambda: itertools.repeat(b"x" * 65536))
    (done,) = setup.install_packages(endless, (BAD,), wanted, lambda *_: None)
    assert done.text == "bad: it sent a line longer than 4,194,304 bytes"
