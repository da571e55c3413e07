"""What a session does next: one pure function.

All that changes the course of a run is decided here, from what the records say of the run, what is
known of its connections, and the time. Each rule is a function of all that; the first that has
something to do is followed, and then all are asked again, until none has anything to do.
"""

from __future__ import annotations

from collections.abc import Callable

from remote.run.state.launcher_state import Stage
from remote.session import finish, reach, start, user_requests, watchdog
from remote.session.actions import Action, Actions
from remote.session.decision_input import DecisionInput

Rule = Callable[[DecisionInput], Actions]
REACHING, STARTING, RUNNING, STOPPING, CLOSING, OVER = Stage

RULES: tuple[tuple[Rule, tuple[Stage, ...]], ...] = (
    (finish.hear_stop, (REACHING, STARTING, RUNNING, STOPPING, CLOSING)),
    (reach.greet, (REACHING, STARTING, RUNNING, STOPPING, CLOSING)),
    (reach.reach, (REACHING, STARTING, RUNNING, STOPPING, CLOSING)),
    (reach.end_left_out, (REACHING, STARTING, RUNNING, STOPPING, CLOSING)),
    (start.upload, (REACHING,)),
    (start.keep_plan, (REACHING, STARTING)),
    (start.give_up, (STARTING,)),
    (start.check_hosts, (REACHING,)),
    (start.prepare, (STARTING,)),
    (start.ask, (STARTING,)),
    (start.run_before, (STARTING,)),
    (start.start, (STARTING,)),
    (start.send_starts, (RUNNING,)),
    (user_requests.leave, (RUNNING,)),
    (finish.notice_failure, (RUNNING,)),
    (finish.stop_failed, (RUNNING,)),
    (finish.stop_late, (REACHING, STARTING, RUNNING)),
    (watchdog.watch, (RUNNING,)),
    (watchdog.try_meeting, (RUNNING,)),
    (watchdog.locate_halted, (RUNNING,)),
    (finish.stop_ranks, (STOPPING, CLOSING)),
    (finish.give_up, (REACHING, STARTING, RUNNING, STOPPING, CLOSING)),
    (finish.end_reaching, (REACHING,)),
    (finish.end_starting, (STARTING,)),
    (finish.end_attempt, (RUNNING, STOPPING)),
    (finish.close, (CLOSING,)),
)
"""Each rule, with the stages in which it may have something to do. In order: what is known of the
hosts, the start, the ranks, the end."""


def decide(inputs: DecisionInput) -> list[Action]:
    """Return what is to be done next, in order; nothing if only time or hosts can change
    anything."""
    launcher = inputs.launcher
    if launcher.detached:
        return []
    # One rule at a time: what it does changes the state that the next one would have judged.
    for rule, stages in RULES:
        rule_actions = list(rule(inputs)) if launcher.stage in stages else []
        if rule_actions:
            return rule_actions
    return []
