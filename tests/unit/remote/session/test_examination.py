"""The checks of hosts without a run, with hosts that play their part."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import replace

import pytest

from remote.cluster.hosts import Host
from remote.plan.plan import Plan
from remote.run.run_state import RunState
from remote.run.state.phases import HostPhase
from remote.session.examination import Examination
from remote.transport import Program, ReachProgress, Unreachable
from remote.transport.failure import Failure, FailureCause
from tests.kit.scripted_hosts import End, Hosts, Play, acted
from training.job import Job
from training.wire.commands import Close, Command, Connect, Reserve
from training.wire.host_events import Connected, Hello, Reserved

HELLO = Hello(
    *("h", "u", 1, "3.11", "/usr/bin/python3", "Linux", "boot", 2.0, 1),
    torch="2",
    route_address="127.0.0.1",
)


def healthy(end: End, command: Command | None) -> None:
    """A host that gives every answer."""
    match command:
        case None:
            end.say(HELLO)
        case Reserve(address):
            end.say(Reserved(address, 29_500 + end.host))
        case Connect(targets):
            end.say(*(Connected(*target, 0.001) for target in targets))


def breaks_at(kind: type[Command]) -> Callable[[End, Command | None], None]:
    """A host whose connection breaks when it is asked this."""

    def part(end: End, command: Command | None) -> None:
        if isinstance(command, kind):
            raise EOFError
        healthy(end, command)

    return part


def hangs_at(kind: type[Command] | type[None]) -> Callable[[End, Command | None], None]:
    """A host that does not answer this."""

    def part(end: End, command: Command | None) -> None:
        if not isinstance(command, kind):
            healthy(end, command)

    return part


def examined(*plays: Play, stop: bool = False) -> tuple[Examination, Hosts]:
    """What the checks of these hosts have found."""
    hosts = Hosts(*plays)
    quick = tuple(replace(host, timeout=0.3) for host in hosts.hosts)
    examination = Examination(Plan("a-run", quick, Job()), hosts)
    try:
        for _ in examination.batches():
            if stop:
                examination.stop("interrupted")
    finally:
        hosts.close()
    return examination, hosts


def outcomes(state: RunState, check: str) -> list[str]:
    return [
        found.outcome if (found := state.checks.get((host.index, check))) else ""
        for host in state.hosts
    ]


def test_healthy_hosts_reach_each_other() -> None:
    examination, hosts = examined(*[acted(healthy)] * 3)
    state = examination.state
    assert outcomes(state, "port") == outcomes(state, "connect") == ["ok"] * 3
    asked = [[type(command) for _, command in one.heard] for one in hosts.players]
    assert asked == [[Reserve, Connect, Close]] * 3
    assert [len(one.of(Connect)[0].targets) for one in hosts.players] == [1, 2, 1]
    assert not any(thread.name.startswith("host ") for thread in threading.enumerate())


@pytest.mark.parametrize(
    "part",
    [breaks_at(Reserve), breaks_at(Connect), hangs_at(Reserve)],
    ids=["breaks at the port", "breaks at the connections", "hangs"],
)
def test_a_host_that_is_lost_in_the_second_round_has_failed_the_connections(
    part: Callable[[End, Command | None], None],
) -> None:
    state = examined(acted(healthy), acted(part), acted(healthy))[0].state
    assert state.checks[1, "connect"].outcome == "failed"
    assert state.checks[1, "login"].outcome == "ok"
    assert state.hosts[1].phase is HostPhase.LOST


@pytest.mark.parametrize(
    ("part", "why"),
    [
        (hangs_at(type(None)), "its Python has started and gave no answer within 0.3 s"),
        (lambda end, _: end.send(b'{"error":"cannot use its workdir: no"}\n'), "cannot use its"),
        (lambda end, _: end.send(b'{"event":"hello"}\n'), "it sent an answer that cannot be used"),
    ],
    ids=["nothing", "an error", "half of the facts"],
)
def test_a_host_without_facts_is_lost_and_the_others_are_checked(
    part: Callable[[End, Command | None], None], why: str
) -> None:
    state = examined(acted(part), acted(healthy), acted(healthy))[0].state
    assert [host.phase for host in state.hosts] == [
        HostPhase.LOST,
        HostPhase.READY,
        HostPhase.READY,
    ]
    failed = [one for (host, _), one in state.checks.items() if host == 0 and one.text]
    assert any(one.text.startswith(why) for one in failed), failed
    assert outcomes(state, "connect")[1:] == ["ok", "ok"]


def test_a_host_that_cannot_use_its_workdir_is_no_lost_host() -> None:
    def part(end: End, _: Command | None) -> None:
        end.send(b'{"error":"cannot use it","cause":"workdir","advice":"mend it"}\n')

    state = examined(acted(part))[0].state
    assert state.checks[0, "disk"].outcome == "failed"
    assert state.checks[0, "disk"].advice == "mend it, or set another workdir for it in hosts.toml"
    assert state.checks[0, "login"].outcome == "ok"


def test_an_answer_that_nobody_asked_for_is_ignored() -> None:
    def hasty(end: End, command: Command | None) -> None:
        healthy(end, command)
        if command is None:
            end.say(Reserved("10.9.9.9", 1), Connected("10.9.9.9", 1, 0.1))

    examination, hosts = examined(acted(healthy), acted(hasty))
    assert outcomes(examination.state, "connect") == ["ok", "ok"]
    assert hosts.players[0].of(Connect)[0].targets == (("127.0.0.1", 29_501),)


def test_a_person_can_stop_it() -> None:
    examination, _ = examined(acted(healthy), acted(hangs_at(type(None))), stop=True)
    assert examination.state.stop_reason == "interrupted"
    assert examination.state.checks == {}


def test_a_host_that_cannot_be_reached_yet_does_not_delay_a_stop() -> None:
    release = threading.Event()

    class Unreached:
        def open(self, host: Host, program: Program, progress: ReachProgress) -> None:
            release.wait()
            raise Unreachable("node1", Failure(FailureCause.TIMEOUT, "too late"))

    host = Host("node1", "127.0.0.1")
    examination = Examination(Plan("a-run", (host,), Job()), Unreached())  # type: ignore[arg-type]
    examination.stop()
    for _ in examination.batches():
        pass
    assert examination.state.stop_reason == "stopped by the user"
    release.set()
