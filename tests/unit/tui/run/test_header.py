"""The first line of the header: what the run does, and in which attempt."""

from __future__ import annotations

import pytest

from remote.events import HostLost, SessionClosed
from tests.kit.histories import History, plan
from training.wire.host_events import Exited, Launched
from tui.run.components.header_lines import phase_text


@pytest.mark.parametrize(
    ("attempts", "text"), [(2, "lost (attempt 2 of 2)"), (0, "lost (attempt 2)")]
)
def test_an_attempt_of_another_launcher_is_counted_as_that_one_allows(
    attempts: int, text: str
) -> None:
    """Here no restart is allowed. A launcher of an older version does not tell (0)."""
    history = History(plan(1)).rank(0, Launched((0,), (0,), attempts=1), Exited(0, 1))
    history.attempt = 1
    history.rank(0, Launched((0,), (0,), attempts=attempts))
    history.session(HostLost(0, "no sign of life", True), SessionClosed())
    assert phase_text(history.state()).endswith(text)
