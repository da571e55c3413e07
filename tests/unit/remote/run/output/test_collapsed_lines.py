"""Equal lines of several ranks as one."""

from __future__ import annotations

import random

import pytest

from remote.format import short_ranks
from remote.run.output import collapsed_lines as collapse
from remote.run.output.collapsed_lines import LineCollapser
from remote.run.state.types import LogLine


class Feed:
    """Lines, and the rows that they come to."""

    def __init__(self) -> None:
        self.collapse = LineCollapser()
        self.rows: list[LogLine] = []
        self.count = 0
        self.now = 1000.0

    def say(self, rank: int, *texts: str, host: str = "", stream: str = "stdout") -> None:
        for text in texts:
            self.add([self.line(rank, text, host or f"node{rank + 1}", stream)])

    def line(self, rank: int, text: str, host: str = "node1", stream: str = "stderr") -> LogLine:
        self.count += 1
        return LogLine(self.count - 1, self.now, host, rank, stream, text)

    def add(self, lines: list[LogLine]) -> None:
        """All at once."""
        self.rows += self.collapse.add(lines)[0]

    def shown(self) -> list[tuple[str, str]]:
        found = []
        for line in self.rows:
            shared = self.collapse.shared.get(line.number)
            whose = short_ranks(shared.ranks) if shared else str(line.rank)
            found.append((whose, shared.text if shared else line.text))
        return found


def test_equal_lines_of_several_ranks_are_one() -> None:
    feed = Feed()
    for rank in (0, 1, 3):
        feed.say(rank, "loading")
    feed.say(2, "other")
    feed.say(2, "loading")
    assert feed.shown() == [("0-1,3", "loading"), ("2", "other"), ("2", "loading")]


def test_the_lines_of_a_rank_stay_in_order_and_all_that_it_repeats() -> None:
    feed = Feed()
    for rank in range(3):
        feed.say(rank, "a", "b", "a", "c")
    assert feed.shown() == [("0-2", text) for text in "abac"]
    feed.say(3, "b", "a")
    assert feed.shown()[1:3] == [("0-3", "b"), ("0-3", "a")]
    feed.say(3, "b")
    assert feed.shown()[-1] == ("3", "b")


@pytest.mark.parametrize("seed", range(20))
def test_whatever_ranks_print_their_rows_have_their_lines_in_order(seed: int) -> None:
    chance = random.Random(seed)
    feed = Feed()
    said: dict[int, list[str]] = {rank: [] for rank in range(4)}
    for _ in range(400):
        rank, text = chance.randrange(4), chance.choice("abcde")
        said[rank].append(text)
        feed.say(rank, text)
    for rank, texts in said.items():
        rows = [
            line.text
            for line in feed.rows
            if rank
            in (shared.ranks if (shared := feed.collapse.shared.get(line.number)) else [line.rank])
        ]
        assert rows == texts
    assert len(feed.rows) < 300


def test_lines_that_differ_in_the_number_of_their_rank_or_in_its_host_are_equal() -> None:
    feed = Feed()
    for rank in range(2):
        feed.say(rank, f"rank {rank} of 2 reads on node{rank + 1}")
    feed.say(0, "rank 1 is slow")
    feed.say(1, "rank 1 is slow")
    assert feed.shown() == [
        ("0-1", "rank * of 2 reads on *"),
        ("0", "rank 1 is slow"),
        ("1", "rank 1 is slow"),
    ]


@pytest.mark.parametrize(
    "stamped",
    [
        "[rank{rank}]:[W1123 18:36:40.4091{rank}3 socket.cpp:752] retry",
        "2026-11-23 18:36:4{rank},409 WARNING retry",
        "[2026-11-23T18:36:4{rank}Z] retry",
    ],
)
def test_lines_that_differ_in_their_time_are_equal_and_the_first_is_shown(stamped: str) -> None:
    feed = Feed()
    for rank in range(3):
        feed.say(rank, stamped.format(rank=rank))
    [(ranks, text)] = feed.shown()
    assert ranks == "0-2"
    assert stamped.format(rank=0).endswith(text)


def test_equal_lines_are_one_for_a_moment_only() -> None:
    feed = Feed()
    feed.say(0, "saved")
    feed.now += collapse.MOMENT - 1
    feed.say(1, "saved")
    feed.now += 2 * collapse.MOMENT + 2
    feed.say(2, "saved")
    assert feed.shown() == [("0-1", "saved"), ("2", "saved")]


def test_only_recent_lines_are_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(collapse, "RECENT", 10)
    feed = Feed()
    feed.say(0, "first", *map(str, range(8)))
    feed.say(1, "first")
    feed.say(0, *map(str, range(100, 120)))
    feed.say(2, "first")
    assert [whose for whose, text in feed.shown() if text == "first"] == ["0-1", "2"]
    assert sum(map(len, (feed.collapse._new, feed.collapse._old))) <= 20


def test_what_hosts_print_stays_as_it_is() -> None:
    feed = Feed()
    for host in ("node1", "node2"):
        feed.say(-1, "torch 2.14.1 imported", host=host)
    assert len(feed.rows) == 2


def test_a_traceback_is_one_with_an_equal_one_as_a_whole_or_not_at_all() -> None:
    head = "Traceback (most recent call last):"
    feed = Feed()
    victims = [
        feed.line(rank, f"[rank{rank}]: {text.format(rank)}")
        for text in (head, "  main()", "RuntimeError: closed by peer [10.10.1.2]:632{}")
        for rank in (0, 2, 3)
    ]
    culprit = [feed.line(1, text) for text in (head, "  main()", "  load()", "ValueError: bad")]
    feed.add([*victims, *culprit, feed.line(1, "goodbye")])
    assert feed.shown() == [
        ("0,2-3", head),
        ("0,2-3", "  main()"),
        ("0,2-3", "RuntimeError: closed by peer *"),
        ("1", head),
        ("1", "  main()"),
        ("1", "  load()"),
        ("1", "ValueError: bad"),
        ("1", "goodbye"),
    ]


def test_of_very_many_lines_at_once_only_errors_are_made_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(collapse, "BURST", 4)
    feed = Feed()
    texts = (("line", "stdout"), ("KeyError: 3", "stderr"), ("end", "stdout"))
    feed.add([feed.line(rank, text, stream=stream) for rank in (0, 1) for text, stream in texts])
    assert feed.shown() == [
        ("0", "line"),
        ("0-1", "KeyError: 3"),
        ("0", "end"),
        ("1", "line"),
        ("1", "end"),
    ]
    feed.add([feed.line(1, "KeyError: 3")])
    assert feed.shown()[-1] == ("1", "KeyError: 3")
