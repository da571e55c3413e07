"""What a study says where a figure cannot be what more nodes bring, and how it keeps the threads of
ranks equal."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from remote.cluster.hosts import Cluster, Host
from remote.metrics.conditions import Conditions
from remote.metrics.doubt import DoubtKind
from remote.study.conclusion import answer_text, comparison_text, conclusion_lines
from remote.study.folder import RunEnded, TrialOutcome
from remote.study.host_pool import HostPool
from remote.study.progress import StudyProgress
from remote.study.results import StudyResult, compute_results, results_to_json
from remote.study.study import CellPlace, Study
from remote.study.study_file import parse_study
from tui.study.cell_table import make_cell_table

FOUR_WAYS = """
repetitions = 3
[job]
model = "lenet5"
steps = 8
[axes]
method = [
    { label = "ddp", sync = "ddp", nodes = 4 },
    { label = "ring", sync = "ring", nodes = 4 },
]
[[cell]]
label = "one node"
sync = "none"
nodes = 1
[compare]
axis = "method"
reference = "ddp"
baseline = { method = "one node" }
"""
NODES = """
repetitions = 3
[job]
model = "lenet5"
sync = "all_reduce"
[axes]
nodes = [1, 2, 4]
"""
ALIKE = Conditions((1,))


def made(study: Study, seconds: dict[str, float], on: dict[str, Conditions]) -> StudyResult:
    """The results of a study whose cells took so long, under these conditions."""
    entries = [
        RunEnded(
            f"{key} #{number}",
            f"run-{key}-{number}",
            TrialOutcome.COUNTED,
            value * (1 + 0.01 * number),
            conditions=on.get(key, ALIKE),
        )
        for key, value in seconds.items()
        for number in (1, 2, 3)
    ]
    return compute_results(StudyProgress.of(study, entries))


def four_ways(ring: float = 0.3, **on: Conditions) -> StudyResult:
    seconds = {"method=ddp": 0.4, "method=ring": ring, "method=one node": 1.0}
    named = {f"method={key.replace('_', ' ')}": one for key, one in on.items()}
    return made(parse_study("ways", FOUR_WAYS), seconds, named)


def test_a_speed_up_that_nodes_can_bring_is_told() -> None:
    found = four_ways()
    assert found.doubts == []
    assert "; the fastest, ring, is 3.33 times (" in conclusion_lines(found)[0]


def test_more_than_the_nodes_can_bring_comes_first_and_is_never_praised() -> None:
    found = four_ways(ring=0.05, one_node=Conditions((2,)))
    doubted, answered, *others = conclusion_lines(found)
    assert doubted.startswith(
        "4 nodes were measured 20 times as fast as one (ring): more than 4 is not possible by "
        "adding nodes; the runs on one node had 2 threads per rank, the others 1."
    )
    assert doubted.endswith("Do not use this figure.")
    assert answered.startswith("4 nodes were measured 2.5 times as fast as one (ddp), but ")
    assert others[0].startswith("ring is 8 times (")  # both have as many nodes and threads
    assert "fastest" not in " ".join(others)
    assert [one.kind for one in found.doubts] == [DoubtKind.OTHER_THREADS, DoubtKind.TOO_FAST]
    shown = [row[-2:] for row in make_cell_table(found).rows]
    assert [speed_up for speed_up, _ in shown] == ["in doubt", "in doubt", "1.00"]
    assert shown[1][1].startswith("8.00x faster")


def test_a_comparison_along_the_nodes_has_no_answer_where_it_is_in_doubt() -> None:
    study = parse_study("nodes", NODES)
    seconds = {"nodes=1": 1.0, "nodes=2": 0.6, "nodes=4": 0.1}
    found = made(study, seconds, {})
    assert conclusion_lines(found)[0].startswith(
        "4 nodes were measured 10 times as fast as one (nodes=4): more than 4 is not possible"
    )
    assert answer_text(found) == "no answer: 1 of 2 comparisons cannot be used"
    two, four = found.cells[1:]
    assert comparison_text(study, two).startswith("2 is 1.67 times")
    assert comparison_text(study, four).startswith("4 nodes were measured 10 times as fast as one")
    assert [row[-1] for row in make_cell_table(found).rows][0::2] == ["reference", "in doubt"]


def test_hosts_that_share_a_machine_are_named_with_the_praise() -> None:
    shared = Conditions((1,), shares_machine=True)
    found = four_ways(ring=0.6, ddp=shared, ring_=ALIKE)
    assert answer_text(found).endswith("as fast as one node, on hosts that share one machine")
    study = parse_study("nodes", NODES)
    seconds = {"nodes=1": 1.0, "nodes=2": 0.6, "nodes=4": 0.4}
    along = made(study, seconds, {"nodes=4": shared})
    assert answer_text(along).startswith("4 is fastest: 2.5 times (")
    assert " as fast as 1, on hosts that share one machine; " in answer_text(along)


def test_doubts_are_facts_for_programs() -> None:
    told = json.loads(json.dumps(results_to_json(four_ways(ring=0.05)), allow_nan=False))
    [doubt] = told["doubts"]
    assert (doubt["kind"], doubt["more"]["name"]) == ("too fast", "method=ring")
    assert (doubt["fewer"]["nodes"], doubt["most"]) == (1, 4)
    assert doubt["speed_up"] == pytest.approx(20)
    assert doubt["text"].startswith("4 nodes were measured 20 times")


def test_losses_and_accuracies_are_compared_whatever_the_threads() -> None:
    study = parse_study("nodes", f'metric = "loss"\n{NODES}')
    found = made(study, {"nodes=1": 1.0, "nodes=4": 0.1}, {"nodes=1": Conditions((2,))})
    assert found.doubts == []


# Before the start ---------------------------------------------------------------------------------


def hosts(*addresses: str, transport: str = "ssh") -> tuple[Host, ...]:
    return tuple(
        Host(f"node{number}", address, transport=transport)
        for number, address in enumerate(addresses)
    )


def threads(cluster: tuple[Host, ...], place: CellPlace, most_nodes: int) -> list[int]:
    with HostPool(Cluster("hosts.toml", cluster)) as places:
        return [host.threads for host in places.reach(place, most_nodes)[0].hosts]


HERE = hosts(*["127.0.0.1"] * 4, transport="local")
LOOPBACK = hosts("127.0.0.2", "127.0.0.3", "127.0.0.4", "localhost")


@pytest.mark.parametrize("cluster", [HERE, LOOPBACK])
def test_hosts_of_this_machine_have_equal_shares_of_it_in_all_runs(
    monkeypatch: pytest.MonkeyPatch, cluster: tuple[Host, ...]
) -> None:
    monkeypatch.setattr("remote.study.host_pool.usable_cores", lambda: 9.5)
    assert threads(cluster, CellPlace(nodes=1), 4) == [2]
    assert threads(cluster, CellPlace(nodes=4), 4) == [2, 2, 2, 2]
    assert threads(cluster, CellPlace(nodes=1, processes=2), 4) == [1]
    assert threads(cluster, CellPlace(nodes=1), 1) == [9]
    assert threads(cluster, CellPlace(nodes=4, processes=16), 4) == [1, 1, 1, 1]
    said = tuple(replace(host, threads=3) for host in cluster)
    assert threads(said, CellPlace(nodes=1), 4) == [3]


def test_hosts_of_other_machines_have_the_cores_that_they_have() -> None:
    assert threads(hosts("10.0.0.1", "10.0.0.2"), CellPlace(nodes=1), 2) == [0]
    behind = tuple(replace(host, jump="ada@gateway") for host in LOOPBACK)
    assert threads(behind, CellPlace(nodes=1), 4) == [0]


def remarks(text: str, cluster: tuple[Host, ...]) -> list[str]:
    return HostPool(Cluster("hosts.toml", cluster, file="my.toml")).thread_remarks(
        parse_study("nodes", text)
    )


def test_equal_shares_are_told_before_the_start(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("remote.study.host_pool.usable_cores", lambda: 8.0)
    assert remarks(NODES, HERE) == [
        "all 4 hosts are this machine (8 cores): a rank has 2 threads in every run, also on fewer "
        "hosts"
    ]
    assert remarks(NODES.replace("[1, 2, 4]", "[4]"), HERE) == []
    assert remarks(f'{NODES}cpus = ["0.5"]', HERE) == []  # whose quota says it


def test_threads_that_differ_are_warned_of_before_the_start() -> None:
    of_three = (replace(hosts("10.0.0.1")[0], threads=2), *hosts("10.0.0.2", "10.0.0.3"))
    [said] = remarks(NODES.replace("[1, 2, 4]", "[1, 3]"), of_three)
    assert said.startswith("warning: runs on some of the hosts have other numbers of threads per ")
    assert "node0 2, node0 as many as cores" in said
    assert said.endswith("write the same threads = N for each host in my.toml")
    assert remarks(NODES, hosts("10.0.0.1", "10.0.0.2", "10.0.0.3", "10.0.0.4")) == []
