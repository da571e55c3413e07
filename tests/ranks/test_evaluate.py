"""An evaluation says the same with any number of ranks, and what it says is what one process
counts."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
import torch
from torch import distributed, nn
from torch.nn.functional import cross_entropy

from tests.kit.forked_ranks import Forker
from tests.kit.rank_calls import call
from training.compute import Compute
from training.datasets import Images
from training.evaluate import (
    CPU_BATCH,
    STATISTICS_BATCH,
    _choose_batch_size,
    _split_into_batches,
    evaluate,
    evaluation_mode,
)
from training.job import Job
from training.place import Place

CPU = torch.device("cpu")
CLASSES = 5
SAMPLES = 2 * STATISTICS_BATCH + 131
"""Neither size of a chunk divides it."""
WORLDS = (1, 3)
NETS = ("tracked", "untracked")


def images(classes: int = CLASSES) -> Images:
    dice = torch.Generator().manual_seed(3)
    labels = torch.randint(classes, (SAMPLES,), generator=dice)
    pixels = torch.randint(256, (SAMPLES, 2, 3, 3), generator=dice, dtype=torch.uint8) // (
        1 + labels.view(-1, 1, 1, 1) % 5
    )
    return Images(pixels, labels, classes, (0.5, 0.5), (0.5, 0.25))


def net(kind: str = "tracked", classes: int = CLASSES) -> nn.Module:
    torch.manual_seed(7)
    norm = nn.BatchNorm2d(6, track_running_stats=kind == "tracked")
    return nn.Sequential(nn.Conv2d(2, 6, 3), norm, nn.ReLU(), nn.Flatten(), nn.Linear(6, classes))


def evaluations(place: Place) -> dict[str, list[Any]]:
    found = {kind: evaluate(net(kind), images(), place, CPU) for kind in NETS}
    found["many"] = evaluate(net(classes=101), images(101), place, CPU)
    return {
        kind: [one.loss, one.accuracy, one.samples, list(map(list, one.confusion))]
        for kind, one in found.items()
    }


@pytest.fixture(scope="session")
def found(
    forked: Forker, tmp_path_factory: pytest.TempPathFactory
) -> dict[tuple[int, str], list[Any]]:
    folder, module = tmp_path_factory.mktemp("ranks"), __name__
    return call(forked, folder, module, dict.fromkeys(WORLDS, ("evaluations",)))


Found = dict[tuple[int, str], list[Any]]


@pytest.mark.parametrize("kind", [*NETS, "many"])
def test_any_number_of_ranks_says_the_same(found: Found, kind: str) -> None:
    loss, accuracy, samples, confusion = found[1, "evaluations"][0][kind]
    for world in WORLDS:
        for rank in found[world, "evaluations"]:
            assert rank[kind][0] == pytest.approx(loss, abs=1e-12)
            assert rank[kind][1:] == [accuracy, samples, confusion]


@pytest.mark.parametrize("kind", [*NETS, "many"])
def test_it_is_what_one_process_counts(found: Found, kind: str) -> None:
    classes = 101 if kind == "many" else CLASSES
    data, model = images(classes), net(kind if kind in NETS else "tracked", classes).eval()
    size = STATISTICS_BATCH if kind == "untracked" else CPU_BATCH
    batches = [data.batch(indices, CPU) for indices in torch.arange(SAMPLES).split(size)]  # type: ignore[no-untyped-call]
    with torch.no_grad():
        logits, labels = (
            torch.cat([model(pixels) for pixels, _ in batches]),
            torch.cat([labels for _, labels in batches]),
        )
    loss, accuracy, samples, confusion = found[3, "evaluations"][1][kind]
    predicted = logits.argmax(1)
    assert loss == pytest.approx(cross_entropy(logits.double(), labels).item(), abs=1e-6)
    assert (accuracy, samples) == ((predicted == labels).sum().item() / SAMPLES, SAMPLES)
    table = [
        [int(((labels == true) & (predicted == guess)).sum()) for guess in range(classes)]
        for true in range(classes)
    ]
    assert confusion == ([] if kind == "many" else table)


def test_a_batch_dependent_model_is_told_apart(found: Found) -> None:
    """By its own statistics a model does judge a batch of another size otherwise, so that fixed
    batches matter."""
    data, model = images(), net("untracked").eval()
    with torch.no_grad():
        whole = cross_entropy(model(data.batch(torch.arange(SAMPLES), CPU)[0]), data.labels).item()
    assert abs(whole - found[1, "evaluations"][0]["untracked"][0]) > 1e-4


def test_ranks_merge_what_they_found_in_the_group_that_is_patient() -> None:
    group: Any = object()
    with patch.object(distributed, "all_reduce") as merged:
        evaluate(net(), images(), Place(world_size=2), CPU, group=group)
    assert [call.kwargs["group"] for call in merged.call_args_list] == [group, group]


def test_layers_that_were_frozen_stay_so() -> None:
    model = nn.Sequential(nn.BatchNorm2d(2), nn.Sequential(nn.Dropout(), nn.BatchNorm2d(2).eval()))
    before = [module.training for module in model.modules()]
    with evaluation_mode(model):
        assert not any(module.training for module in model.modules())
    assert [module.training for module in model.modules()] == before


def test_a_model_is_evaluated_in_the_precision_of_its_training() -> None:
    model = net()
    coarse = evaluate(model, images(), Place(), CPU, Compute(Job(precision="bf16"), CPU).logits)
    fine = evaluate(model, images(), Place(), CPU)
    assert coarse.loss != fine.loss
    assert coarse.loss == pytest.approx(fine.loss, rel=0.02)
    assert sum(map(sum, coarse.confusion)) == SAMPLES


@pytest.mark.parametrize(("side", "gpu"), [(32, 512), (64, 512), (128, 128), (224, 64)])
def test_a_gpu_takes_more_images_at_a_time_unless_they_are_large(side: int, gpu: int) -> None:
    of = replace(images(), size=side)
    assert [_choose_batch_size(of, torch.device(kind)) for kind in ("cpu", "cuda")] == [
        CPU_BATCH,
        gpu,
    ]


@pytest.mark.parametrize(
    ("images", "sizes"),
    [(251, [251]), (501, [250, 251]), (252, [250, 2]), (500, [250, 250]), (1, [1])],
)
def test_no_chunk_but_the_only_one_is_a_single_image(images: int, sizes: list[int]) -> None:
    chunks = _split_into_batches(images, 250)
    assert [len(chunk) for chunk in chunks] == sizes
    assert torch.equal(torch.cat(chunks), torch.arange(images))


def test_a_run_tells_the_confusion_and_each_ranks_own_accuracy(
    forked: Forker, tmp_path: Path
) -> None:
    job = Job(
        sync="all_reduce",
        model="torchvision/mobilenet_v3_small",
        dataset="synthetic",
        batch_size=7,
        steps=2,
        limit=20,
        batch_norm="local",
    )
    ranks = forked.run(tmp_path.name, job, [None] * 2)
    first, second = (ranks.evaluated(rank)[-1] for rank in range(2))
    assert (first.loss, first.accuracy) == (second.loss, second.accuracy)
    assert sum(map(sum, first.confusion)) == first.samples == 20
    assert (second.confusion, second.classes) == ((), ())
    assert (
        first.accuracy
        == sum(row[index] for index, row in enumerate(first.confusion)) / first.samples
    )
    assert first.own_accuracy == first.accuracy, (
        "the merged figures are by the first rank's statistics"
    )
    assert 0 <= second.own_accuracy <= 1
