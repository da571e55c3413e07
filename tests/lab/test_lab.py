"""The lab itself, as root and by an unprivileged user namespace: addresses, rates, faults, quotas,
and that nothing is left."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import asdict, replace
from pathlib import Path

import pytest
from msgspec import structs

from remote.lab import namespaces, quota
from remote.lab.lab import Lab, LabHost, LabState
from remote.lab.namespaces import Space
from remote.lab.spec import LabError, parse
from remote.transport.local import LocalTransport
from tests.kit.labs import REPOSITORY, Traces, collect, facts, python, rate, reaches, refused, serve
from tests.kit.standin import AN_AGENT, Heard, Reader
from tests.kit.wait import wait
from training.wire.commands import Close, encode
from training.wire.events import decode
from training.wire.host_events import AgentEnded, Hello

pytestmark = pytest.mark.skipif(bool(refused()), reason=f"no lab can be made here: {refused()}")
BY_ROOT = pytest.mark.skipif(
    os.geteuid() != 0 or quota.base() is None,
    reason="no control group with a quota can be made here",
)
MEGABYTE = 10**6


@pytest.fixture(params=["as we are", "by a user namespace"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """How the lab is made: root has two ways, an ordinary user one."""
    if request.param == "by a user namespace":
        if os.geteuid():
            pytest.skip("an ordinary user has no other way")
        monkeypatch.setattr(namespaces.os, "geteuid", lambda: 1000)


@pytest.fixture(autouse=True)
def collected() -> Iterator[None]:
    yield
    collect()


@pytest.mark.usefixtures("way")
def test_hosts_have_names_addresses_and_processes_of_their_own() -> None:
    with Lab.start(parse(3, "1gbit")) as lab:
        traces = Traces.of(lab.state)
        for host in lab.hosts:
            found = facts(lab, host.name)
            assert (found["name"], found["first"], found["named"]) == (
                host.name,
                "rankboard-lab",
                "10.10.1.2",
            )
            assert sorted(found["interfaces"]) == [
                ["eth0", host.address, 24],
                ["lo", "127.0.0.1", 8],
            ]
        serve(lab, "node3")
        assert reaches(lab, "node1", "node3")
        assert not reaches(lab, "node1", "node2")
        assert traces.members()
    traces.assert_gone()
    lab.close()


@pytest.mark.usefixtures("way")
def test_both_directions_of_a_link_are_limited() -> None:
    with Lab.start(parse(2, "20mbit,200mbit")) as lab:
        serve(lab, "node1")
        serve(lab, "node2")
        for sender, receiver in (("node1", "node2"), ("node2", "node1")):
            assert rate(lab, sender, receiver, MEGABYTE) < 21e6
        lab.set_rate("node1", 200 * MEGABYTE)
        assert lab.host("node1").rate == 200 * MEGABYTE
        for sender, receiver in (("node1", "node2"), ("node2", "node1")):
            way = (sender, receiver)
            wait(lambda way=way: rate(lab, *way, MEGABYTE) > 40e6, "the rate of before")


def test_a_cut_link_loses_everything_until_it_is_healed() -> None:
    with Lab.start(parse(3, "1gbit")) as lab:
        serve(lab, "node1")
        lab.cut("node2")
        assert not lab.host("node2").connected
        assert not reaches(lab, "node2", "node1")
        assert reaches(lab, "node3", "node1")
        lab.heal("node2")
        wait(lambda: reaches(lab, "node2", "node1"), "the way back")
        with pytest.raises(
            LabError, match=r"^no host 'node4' in the lab: the hosts are node1, node2, node3$"
        ):
            lab.cut("node4")


def test_two_labs_do_not_clash() -> None:
    spec = parse(2, "1gbit")
    with Lab.start(spec) as lab, Lab.start(spec) as other:
        serve(lab, "node1")
        assert reaches(lab, "node2", "node1")
        assert not reaches(other, "node2", "node1")
        traces = Traces.of(lab.state)
        lab.close()
        traces.assert_gone()
        serve(other, "node1")
        assert reaches(other, "node2", "node1")


def test_whoever_knows_its_state_can_change_it() -> None:
    with Lab.start(parse(2, "1gbit")) as lab:
        serve(lab, "node1")
        told = json.loads(json.dumps(asdict(lab.state)))
        state = LabState(Space(**told["space"]), tuple(LabHost(**host) for host in told["hosts"]))
        assert state == lab.state
        other = Lab(lab.spec, state)
        other.cut("node2")
        other.close()
        assert not reaches(lab, "node2", "node1")


BUSY = """
import json, os, time
start, child = time.monotonic(), os.fork()
while time.monotonic() - start < 1.5:
    pass
if not child:
    os._exit(0)
os.waitpid(child, 0)
used = os.times()
busy = used.user + used.system + used.children_user + used.children_system
print(json.dumps(busy / (time.monotonic() - start)))
"""
BELOW = f"import subprocess, sys; subprocess.run([sys.executable, '-IS', '-c', {BUSY!r}])"
"""One process down, as ranks are below an agent."""


@BY_ROOT
def test_quota_by_control_groups() -> None:
    with Lab.start(parse(2, "1gbit", "0.4,1")) as lab:
        assert [facts(lab, host.name)["cores"] for host in lab.hosts] == [
            0.4,
            min(1.0, len(os.sched_getaffinity(0))),
        ]
        assert python(lab, "node1", BELOW) < 0.5
        traces = Traces.of(lab.state)
        assert len(traces.groups) == 2
        folder = quota.base()
        assert folder
        quota.sweep(folder)
        assert all(group.exists() for group in traces.groups)
    traces.assert_gone()


def test_quotas_without_control_groups_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(quota, "base", lambda: None)
    with pytest.raises(LabError, match=r"^--cpus limits hosts by cgroups: no cgroup with a CPU"):
        Lab.start(parse(2, "1gbit", "0.4"))


def test_groups_that_may_not_be_written(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    made: list[Traces] = []
    group = Lab._limit_cores

    def grouped(lab: Lab, folder: Path) -> None:
        made.append(Traces.of(lab.state))
        group(lab, folder)

    def forbidden(*_: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Lab, "_limit_cores", grouped)
    monkeypatch.setattr(quota, "base", lambda: tmp_path)
    monkeypatch.setattr(quota, "make", forbidden)
    with pytest.raises(LabError, match=f"cannot make a cgroup in {tmp_path}: Permission denied"):
        Lab.start(parse(1, "1gbit", "0.5"))
    made[0].assert_gone()


def test_a_lab_that_cannot_be_laid_out_leaves_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[Traces] = []

    def wire(lab: Lab) -> None:
        made.append(Traces.of(lab.state))
        namespaces.run(lab.state.space.hub(), "ip", ["link add x type nosuchkind"])

    monkeypatch.setattr(Lab, "_wire", wire)
    with pytest.raises(
        LabError, match=r"^ip in the lab: .*nknown device type.*modprobe veth bridge sch_tbf"
    ):
        Lab.start(parse(2, "1gbit"))
    made[0].assert_gone()


def test_refusal_says_what_the_system_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(namespaces, "OBSTACLES", ())
    with pytest.raises(
        LabError,
        match=r"^the system forbids a lab \(--link\): OSError: .* Invalid argument; it needs to "
        r"make",
    ):
        namespaces.begin(["", "x" * 65])


HOLD = """
import json, subprocess, sys
from dataclasses import asdict
from remote.lab.lab import Lab
from remote.lab.spec import parse
lab = Lab.start(parse(2, "1gbit", sys.argv[1]))
words = [*lab.enter("node1"), "sh", "-c", "setsid sleep 1000 & echo up; exec sleep 1000"]
inside = subprocess.Popen(words, stdout=subprocess.PIPE)
inside.stdout.readline()
try:
    print(json.dumps(asdict(lab.state)), flush=True)
    sys.stdin.read()
finally:
    lab.close()
    inside.wait()
"""


@pytest.mark.parametrize(
    ("number", "cpus"), [(signal.SIGKILL, ""), (signal.SIGKILL, "0.5"), (signal.SIGINT, "0.5")]
)
def test_nothing_outlives_its_launcher(number: signal.Signals, cpus: str) -> None:
    pipe = subprocess.PIPE
    words = [sys.executable, "-c", HOLD, cpus]
    with subprocess.Popen(
        words, stdin=pipe, stdout=pipe, stderr=pipe, cwd=REPOSITORY, text=True
    ) as launcher:
        assert launcher.stdout
        told = json.loads(launcher.stdout.readline())
        state = LabState(Space(**told["space"]), tuple(LabHost(**host) for host in told["hosts"]))
        traces = Traces.of(state)
        assert len(traces.members()) >= 6
        launcher.send_signal(number)
        launcher.wait(60)  # the kernel takes down one network after the other, whoever's they are
    traces.assert_gone(groups=number == signal.SIGINT)

    def sweep() -> bool:
        Lab.start(parse(1, "1gbit")).close()
        return not any(group.exists() for group in traces.groups)

    # The kernel may hold a group for a moment after its last process has ended.
    wait(sweep, "the next lab to remove the groups")


def test_the_agent_lives_on_its_host(tmp_path: object) -> None:
    with Lab.start(parse(2, "1gbit", "0.5")) as lab:
        host = replace(lab.hosts[1], timeout=30)
        agent = structs.replace(
            AN_AGENT, folder=f"{tmp_path}/run", route_to=lab.hosts[0].address, cwd=str(tmp_path)
        )
        line = LocalTransport(enter=lab.enter).open(host, agent, Heard())
        reader = Reader(line)
        hello = decode(next(reader))
        assert hello is not None
        assert isinstance(hello.event, Hello)
        assert (hello.event.hostname, hello.event.route_address, hello.event.route_interface) == (
            "node2",
            "10.10.1.2",
            "eth0",
        )
        line.write(encode(Close()))
        record = decode(next(reader))
        while record and not isinstance(record.event, AgentEnded):
            record = decode(next(reader))
        assert line.close() == ""


def test_a_delay_is_kept_or_refused() -> None:
    """Only some kernels can delay packets. One round trip is twice what each host's packets are
    late."""
    with contextlib.ExitStack() as stack:
        try:
            lab = stack.enter_context(Lab.start(parse(2, "100mbit/20ms")))
        except LabError as error:
            if not str(error).startswith("this kernel has no netem"):
                raise
            return
        serve(lab, "node2")
        clock = (
            "began = time.monotonic(); socket.create_connection(('10.10.1.2', 7)); "
            "print(time.monotonic() - began)"
        )
        assert float(python(lab, "node1", f"import socket, time; {clock}")) >= 0.04
