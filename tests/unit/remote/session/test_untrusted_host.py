"""What one host may cost: hosts that do not read, send what no agent sends, or whose clocks jump,
are played in process."""

from __future__ import annotations

import math
import os
import random
import signal
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from remote.cluster.hosts import Host
from remote.events import ClockMeasured, HostLost, RemarkMade, SessionClosed
from remote.limits import Limits
from remote.plan.plan import Policy
from remote.record.write import Recorder
from remote.run.apply import apply_record
from remote.run.run_state import RunState
from remote.run.state.phases import Verdict
from remote.session.connection import Asked
from remote.session.host_clock import LATE, HostClock
from remote.session.session import Session
from remote.transport.local import LocalTransport
from remote.transport.ssh.channel import SshChannel
from tests.kit.histories import History, plan, raised, state_of, stepped
from tests.kit.stage import (
    HELLO,
    End,
    Stage,
    come_back,
    ended,
    finishes,
    from_elsewhere,
    hasten,
    recorded,
    running,
    samples,
    to_the_end,
    trains,
    until,
    waits_once,
)
from tests.kit.standin import AN_AGENT, Heard, Reader, package
from tests.kit.wait import wait
from training.wire.commands import (
    Close,
    Command,
    Keep,
    Lease,
    OnDisconnect,
    Reserve,
    StartAttempt,
    Stop,
)
from training.wire.enums import EndReason
from training.wire.events import PREFIX, SESSION, Event, Record, encode, to_object
from training.wire.host_events import (
    AgentEnded,
    Exited,
    GpuSample,
    HostSample,
    Launched,
    OutputText,
    RecordsDropped,
    Spawned,
    StopHeard,
)
from training.wire.jsonl import dumps
from training.wire.rank_events import Finished, StepFinished

GONE = AgentEnded(EndReason.OPERATOR_GONE)


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """The others are stopped soon after a failure."""
    hasten(monkeypatch, evidence=0.05)


def session_of(stage: Stage, folder: Path, limits: Limits, policy: Policy = Policy()) -> Session:  # noqa: B008
    of = stage.plan(policy)
    return Session(of, stage, Recorder(folder, of), times=stage.times, limits=limits)


def send(line: End, *wire: str | bytes) -> None:
    """The host sends these lines, which its journal does not have."""
    for one in wire:
        line.send(one if isinstance(one, bytes) else one.encode())


# A host that does not read ------------------------------------------------------------------------


class Wedged:
    """A part: `samples`, until it is to take a command that `stops_at`, a lease once its rank runs;
    then it reads nothing before `release`."""

    def __init__(self, stops_at: type[Command]) -> None:
        self.release = threading.Event()
        self.is_wedged = threading.Event()
        self._stops_at = stops_at

    def __call__(self, line: End, command: Command | None) -> None:
        due = isinstance(command, self._stops_at) and (line.runs or not isinstance(command, Lease))
        if due and not self.is_wedged.is_set():
            self.is_wedged.set()
            self.release.wait(20)
        samples(line, command)


@pytest.fixture
def often(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leases and looks come often."""
    hasten(monkeypatch, lease=0.02, tick=0.02, retry=0.02)


def test_a_host_that_does_not_read_costs_the_others_no_lease_and_its_connection_is_replaced(
    often: None, tmp_path: Path
) -> None:
    wedged = Wedged(Lease)
    stage = Stage(samples, wedged)
    session = session_of(stage, tmp_path, Limits(write=0.3))
    batches = session.batches()
    until(
        session,
        batches,
        lambda: any("took no command for 0.3 s" in note.text for note in session.state.log.notes),
    )
    held = sum(isinstance(command, Lease) for command in stage.lines[0].commands)
    assert held > 5
    until(session, batches, lambda: [host for host, _ in stage.opened].count(1) == 2)
    until(session, batches, lambda: all(rank.pid for rank in session.state.ranks))
    session.stop()
    to_the_end(batches)
    wedged.release.set()
    assert session.state.verdict is Verdict.STOPPED
    assert not any(host.gone for host in session.state.hosts)


def test_leases_do_not_gather_before_a_host_that_does_not_read(often: None, tmp_path: Path) -> None:
    wedged = Wedged(Lease)
    stage = Stage(samples, wedged)
    session, batches = running(stage, tmp_path)
    assert wedged.is_wedged.wait(20)
    came = len(stage.lines[0].commands)
    until(session, batches, lambda: len(stage.lines[0].commands) > came + 10)
    wire = session._pool.connection(1)
    assert wire is not None
    assert len(wire._unsent) <= 1
    wedged.release.set()
    session.stop()
    to_the_end(batches)
    assert session.state.verdict is Verdict.STOPPED


def test_commands_that_wait_for_a_host_are_bounded(often: None, tmp_path: Path) -> None:
    wedged = Wedged(Lease)
    stage = Stage(samples, wedged)
    session = session_of(stage, tmp_path, Limits(unsent=20_000))
    batches = session.batches()
    until(
        session,
        batches,
        lambda: all(rank.pid for rank in session.state.ranks) and wedged.is_wedged.is_set(),
    )
    for _ in range(30):
        session._pool.connection(1).send(Keep("plan.json", "x" * 1_000))
    until(
        session,
        batches,
        lambda: any("commands wait to be sent" in note.text for note in session.state.log.notes),
    )
    wedged.release.set()
    session.stop()
    to_the_end(batches)
    assert session.state.verdict is Verdict.STOPPED


@pytest.mark.parametrize("stops_at", [Close, Stop, Reserve])
def test_a_run_ends_though_a_host_never_reads(
    stops_at: type[Command], often: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hasten(monkeypatch, closing=0.3)
    wedged = Wedged(stops_at)
    stage = Stage(samples, wedged)
    session = session_of(stage, tmp_path, Limits(flush=0.2))
    session.stop()
    batches = session.batches()
    to_the_end(batches)
    wedged.release.set()
    assert session.state.verdict is Verdict.STOPPED


def test_the_last_commands_go_out_before_a_connection_is_closed(tmp_path: Path) -> None:
    def reads_slowly(line: End, command: Command | None) -> None:
        if isinstance(command, Keep | OnDisconnect):
            time.sleep(0.2)
        trains(line, command)

    stage = Stage(reads_slowly, trains)
    session, batches = running(stage, tmp_path, Policy())
    session.detach()
    to_the_end(batches)
    for line in stage.lines.values():
        assert OnDisconnect(keep=True) in line.commands


def test_a_run_is_not_left_to_hosts_of_which_one_does_not_read(often: None, tmp_path: Path) -> None:
    """It could not be told to go on."""
    wedged = Wedged(Lease)
    stage = Stage(samples, wedged)
    session, batches = running(stage, tmp_path)
    wire = session._pool.connection(1)
    assert wire is not None
    wait(lambda: wire.held_up > 0.6, "the write is held up")
    session.detach()
    until(
        session,
        batches,
        lambda: any(
            note.text.startswith("cannot detach: node2") for note in session.state.log.notes
        ),
    )
    assert not session.detached
    wedged.release.set()
    session.stop()
    to_the_end(batches)
    assert session.state.verdict is Verdict.STOPPED


def test_a_local_line_is_closed_while_a_write_to_it_waits(tmp_path: Path) -> None:
    transport = LocalTransport(package(tmp_path))
    line = transport.open(Host("node1", "127.0.0.1", timeout=20), AN_AGENT, Heard())
    pid = int(str(Reader(line).hello()["pid"]))
    os.kill(pid, signal.SIGSTOP)
    errors: list[BaseException] = []

    def write() -> None:
        try:
            line.write(b"x" * (1 << 20))
        except OSError as error:
            errors.append(error)

    writer = threading.Thread(target=write)
    writer.start()
    wait(lambda: line._writing.locked(), "the write waits")
    line.close()
    writer.join(20)
    assert not writer.is_alive()
    assert len(errors) == 1


def test_a_write_over_ssh_ends_once_its_channel_is_closed() -> None:
    """Such a channel takes no byte, without an error."""

    class SessionClosed:
        def send(self, _: bytes) -> int:
            return 0

        def recv_stderr(self, _: int) -> bytes:
            return b""

    line = SshChannel(None, SessionClosed())  # type: ignore[arg-type]
    with pytest.raises(OSError, match="closed"):
        line.write(b"a command\n")


def test_hello_is_answered_once(tmp_path: Path) -> None:
    stage = Stage(trains, trains)
    session, batches = running(stage, tmp_path)
    stage.lines[1].say(*[HELLO] * 50, OutputText(1, "stdout", "after"))
    until(session, batches, lambda: any(line.text == "after" for line in session.state.log.lines))
    session.stop()
    to_the_end(batches)
    assert [
        sum(isinstance(command, Keep) for command in line.commands) for line in stage.lines.values()
    ] == [1, 1]


# Lines that are too long --------------------------------------------------------------------------


def test_a_line_without_end_costs_its_host_alone(tmp_path: Path) -> None:
    stage = Stage(waits_once, waits_once)
    session = session_of(stage, tmp_path, Limits(line=100_000), Policy(max_restarts=1, min_nodes=1))
    batches = session.batches()
    until(session, batches, lambda: all(rank.pid for rank in session.state.ranks))
    send(stage.lines[1], *[b"x" * 30_000] * 5)
    to_the_end(batches)
    assert session.state.verdict is Verdict.FINISHED
    assert (
        session.state.hosts[1].reason
        == "node2: it sent a line longer than 100,000 bytes, so the connection was closed"
    )
    assert not session.state.hosts[0].gone


def test_a_long_line_is_cut_where_it_is_shown_and_whole_in_the_log_file(tmp_path: Path) -> None:
    stage = Stage(trains)
    session = session_of(stage, tmp_path, Limits(shown=100))
    batches = session.batches()
    until(session, batches, lambda: all(rank.pid for rank in session.state.ranks))
    line = "é" * 1_000
    stage.lines[0].say(OutputText(0, "stderr", f"short\n{line}\nshort"))
    until(
        session,
        batches,
        lambda: len([one for one in session.state.log.lines if one.text == "short"]) == 2,
    )
    session.stop()
    to_the_end(batches)
    assert [one.text for one in session.state.log.lines if one.rank == 0] == [
        "short",
        "é" * 100 + "… (900 more characters)",
        "short",
    ]
    assert line in (tmp_path / "a-run" / "logs" / "rank-0.log").read_text().splitlines()


@pytest.mark.parametrize(
    "text", ["x" * 900, "\t" * 900, "🏖" * 300, "a\n" * 400, "\x1b[31m" + "y" * 900]
)
def test_lines_in_memory_are_bounded_by_bytes(text: str) -> None:
    limits = Limits(shown=500, log=50_000)
    state = RunState(plan(1), limits)
    for seq in range(1, 400):
        apply_record(state, Record(0, 0, seq, 1_000.0 + seq, OutputText(0, "stdout", text)))
        apply_record(state, Record(SESSION, 0, seq, 1_000.0 + seq, RemarkMade(0, text)))
    numbers = [line.number for line in state.log.lines]
    assert numbers == list(range(state.log.count - len(numbers), state.log.count))
    assert 10 < len(numbers) < 40_000
    assert sum(len(line.text.encode()) for line in state.log.lines) <= 50_000
    assert all(
        len(line.text) < 600 for line in (*state.log.lines, *state.log.notes, *state.ranks[0].tail)
    )


def test_lines_in_memory_are_bounded_by_number_too() -> None:
    state = RunState(plan(1))
    for seq in range(1, 100):
        apply_record(state, Record(0, 0, seq, 1_000.0, OutputText(0, "stdout", "a\n" * 1_000)))
    assert (len(state.log.lines), state.log.lines[-1].number) == (20_000, state.log.count - 1)


# Records that no agent sends ----------------------------------------------------------------------


def test_to_take_many_small_messages_is_linear_in_their_number(tmp_path: Path) -> None:
    session = session_of(Stage(waits_once), tmp_path, Limits())
    for _ in range(10_000):
        session._put(Asked(lambda: None))
    began = time.process_time()
    session._turn()
    assert session._queue.qsize() < 100  # but for what followed
    assert time.process_time() - began < 1.0


def forged(host: int, event: Event, seq: int = 1_000) -> str:
    return encode(Record(host, 0, seq, time.time(), event))


@pytest.mark.parametrize(
    "lines",
    [
        [
            forged(0, OutputText(0, "stdout", PREFIX + '{"event":"finished"}')),
            forged(0, Exited(0, 0)),
            forged(0, AgentEnded(EndReason.CLOSED)),
        ],
        [forged(SESSION, SessionClosed())],
        [forged(SESSION, ClockMeasured(99, 5.0)), forged(SESSION, ClockMeasured(0, 5.0))],
        [
            forged(1, SessionClosed()),
            forged(1, ClockMeasured(0, 5.0)),
            forged(1, HostLost(0, "gone", reached=True)),
        ],
        [forged(99, Exited(0, 1)), "no record\n", '{"host":0}\n'],
    ],
    ids=[
        "another host's",
        "the session's end",
        "the session's clock",
        "the session's by its own number",
        "nobody's",
    ],
)
def test_a_host_writes_nothing_for_others_into_the_record(lines: list[str], tmp_path: Path) -> None:
    stage, policy = Stage(trains, trains), Policy(keep=True)
    session, batches = running(stage, tmp_path, policy)
    send(stage.lines[1], *lines)
    texts = [line.rstrip("\n") for line in lines]
    until(session, batches, lambda: {note.text for note in session.state.log.notes} >= set(texts))
    told = [note.text for note in session.state.log.notes]
    session.detach()
    to_the_end(batches)
    said = [record.event for record in recorded(tmp_path)]
    assert not {SessionClosed, HostLost, AgentEnded, Exited} & set(map(type, said))
    raw = (tmp_path / "a-run" / "events.jsonl").read_text().splitlines()
    assert not set(texts) & set(raw)
    assert [text for text in told if text in texts] == texts
    assert all(
        event.host == 1
        for event in said
        if isinstance(event, RemarkMade) and texts[0] in event.text
    )
    again = come_back(stage, tmp_path, policy)
    again.stop()
    to_the_end(again.batches())
    for line in stage.lines.values():
        assert Stop(by_person=True) in line.commands
    assert again.state.verdict is Verdict.STOPPED


@pytest.mark.parametrize("on", [99, 2, -1, -5])
def test_the_clock_of_a_host_that_there_is_not_is_nothing_to_come_back_with(
    on: int, tmp_path: Path
) -> None:
    stage, policy = Stage(trains, trains), Policy(keep=True)
    session, batches = running(stage, tmp_path, policy)
    session.detach()
    to_the_end(batches)
    with (tmp_path / "a-run" / "events.jsonl").open("a") as file:
        file.write(encode(Record(SESSION, 0, 900, time.time(), ClockMeasured(on, 99.0))))
    again = come_back(stage, tmp_path, policy)
    again.stop()
    to_the_end(again.batches())
    assert again.state.verdict is Verdict.STOPPED


def line_of(event: Event, **head: Any) -> bytes:
    """A record of the second host as it would write it, but for these values."""
    data = {"host": 1, "attempt": 0, "seq": 500, "time": time.time()} | to_object(event) | head
    return dumps(data).encode() + b"\n"


SAMPLE = HostSample((1.0,), 1, 1)


def waits_and_samples(line: End, command: Command | None) -> None:
    """`waits_once`, with a sign of life at each lease."""
    waits_once(line, command)
    if isinstance(command, Lease):
        line.say(SAMPLE)


@pytest.mark.parametrize(
    ("line", "why"),
    [
        (
            line_of(replace(HELLO, cores=math.nan)),
            "hello: cores is nan, which is not between 0.01 and 65536",
        ),
        (line_of(replace(HELLO, cores=math.inf)), "hello: cores is inf"),
        (line_of(replace(HELLO, cores=-5)), "hello: cores is -5"),
        (line_of(replace(HELLO, cores=1e308)), "hello: cores is 1e+308"),
        (line_of(replace(HELLO, load=math.nan)), "hello: load is nan"),
        (line_of(replace(HELLO, memory=-1)), "hello: memory is -1"),
        (line_of(HELLO, memory=10**30), "hello: memory: an int of more than 64 bits"),
        (line_of(HELLO, gpus=7), "hello: gpus: 7 is not a list"),
        (line_of(HostSample((math.nan,), 1, 1)), "hostsample: cpu is nan"),
        (line_of(GpuSample(1, 400.0, 1, 2)), "gpusample: use is 400, which is not between 0 and"),
        (line_of(GpuSample(1, 4.0, -1, 2)), "gpusample: memory_used is -1, which is not between"),
        (line_of(SAMPLE, time=math.nan), "hostsample: time is nan, which is no point in time"),
        (line_of(SAMPLE, time=1e300), "hostsample: time is 1e+300"),
        (line_of(SAMPLE, time=-1.0), "hostsample: time is -1.0"),
        (line_of(SAMPLE, seq=10**30), "hostsample: seq is 1000000000000000000000000000000"),
        (line_of(SAMPLE, seq=2**50), "it sent record 1125899906842624 after record "),
        (line_of(SAMPLE, seq="1"), "hostsample: seq is 1"),
        (line_of(SAMPLE, attempt=1), "it sent a record of attempt 2, which was never started"),
        (
            line_of(Launched((1,), (0, 1)), attempt=1),
            "it sent a record of attempt 2, which was never started",
        ),
    ],
    ids=lambda value: "" if isinstance(value, bytes) else value[:40],
)
@pytest.mark.parametrize(
    "policy", [Policy(), Policy(max_restarts=1, min_nodes=1)], ids=["once", "again"]
)
def test_a_record_that_cannot_be_used_costs_its_host_alone(
    line: bytes, why: str, policy: Policy, tmp_path: Path
) -> None:
    stage = Stage(waits_and_samples, waits_once)
    session, batches = running(stage, tmp_path, policy)
    send(stage.lines[1], line)
    to_the_end(batches)
    first, second = session.state.hosts
    assert why in second.reason
    assert second.reason.startswith("node2: it sent")
    assert (first.gone, second.gone) == (False, True)
    assert session.state.verdict is (Verdict.FINISHED if policy.max_restarts else Verdict.LOST)
    assert session.state.attempt == policy.max_restarts
    assert sum(isinstance(record.event, HostLost) for record in recorded(tmp_path)) == 1
    assert line not in (tmp_path / "a-run" / "events.jsonl").read_bytes()


@pytest.mark.parametrize("line", [b"\n", b"x\n", b"{\n", forged(0, SAMPLE).encode()])
def test_a_host_that_sends_no_records_without_end_is_lost(line: bytes, tmp_path: Path) -> None:
    stage = Stage(waits_once, waits_once)
    session = session_of(stage, tmp_path, Limits(noise=1_000), Policy(max_restarts=1, min_nodes=1))
    batches = session.batches()
    until(session, batches, lambda: all(rank.pid for rank in session.state.ranks))
    send(stage.lines[1], *[line * 200] * 6)
    to_the_end(batches)
    assert session.state.verdict is Verdict.FINISHED
    assert (
        "it sent more than 1000 lines that are not records of its own"
        in session.state.hosts[1].reason
    )
    assert sum(isinstance(record.event, RemarkMade) for record in recorded(tmp_path)) < 20


def test_a_hello_that_cannot_be_used_ends_the_start_and_names_its_host(tmp_path: Path) -> None:
    def boasts(line: End, command: Command | None) -> None:
        if command is None:
            line.say(replace(HELLO, cores=math.nan))
        else:
            trains(line, command)

    state = Stage(trains, boasts).act(tmp_path)
    assert (state.verdict, state.hosts[0].gone) == (Verdict.LOST, False)
    assert state.cause is not None
    assert state.cause.host == "node2"


def test_a_record_at_which_the_launcher_itself_fails_costs_its_host_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stage = Stage(waits_once, waits_once)
    session, batches = running(stage, tmp_path, Policy(max_restarts=1, min_nodes=1))

    def fails(state: RunState, record: Record) -> None:
        if isinstance(record.event, OutputText) and record.event.text == "boom":
            raise ZeroDivisionError("of the test")
        apply_record(state, record)

    monkeypatch.setattr("remote.session.ledger.apply_record", fails)
    stage.lines[1].say(OutputText(1, "stdout", "boom"))
    to_the_end(batches)
    assert session.state.verdict is Verdict.FINISHED
    assert "ZeroDivisionError('of the test')" in session.state.hosts[1].reason
    assert not any(isinstance(record.event, OutputText) for record in recorded(tmp_path))


def test_a_figure_of_a_rank_may_be_no_number(tmp_path: Path) -> None:
    stage = Stage(trains, trains)
    session, batches = running(stage, tmp_path)
    step = StepFinished(1, 1, 1, math.nan, 0.1)
    stage.lines[1].say(OutputText(1, "stdout", PREFIX + dumps(to_object(step))))
    until(session, batches, lambda: session.state.ranks[1].step == 1)
    session.stop()
    to_the_end(batches)
    assert session.state.verdict is Verdict.STOPPED


def test_a_restart_by_another_launcher_is_taken_in_where_this_attempt_is_over(
    tmp_path: Path,
) -> None:
    """Two launchers watch the run, and the other one was quicker."""
    stage = Stage(trains)
    session, batches = running(stage, tmp_path, Policy(max_restarts=1))
    stage.lines[0].say(Exited(0, 1))
    stage.lines[0].player.attempt = 1
    stage.lines[0].say(Launched((0,), (0,)), Spawned(0, 7))
    until(session, batches, lambda: session.state.attempt == 1 and session.state.ranks[0].pid == 7)
    session.stop()
    to_the_end(batches)
    assert session.state.verdict is Verdict.STOPPED


# A host that drops out while a restart begins -----------------------------------------------------


def leaves_at_the_second_reserve(line: End, command: Command | None) -> None:
    """An agent that ends when it is asked for a port of the second attempt."""
    if isinstance(command, Reserve) and any(isinstance(one, StartAttempt) for one in line.commands):
        line.say(GONE)
    else:
        waits_once(line, command)


def fails_at_first(line: End, command: Command | None) -> None:
    """An agent whose rank fails in the first attempt and finishes in the others."""
    if isinstance(command, StartAttempt) and command.attempt == 0:
        trains(line, command)
        line.say(Exited(line.host, 1))
    else:
        finishes(line, command)


def test_a_host_that_leaves_while_a_restart_begins_costs_that_attempt(tmp_path: Path) -> None:
    stage = Stage(fails_at_first, leaves_at_the_second_reserve)
    state = ended(stage.session(tmp_path, Policy(max_restarts=2, min_nodes=1)))
    assert (state.verdict, state.attempt, [rank.host for rank in state.ranks]) == (
        Verdict.FINISHED,
        2,
        [0],
    )


@pytest.mark.parametrize(
    "policy",
    [Policy(max_restarts=1, min_nodes=1), Policy(max_restarts=2)],
    ids=["no more", "too few"],
)
def test_a_restart_that_cannot_go_on_has_a_cause(policy: Policy, tmp_path: Path) -> None:
    stage = Stage(fails_at_first, leaves_at_the_second_reserve)
    state = ended(stage.session(tmp_path, policy))
    assert state.verdict is Verdict.LOST
    assert state.cause is not None
    assert (
        "its agent ended while the ranks were being started: stopped: its launcher is gone"
        in state.cause.text()
    )


def test_an_agent_that_ends_before_the_first_start_is_the_cause(tmp_path: Path) -> None:
    def leaves(line: End, command: Command | None) -> None:
        if isinstance(command, Reserve):
            line.say(GONE)
        else:
            trains(line, command)

    state = Stage(trains, leaves).act(tmp_path)
    assert state.verdict is not Verdict.FINISHED
    assert state.cause is not None
    assert state.cause.host == "node2"


def test_a_run_that_has_failed_has_a_cause() -> None:
    """Random histories of what hosts and the session may say, closed at any point."""
    dice = random.Random(11)
    verdicts = set()
    for _ in range(600):
        history = History(plan(dice.randint(1, 3)))
        hosts = range(len(history.plan.hosts))
        if dice.random() < 0.8:
            history.training(dice.randint(0, 1))
        for _ in range(dice.randint(0, 6)):
            host = dice.choice(hosts)
            ends: list[tuple[int, tuple[Event, ...]]] = [
                (host, raised(host, "RuntimeError: Connection closed by peer")),
                (host, (Exited(host, dice.choice((0, 1, -15)), stopped=dice.random() < 0.5),)),
                (
                    host,
                    (
                        dice.choice(
                            (GONE, AgentEnded(EndReason.CLOSED), AgentEnded(EndReason.GUARD_DIED))
                        ),
                    ),
                ),
                (
                    SESSION,
                    (
                        HostLost(
                            host, f"node{host + 1}: no sign of life", reached=dice.random() < 0.5
                        ),
                    ),
                ),
                (host, (Finished(host, 4, 40, 4.0), Exited(host, 0))),
                (host, (StopHeard(dice.random() < 0.3),)),
            ]
            who, events = dice.choice(ends)
            history.say(who, *events)
        state = history.closed()
        verdicts.add(state.verdict)
        assert state.verdict is not Verdict.FAILED or (state.cause and state.cause.text()), (
            history.records
        )
    assert Verdict.FAILED in verdicts


# A person's stop ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("died", "verdict"),
    [
        (0.045, Verdict.STOPPED),
        (-0.3, Verdict.STOPPED),
        (5.0, Verdict.STOPPED),
        (-5.0, Verdict.FAILED),
    ],
)
def test_what_dies_after_a_persons_stop_is_no_cause_though_it_is_heard_of_first(
    died: float, verdict: Verdict
) -> None:
    """Rank 1 dies of its peer's end before its own host has heard of the stop, and that record
    comes first."""
    history = History(plan(2)).training(1)
    stop = history.now + 10
    said, exited = raised(1, "RuntimeError: Connection closed by peer")
    history.records += [
        Record(1, 0, 500, stop + died, said),
        Record(1, 0, 501, stop + died, exited),
        Record(0, 0, 500, stop, StopHeard(by_person=True)),
        Record(0, 0, 501, stop + 0.01, Exited(0, -15, "SIGTERM", stopped=True)),
    ]
    history.now = stop + max(died, 0)
    state = history.closed()
    assert state.verdict is verdict
    assert (state.cause is None) == (verdict is Verdict.STOPPED)
    assert state.stop_reason == "stopped from elsewhere"


def test_a_failure_of_its_own_just_before_a_persons_stop_stays_the_cause() -> None:
    history = History(plan(2)).training(1)
    history.rank(1, *raised(1, "ValueError: bad data")).say(0, StopHeard(by_person=True))
    state = history.rank(0, Exited(0, -15, "SIGTERM", stopped=True)).closed()
    assert (state.verdict, state.cause is not None) == (Verdict.FAILED, True)


def test_a_persons_stop_from_elsewhere_is_no_reason_to_restart_whatever_is_heard_of_first(
    tmp_path: Path,
) -> None:
    stage = Stage(trains, trains)
    session, batches = running(stage, tmp_path, Policy(max_restarts=1, min_nodes=1))
    first, second = stage.lines[0], stage.lines[1]
    heard = Record(0, 0, len(first.journal) + 1, time.time(), StopHeard(by_person=True))
    second.say(*raised(1, "RuntimeError: Connection closed by peer"))
    until(session, batches, lambda: session.state.ranks[1].exited is not None)
    first.journal.append(encode(heard).encode())
    send(first, first.journal[-1])
    first.say(Exited(0, -15, "SIGTERM", stopped=True))
    to_the_end(batches)
    assert (session.state.verdict, session.state.attempt) == (Verdict.STOPPED, 0)
    assert session.state.cause is None


def test_who_stops_a_run_that_is_being_stopped_from_elsewhere_has_not_asked_twice(
    tmp_path: Path,
) -> None:
    def obeys_late(line: End, command: Command | None) -> None:
        if not isinstance(command, Stop):
            trains(line, command)

    stage = Stage(obeys_late, trains)
    session, batches = running(stage, tmp_path)
    stage.lines[1].say(StopHeard(by_person=True))
    until(session, batches, lambda: Stop(by_person=True) in stage.lines[0].commands)
    session.stop()
    for _ in range(3):
        next(batches)
    stage.lines[0].say(Exited(0, -15, "SIGTERM", stopped=True))
    to_the_end(batches)
    assert not any(host.gone for host in session.state.hosts)


def test_who_attaches_elsewhere_sees_that_a_person_has_stopped_the_run(tmp_path: Path) -> None:
    stage, policy = Stage(trains, trains), Policy(max_restarts=1)
    _, batches = running(stage, tmp_path / "here", policy)
    batches.close()  # type: ignore[attr-defined]
    for host, line in stage.lines.items():
        line.say(StopHeard(by_person=True), Exited(host, -15, "SIGTERM", stopped=True), GONE)
    there = from_elsewhere(stage, tmp_path, policy)
    to_the_end(there.batches())
    assert (there.state.verdict, there.state.stop_reason) == (
        Verdict.STOPPED,
        "stopped from elsewhere",
    )
    assert there.state.attempt == 0


# Clocks -------------------------------------------------------------------------------------------


def told(
    clock: HostClock, samples: Iterator[tuple[float, float]] | list[tuple[float, float]]
) -> list[float]:
    """When each sample was made by the launcher's clock; they are given as (written, came)."""
    found = []
    for written, came in samples:
        clock.moved(Record(0, 0, 1, written, SAMPLE), came)
        found.append(written - clock.offset)
    return found


@pytest.mark.parametrize("step", [100.0, -100.0, -40.0, 2.0, -5.0, 1e9, -1e8])
def test_a_step_of_a_hosts_clock_is_measured_at_once(step: float) -> None:
    clock = HostClock(1.0)
    clock.measure(5e8, 1_000.0)
    came = [1_000.0 + second for second in range(40)]
    found = told(
        clock, [(5e8 + second + step * (second >= 20), 1_000.0 + second) for second in range(40)]
    )
    assert all(abs(one - other) <= 1.01 for one, other in zip(found, came, strict=True))
    assert found == sorted(found)


def test_a_small_step_back_is_measured_after_some_samples() -> None:
    clock = HostClock(1.0)
    clock.measure(0.0, 0.0)
    found = told(clock, [(second - 1.5 * (second >= 5), float(second)) for second in range(40)])
    assert found[5] == 3.5
    assert found[5 + LATE :] == [float(second) for second in range(5 + LATE, 40)]


def test_a_clock_that_goes_slow_is_measured_again() -> None:
    clock = HostClock(1.0)
    clock.measure(0.0, 0.0)
    found = told(clock, [(0.999 * second, float(second)) for second in range(20_000)])
    assert max(second - one for second, one in enumerate(found)) < 1.0 + 0.001 * (LATE + 2) + 0.01


def test_records_that_come_late_after_an_outage_are_no_step_of_a_clock() -> None:
    clock = HostClock(1.0)
    clock.measure(0.0, 0.0)
    live = [(float(second), float(second)) for second in range(1, 30)]
    waited = [(float(second), 90.0 + second / 1_000) for second in range(30, 90)]
    assert told(clock, [*live, *waited, (91.0, 91.0)])[-1] == 91.0
    assert clock.offset == 0.0


def test_the_time_of_dropped_records_is_no_step_of_a_clock() -> None:
    clock = HostClock(1.0)
    clock.measure(0.0, 0.0)
    assert not clock.moved(Record(0, 0, 1, 90.0, RecordsDropped(1, 5)), 90.0)
    assert not clock.moved(Record(0, 0, 6, 30.0, SAMPLE), 90.0)


@pytest.mark.parametrize("step", [-100.0, -40.0, 100.0, 1e9])
def test_a_hosts_clock_that_jumps_spoils_no_time_of_the_run(step: float, tmp_path: Path) -> None:
    stage = Stage(trains, trains)
    began = time.time()
    session, batches = running(stage, tmp_path)
    line = stage.lines[1]
    for event in (SAMPLE, OutputText(1, "stdout", "one"), OutputText(1, "stdout", "two")):
        record = Record(1, 0, len(line.journal) + 1, time.time() + step, event)
        line.journal.append(encode(record).encode())
        send(line, line.journal[-1])
    until(session, batches, lambda: any(one.text == "two" for one in session.state.log.lines))
    stage.lines[1].say(SAMPLE)  # by its old clock again
    session.stop()
    to_the_end(batches)
    state = session.state
    assert state.elapsed <= time.time() - began + 1.0
    assert all(abs(host.heard - state.now) < time.time() - began + 2.0 for host in state.hosts)
    replayed = state_of(state.plan, recorded(tmp_path))
    assert (replayed.elapsed, replayed.started) == (state.elapsed, state.started)


def test_a_clock_that_is_ahead_from_the_start_makes_no_host_heard_in_the_future() -> None:
    history = History(plan(1))
    history.records.append(Record(0, 0, 1, history.now + 100, HELLO))
    history.session(ClockMeasured(0, 100.0))
    history.records.append(Record(0, 0, 2, history.now + 100.5, SAMPLE))
    state = history.state()
    assert state.hosts[0].heard == pytest.approx(history.now + 0.5)


@pytest.mark.parametrize("said", [0.0, -5.0, 1e300, 4e9, math.nan])
def test_the_time_that_a_rank_gives_cannot_lie_outside_its_run(said: float) -> None:
    history = History(plan(1))
    history.say(0, HELLO).session(ClockMeasured(0, 0.0))
    wire = PREFIX + dumps({"time": said} | to_object(stepped(0, 1)))
    state = history.say(0, Launched((0,)), OutputText(0, "stdout", wire), SAMPLE, after=1.0).state()
    assert state.elapsed <= 4.0
    assert state.ranks[0].step == 1


def test_a_run_that_failed_is_told_alike_live_and_from_its_record(tmp_path: Path) -> None:
    stage = Stage(fails_at_first, leaves_at_the_second_reserve)
    state = ended(stage.session(tmp_path, Policy(max_restarts=1, min_nodes=1)))
    replayed = state_of(state.plan, recorded(tmp_path))
    assert (replayed.verdict, replayed.cause, replayed.elapsed) == (
        state.verdict,
        state.cause,
        state.elapsed,
    )
