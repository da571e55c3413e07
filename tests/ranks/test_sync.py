"""Whole jobs of several ranks, from the command line on: they come to what one process comes to, or
say that they do not."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.kit.forked_ranks import Forker
from tests.kit.training_ranks import Ranks
from training.job import Job

STEPS = 12
BATCH = 10
"""Split unevenly by three ranks."""

Runs = Callable[[str, int], Ranks]


@pytest.fixture(scope="session")
def runs(forked: Forker) -> Runs:
    """Runs a small job with a method on a number of ranks, once each."""
    made: dict[tuple[str, int], Ranks] = {}

    def result(sync: str, world: int) -> Ranks:
        if (sync, world) not in made:
            job = Job(
                sync=sync,
                steps=STEPS,
                batch_size=BATCH,
                momentum=0.9,
                weight_decay=1e-4,
                log_every=5,
            )
            made[sync, world] = forked.run(f"{sync}{world}", job, [None] * world)
        return made[sync, world]

    return result


def joined_losses(ranks: Ranks) -> list[float]:
    """The loss over the global batch of each step."""
    steps = zip(*(ranks.steps(rank) for rank in range(ranks.world)), strict=True)
    return [sum(step.loss * step.samples for step in of_ranks) / BATCH for of_ranks in steps]


@pytest.mark.parametrize("sync", ["all_reduce", "ddp"])
def test_exact_methods_follow_one_process_on_the_joined_batch(runs: Runs, sync: str) -> None:
    many, one = runs(sync, 3), runs("none", 1)
    assert joined_losses(many) == pytest.approx(joined_losses(one), abs=1e-4)
    assert many.evaluated(0)[-1].loss == pytest.approx(one.evaluated(0)[-1].loss, abs=1e-4)


def test_ranks_that_never_talk_part_ways_and_it_is_said(runs: Runs) -> None:
    apart = runs("none", 2)
    assert joined_losses(apart) != pytest.approx(joined_losses(runs("none", 1)), abs=1e-4)
    assert "--sync none: the ranks' models differ" in apart.out(0)
    assert "models differ" not in apart.out(1)
    assert {step.bytes_sent for step in apart.steps(0)} == {0}


@pytest.mark.parametrize("sync", ["all_reduce", "ddp"])
def test_bytes_sent_are_a_rings(runs: Runs, sync: str) -> None:
    gradients = 4 * 61_706
    assert [step.bytes_sent for step in runs(sync, 3).steps(1)] == pytest.approx(
        [2 * 2 * gradients // 3] * STEPS, rel=1e-3
    )
