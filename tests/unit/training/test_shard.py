"""Which samples a rank takes."""

import itertools
from collections import Counter

import pytest
import torch

from training.job import Job, JobError
from training.shard import LabelShard, Shard, StepSamples, make_shard, share_sizes, take_share

WORLDS, BATCHES, SAMPLES, ACCUMULATE = (1, 2, 3, 5), (5, 8, 63), (5, 64, 65, 191), (1, 3)
ALL = list(itertools.product(WORLDS, BATCHES, SAMPLES, ACCUMULATE))


def shards(
    world: int, batch_size: int, samples: int, accumulate: int = 1, seed: int = 7
) -> list[Shard]:
    return [Shard(samples, batch_size, accumulate, seed, rank, world) for rank in range(world)]


def by_label(
    labels: torch.Tensor, world: int, batch_size: int, accumulate: int = 1, seed: int = 7
) -> list[LabelShard]:
    return [
        LabelShard(len(labels), batch_size, accumulate, seed, rank, world, labels)
        for rank in range(world)
    ]


def labelled(samples: int) -> torch.Tensor:
    """Labels of five classes, in a mixed order."""
    return torch.randint(5, (samples,), generator=torch.Generator().manual_seed(samples))


def taken(groups: list[StepSamples]) -> list[int]:
    return torch.cat([share for group in groups for share in group.shares]).tolist()


def check(split: list[Shard], batch_size: int, accumulate: int) -> list[list[StepSamples]]:
    """What holds for every split of an epoch; gives the groups of each rank."""
    groups = [list(one.groups(epoch=1)) for one in split]
    assert {len(of_rank) for of_rank in groups} == {split[0].steps}
    for step in zip(*groups, strict=True):
        assert {len(group.shares) for group in step} <= {*range(1, accumulate + 1)}
        assert len({len(group.shares) for group in step}) == 1
        assert all(len(share) for group in step for share in group.shares)
        assert {group.size for group in step} == {sum(group.samples for group in step)}
    indices = [index for of_rank in groups for index in taken(of_rank)]
    assert len(indices) == len(set(indices)) == split[0].samples - split[0].dropped
    full = share_sizes(batch_size, len(split))
    for of_rank, most in zip(groups, full, strict=True):
        sizes = [len(share) for group in of_rank for share in group.shares]
        assert set(sizes[:-1]) <= {most}
        assert sizes[-1] <= most
    return groups


@pytest.mark.parametrize(("world", "batch_size", "samples", "accumulate"), ALL)
def test_an_epoch_is_split_without_repetition_into_equally_many_steps(
    world: int, batch_size: int, samples: int, accumulate: int
) -> None:
    split = shards(world, batch_size, samples, accumulate)
    groups = check(split, batch_size, accumulate)
    for step in zip(*groups, strict=True):
        for shares in zip(*(group.shares for group in step), strict=True):
            assert list(map(len, shares)) == share_sizes(sum(map(len, shares)), world)
    assert split[0].dropped < world


def test_the_ranks_shares_join_to_what_one_process_takes() -> None:
    (one,) = shards(1, 12, 50)
    four = [list(each.groups(2)) for each in shards(4, 12, 50)]
    for number, whole in enumerate(list(one.groups(2))[:4]):
        joined = torch.stack([of_rank[number].shares[0] for of_rank in four]).T.flatten()
        assert joined.tolist() == whole.shares[0].tolist()


@pytest.mark.parametrize(
    "make", [lambda k: shards(2, 8, 100, k)[1], lambda k: by_label(labelled(100), 2, 8, k)[1]]
)
def test_a_group_is_that_many_batches(make) -> None:
    single, triple = list(make(1).groups(1)), list(make(3).groups(1))
    assert len(single) == 13
    assert [len(group.shares) for group in triple] == [3, 3, 3, 3, 1]
    assert taken(single) == taken(triple)
    assert [group.size for group in triple] == [
        sum(group.size for group in single[n : n + 3]) for n in range(0, 13, 3)
    ]


@pytest.mark.parametrize(
    "make", [lambda k: shards(2, 8, 100, k)[1], lambda k: by_label(labelled(100), 2, 8, k)[1]]
)
@pytest.mark.parametrize("accumulate", [1, 3])
def test_the_groups_from_the_first_on_are_those_of_the_whole_epoch(make, accumulate: int) -> None:
    shard = make(accumulate)
    whole = list(shard.groups(3))
    for first in (0, 2, shard.steps):
        assert taken([*whole[:first], *shard.groups(3, first)]) == taken(whole)
        assert len([*shard.groups(3, first)]) == shard.steps - first


@pytest.mark.parametrize(
    "make",
    [
        lambda seed: shards(1, 40, 40, 1, seed)[0],
        lambda seed: by_label(labelled(40), 1, 40, 1, seed)[0],
    ],
)
def test_order_depends_on_seed_and_epoch_alone(make) -> None:
    def order(seed: int, epoch: int) -> list[int]:
        return taken([*make(seed).groups(epoch)])

    torch.manual_seed(1)
    first = order(1, 1)
    torch.manual_seed(2)
    assert order(1, 1) == first
    assert order(1, 2) != first
    assert order(2, 1) != first
    assert sorted(order(1, 2)) == sorted(first)


@pytest.mark.parametrize(("world", "batch_size", "samples", "accumulate"), ALL)
def test_by_label_each_rank_keeps_its_own_part(
    world: int, batch_size: int, samples: int, accumulate: int
) -> None:
    labels = labelled(samples)
    split = by_label(labels, world, batch_size, accumulate)
    groups = check(split, batch_size, accumulate)
    parts = [set(taken(of_rank)) for of_rank in groups]
    ranges = [(min(labels[[*part]].tolist()), max(labels[[*part]].tolist())) for part in parts]
    assert all(high <= low for (_, high), (low, _) in itertools.pairwise(ranges))
    full = zip(share_sizes(samples, world), share_sizes(batch_size, world), strict=True)
    assert sum(len(group.shares) for group in groups[0]) == min(
        -(-part // share) for part, share in full
    )


def test_by_label_the_parts_are_as_even_as_can_be() -> None:
    labels = torch.arange(100) % 4
    groups = [list(one.groups(1)) for one in by_label(labels, 4, 8)]
    assert [Counter(labels[taken(of_rank)].tolist()) for of_rank in groups] == [
        {0: 25},
        {1: 25},
        {2: 25},
        {3: 25},
    ]


def test_what_is_left_out_is_said() -> None:
    assert [*shards(4, 8, 64)[0].remarks()] == []
    uneven = "A global batch of 7 is split unevenly over 3 ranks: [3, 2, 2]"
    assert [*shards(3, 7, 64)[0].remarks()] == [
        uneven,
        "Each epoch leaves out 1 of 64 samples: fewer than the 3 ranks",
    ]
    # parts of 22, 21, 21: the first takes 3 at a time, 8 times, the others 2, and so leave 5 each
    assert [*by_label(labelled(64), 3, 7)[0].remarks()] == [
        uneven,
        "Each epoch leaves out 10 of 64 samples: all ranks take as many steps as the smallest "
        "part allows",
    ]


@pytest.mark.parametrize(("samples", "world"), [(10, 1), (10, 3), (2, 4)])
def test_evaluation_shares_are_a_partition(samples: int, world: int) -> None:
    shares = [take_share(torch.arange(samples), rank, world).tolist() for rank in range(world)]
    assert sorted(itertools.chain(*shares)) == list(range(samples))


def test_too_many_ranks_are_refused() -> None:
    with pytest.raises(JobError, match="3 samples for 4 ranks"):
        Shard(3, 8, 1, 0, 0, 4)


@pytest.mark.parametrize(("partition", "kind"), [("iid", Shard), ("by_label", LabelShard)])
def test_the_job_says_how_samples_are_split(partition: str, kind: type[Shard]) -> None:
    assert type(make_shard(Job(partition=partition, batch_size=8), labelled(64), 0, 2)) is kind
