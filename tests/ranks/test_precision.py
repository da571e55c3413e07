"""How a step computes: its types, the layout of its tensors, its optimiser, its memory, and what
compiling needs."""

import resource
import sys
from pathlib import Path

import pytest
import torch
from torch import nn

from tests.kit.forked_ranks import Forker
from tests.kit.rank_calls import call
from tests.kit.training_ranks import Ranks
from training.compute import Compute, keep_freed_memory
from training.job import Job, JobError
from training.place import Place

CPU = torch.device("cpu")
GRADIENTS, FLAGS = 61_706, 10


def net() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Conv2d(3, 8, 3),
        nn.BatchNorm2d(8),
        nn.ReLU(),
        nn.Conv2d(8, 4, 1),
        nn.Flatten(),
        nn.Linear(144, 5),
    )


@pytest.fixture(scope="session")
def runs(forked: Forker) -> dict[str, Ranks]:
    """The same job on two ranks in both precisions."""
    job = {"sync": "all_reduce", "steps": 12, "batch_size": 32, "lr": 0.05, "momentum": 0.9}
    return {
        precision: forked.run(precision, Job(**job, precision=precision), [None] * 2)  # type: ignore[arg-type]
        for precision in ("fp32", "bf16")
    }


def test_bf16_trains_nearly_as_fp32_does(runs: dict[str, Ranks]) -> None:
    losses = {
        precision: [step.loss for step in ranks.steps(0)] for precision, ranks in runs.items()
    }
    assert losses["bf16"] != losses["fp32"]
    assert losses["bf16"] == pytest.approx(losses["fp32"], abs=0.02)
    assert all("models differ" not in ranks.out(0) for ranks in runs.values())


def test_gradients_travel_in_the_jobs_precision(runs: dict[str, Ranks]) -> None:
    sent = {
        precision: {step.bytes_sent for step in ranks.steps(1)} for precision, ranks in runs.items()
    }
    assert sent == {"fp32": {4 * (GRADIENTS + FLAGS)}, "bf16": {2 * (GRADIENTS + FLAGS)}}


def test_a_share_that_a_batch_norm_cannot_normalise_is_the_jobs_fault() -> None:
    compute = Compute(Job(batch_size=3), CPU)
    model = nn.Sequential(nn.Flatten(), nn.Linear(12, 4), nn.BatchNorm1d(4))
    compute.logits(model, torch.zeros(2, 3, 2, 2))
    with pytest.raises(JobError, match=r"^--batch-size 3: .* two images per rank"):
        compute.logits(model, torch.zeros(1, 3, 2, 2))
    with pytest.raises(RuntimeError, match="shapes"):
        compute.logits(model, torch.zeros(2, 3, 2, 3))


@pytest.mark.parametrize(
    ("precision", "inside"), [("fp32", torch.float32), ("bf16", torch.bfloat16)]
)
def test_only_what_is_inside_the_model_is_in_bf16(precision: str, inside: torch.dtype) -> None:
    compute = Compute(Job(precision=precision), CPU)
    model, seen = compute.lay_out(net()), []
    model[0].register_forward_hook(lambda *call: seen.append(call[2].dtype))  # type: ignore[index,operator]
    logits = compute.logits(model, torch.randn(2, 3, 8, 8))
    logits.sum().backward()  # type: ignore[no-untyped-call]
    assert seen == [inside]
    assert logits.dtype == torch.float32
    assert {
        tensor.dtype for p in model.parameters() for tensor in (p, p.grad) if tensor is not None
    } == {torch.float32}


def test_double_precision_stays() -> None:
    compute = Compute(Job(), CPU)
    assert (
        compute.logits(compute.lay_out(net()).double(), torch.randn(2, 3, 8, 8).double()).dtype
        == torch.float64
    )


def test_weights_and_activations_have_the_channels_last() -> None:
    model, seen = Compute(Job(), CPU).lay_out(net()), list[bool]()
    model[1].register_forward_hook(  # type: ignore[index,operator]
        lambda *call: seen.append(call[2].is_contiguous(memory_format=torch.channels_last))
    )
    model(torch.randn(2, 3, 8, 8))
    assert seen == [True]
    assert model[0].weight.is_contiguous(memory_format=torch.channels_last)  # type: ignore[index,union-attr,operator]


def test_the_step_is_plain_sgds() -> None:
    """The fused kernel reads parameter, gradient and momentum in the order of memory: each a layout
    of its own would not do."""
    job = Job(lr=0.05, momentum=0.9, weight_decay=1e-2)
    compute = Compute(job, CPU)
    ours, plain = compute.lay_out(net()).double(), net().double()
    optimizers = [
        compute.optimizer(ours),
        torch.optim.SGD(
            plain.parameters(),
            job.lr,
            job.momentum,
            weight_decay=job.weight_decay,
            foreach=False,
            fused=False,
        ),
    ]
    for _ in range(4):
        pixels = torch.randn(3, 3, 8, 8, dtype=torch.float64)
        for model, optimizer in zip((ours, plain), optimizers, strict=True):
            optimizer.zero_grad()
            model(pixels).square().mean().backward()
            optimizer.step()
    for one, other in zip(ours.parameters(), plain.parameters(), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-9, atol=1e-12)


def faults() -> int:
    """Pages that two large allocations take from the kernel."""
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    blocks = [torch.ones(9_000_000) for _ in range(2)]
    del blocks
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before


def repeated(place: Place) -> list[int]:
    """As a rank: the pages that a repetition takes before, and when the heap has grown to what
    alignment makes of their size; nothing where the C library is not glibc."""
    given_back = min(faults() for _ in range(3))
    return [given_back, [faults() for _ in range(12)][-1]] if keep_freed_memory() else []


def test_freed_memory_is_not_asked_for_again(forked: Forker, tmp_path: Path) -> None:
    (said,) = call(forked, tmp_path, __name__, {1: ["repeated"]})[1, "repeated"]
    if not said:
        pytest.skip("the C library here is not glibc")
    given_back, kept = said
    assert given_back > 30
    assert kept < given_back / 10


def test_compile_says_what_is_missing_here(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("CXX", "no-such-compiler")
    with pytest.raises(
        JobError,
        match=r"--compile: no compiler no-such-compiler \(see CXX\) on .*: install it .*, or "
        r"leave",
    ):
        Compute(Job(compile=True), CPU)
    Compute(Job(), CPU)

    monkeypatch.setenv("CXX", sys.executable)
    monkeypatch.setattr("sysconfig.get_path", lambda _: str(tmp_path))
    with pytest.raises(
        JobError,
        match=r"--compile: no .*Python\.h on .*: install it .* or leave --compile "
        r"out",
    ):
        Compute(Job(compile=True), CPU)


def test_compile_compiles_the_model_and_nothing_else_does(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "Python.h").touch()
    monkeypatch.setenv("CXX", sys.executable)
    monkeypatch.setattr("sysconfig.get_path", lambda _: str(tmp_path))
    model = net()
    compiled = Compute(Job(compile=True), CPU).compiled(model)
    assert type(compiled).__name__ == "OptimizedModule"
    assert list(compiled.parameters()) == list(model.parameters())
    assert Compute(Job(), CPU).compiled(model) is model
