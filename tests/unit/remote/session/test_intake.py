"""What a host may send to a launcher that has come back to its run."""

from __future__ import annotations

from unittest.mock import Mock

import pytest

from remote.events import Attached
from remote.limits import LIMITS
from remote.session.decision_input import DecisionInput
from remote.session.intake import Intake
from remote.session.times import TIMES
from tests.unit.remote.session.test_decide import SAMPLE, Case
from training.wire.events import SESSION, Record, encode


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
