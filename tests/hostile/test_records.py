"""A host speaks for itself alone, and what it says costs nobody else anything: records of a live
session."""

from __future__ import annotations

import json
import math
import time
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import pytest

from remote import events as launcher
from remote.record.events_file import read_records as read
from remote.run.state.phases import Verdict
from tests.hostile.launcher import Watched, session, watch
from tests.hostile.values import ESCAPES, wild
from tests.kit.scripted_hosts import End, Hosts, Part, acted
from tests.kit.stage import HELLO, finishes, trains
from training.wire import events, host_events, rank_events
from training.wire.commands import Close, Command, Connect, Reserve, StartAttempt, Stop
from training.wire.enums import EndReason
from training.wire.events import SESSION, Event
from training.wire.host_events import AgentEnded, Exited, HostSample, Launched, OutputText
from training.wire.jsonl import dumps

PATIENCE = 3.0
"""Seconds after which a person stops a run that does not begin."""


def up_to(forge: Part, *, at: type[Command] = StartAttempt) -> Part:
    """An honest agent that forges, once, after the first command of a kind has come."""

    def part(end: End, command: Command | None) -> None:
        trains(end, command)  # type: ignore[arg-type]
        if isinstance(command, at) and not end.player.done:
            forge(end, command)
            end.player.done = True

    return part


def run(tmp_path: Path, *parts: Part, **policy: Any) -> tuple[Hosts, Watched]:
    """A session over these hosts, which a person stops once the last has done what it is up to, or
    is gone."""
    hosts = Hosts(*map(acted, parts))
    acting, began = hosts.players[-1], time.monotonic()

    def over(watched: Watched) -> bool:
        if watched.state.stop_reason:  # a person who stops it once more waits for no host
            return False
        return acting.done or watched.state.hosts[-1].gone or time.monotonic() - began > PATIENCE

    watched = watch(session(hosts, tmp_path, hosts.hosts, **policy), over)
    return hosts, watched


def holds(hosts: Hosts, watched: Watched, folder: Path) -> None:
    """What must hold whatever the last host says: all others were there to the end, heard all, and
    are told to close."""
    state = watched.state
    assert state.verdict is not None
    for player, host in zip(hosts.players[:-1], state.hosts, strict=False):
        assert not host.gone, host.reason
        assert player.of(Close) or not player.of(StartAttempt), "nobody closed it"
    assert 0 <= state.elapsed < 60
    assert all(line.text.isprintable() for line in state.log.lines)
    json.loads((folder / "a-run" / "summary.json").read_text(), parse_constant=refuse)
    for record in read(folder / "a-run"):
        assert record.host in range(SESSION, len(hosts.players))


def refuse(constant: str) -> None:
    raise ValueError(f"{constant} is no JSON")


@pytest.mark.parametrize("kind", events.EVENTS, ids=lambda kind: kind.wire_name)
def test_any_event_with_any_value(kind: type[Event], tmp_path: Path) -> None:
    def forge(end: End, _: Command | None) -> None:
        for said in wild(kind):
            end.forge(kind.wire_name, **said)

    hosts, watched = run(tmp_path, trains, up_to(forge))
    holds(hosts, watched, tmp_path)


@pytest.mark.parametrize("kind", rank_events.RANK_EVENTS, ids=lambda kind: kind.wire_name)
def test_any_event_of_a_rank_with_any_value(kind: type[Event], tmp_path: Path) -> None:
    """In a rank's text: for its own rank, the other host's, and ranks that there are not."""

    def forge(end: End, _: Command | None) -> None:
        for said in wild(kind):
            for rank in (end.rank, 0, 99, -1):
                end.say(
                    OutputText(
                        end.rank,
                        "stdout",
                        events.PREFIX + dumps({"event": kind.wire_name} | said | {"rank": rank}),
                    )
                )

    hosts, watched = run(tmp_path, trains, up_to(forge))
    holds(hosts, watched, tmp_path)
    assert watched.state.ranks[0].step == 0
    assert not watched.state.ranks[0].finished


# The facts of a host ------------------------------------------------------------------------------


FACTS: list[tuple[str, Any]] = [
    *(("cores", value) for value in (math.nan, math.inf, -math.inf, 1e308, -5.0, 0.0, 10**18)),
    *(("load", value) for value in (math.nan, math.inf, -1.0, 1e308)),
    *(("memory", value) for value in (-1, 2**63 - 1, 10**30)),
    *(("memory_free", value) for value in (-1, 2**63 - 1)),
    *(("disk_free", value) for value in (-1, 1)),
    *(
        (name, ESCAPES)
        for name in ("hostname", "user", "python", "torch", "platform", "folder", "route_address")
    ),
    ("route_interface", ESCAPES),
    ("gpus", ("x" * 10_000,) * 50),
    ("interfaces", (("lo", ESCAPES, -1),) * 50),
    ("backends", (ESCAPES,)),
]


@pytest.mark.parametrize(
    ("fact", "value"), FACTS, ids=[f"{name}-{str(value)[:8]!a}" for name, value in FACTS]
)
def test_wild_facts_of_a_host(fact: str, value: Any, tmp_path: Path) -> None:
    """They are refused or lose that host. What ranks are started with stays sane."""

    def part(end: End, command: Command | None) -> None:
        if command is None:
            said = {one.name: getattr(HELLO, one.name) for one in fields(HELLO)} | {fact: value}
            end.forge("hello", **said)
        elif isinstance(command, StartAttempt):
            trains(end, command)  # type: ignore[arg-type]
            end.player.done = True
        else:
            trains(end, command)  # type: ignore[arg-type]

    hosts, watched = run(tmp_path, trains, part)
    holds(hosts, watched, tmp_path)
    for player in hosts.players:
        for start in player.of(StartAttempt):
            for placement in start.placements:
                assert 1 <= int(dict(placement.env)["OMP_NUM_THREADS"]) <= 65536


# In another's name --------------------------------------------------------------------------------


def last_words(rank: int) -> tuple[Event, ...]:
    done = events.PREFIX + dumps(events.to_object(rank_events.Finished(rank, 1, 1, 1.0)))
    return OutputText(rank, "stdout", done), Exited(rank, 0), AgentEnded(EndReason.CLOSED)


FORGED: dict[str, tuple[int, tuple[Event, ...]]] = {
    "another's end": (0, last_words(0)),
    "another's death": (0, (AgentEnded(EndReason.AGENT_DIED, "SIGKILL"),)),
    "another's stop": (0, (host_events.StopHeard(by_person=True),)),
    "another's launch": (0, (Launched((0,), (0, 1)),)),
    "another's facts": (0, (replace(HELLO, hostname="evil"),)),
    "another's sample": (0, (HostSample((1.0,), 1, 1),)),
    "the session's close": (SESSION, (launcher.SessionClosed(),)),
    "the session's stop": (SESSION, (launcher.Stopping("the operator", True),)),
    "the session's clock": (SESSION, (launcher.ClockMeasured(99, 0.0),)),
    "the session's clock of another": (SESSION, (launcher.ClockMeasured(0, 1e9),)),
    "the session's loss": (SESSION, (launcher.HostLost(0, "it is lost", True),)),
    "the session's leave": (SESSION, (launcher.Detached(),)),
    "the session's restart": (SESSION, (launcher.Restarted((1,), "why"),)),
    "the session's word": (SESSION, (launcher.RemarkMade(0, "trust me"),)),
    "nobody's": (7, last_words(0)),
    "a negative one's": (-2, last_words(0)),
}


@pytest.mark.parametrize("case", FORGED)
def test_no_host_speaks_for_another_one(case: str, tmp_path: Path) -> None:
    """Neither now nor when somebody comes back: such a record is not recorded as what it claims to
    be."""
    host, said = FORGED[case]

    def forge(end: End, _: Command | None) -> None:
        for number, event in enumerate(said, 1000):
            end.say(event, host=host, seq=number)

    hosts, watched = run(tmp_path, trains, up_to(forge))
    holds(hosts, watched, tmp_path)
    assert not watched.state.ranks[0].finished
    lines = (tmp_path / "a-run" / "events.jsonl").read_bytes().splitlines(keepends=True)
    assert [line for line in lines if b'{"host":0,' in line[:10]] == hosts.players[0].journal
    assert not any(record.seq >= 1000 for record in read(tmp_path / "a-run") if record.host == host)


# Numbers and attempts -----------------------------------------------------------------------------


@pytest.mark.parametrize("seq", [0, -1, 10**6, 2**62, 2**63, 10**30, 1.5, None, "7", math.nan])
def test_a_number_out_of_order_costs_that_host_at_most(seq: Any, tmp_path: Path) -> None:
    """Nor is the launcher deaf to the host then: it goes on to be heard, or is lost."""

    def forge(end: End, _: Command | None) -> None:
        end.player.journal.append(b"")
        head = {"host": end.host, "attempt": 0, "seq": seq, "time": time.time()}
        end.send(
            dumps(
                head | {"event": "text", "rank": end.rank, "stream": "stdout", "text": "forged"}
            ).encode()
            + b"\n"
        )
        end.player.journal.pop()
        end.say(OutputText(end.rank, "stdout", "heard all the same"))

    hosts, watched = run(tmp_path, trains, up_to(forge))
    holds(hosts, watched, tmp_path)
    heard = any("heard all the same" in line.text for line in watched.state.log.lines)
    assert heard or watched.state.hosts[1].gone


@pytest.mark.parametrize("attempt", [1, 2, 1000, -1, 2**62])
@pytest.mark.parametrize("restarts", [0, 2])
def test_an_attempt_that_nobody_asked_for_starts_nothing(
    attempt: int, restarts: int, tmp_path: Path
) -> None:
    def forge(end: End, _: Command | None) -> None:
        for _ in range(5):
            end.say(Launched((end.rank,), (0, 1)), attempt=attempt)
            end.say(Exited(end.rank, 1), attempt=attempt)

    hosts, watched = run(tmp_path, trains, up_to(forge), max_restarts=restarts, keep=True)
    holds(hosts, watched, tmp_path)
    assert len(hosts.players[0].of(StartAttempt)) <= 1 + restarts
    assert len(watched.state.progress.restarts) <= restarts


@pytest.mark.parametrize("failing", [1, 3])
def test_a_run_is_restarted_as_often_as_it_may_be(failing: int, tmp_path: Path) -> None:
    """By a host whose rank fails in every attempt, and says of each that it was another."""

    def part(end: End, command: Command | None) -> None:
        trains(end, command)  # type: ignore[arg-type]
        if isinstance(command, StartAttempt):
            end.say(Exited(end.rank, 1), attempt=command.attempt)
            end.say(Launched((end.rank,), (0, 1)), attempt=command.attempt + failing)
            end.say(Exited(end.rank, 1), attempt=command.attempt + failing)

    hosts, watched = run(tmp_path, trains, part, max_restarts=1)
    assert watched.state.verdict is not None
    assert len(hosts.players[0].of(StartAttempt)) <= 2


# Clocks -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "time", [1e300, -1e300, 0.0, 1e18, -1.0, 4e9, math.nan, math.inf, "noon", None, [1]]
)
def test_a_wild_time_spoils_no_elapsed_time(time: Any, tmp_path: Path) -> None:
    def forge(end: End, _: Command | None) -> None:
        for _ in range(3):
            end.forge("text", rank=end.rank, stream="stdout", text="x", time=time)
            wire = {
                "event": "step",
                "rank": end.rank,
                "epoch": 1,
                "step": 1,
                "loss": 1.0,
                "seconds": 0.1,
                "time": time,
            }
            end.say(OutputText(end.rank, "stdout", events.PREFIX + dumps(wire)))

    hosts, watched = run(tmp_path, trains, up_to(forge))
    holds(hosts, watched, tmp_path)
    summary = json.loads((tmp_path / "a-run" / "summary.json").read_text())
    assert 0 <= summary["elapsed"] < 60 if "elapsed" in summary else True


@pytest.mark.parametrize("step", [-100.0, -40.0, 100.0, 1e6])
def test_a_clock_that_is_set_spoils_no_elapsed_time(step: float, tmp_path: Path) -> None:
    def forge(end: End, _: Command | None) -> None:
        for _ in range(20):
            end.say(HostSample((1.0,), 1, 1), time=time.time() + step)

    hosts, watched = run(tmp_path, trains, up_to(forge))
    holds(hosts, watched, tmp_path)


# What is no record --------------------------------------------------------------------------------


NOISE: dict[str, bytes] = {
    "nothing": b"\n" * 2000,
    "bytes": bytes(range(256)) * 20 + b"\n",
    "utf-8 that is none": b'{"host":1,"event":"text","text":"\xff\xfe\xed\xa0\x80"}\n' * 20,
    "deep lists": b'{"host":1,"seq":9,"a":' + b"[" * 100_000 + b"\n",
    "deep objects": b'{"a":' * 100_000 + b"\n",
    "a number of 100,000 digits": b'{"host":' + b"9" * 100_000 + b"}\n",
    "the same key": b'{"host":1,' + b'"event":"ended",' * 5000 + b'"seq":1}\n',
    "numbers in place of objects": b"7\n-0\nNaN\nInfinity\n1e999\ntrue\nnull\n[]\n",
    "escapes": ESCAPES.encode(errors="replace") + b"\n",
    "another protocol": b"HTTP/1.1 200 OK\r\nServer: x\r\n\r\n<html>\n",
    "carriage returns": b"x\r" * 5000 + b"\n",
    "the marker again": b"rankboard-agent 1\n" * 50,
    "a command": b'{"command":"stop","grace":0.0}\n' * 20,
}


@pytest.mark.parametrize("case", NOISE)
@pytest.mark.parametrize("at", [Reserve, StartAttempt], ids=["early", "late"])
def test_what_is_no_record_is_told_and_does_no_harm(
    case: str, at: type[Command], tmp_path: Path
) -> None:
    def part(end: End, command: Command | None) -> None:
        trains(end, command)  # type: ignore[arg-type]
        if isinstance(command, at):
            end.send(NOISE[case])
        if isinstance(command, StartAttempt):
            end.player.done = True

    hosts, watched = run(tmp_path, trains, part)
    holds(hosts, watched, tmp_path)
    assert watched.state.verdict in (Verdict.STOPPED, Verdict.LOST)


# Answers that were not asked for, or do not come --------------------------------------------------


def says(kind: type[Command], *said: Event, instead: bool = True, stops: bool = False) -> Part:
    """An honest agent but for its answer to one kind of command, which may stop the run."""

    def part(end: End, command: Command | None) -> None:
        if not (isinstance(command, kind) and instead):
            trains(end, command)  # type: ignore[arg-type]
        if isinstance(command, kind):
            end.say(*said)
        end.player.done |= isinstance(command, StartAttempt) and not stops

    return part


ODD: dict[str, Part] = {
    "a port that is none": says(Reserve, host_events.Reserved(ESCAPES, 2**62)),
    "a negative port": says(Reserve, host_events.Reserved("127.0.0.1", -1)),
    "two ports": says(Reserve, *[host_events.Reserved("127.0.0.1", port) for port in (1, 2)]),
    "a thousand ports": says(Reserve, *[host_events.Reserved("127.0.0.1", 1)] * 1000),
    "no port": says(Reserve, host_events.Reserved("", 0, ESCAPES)),
    "connections to others": says(
        Connect,
        *[host_events.Connected("10.0.0.9", port, math.nan) for port in range(500)],
        instead=False,
    ),
    "connections that failed": says(
        Connect, *[host_events.Connected("x", 1, 1.0, ESCAPES)] * 500, instead=False
    ),
    "other ranks": says(StartAttempt, Launched((0, 1, 2, 3, 99, -1), (0, 1))),
    "no ranks": says(StartAttempt, Launched((), ())),
    "other hosts": says(StartAttempt, Launched((1,), (5, 6, 7))),
    "no hosts": says(StartAttempt, Launched((1,), ())),
    "an end at once": says(StartAttempt, AgentEnded(EndReason.AGENT_DIED, ESCAPES)),
    "a death at once": says(StartAttempt, AgentEnded(EndReason.AGENT_DIED, ESCAPES)),
    "ends without end": says(StartAttempt, *[AgentEnded(EndReason.CLOSED)] * 500),
    "exits of others": says(
        StartAttempt, Launched((1,), (0, 1)), *[Exited(rank, 1, ESCAPES) for rank in (0, 99, -1)]
    ),
    "a stop that nobody sent": says(
        StartAttempt, Launched((1,), (0, 1)), host_events.StopHeard(by_person=True), stops=True
    ),
    "a gap beyond all": says(
        StartAttempt, Launched((1,), (0, 1)), host_events.RecordsDropped(-(2**63), 2**63 - 1)
    ),
}


@pytest.mark.parametrize("case", ODD)
def test_odd_answers_to_commands(case: str, tmp_path: Path) -> None:
    hosts, watched = run(tmp_path, trains, ODD[case])
    holds(hosts, watched, tmp_path)
    assert hosts.players[0].of(Stop) or hosts.players[0].of(Close)


# Restarts -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("at", [Reserve, Connect, StartAttempt], ids=lambda kind: kind.__name__)
@pytest.mark.parametrize(
    "end",
    [AgentEnded(EndReason.OPERATOR_GONE), AgentEnded(EndReason.DISK_FULL)],
    ids=["ended", "died"],
)
def test_a_host_that_leaves_while_a_restart_begins_is_a_failure_of_that_attempt(
    at: type[Command], end: AgentEnded, tmp_path: Path
) -> None:
    """The others go on without it, where the policy allows."""

    def leaves(own: End, command: Command | None) -> None:
        again = bool(own.player.of(Stop))
        if isinstance(command, at) and again:
            own.say(end)
            return
        trains(own, command)  # type: ignore[arg-type]

    def fails(own: End, command: Command | None) -> None:
        second = isinstance(command, StartAttempt) and len(own.player.of(StartAttempt)) > 2
        (finishes if second else trains)(own, command)  # type: ignore[arg-type, operator]
        if isinstance(command, StartAttempt) and not second:
            own.say(Exited(own.rank, 1))

    hosts = Hosts(acted(fails), acted(leaves))
    watched = watch(session(hosts, tmp_path, hosts.hosts, max_restarts=3, min_nodes=1))
    state = watched.state
    assert state.verdict is not None
    assert state.verdict is Verdict.FINISHED or state.cause is not None


def test_a_cause_is_told_where_no_restart_is_left(tmp_path: Path) -> None:
    def leaves(own: End, command: Command | None) -> None:
        if isinstance(command, Reserve) and own.player.of(Stop):
            own.say(AgentEnded(EndReason.OPERATOR_GONE))
        else:
            trains(own, command)  # type: ignore[arg-type]

    def fails(own: End, command: Command | None) -> None:
        trains(own, command)  # type: ignore[arg-type]
        if isinstance(command, StartAttempt):
            own.say(Exited(own.rank, 1))

    hosts = Hosts(acted(fails), acted(leaves))
    watched = watch(session(hosts, tmp_path, hosts.hosts, max_restarts=1, min_nodes=1))
    assert watched.state.verdict is not Verdict.FINISHED
    assert watched.state.cause is not None
