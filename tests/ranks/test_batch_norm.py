"""BatchNorm's modes on ranks that share a batch: synchronised layers are as good as one process
with the whole of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn
from torch.testing import assert_close

from tests.kit.forked_ranks import Forker
from tests.kit.rank_calls import call
from training.batch_norm.layers import BatchNorm, batch_dependent
from training.meter import Meter
from training.place import Place

CPU = torch.device("cpu")
EXACT = {"rtol": 1e-9, "atol": 1e-12}


class Shifted(nn.Module):
    """Adds a number, which makes the mean large beside the deviation."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + 20


def vectors(layer: nn.Module) -> nn.Module:
    return nn.Sequential(nn.Linear(6, 6), layer, nn.Tanh(), nn.Linear(6, 3))


def images(layer: nn.Module, *more: nn.Module) -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(2, 4, 3), *more, layer, nn.Tanh(), nn.Flatten(), nn.Linear(16, 3)
    )


def volumes(layer: nn.Module) -> nn.Module:
    return nn.Sequential(
        nn.Conv3d(2, 4, (1, 3, 3)), layer, nn.Tanh(), nn.Flatten(), nn.Linear(16, 3)
    )


def shared() -> nn.Module:
    """One layer that is used twice, and one that is frozen."""
    twice, frozen = nn.BatchNorm2d(4), nn.BatchNorm2d(4)
    with torch.no_grad():
        frozen.running_mean += 0.3  # type: ignore[operator]
        frozen.running_var *= 1.7  # type: ignore[operator]
    return images(nn.Sequential(twice, nn.Tanh(), twice, frozen.eval()))


NETS: dict[str, tuple[Callable[[], nn.Module], tuple[int, ...], torch.dtype]] = {
    "1d": (lambda: vectors(nn.BatchNorm1d(6)), (6,), torch.float64),
    "2d": (lambda: images(nn.BatchNorm2d(4)), (2, 4, 4), torch.float64),
    "3d": (lambda: volumes(nn.BatchNorm3d(4)), (2, 1, 4, 4), torch.float64),
    "cumulative": (lambda: images(nn.BatchNorm2d(4, momentum=None)), (2, 4, 4), torch.float64),
    "plain": (lambda: images(nn.BatchNorm2d(4, affine=False, eps=1e-3)), (2, 4, 4), torch.float64),
    "no bias": (lambda: images(nn.BatchNorm2d(4, bias=False)), (2, 4, 4), torch.float64),
    "memoryless": (
        lambda: images(nn.BatchNorm2d(4, track_running_stats=False)),
        (2, 4, 4),
        torch.float64,
    ),
    "first": (
        lambda: nn.Sequential(nn.BatchNorm2d(2), nn.Flatten(), nn.Linear(32, 3)),
        (2, 4, 4),
        torch.float64,
    ),
    "shared": (shared, (2, 4, 4), torch.float64),
    "shifted": (lambda: images(nn.BatchNorm2d(4), Shifted()), (2, 4, 4), torch.float64),
    "single": (lambda: images(nn.BatchNorm2d(4)), (2, 4, 4), torch.float32),
    "single shifted": (lambda: images(nn.BatchNorm2d(4), Shifted()), (2, 4, 4), torch.float32),
}
SHARES = {2: (1, 6), 3: (4, 1, 2)}
"""Samples of each rank: uneven, with a share of one."""
STEPS = 3


def made(name: str) -> tuple[nn.Module, list[torch.Tensor]]:
    """The net, with parameters of BatchNorm that differ from channel to channel, and the joined
    batches."""
    build, shape, dtype = NETS[name]
    torch.manual_seed(0)
    net = build().to(dtype)
    with torch.no_grad():
        for parameter in net.parameters():
            parameter += 0.1 * torch.randn_like(parameter)
    return net, [2 * torch.randn(7, *shape, dtype=dtype) + step for step in range(STEPS)]


def trained(
    name: str, place: Place, convert: Callable[[nn.Module], nn.Module]
) -> dict[str, torch.Tensor]:
    """A rank's outputs, gradients (means over the ranks, as a sync method makes them) and buffers
    after a few steps of SGD."""
    net, batches = made(name)
    net = convert(net)
    ends = torch.tensor((0, *SHARES.get(place.world_size, (7,)))).cumsum(0)
    own, found = slice(int(ends[place.rank]), int(ends[place.rank + 1])), {}
    for step, batch in enumerate(batches):
        net.zero_grad()
        inputs = batch[own].clone().requires_grad_()
        outputs = net(inputs)
        (outputs.sin().sum() * place.world_size / 7).backward()
        assert inputs.grad is not None
        found |= {
            f"{step} outputs": outputs.detach(),
            f"{step} input": inputs.grad / place.world_size,
        }
        for parameter_name, parameter in net.named_parameters():
            assert parameter.grad is not None
            if place.world_size > 1:
                torch.distributed.all_reduce(parameter.grad)
            parameter.grad /= place.world_size
            found[f"{step} {parameter_name}"] = parameter.grad.clone()
            parameter.data -= 0.1 * parameter.grad
    return found | {f"buffer {buffer_name}": buffer for buffer_name, buffer in net.named_buffers()}


def synchronised(place: Place) -> dict[str, dict[str, torch.Tensor]]:
    meter = Meter(CPU)
    mode = BatchNorm("sync", place, meter, range(place.world_size))
    return {name: trained(name, place, mode.convert) for name in NETS}


class Buffers(nn.Module):
    """Buffers of several types and shapes, BatchNorm's among them."""

    def __init__(self, norm: bool = True) -> None:
        super().__init__()
        self.norm = nn.BatchNorm2d(3) if norm else nn.Identity()
        self.register_buffer("seen", torch.tensor(0))
        self.register_buffer("mask", torch.zeros(2, 2, dtype=torch.bool))
        self.register_buffer("average", torch.zeros(2, 3).t())

    def mark(self, rank: int) -> None:
        """Makes every buffer tell its rank."""
        for buffer in self.buffers():
            buffer.fill_(rank)


def buffers_of(net: nn.Module) -> dict[str, torch.Tensor]:
    return {name: buffer.clone() for name, buffer in net.named_buffers()}


def settled(place: Place) -> dict[str, dict[str, torch.Tensor]]:
    """The buffers after settling, in the modes `broadcast` and `local`, where rank 0 does not train
    and where all do."""
    found: dict[str, dict[str, torch.Tensor]] = {}
    for mode in ("broadcast", "local"):
        for first in (0, 1):
            batch_norm = BatchNorm(mode, place, Meter(CPU), range(first, place.world_size))
            net = batch_norm.convert(Buffers())
            net.mark(place.rank)  # type: ignore[operator]
            batch_norm.settle(net)
            found[f"{mode} {first}"] = buffers_of(net)
            with batch_norm.agreed(net):
                found[f"{mode} {first} agreed"] = buffers_of(net)
            found[f"{mode} {first} after"] = buffers_of(net)
    return found


def bare(place: Place) -> list[str]:
    """What becomes of a model that has no BatchNorm, or no buffer at all, in each mode."""
    kinds = []
    for mode in ("broadcast", "local", "sync", "untracked"):
        batch_norm = BatchNorm(mode, place, Meter(CPU), range(place.world_size))
        for net in (Buffers(norm=False), nn.Linear(2, 2)):
            converted = batch_norm.convert(net)
            assert converted is net
            assert not batch_norm.own(net)
            batch_norm.settle(net)
            with batch_norm.agreed(net):
                kinds.append(type(net).__name__)
    return kinds


def measured(place: Place) -> list[float]:
    """What the meter says of a step: whether it waited, and bytes sent."""
    meter = Meter(CPU)
    net = BatchNorm("sync", place, meter, range(place.world_size)).convert(
        images(nn.BatchNorm2d(4))
    )
    meter.start()
    net(torch.randn(2, 2, 4, 4)).sum().backward()
    lap = meter.lap()
    return [len(lap.waits), lap.phases()["sync"], lap.figures.get("bytes_sent", 0)]


def served(place: Place) -> list[str]:
    """The layer of each rank where rank 0 does not train; the others take a step without it."""
    net = BatchNorm("sync", place, Meter(CPU), range(1, place.world_size)).convert(
        nn.BatchNorm1d(4)
    )
    if place.rank:
        net(torch.randn(2, 4)).sum().backward()
    return [type(net).__name__, *net.state_dict()]


def compiled(place: Place) -> list[float]:
    """The largest differences of a compiled model's gradients and buffers from those of the model
    as it is."""
    meter, batch, nets = Meter(CPU), torch.randn(2 + place.rank, 2, 4, 4), []
    for _ in range(2):
        torch.manual_seed(0)
        nets.append(
            BatchNorm("sync", place, meter, range(place.world_size)).convert(
                images(nn.BatchNorm2d(4))
            )
        )
    for net in (nets[0], torch.compile(nets[1], backend="eager")):
        net(batch).sin().sum().backward()
    plain, same = ([*(p.grad for p in net.parameters()), *net.buffers()] for net in nets)
    return [float((one - other).abs().max()) for one, other in zip(plain, same, strict=True)]  # type: ignore[operator]


CALLED = ("synchronised", "settled", "bare", "measured", "served")


@pytest.fixture(scope="session")
def found(
    forked: Forker, tmp_path_factory: pytest.TempPathFactory
) -> dict[tuple[int, str], list[Any]]:
    return call(
        forked,
        tmp_path_factory.mktemp("ranks"),
        __name__,
        {2: ("synchronised", "compiled"), 3: CALLED},
    )


Found = dict[tuple[int, str], list[Any]]


@pytest.mark.parametrize("world", SHARES)
@pytest.mark.parametrize("name", NETS)
def test_synchronised_layers_are_one_process_with_the_joined_batch(
    found: Found, name: str, world: int
) -> None:
    alone = trained(name, Place(), lambda net: net)
    ranks = [ranks[name] for ranks in found[world, "synchronised"]]
    single = NETS[name][2] == torch.float32
    for key, expected in alone.items():
        if "outputs" in key or "input" in key:
            assert_close(
                torch.cat([rank[key] for rank in ranks]),
                expected,
                **_tolerance(expected, single),
                msg=key,
            )
        else:
            for rank in ranks:
                assert_close(rank[key], expected, **_tolerance(expected, single), msg=key)


def _tolerance(expected: torch.Tensor, single: bool) -> dict[str, float]:
    largest = expected.abs().max().item()
    return {"rtol": 0.0, "atol": 2e-5 * max(1.0, largest)} if single else EXACT


def test_each_way_is_one_message_and_is_waiting(found: Found) -> None:
    for waits, seconds, sent in found[3, "measured"]:
        assert waits == 2
        assert seconds > 0
        assert sent == 2 * 2 * 8 * (1 + 4 + 4) // 3 + 2 * 2 * 8 * (4 + 4) // 3


def test_a_rank_that_does_not_train_keeps_its_layer_and_its_names(found: Found) -> None:
    kinds, names = zip(*((kind, names) for kind, *names in found[3, "served"]), strict=True)
    assert kinds == ("BatchNorm1d", "SyncBatchNorm", "SyncBatchNorm")
    assert (
        names[0]
        == names[1]
        == ["weight", "bias", "running_mean", "running_var", "num_batches_tracked"]
    )


@pytest.mark.parametrize("first", [0, 1])
def test_the_first_training_ranks_buffers_count(found: Found, first: int) -> None:
    for rank in found[3, "settled"]:
        for name, buffer in rank[f"broadcast {first}"].items():
            assert (
                buffer == bool(first) if buffer.dtype == torch.bool else buffer == first
            ).all(), name


@pytest.mark.parametrize("first", [0, 1])
def test_local_statistics_stay_each_ranks_but_for_a_common_evaluation(
    found: Found, first: int
) -> None:
    for number, rank in enumerate(found[3, "settled"]):
        after = rank[f"local {first}"]
        assert {
            name for name, buffer in after.items() if "norm" in name and (buffer == number).all()
        } == {
            "norm.running_mean",
            "norm.running_var",
            "norm.num_batches_tracked",
        }
        assert (after["seen"], after["average"].unique()) == (first, first)
        assert all((buffer == first).all() for buffer in rank[f"local {first} agreed"].values())
        for name, buffer in rank[f"local {first} after"].items():
            assert (buffer == after[name]).all()


def test_models_without_batch_norm_are_left_alone(found: Found) -> None:
    assert found[3, "bare"] == [["Buffers", "Linear"] * 4] * 3


def test_a_compiled_model_is_the_same(found: Found) -> None:
    assert found[2, "compiled"] == [[0.0] * 9] * 2


def test_untracked_layers_have_no_statistics() -> None:
    net = BatchNorm("untracked", Place(), Meter(CPU), [0]).convert(images(nn.BatchNorm2d(4)))
    assert not list(net.buffers())
    assert batch_dependent(net)
    batch = torch.randn(5, 2, 4, 4)
    assert_close(net.eval()(batch), net.train()(batch))
    assert not batch_dependent(images(nn.BatchNorm2d(4)))


def test_one_rank_alone_keeps_its_layers() -> None:
    net = images(nn.BatchNorm2d(4))
    assert BatchNorm("sync", Place(), Meter(CPU), [0]).convert(net) is net
    assert [
        type(layer) for layer in net.modules() if isinstance(layer, nn.modules.batchnorm._BatchNorm)
    ] == [nn.BatchNorm2d]
