"""What a session does next: one pure function.

All that changes the course of a run is decided here, from what the records say of the run, what is
known of its connections, and the time. Each rule is a function of all that; the first that has
something to do is followed, and then all are asked again, until none has anything to do.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from remote.run.run_state import RunState
from remote.run.state.launcher_state import Stage
from remote.session import finish, reach, start, user_requests, watchdog
from remote.session.actions import Action
from remote.session.decision_input import DecisionInput
from remote.session.host_link import HostLink
from remote.session.times import Times

RULES: tuple[Callable[[DecisionInput], list[Action]], ...] = (
    finish.hear_stop,
    reach.greet,
    reach.reach,
    reach.end_left_out,
    start.upload,
    start.keep_plan,
    start.give_up,
    start.prepare,
    start.ask,
    start.start,
    start.send_starts,
    user_requests.leave,
    finish.notice_failure,
    finish.stop_failed,
    watchdog.watch,
    finish.end_hosts,
    finish.give_up,
    finish.finish_attempt,
    finish.close,
)
"""In order: what is known of the hosts, the start, the ranks, the end."""


def decide(
    run: RunState,
    contacts: Sequence[HostLink],
    forwarded: Mapping[str, str],
    times: Times,
    now: float,
) -> list[Action]:
    """Return what is to be done next, in order; nothing if only time or hosts can change anything.

    `contacts` are the links to the hosts, in order. For the others see `DecisionInput`.
    """
    if run.launcher.detached or run.launcher.stage is Stage.OVER:
        return []
    inputs = DecisionInput(run, contacts, forwarded, times, now)
    for rule in RULES:
        actions = rule(inputs)
        if actions:
            return actions
    return []
