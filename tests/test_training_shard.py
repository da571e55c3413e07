"""Which samples a rank takes."""

import itertools

import pytest
import torch

from training import shard
from training.job import JobError

WORLDS, BATCHES, SAMPLES = (1, 2, 3, 5), (5, 8, 63), (5, 64, 65, 191)


@pytest.mark.parametrize(("world", "batch_size", "samples"), list(itertools.product(WORLDS, BATCHES, SAMPLES)))
def test_an_epoch_is_split_without_repetition_into_equally_many_steps(world: int, batch_size: int, samples: int) -> None:
    batches = list(shard.global_batches(samples, batch_size, world, seed=7, epoch=1))
    shares = [[shard.share(batch, rank, world) for batch in batches] for rank in range(world)]

    assert len(batches) == shard.steps_per_epoch(samples, batch_size, world)
    assert all(len(batch) == batch_size for batch in batches[:-1])
    for step, batch in enumerate(batches):
        sizes = [len(shares[rank][step]) for rank in range(world)]
        assert sizes == shard.share_sizes(len(batch), world)
        assert min(sizes) >= 1
        assert max(sizes) - min(sizes) <= 1
    taken = torch.cat([share for of_rank in shares for share in of_rank])
    dropped = shard.dropped(samples, batch_size, world)
    assert dropped < world
    assert len(taken) == len(set(taken.tolist())) == samples - dropped


def test_the_ranks_shares_join_to_what_one_process_takes() -> None:
    one = list(shard.global_batches(50, 12, 1, seed=3, epoch=2))
    four = list(shard.global_batches(50, 12, 4, seed=3, epoch=2))
    assert [batch.tolist() for batch in four] == [batch.tolist() for batch in one[:4]]
    joined = torch.stack([shard.share(four[0], rank, 4) for rank in range(4)]).T.flatten()
    assert joined.tolist() == four[0].tolist()


def test_order_depends_on_seed_and_epoch_alone() -> None:
    def order(seed: int, epoch: int) -> list[int]:
        return next(shard.global_batches(40, 40, 1, seed, epoch)).tolist()

    torch.manual_seed(1)
    first = order(1, 1)
    torch.manual_seed(2)
    assert order(1, 1) == first
    assert order(1, 2) != first
    assert order(2, 1) != first


@pytest.mark.parametrize(("samples", "world"), [(10, 1), (10, 3), (2, 4)])
def test_evaluation_shares_are_a_partition(samples: int, world: int) -> None:
    shares = [shard.evaluation_share(samples, rank, world).tolist() for rank in range(world)]
    assert sorted(itertools.chain(*shares)) == list(range(samples))


def test_too_many_ranks_are_refused() -> None:
    with pytest.raises(JobError, match="3 samples are fewer than the 4 ranks"):
        shard.steps_per_epoch(3, 8, 4)
