"""What a rank exchanges, and whether it trains alone, as the watch counts it; without torch."""

from __future__ import annotations

import os
import socket
import sys
import threading
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from training.watch import isolation as isolations
from training.watch.exchange import Collectives, Exchange, count_bytes
from training.watch.isolation import (
    PATIENCE,
    Isolation,
    IsolationWatch,
    find_driver,
    has_other_ways,
)
from training.watch.report import Program, WatchReport
from training.wire.events import expand
from training.wire.host_events import OutputText
from training.wire.rank_events import Collectives as Told
from training.wire.rank_events import Isolation as ToldIsolation
from training.wire.records import Record


class Tensor:
    def __init__(self, numbers: int) -> None:
        self.numbers = numbers

    def numel(self) -> int:
        return self.numbers

    def element_size(self) -> int:
        return 4


class Broken(Tensor):
    def numel(self) -> int:
        raise RuntimeError("no numbers")


class Stage:
    """An exchange with a clock that is set by hand, and what it reports."""

    def __init__(self) -> None:
        self.time = 100.0
        self.told: list[Collectives] = []
        self.exchange = Exchange(self.told.append, lambda: self.time)

    def call(self, name: str, seconds: float = 0.0, **arguments: Any) -> None:
        self.exchange.begin(name, arguments)
        self.time += seconds
        self.exchange.end()


@pytest.fixture(autouse=True)
def torch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", SimpleNamespace(Tensor=Tensor))  # type: ignore[arg-type]


@pytest.fixture
def stage() -> Stage:
    return Stage()


# Collectives


def test_a_process_that_is_forked_has_counted_nothing_yet(stage: Stage) -> None:
    stage.call("broadcast", tensor=Tensor(10))
    stage.call("broadcast", tensor=Tensor(10))  # not reported yet
    stage.exchange.begin("barrier", {})  # the fork is made in a call
    stage.exchange.restart()
    assert (stage.exchange.calls_with_data, stage.exchange.bytes) == (0, 0)
    stage.call("all_reduce", tensor=Tensor(5))
    assert [(told.name, told.count) for told in stage.told[1:]] == [("all_reduce", 1)]


def test_the_first_call_is_told_at_once_and_others_once_a_second(stage: Stage) -> None:
    stage.call("broadcast", 0.1, tensor=Tensor(10))
    assert stage.told == [Collectives(1, 40, 0.0, 0.0, "broadcast", inside=True)]
    for _ in range(5):
        stage.call("send", 0.25, tensor=Tensor(100))
    (_, second) = stage.told
    assert (second.count, second.bytes, second.name, second.inside) == (4, 1600, "send", False)
    assert (second.seconds, second.span) == (pytest.approx(1.1), pytest.approx(1.1))
    stage.exchange.report()
    assert sum(one.count for one in stage.told) == 6
    stage.exchange.report()
    assert len(stage.told) == 3, "there is nothing more to tell"


def test_who_comes_late_to_a_call_is_told_to_be_inside_it(stage: Stage) -> None:
    stage.call("send", tensor=Tensor(1))
    stage.time += 30
    stage.exchange.begin("recv", {"tensor": Tensor(1)})
    assert (stage.told[-1].name, stage.told[-1].inside) == ("recv", True)


def test_of_nested_calls_the_outermost_counts_with_the_tensors_of_all(stage: Stage) -> None:
    stage.exchange.begin("all_gather_object", {"obj": {"a": 1}})
    stage.call("all_gather", 1, tensor_list=[Tensor(2), Tensor(2)], tensor=Tensor(2))
    stage.call("all_gather", 1, tensor_list=[Tensor(9), Tensor(9)], tensor=Tensor(9))
    stage.exchange.end()
    stage.exchange.report()
    assert sum(one.count for one in stage.told) == 1
    assert sum(one.bytes for one in stage.told) == 4 * (2 * 2 + 2 * 9)
    assert sum(one.seconds for one in stage.told) == 2
    stage.exchange.begin("all_to_all", {"output": [Tensor(3)]})
    stage.call("isend", tensor=Tensor(3))
    assert stage.exchange.bytes == 4 * (22 + 3)


def test_a_wait_is_no_call_and_a_transfer_no_wait(stage: Stage) -> None:
    stage.exchange.add("irecv", {"tensor": Tensor(5)})
    stage.call("", 2)
    assert [(one.count, one.bytes, one.seconds) for one in stage.told] == [(1, 20, 0), (0, 0, 2)]
    assert stage.told[-1].name == "irecv"


def test_waits_alone_are_not_told(stage: Stage) -> None:
    stage.call("", 2)
    stage.exchange.report()
    assert stage.told == []


def test_one_thread_reports_for_all(stage: Stage) -> None:
    stage.call("rpc_sync")
    stage.time += 10
    other = threading.Thread(target=lambda: stage.call("rpc_sync", args=(Tensor(2),)))
    other.start()
    other.join()
    assert len(stage.told) == 1
    stage.call("rpc_sync")
    assert [one.count for one in stage.told] == [1, 2]


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ((Tensor(3), 1, None, "x"), 12),
        ((Tensor(3), [Tensor(3), Tensor(4)]), 28),
        (([[Tensor(1)], [Tensor(2)]],), 12),
        (("worker1", print, (Tensor(6), 1.0), None), 24),
        (([0] * 10,), 0),
        (([],), 0),
        ((Broken(3), Tensor(1)), 0),
        (([[[[[Tensor(1)]]]]],), 0),
    ],
)
def test_the_bytes_of_a_call(arguments: tuple[Any, ...], expected: int) -> None:
    assert count_bytes(arguments) == expected


# Ranks that train alone


class Group:
    def __init__(self, size: int = 2) -> None:
        self.ranks = size
        self.sequence = 7

    def size(self) -> int:
        return self.ranks

    def _get_sequence_number_for_group(self) -> int:
        return self.sequence


class Trained(Stage):
    """A rank whose steps are told to the watch."""

    def __init__(self) -> None:
        super().__init__()
        self.alone: list[tuple[int, bool, str, bool]] = []
        self.watch = IsolationWatch(self.exchange, self.take)
        self.optimizer = SimpleNamespace(param_groups=[{"params": [Tensor(60), Tensor(40)]}])

    def take(self, one: Isolation) -> None:
        self.alone.append((one.steps, one.has_group, one.driver, one.over))

    def steps(self, number: int = PATIENCE, *, evaluated: bool = False) -> Trained:
        for _ in range(number):
            self.watch.step(self.optimizer, has_evaluated=evaluated)
        return self


@pytest.fixture
def trained(monkeypatch: pytest.MonkeyPatch) -> Trained:
    monkeypatch.setenv("WORLD_SIZE", "2")
    monkeypatch.setattr(isolations, "has_other_ways", lambda: False)
    monkeypatch.delitem(sys.modules, "torch.distributed.distributed_c10d", raising=False)
    return Trained()


@pytest.fixture
def group(monkeypatch: pytest.MonkeyPatch) -> Group:
    made = Group()
    module = SimpleNamespace(_world=SimpleNamespace(pg_map={made: None}))
    monkeypatch.setitem(sys.modules, "torch.distributed.distributed_c10d", module)  # type: ignore[arg-type]
    return made


def test_a_rank_without_a_group_trains_alone_after_some_steps(trained: Trained) -> None:
    assert trained.steps(PATIENCE - 1).alone == []
    assert trained.steps(1).alone == [(PATIENCE, False, "", False)]
    trained.steps(100)
    assert len(trained.alone) == 1


def test_so_does_one_with_a_group_that_it_does_not_use_until_it_does(
    trained: Trained, group: Group
) -> None:
    trained.steps()
    trained.call("barrier")
    trained.steps(30)
    assert trained.alone == [(PATIENCE, True, "", False)]
    trained.call("all_reduce", tensor=Tensor(1))
    trained.steps(1)
    assert trained.alone[1:] == [(PATIENCE, True, "", True)]
    assert len(trained.steps(100).alone) == 2


def test_one_whose_model_was_sent_before_the_first_step_is_not_alone(trained: Trained) -> None:
    trained.call("broadcast", tensor=Tensor(50))
    assert trained.steps(100).alone == []


def test_once_steps_are_made_and_something_is_exchanged_nothing_is_counted(
    trained: Trained,
) -> None:
    trained.watch.connect()
    trained.call("broadcast", tensor=Tensor(1))
    trained.steps(1)
    trained.call("all_gather", tensor=Tensor(1))
    trained.exchange.add("isend", {"tensor": Tensor(1)})
    trained.exchange.report()
    assert [one.name for one in trained.told] == ["broadcast"]


def test_a_seed_that_was_sent_before_the_first_step_is_no_model(trained: Trained) -> None:
    trained.call("broadcast", tensor=Tensor(1))
    assert trained.steps().alone


def test_what_an_evaluation_sums_up_is_no_exchange(trained: Trained, group: Group) -> None:
    trained.steps(5)
    trained.call("all_reduce", tensor=Tensor(1))
    group.sequence += 1
    trained.steps(1, evaluated=True)
    assert trained.steps(PATIENCE - 6).alone


@pytest.mark.parametrize("how", ["call", "in C++", "ddp", "other", "alone in the world", "unknown"])
def test_no_rank_is_accused_that_may_exchange_something(
    how: str, trained: Trained, group: Group, monkeypatch: pytest.MonkeyPatch
) -> None:
    trained.steps(3)
    if how == "call":
        trained.call("all_reduce", tensor=Tensor(1))
    elif how == "in C++":
        group.sequence += 1
    elif how == "ddp":
        trained.watch.connect()
    elif how == "other":
        monkeypatch.delitem(sys.modules, "torch.distributed.distributed_c10d")
        monkeypatch.setattr(isolations, "has_other_ways", lambda: True)
    elif how == "alone in the world":
        monkeypatch.setenv("WORLD_SIZE", "1")
        group.ranks = 1
    else:
        monkeypatch.setattr(Group, "_get_sequence_number_for_group", None)
    assert trained.steps(100).alone == []


@pytest.fixture
def connection() -> Iterator[socket.socket]:
    with (
        socket.create_server(("127.0.0.1", 0)) as server,
        socket.create_connection(server.getsockname()) as made,
    ):
        yield made


@pytest.mark.skipif(sys.platform != "linux", reason="it reads /proc")
def test_a_connection_of_its_own_is_another_way(
    connection: socket.socket, monkeypatch: pytest.MonkeyPatch
) -> None:
    port = connection.getpeername()[1]
    monkeypatch.setattr(isolations, "WEB_PORTS", set())
    assert has_other_ways()
    assert port in isolations._peer_ports()
    connection.close()
    assert port not in isolations._peer_ports()


def test_the_framework_that_calls_the_optimiser_is_found() -> None:
    assert find_driver() == ""
    for module, driver in (
        ("lightning.fabric.wrappers", "fabric"),
        ("pytorch_lightning.core.optimizer", "lightning"),
        ("accelerate.optimizer", "accelerate"),
        ("lightning_utilities", ""),
    ):
        calling: dict[str, Any] = {"__name__": module, "find_driver": find_driver}
        exec("def step(): return find_driver()", calling)
        assert calling["step"]() == driver


def test_both_are_written_as_the_wire_has_them() -> None:
    end, pipe = os.pipe()
    channel = f"{pipe}:{os.getpid()}:{os.fstat(pipe).st_ino}"
    report = WatchReport(channel, Program(3, 4))
    report.collectives(Collectives(5, 6_000, 0.25, 1.5, "all_reduce", inside=True))
    report.isolation(Isolation(20, has_group=True, driver="fabric", over=True))
    report.close()
    text = OutputText(3, "stdout", os.read(end, 1 << 16).decode().rstrip("\n"))
    os.close(end)
    os.close(pipe)
    assert [one.event for one in expand(Record(0, 0, 1, 2e9, text))] == [
        Told(3, 5, 6_000, 0.25, 1.5, "all_reduce", inside=True),
        ToldIsolation(3, 20, has_group=True, driver="fabric", over=True),
    ]
