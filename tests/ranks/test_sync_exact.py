"""Every method that keeps one model comes to the parameters of one process on the joined batch, in
worlds of 1 to 4 ranks.

All ranks of a world are forked once and run all its cases (see `sync_ranks`); each test waits for
one of them.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch

from tests.kit.comparing import compare, expected, gradients, joined_losses, same
from tests.kit.sync_ranks import Case
from tests.kit.sync_runs import Ran
from training import registry

WORLDS = (1, 2, 3, 4)
MANY = "bucket_mb=0.0005"
"""62 elements in double precision: many buckets."""
METHODS: tuple[tuple[str, ...], ...] = (
    ("all_reduce", "granularity=parameter"),
    ("all_reduce", MANY),
    ("all_reduce", "granularity=flat"),
    ("ring", MANY, "segment_kb=0.05"),
    ("ring", "granularity=flat", "segment_kb=0.1"),
    ("gather_scatter", "granularity=parameter"),
    ("gather_scatter", MANY, "segment_kb=0.1"),
    ("hierarchical", MANY),
    ("parameter_server", MANY),
    ("parameter_server", "dedicated=yes"),
    ("ddp",),
    ("ddp", MANY),
    ("local_sgd", "every=1"),
    ("local_sgd", "warmup=20"),
)
"""Each exact method with its options."""
HOSTS = {2: [(1, 1)], 3: [(2, 1)], 4: [(2, 2), (3, 1)]}
"""For a hierarchical method, besides all ranks on one host."""


def table() -> Iterator[Case]:
    """The cases in double precision without a fault."""
    yield Case("none")
    for sync, *options in METHODS:
        yield from of_method(sync, tuple(options))
    for mode in ("broadcast", "local", "sync", "untracked"):
        yield from (Case("all_reduce", (), world, net="norm", batch_norm=mode) for world in (1, 3))
    yield Case("ddp", (), 3, net="norm", batch_norm="sync")
    for (
        sync,
        *options,
    ) in METHODS:  # whose exchange goes on in a thread, or with fewer ranks, while the layers talk
        if sync in ("ring", "gather_scatter", "hierarchical", "parameter_server"):
            yield Case(sync, tuple(options), 3, net="norm", batch_norm="sync")


def of_method(sync: str, options: tuple[str, ...]) -> Iterator[Case]:
    """Its cases; the average of parameters that are not decayed by all alike is not exact, as are
    those of a rank alone."""
    if "every=1" in options:
        yield from (Case(sync, options, world, net="common") for world in WORLDS)
        return
    for world in WORLDS[1:] if "dedicated=yes" in options else WORLDS:
        yield Case(sync, options, world)
        if world == 3:  # shares of all batches are uneven
            yield Case(sync, options, world, accumulate=3)
            yield Case(sync, options, world, net="uneven")
        for hosts in HOSTS.get(world, []) if sync == "hierarchical" else []:
            yield Case(sync, options, world, hosts)


def singles() -> Iterator[Case]:
    """The cases in single precision: two epochs of a net that is a hundred times as large, and so
    are the pieces that travel."""
    larger = {
        MANY: "bucket_mb=0.05",
        "segment_kb=0.05": "segment_kb=10",
        "segment_kb=0.1": "segment_kb=10",
    }
    for sync, *options in METHODS:
        if "every=1" not in options:  # it averages no gradients
            yield Case(
                sync,
                tuple(larger.get(option, option) for option in options),
                3,
                net="lenet",
                steps=8,
            )


FAULTY = (
    Case("all_reduce", (), 3, fault="divided by N-1"),
    Case("all_reduce", (), 3, fault="all_reduce skipped"),
    Case("all_reduce", (), 3, fault="zero-filled"),
    Case("ring", (MANY, "segment_kb=0.05"), 3, fault="divided by N-1"),
    Case("ring", (MANY, "segment_kb=0.05"), 3, fault="segment skipped"),
    Case("gather_scatter", (MANY, "segment_kb=0.1"), 3, fault="segment skipped"),
)
PIECES = ("bucket_mb=0.05",)
NARROW = (
    *(
        Case(sync, PIECES, 3, net="lenet", steps=2, wire="bfloat16")
        for sync in ("all_reduce", "ring", "gather_scatter")
    ),
    Case("hierarchical", PIECES, 3, (2, 1), net="lenet", steps=2, wire="bfloat16"),
    Case("parameter_server", PIECES, 3, net="lenet", steps=2, wire="bfloat16"),
    Case("ddp", (), 3, net="lenet", steps=2, wire="bfloat16"),
    Case("ddp", ("compression=bf16",), 3, net="lenet", steps=2),
)
GPUS = torch.cuda.device_count()
DOUBLE, SINGLE = tuple(sorted(table(), key=lambda case: case.world)), tuple(singles())


@pytest.mark.parametrize("case", DOUBLE, ids=str)
def test_parameters_are_those_of_one_process(ran: Ran, case: Case) -> None:
    compare(case, ran(case), rtol=1e-9, atol=1e-12)


# each rank has a GPU of its own
@pytest.mark.parametrize("case", [case for case in DOUBLE if case.world <= GPUS], ids=str)
def test_parameters_are_those_of_one_process_on_gpus(ran_on_gpus: Ran, case: Case) -> None:
    compare(case, ran_on_gpus(case), rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("case", NARROW, ids=str)
def test_gradients_that_travel_in_bfloat16(ran: Ran, case: Case) -> None:
    """A number has 8 bits there, and is rounded when it is sent and when it is added; yet all ranks
    come to the same model."""
    found = ran(case)
    oracle = expected(case, found[0].trainers)[0].last
    gradients([outcome.last for outcome in found], oracle, 2**-6)
    with pytest.raises(AssertionError):
        gradients([outcome.last for outcome in found], oracle, 1e-4)
    for outcome in found:
        same("parameter", outcome.parameters, found[0].parameters, 0, 0)


def test_every_method_is_in_the_table() -> None:
    assert {sync for sync, *_ in METHODS} == set(registry.list_names("sync")) - {"none"}


@pytest.mark.parametrize("case", FAULTY, ids=str)
def test_a_wrong_method_is_found_out(ran: Ran, case: Case) -> None:
    found = ran(case)
    with pytest.raises(AssertionError, match=r"^parameter of rank"):
        compare(case, found, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("case", SINGLE, ids=str)
def test_first_gradients_and_losses_in_single_precision(ran: Ran, case: Case) -> None:
    found = ran(case)
    (oracle,) = expected(case, found[0].trainers)[:1]
    gradients([outcome.gradients for outcome in found], oracle.gradients, 1e-5)
    assert joined_losses(found) == pytest.approx(oracle.losses, abs=1e-5)
