"""What a host may send: to a launcher that has come back to its run, and of an attempt that another
launcher has begun."""

from __future__ import annotations

from dataclasses import replace
from unittest.mock import Mock

import pytest

from remote.events import Attached, ClockMeasured, SessionClosed
from remote.events import encode as encode_as_launcher
from remote.limits import LIMITS, Limits
from remote.session.decision_input import DecisionInput
from remote.session.intake import Intake
from remote.session.ledger import Ledger
from remote.session.times import TIMES
from tests.unit.remote.session.test_decide import SAMPLE, UNCHECKED, Case
from training.wire.events import SESSION, Event, Record, encode
from training.wire.host_events import Exited, Launched


@pytest.mark.parametrize(("more", "is_refused"), [(0, False), (1, True)])
def test_a_host_may_tell_of_so_many_attempts(more: int, is_refused: bool) -> None:
    case = Case().started().say(SESSION, Attached())
    inputs = DecisionInput(case.run, case.links, {}, TIMES, case.now)
    attempt = LIMITS.attempts + more
    record = Record(0, attempt, case.run.hosts[0].seq + 1, case.now, SAMPLE)
    intake = Intake(case.plan, Mock(), LIMITS)
    reason = intake.take_lines(0, [encode(record).encode()], inputs)
    assert ("never started" in reason) is is_refused


@pytest.mark.parametrize(("more", "is_refused"), [(0, False), (1, True)])
def test_a_host_may_leave_out_so_many_records(more: int, is_refused: bool) -> None:
    case = Case().started()
    inputs = DecisionInput(case.run, case.links, {}, TIMES, case.now)
    known = case.run.hosts[0].seq
    record = Record(0, 0, known + LIMITS.gap + more, case.now, SAMPLE)
    intake = Intake(case.plan, Mock(), LIMITS)
    reason = intake.take_lines(0, [encode(record).encode()], inputs)
    assert ("it sent record" in reason) is is_refused


def test_a_host_cannot_speak_as_a_launcher() -> None:
    case = Case().started()
    inputs = DecisionInput(case.run, case.links, {}, TIMES, case.now)
    ledger = Mock()
    record = Record(0, 0, case.run.hosts[0].seq + 1, case.now, SessionClosed())
    line = encode_as_launcher(record).encode()
    assert Intake(case.plan, ledger, LIMITS).take_lines(0, [line], inputs) == ""
    ledger.take.assert_not_called()


class RestartedRun:
    """A run of two or more hosts, which another launcher restarts."""

    def __init__(self, hosts: int = 2, limits: Limits = LIMITS) -> None:
        self.case = Case(replace(UNCHECKED, max_restarts=1), hosts).started()
        self.records = Mock()
        ledger = Ledger(self.case.plan, self.records, limits)
        ledger.state = self.case.run
        self.intake = Intake(self.case.plan, ledger, limits)
        self._newest = dict.fromkeys(range(hosts), 100)

    @property
    def inputs(self) -> DecisionInput:
        """What is known now."""
        return DecisionInput(self.case.run, self.case.links, {}, TIMES, self.case.now)

    def send(self, host: int, *events: Event, attempt: int = 0) -> str:
        """The host sends these in one go. Returns why it must be lost."""
        lines = []
        for event in events:
            self._newest[host] += 1
            record = Record(host, attempt, self._newest[host], self.case.now, event)
            lines.append(encode(record).encode())
        return self.intake.take_lines(host, lines, self.inputs)

    def launch(self, host: int) -> str:
        """The host tells that it has started its rank again."""
        hosts = tuple(range(self.case.hosts))
        return self.send(host, Launched((host,), hosts), SAMPLE, attempt=1)

    def release(self) -> dict[int, str]:
        """Take in what need not wait any longer. Returns which hosts must be lost, and why."""
        return dict(self.intake.take_waiting(self.inputs))


def test_a_host_that_tells_of_a_restart_before_the_others_tell_of_the_end_is_waited_for() -> None:
    run = RestartedRun()
    assert not run.send(1, Exited(1, -9, "SIGKILL"))
    assert not run.launch(1)
    assert not run.release()
    assert (run.case.run.attempt, run.case.run.hosts[1].attempt) == (0, 0)
    run.send(0, Exited(0, -15, "SIGTERM", stopped=True))
    assert not run.release()
    assert (run.case.run.attempt, run.case.run.hosts[1].attempt) == (1, 1)
    assert not run.launch(0)
    assert [host.running for host in run.case.run.hosts] == [{0}, {1}]


def test_all_that_waits_is_taken_in_once_an_attempt_has_begun() -> None:
    run = RestartedRun(hosts=3)
    for host in (1, 2):
        run.send(host, Exited(host, -9, "SIGKILL"))
        assert not run.launch(host)
        assert not run.send(host, Exited(host, -9, "SIGKILL"), attempt=1)
    run.send(0, Exited(0, -15, "SIGTERM", stopped=True))
    assert not run.release()
    assert [host.attempt for host in run.case.run.hosts] == [0, 1, 1]
    assert not any(host.running for host in run.case.run.hosts)


def test_a_restart_of_which_all_other_hosts_would_know_the_reason_by_now_is_refused() -> None:
    run = RestartedRun()
    assert not run.launch(1)
    run.case.later(0.5)
    run.send(0, SAMPLE)  # its clock may be ahead by as much
    assert not run.release()
    run.case.later(1.0)
    assert not run.release()
    run.send(0, SAMPLE)
    assert list(run.release()) == [1]
    assert run.case.run.attempt == 0


def test_a_restart_beyond_those_that_are_allowed_is_refused_at_once() -> None:
    run = RestartedRun()
    assert "of attempt 3, which was never started" in run.send(1, SAMPLE, attempt=2)


def test_what_waits_is_bounded() -> None:
    run = RestartedRun(limits=Limits(ahead=500))
    run.send(1, Exited(1, -9, "SIGKILL"))
    assert not run.launch(1)
    assert "never started" in run.send(1, *[SAMPLE] * 10, attempt=1)


def test_a_clock_is_measured_by_when_records_have_come_and_not_by_how_long_they_waited() -> None:
    run = RestartedRun()
    run.send(1, Exited(1, -9, "SIGKILL"))
    run.launch(1)
    for _ in range(20):
        run.case.later(1.0)
        run.send(1, SAMPLE, attempt=1)
    run.send(0, Exited(0, -15, "SIGTERM", stopped=True))
    assert not run.release()
    assert run.case.run.hosts[1].heard == run.case.now
    said = [call.args[0].event for call in run.records.write.call_args_list]
    assert not any(isinstance(event, ClockMeasured) for event in said)
