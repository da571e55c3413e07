"""Journals of hosts, taken in by who comes to a run from elsewhere: their order, and what becomes
of those that do not come."""

from __future__ import annotations

import threading
from collections.abc import Iterable
from pathlib import Path

import pytest

from remote.cluster.hosts import Host
from remote.events import ClockMeasured, HostPhaseChanged, RemarkMade
from remote.plan.plan import Plan, Policy
from remote.record.layout import LOGS
from remote.record.write import Recorder
from remote.run.state.phases import HostPhase, Verdict
from remote.session.returning import ReturningSession
from remote.transport import Unreachable
from remote.transport.failure import Failure, FailureCause
from tests.kit.journals import END, Hosts, KeptLine, Library
from tests.kit.stage import all_run, loses_its_agent, recorded, trains, until
from tests.kit.wait import GUARD
from training.wire.enums import Reach
from training.wire.events import PREFIX, SESSION, Event, Record, encode, to_object
from training.wire.host_events import OutputText, RecordsDropped
from training.wire.jsonl import dumps
from training.wire.rank_events import StepFinished


def said(host: int, *times: float, attempt: int = 0, event: Event | None = None) -> bytes:
    """Records of a host, of these times."""
    said = [
        Record(host, attempt, seq, when, event or OutputText(host, "stdout", "x"))
        for seq, when in enumerate(times, 1)
    ]
    return "".join(map(encode, said)).encode()


def test_records_come_in_order_of_time_by_one_clock() -> None:
    library = Library(
        KeptLine([said(0, 101.0, 104.0), END]), KeptLine([said(1, 3602.0, 3603.0, 3605.0) + END])
    )
    assert library.take(node2=3500.0) == ([(0, 1), (1, 1), (1, 2), (0, 2), (1, 3)], [])


def test_the_records_of_a_host_keep_their_order_though_its_clock_was_set_back() -> None:
    library = Library(KeptLine([said(0, 5.0, 1.0, 2.0), END]), KeptLine([said(1, 3.0), END]))
    assert [found for found in library.take()[0] if found[0] == 0] == [(0, 1), (0, 2), (0, 3)]


def test_what_was_dropped_holds_up_nothing() -> None:
    """Its record is made as it is read, later than all that follow it."""
    dropped = encode(Record(0, 0, 1, 900.0, RecordsDropped(1, 1))).encode()
    late = encode(Record(0, 0, 2, 2.0, OutputText(0, "stdout", "x"))).encode()
    library = Library(KeptLine([dropped + late + END]), KeptLine([said(1, 1.0, 3.0), END]))
    assert library.take()[0] == [(0, 1), (1, 1), (0, 2), (1, 2)]


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        (
            KeptLine([said(0, 1.0)], stays=True),
            "node1: its journal stood still for 0.3 s; if it is only slow, raise timeout",
        ),
        (
            Unreachable("node1", Failure(FailureCause.REFUSED, "no route to host")),
            "node1: no route to host",
        ),
        (
            KeptLine([b'{"error":"/w/runs/a-run/0: Permission denied"}\n']),
            "node1: /w/runs/a-run/0: Permission denied",
        ),
        (KeptLine([said(0, 1.0)]), "node1: its journal broke off"),
        (
            KeptLine([said(0, 1.0)], why="the connection broke: reset"),
            "node1: the connection broke: reset",
        ),
        (KeptLine([said(0, 1.0) + b'{"half": ', b""]), "node1: its journal broke off"),
        (KeptLine([said(1, 1.0), END]), "node1: no record of its own in its journal: {"),
        (KeptLine([said(SESSION, 1.0), END]), "node1: no record of its own in its journal: {"),
        (KeptLine([b"\x1b[31mred\n", END]), "node1: no record of its own in its journal: red"),
        (
            KeptLine([said(0, 1.0), *[b"x" * (1 << 20)] * 5, END]),
            "node1: it sent a line longer than 4,194,304 bytes",
        ),
    ],
    ids=[
        "silent",
        "unreachable",
        "error",
        "cut off",
        "broken",
        "half",
        "another's",
        "the session's",
        "noise",
        "endless",
    ],
)
def test_what_is_missing_is_told_and_the_others_are_there(
    line: KeptLine | Unreachable, problem: str
) -> None:
    found, problems = Library(line, KeptLine([said(1, 2.0, 3.0), END])).take()
    assert [one for one in found if one[0] == 1] == [(1, 1), (1, 2)]
    assert all(one == (0, 1) for one in found if one[0] != 1)
    ((host, text),) = problems
    assert host == 0
    assert text.startswith(problem)


# Coming back from elsewhere -----------------------------------------------------------------------


def stepped(rank: int, step: int) -> OutputText:
    return OutputText(
        rank, "stdout", PREFIX + dumps(to_object(StepFinished(rank, 1, step, 1.0, 0.1)))
    )


def returning(
    stage: Hosts, folder: Path, policy: Policy, offsets: dict[int, float]
) -> ReturningSession:
    plan = stage.plan(policy)
    return ReturningSession(plan, stage, Recorder(folder, plan), "", {}, offsets)


def restarted(folder: Path, policy: Policy) -> Hosts:
    """Three hosts of a run that was started again without node2, and was left then."""
    stage = Hosts(trains, loses_its_agent, trains)
    session = stage.session(folder, policy)
    batches = session.batches()
    until(session, batches, lambda: session.state.attempt == 1 and all_run(session))
    session.detach()
    for _ in batches:
        continue
    return stage


KEPT = Policy(keep=True, max_restarts=1, min_nodes=1)


def test_who_comes_from_elsewhere_has_every_record_of_every_attempt(tmp_path: Path) -> None:
    """Also of the host that the restart left out, and whichever host's journal comes first."""
    stage = restarted(tmp_path / "here", KEPT)
    stage.refuses.add(1)
    there = returning(stage, tmp_path / "there", KEPT, {0: 0.0, 1: 0.0, 2: 0.0})
    batches = there.batches()
    shown: list[Record] = []
    until_shown(there, batches, shown)
    assert there.state.attempt == 1
    assert len(there.state.progress.restarts) == 1
    assert [rank.host for rank in there.state.ranks] == [0, 2]
    assert there.state.cause is None
    stage.lines[0].say(stepped(0, 1))
    until(there, batches, lambda: there.state.ranks[0].step == 1)
    there.stop()
    for batch in batches:
        shown += batch
    assert there.state.verdict is Verdict.STOPPED
    kept = recorded(tmp_path / "there")
    for host, journal in stage.journals.items():
        assert [one.seq for one in kept if one.host == host] == list(range(1, len(journal) + 1))
    assert [one.seq for one in shown if one.host == 1] == list(
        range(1, len(stage.journals[1]) + 1)
    ), "it is shown, too"


def until_shown(
    session: ReturningSession, batches: Iterable[list[Record]], shown: list[Record]
) -> None:
    """Until all that the hosts had is taken in, and the wires are open."""
    for batch in batches:
        shown += batch
        if session.state.attempt == 1 and all_run(session) and session._pool.connection(0):
            return


def test_nobody_is_waited_for_whose_journal_is_there(tmp_path: Path) -> None:
    stage = restarted(tmp_path / "here", KEPT)
    there = returning(stage, tmp_path / "there", KEPT, {})
    batches = there.batches()
    until(there, batches, lambda: there.state.attempt == 1)
    assert [host.phase for host in there.state.hosts] == [
        HostPhase.READY,
        HostPhase.ENDED,
        HostPhase.READY,
    ]
    there.stop()
    for _ in batches:
        continue


def test_texts_are_in_the_logs_of_who_comes_from_elsewhere(tmp_path: Path) -> None:
    stage = restarted(tmp_path / "here", KEPT)
    stage.lines[2].say(OutputText(1, "stdout", "meanwhile"))
    there = returning(stage, tmp_path / "there", KEPT, {})
    batches = there.batches()
    until(there, batches, lambda: any(line.text == "meanwhile" for line in there.state.log.lines))
    there.stop()
    for _ in batches:
        continue
    assert (there._recorder.folder / LOGS / "rank-1.log").read_text() == "meanwhile\n"


def test_a_clock_that_is_off_is_known_before_anything_else(tmp_path: Path) -> None:
    stage = restarted(tmp_path / "here", KEPT)
    there = returning(stage, tmp_path / "there", KEPT, {2: 3600.0})
    batches = there.batches()
    first = next(batches)
    assert (first[0].host, first[0].event) == (SESSION, ClockMeasured(2, 3600.0))
    assert there.state.hosts[2].offset == 3600.0
    until(there, batches, lambda: there.state.attempt == 1)
    there.stop()
    for _ in batches:
        continue
    assert there.state.hosts[2].offset == pytest.approx(3600.0)
    assert isinstance(recorded(tmp_path / "there")[0].event, ClockMeasured)


def test_hosts_are_waited_for_since_somebody_came_and_not_since_the_run_began(
    tmp_path: Path,
) -> None:
    stage = restarted(tmp_path / "here", KEPT)
    stage.journals[1].clear()
    stage.refuses.add(1)
    there = returning(stage, tmp_path / "there", KEPT, {})
    batches = there.batches()
    first = next(batches)
    sought = [one.event for one in first if isinstance(one.event, HostPhaseChanged)]
    assert sought == [HostPhaseChanged(host, Reach.CONNECTING) for host in range(3)]
    until(there, batches, lambda: there.state.attempt == 1)
    assert there.state.started < first[0].time <= there.state.hosts[1].since
    there.stop()
    for _ in batches:
        continue


def test_a_host_whose_journal_does_not_come_is_told_of_and_followed_all_the_same(
    tmp_path: Path,
) -> None:
    stage = restarted(tmp_path / "here", KEPT)
    stage.mute = frozenset({2})
    plan = stage.plan(KEPT)
    hosts = tuple(Host(host.name, host.address, timeout=0.2) for host in plan.hosts)
    quick = Plan(plan.run, hosts, plan.work, plan.policy)
    there = ReturningSession(quick, stage, Recorder(tmp_path / "there", quick), "", {}, {})
    batches = there.batches()
    until(
        there,
        batches,
        lambda: any("stood still for 0.2 s" in note.text for note in there.state.log.notes),
    )
    until(there, batches, lambda: all_run(there))
    there.stop()
    for _ in batches:
        continue
    assert there.state.verdict is Verdict.STOPPED
    told = [one.event for one in recorded(tmp_path / "there") if isinstance(one.event, RemarkMade)]
    assert [event.host for event in told if "stood still" in event.text] == [2]


def test_who_stops_a_run_from_elsewhere_does_not_wait_for_a_journal(tmp_path: Path) -> None:
    stage = restarted(tmp_path / "here", KEPT)
    stage.mute = frozenset({0, 2})  # their timeout is 10 s
    there = returning(stage, tmp_path / "there", KEPT, {})
    stopper = threading.Thread(target=lambda: stage.asked.wait(GUARD) and there.stop())
    stopper.start()
    for _ in there.batches():
        continue
    stopper.join()
    assert there.state.verdict is Verdict.STOPPED
    assert not any("stood still" in note.text for note in there.state.log.notes)
