"""Watching training loops as users write them: what is seen of each, and that not a bit changes."""

from __future__ import annotations

import os
import statistics
import time
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch import distributed, nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.checkpoint import checkpoint
from torch.utils.data import DataLoader, Dataset, TensorDataset

from tests.kit import rank_calls
from tests.kit.forked_ranks import Forker
from tests.kit.rank_reports import read_report
from training.place import Place
from training.watch import isolation
from training.watch.hooks import Hooks, samples_of
from training.watch.report import Program, WatchReport
from training.watch.steps import Steps

STEPS, BATCH = 5, 4
SLOW, WAIT = 1, 0.05
"""The rank that is slow, by so many seconds in each step."""
WORLDS = {
    1: (
        *("alone", "two_optimisers", "accumulating", "scaled", "checkpointed", "evaluating"),
        *("evaluating_like_gpt", "compiled", "by_workers", "several_losses", "without_backward"),
        *("failing", "evaluating_between", "compiled_evaluating", "penalised", "joining"),
        "by_closure",
    ),
    2: ("ddp", "ddp_accumulating", "collectives", "asynchronous", "sharded", "unwrapped"),
}


# Training loops; each returns its parameters ------------------------------------------------------

Parameters = list[torch.Tensor]


def network() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 3))


def data(seed: int = 0, samples: int = STEPS * BATCH) -> TensorDataset:
    torch.manual_seed(seed)
    inputs = torch.randn(samples, 6)
    return TensorDataset(inputs, inputs[:, :3].argmax(1))


def batches(seed: int = 0, **options: Any) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
    return iter(DataLoader(data(seed), batch_size=BATCH, **options))


def loss_of(model: nn.Module, inputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    return nn.functional.cross_entropy(model(inputs), targets)


def adam(model: nn.Module) -> torch.optim.Optimizer:
    return torch.optim.Adam(model.parameters(), lr=0.05)


def of(*models: nn.Module) -> Parameters:
    return [one.detach().clone() for model in models for one in model.parameters()]


def alone(_: Place) -> Parameters:
    model = network()
    optimizer = adam(model)
    for batch in batches():
        optimizer.zero_grad()
        loss_of(model, *batch).backward()
        optimizer.step()
    return of(model)


def by_closure(_: Place) -> Parameters:
    """As Lightning does: the optimiser calls what computes the gradients."""
    model = network()
    optimizer = adam(model)
    for batch in batches():

        def closure(batch: list[torch.Tensor] = batch) -> torch.Tensor:
            optimizer.zero_grad()
            loss = loss_of(model, *batch)
            loss.backward()
            return loss

        optimizer.step(closure)
    return of(model)


def two_optimisers(_: Place) -> Parameters:
    one, other = network(), network()
    first, second = adam(one), adam(other)
    for batch in batches():
        loss_of(one, *batch).backward()
        first.step()
        loss_of(other, *batch).backward()
        second.step()
    return of(one, other)


def accumulating(_: Place) -> Parameters:
    model = network()
    optimizer = adam(model)
    for number, batch in enumerate(batches(drop_last=True)):
        loss_of(model, *batch).backward()
        if number % 2:
            optimizer.step()
            optimizer.zero_grad()
    return of(model)


def scaled(_: Place) -> Parameters:
    model = network()
    optimizer, scaler = adam(model), torch.amp.GradScaler("cpu")
    for batch in batches():
        optimizer.zero_grad()
        scaler.scale(loss_of(model, *batch)).backward()
        scaler.step(optimizer)
        scaler.update()
    return of(model)


def checkpointed(_: Place) -> Parameters:
    model = network()
    optimizer = adam(model)
    for inputs, targets in batches():
        optimizer.zero_grad()
        inputs.requires_grad_()
        hidden = checkpoint(model, inputs, use_reentrant=True)
        nn.functional.cross_entropy(hidden, targets).backward()
        optimizer.step()
    return of(model)


def evaluating(_: Place) -> Parameters:
    model = network()
    optimizer = adam(model)
    for _ in range(2):
        model.train()
        for batch in batches():
            optimizer.zero_grad()
            loss_of(model, *batch).backward()
            optimizer.step()
        with torch.no_grad():
            for batch in batches():
                time.sleep(WAIT)
                loss_of(model, *batch)
    return of(model)


def evaluating_like_gpt(_: Place) -> Parameters:
    """Without a loader: it draws its batches itself."""
    model = network()
    optimizer = adam(model)
    for number, batch in enumerate(data(1)):
        if number % 4 == 3:
            model.eval()
            time.sleep(WAIT)
            model.train()
        optimizer.zero_grad()
        loss_of(model, *batch).backward()
        optimizer.step()
    return of(model)


def compiled(_: Place) -> Parameters:
    """A compiled model, then a compiled step as well, of which nothing can be seen."""
    model = network()
    optimizer = adam(model)
    quick = torch.compile(model, backend="eager", fullgraph=True)
    for batch in batches():
        optimizer.zero_grad()
        loss_of(quick, *batch).backward()
        optimizer.step()
    step = torch.compile(lambda: optimizer.step(), backend="eager")
    for batch in batches():
        optimizer.zero_grad()
        loss_of(quick, *batch).backward()
        step()
    return of(model)


def evaluating_between(_: Place) -> Parameters:
    """Without `eval()`, and the batches that are trained on come of no loader."""
    model = network()
    optimizer = adam(model)
    for number, batch in enumerate([data(1)[: 2 * BATCH]] * STEPS):
        if number == 2:
            with torch.no_grad():
                for _ in batches():
                    time.sleep(WAIT)
        optimizer.zero_grad()
        loss_of(model, *batch).backward()
        optimizer.step()
    return of(model)


class Taught(nn.Module):
    """Sets the mode of a part of it in each pass."""

    def __init__(self) -> None:
        super().__init__()
        self.student, self.teacher = network(), network()

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        self.teacher.eval()
        found: torch.Tensor = self.student(inputs) + self.teacher(inputs)
        return found


def compiled_evaluating(_: Place) -> Parameters:
    model = Taught()
    optimizer = adam(model)
    quick = torch.compile(model, backend="eager", fullgraph=True)
    for batch in batches():
        optimizer.zero_grad()
        loss_of(quick, *batch).backward()
        optimizer.step()
    return of(model)


def penalised(_: Place) -> Parameters:
    """The gradients of a scaled loss are wanted, but not its backward pass; and its graph goes."""
    model = network()
    optimizer, scaler = adam(model), torch.amp.GradScaler("cpu")
    for inputs, targets in batches():
        optimizer.zero_grad()
        hidden = model[0](inputs)
        gone = weakref.ref(hidden)
        scaled = scaler.scale(model[1:](hidden).sum() * 1000)
        (penalty,) = torch.autograd.grad(scaled, [model[0].weight])
        del hidden, scaled
        assert gone() is None
        (loss_of(model, inputs, targets) + 0 * penalty.sum()).backward()
        optimizer.step()
        loss = model(inputs).sum()
        gone = weakref.ref(loss)
        scaler.scale(loss)
        del loss
        assert gone() is None
    return of(model)


class Training(Dataset[torch.Tensor]):
    """Its workers train themselves."""

    def __len__(self) -> int:
        return STEPS * BATCH

    def __getitem__(self, index: int) -> torch.Tensor:
        weight = torch.ones(1, requires_grad=True)
        weight.sum().backward()
        torch.optim.SGD([weight], lr=0.5).step()
        return torch.full((6,), weight.item() + index)


def by_workers(_: Place) -> Parameters:
    model = network()
    optimizer = adam(model)
    for batch in DataLoader(Training(), batch_size=BATCH, num_workers=1):
        optimizer.zero_grad()
        model(batch).mean().backward()
        optimizer.step()
    return of(model)


def several_losses(_: Place) -> Parameters:
    """One step each: a vector, two at once, and one whose gradient is given."""
    model = network()
    optimizer = adam(model)
    inputs = data(1).tensors[0]
    model(inputs[:2]).backward(torch.ones(2, 3))
    optimizer.step()
    torch.autograd.backward([model(inputs).sum(), model(inputs).mean()])
    optimizer.step()
    torch.autograd.backward([model(inputs).sum() * 0 + 7])
    optimizer.step()
    return of(model)


def without_backward(_: Place) -> Parameters:
    model = network()
    optimizer = adam(model)
    for batch in batches():
        gradients = torch.autograd.grad(loss_of(model, *batch), [*model.parameters()])
        for parameter, gradient in zip(model.parameters(), gradients, strict=True):
            parameter.grad = gradient
        optimizer.step()
    return of(model)


def failing(place: Place) -> Parameters:
    """As `alone`; the watch fails in its third step."""
    return alone(place)


def slowly(place: Place) -> None:
    if place.rank == SLOW:
        time.sleep(WAIT)


def ddp(place: Place) -> Parameters:
    model = DistributedDataParallel(network())
    optimizer = adam(model)
    for batch in batches(place.rank):
        slowly(place)
        optimizer.zero_grad()
        loss_of(model, *batch).backward()
        optimizer.step()
    return of(model)


def ddp_accumulating(place: Place) -> Parameters:
    model = DistributedDataParallel(network())
    optimizer = adam(model)
    for first, second in zip(batches(place.rank), batches(place.rank + 2), strict=True):
        slowly(place)
        optimizer.zero_grad()
        with model.no_sync():
            loss_of(model, *first).backward()
        loss_of(model, *second).backward()
        optimizer.step()
    return of(model)


def unwrapped(place: Place) -> Parameters:
    """As `ddp`, but nothing is exchanged while it trains."""
    distributed.barrier()
    model = network()
    optimizer = adam(model)
    for batch in batches(place.rank):
        optimizer.zero_grad()
        loss_of(model, *batch).backward()
        optimizer.step()
    distributed.barrier()
    return of(model)


def collectives(place: Place) -> Parameters:
    return reduced(place, asynchronously=False)


def asynchronous(place: Place) -> Parameters:
    return reduced(place, asynchronously=True)


def reduced(place: Place, *, asynchronously: bool) -> Parameters:
    model = network()
    optimizer = adam(model)
    for batch in batches(place.rank):
        slowly(place)
        optimizer.zero_grad()
        loss_of(model, *batch).backward()
        works = [
            distributed.all_reduce(parameter.grad, async_op=asynchronously)
            for parameter in model.parameters()
        ]
        for work in works if asynchronously else ():
            work.wait()
        optimizer.step()
    return of(model)


def sharded(place: Place) -> Parameters:
    from torch.distributed.fsdp import fully_shard  # the ranks' process has it, pytest has not

    mesh = distributed.init_device_mesh("cpu", (place.world_size,))
    model = network()
    for layer in (model[0], model[2]):
        fully_shard(layer, mesh=mesh)
    fully_shard(model, mesh=mesh)
    optimizer = adam(model)
    for batch in batches(place.rank):
        slowly(place)
        optimizer.zero_grad()
        loss_of(model, *batch).backward()
        optimizer.step()
    return [one.full_tensor() for one in of(model)]


def joining(_: Place) -> Parameters:
    """Joins a group of its own anew. What a smaller group does is no meeting of all."""
    distributed.destroy_process_group()
    store = distributed.HashStore()  # type: ignore[attr-defined]
    distributed.init_process_group("gloo", store=store, rank=0, world_size=1)
    distributed.barrier()
    distributed.all_reduce(torch.ones(1), group=distributed.new_group([0]))
    distributed.all_reduce(torch.ones(1), group=distributed.group.WORLD)
    return of(network())


# Each of them without the watch, then with it -----------------------------------------------------

Result = dict[str, Any]


def both(loop: Callable[[Place], Parameters]) -> Callable[[Place], Result]:
    def run(place: Place) -> Result:
        without = loop(place)
        pipe, end = os.pipe()
        channel = f"{end}:{os.getpid()}:{os.fstat(end).st_ino}"
        report = WatchReport(channel, Program(place.rank, place.world_size))
        hooks = Hooks(Steps(report.steps, gather=0), report)
        hooks.look()
        isolation.PATIENCE = STEPS - 1
        if loop is failing:
            fail_in_third_step()
        found = loop(place)
        hooks.end()
        report.close()
        report.on = False
        os.close(end)
        with open(pipe) as file:
            return {"without": without, "with": found, "text": file.read()}

    return run


def fail_in_third_step() -> None:
    end, made = Steps.end, [0]

    def fails(steps: Steps) -> None:
        made[0] += 1
        if made[0] == 3:
            raise KeyError("oh")
        end(steps)

    Steps.end = fails  # type: ignore[method-assign]


def __getattr__(name: str) -> Any:
    """`both_NAME`, for `rank_calls`."""
    loop = name.removeprefix("both_")
    if loop == name or loop not in {one for names in WORLDS.values() for one in names}:
        raise AttributeError(name)
    return both(globals()[loop])


@pytest.fixture(scope="module")
def results(forked: Forker, tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[Result]]:
    names = {world: [f"both_{name}" for name in loops] for world, loops in WORLDS.items()}
    found = rank_calls.call(forked, tmp_path_factory.mktemp("watch"), __name__, names)
    return {name.removeprefix("both_"): ranks for (_, name), ranks in found.items()}


def steps(result: Result) -> list[dict[str, Any]]:
    return reports(result, "step")


def reports(result: Result, event: str) -> list[dict[str, Any]]:
    lines = result["text"].splitlines()
    events = [read_report(line) for line in lines]
    return [one for one in events if one["event"] == event]


@pytest.mark.parametrize("name", [name for names in WORLDS.values() for name in names])
def test_not_a_bit_of_the_parameters_changes(name: str, results: dict[str, list[Result]]) -> None:
    for rank in results[name]:
        assert len(rank["with"]) == len(rank["without"]) > 0
        for found, expected in zip(rank["with"], rank["without"], strict=True):
            assert torch.equal(found, expected)


def test_each_step_is_seen_with_its_loss_and_samples(results: dict[str, list[Result]]) -> None:
    found = steps(results["alone"][0])
    assert [step["step"] for step in found] == [1, 2, 3, 4, 5]
    assert all(step["samples"] == BATCH and step["event"] == "step" for step in found)
    model = network()
    assert found[0]["loss"] == loss_of(model, *next(batches())).item()
    for step in found:
        parts = step["data"] + step["compute"] + step["sync"]
        assert parts == pytest.approx(step["seconds"], abs=1e-5)
        assert 0 < step["data"] < step["ready"] <= step["seconds"]
        assert step["sync"] == 0


def test_a_step_that_calls_the_backward_pass_is_seen(results: dict[str, list[Result]]) -> None:
    seen = [(step["loss"], step["samples"]) for step in steps(results["by_closure"][0])]
    assert seen == [(step["loss"], step["samples"]) for step in steps(results["alone"][0])]


def test_only_ranks_that_exchange_nothing_train_alone(results: dict[str, list[Result]]) -> None:
    for name in WORLDS[2]:
        for rank in results[name]:
            found = [one["has_group"] for one in reports(rank, "isolation")]
            assert found == ([True] if name == "unwrapped" else []), name


@pytest.mark.parametrize(("name", "calls"), [("collectives", 4), ("asynchronous", 4), ("ddp", 0)])
def test_collectives_are_counted_with_their_bytes(
    name: str, calls: int, results: dict[str, list[Result]]
) -> None:
    """One for each parameter, until the second step: then it is known that ranks exchange some.
    DDP exchanges gradients in C++."""
    numbers = sum(parameter.numel() for parameter in network().parameters()) if calls else 0
    for rank in results[name]:
        found = reports(rank, "collectives")
        assert sum(one["count"] for one in found) == 2 * calls
        assert sum(one["bytes"] for one in found) == 4 * 2 * numbers
        assert {one["name"] for one in found} <= {"all_reduce"}
    if calls:  # rank 1 is late in each step
        waited = sum(one["seconds"] for one in reports(results[name][0], "collectives"))
        assert waited > WAIT


def test_a_round_of_all_optimisers_is_a_step(results: dict[str, list[Result]]) -> None:
    assert len(steps(results["two_optimisers"][0])) == STEPS


def test_passes_whose_gradients_add_up_are_one_step(results: dict[str, list[Result]]) -> None:
    found = steps(results["accumulating"][0])
    assert [step["samples"] for step in found] == [2 * BATCH, 2 * BATCH]
    model = network()
    losses = [loss_of(model, *batch).item() for batch, _ in zip(batches(), "12", strict=False)]
    assert found[0]["loss"] == pytest.approx(statistics.mean(losses))


def test_the_loss_is_what_is_scaled(results: dict[str, list[Result]]) -> None:
    found = steps(results["scaled"][0])
    assert found[0]["loss"] == loss_of(network(), *next(batches())).item()


def test_what_is_scaled_for_its_gradients_is_no_loss(results: dict[str, list[Result]]) -> None:
    found = steps(results["penalised"][0])
    expected = loss_of(network(), *next(batches())).item()
    assert found[0]["loss"] == pytest.approx(expected)


def test_a_pass_within_a_pass_is_part_of_it(results: dict[str, list[Result]]) -> None:
    found = steps(results["checkpointed"][0])
    assert [step["loss"] for step in found] == [step["loss"] for step in steps(results["alone"][0])]


def test_evaluations_are_part_of_no_step(results: dict[str, list[Result]]) -> None:
    found = steps(results["evaluating"][0])
    assert [step["samples"] for step in found] == [BATCH] * 2 * STEPS
    assert found[STEPS]["seconds"] < WAIT * STEPS
    found = steps(results["evaluating_like_gpt"][0])
    assert len(found) == STEPS * BATCH
    assert statistics.median(step["seconds"] for step in found[3::4]) < WAIT
    found = steps(results["evaluating_between"][0])
    assert len(found) == STEPS
    assert found[2]["seconds"] < WAIT * STEPS


def test_a_compiled_model_is_seen(results: dict[str, list[Result]]) -> None:
    assert len(steps(results["compiled"][0])) == STEPS
    assert len(steps(results["compiled_evaluating"][0])) == STEPS


def test_workers_report_nothing(results: dict[str, list[Result]]) -> None:
    assert len(steps(results["by_workers"][0])) == STEPS


def test_what_is_no_single_number_is_no_loss(results: dict[str, list[Result]]) -> None:
    found = steps(results["several_losses"][0])
    assert [step["loss_known"] for step in found] == [False, False, True]
    assert found[2]["loss"] == 7


class Lazy:
    """A batch whose values are not there yet."""

    @property
    def values(self) -> Any:
        raise RuntimeError("nothing is loaded yet")


class Columns:
    """A batch that is no mapping."""

    values = torch.ones(BATCH)


@pytest.mark.parametrize(
    ("batch", "samples"),
    [
        (torch.ones(BATCH, 3), BATCH),
        ([torch.ones(BATCH, 3), torch.ones(7)], BATCH),
        ([[torch.ones(BATCH, 3), torch.ones(BATCH, 2)], torch.ones(7)], BATCH),
        ({"images": torch.ones(BATCH, 3), "more": 7}, BATCH),
        (((torch.ones(3, 9), torch.ones(3, 8)), ({}, {})), 2),
        ({"images": (torch.ones(3, 9), torch.ones(3, 8))}, 2),
        (torch.tensor(1.0), 0),
        ((), 0),
        (None, 0),
        (Lazy(), 0),
        (Columns(), 0),
    ],
)
def test_samples_are_counted_where_a_batch_tells_them(batch: Any, samples: int) -> None:
    assert samples_of(batch) == samples


def test_steps_without_a_backward_pass_count(results: dict[str, list[Result]]) -> None:
    assert len(steps(results["without_backward"][0])) == STEPS


def test_a_failure_of_the_watch_is_said_once_and_ends_it(results: dict[str, list[Result]]) -> None:
    *found, said = results["failing"][0]["text"].splitlines()
    assert len(found) == 2
    assert said.startswith(
        "rankboard: the watch has failed, the program continues without it: KeyError"
    )


@pytest.mark.parametrize("name", [name for name in WORLDS[2] if name != "unwrapped"])
def test_the_others_wait_for_the_slow_rank(name: str, results: dict[str, list[Result]]) -> None:
    ranks = [steps(rank) for rank in results[name]]
    assert [len(found) for found in ranks] == [STEPS, STEPS]

    def typical(figure: str) -> list[float]:
        return [statistics.median(step[figure] for step in found[1:]) for found in ranks]

    (ready, slow_ready), (sync, slow_sync) = typical("ready"), typical("sync")
    assert slow_ready > max(WAIT, 1.5 * ready)
    assert sync > max(0.7 * WAIT, 1.5 * slow_sync)


@pytest.mark.parametrize(
    ("name", "calls"),
    [
        ("ddp", ["DistributedDataParallel"]),
        ("collectives", ["all_reduce"] * 4),
        ("alone", []),
    ],
)
def test_where_all_ranks_meet_before_the_first_step_is_reported(
    name: str, calls: list[str], results: dict[str, list[Result]]
) -> None:
    for rank in results[name]:
        entered = reports(rank, "entered")
        found = [(one["phase"], one["call"]) for one in entered]
        expected = [pair for call in calls for pair in (("joining", call), ("training", ""))]
        assert found == expected
        assert all(one["time"] <= steps(rank)[0]["time"] for one in entered)


def test_to_join_the_group_is_a_meeting(results: dict[str, list[Result]]) -> None:
    for rank in results["joining"]:
        calls = [one["call"] for one in reports(rank, "entered")]
        assert calls == ["init_process_group", "", "barrier", "", "all_reduce", ""]
