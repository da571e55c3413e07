"""One way to act on all hosts at once."""

from __future__ import annotations

import math
import threading

import pytest

from remote.concurrently import iter_completed, map_concurrently, map_within


def test_results_come_in_the_order_of_the_items_whichever_ends_first() -> None:
    last_has_ended = threading.Event()

    def work(item: str) -> str:
        if item == "last":
            last_has_ended.set()
        else:
            assert last_has_ended.wait(20), "the items are worked on one after the other"
        return item.upper()

    assert map_concurrently(work, ["first", "second", "last"]) == ["FIRST", "SECOND", "LAST"]
    assert map_concurrently(work, []) == []


def test_an_error_of_one_is_raised_and_the_others_are_not_waited_for() -> None:
    release = threading.Event()

    def work(item: int) -> None:
        if item:
            raise ValueError(f"item {item}")
        release.wait(20)

    with pytest.raises(ValueError, match="item 1"):
        map_concurrently(work, [0, 1])
    release.set()


def test_what_takes_longer_than_it_may_is_left_out() -> None:
    release = threading.Event()

    def work(item: int) -> int:
        if item == 1:
            release.wait(20)
        return item * 10

    assert map_within(work, [0, 1, 2], 0.05).get(1) is None
    release.set()
    assert map_within(work, [0, 1, 2], math.inf) == {0: 0, 1: 10, 2: 20}


def test_a_caller_gets_a_turn_while_all_are_at_work() -> None:
    release = threading.Event()
    turns = []
    for done in iter_completed(lambda _: release.wait(20), ["slow"], every=0.01):
        turns.append(done)
        release.set()
    assert turns[0] is None
    assert turns[-1] == (0, True)
