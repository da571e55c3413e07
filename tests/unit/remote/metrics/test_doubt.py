"""Which speed-ups more nodes cannot have brought, and what is said of them."""

from __future__ import annotations

import json
import math
from dataclasses import replace

import pytest

from remote.metrics.conditions import Conditions, find_conditions, join_conditions
from remote.metrics.doubt import (
    Doubt,
    DoubtKind,
    Side,
    differing_work,
    find_doubt,
    objects,
    sentences,
)
from remote.plan.plan import Script
from remote.statistics.interval import Interval, IntervalMethod
from tests.kit.histories import History, plan
from tests.kit.studies import hello
from training.job import Job
from training.wire.host_events import HostSample


def side(nodes: int, threads: int = 0, *, ranks: int = 0, batch: int = 64, name: str = "") -> Side:
    conditions = Conditions((threads,) if threads else ())
    ranks = ranks or nodes
    return Side(name or f"on {nodes}", nodes, ranks, ranks, conditions, batch)


def faster(times: float, reach: float = 0.02) -> Interval:
    """The ratio of the times of a cell that was measured so many times as fast."""
    method = IntervalMethod.NONE if math.isnan(reach) else IntervalMethod.T_LOGS
    low, high = (1 / times * (1 - reach), 1 / times * (1 + reach))
    return Interval(1 / times, low, high, 3, method)


def judged(times: float, reach: float = 0.02, nodes: int = 4) -> Doubt | None:
    return find_doubt(side(nodes), side(1), faster(times, reach))


@pytest.mark.parametrize(
    ("times", "reach", "is_doubtful"),
    [
        (3.9, 0.02, False),
        (4.0, 0.0, False),
        (4.05, 0.05, False),  # within what a measurement may be off
        (4.1, 0.05, False),
        (4.1, 0.001, True),  # surely more than four
        (4.3, 0.05, True),
        (4.3, 0.5, True),
        (4.3, math.nan, True),
        (19.1, 0.5, True),
    ],
)
def test_more_than_the_nodes_can_bring_is_in_doubt(
    times: float, reach: float, is_doubtful: bool
) -> None:
    found = judged(times, reach)
    assert (found is not None) == is_doubtful
    assert found is None or found.kind is DoubtKind.TOO_FAST


def test_the_order_of_the_two_does_not_matter() -> None:
    one = find_doubt(side(4), side(1), faster(19.1))
    other = find_doubt(side(1), side(4), faster(19.1).inverse())
    assert one
    assert other
    assert one.speed_up == pytest.approx(other.speed_up)
    assert replace(one, speed_up=0, low=0, high=0) == replace(other, speed_up=0, low=0, high=0)


def test_ranks_count_where_nodes_are_equal_and_servers_do_not() -> None:
    found = find_doubt(side(1, ranks=2), side(1), faster(2.4))
    assert found
    assert "2 ranks were measured 2.4 times as fast as one" in sentences([found])[0]
    served = replace(side(4), workers=3)
    assert find_doubt(served, side(1), faster(3.3))
    assert find_doubt(side(4), side(1), faster(3.3)) is None


def test_other_methods_or_settings_may_be_faster_on_as_many_or_more_nodes() -> None:
    assert find_doubt(side(4), side(4, name="other"), faster(5)) is None
    assert find_doubt(side(4), side(2), faster(5), ("sync",)) is None
    told = find_doubt(side(4), side(2), faster(5), ("sync",), is_speed_up=True)
    assert told
    assert sentences([told]) == [
        "4 nodes were measured 5 times as fast as 2 (on 4): more than 2 is not possible by adding "
        "nodes; they also differ in sync. This is not what more nodes bring."
    ]


def test_other_threads_are_in_doubt_whatever_was_measured() -> None:
    found = find_doubt(side(4, 1), side(1, 2), faster(1.8))
    assert found
    assert found.kind is DoubtKind.OTHER_THREADS
    assert sentences([found])[0].startswith(
        "4 nodes were measured 1.8 times as fast as one (on 4), but the runs on one node had 2 "
        "threads per rank, the others 1: this is not what more nodes bring. Repeat the runs with "
        "threads = 1 for each host in hosts.toml"
    )
    alike = find_doubt(side(2, 2, name="ring"), side(2, 1, name="ddp"), faster(1.8))
    assert alike
    assert sentences([alike])[0].startswith(
        "ring had 2 threads per rank, ddp 1: their times do not compare."
    )


def test_ranks_of_one_host_share_its_threads() -> None:
    """Two ranks have half the threads of one: that is no difference of the hosts."""
    assert find_doubt(side(1, 1, ranks=2), side(1, 2), faster(1.5)) is None
    assert find_doubt(side(1, 0), side(4, 1), faster(0.3)) is None  # threads that are not known


REASONS = [
    (side(4, 1), side(1, 2), (), "the runs on one node had 2 threads per rank, the others 1"),
    (side(4), side(1, batch=16), (), "their batches have 16 and 64 samples"),
    (side(4), side(1), ("precision",), "they also differ in precision"),
    (
        replace(side(4), conditions=Conditions(shares_machine=True)),
        side(1),
        (),
        "the hosts share one machine",
    ),
    (side(4), side(1), (), "were perhaps disturbed, or had too little memory or cache"),
]


@pytest.mark.parametrize(("more", "fewer", "differing", "reason"), REASONS)
def test_the_likely_reason_is_said(
    more: Side, fewer: Side, differing: tuple[str, ...], reason: str
) -> None:
    found = find_doubt(more, fewer, faster(19.1), differing, is_speed_up=True)
    assert found
    [said] = sentences([found])
    assert said.startswith(
        "4 nodes were measured 19.1 times as fast as one (on 4): more than 4 is not possible by "
        "adding nodes; "
    )
    assert reason in said
    assert said.count("perhaps disturbed") == (reason == REASONS[-1][3])


def test_chance_is_said_where_it_may_be_chance() -> None:
    by_chance, unknown, sure = (judged(4.4, reach) for reach in (0.3, math.nan, 0.01))
    assert by_chance
    assert unknown
    assert sure
    assert "it may be chance (95%: 3.38 to 6.29)" in sentences([by_chance])[0]
    assert "so few runs do not show whether it is chance" in sentences([unknown])[0]
    assert "chance" not in sentences([sure])[0]


def test_what_has_the_same_reason_is_said_once_by_its_worst() -> None:
    names = "abcde"
    found = [
        find_doubt(side(4, name=name), side(1), faster(5 + at)) for at, name in enumerate(names)
    ]
    [said] = sentences([one for one in found if one], {"e": "ring"})
    assert said.startswith("4 nodes were measured up to 9 times as fast as one (ring, d, c and 2 ")


def test_objects_are_strict_json() -> None:
    found = judged(19.1)
    assert found
    [told] = json.loads(json.dumps(objects([found], {"on 4": "four"}), allow_nan=False))
    assert (told["kind"], told["most"], told["fewer"]["nodes"]) == ("too fast", 4, 1)
    assert "(four)" in told["text"]


def test_what_changes_how_fast_ranks_are() -> None:
    job = Job(model="lenet5", dataset="digits")
    more = replace(job, sync="ring", batch_size=8, seed=3, log_every=7, precision="bf16")
    assert differing_work(job, more, is_alone=True) == ("precision",)
    assert differing_work(job, more, is_alone=False) == ("sync", "precision")
    assert differing_work(Script(("a",)), Script(("a",)), is_alone=True) == ()
    assert differing_work(Script(("a",)), Script(("b",)), is_alone=True) == ("arguments",)


@pytest.mark.parametrize(
    ("boots", "cores", "expected"),
    [
        (("one", "one"), 2.0, Conditions((1,), shares_machine=True)),
        (("one", "one"), 1.0, Conditions((1,))),  # hosts of a lab
        (("one", "two"), 2.0, Conditions((1,))),
    ],
)
def test_conditions_are_those_that_ranks_and_hosts_tell(
    boots: tuple[str, str], cores: float, expected: Conditions
) -> None:
    of = History(plan(2))
    for host, boot in enumerate(boots):
        of.say(host, replace(hello(f"node{host}", host), boot_id=boot, cores=cores))
        of.say(host, HostSample((50.0, 70.0), 3, 8, 1, 1))
    assert find_conditions(of.training().state()) == expected
    on_gpu = History(plan(2)).training(device="cuda:0")
    assert find_conditions(on_gpu.state()).threads == ()


def test_a_script_starts_with_the_threads_of_its_host() -> None:
    for has_gpu, threads in ((False, (6,)), (True, ())):
        of = History(plan(2, script=True))
        for host in (0, 1):
            facts = replace(hello(f"node{host}", host), cores=6.0, accelerator=has_gpu)
            of.say(host, facts)
        assert find_conditions(of.state()).threads == threads


def test_conditions_of_several_runs() -> None:
    several = [Conditions((2,)), Conditions((1, 4), shares_machine=True), Conditions()]
    assert join_conditions(several) == Conditions((1, 2, 4), shares_machine=True)
    assert join_conditions([]) == Conditions()
