"""DDP as a sync method: exact where it claims to be, whatever the ranks use of the model, and
compressed as asked."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any
from unittest.mock import patch

import pytest
import torch
from torch import distributed, nn

from tests.kit import rank_calls
from tests.kit.forked_ranks import Forker
from training import options
from training.job import JobError
from training.meter import Meter
from training.place import Place
from training.sync import SyncMethod

ROWS, STEPS, WORLD = 3, 4, 3
Use = Callable[[Place, int, int], bool]
"""Whether a rank uses the parameter `some` in a micro-batch of a step: (place, step, micro)."""


class Net(nn.Module):
    """Parameters of all sorts: `some` is used if the forward is told so, `dead` by nobody where
    there is one, and `nil` has a gradient of zeros.
    """

    def __init__(self, dead: bool) -> None:
        super().__init__()
        self.conv = nn.Conv2d(2, 5, 3)
        self.wide, self.out = nn.Linear(20, 24), nn.Linear(24, 3)
        self.scale = nn.Parameter(torch.tensor(1.5))
        self.empty = nn.Parameter(torch.empty(0, 3))
        self.frozen = nn.Parameter(torch.ones(3), requires_grad=False)
        self.nil = nn.Parameter(torch.ones(12, 16))
        self.some = nn.Linear(24, 3)
        self.dead = nn.Parameter(torch.ones(4, 6)) if dead else None

    def forward(self, pixels: torch.Tensor, some: torch.Tensor) -> torch.Tensor:
        hidden = self.wide(self.conv(pixels).tanh().flatten(1)).tanh()
        logits: torch.Tensor = (
            self.out(hidden) * self.scale * self.frozen + self.empty.sum(0) + 0 * self.nil.sum()
        )
        return logits + self.some(hidden) if some else logits


class Run:
    """A rank's training with the method, and all ranks' in this process, without DDP, as the
    oracle."""

    def __init__(
        self,
        place: Place,
        words: str = "",
        *,
        wire: torch.dtype = torch.float32,
        dead: bool = False,
    ) -> None:
        torch.manual_seed(7)
        self.place, self.step = place, 0
        self.net, self.joined = Net(dead).double(), Net(dead).double()
        self.joined.load_state_dict(self.net.state_dict())
        self.net.to(memory_format=torch.channels_last)
        self.meter = Meter(torch.device("cpu"))
        self.meter.watch(self.net)
        self.optimizer, self.other = (sgd(net) for net in (self.net, self.joined))
        from training.sync import ddp  # which imports all of torch's compiler

        self.method: SyncMethod = ddp.Method(
            options.parse_options(options.declared_options("ddp"), words.split()), wire
        )
        self.model = self.method.prepare(self.net, self.optimizer, place, self.meter)
        self.meter.start()

    def train(
        self, steps: int = STEPS, *, uses: Use = lambda *_: True, accumulate: int = 1
    ) -> list[int]:
        """Some steps: the bytes sent in each."""
        sent = []
        for _ in range(steps):
            self.optimizer.zero_grad()
            for micro in range(accumulate):
                with self.method.micro(last=micro == accumulate - 1):
                    self.loss(self.model, self.place, micro, uses).backward()  # type: ignore[no-untyped-call]
            self.method.reduce()
            self.method.step(self.optimizer)
            self.step_joined(uses, accumulate)
            self.step += 1
            lap = self.meter.lap()
            assert lap.phases()["sync"] > 0 or self.place.world_size == 1
            assert lap.phases()["compute"] > 0
            sent.append(lap.figures.get("bytes_sent", 0))
        return sent

    def step_joined(self, uses: Use, accumulate: int) -> None:
        self.other.zero_grad()
        world = self.place.world_size
        for rank in range(world):
            for micro in range(accumulate):
                place = Place(rank, rank, world, world)
                (self.loss(self.joined, place, micro, uses) / world).backward()  # type: ignore[no-untyped-call]
        self.other.step()

    def loss(self, net: nn.Module, place: Place, micro: int, uses: Use) -> torch.Tensor:
        generator = torch.Generator().manual_seed(1000 * self.step + 100 * micro + place.rank)
        pixels = torch.randn(ROWS, 2, 4, 4, generator=generator, dtype=torch.float64)
        logits: torch.Tensor = net(pixels, torch.tensor(uses(place, self.step, micro)))
        return logits.square().sum()

    def unlike(self) -> list[str]:
        """The names of the parameters that differ from the oracle's, and of those that have a
        gradient only in one."""
        pairs = zip(self.net.named_parameters(), self.joined.parameters(), strict=True)
        return [
            n
            for (n, a), b in pairs
            if not torch.allclose(a, b, 1e-9, 1e-12) or (a.grad is None) != (b.grad is None)
        ]

    @property
    def searches(self) -> bool:
        """Whether DDP looks for unused parameters."""
        ddp = getattr(self.model, "ddp", None)
        return ddp is not None and ddp.find_unused_parameters


def sgd(net: nn.Module) -> torch.optim.Optimizer:
    return torch.optim.SGD(net.parameters(), 0.01, momentum=0.9, weight_decay=0.1)


def flat(net: nn.Module) -> torch.Tensor:
    return torch.cat([parameter.detach().flatten() for parameter in net.parameters()])


# What ranks do ------------------------------------------------------------------------------------


def plain(place: Place, words: str = "", accumulate: int = 1) -> Any:
    run = Run(place, words)
    sent = run.train(accumulate=accumulate)
    return run.unlike(), sent, run.searches


accumulated = partial(plain, accumulate=2)
many_buckets = partial(plain, words="bucket_mb=0.001")
no_views = partial(plain, words="gradient_as_bucket_view=no", accumulate=2)
static_graph = partial(plain, words="static_graph=yes")
static_graph_accumulated = partial(plain, words="static_graph=yes", accumulate=2)


def partly_used(
    place: Place,
    uses: Use = lambda place, step, _: place.rank == 0 and step % 2 == 0,
    words: str = "",
    accumulate: int = 1,
) -> Any:
    run = Run(place, words, dead=True)
    found = [run.unlike() for _ in range(STEPS) if run.train(1, uses=uses, accumulate=accumulate)]
    assert run.net.dead is not None
    return found, torch.equal(run.net.dead, torch.ones(4, 6).double()), run.searches


partly_used_later = partial(partly_used, uses=lambda place, step, _: place.rank == 1 and step == 2)
partly_used_no_views = partial(partly_used, words="gradient_as_bucket_view=no", accumulate=2)
partly_used_static = partial(
    partly_used, uses=lambda place, *_: place.rank == 0, words="static_graph=yes"
)
partly_used_first_micro = partial(
    partly_used, uses=lambda place, _, micro: place.rank == 0 and micro == 0, accumulate=2
)


def used_in_first_micro(place: Place) -> Any:
    run = Run(place)
    run.train(uses=lambda *at: at[2] == 0, accumulate=2)
    return run.unlike(), run.searches


def unused_later(place: Place) -> str:
    run = Run(place)
    run.train(1)
    with pytest.raises(JobError) as raised:
        run.train(1, uses=lambda *_: False)
    return str(raised.value)


@contextmanager
def counted() -> Iterator[list[int]]:
    """The bytes of each tensor that is given to all_reduce."""
    sizes: list[int] = []
    all_reduce = distributed.all_reduce

    def counting(tensor: torch.Tensor, *args: Any, **more: Any) -> Any:
        sizes.append(tensor.numel() * tensor.element_size())
        return all_reduce(tensor, *args, **more)

    with patch.object(distributed, "all_reduce", counting):
        yield sizes


def compressed(
    place: Place, words: str, wire: torch.dtype = torch.float32, accumulate: int = 1
) -> Any:
    run = Run(place, words, wire=wire, dead="powersgd" in words)
    sent, given = [], []
    for _ in range(STEPS):
        with counted() as sizes:
            sent += run.train(1, accumulate=accumulate)
        given.append(sum(sizes))
    distance = (flat(run.net) - flat(run.joined)).norm() / flat(run.joined).norm()
    return flat(run.net), distance.item(), sent, given


fp16 = partial(compressed, words="compression=fp16")
bf16 = partial(compressed, words="compression=bf16")
bf16_accumulated = partial(compressed, words="compression=bf16", accumulate=3)
wire_bf16 = partial(compressed, words="", wire=torch.bfloat16)
power_sgd = partial(compressed, words="compression=powersgd")
power_sgd_rank_3 = partial(compressed, words="compression=powersgd rank=3", accumulate=2)


def exact_before_start(place: Place) -> Any:
    run = Run(place, "compression=powersgd rank=1 start=3")
    return [run.unlike() for _ in range(STEPS) if run.train(1)]


def resumed(place: Place, words: str = "compression=powersgd", dead: bool = False) -> Any:
    run, other = Run(place, words, dead=dead), Run(place, words, dead=dead)
    run.train(3)
    file = io.BytesIO()
    torch.save([run.net.state_dict(), run.optimizer.state_dict(), run.method.state()], file)
    net, optimizer, state = torch.load(io.BytesIO(file.getvalue()))
    other.net.load_state_dict(net)
    other.optimizer.load_state_dict(optimizer)
    other.method.load(state)
    other.step = run.step
    run.train(3)
    other.train(3)
    return flat(run.net), flat(other.net), other.searches


resumed_start = partial(resumed, words="compression=powersgd start=5")
resumed_plain = partial(resumed, words="bucket_mb=0.001")
resumed_dead = partial(resumed, dead=True)
resumed_static = partial(resumed, words="compression=powersgd static_graph=yes", dead=True)

# Tests --------------------------------------------------------------------------------------------

EXACT = [
    "plain",
    "accumulated",
    "many_buckets",
    "no_views",
    "static_graph",
    "static_graph_accumulated",
]
PARTLY = [
    "partly_used",
    "partly_used_later",
    "partly_used_no_views",
    "partly_used_static",
    "partly_used_first_micro",
]
COMPRESSED = ["fp16", "bf16", "bf16_accumulated", "wire_bf16", "power_sgd", "power_sgd_rank_3"]
RESUMED = ["resumed", "resumed_start", "resumed_plain", "resumed_dead", "resumed_static"]
ALL = [
    *EXACT,
    *PARTLY,
    *COMPRESSED,
    *RESUMED,
    "used_in_first_micro",
    "exact_before_start",
    "unused_later",
]
Outcomes = dict[tuple[int, str], list[Any]]


@pytest.fixture(scope="session")
def outcomes(forked: Forker, tmp_path_factory: pytest.TempPathFactory) -> Outcomes:
    return rank_calls.call(
        forked,
        tmp_path_factory.mktemp("ranks"),
        __name__,
        {1: ["plain", "power_sgd"], WORLD: ALL},
    )


@pytest.mark.parametrize("name", EXACT)
def test_equals_one_process_on_the_joined_batch(outcomes: Outcomes, name: str) -> None:
    for unlike, _, found in outcomes[WORLD, name]:
        assert unlike == []
        assert not found, "a model whose parameters are all used is not searched for unused ones"


@pytest.mark.parametrize("name", PARTLY)
def test_a_parameter_that_no_rank_used_stays_and_one_that_some_used_counts_as_zero(
    outcomes: Outcomes, name: str
) -> None:
    for unlike, kept, found in outcomes[WORLD, name]:
        assert unlike == [[]] * STEPS
        assert kept, "not even weight decay moved it"
        assert found == (name != "partly_used_static"), "a static graph finds them by itself"


def test_what_only_an_earlier_micro_batch_used_is_averaged(outcomes: Outcomes) -> None:
    assert outcomes[WORLD, "used_in_first_micro"] == [([], False)] * WORLD


def test_a_model_that_comes_to_use_fewer_parameters_is_refused(outcomes: Outcomes) -> None:
    for said in outcomes[WORLD, "unused_later"]:
        assert said.startswith("--sync ddp: some.weight has no gradient in this step")
        assert "use --sync all_reduce" in said


@pytest.mark.parametrize("name", COMPRESSED)
def test_bytes_sent_are_a_rings_of_what_is_given_to_all_reduce(
    outcomes: Outcomes, name: str
) -> None:
    for _, _, sent, given in outcomes[WORLD, name]:
        found_map = (
            4 * 12 if "power" in name else 0
        )  # exchanged by DDP itself: some of these parameters are unused
        given = [given[0], *(size + found_map for size in given[1:])]
        assert sent == [2 * (WORLD - 1) * size // WORLD for size in given]
        assert given[-1] < given[0] / 1.7, "the first step is exact, the last is compressed"


@pytest.mark.parametrize("name", EXACT)
def test_bytes_sent_are_a_rings_of_the_gradients(outcomes: Outcomes, name: str) -> None:
    size = 8 * sum(p.numel() for p in Net(dead=False).parameters() if p.requires_grad)
    (_, sent, _), *_ = outcomes[WORLD, name]
    assert sent == [4 * (size + 4 * 11) // 3] + [4 * size // 3] * (STEPS - 1)


@pytest.mark.parametrize(("name", "least", "most"), [("16", 1e-9, 2e-3), ("power_sgd", 1e-6, 0.2)])
def test_compression_is_near_and_equal_on_all_ranks(
    outcomes: Outcomes, name: str, least: float, most: float
) -> None:
    for kind in filter(lambda kind: name in kind, COMPRESSED):
        ranks = outcomes[WORLD, kind]
        assert all(torch.equal(ranks[0][0], rank[0]) for rank in ranks)
        assert least < ranks[0][1] < most, kind


def test_bf16_on_the_wire_is_bf16_compression(outcomes: Outcomes) -> None:
    assert torch.equal(outcomes[WORLD, "wire_bf16"][0][0], outcomes[WORLD, "bf16"][0][0])
    assert not torch.equal(outcomes[WORLD, "fp16"][0][0], outcomes[WORLD, "bf16"][0][0])


def test_powersgd_is_exact_for_so_many_steps(outcomes: Outcomes) -> None:
    for unlike in outcomes[WORLD, "exact_before_start"]:
        assert unlike[:3] == [[], [], []]
        assert unlike[3] != []


@pytest.mark.parametrize("name", RESUMED)
def test_resuming_goes_on_as_if_nothing_had_been(outcomes: Outcomes, name: str) -> None:
    for uninterrupted, again, found in outcomes[WORLD, name]:
        assert torch.allclose(uninterrupted, again, 1e-12, 1e-14)
        assert found == (name == "resumed_dead")


def test_alone_a_rank_trains_as_if_there_was_no_method(outcomes: Outcomes) -> None:
    unlike, sent, _ = outcomes[1, "plain"][0]
    assert (unlike, sent) == ([], [0] * STEPS)
    assert outcomes[1, "power_sgd"][0][1] < 1e-15


@pytest.mark.parametrize("word", ["bucket_mb=0", "rank=0", "start=1"])
def test_options_out_of_range_are_refused(word: str) -> None:
    with pytest.raises(options.OptionError, match=word):
        options.parse_options(options.declared_options("ddp"), [word])
