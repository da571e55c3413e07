"""Local SGD: steps alone, averages when they are due, and nothing moved that no rank has used."""

from __future__ import annotations

import io
from functools import partial
from typing import Any
from unittest.mock import patch

import pytest
import torch
from torch import distributed, nn

from tests.kit import rank_calls
from tests.kit.forked_ranks import Forker
from training import options
from training.job import Job
from training.meter import Meter
from training.place import Place
from training.sync import local_sgd

THIRD = 0.1
"""In float32 its third, three times, adds up to another number."""


class Net(nn.Module):
    """`dead` is used by nobody, `first` where the forward is told so, and `frozen` needs no
    gradient."""

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.out = nn.Conv2d(2, 5, 3), nn.Linear(20, 3)
        self.first = nn.Parameter(torch.full((3,), 0.5))
        self.dead = nn.Parameter(torch.full((4,), THIRD))
        self.empty = nn.Parameter(torch.empty(0, 3))
        self.frozen = nn.Parameter(torch.full((3,), THIRD), requires_grad=False)

    def forward(self, pixels: torch.Tensor, first: bool) -> torch.Tensor:
        logits: torch.Tensor = (
            self.out(self.conv(pixels).tanh().flatten(1)) + self.frozen + self.empty.sum(0)
        )
        return logits * self.first if first else logits


class Run:
    """A rank with the method; and in this process all ranks without it, whom the test averages: the
    oracle."""

    def __init__(self, place: Place, words: str, dtype: torch.dtype = torch.float64) -> None:
        torch.manual_seed(3)
        self.place, self.dtype, self.step = place, dtype, 0
        self.net = Net().to(dtype)
        self.nets = [Net().to(dtype) for _ in range(place.world_size)]
        for net in self.nets:
            net.load_state_dict(self.net.state_dict())
        self.net.to(memory_format=torch.channels_last)
        self.meter = Meter(torch.device("cpu"))
        self.meter.watch(self.net)
        self.optimizer, *self.others = map(sgd, [self.net, *self.nets])
        self.method = local_sgd.Method(
            options.parse_options(options.declared_options("local_sgd"), words.split()),
            torch.bfloat16,
        )
        self.model = self.method.prepare(self.net, self.optimizer, place, self.meter)
        self.meter.start()

    def train(self, steps: int, accumulate: int = 2) -> list[int]:
        """Some steps: the bytes sent in each."""
        sent = []
        for _ in range(steps):
            self.optimizer.zero_grad()
            for micro in range(accumulate):
                with self.method.micro(last=micro == accumulate - 1):
                    self.backward(self.model, self.place.rank, micro)
            self.method.reduce()
            self.method.step(self.optimizer)
            for rank, (net, optimizer) in enumerate(zip(self.nets, self.others, strict=True)):
                optimizer.zero_grad()
                for micro in range(accumulate):
                    self.backward(net, rank, micro)
            self.step += 1
            sent.append(self.meter.lap().figures.get("bytes_sent", 0))
        return sent

    def backward(self, net: nn.Module, rank: int, micro: int) -> None:
        generator = torch.Generator().manual_seed(1000 * self.step + 100 * micro + rank)
        pixels = torch.randn(3, 2, 4, 4, generator=generator, dtype=self.dtype)
        first = (
            rank == 0 and self.step % 3 == 0
        )  # so that it is not used in a step in which parameters are averaged
        net(pixels, first).square().sum().backward()

    def oracle(self, exact: bool, average: bool) -> None:
        """The end of the step for the oracle: `exact` with the mean of the gradients; after it
        perhaps an average."""
        if exact:
            for of_ranks in zip(*(net.parameters() for net in self.nets), strict=True):
                grads = [p.grad for p in of_ranks if p.grad is not None]
                for p in of_ranks:
                    p.grad = sum(grads, torch.zeros_like(p)) / len(of_ranks) if grads else None
        for optimizer in self.others:
            optimizer.step()
        if average:
            self.average()

    def average(self) -> None:
        for of_ranks in zip(*(net.parameters() for net in self.nets), strict=True):
            mean = torch.stack([p.detach() for p in of_ranks]).mean(0)
            for p in of_ranks:
                p.data.copy_(mean)

    def equal(self) -> bool:
        """Whether this rank's parameters are what the oracle says."""
        return torch.allclose(flat(self.net), flat(self.nets[self.place.rank]), 1e-9, 1e-12)


def sgd(net: nn.Module) -> torch.optim.Optimizer:
    return torch.optim.SGD(net.parameters(), 0.01, momentum=0.9, weight_decay=0.1)


def flat(net: nn.Module) -> torch.Tensor:
    return torch.cat([parameter.detach().flatten() for parameter in net.parameters()])


# What ranks do ------------------------------------------------------------------------------------


def averages(place: Place) -> Any:
    """Nine steps, the first two exact, then an average after every third one."""
    run, equal, sent = Run(place, "every=3 warmup=2"), [], []
    for step in range(1, 10):
        sent += run.train(1)
        run.oracle(exact=step <= 2, average=step in (5, 8))
        equal.append(run.equal())
    return (
        equal,
        sent,
        run.net.state_dict(),
        sum(bucket.buffer.nbytes for bucket in run.method._gradients.buckets),
    )


def settles(place: Place) -> Any:
    """Settles in the warm-up, after an average and between two: the number of all-reduces each
    time."""
    run, calls = Run(place, "every=2 warmup=1"), []
    for step in range(1, 7):
        run.train(1)
        run.oracle(exact=step == 1, average=step in (3, 4, 6))
        with patch.object(distributed, "all_reduce", wraps=distributed.all_reduce) as all_reduce:
            if step in (1, 3, 4):
                run.method.settle()
            calls.append(all_reduce.call_count)
    return run.equal(), calls, run.net.state_dict()


def stays(place: Place) -> Any:
    """In single precision: what no rank moves keeps its bits."""
    run = Run(place, "every=2", torch.float32)
    run.train(4)
    return run.net.dead, run.net.frozen, run.net.first, run.net.dead.grad is None


def resumes(place: Place, words: str) -> Any:
    """A run that goes on after it has saved, and one that goes on from what it saved."""
    run, other = Run(place, words), Run(place, words)
    run.train(4)
    run.method.settle()
    file = io.BytesIO()
    torch.save([run.net.state_dict(), run.optimizer.state_dict(), run.method.state()], file)
    net, optimizer, state = torch.load(io.BytesIO(file.getvalue()))
    other.net.load_state_dict(net)
    other.optimizer.load_state_dict(optimizer)
    other.method.load(state)
    other.step = run.step
    run.train(4)
    other.train(4)
    return flat(run.net), flat(other.net)


resumes_alone = partial(resumes, words="every=3 warmup=1")
resumes_warming_up = partial(resumes, words="every=2 warmup=6")

# Tests --------------------------------------------------------------------------------------------

Outcomes = dict[tuple[int, str], list[Any]]
NAMES = ["averages", "settles", "stays", "resumes_alone", "resumes_warming_up"]


@pytest.fixture(scope="session")
def outcomes(forked: Forker, tmp_path_factory: pytest.TempPathFactory) -> Outcomes:
    return rank_calls.call(
        forked, tmp_path_factory.mktemp("ranks"), __name__, dict.fromkeys((1, 2, 3), NAMES)
    )


def same(ranks: list[Any]) -> bool:
    return all(torch.equal(ranks[0][name], rank[name]) for rank in ranks for name in rank)


@pytest.mark.parametrize("world", [1, 2, 3])
def test_parameters_are_averaged_every_so_many_steps_after_an_exact_warm_up(
    outcomes: Outcomes, world: int
) -> None:
    ranks = outcomes[world, "averages"]
    assert all(equal == [True] * 9 for equal, *_ in ranks)
    assert same([net for _, _, net, _ in ranks]) == (world == 1), "the ninth step was made alone"


@pytest.mark.parametrize("world", [1, 2, 3])
def test_bytes_are_sent_only_in_steps_with_traffic(outcomes: Outcomes, world: int) -> None:
    for _, sent, _, size in outcomes[world, "averages"]:
        ring = 2 * (world - 1) * size // world
        assert sent == [ring, ring, 0, 0, ring, 0, 0, ring, 0]


@pytest.mark.parametrize("world", [2, 3])
def test_settling_makes_one_model_and_no_needless_traffic(outcomes: Outcomes, world: int) -> None:
    ranks = outcomes[world, "settles"]
    assert all(equal for equal, *_ in ranks)
    assert [calls for _, calls, _ in ranks] == [[0, 0, 0, 1, 0, 0]] * world
    assert same([net for *_, net in ranks])


@pytest.mark.parametrize("world", [1, 2, 3])
def test_what_no_rank_moves_keeps_its_bits_and_what_one_moves_moves_on_all(
    outcomes: Outcomes, world: int
) -> None:
    ranks = outcomes[world, "stays"]
    for dead, frozen, first, no_gradient in ranks:
        assert torch.equal(dead, torch.full((4,), THIRD)), (
            "neither weight decay nor an average moved it"
        )
        assert torch.equal(frozen, torch.full((3,), THIRD))
        assert no_gradient
        assert torch.equal(first, ranks[0][2])
        assert not torch.equal(first, torch.full((3,), 0.5))


@pytest.mark.parametrize("world", [1, 2, 3])
@pytest.mark.parametrize("name", ["resumes_alone", "resumes_warming_up"])
def test_resuming_goes_on_as_a_run_that_saved_at_the_same_step(
    outcomes: Outcomes, name: str, world: int
) -> None:
    for uninterrupted, resumed in outcomes[world, name]:
        assert torch.equal(uninterrupted, resumed)


def test_its_ranks_differ_between_averages_and_it_says_so() -> None:
    assert not Job(sync="local_sgd").traits().exact


@pytest.mark.parametrize("word", ["every=0", "warmup=-1"])
def test_options_out_of_range_are_refused(word: str) -> None:
    with pytest.raises(options.OptionError, match=word):
        options.parse_options(options.declared_options("local_sgd"), [word])
