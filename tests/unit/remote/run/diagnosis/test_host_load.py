"""What a host uses of what it may use."""

from __future__ import annotations

import math

import pytest

from remote.run.diagnosis.host_load import loads
from tests.kit.checks import hello
from tests.kit.histories import History, plan
from training.wire.host_events import GpuSample, HostSample, RankSample

GIB = 1 << 30


def told(cores: float, *machines: str) -> History:
    """Two hosts of two ranks with so many cores, on machines of four whose cores are all busy."""
    history = History(plan(2, slots=2))
    for host, machine in enumerate(machines):
        history.say(host, hello(host, cores=cores, boot_id=machine))
        history.say(host, HostSample((100.0,) * 4, 3 * GIB, 16 * GIB))
        for rank in (2 * host, 2 * host + 1):
            history.say(host, RankSample(rank, 10.0 * (host + 1), GIB))
    return history


def test_a_host_with_a_machine_of_its_own_is_measured_as_a_whole() -> None:
    run = told(4.0, "a", "b").state()
    assert [(load.cpu, load.cores, load.memory) for load in loads(run.hosts, run.ranks)] == [
        (1.0, 4.0, 3 * GIB)
    ] * 2


@pytest.mark.parametrize("machines", [("a", "b"), ("a", "a")])
def test_a_host_with_a_quota_is_measured_by_its_ranks_against_it(machines: tuple[str, str]) -> None:
    run = told(0.4, *machines).state()
    one, two = loads(run.hosts, run.ranks)
    assert (one.cpu, two.cpu) == (pytest.approx(0.5), pytest.approx(1.0))
    assert one.cores == 0.4
    assert one.memory == 2 * GIB
    assert one.own


def test_hosts_that_share_a_machine_are_measured_by_their_ranks() -> None:
    run = told(4.0, "a", "a").state()
    assert [load.cpu for load in loads(run.hosts, run.ranks)] == [
        pytest.approx(0.05),
        pytest.approx(0.1),
    ]


def test_the_gpus_of_a_host_are_those_of_its_ranks() -> None:
    history = History(plan(2, slots=2)).training(device="cuda:0")
    for rank, use in enumerate((90.0, 40.0, math.nan, 30.0)):
        history.rank(rank, GpuSample(rank, use, 1, 2))
    run = history.state()
    one, two = loads(run.hosts, run.ranks)
    assert one.gpu == pytest.approx(0.65)
    assert two.gpu == pytest.approx(0.3), "one that tells nothing counts for nothing"


def test_the_use_of_gpus_that_tell_nothing_is_not_known() -> None:
    run = History(plan(1)).training(device="cuda:0").rank(0, GpuSample(0, math.nan, 1, 2)).state()
    (load,) = loads(run.hosts, run.ranks)
    assert math.isnan(load.gpu)


def test_nothing_is_known_before_the_first_sample() -> None:
    run = History(plan(1)).state()
    (load,) = loads(run.hosts, run.ranks)
    assert math.isnan(load.cpu)
    assert (load.cores, load.memory) == (0.0, 0)
