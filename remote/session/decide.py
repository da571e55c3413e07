"""What a session does next: one pure function.

All that changes the course of a run is decided here, from what the records say of the run, what is
known of its connections, and the time. Each rule is a branch of it; the first that has something to
do is followed, and then all are asked again, until none has anything to do.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from remote.run.run_state import RunState
from remote.run.state.launcher_state import Stage
from remote.session import finish, reach, requests, start, watchdog
from remote.session.actions import Action
from remote.session.contact import Contact
from remote.session.times import Times
from remote.session.view import View

RULES: tuple[Callable[[View], list[Action]], ...] = (
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
    requests.leave,
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
    contacts: Sequence[Contact],
    forwarded: Mapping[str, str],
    times: Times,
    now: float,
) -> list[Action]:
    """What is to be done next, in order; nothing, where only time or hosts can change anything.

    `contacts` are those with each host, in order. `forwarded`: variables for the ranks, see
    `remote.plan.environment`. `now` is by the session's clock, as the times of the records.
    """
    if run.course.detached or run.course.stage is Stage.OVER:
        return []
    view = View(run, contacts, forwarded, times, now)
    for rule in RULES:
        actions = rule(view)
        if actions:
            return actions
    return []
