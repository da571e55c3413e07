"""A session whose hosts are acted out: agents that die between the phases, never answer, or are
slow to let go."""

from __future__ import annotations

import threading
import time
from dataclasses import replace
from pathlib import Path

import pytest

from remote.events import HostLost
from remote.plan.plan import OnNan, OnStall, Policy, Upload
from remote.record.write import Recorder
from remote.run.state.phases import HostPhase, RankPhase, RunPhase, Verdict
from remote.session.session import Session
from remote.session.times import TIMES
from tests.kit.stage import (
    DIED,
    HELLO,
    End,
    Part,
    Stage,
    all_run,
    come_back,
    ended,
    finishes,
    from_elsewhere,
    hasten,
    loses_its_agent,
    recorded,
    running,
    samples,
    to_the_end,
    trains,
    until,
    waits_once,
)
from tests.kit.wait import wait
from training.wire.commands import (
    Close,
    Command,
    Connect,
    Keep,
    Lease,
    OnDisconnect,
    Reserve,
    Stacks,
    StartAttempt,
    Stop,
)
from training.wire.enums import EndReason
from training.wire.events import PREFIX, SESSION, Record, decode, encode, to_object
from training.wire.host_events import (
    AgentEnded,
    Connected,
    Exited,
    HostSample,
    Launched,
    OutputText,
    Spawned,
    Stack,
    StopHeard,
)
from training.wire.jsonl import dumps
from training.wire.rank_events import Finished, Saved, Started, StepFinished


def dies_at_once(line: End, command: Command | None) -> None:
    """An agent that is killed just after its Hello."""
    trains(line, command)
    if command is None:
        line.say(DIED)


def dies_at_reserve(line: End, command: Command | None) -> None:
    """An agent that is killed when it is asked for a port."""
    if isinstance(command, Reserve):
        line.say(DIED)
    else:
        trains(line, command)


def reserves_never(line: End, command: Command | None) -> None:
    """An agent that lives but does not answer."""
    if not isinstance(command, Reserve):
        trains(line, command)


def exits_early(line: End, command: Command | None) -> None:
    """An agent whose rank exits well before its last step."""
    if isinstance(command, StartAttempt):
        line.say(Exited(line.host, 0))
    elif not isinstance(command, Stop):  # there is nothing to stop
        trains(line, command)


def silent_to_others(line: End, command: Command | None) -> None:
    """An agent that trains, but says nothing to a launcher that returns."""
    if len(line.player.ends) == 1:
        trains(line, command)


def test_a_run_that_finishes(tmp_path: Path) -> None:
    assert Stage(finishes, finishes).act(tmp_path).verdict is Verdict.FINISHED


@pytest.mark.parametrize(
    ("parts", "culprit"),
    [
        ((dies_at_once, trains), "node1"),
        ((trains, dies_at_once), "node2"),
        ((dies_at_reserve, trains), "node1"),
    ],
)
def test_an_agent_that_dies_before_the_start_ends_the_run(
    parts: tuple[Part, ...], culprit: str, tmp_path: Path
) -> None:
    stage = Stage(*parts)
    state = stage.act(tmp_path)
    assert state.verdict is Verdict.LOST
    assert state.cause is not None
    assert state.cause.host == culprit
    assert not any(
        isinstance(command, StartAttempt)
        for line in stage.lines.values()
        for command in line.commands
    )


class Uploading:
    """An upload that lasts until `over`; `stop` ends it."""

    def __init__(self) -> None:
        self.over = threading.Event()

    def upload(self) -> dict[int, str]:
        assert self.over.wait(20)
        return {}

    def stop(self) -> None:
        self.over.set()


def uploads(stage: Stage, folder: Path) -> tuple[Session, Uploading]:
    """A session whose plan has something to upload."""
    plan = replace(stage.plan(), uploads=(Upload("/photos", "photos"),))
    session, files = Session(plan, stage, Recorder(folder, plan), times=stage.times), Uploading()
    session.__dict__["_files"] = files
    return session, files


def test_what_the_checks_refuse_is_refused_before_all_is_uploaded(tmp_path: Path) -> None:
    def lacks_torch(line: End, command: Command | None) -> None:
        if command is None:
            line.say(replace(HELLO, torch=""))
        else:
            trains(line, command)

    session, files = uploads(Stage(trains, lacks_torch), tmp_path)
    state = ended(session)
    assert state.verdict is Verdict.REFUSED
    assert files.over.is_set()


def test_ranks_are_started_once_all_is_uploaded(tmp_path: Path) -> None:
    stage = Stage(finishes, finishes)
    session, files = uploads(stage, tmp_path)
    batches = session.batches()
    until(session, batches, lambda: any(name == "connect" for _, name in session.state.checks))
    assert not any(
        isinstance(command, StartAttempt)
        for line in stage.lines.values()
        for command in line.commands
    )
    files.over.set()
    to_the_end(batches)
    assert session.state.verdict is Verdict.FINISHED


def test_a_mistake_of_a_transport_is_told(tmp_path: Path) -> None:
    state = Stage(trains, ValueError("no such luck")).act(tmp_path)
    assert state.verdict is Verdict.LOST
    assert state.cause is not None
    assert "ValueError('no such luck')" in state.cause.text()


def test_a_rank_that_exits_before_its_last_step_stops_the_others(tmp_path: Path) -> None:
    state = Stage(trains, exits_early).act(tmp_path)
    assert state.verdict is Verdict.FAILED
    assert state.cause is not None
    assert state.cause.text() == "node2, rank 1: exit code 0 before its last step"


def test_an_agent_that_does_not_answer_can_be_stopped(tmp_path: Path) -> None:
    session = Stage(reserves_never, trains).session(tmp_path)
    session.stop()
    assert ended(session).verdict is Verdict.STOPPED


def test_a_line_that_is_slow_to_close_holds_up_nobody(tmp_path: Path) -> None:
    stage = Stage(finishes, finishes)
    stage.release.clear()
    session = stage.session(tmp_path)
    for _ in session.batches():
        if all(host.phase is HostPhase.ENDED for host in session.state.hosts):
            stage.release.set()  # before that, nobody's line can be closed
    assert stage.were_let_go
    assert session.state.verdict is Verdict.FINISHED


def test_the_operator_is_there_while_nobody_reads(tmp_path: Path) -> None:
    """Somebody who reads the output in a pager takes no batches, but has not gone."""
    stage = Stage(trains)
    session = stage.session(tmp_path)
    batches = session.batches()
    while not session.state.ranks[0].pid:
        next(batches)
    held = leases(stage)
    wait(lambda: leases(stage) > held + 1, "leases go on")
    session.stop()
    to_the_end(batches)
    assert session.state.verdict is Verdict.STOPPED
    after = leases(stage)
    assert not any(thread.name == "lease" for thread in threading.enumerate())
    assert leases(stage) == after


def test_what_has_come_counts_though_nobody_read_it_for_long(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first look at the clock after a pause must not take for lost what only waits in the
    queue."""
    hasten(monkeypatch, lost=0.5)
    monkeypatch.setattr("remote.session.session.BATCH", 1)
    stage = Stage(trains, trains)
    session = stage.session(tmp_path)
    batches = session.batches()
    while not all(rank.pid for rank in session.state.ranks):
        next(batches)
    heard = time.monotonic()
    wait(lambda: time.monotonic() > heard + 0.6, "a pause longer than LOST")
    for _ in range(5):
        for line in stage.lines.values():
            line.say(HostSample((), 1, 1))
    wait(lambda: session._queue.qsize() >= 10, "the samples have come")
    session.stop()
    to_the_end(batches)
    assert [host.gone for host in session.state.hosts] == [False, False]


def never_ends(line: End, command: Command | None) -> None:
    """An agent that does not obey any more."""
    if not isinstance(command, (Stop, Close)):
        trains(line, command)


def test_only_the_host_that_does_not_end_is_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hasten(monkeypatch, closing=0.3)
    session = Stage(trains, never_ends).session(tmp_path)
    batches = session.batches()
    while not all(rank.pid for rank in session.state.ranks):
        next(batches)
    session.stop()
    to_the_end(batches)
    assert [host.gone for host in session.state.hosts] == [False, True]
    assert session.state.hosts[0].phase is HostPhase.ENDED
    assert session.state.hosts[1].reason == "node2: did not end within 0.3 s"


def test_a_host_of_which_nothing_is_heard_is_not_waited_for_by_a_person_who_stops(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hasten(monkeypatch, moment=0.3)
    session = Stage(trains, never_ends).session(tmp_path)
    batches = session.batches()
    until(session, batches, lambda: all_run(session))
    session._controller.links[1].heard_at -= 20
    session.stop()
    to_the_end(batches)
    assert [host.gone for host in session.state.hosts] == [False, True]
    assert session.state.hosts[1].reason == "node2: has not been heard for 20 s"


def leases(stage: Stage) -> int:
    return sum(
        isinstance(command, Lease) for line in stage.lines.values() for command in line.commands
    )


# Lines that break, and launchers that come back ---------------------------------------------------


def test_a_line_that_breaks_is_opened_again_after_the_last_record(tmp_path: Path) -> None:
    stage = Stage(trains, trains)
    session, batches = running(stage, tmp_path)
    broken = stage.lines[1]
    known = len(broken.journal)
    broken.drop()
    until(session, batches, lambda: stage.lines[1] is not broken and session.state.hosts[1].parted)
    stage.lines[1].say(OutputText(1, "stdout", "still here"))
    session.stop()
    to_the_end(batches)
    assert stage.opened[-1] == (1, known)
    assert session.state.verdict is Verdict.STOPPED
    seqs = [record.seq for record in recorded(tmp_path) if record.host == 1]
    assert seqs == list(range(1, len(stage.journals[1]) + 1))


def test_what_comes_over_two_lines_counts_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A host that is silent gets a second line, over which comes what is on its way over the first,
    too."""
    hasten(monkeypatch, silent=0.3, tick=0.02)
    stage = Stage(trains)
    session = stage.session(tmp_path)
    batches = session.batches()
    until(session, batches, lambda: len(stage.opened) > 1 and all_run(session))
    stage.lines[0].say(OutputText(0, "stdout", "once"))
    session.stop()
    to_the_end(batches)
    seqs = [record.seq for record in recorded(tmp_path) if record.host == 0]
    # this agent ends once per line that is told to close
    end = next(
        record.seq
        for record in map(decode, stage.journals[0])
        if record and isinstance(record.event, AgentEnded)
    )
    assert seqs == list(range(1, end + 1))


def test_a_command_that_was_lost_with_its_line_is_sent_again(tmp_path: Path) -> None:
    stage = Stage(trains, deaf_at_stop)
    session, batches = running(stage, tmp_path)
    session.stop()
    to_the_end(batches)
    assert session.state.verdict is Verdict.STOPPED
    assert [host.gone for host in session.state.hosts] == [False, False]


def deaf_at_stop(line: End, command: Command | None) -> None:
    """An agent whose first line breaks just before the command to stop would arrive."""
    if isinstance(command, Stop) and StartAttempt in map(type, line.commands):
        line.drop()
    else:
        trains(line, command)


def test_a_host_that_stays_away_is_lost(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    hasten(monkeypatch, lost=0.5, lease=0.02, retry=0.05, tick=0.05)
    stage = Stage(samples, trains)
    session, batches = running(stage, tmp_path)
    stage.refuses.add(1)
    stage.lines[1].drop()
    until(session, batches, lambda: session.state.hosts[1].phase is HostPhase.LOST)
    to_the_end(batches)
    assert session.state.verdict is Verdict.LOST
    assert session.state.cause is not None
    assert session.state.cause.host == "node2"


def breaks_at_connect(line: End, command: Command | None) -> None:
    """One whose line breaks when it has reached one of its two neighbours."""
    if isinstance(command, Connect):
        line.say(Connected(*command.targets[0], 0.001))
        line.drop()
    else:
        trains(line, command)


def connects_never(line: End, command: Command | None) -> None:
    """One that falls silent when it is to connect."""
    if not isinstance(command, Connect | Close):
        trains(line, command)


def says_nothing(line: End, command: Command | None) -> None:
    """One that has started and freezes."""


def test_a_run_that_is_left_goes_on_and_can_be_come_back_to(tmp_path: Path) -> None:
    stage = Stage(trains, trains)
    first = stage.session(tmp_path, Policy(keep=True))
    batches = first.batches()
    until(first, batches, lambda: all_run(first))
    first.detach()
    to_the_end(batches)
    assert first.state.verdict is None
    assert not any(
        isinstance(command, (Stop, Close))
        for line in stage.lines.values()
        for command in line.commands
    )
    for line in stage.lines.values():
        line.say(OutputText(line.host, "stdout", "meanwhile"))
    plan = stage.plan(Policy(keep=True))
    second = Session(plan, stage, Recorder(tmp_path, plan, continues=True), times=stage.times)
    second.catch_up(recorded(tmp_path))
    batches = second.batches()
    until(
        second,
        batches,
        lambda: sum(line.text == "meanwhile" for line in second.state.log.lines) == 2,
    )
    second.stop()
    to_the_end(batches)
    assert second.state.verdict is Verdict.STOPPED
    for host, journal in stage.journals.items():
        assert [one.seq for one in recorded(tmp_path) if one.host == host] == list(
            range(1, len(journal) + 1)
        )


def test_a_run_is_come_back_to_from_a_machine_that_knows_nothing_of_it(tmp_path: Path) -> None:
    stage = Stage(trains, trains)
    first = stage.session(tmp_path / "here", Policy(keep=True))
    batches = first.batches()
    until(first, batches, lambda: all_run(first))
    first.detach()
    to_the_end(batches)
    plan = stage.plan(Policy(keep=True))
    second = Session(plan, stage, Recorder(tmp_path / "there", plan), times=stage.times)
    second.catch_up(())
    batches = second.batches()
    until(second, batches, lambda: all_run(second))
    assert (
        sum(
            isinstance(command, StartAttempt)
            for line in stage.lines.values()
            for command in line.commands
        )
        == 0
    )
    second.stop()
    to_the_end(batches)
    assert second.state.verdict is Verdict.STOPPED


def left(stage: Stage, folder: Path, policy: Policy) -> None:
    """A launcher has started a run and left it."""
    session, batches = running(stage, folder, policy)
    session.detach()
    to_the_end(batches)
    assert session.detached


def test_who_leaves_does_not_stop_the_run_by_a_stop_just_after(tmp_path: Path) -> None:
    """As when a terminal is gone: what cannot be left is stopped, what could be is not."""
    stage = Stage(trains, trains)
    session, batches = running(stage, tmp_path, Policy(keep=True))
    session.detach()
    session.stop()
    to_the_end(batches)
    assert session.detached
    assert not any(
        isinstance(command, Stop) for line in stage.lines.values() for command in line.commands
    )


def test_a_run_that_was_to_stop_and_was_left_all_the_same_is_come_back_to(tmp_path: Path) -> None:
    stage = Stage(trains, trains)
    left(stage, tmp_path, Policy())
    assert all(OnDisconnect(keep=True) in line.commands for line in stage.lines.values())
    session = come_back(stage, tmp_path, Policy())
    assert session.keep
    batches = session.batches()
    until(session, batches, lambda: len(stage.opened) == 4)
    session.stop()
    to_the_end(batches)
    assert session.state.verdict is Verdict.STOPPED
    assert not any(host.gone for host in session.state.hosts)


def test_a_failure_that_nobody_saw_is_acted_on_by_who_comes_back(tmp_path: Path) -> None:
    stage = Stage(trains, trains)
    left(stage, tmp_path, Policy(keep=True))
    stage.lines[1].say(Exited(1, 1))
    session = come_back(stage, tmp_path, Policy(keep=True))
    for _ in session.batches():
        continue
    assert session.state.verdict is Verdict.FAILED
    assert any(isinstance(command, Stop) for command in stage.lines[0].commands)


def test_a_run_whose_end_nobody_saw_is_ended_by_who_comes_back(tmp_path: Path) -> None:
    stage = Stage(trains, trains)
    left(stage, tmp_path, Policy(keep=True))
    for rank, line in stage.lines.items():
        done = PREFIX + dumps(to_object(Finished(rank, 1, 1, 1.0)))
        line.say(OutputText(rank, "stdout", done), Exited(rank, 0), AgentEnded(EndReason.ALL_ENDED))
    session = come_back(stage, tmp_path, Policy(keep=True))
    for _ in session.batches():
        continue
    assert session.state.verdict is Verdict.FINISHED
    records = recorded(tmp_path)
    for _ in come_back(stage, tmp_path, Policy(keep=True)).batches():
        continue
    assert recorded(tmp_path) == records, "who comes back to a run that has ended changes nothing"


def test_a_line_over_which_nothing_comes_is_no_way_to_a_host(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An agent that is gone without a last word, whose follower ends at once, again and again."""
    hasten(monkeypatch, parted=0.5, retry=0.05, tick=0.02)
    stage = Stage(trains)
    session, batches = running(stage, tmp_path)
    stage.gone = True
    stage.lines[0].drop()
    to_the_end(batches)
    assert session.state.verdict is Verdict.LOST
    assert 1 < len(stage.opened) < 30


def test_a_kept_run_of_which_nothing_is_heard_any_more_is_left_and_not_given_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As where the network of this machine is away."""
    hasten(monkeypatch, silent=0.1, lost=0.2, unheard=1.0, tick=0.02)
    stage = Stage(trains, trains)
    session = stage.session(tmp_path, Policy(keep=True))
    for _ in session.batches():
        continue
    assert (session.detached, session.cut_off, session.state.verdict) == (True, True, None)
    assert not any(
        isinstance(command, (Stop, Close))
        for line in stage.lines.values()
        for command in line.commands
    )
    assert not any(host.gone for host in session.state.hosts)
    again = come_back(stage, tmp_path, Policy(keep=True))
    batches = again.batches()
    again.stop()
    to_the_end(batches)
    assert again.state.verdict is Verdict.STOPPED


def test_a_host_that_cannot_be_reached_from_elsewhere_does_not_end_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hasten(monkeypatch, tick=0.02, silent=0.1)
    stage = Stage(trains, trains)
    left(stage, tmp_path / "here", Policy(keep=True))
    stage.refuses.add(1)
    session = from_elsewhere(stage, tmp_path, Policy(keep=True))
    batches = session.batches()
    until(
        session,
        batches,
        lambda: any("trying again" in note.text for note in session.state.log.notes),
    )
    began = time.monotonic()
    until(session, batches, lambda: time.monotonic() > began + TIMES.evidence + 0.2)
    assert not any(
        isinstance(command, Stop) for line in stage.lines.values() for command in line.commands
    )
    stage.refuses.clear()
    until(session, batches, lambda: all_run(session))
    session.stop()
    to_the_end(batches)
    assert session.state.verdict is Verdict.STOPPED


@pytest.mark.parametrize("problem", ["mute", "away"])
def test_a_host_that_never_answers_from_elsewhere_is_lost_and_the_others_go_on(
    problem: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing but its outcome is unknown in the end. An `attach` later looks for it again."""
    hasten(monkeypatch, tick=0.02, lost=1.0, silent=0.3)
    stage = Stage(samples, samples, silent_to_others)
    left(stage, tmp_path / "here", Policy(keep=True))
    stage.journals[2].clear()  # its records have been moved away
    if problem == "away":
        stage.refuses.add(2)
    opened = len(stage.opened)
    session = from_elsewhere(stage, tmp_path, Policy(keep=True))
    batches = session.batches()
    until(session, batches, lambda: session.state.hosts[2].lost)
    assert sum(host == 2 for host, _ in stage.opened[opened:]) == (problem == "mute")
    assert session.state.cause is None
    over = time.monotonic() + stage.times.evidence + 0.2
    until(session, batches, lambda: time.monotonic() > over)
    for rank in (0, 1):
        line = stage.lines[rank]
        assert not any(isinstance(command, Stop) for command in line.commands)
        done = PREFIX + dumps(to_object(Finished(rank, 1, 1, 1.0)))
        line.say(OutputText(rank, "stdout", done), Exited(rank, 0))
    to_the_end(batches)
    state = session.state
    assert state.verdict is Verdict.LOST
    assert [rank.phase for rank in state.ranks[:2]] == [RankPhase.FINISHED] * 2
    assert state.cause is not None
    words = "has sent nothing" if problem == "mute" else "connection refused"
    assert state.cause.host == "node3"
    assert words in state.cause.text()
    assert not state.is_settled
    notes = [note.text for note in state.log.notes if note.host == "node3"]
    assert len(notes) == len(set(notes))


def test_a_run_none_of_whose_hosts_can_be_reached_from_elsewhere_is_given_up_at_once(
    tmp_path: Path,
) -> None:
    stage = Stage(trains, trains)
    left(stage, tmp_path / "here", Policy(keep=True))
    stage.refuses |= {0, 1}
    session = from_elsewhere(stage, tmp_path, Policy(keep=True))
    for _ in session.batches():
        continue
    assert session.state.verdict is Verdict.LOST
    assert all("connection refused" in host.reason for host in session.state.hosts)


def test_what_lives_on_on_a_host_that_was_lost_is_reached_by_a_stop(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hasten(monkeypatch, lost=0.5, retry=0.05, tick=0.05, lease=0.02)
    stage = Stage(samples, trains)
    session, batches = running(stage, tmp_path, Policy(keep=True))
    stage.refuses.add(1)
    stage.lines[1].drop()
    to_the_end(batches)
    assert session.state.verdict is Verdict.LOST
    stage.refuses.clear()
    again = come_back(stage, tmp_path, Policy(keep=True))
    again.stop()
    for _ in again.batches():
        continue
    assert any(isinstance(command, Close) for command in stage.lines[1].commands)
    assert {host for host, _ in stage.opened[2:]} == {1}


def test_a_stop_waits_for_hosts_that_take_long_to_be_reached(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hasten(monkeypatch, away=0.1, closing=0.1, tick=0.1)
    stage = Stage(trains, trains)
    left(stage, tmp_path, Policy(keep=True))
    stage.ways.clear()
    session = come_back(stage, tmp_path, Policy(keep=True))
    session.stop()
    batches, began = session.batches(), time.monotonic()
    until(session, batches, lambda: time.monotonic() > began + 0.5)
    stage.ways.set()
    to_the_end(batches)
    assert session.state.verdict is Verdict.STOPPED
    assert not any(host.gone for host in session.state.hosts)
    assert all(Stop(by_person=True) in line.commands for line in stage.lines.values())


def test_who_asks_twice_waits_for_no_host(tmp_path: Path) -> None:
    stage = Stage(trains)
    left(stage, tmp_path, Policy(keep=True))
    stage.ways.clear()
    session = come_back(stage, tmp_path, Policy(keep=True))
    session.stop()
    session.stop()
    to_the_end(session.batches())
    stage.ways.set()
    assert (session.state.verdict, session.state.hosts[0].gone) == (Verdict.STOPPED, True)


@pytest.mark.parametrize("stops", [True, False])
def test_a_host_that_has_not_heard_of_a_stop_is_stopped_by_who_comes_back(
    stops: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hasten(monkeypatch, away=0.1)
    stage = Stage(trains, trains)
    session, batches = running(stage, tmp_path, Policy(keep=True))
    stage.refuses.add(1)
    stage.lines[1].drop()
    until(session, batches, lambda: session.state.hosts[1].parted)
    session.stop()
    to_the_end(batches)
    assert session.state.verdict is Verdict.STOPPED
    assert session.state.hosts[1].reason.endswith(
        "; once it is back, rankboard stop a-run stops what still runs there"
    )
    stage.refuses.clear()
    again = come_back(stage, tmp_path, Policy(keep=True))
    if stops:
        again.stop()
    to_the_end(again.batches())
    assert again.state.verdict is Verdict.STOPPED
    assert sum(isinstance(record.event, HostLost) for record in recorded(tmp_path)) == 1
    assert any(isinstance(command, Close) for command in stage.lines[1].commands)


def waits_for_its_start(line: End, command: Command | None) -> None:
    """An agent that another launcher has begun, and has not told to start yet."""
    if command is None:
        line.say(HELLO)
    elif isinstance(command, Close):
        line.say(AgentEnded(EndReason.CLOSED))


def test_a_run_that_its_launcher_has_not_started_yet_is_stopped_from_elsewhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hasten(monkeypatch, closing=0.1, tick=0.1)
    stage = Stage(waits_for_its_start, waits_for_its_start)
    session = from_elsewhere(stage, tmp_path, Policy(keep=True))
    session.stop()
    to_the_end(session.batches())
    assert session.state.verdict is Verdict.STOPPED
    assert all(Close() in line.commands for line in stage.lines.values())


def test_a_run_that_another_operator_stops_is_not_started_again(tmp_path: Path) -> None:
    stage = Stage(trains, trains)
    session, batches = running(stage, tmp_path, Policy(max_restarts=1, min_nodes=1))
    stage.lines[0].say(StopHeard(by_person=True), Exited(0, -15, "SIGTERM", stopped=True))
    until(session, batches, lambda: session.state.ranks[0].exited)
    stage.lines[1].say(Exited(1, 1))  # of its peer's end, before it was told itself
    to_the_end(batches)
    assert (session.state.verdict, session.state.attempt) == (Verdict.STOPPED, 0)
    assert session.state.stop_reason == "stopped from elsewhere"


def test_hosts_that_another_launcher_has_closed_after_the_end_are_no_failure(
    tmp_path: Path,
) -> None:
    stage = Stage(trains, trains)
    session, batches = running(stage, tmp_path, Policy())
    for line in stage.lines.values():
        done = PREFIX + dumps(to_object(Finished(line.host, 1, 1, 1.0)))
        line.say(
            OutputText(line.host, "stdout", done),
            Exited(line.host, 0),
            AgentEnded(EndReason.CLOSED),
        )
        until(session, batches, lambda line=line: session.state.ranks[line.host].exited)  # type: ignore[misc]
    to_the_end(batches)
    assert (session.state.verdict, session.state.stop_reason) == (Verdict.FINISHED, "")


def starts_late(line: End, command: Command | None) -> None:
    """An agent whose launcher starts the ranks just after another one's stop has come."""
    match command:
        case None:
            line.say(HELLO)
        case Stop() if not line.runs:
            line.say(StopHeard(True), Launched((line.host,)), Spawned(line.host, 1))
        case Stop() | Close():
            trains(line, command)


def test_ranks_that_are_started_after_a_stop_from_elsewhere_are_stopped_too(tmp_path: Path) -> None:
    stage = Stage(starts_late, starts_late)
    session = from_elsewhere(stage, tmp_path, Policy(keep=True))
    session.stop()
    to_the_end(session.batches())
    assert session.state.verdict is Verdict.STOPPED
    assert not any(host.gone for host in session.state.hosts)


def test_a_restart_by_who_comes_back_goes_without_a_host_that_is_off(tmp_path: Path) -> None:
    stage, policy = Stage(waits_once, waits_once), Policy(keep=True, max_restarts=1, min_nodes=1)
    left(stage, tmp_path, policy)
    all_fail(stage)
    stage.refuses.add(1)
    session = come_back(stage, tmp_path, policy)
    # As a launcher that was killed just then had recorded.
    now = time.time()
    session.catch_up(Record(rank, 0, 1, now, Exited(rank, 1)) for rank in (0, 1))
    state = ended(session)
    assert (state.verdict, state.attempt, [rank.rank for rank in state.ranks]) == (
        Verdict.FINISHED,
        1,
        [0],
    )


def test_a_restart_waits_for_who_has_the_variables_that_the_ranks_need(tmp_path: Path) -> None:
    stage, policy = Stage(waits_once), Policy(keep=True, max_restarts=1)
    plan = stage.plan(policy)
    plan = replace(plan, hosts=tuple(replace(host, env_from=("TOKEN",)) for host in plan.hosts))
    first = Session(
        plan, stage, Recorder(tmp_path, plan), times=stage.times, forwarded={"TOKEN": "x"}
    )
    batches = first.batches()
    until(first, batches, lambda: all_run(first))
    first.detach()
    to_the_end(batches)
    all_fail(stage)
    for forwarded, verdict in (({}, None), ({"TOKEN": "x"}, Verdict.FINISHED)):
        session = Session(
            plan,
            stage,
            Recorder(tmp_path, plan, continues=True),
            times=stage.times,
            forwarded=forwarded,
        )
        session.catch_up(recorded(tmp_path))
        to_the_end(session.batches())
        assert (session.detached, session.state.verdict) == (verdict is None, verdict)


def test_who_asks_to_leave_while_hosts_are_reached_leaves_once_the_ranks_run(
    tmp_path: Path,
) -> None:
    stage = Stage(trains, trains)
    session = stage.session(tmp_path, Policy(keep=True))
    session.detach()
    for _ in session.batches():
        continue
    assert session.detached
    assert all_run(session) or all(
        StartAttempt in map(type, line.commands) for line in stage.lines.values()
    )


# Stalls -------------------------------------------------------------------------------------------


def stands_still(line: End, command: Command | None) -> None:
    """An agent that gives signs of life and whose rank makes one step and no other."""
    samples(line, command)
    if isinstance(command, StartAttempt):
        step(line, 1)
    elif isinstance(command, Stacks):
        line.say(
            Stack(
                line.host,
                "faulthandler",
                'Thread 0x1 (most recent call first):\n  File "train.py", line 7 in load',
            )
        )


def stands_still_unheard(line: End, command: Command | None) -> None:
    """The same without the signs of life."""
    if not isinstance(command, (Lease, Stacks)):
        stands_still(line, command)


def step(line: End, number: int) -> None:
    """Its rank makes this step, the first after it has met the others."""
    met = Started(line.host, 1, 2, "cpu", "gloo", "2", 1, 10, 40, 10, 640, 100)
    said = [met] * (number == 1) + [StepFinished(line.host, 1, number, 2.0, 0.01)]
    line.say(
        OutputText(line.host, "stdout", "\n".join(PREFIX + dumps(to_object(one)) for one in said))
    )


@pytest.fixture
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    hasten(monkeypatch, stall_least=0.5, stacks=0.1, tick=0.02, lease=0.05)


def test_a_stall_ends_a_run_that_is_to_stop_then(soon: None, tmp_path: Path) -> None:
    state = ended(
        Stage(stands_still, stands_still).session(tmp_path, Policy(on_stall=OnStall.STOP))
    )
    assert state.verdict is Verdict.FAILED
    assert state.cause is not None
    assert "stalled" in state.cause.text()


def test_a_stall_is_not_acted_on_while_a_host_is_silent(
    soon: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hasten(monkeypatch, silent=0.2)
    stage = Stage(stands_still, stands_still_unheard)
    session = stage.session(tmp_path, Policy(on_stall=OnStall.STOP))
    batches = session.batches()
    until(session, batches, lambda: session.state.stall is not None)
    began = time.monotonic()
    until(session, batches, lambda: time.monotonic() > began + 0.5)
    for line in stage.lines.values():
        assert not any(isinstance(command, Stop) for command in line.commands)
        step(line, 2)
    until(session, batches, lambda: session.state.stall is None)
    session.stop()
    to_the_end(batches)
    assert session.state.verdict is Verdict.STOPPED


def diverges(line: End, command: Command | None) -> None:
    """An agent whose rank's second loss is no number. It ends only when it is stopped."""
    trains(line, command)
    if isinstance(command, StartAttempt):
        step(line, 1)
        line.say(
            OutputText(
                line.host,
                "stdout",
                PREFIX + dumps(to_object(StepFinished(line.host, 1, 2, float("nan"), 0.01))),
            )
        )


def diverges_and_finishes(line: End, command: Command | None) -> None:
    """An agent whose rank does so in its last step, and is gone before anybody can stop it."""
    if isinstance(command, StartAttempt):
        diverges(line, command)
        line.say(Finished(line.host, 1, 2, 1.0), Exited(line.host, 0))
    else:
        finishes(line, command)


@pytest.mark.parametrize("part", [diverges, diverges_and_finishes])
def test_a_loss_that_is_nan_ends_a_run_that_is_to_stop_then(
    part: Part, soon: None, tmp_path: Path
) -> None:
    stage = Stage(part, part)
    state = ended(stage.session(tmp_path, Policy(on_nan=OnNan.STOP, max_restarts=2)))
    assert state.verdict is Verdict.FAILED
    assert state.cause is not None
    assert state.cause.problem == "loss is NaN"
    assert state.cause.step == 2
    assert not state.progress.restarts


# Attempts -----------------------------------------------------------------------------------------


def fails_once(line: End, command: Command | None) -> None:
    """An agent whose rank fails in the first attempt and finishes in the second."""
    if isinstance(command, StartAttempt) and command.attempt == 0:
        trains(line, command)
        line.say(Exited(line.host, 1))
    else:
        finishes(line, command)


def test_a_run_that_failed_is_started_again(tmp_path: Path) -> None:
    stage = Stage(fails_once, waits_once)
    state = ended(stage.session(tmp_path, Policy(max_restarts=1)))
    assert state.verdict is Verdict.FINISHED
    assert state.attempt == 1
    assert len(state.progress.restarts) == 1


def all_fail(stage: Stage) -> None:
    """The ranks of a run that nobody watches."""
    for line in stage.lines.values():
        line.say(Exited(line.host, 1))


@pytest.mark.parametrize("here", [True, False], ids=["where it was launched", "elsewhere"])
def test_who_comes_back_to_a_run_that_has_failed_starts_it_again_first(
    here: bool, tmp_path: Path
) -> None:
    stage = Stage(waits_once, waits_once)
    policy = Policy(keep=True, max_restarts=1)
    left(stage, tmp_path, policy)
    all_fail(stage)
    first = dict(stage.lines)
    session = (
        come_back(stage, tmp_path, policy) if here else from_elsewhere(stage, tmp_path, policy)
    )
    state = ended(session)
    assert (state.verdict, state.attempt, len(state.progress.restarts)) == (Verdict.FINISHED, 1, 1)
    for host, line in stage.lines.items():
        asked = [command for command in line.commands if not isinstance(command, (Lease, Keep))]
        assert [type(command) for command in asked] == [Reserve, Connect, StartAttempt, Close]
        starts = [
            command
            for one in (first[host], line)
            for command in one.commands
            if isinstance(command, StartAttempt)
        ]
        assert [(start.attempt, start.again) for start in starts] == [(0, True), (1, False)]


def test_a_restart_that_its_launcher_has_not_come_to_is_made_by_who_comes_back(
    tmp_path: Path,
) -> None:
    deaf = threading.Event()

    def part(line: End, command: Command | None) -> None:
        if not (isinstance(command, Reserve) and deaf.is_set()):
            waits_once(line, command)

    stage, policy = Stage(part, part), Policy(keep=True, max_restarts=1)
    session, batches = running(stage, tmp_path, policy)
    deaf.set()
    all_fail(stage)
    until(session, batches, lambda: session.state.attempt == 1)
    batches.close()  # type: ignore[attr-defined]
    deaf.clear()
    state = ended(come_back(stage, tmp_path, policy))
    assert (state.verdict, state.attempt) == (Verdict.FINISHED, 1)


@pytest.mark.parametrize("hosts", [1, 2])
def test_a_restart_that_another_launcher_has_made_is_not_made_again(
    hosts: int, tmp_path: Path
) -> None:
    """The one that comes back has heard of the failure, but not of the restart."""
    stage, policy = Stage(*[fails_once_and_trains_on] * hosts), Policy(keep=True, max_restarts=2)
    session = stage.session(tmp_path, policy)
    batches = session.batches()
    until(session, batches, lambda: session.state.attempt == 1 and all_run(session))
    session.detach()
    to_the_end(batches)
    plan = stage.plan(policy)
    another = Session(plan, stage, Recorder(tmp_path / "another", plan), times=stage.times)
    another.catch_up(record for record in recorded(tmp_path) if record.attempt == 0)
    batches = another.batches()
    until(another, batches, lambda: all_run(another) and another.state.attempt == 1)
    all_fail(stage)
    until(another, batches, lambda: another.state.attempt == 2 and all_run(another))
    another.stop()
    to_the_end(batches)
    for line in stage.lines.values():
        assert [
            command.attempt for command in line.commands if isinstance(command, StartAttempt)
        ] == [2]


def test_agents_are_told_whether_a_run_that_is_stopped_may_be_started_again(tmp_path: Path) -> None:
    stage = Stage(fails_once, waits_once)
    ended(stage.session(tmp_path / "failed", Policy(max_restarts=1)))
    assert Stop(again=True) in stage.lines[1].commands
    stage = Stage(trains)
    session, batches = running(stage, tmp_path / "stopped", Policy(max_restarts=1))
    session.stop()
    to_the_end(batches)
    assert Stop(by_person=True) in stage.lines[0].commands


def test_a_job_that_its_ranks_refuse_is_not_started_again(tmp_path: Path) -> None:
    state = ended(Stage(refuses, refuses).session(tmp_path, Policy(max_restarts=2)))
    assert (state.verdict, state.attempt) == (Verdict.REFUSED, 0)


def refuses(line: End, command: Command | None) -> None:
    """An agent whose rank finds no data."""
    trains(line, command)
    if isinstance(command, StartAttempt):
        line.say(Exited(line.rank, 2))


def test_it_is_started_again_so_many_times_only(tmp_path: Path) -> None:
    stage = Stage(exits_early, exits_early)
    state = ended(stage.session(tmp_path, Policy(max_restarts=2)))
    assert state.verdict is Verdict.FAILED
    assert state.attempt == 2


def test_it_is_started_again_without_a_lost_host_where_enough_are_left(tmp_path: Path) -> None:
    stage = Stage(waits_once, loses_its_agent)
    state = ended(stage.session(tmp_path, Policy(max_restarts=1, min_nodes=1)))
    assert state.verdict is Verdict.FINISHED
    assert [rank.rank for rank in state.ranks] == [0]


def test_what_is_left_on_a_host_that_comes_back_too_late_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hasten(monkeypatch, lost=0.3, silent=0.1, tick=0.02, lease=0.02)
    stage = Stage(samples, samples)
    session, batches = running(stage, tmp_path, Policy(keep=True, max_restarts=1, min_nodes=1))
    stage.refuses.add(1)
    stage.lines[1].drop()
    stage.lines[0].say(Exited(0, 1))
    until(session, batches, lambda: session.state.attempt == 1)
    stage.refuses.clear()
    until(
        session,
        batches,
        lambda: any(isinstance(command, Close) for command in stage.lines[1].commands),
    )
    assert not any(isinstance(command, Close) for command in stage.lines[0].commands)
    until(session, batches, lambda: session.state.log.notes[-1].text.startswith("is back"))
    assert session.state.hosts[1].phase is HostPhase.LOST
    session.stop()
    to_the_end(batches)
    assert session.state.verdict is Verdict.STOPPED


@pytest.mark.parametrize("both", [True, False])
def test_it_goes_on_from_a_checkpoint_that_the_hosts_left_have(both: bool, tmp_path: Path) -> None:
    """The lost host's rank may have said that one is complete, and the others' not yet."""

    def saves(line: End, command: Command | None) -> None:
        first = isinstance(command, StartAttempt) and command.attempt == 0
        (trains if first else finishes)(line, command)
        if first and (both or line.host == 1):
            line.say(
                OutputText(
                    line.host, "stdout", PREFIX + dumps(to_object(Saved(line.host, 1, 20, 0.1, 1)))
                )
            )
        if first and line.host == 1:
            line.say(DIED)

    stage = Stage(saves, saves)
    state = ended(stage.session(tmp_path, Policy(max_restarts=1, min_nodes=1)))
    assert state.verdict is Verdict.FINISHED
    start = [command for command in stage.lines[0].commands if isinstance(command, StartAttempt)][
        -1
    ]
    argv = start.placements[0].argv
    assert argv[argv.index("--resume") + 1] == ("a-run" if both else "")
    said = [note.text for note in state.log.notes if "from the beginning" in note.text]
    assert said == (
        []
        if both
        else ["no remaining host has a complete checkpoint: the run starts from the beginning"]
    )


def test_ranks_that_do_not_get_going_in_time_are_stopped(tmp_path: Path) -> None:
    state = ended(Stage(trains, trains).session(tmp_path, Policy(start_timeout=0.2)))
    assert state.verdict is Verdict.FAILED
    assert state.cause is not None
    assert state.cause.text() == "ranks 0 and 1 had made no step 0.2 s after the start"


def test_one_host_alone_is_started_again(tmp_path: Path) -> None:
    """All its ranks have ended before the others would have been stopped."""
    stage = Stage(fails_once_and_trains_on)
    session = stage.session(tmp_path, Policy(max_restarts=1))
    batches = session.batches()
    until(session, batches, lambda: session.state.attempt == 1 and all_run(session))
    began = time.monotonic()
    until(session, batches, lambda: time.monotonic() > began + TIMES.evidence + 0.2)
    session.stop()
    to_the_end(batches)
    assert session.state.verdict is Verdict.STOPPED


def test_the_time_for_the_start_holds_for_each_attempt(tmp_path: Path) -> None:
    """The first attempt steps, and fails; the second does not get going."""
    stage = Stage(steps_and_fails, trains)
    state = ended(stage.session(tmp_path, Policy(start_timeout=0.3, max_restarts=1)))
    assert state.attempt == 1
    assert state.stop_reason == "ranks 0 and 1 had made no step 0.3 s after the start"


def steps_and_fails(line: End, command: Command | None) -> None:
    """An agent whose rank, and the other, make a step in the first attempt, before it fails."""
    trains(line, command)
    if isinstance(command, StartAttempt) and command.attempt == 0:
        step(line, 1)
        line.say(Exited(line.host, 1))


def fails_once_and_trains_on(line: End, command: Command | None) -> None:
    """An agent whose rank fails in the first attempt and trains on in the second."""
    trains(line, command)
    if isinstance(command, StartAttempt) and command.attempt == 0:
        line.say(Exited(line.host, 1))


def test_who_has_no_patience_with_a_run_that_has_ended_has_it_closed(tmp_path: Path) -> None:
    stage = Stage(trains)
    left(stage, tmp_path, Policy(keep=True))
    session = come_back(stage, tmp_path, Policy(keep=True))
    stage.lines[0].say(Exited(0, 0))
    session.catch_up([Record(0, 0, 1, time.time(), Exited(0, 0))])
    session.stop(now=True)
    to_the_end(session.batches())
    assert not session.state.hosts[0].gone


def test_who_has_no_patience_with_a_stop_has_the_ranks_killed(tmp_path: Path) -> None:
    stage = Stage(trains, slow_to_stop)
    session, batches = running(stage, tmp_path)
    session.stop()
    session.stop(now=True)
    until(
        session,
        batches,
        lambda: any(command == Stop(0.0, by_person=True) for command in stage.lines[1].commands),
    )
    stage.lines[1].say(Exited(1, -9, "SIGKILL", stopped=True))
    to_the_end(batches)
    assert session.state.verdict is Verdict.STOPPED
    assert not any(host.gone for host in session.state.hosts)


def test_no_host_speaks_for_another_one_or_for_the_session(tmp_path: Path) -> None:
    stage = Stage(trains, trains)
    session, batches = running(stage, tmp_path)
    for host in (0, SESSION):
        forged = encode(Record(host, 0, 1_000, time.time(), Exited(0, 1)))
        stage.lines[1].send(forged.encode())
    until(
        session,
        batches,
        lambda: sum("exited" in note.text for note in session.state.log.notes) == 2,
    )
    assert session.state.ranks[0].exited is None
    session.stop()
    to_the_end(batches)
    assert session.state.verdict is Verdict.STOPPED


def test_who_stops_a_run_that_would_start_again_is_obeyed(tmp_path: Path) -> None:
    stage = Stage(fails_once, slow_to_stop)
    session = stage.session(tmp_path, Policy(max_restarts=1))
    batches = session.batches()
    until(session, batches, lambda: session.state.phase is RunPhase.STOPPING)
    session.stop()
    until(
        session,
        batches,
        lambda: sum(note.text.startswith("stopped by") for note in session.state.log.notes) == 1,
    )
    stage.lines[1].say(Exited(1, -15, "SIGTERM", stopped=True))
    to_the_end(batches)
    assert session.state.attempt == 0
    assert session.state.verdict is Verdict.FAILED


def slow_to_stop(line: End, command: Command | None) -> None:
    """An agent whose rank takes its time."""
    if not isinstance(command, Stop):
        trains(line, command)


def test_who_comes_from_elsewhere_learns_of_a_restart_from_the_hosts(tmp_path: Path) -> None:
    stage = Stage(trains, loses_its_agent, trains)
    policy = Policy(keep=True, max_restarts=1, min_nodes=1)
    session = stage.session(tmp_path / "here", policy)
    batches = session.batches()
    until(session, batches, lambda: session.state.attempt == 1 and all_run(session))
    session.detach()
    to_the_end(batches)
    stage.refuses.add(1)
    elsewhere = from_elsewhere(stage, tmp_path, policy)
    batches = elsewhere.batches()
    until(elsewhere, batches, lambda: elsewhere.state.attempt == 1 and all_run(elsewhere))
    assert [rank.host for rank in elsewhere.state.ranks] == [0, 2]
    assert elsewhere.state.cause is None
    elsewhere.stop()
    to_the_end(batches)
    assert elsewhere.state.verdict is Verdict.STOPPED


def test_who_comes_from_elsewhere_learns_why_a_run_was_restarted(tmp_path: Path) -> None:
    stage = Stage(fails_once_and_trains_on)
    policy = Policy(keep=True, max_restarts=1)
    session = stage.session(tmp_path / "here", policy)
    batches = session.batches()
    until(session, batches, lambda: session.state.attempt == 1 and all_run(session))
    session.detach()
    to_the_end(batches)
    elsewhere = from_elsewhere(stage, tmp_path, policy)
    batches = elsewhere.batches()
    until(elsewhere, batches, lambda: elsewhere.state.attempt == 1 and all_run(elsewhere))
    (here,) = session.state.progress.restarts
    (there,) = elsewhere.state.progress.restarts
    assert there.reason == here.reason == "node1, rank 0: exit code 1"
    elsewhere.stop()
    to_the_end(batches)


def test_a_host_that_a_restart_has_left_out_is_not_waited_for_by_who_comes_back(
    tmp_path: Path,
) -> None:
    stage = Stage(trains, loses_its_agent)
    policy = Policy(keep=True, max_restarts=1, min_nodes=1)
    session = stage.session(tmp_path, policy)
    batches = session.batches()
    until(session, batches, lambda: session.state.attempt == 1 and all_run(session))
    session.detach()
    to_the_end(batches)
    known = len(stage.opened)
    again = come_back(stage, tmp_path, policy)
    batches = again.batches()
    until(again, batches, lambda: len(stage.opened) > known)
    again.stop()
    to_the_end(batches)
    assert {host for host, _ in stage.opened[known:]} == {0}
    assert again.state.verdict is Verdict.STOPPED
