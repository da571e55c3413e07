"""Buckets of gradients without any other rank, and exchanges of them among forked ranks."""

import math
import os
import threading
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from tests.kit.forked_ranks import Forker
from tests.kit.rank_calls import call
from training import options, registry
from training.meter import Meter
from training.place import Place
from training.sync.common.bucketed import BackgroundExchange
from training.sync.common.gradients import Bucket, Gradients
from training.sync.ring import RingExchange, cut_into_chunks, view_scratch_like


class Net(nn.Module):
    """Layers of which a forward uses some, in its own order."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(2, 3, 2)
        self.first, self.second = nn.Linear(3, 4, bias=False), nn.Linear(3, 4, bias=False)
        self.dead = nn.Parameter(torch.ones(5))
        self.frozen = nn.Parameter(torch.ones(5), requires_grad=False)

    def forward(self, *names: str) -> torch.Tensor:
        hidden = self.conv(torch.arange(18.0).view(1, 2, 3, 3)).sum((2, 3))
        return torch.stack(
            [self.get_submodule(name)(hidden).square().sum() for name in names]
        ).sum()


@pytest.fixture
def net() -> Net:
    torch.manual_seed(0)
    return Net().to(memory_format=torch.channels_last)


def gradients(net: nn.Module, *, ranks: int = 1, **more: object) -> tuple[Gradients, list[int]]:
    """The net's gradients and, as it grows, the list of the buckets that are launched."""
    launched: list[int] = []
    return Gradients(net, lambda bucket: launched.append(bucket.index), ranks, **more), launched  # type: ignore[arg-type]


def backward(net: Net, made: Gradients, *names: str, last: bool = True) -> None:
    with made.micro(last):
        net(*names).backward()


def grad(layer: nn.Linear | nn.Conv2d) -> torch.Tensor:
    """The gradient of a layer's weight, which it has."""
    assert layer.weight.grad is not None
    return layer.weight.grad


def unpack(made: Gradients) -> None:
    for bucket in made.buckets:
        made.unpack(bucket)


def test_buckets_take_the_last_parameters_first_and_are_closed_once_they_hold_their_size() -> None:
    net = nn.Sequential(
        *(nn.Linear(10, width, bias=False) for width in (10, 30, 5, 5, 20))
    )  # 400, 1200, 200, 200, 800 bytes
    made, _ = gradients(net, bucket_mb=0.001)
    held = [[parameter.shape[0] for parameter in bucket.parameters] for bucket in made.buckets]
    assert held == [[20, 5], [5, 30], [10]]
    assert [bucket.buffer.numel() for bucket in made.buckets] == [252, 352, 101]
    assert [len(gradients(net, bucket_mb=size)[0].buckets) for size in (0, math.inf)] == [5, 1]
    assert made.size == 4 * (700 + 5), "with a flag for each"


def test_a_bucket_is_of_one_type() -> None:
    net = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2).double(), nn.Linear(2, 2).double())
    kinds = [bucket.buffer.dtype for bucket in gradients(net)[0].buckets]
    assert kinds == [torch.float64, torch.float32]
    assert [
        bucket.buffer.dtype for bucket in gradients(net, gradient_dtype=torch.bfloat16)[0].buckets
    ] == [torch.bfloat16]


def test_gradients_are_the_shares_of_a_mean_and_become_views_with_the_parameters_strides(
    net: Net,
) -> None:
    made, _ = gradients(net, ranks=4)
    net("first").backward()
    whole = grad(net.conv)
    net.zero_grad()
    backward(net, made, "first")
    made.flush()
    (bucket,) = made.buckets
    assert torch.equal(grad(net.conv) * 4, whole)
    assert (
        grad(net.conv).stride() == net.conv.weight.stride() != net.conv.weight.contiguous().stride()
    )
    assert grad(net.conv).untyped_storage().data_ptr() == bucket.buffer.untyped_storage().data_ptr()


def test_buckets_are_launched_inside_the_last_backward_and_in_index_order(net: Net) -> None:
    made, launched = gradients(
        net, bucket_mb=0
    )  # buckets: second, first, conv.bias, conv.weight, dead
    assert [bucket.parameters[0] is net.dead for bucket in made.buckets] == [
        False,
        False,
        False,
        False,
        True,
    ]
    backward(net, made, "first", "second", last=False)
    assert launched == []
    backward(net, made, "first", "second")
    assert launched == [0, 1, 2, 3]
    made.flush()
    assert launched == [0, 1, 2, 3, 4]


def test_a_bucket_that_is_full_waits_for_those_before_it(net: Net) -> None:
    made, launched = gradients(net, bucket_mb=0)
    backward(net, made, "first")
    assert launched == [], "second's bucket is the first, and it has not come"
    made.flush()
    assert launched == [0, 1, 2, 3, 4]


def test_without_overlap_nothing_is_launched_before_flush(net: Net) -> None:
    made, launched = gradients(net, overlap=False)
    backward(net, made, "first", "second")
    assert launched == []
    made.flush()
    assert launched == [0]


@pytest.mark.parametrize("gradient_dtype", [torch.float32, torch.bfloat16])
def test_what_nobody_used_keeps_no_gradient_and_what_another_rank_used_has_its(
    net: Net, gradient_dtype: torch.dtype
) -> None:
    made, _ = gradients(net, ranks=2, gradient_dtype=gradient_dtype)
    backward(net, made, "first")
    made.flush()
    (bucket,) = made.buckets
    index = {id(parameter): i for i, parameter in enumerate(bucket.parameters)}
    second = index[id(net.second.weight)]
    assert bucket.views[second].eq(0).all()
    bucket.views[second].fill_(3)  # what the exchange would bring
    bucket.flags[second] += 1
    unpack(made)
    assert net.dead.grad is None
    assert grad(net.second).eq(3).all()
    assert {p.grad.dtype for p in net.parameters() if p.grad is not None} == {torch.float32}
    assert net.frozen.grad is None
    assert all(p is not net.frozen for p in bucket.parameters)


def test_values_of_the_step_before_do_not_come_back(net: Net) -> None:
    made, _ = gradients(net)
    for names in (("first", "second"), ("first",)):
        net.zero_grad()
        backward(net, made, *names)
        made.flush()
        unpack(made)
    assert net.second.weight.grad is None
    assert net.first.weight.grad is not None
    (bucket,) = made.buckets
    views = {
        id(parameter): view for parameter, view in zip(bucket.parameters, bucket.views, strict=True)
    }
    assert views[id(net.second.weight)].eq(0).all()


@pytest.mark.parametrize("gradient_dtype", [torch.float32, torch.bfloat16])
def test_accumulated_gradients_are_packed_whole(net: Net, gradient_dtype: torch.dtype) -> None:
    made, _ = gradients(net, gradient_dtype=gradient_dtype)
    for names in (("first",), ("first", "second")):
        net(*names).backward()
    expected = [None if p.grad is None else p.grad.clone() for p in net.parameters()]
    net.zero_grad()
    backward(net, made, "first", last=False)
    backward(net, made, "first", "second", last=True)
    made.flush()
    unpack(made)
    for parameter, gradient in zip(net.parameters(), expected, strict=True):
        torch.testing.assert_close(
            parameter.grad, gradient, rtol=1e-2 if gradient_dtype == torch.bfloat16 else 0, atol=0
        )


def test_a_gradient_of_an_earlier_micro_batch_alone_is_packed(net: Net) -> None:
    made, _ = gradients(net, ranks=2)
    net("second").backward()
    expected = grad(net.second) / 2
    net.zero_grad()
    backward(net, made, "second", last=False)
    backward(net, made, "first")
    made.flush()
    unpack(made)
    assert torch.equal(grad(net.second), expected)


@pytest.mark.parametrize(
    ("elements", "ranks", "segments"), [(10, 3, 2), (2, 4, 1), (0, 2, 3), (7, 1, 1), (5, 4, 3)]
)
def test_a_buffer_is_cut_evenly_and_whole(elements: int, ranks: int, segments: int) -> None:
    chunks = cut_into_chunks(torch.arange(elements), ranks, segments)
    assert [len(chunk) for chunk in chunks] == [segments] * ranks
    sizes = [segment.numel() for chunk in chunks for segment in chunk]
    assert max(sizes) - min(sizes) <= 1
    assert torch.cat([segment for chunk in chunks for segment in chunk]).tolist() == list(
        range(elements)
    )


def test_room_for_what_arrives_does_not_overlap() -> None:
    rooms = view_scratch_like(
        torch.zeros(100, dtype=torch.uint8), [torch.empty(3), torch.empty(0), torch.empty(2)]
    )
    for number, room in enumerate(rooms):
        room.fill_(number)
    assert [room.tolist() for room in rooms] == [[0] * 3, [], [2] * 2]


def bucket(index: int) -> Bucket:
    return Bucket(index, torch.zeros(1), (), (), torch.zeros(0))


def exchange_threads() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "exchange"]


@pytest.mark.parametrize("threaded", [True, False])
def test_an_exchange_takes_what_is_launched_and_its_thread_ends_with_the_step(
    threaded: bool,
) -> None:
    where: set[bool] = set()

    def exchange(launched: Iterator[Bucket]) -> Iterator[Bucket]:
        for bucket in launched:
            where.add(threading.current_thread() is not threading.main_thread())
            yield bucket

    background = BackgroundExchange(exchange, threaded)
    for _ in range(3):
        for index in range(4):
            background.launch(bucket(index))
        assert [found.index for found in background.exchanged()] == [0, 1, 2, 3]
        assert not exchange_threads()
    assert where == {threaded}


@pytest.mark.parametrize("threaded", [True, False])
def test_what_an_exchange_raises_reaches_the_caller(threaded: bool) -> None:
    def exchange(launched: Iterator[Bucket]) -> Iterator[Bucket]:
        yield next(launched)
        raise RuntimeError("Connection closed by peer")

    background = BackgroundExchange(exchange, threaded)
    for index in range(3):
        background.launch(bucket(index))
    exchanged = background.exchanged()
    assert next(exchanged).index == 0
    with pytest.raises(RuntimeError, match="closed by peer"):
        next(exchanged)
    assert not exchange_threads()


def ring(place: Place) -> dict[str, list[float]]:
    """As a rank: the rings of small buffers, by segments and by paired chunks."""
    found = {}
    for elements in (1, 2, 3, 1000):
        for segment in (4, 1000):
            room = torch.empty(8 * elements, dtype=torch.uint8)
            around = RingExchange(place.rank, place.world_size, room, segment)
            for name in ("sum_by_segments", "sum_by_pairs"):
                buffer = torch.arange(elements, dtype=torch.float64) * (place.rank + 1) / 3
                getattr(around, name)(buffer)
                found[f"{name} {elements} {segment}"] = buffer.tolist()
    return found


def bereft(place: Place, words: str) -> dict[str, Any]:
    """As a rank: what it sees when the last one dies after the first step."""
    torch.manual_seed(0)
    net, meter = nn.Linear(50, 50), Meter(torch.device("cpu"))
    name, *chosen = words.split()
    parsed = options.parse_options(options.declared_options(name), chosen)
    method = registry.load_module("sync", name).Method(parsed, torch.float32)
    optimizer = torch.optim.SGD(net.parameters(), 0.1)
    method.prepare(net, optimizer, replace(place, group_rank=place.rank // 2), meter)
    for step in range(2):
        net.zero_grad()
        if step == 1 and place.rank == place.world_size - 1:
            os._exit(0)
        with method.micro(last=True):
            net(torch.ones(50)).sum().backward()  # type: ignore[no-untyped-call]
        try:
            method.reduce()
        except RuntimeError as error:
            return {"error": str(error), "threads": len(exchange_threads())}
    raise AssertionError("no exception")


bereft_all_reduce = partial(bereft, words="all_reduce")
bereft_all_reduce_by_parameter = partial(bereft, words="all_reduce granularity=parameter")
bereft_ring = partial(bereft, words="ring")
bereft_gather_scatter = partial(bereft, words="gather_scatter")
bereft_gather_scatter_by_parameter = partial(bereft, words="gather_scatter granularity=parameter")
bereft_hierarchical = partial(bereft, words="hierarchical")


def test_both_rings_sum_to_the_same_bits_on_every_rank(forked: Forker, tmp_path: Path) -> None:
    for (world, _), said in call(forked, tmp_path, __name__, {2: ["ring"], 3: ["ring"]}).items():
        assert len(said) == world
        assert all(of_rank == said[0] for of_rank in said)
        assert len(said[0]) == 16
        for name, sums in said[0].items():
            elements, factor = int(name.split()[1]), sum(range(1, world + 1)) / 3
            assert sums == pytest.approx([i * factor for i in range(elements)], rel=1e-14)


@pytest.mark.parametrize("name", [name for name in dir() if name.startswith("bereft_")])
def test_a_dead_rank_is_an_exception_on_the_others_and_no_thread_is_left(
    forked: Forker, tmp_path: Path, name: str
) -> None:
    *said, dead = call(forked, tmp_path, __name__, {3: [name]})[3, name]
    assert dead is None
    assert all("peer" in of_rank["error"] and not of_rank["threads"] for of_rank in said), said
