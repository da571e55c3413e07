"""The checks before a run: what facts and connections come to, and that a healthy cluster raises no
alarm."""

from __future__ import annotations

import json
import socket
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from remote.cluster.hosts import Host
from remote.doctor import doctor
from remote.doctor.step_estimate import estimate_exclusion
from remote.events import CheckFinished
from remote.plan.plan import Plan, Script
from remote.transport import AgentCommand, Unreachable
from remote.transport.bootstrap import first
from remote.transport.failure import Failure, FailureCause
from remote.transport.local import LocalTransport
from remote.transport.ssh.transport import SshTransport
from tests.kit import agents
from tests.kit.checks import GIB, amiss, check, hello, hellos, plan
from tests.kit.sshd import Sshd, small_disk
from training.agent import SPOKEN
from training.job import Job
from training.wire import commands
from training.wire.host_events import Connected, Hello, Reserved


def only(
    of: Plan, facts: Sequence[Hello | None], offsets: Sequence[float] = (0.0,) * 8
) -> CheckFinished:
    """The one thing that is amiss."""
    found = [one for one in check(of, facts, offsets) if one.outcome != doctor.OK]
    assert len(found) == 1, found
    assert found[0].advice
    return found[0]


HEALTHY = {
    "a lab": (plan(), hellos()),
    "cores shared as meant": (plan(4, slots=8), hellos(4)),
    "patch levels of Python": (plan(), hellos(python="3.12.11")),
    "builds for other GPUs where there are none": (
        plan(),
        hellos(torch="2.14.1+cu130", backends=("cuda 13.0",)),
    ),
    "a script without torch anywhere": (plan(1, Script(("train.sh",))), hellos(1, torch="")[:1]),
    "a busy core of eight": (plan(), hellos(load=3.9)),
    "one machine's loopback": (
        Plan(
            "a-run",
            tuple(
                Host(f"local{n}", "127.0.0.1", slots=4, workdir="/r/a-run/node") for n in range(3)
            ),
            Job(),
        ),
        [
            hello(1, cores=2.0, load=3.0, route_address="127.0.0.1", route_interface="lo")
            for _ in range(3)
        ],
    ),
    "a box of hosts that are one machine": (
        plan(4),
        [hello(n, boot_id="box", cores=0.5, load=3.0, disk_free=2 * GIB) for n in range(1, 5)],
    ),
    "facts that a host does not say": (plan(), hellos(memory_free=0, disk_free=0)),
    "hosts of another network, routed": (
        plan(),
        hellos(
            interfaces=(("eth0", "192.168.7.2", 24),),
            route_address="192.168.7.2",
            route_interface="eth0",
        ),
    ),
    "GPUs for all": (
        plan(slots=2),
        [hello(n, gpus=("NVIDIA H200",) * 2, backends=("cuda 13.0",)) for n in (1, 2, 3)],
    ),
}

SPEEDS = (("eth1", 1000), ("docker0", 10_000))
HEALTHY |= {
    "firmware that keeps some memory": (plan(), hellos(memory=14 * GIB)),
    "a core that is kept for something else": (plan(), hellos(cores=7.0)),
    "a host with more than the others": (
        plan(),
        hellos(cores=16.0, memory=64 * GIB, link_speeds=(("eth1", 1000),)),
    ),
    "as many cores per rank": (
        replace(
            plan(), hosts=tuple(replace(one, slots=n) for n, one in enumerate(plan().hosts, 1))
        ),
        [hello(n, cores=2.0 * n, memory=n * 8 * GIB) for n in (1, 2, 3)],
    ),
    "as many threads": (plan(threads=4), hellos(cores=4.0)),
    "slots that differ on one machine": (
        Plan(
            "a-run",
            tuple(Host(f"local{n}", "127.0.0.1", slots=n, workdir="/r/a-run/node") for n in (1, 3)),
            Job(),
        ),
        [hello(1, route_address="127.0.0.1", route_interface="lo")] * 2,
    ),
    "cores that differ beside GPUs": (
        plan(),
        [hello(n, gpus=("NVIDIA H200",), cores=8.0 * n) for n in (1, 2, 3)],
    ),
    "a method whose ranks do not wait": (
        plan(work=Job(sync="parameter_server", sync_option=("mode=async",))),
        hellos(cores=2.0, link_speeds=(("eth1", 10),)),
    ),
    "speeds of other interfaces": (
        plan(),
        [hello(n, link_speeds=SPEEDS[: 1 + n % 2]) for n in (1, 2, 3)],
    ),
}


@pytest.mark.parametrize("name", HEALTHY)
def test_a_healthy_cluster_raises_no_alarm(name: str) -> None:
    assert amiss(check(*HEALTHY[name], offsets=(0.2, -0.4, 0.0, 0.9))) == []


AMISS = {
    "python": ({"python": "3.11.9"}, "python", "warning", "3.11.9, but 3.12 on node1, node3"),
    "code": (
        {"code_changed": True},
        "code",
        "warning",
        "files, sent again: those in its workdir had been changed",
    ),
    "no torch": (
        {"torch": ""},
        "torch",
        "failed",
        "/opt/venv/bin/python3 (Python 3.12.3) has no torch",
    ),
    "another torch": (
        {"torch": "2.13.0+cpu"},
        "torch",
        "failed",
        "torch 2.13.0+cpu, but 2.14.1 on node1, node3",
    ),
    "no room at all": ({"disk_free": 2**20}, "disk", "failed", "only 1 MiB left in ~/.rankboard"),
    "little room": ({"disk_free": 2**29}, "disk", "warning", "only 512 MiB left"),
    "no memory": ({"memory_free": 50 * 2**20}, "memory", "failed", "only 50 MiB free for 1 rank"),
    "little memory": (
        {"memory_free": 300 * 2**20},
        "memory",
        "warning",
        "only 300 MiB free for 1 rank",
    ),
    "another job": (
        {"load": 7.6},
        "load",
        "warning",
        "about 8 other processes on 8 cores slow every",
    ),
    "some GPUs": ({"gpus": ("NVIDIA H200",)}, "gpus", "warning", "no GPU"),
    "fewer cores": (
        {"cores": 4.0},
        "cores",
        "warning",
        "only 4 cores, the others 8: all ranks wait for it",
    ),
    "less memory": (
        {"memory": 12 * GIB, "memory_free": 10 * GIB},
        "memory",
        "warning",
        "12 GiB of memory per rank, but 16 GiB on the median host",
    ),
    "a slower link": (
        {"link_speeds": (("eth1", 100),)},
        "interface",
        "warning",
        "eth1 10.0.0.2 runs at 100 Mbit/s, but 1000 Mbit/s on the median host",
    ),
    "no way": ({"route_address": ""}, "interface", "failed", "it cannot reach 10.0.0.1"),
    "itself": (
        {"route_address": "127.0.1.1"},
        "interface",
        "failed",
        "10.0.0.1, the address of node1, means 127.0.1.1 there",
    ),
    "a bridge": (
        {"route_address": "172.17.0.1", "route_interface": "docker0"},
        "interface",
        "failed",
        "docker0 (172.17.0.1) is a bridge of its containers or virtual machines: node1, node3 has "
        "the same address",
    ),
}


@pytest.mark.parametrize("name", AMISS)
def test_what_a_host_lacks_is_named(name: str) -> None:
    facts, wrong, outcome, text = AMISS[name]
    found = check(plan(), hellos(**facts))
    kinds = {(one.check, one.outcome) for one in found if one.outcome != doctor.OK}
    assert kinds == {(wrong, outcome)}
    assert any(text in one.text for one in found), found
    assert amiss(found)


def test_of_two_hosts_the_lesser_one_is_behind() -> None:
    found = check(plan(2), hellos(2, cores=4.0))
    assert amiss(found) == [(1, "cores", "warning")]
    of = replace(plan(), hosts=(replace(plan().hosts[0], slots=4), *plan().hosts[1:]))
    crowded = [one for one in check(of, hellos()) if one.outcome != doctor.OK]
    assert [(one.host, one.check) for one in crowded] == [(0, "memory"), (0, "cores")]
    assert crowded[1].text.startswith("only 2 cores per rank, the others 8")
    (one,) = [one for one in found if one.outcome != doctor.OK]
    assert one.text.startswith("only 4 cores, the other 8")
    assert "fewer slots in hosts.toml" in crowded[1].advice


def test_a_host_with_few_cores_is_left_out_only_where_the_others_then_take_less_time() -> None:
    """Without it, the batch is that of fewer ranks."""
    for cores, helps in ((6.0, False), (1.0, True)):
        (found,) = [one for one in check(plan(), hellos(cores=cores)) if one.outcome != doctor.OK]
        assert found.check == "cores"
        assert found.helps_to_exclude is helps
        assert ("--exclude node2" in found.advice) is helps
        assert bool(found.command) is helps


def test_the_worth_of_leaving_a_host_out_is_estimated_from_cores() -> None:
    found = estimate_exclusion(plan(), hellos(cores=2.0), ["node2"])
    assert found
    assert (found.usual_cores, found.with_all.compute_factor) == (8.0, 4.0)
    assert (found.with_all.samples_per_rank, found.without.samples_per_rank) == (22, 32)
    assert found.without.compute_factor == pytest.approx(32 / 22)
    script = estimate_exclusion(plan(work=Script(("x.py",))), hellos(cores=2.0), ["node2"])
    assert script
    assert script.without.compute_factor == 1.5, "two ranks have the work of three"
    gpus = hellos(cores=2.0, gpus=("NVIDIA H200",))
    with_gpus = [replace(hello(n), gpus=("NVIDIA H200",)) for n in (1, 2, 3)]
    assert estimate_exclusion(plan(), gpus, ["node2"]), "there are none on the others"
    assert estimate_exclusion(plan(), with_gpus, ["node2"]) is None
    assert estimate_exclusion(plan(), [*hellos()[:2], None], ["node2"]) is None
    assert estimate_exclusion(plan(), hellos(), []) is None


def test_a_script_that_imports_torch_is_warned_where_no_host_has_it() -> None:
    script = replace(plan(), work=Script(("train.py",)))
    bare = [hello(n, torch="", backends=()) for n in (1, 2, 3)]
    assert "torch" not in {found.check for found in check(script, bare) if found.outcome != "ok"}
    warned = [
        found
        for found in check(replace(script, imports_torch=True), bare)
        if found.check == "torch" and found.outcome == "warning"
    ]
    assert [found.host for found in warned] == [0, 1, 2]
    assert "rankboard setup" in warned[0].advice


def test_without_torch_setup_comes_before_pip() -> None:
    """Which the Python of Debian refuses."""
    for facts in ({"torch": ""}, {"torch": "2.13.0+cpu"}):
        (found,) = [one for one in check(plan(), hellos(**facts)) if one.outcome == doctor.FAILED]
        assert found.advice.startswith("rankboard setup")
        assert found.advice.index("rankboard setup") < found.advice.index("pip install torch")
    here = Plan("a-run", (Host("local", "127.0.0.1", workdir="/r/a-run/node"),), Job())
    (found,) = [one for one in check(here, [hello(1, torch="")]) if one.outcome == doctor.FAILED]
    assert "setup" not in found.advice, "which is for hosts of a file"


@pytest.mark.parametrize(
    ("python", "packages"),
    [(sys.executable, "'rankboard[local]'"), ("/opt/venv/bin/python3", "torch torchvision")],
)
def test_the_extra_is_for_the_python_that_runs_rankboard(python: str, packages: str) -> None:
    here = Plan("a-run", (Host("local", "127.0.0.1", workdir="/r/a-run/node"),), Job())
    facts = hello(1, torch="", executable=python)
    (found,) = [one for one in check(here, [facts]) if one.outcome == doctor.FAILED]
    assert found.advice.startswith(f"install it with {python} -m pip install {packages};")


def test_a_clock_that_is_off_is_a_warning_and_never_a_failure() -> None:
    found = only(plan(), hellos(), (0.0, -3600.0, 1.0))
    assert (found.host, found.check, found.outcome) == (1, "clock", "warning")
    assert found.text == "its clock is 1:00:00 behind this machine's"


def test_the_own_interface_is_one_that_is_there() -> None:
    of = plan(interface="eth9")
    found = [one for one in check(of, hellos()) if one.outcome == doctor.FAILED]
    assert [(one.host, one.check) for one in found] == [(n, "interface") for n in range(3)]
    assert found[1].advice == 'in hosts.toml set interface for node2 to "eth1" (10.0.0.2)', (
        "not the bridge, nor loopback"
    )


def test_a_master_whose_name_means_itself() -> None:
    facts = [hello(1, route_address="127.0.1.1", route_interface="lo"), hello(2), hello(3)]
    found = only(plan(), facts)
    assert (found.host, found.check, found.outcome) == (0, "interface", "failed")
    assert "as Debian's /etc/hosts has it" in found.text
    assert '"eth1" (10.0.0.1)' in found.advice
    assert doctor.reservations(plan(), facts)[0] is None, "nobody could reach it there"


@pytest.mark.parametrize("address", ["10.0.0.1", "127.0.0.1"])
def test_one_machine_under_several_names(address: str) -> None:
    of = replace(plan(), hosts=tuple(replace(host, address=address) for host in plan().hosts))
    found = doctor.grouped(check(of, [hello(1), hello(1), hello(3)]))
    assert amiss(found) == [(0, "address", "warning"), (1, "address", "warning")]
    told = [one for one in found if one.outcome != doctor.OK and doctor.is_told(one)]
    assert [one.same for one in told] == [(0, 1)]
    assert told[0].text == "the same machine (8 cores): such hosts do not make training faster"
    assert "keep node1 alone, with slots = 2" in told[0].advice


def test_of_a_busy_host_the_programs_are_named_that_keep_it_busy() -> None:
    busy = hello(2, load=7.6, busiest=(("python", 1.9), ("cc1plus", 0.8)))
    [found] = [one for one in check(plan(), [hello(1), busy, hello(3)]) if one.outcome != doctor.OK]
    assert found.advice.startswith("busy: python 1.9 cores, cc1plus 0.8; wait for their end")
    assert "top" not in found.advice


def test_the_hosts_of_a_busy_machine_tell_the_same() -> None:
    """What they measure differs, as each measures while others start."""
    box = [hello(n, boot_id="box", load=load) for n, load in ((1, 20.0), (2, 21.0), (3, 3.0))]
    found = doctor.grouped([one for one in check(plan(), box) if one.check == "load"])
    assert [(one.outcome, one.same) for one in found] == [("warning", (0, 1, 2))] * 3
    assert (
        found[0].text == found[2].text == "about 18 other processes on 8 cores slow every rank down"
    )
    quiet = [replace(one, load=0.5) for one in box]
    assert {one.text for one in check(plan(), quiet) if one.check == "load"} == {"0.5"}


def test_ones_own_other_run_is_named() -> None:
    found = only(plan(), hellos(runs=(("20261122-1", 4),)))
    assert (found.host, found.check, found.outcome) == (1, "load", "warning")
    assert found.text == "another run of yours trains there: 20261122-1 (4 ranks)"
    assert "rankboard stop 20261122-1" in found.advice
    assert "--exclude" in found.advice
    many = only(plan(), hellos(runs=tuple((f"run{n}", 1) for n in range(9))))
    assert many.text.endswith(": run0 (1 rank) and 8 more")
    here = Plan("a-run", (Host("local", "127.0.0.1", slots=4, workdir="/r/a-run/node"),), Job())
    assert "--exclude" not in only(here, [hello(1, runs=(("20261122-1", 4),))]).advice
    assert "--exclude" not in only(here, [hello(1, load=30.0)]).advice


def test_equal_findings_of_several_hosts_are_one() -> None:
    found = doctor.grouped(check(plan(), hellos(3, torch="")))
    assert all(one.same == () for one in found), "what is well is not grouped"
    found = doctor.grouped(
        check(plan(4), [hello(1), *(hello(n, gpus=("NVIDIA H200",)) for n in (2, 3)), hello(4)])
    )
    gpus = [one for one in found if one.outcome != doctor.OK]
    assert [(one.host, one.same, doctor.is_told(one)) for one in gpus] == [
        (0, (0, 3), True),
        (3, (0, 3), False),
    ]
    assert doctor.refusal([host.name for host in plan(4).hosts], gpus[0]).startswith(
        "node1 and node4: no GPU"
    )


def test_several_unknown_keys_are_trusted_by_one_command() -> None:
    failures = [
        Failure(
            FailureCause.HOST_KEY_UNKNOWN,
            f"its host key is unknown: ED25519 SHA256:x{host.name}. Compare that, then accept it:",
            f"rankboard trust {host.name}",
            apart=True,
        )
        for host in plan().hosts
    ]
    found = doctor.check_facts(plan(), [None] * 3, [0.0] * 3, failures)
    assert {one.advice for one in found if one.outcome == doctor.FAILED} == {
        "rankboard trust --all"
    }
    (*_, one) = doctor.check_facts(plan(1), [None], [0.0], failures[:1])
    assert one.advice == "rankboard trust node1"


def test_advice_names_the_hosts_file_that_was_given() -> None:
    hosts = tuple(replace(host, hosts_file="lab.toml") for host in plan().hosts)
    failures = [Failure(FailureCause.HOST_KEY_UNKNOWN, "its host key is unknown")] * 3
    found = doctor.check_facts(replace(plan(), hosts=hosts), [None] * 3, [0.0] * 3, failures)
    assert {one.advice for one in found if one.outcome == doctor.FAILED} == {
        "rankboard trust --hosts lab.toml --all"
    }


def test_threads_and_slots_that_do_not_fit() -> None:
    assert only(plan(1, slots=9), hellos(1)).text == "9 ranks on 8 cores: they wait for each other"
    assert only(plan(1, slots=3, threads=4), hellos(1)).check == "cores"


def test_torchvision_only_where_the_job_needs_it() -> None:
    without = hellos(torchvision="")
    assert check(plan(), without) == check(plan(), hellos())
    for dataset in ("mnist", "fashion_mnist", "cifar10", "svhn"):
        assert amiss(check(plan(work=Job(dataset=dataset)), without)) == []
    assert amiss(check(plan(work=Job(model="torchvision/resnet18")), without)) == [
        (1, "torchvision", "failed")
    ]
    assert amiss(check(plan(work=Job(dataset="synthetic")), without)) == []


def test_builds_of_torch_that_cannot_talk_to_each_other() -> None:
    gpus = [hello(n, gpus=("NVIDIA H200",), backends=("cuda 13.0",)) for n in (1, 2, 3)]
    other, none = replace(gpus[1], backends=("hip 7.1",)), replace(gpus[1], backends=())
    assert amiss(check(plan(), [gpus[0], other, gpus[2]])) == [(1, "torch", "failed")]
    assert amiss(check(plan(), [gpus[0], none, gpus[2]])) == [(1, "torch", "warning")]


CHECKS_OF = {
    FailureCause.ADDRESS: "address",
    FailureCause.REFUSED: "login",
    FailureCause.TIMEOUT: "login",
    FailureCause.AUTHENTICATION: "login",
    FailureCause.PYTHON: "python",
    FailureCause.AGENT: "python",
    FailureCause.CODE: "code",
    FailureCause.WORKDIR: "disk",
    FailureCause.NO_ROOM: "disk",
}


@pytest.mark.parametrize("cause", CHECKS_OF)
def test_a_host_that_was_not_reached_fails_the_check_of_its_cause(cause: FailureCause) -> None:
    facts, failed = [hello(1), None, hello(3)], CHECKS_OF[cause]
    failure = Failure(cause, "it is not\nas it was", "do  this")
    found = doctor.check_facts(plan(), facts, (0.0,) * 3, (None, failure, None))
    *others, last = [one for one in found if one.host == 1]
    assert last == CheckFinished(1, failed, "failed", failure.what, "do this")
    assert all(one.outcome == doctor.OK for one in others)
    passed = {"address": [], "login": ["address"]}.get(failed, ["address", "login"])
    assert [one.check for one in others] == passed
    assert amiss(found) == [(1, failed, "failed")], "the others are checked all the same"
    assert doctor.is_unfit(cause) == (failed in ("python", "code", "disk"))


def listening(of: Plan, facts: Sequence[Hello | None]) -> list[Reserved | None]:
    asked = doctor.reservations(of, facts)
    return [
        Reserved(one.address, one.port or 40_000 + n) if one else None
        for n, one in enumerate(asked)
    ]


def test_every_host_tries_the_master_and_its_neighbour() -> None:
    of = replace(plan(4), hosts=(replace(plan().hosts[0], master_port=29_500), *plan(4).hosts[1:]))
    reserved = listening(of, hellos(4))
    asked = doctor.connects(reserved)
    master = ("10.0.0.1", 29_500)
    second, third, fourth = (("10.0.0.2", 40_001), ("10.0.0.3", 40_002), ("10.0.0.4", 40_003))
    assert [one and set(one.targets) for one in asked] == [
        {second},
        {master, third},
        {master, fourth},
        {master},
    ]
    assert doctor.connects(listening(plan(1), hellos(1))) == [None], (
        "a host alone has nobody to reach"
    )


def test_hosts_that_are_there_try_each_other_where_some_are_not() -> None:
    asked = doctor.connects(listening(plan(4), [hello(1), None, hello(3), hello(4)]))
    assert asked[0] == commands.Connect((("10.0.0.3", 40_002),), doctor.SECONDS)
    assert asked[1] is None


@pytest.mark.parametrize(
    ("of", "advice"),
    [
        (plan(), "set another master_port for it in "),
        (
            replace(plan(), work=Script(("train.py",))),
            "choose another port where it is set, by --master-port or by ",
        ),
    ],
)
def test_a_port_that_is_taken_is_changed_where_it_may_have_been_set(of: Plan, advice: str) -> None:
    reserved: list[Reserved | None] = listening(of, hellos())
    reserved[0] = Reserved("10.0.0.1", 0, "port 29511 on 10.0.0.1 is in use by nc (pid 7)")
    found = doctor.check_connections(of, hellos(), reserved, [None] * len(reserved))
    (taken,) = (one for one in found if one.check == "port" and one.outcome == "failed")
    assert taken.advice.startswith(advice)


def test_connections_that_fail_are_named_by_host_and_address() -> None:
    reserved = listening(plan(), hellos())
    reserved[2] = Reserved("10.0.0.3", 0, "port 1 on 10.0.0.3 is in use by nc (pid 7)")
    made = [
        [Connected(*target, 0.0012) for target in one.targets] if one else []
        for one in doctor.connects(reserved)
    ]
    made[1] = [replace(made[1][0], error="timed out after 3 s")]
    found = doctor.check_connections(plan(), hellos(), reserved, made)
    assert amiss(found) == [(1, "connect", "failed"), (2, "port", "failed")]
    assert found[1] == CheckFinished(0, "connect", "ok", "1.2 ms")
    missed = next(one for one in found if (one.host, one.check) == (1, "connect"))
    assert missed.text == "cannot reach node1 at 10.0.0.1:40000 (timed out after 3 s) from 10.0.0.2"
    assert "firewall" in missed.advice
    assert doctor.refusal([host.name for host in plan().hosts], missed).startswith(
        "node2: cannot reach node1"
    )


# The real thing -----------------------------------------------------------------------------------


@pytest.fixture(params=[agents.Host.follow, agents.Host.check], ids=["an agent", "an errand"])
def asked(request: pytest.FixtureRequest, host: agents.Host) -> agents.Follower:
    """Whom a host is asked through: an agent before a run, an errand by the doctor."""
    found: agents.Follower = request.param(host)
    return found


def test_it_tells_what_came_of_each_connection(asked: agents.Follower) -> None:
    with (
        socket.create_server(("127.0.0.1", 0)) as there,
        socket.socket() as closed,
        socket.create_server(("127.0.0.1", 0)) as full,
    ):
        closed.bind(("127.0.0.1", 0))
        open_port, closed_port, full_port = (
            sock.getsockname()[1] for sock in (there, closed, full)
        )
        full.listen(0)
        waiting = [
            socket.create_connection(("127.0.0.1", full_port))
        ]  # from now on nobody else gets through
        targets = [("127.0.0.1", port) for port in (open_port, closed_port, full_port)] + [
            ("node1", 22),
            ("127.0.0.1", 70_000),
        ]
        asked.send(commands.Connect(tuple(targets), 0.2))
        found = {(one.address, one.port): one for one in asked.wait_for(Connected, 5)}
        for sock in waiting:
            sock.close()
        with there.accept()[0] as tried:
            assert tried.recv(1) == b"", "it hangs up at once"
    assert found["127.0.0.1", open_port].error == ""
    assert found["127.0.0.1", closed_port].error == "Connection refused"
    assert found["127.0.0.1", full_port].error == "timed out after 0.2 s"
    assert found["127.0.0.1", full_port].seconds >= 0.2
    assert found["node1", 22].error.startswith("not an address")
    assert found["127.0.0.1", 70_000].error.startswith("not an address")
    asked.close()


def test_a_rendezvous_that_was_tried_still_lets_ranks_in(asked: agents.Follower) -> None:
    asked.send(commands.Reserve("127.0.0.1", 0))
    port = asked.wait_for(Reserved)[0].port
    asked.send(commands.Connect((("127.0.0.1", port),), 3.0))
    assert asked.wait_for(Connected)[0].error == ""
    with socket.create_connection(("127.0.0.1", port), 5):
        pass
    asked.close()


def test_it_tells_what_room_its_host_has(asked: agents.Follower) -> None:
    facts = asked.wait_for(Hello)[0]
    asked.close()
    assert 0 < facts.memory_free <= facts.memory
    assert facts.disk_free > 1
    assert 0 <= facts.load < 10_000
    assert facts.backends == () or all(" " in one for one in facts.backends)


class Hearer:
    def phase(self, name: str) -> None:
        pass

    def said(self, text: str) -> None:
        pass


def test_a_host_that_is_not_reached_is_to_be_tried_the_same_way() -> None:
    host = Host("node1", "10.0.0.1", user="ada", port=2222, identity_file="~/key", jump="gate")
    for one, way in (
        (replace(host, identity_file=""), "ssh -J gate -p 2222 ada@10.0.0.1 true"),
        (
            Host("node1", "n1", proxy_command="nc -x p %h %p"),
            "ssh -o 'ProxyCommand=nc -x p %h %p' -p 22 n1 true",
        ),
    ):
        (*_, failed) = doctor.check_facts(
            Plan("a-run", (one,), Job()), [None], [0.0], [Failure(FailureCause.OTHER, "no luck")]
        )
        assert failed.advice == f"try it by hand: {way}"


WAYS = {
    "refused": ("login", "refused the connection"),
    "name": ("address", "does not resolve"),
    "key": ("login", "its host key is unknown"),
    "login": ("login", "keys tried: "),
    "python": ("python", "no /no/python there"),
    "workdir": ("disk", "cannot use its workdir"),
}


@pytest.mark.parametrize("way", WAYS)
def test_what_the_way_to_a_host_really_says_is_put_to_the_right_check(way: str, sshd: Sshd) -> None:
    one = replace(sshd.make_hosts(1)[0], timeout=10.0)
    changed = {
        "refused": replace(one, port=1),
        "name": replace(one, address="nowhere.invalid"),
        "python": replace(one, python="/no/python"),
        "workdir": replace(one, workdir="/proc/1/none"),
    }
    if way == "key":
        sshd.known_hosts.write_text("")
    if way == "login":
        (sshd.home / ".ssh" / "id_ed25519").unlink()
    there = changed.get(way, one)
    with pytest.raises(Unreachable) as caught:
        SshTransport().open(
            there, AgentCommand(f"{there.workdir}/runs/a-run/0", "a-run", 0, "", "~"), Hearer()
        )
    check, text = WAYS[way]
    found = doctor.check_facts(
        Plan("a-run", (there,), Job()), [None], [0.0], [caught.value.failure]
    )
    assert (found[-1].check, found[-1].outcome) == (check, "failed"), found
    assert text in found[-1].text
    assert found[-1].advice


@pytest.mark.parametrize("size", ["1m", "3m"], ids=["no room for the code", "none for the agent"])
def test_a_full_disk_at_the_first_start_has_the_advice_of_the_doctor(size: str, sshd: Sshd) -> None:
    host = sshd.make_hosts(1)[0]
    agent = AgentCommand(f"{host.workdir}/runs/a-run/0", "a-run", 0, "", "~")
    with (
        small_disk(sshd.daemons[host.address], host.workdir, size),
        pytest.raises(Unreachable) as caught,
    ):
        SshTransport().open(host, agent, Hearer())
    failure = caught.value.failure
    assert failure.cause is FailureCause.NO_ROOM
    assert f"cannot use its workdir {host.workdir}: No space left on device" in failure.what
    (of, *_) = plan(1, workdir=host.workdir).hosts
    full = check(Plan("a-run", (of,), Job()), [hello(1, disk_free=1)])
    (advice,) = [one.advice for one in full if one.check == "disk"]
    assert failure.advice == advice


def test_a_full_disk_here_is_told_of_too(tmp_path: Path) -> None:
    """A local run has no hosts file: --runs-dir says where it lies."""
    (folder := tmp_path / "code" / "training" / "agent").mkdir(parents=True)
    for name in ("training", "training/agent"):
        (tmp_path / "code" / name / "__init__.py").touch()
    said = json.dumps(["/runs", "ENOSPC", "No space left on device"])
    (folder / "__main__.py").write_text(
        f"def main(argv):\n    print({SPOKEN + 'unusable ' + said!r})"
    )
    host = Host("local", "127.0.0.1", transport="local", python=sys.executable)
    transport = LocalTransport(tmp_path / "code" / "training")
    with pytest.raises(Unreachable) as caught:
        transport.open(host, AgentCommand("/runs/a-run/0", "a-run", 0, "", "~"), Hearer())
    assert caught.value.failure.cause is FailureCause.NO_ROOM
    assert "--runs-dir" in caught.value.failure.advice


def test_agent_and_bootstrap_speak_to_the_launcher_in_the_same_way() -> None:
    assert first.SPOKEN == SPOKEN
