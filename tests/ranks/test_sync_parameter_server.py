"""A parameter server: what each gradient does to what is held, in rounds and at the ranks' own
pace, and how it ends."""

from __future__ import annotations

import copy
import math
import threading
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
import torch
from torch import distributed, nn

from remote.run.state.phases import RunPhase, Verdict
from tests.kit import rank_calls, training_ranks
from tests.kit.comparing import compare
from tests.kit.forked_ranks import Forker
from tests.kit.histories import History, plan, stepped
from tests.kit.sync_ranks import Case
from tests.kit.sync_runs import Ran
from tests.kit.wait import wait
from training import options
from training.job import Job, JobError
from training.meter import Meter
from training.place import Place
from training.rendezvous import TIMEOUT
from training.sync.parameter_server import PATIENCE, Method
from training.wire.rank_events import Entered, Evaluated, Finished
from tui.run import outcome

WORLD = 3
LR = 0.1
TURNS = (1, 2, 1, 1, 2, 2)
"""Who makes a step when, where rank 0 only serves."""
FIRST, SECOND = (0, 1, 2, 1), (0, 2, 1, 0)
"""The same where it trains too. Between the two all settle."""
HEADER = 16


class Net(nn.Module):
    """In double precision. `second` is used by rank 2 alone, `dead` by nobody."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(1)
        self.layer, self.second = nn.Linear(3, 4).double(), nn.Linear(4, 2).double()
        self.dead = nn.Parameter(torch.ones(2, dtype=torch.float64))

    def loss(self, rank: int, number: int) -> torch.Tensor:
        """The loss of a rank's samples in its step of this number."""
        drawn = torch.randn(
            5, 3, generator=torch.Generator().manual_seed(100 * rank + number), dtype=torch.float64
        )
        found: torch.Tensor = self.layer(drawn).tanh()
        return (self.second(found) if rank == 2 else found).square().mean()


class Rank:
    """A rank that makes steps when told."""

    def __init__(self, place: Place, *words: str) -> None:
        self.place, self.net, self.made = place, Net(), 0
        self.optimizer = sgd(self.net)
        self.meter = Meter(torch.device("cpu"))
        chosen = options.parse_options(options.declared_options("parameter_server"), words)
        self.method = Method(chosen, torch.float32)
        self.method.prepare(self.net, self.optimizer, place, self.meter)
        self.said: list[tuple[int, int]] = []

    def step(self) -> None:
        """The next step; `said` has its staleness and bytes sent."""
        self.optimizer.zero_grad()
        with self.method.micro(last=True):
            self.net.loss(self.place.rank, self.made).backward()  # type: ignore[no-untyped-call]
        self.made += 1
        self.method.reduce()
        self.method.step(self.optimizer)
        figures = self.meter.lap().figures
        self.said.append((figures.get("staleness", 0), figures["bytes_sent"]))

    def parameters(self) -> list[torch.Tensor]:
        """A copy."""
        return [parameter.detach().clone() for parameter in self.net.parameters()]


def sgd(net: nn.Module, lr: float = LR) -> torch.optim.Optimizer:
    """With all that it can do."""
    return torch.optim.SGD(net.parameters(), lr, momentum=0.9, weight_decay=0.01)


# What ranks do ------------------------------------------------------------------------------------


def in_turns(place: Place) -> dict[str, Any]:
    """Rank 0 serves, the others take turns."""
    rank = Rank(place, "mode=async", "dedicated=yes", "bucket_mb=0.0001")
    workers = distributed.new_group([1, 2])
    if place.rank:
        take_turns(rank, TURNS, partial(distributed.barrier, workers))
    else:
        rank.method.serve(3)
    return settled(rank)


def shared_turns(place: Place) -> dict[str, Any]:
    """All take turns, the server too; twice, with a meeting between."""
    rank = Rank(place, "mode=async")
    take_turns(rank, FIRST, distributed.barrier)
    halfway = settled(rank)
    assert halfway["threads"] == 1
    take_turns(rank, SECOND, distributed.barrier)
    return settled(rank)


def take_turns(rank: Rank, turns: Sequence[int], barrier: Callable[[], object]) -> None:
    """A step whenever it is this rank's turn."""
    for turn in turns:
        if turn == rank.place.rank:
            rank.step()
        barrier()


def settled(rank: Rank) -> dict[str, Any]:
    """What a rank has come to once all have settled."""
    rank.method.settle()
    return {"parameters": rank.parameters(), "said": rank.said, "threads": threading.active_count()}


def uninterrupted(place: Place) -> dict[str, Any]:
    """Four rounds, of which rank 1 is the server."""
    rank = Rank(place, "server=1")
    for _ in range(4):
        rank.step()
    return settled(rank)


def interrupted(place: Place) -> dict[str, Any]:
    """Two rounds, then two of another object that has loaded the first one's state."""
    rank = Rank(place, "server=1")
    for _ in range(2):
        rank.step()
    other = Rank(place, "server=1")
    other.net.load_state_dict(rank.net.state_dict())
    other.method.load(copy.deepcopy(rank.method.state()))
    other.made = rank.made
    for _ in range(2):
        other.step()
    return settled(other)


def gone_on(place: Place) -> dict[str, Any]:
    """The same turns as in `shared_turns`, but the second half by objects that have loaded the
    state of the first one's."""
    rank = Rank(place, "mode=async")
    take_turns(rank, FIRST, distributed.barrier)
    settled(rank)
    other = Rank(place, "mode=async")
    other.net.load_state_dict(rank.net.state_dict())
    other.method.load(copy.deepcopy(rank.method.state()))
    other.made = rank.made
    take_turns(other, SECOND, distributed.barrier)
    return settled(other)


def patience(place: Place) -> dict[str, Any]:
    """How many seconds ranks wait for each other, by mode."""
    waits = {}
    for mode in ("sync", "async"):
        with patch.object(distributed, "new_group", wraps=distributed.new_group) as made:
            Rank(place, f"mode={mode}")
        waits[mode] = [call.kwargs["timeout"].total_seconds() for call in made.call_args_list]
    return waits


NAMES = ("in_turns", "shared_turns", "uninterrupted", "interrupted", "gone_on")


@pytest.fixture(scope="session")
def ranks(
    forked: Forker, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, list[dict[str, Any]]]:
    """What each function returned on each rank."""
    found = rank_calls.call(
        forked, tmp_path_factory.mktemp("ranks"), __name__, {WORLD: (*NAMES, "patience")}
    )
    return {name: ranks for (_, name), ranks in found.items()}


# What one process does ----------------------------------------------------------------------------


def followed(
    turns: Sequence[int], trainers: int, pause: int = 0
) -> tuple[list[torch.Tensor], dict[int, list[int]]]:
    """One after the other: the parameters held in the end, and each rank's staleness. After `pause`
    turns all settle."""
    held = Net()
    optimizer = sgd(held, LR / trainers)
    copies = {rank: (copy.deepcopy(held), 0) for rank in set(turns)}
    stale: dict[int, list[int]] = {rank: [] for rank in copies}
    for version, rank in enumerate(turns):
        if pause and version == pause:
            copies = {each: (copy.deepcopy(held), version) for each in copies}
        own, pulled = copies[rank]
        gradients = torch.autograd.grad(
            own.loss(rank, len(stale[rank])), list(own.parameters()), allow_unused=True
        )
        for parameter, gradient in zip(held.parameters(), gradients, strict=True):
            parameter.grad = gradient
        optimizer.step()
        stale[rank].append(version - pulled)
        copies[rank] = copy.deepcopy(held), version + 1
    return [parameter.detach() for parameter in held.parameters()], stale


def close(found: list[torch.Tensor], wanted: list[torch.Tensor]) -> None:
    torch.testing.assert_close(found, wanted, rtol=1e-9, atol=1e-12)


# Tests --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "turns", "trainers", "pause"),
    [("in_turns", TURNS, 2, 0), ("shared_turns", FIRST + SECOND, 3, len(FIRST))],
)
def test_each_gradient_is_applied_as_it_comes(
    ranks: dict[str, list[dict[str, Any]]],
    name: str,
    turns: Sequence[int],
    trainers: int,
    pause: int,
) -> None:
    wanted, stale = followed(turns, trainers, pause)
    for rank, found in enumerate(ranks[name]):
        close(found["parameters"], wanted)
        assert [staleness for staleness, _ in found["said"]] == stale.get(rank, [])
        assert all(map(torch.equal, found["parameters"], ranks[name][0]["parameters"]))
        assert found["threads"] == 1, "a thread is left"
    assert stale in ({1: [0, 1, 0], 2: [1, 2, 0]}, {0: [0, 0, 2], 1: [1, 1, 2], 2: [2, 1]})


def test_a_parameter_that_nobody_uses_is_left_alone(ranks: dict[str, list[dict[str, Any]]]) -> None:
    for name in NAMES:
        assert ranks[name][2]["parameters"][0].tolist() == [1.0, 1.0], name


def test_a_rank_that_is_silent_is_noticed_as_in_a_collective(
    ranks: dict[str, list[dict[str, Any]]],
) -> None:
    assert (
        ranks["patience"]
        == [{"sync": [TIMEOUT.total_seconds()] * 2, "async": [PATIENCE.total_seconds()] * 2}]
        * WORLD
    )


def test_bytes_sent(ranks: dict[str, list[dict[str, Any]]]) -> None:
    parameters = list(Net().parameters())
    size = HEADER + 8 * sum(parameter.numel() for parameter in parameters)
    pushed = size + 8 * len(parameters)  # with a flag for each
    assert {sent for _, sent in ranks["uninterrupted"][0]["said"]} == {pushed}
    assert {sent for _, sent in ranks["uninterrupted"][1]["said"]} == {2 * size}, "the server"
    assert {sent for _, sent in ranks["in_turns"][2]["said"]} == {pushed}
    assert [sent for _, sent in ranks["shared_turns"][0]["said"]] == [0, 3 * size, 2 * size], (
        "answers since its last step"
    )


@pytest.mark.parametrize(
    ("whole", "halves"), [("uninterrupted", "interrupted"), ("shared_turns", "gone_on")]
)
def test_a_state_loaded_goes_on_bit_by_bit(
    ranks: dict[str, list[dict[str, Any]]], whole: str, halves: str
) -> None:
    for one, other in zip(ranks[whole], ranks[halves], strict=True):
        assert all(map(torch.equal, one["parameters"], other["parameters"]))
        assert [stale for stale, _ in one["said"]][-len(other["said"]) :] == [
            stale for stale, _ in other["said"]
        ]


def test_all_ranks_have_the_same_bits_after_a_round(ranks: dict[str, list[dict[str, Any]]]) -> None:
    first = ranks["uninterrupted"][0]["parameters"]
    for found in ranks["uninterrupted"][1:]:
        assert all(map(torch.equal, found["parameters"], first))


@pytest.mark.parametrize(
    "case",
    [
        Case("parameter_server", ("mode=async",), 1),
        Case("parameter_server", ("mode=async", "dedicated=yes"), 2),
        Case("parameter_server", ("mode=async", "dedicated=yes", "server=1"), 2, accumulate=3),
        Case("parameter_server", ("server=2", "bucket_mb=0"), 3),
        Case("parameter_server", ("server=1", "dedicated=yes"), 4),
    ],
    ids=str,
)
def test_one_worker_alone_or_rounds_come_to_what_one_process_does(ran: Ran, case: Case) -> None:
    compare(case, ran(case), rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize(
    ("words", "dies", "last_words"),
    [
        ((), 2, "worker (rank 2)"),
        (("mode=async",), 2, "worker (rank 2)"),
        (("mode=async", "dedicated=yes"), 1, "worker (rank 1)"),
        (("mode=async",), 0, "parameter server (rank 0)"),
    ],
)
def test_a_rank_that_dies_ends_the_others_at_once(
    forked: Forker, tmp_path: Path, words: tuple[str, ...], dies: int, last_words: str
) -> None:
    job = Job(sync="parameter_server", sync_option=words, steps=1_000_000, batch_size=12)
    told = {"worker": 0, "parameter server": 1}[last_words.split(" (", maxsplit=1)[0]]
    with forked.preload(tmp_path, job, WORLD) as started:
        wait(lambda: started.steps(2) and started.steps(1), "the first steps")
        training_ranks.kill(started.pids()[dies])
        others = set(range(WORLD)) - {dies}
        wait(lambda: others <= started.exits().keys(), "the others' end")
        assert f"PeerError: {last_words}: " in started.err(told)
        assert " by peer" in started.err(told)


def test_at_their_own_pace_ranks_learn_and_meet(forked: Forker, tmp_path: Path) -> None:
    job = Job(
        sync="parameter_server",
        sync_option=("mode=async", "dedicated=yes"),
        epochs=2,
        batch_size=32,
        momentum=0.5,
    )
    ranks = forked.run(tmp_path.name, job, [None] * WORLD)
    assert not ranks.steps(0)
    assert Entered(0, "serving") in ranks.events(0)
    assert [
        type(event) for event in ranks.events(0) if isinstance(event, (Evaluated, Finished))
    ] == [
        Evaluated,
        Evaluated,
        Finished,
    ]
    accuracies = [[found.accuracy for found in ranks.evaluated(rank)] for rank in range(WORLD)]
    assert accuracies[0] == accuracies[1] == accuracies[2]
    assert accuracies[0][1] > 0.5
    stale = [step.staleness for rank in (1, 2) for step in ranks.steps(rank)]
    assert max(stale) > 0, "both began with the same parameters, and one came second"
    assert "models differ between" in ranks.out(0)


def test_a_rank_that_serves_takes_no_part_in_figures_and_progress() -> None:
    history = History(plan(3))
    history.training()
    history.rank(0, Entered(0, "serving"))
    for rank in (1, 2):
        history.rank(rank, *(stepped(rank, step, staleness=3) for step in range(1, 21)))
    run = history.state()
    assert (run.step, run.phase) == (20, RunPhase.TRAINING)
    assert 0 < run.eta(run.now) < 4, "not that of the rank that makes no steps"
    assert list(run.curves.of("staleness", 1).mean) == [3.0] * 20
    server, *_, average = outcome.result_table(run)[1]
    assert set(server[2:]) == {"-"}
    assert average[2] == "100 ms"
    ended = history.done(0, 1, 2).closed()
    assert ended.verdict is Verdict.FINISHED
    assert math.isnan(ended.ranks[0].timing.whole.seconds)


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (("server=4",), "server=4: ranks go from 0 to 3"),
        (("server=-1",), "server=-1: must be at least 0"),
        (("mode=eventual",), "mode=eventual: must be sync or async"),
        (("bucket_mb=-1",), "bucket_mb=-1: must be at least 0"),
    ],
)
def test_options_that_cannot_be(words: tuple[str, ...], text: str) -> None:
    with pytest.raises(JobError, match=text.replace("|", r"\|")):
        Job(sync="parameter_server", sync_option=words).check_world(4)


def test_a_server_for_nobody_is_refused() -> None:
    job = Job(sync="parameter_server", sync_option=("dedicated=yes",))
    job.check_world(2)
    with pytest.raises(JobError, match="dedicated=yes: needs at least 2 ranks; remove it"):
        job.check_world(1)
