"""What is said of a job before it starts agrees with what the ranks do."""

from typing import Any

import pytest
import torch

from remote.cluster.hosts import Host
from remote.plan.expected import Traffic, expect_work, traffic, traffic_pattern
from remote.plan.plan import Plan, Script
from training.job import Job
from training.shard import make_shard

VGG = 9_231_114
S = 4 * VGG


def plan(job: Job, *slots: int) -> Plan:
    hosts = tuple(Host(f"n{at}", f"10.0.0.{at}", slots=each) for at, each in enumerate(slots, 1))
    return Plan("run", hosts, job)


def of(sync: str, *slots: int, **settings: Any) -> Traffic | None:
    options = tuple(f"{name}={value}" for name, value in settings.items())
    return traffic(Job(sync=sync, sync_option=options), list(slots), VGG)


@pytest.mark.parametrize("partition", ["iid", "by_label"])
@pytest.mark.parametrize("ranks", [1, 3, 4])
@pytest.mark.parametrize("limit", [0, 100, 1437, 5000])
def test_the_steps_of_an_epoch_are_those_of_the_ranks(
    limit: int, ranks: int, partition: str
) -> None:
    job = Job(limit=limit, partition=partition, batch_size=50, accumulate=3)
    labels = torch.arange(min(limit or 1437, 1437)) % 10
    found = expect_work(plan(job, ranks))
    assert found
    assert found.steps_per_epoch == make_shard(job, labels, 0, ranks).steps


def test_the_figures_of_a_job() -> None:
    found = expect_work(plan(Job(model="vgg11", dataset="cifar10", batch_size=63), 1, 1, 1, 1))
    assert found
    assert found.shares == (16, 16, 16, 15)
    assert (found.steps_per_epoch, found.parameters, found.gradients) == (794, VGG, S)
    assert found.traffic == Traffic(1.5 * S, 1.5 * S, 1.5 * S)


def test_what_is_not_known_before_the_start_is_not_said() -> None:
    job = Job(model="torchvision/resnet50", dataset="imagefolder:/data")
    found = expect_work(plan(job, 2))
    assert found
    assert (found.steps_per_epoch, found.parameters, found.gradients, found.traffic) == (
        0,
        0,
        0,
        None,
    )
    assert expect_work(Plan("run", (Host("n", "a"),), Script(("train.py",)))) is None


def test_a_server_that_only_serves_takes_no_samples() -> None:
    job = Job(sync="parameter_server", sync_option=("dedicated=yes",), batch_size=64)
    found = expect_work(plan(job, 1, 1, 1))
    assert found
    assert found.shares == (32, 32)


@pytest.mark.parametrize(
    ("found", "each", "most", "link"),
    [
        (of("none", 1, 1), 0, 0, 0),
        (of("ddp", 1), 0, 0, 0),
        (of("ring", 1, 1, 1, 1), 1.5, 1.5, 1.5),
        (of("all_reduce", 2, 2), 1.5, 1.5, 1.5),
        (of("ddp", 4), 1.5, 1.5, 0),
        (of("ddp", 1, 1, compression="fp16"), 0.5, 0.5, 0.5),
        (of("local_sgd", 1, 1, every=4), 0.25, 0.25, 0.25),
        (of("hierarchical", 2, 2), 0, 1, 1),
        (of("gather_scatter", 1, 1, 1, 1), 1, 3, 3),
        (of("gather_scatter", 1, 1, 1, 1, granularity="parameter"), 1, 3, 6),
        (of("gather_scatter", 2, 2), 1, 3, 2),
        (of("parameter_server", 1, 3, server=1), 1, 3, 1),
    ],
)
def test_what_methods_send_in_gradients_of_one_rank(
    found: Traffic | None, each: float, most: float, link: float
) -> None:
    assert found == Traffic(each * S, most * S, link * S)


def test_no_formula_holds_for_gradients_of_unknown_size() -> None:
    assert of("ddp", 1, 1, compression="powersgd") is None


def test_bf16_halves_gradients_but_not_the_parameters_of_a_server() -> None:
    half = traffic(Job(precision="bf16"), [1, 1], VGG)
    assert half == Traffic(S / 2, S / 2, S / 2)
    job = Job(sync="parameter_server", precision="bf16")
    assert traffic(job, [1, 1, 1], VGG) == Traffic(S / 2, 2 * S, 2 * S)


def test_methods_without_a_formula_for_the_link_have_no_pattern() -> None:
    assert traffic_pattern(Job(sync="parameter_server")) == ""
