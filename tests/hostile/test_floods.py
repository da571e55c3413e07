"""Nothing that a host does holds up the launcher or another host: floods, lines without end, ears
that are shut."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import pytest

from remote import events as launcher
from remote.limits import Limits
from tests.hostile.launcher import MIB, measured, session, watch
from tests.hostile.values import ESCAPES
from tests.kit.scripted_hosts import End, Hosts, Part, acted
from tests.kit.stage import HELLO, trains
from tests.kit.wait import looks
from training.wire import events, host_events
from training.wire.commands import Close, Command, Lease, StartAttempt
from training.wire.host_events import HostSample, OutputText

SMALL = Limits(line=64 * 1024, log=MIB, shown=1024, unsent=MIB, write=0.3)
"""As the real ones, but sooner."""
LEASES, VOLUME = 2, 4 * MIB
"""A flood goes on until the other host has had so many leases, or for so many bytes."""


def floods(what: bytes | events.Event, leases: Callable[[], int]) -> Part:
    """An honest agent that, once it has started its rank, sends this again and again, and meanwhile
    does not listen. `leases`: of the other host, so far."""

    def part(end: End, command: Command | None) -> None:
        trains(end, command)  # type: ignore[arg-type]
        if isinstance(command, StartAttempt):
            enough, left = leases() + LEASES, VOLUME
            for _ in looks("leases of the other host"):
                if leases() >= enough or left <= 0:
                    break
                block = what if isinstance(what, bytes) else numbered(end, what)
                end.send(block)
                left -= len(block)
            end.player.done = True

    return part


def numbered(end: End, event: events.Event) -> bytes:
    """The next record of its journal, which keeps nothing of it."""
    end.journal.append(b"")
    return record(event, len(end.journal), end.host)


def record(event: events.Event, number: int, host: int = 1) -> bytes:
    """The line of a record of a host."""
    return events.encode(events.Record(host, 0, number, time.time(), event)).encode(
        "utf-8", "backslashreplace"
    )


def samples(end: End, command: Command | None) -> None:
    """An honest agent that gives a sign of life at each lease."""
    trains(end, command)  # type: ignore[arg-type]
    if isinstance(command, Lease):
        end.say(HostSample((), 1, 1))


FLOODS: dict[str, bytes | events.Event] = {
    "facts": HELLO,
    "samples": HostSample((1.0,) * 64, 1, 1),
    "long texts": OutputText(1, "stdout", "x" * 60_000),
    "many lines": OutputText(1, "stdout", "x\n" * 5000),
    "errors": OutputText(1, "stderr", "Traceback\n" * 2000),
    "phases": OutputText(
        1, "stdout", events.PREFIX + '{"event":"entered","rank":1,"phase":"training"}'
    ),
    "exits": host_events.Exited(1, 1, ESCAPES),
    "launches": host_events.Launched((1,), (0, 1)),
    "stacks": host_events.Stack(1, "kernel", "x" * 20_000),
    "gaps": host_events.RecordsDropped(1, 2),
    "ports": host_events.Reserved("x", 1, "no"),
    "noise": b"x" * 500 + b"\n" + b"\xff\x00\x1b[2J\n" * 100,
    "empty lines": b"\n" * 60_000,
    "a line without end": b"x" * 65_536,
    "another's records": record(HostSample((), 1, 1), 1000, host=0) * 100,
    "the session's records": record(launcher.SessionClosed(), 1000, host=-1) * 100,
}


@pytest.mark.parametrize("case", FLOODS)
def test_a_flood_costs_its_host_alone(case: str, tmp_path: Path) -> None:
    """The other host gets every lease, the memory is bounded, and a person can stop the run."""
    hosts = Hosts(acted(samples), acted(floods(FLOODS[case], lambda: good.leases())))
    good, evil = hosts.players
    with measured() as growth:
        watched = watch(session(hosts, tmp_path, hosts.hosts, limits=SMALL), lambda _: evil.done)
    assert not watched.state.hosts[0].gone, watched.state.hosts[0].reason
    assert evil.done or watched.state.hosts[1].gone
    assert good.of(Close)
    assert growth.bytes < 100 * MIB
    assert sum(len(line.text) for line in watched.state.log.lines) < 4 * SMALL.log


def test_a_host_that_shuts_its_ears_holds_up_nobody(tmp_path: Path) -> None:
    """It goes on sampling, so that it is never silent, and makes the launcher write more than
    fits."""

    def part(end: End, command: Command | None) -> None:
        trains(end, command)  # type: ignore[arg-type]
        if isinstance(command, StartAttempt):
            enough = good.leases() + 3 * LEASES
            for _ in looks("leases of the other host"):
                if good.leases() >= enough:
                    break
                for _ in range(20):
                    end.say(HELLO)
                end.say(HostSample((), 1, 1))
            end.player.done = True

    hosts = Hosts(acted(samples), acted(part))
    good, evil = hosts.players
    watched = watch(
        session(hosts, tmp_path, hosts.hosts, limits=SMALL),
        lambda watched: evil.done or watched.state.hosts[1].gone,
    )
    assert not watched.state.hosts[0].gone
    assert good.of(Close)


@pytest.mark.parametrize("size", [1, 7, 4096])
def test_a_line_in_small_pieces_is_a_line(size: int, tmp_path: Path) -> None:
    """However its bytes come; and no work is done twice for them."""

    def part(end: End, command: Command | None) -> None:
        trains(end, command)  # type: ignore[arg-type]
        if isinstance(command, StartAttempt):
            end.player.journal.append(b"")
            line = events.encode(
                events.Record(
                    1,
                    0,
                    len(end.journal),
                    time.time(),
                    OutputText(end.rank, "stdout", "in pieces " + "x" * 2000),
                )
            ).encode()
            end.player.journal[-1] = line
            for start in range(0, len(line), size):
                end.send(line[start : start + size])
            end.player.done = True

    hosts = Hosts(acted(trains), acted(part))
    watched = watch(
        session(hosts, tmp_path, hosts.hosts),
        lambda watched: any("in pieces" in line.text for line in watched.state.log.lines),
    )
    assert not any(host.gone for host in watched.state.hosts)


def test_a_line_beyond_the_limit_loses_that_host_and_says_why(tmp_path: Path) -> None:
    def part(end: End, command: Command | None) -> None:
        trains(end, command)  # type: ignore[arg-type]
        if isinstance(command, StartAttempt):
            end.send(b"x" * (SMALL.line + 1))

    hosts = Hosts(acted(trains), acted(part))
    watched = watch(session(hosts, tmp_path, hosts.hosts, limits=SMALL))
    state = watched.state
    assert [host.gone for host in state.hosts] == [False, True]
    assert "longer than 65,536 bytes" in state.hosts[1].reason
    assert hosts.players[0].of(Close)
