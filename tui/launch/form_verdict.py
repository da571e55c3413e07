"""What the launch form comes to, as a verdict: the run that would start, or what is in its way."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from remote.doctor.host_facts import OK, WARNING
from remote.format import count, listed
from remote.plan.plan import Plan
from remote.run.run_state import RunState
from remote.run.state.phases import RunPhase
from remote.transport.registry import is_here
from tui.doctor.check_verdict import CheckVerdict, judge_checks
from tui.doctor.screen import SEVERITIES
from tui.kit.widgets.verdict_strip import NextKey, Severity
from tui.launch.draft import CheckedDraft

FindKey = Callable[[str], str]
"""Returns the key of an action by its name."""


class FormVerdict(NamedTuple):
    """What stands in the strip above the form: the arguments of `VerdictStrip.show`."""

    severity: Severity
    title: str
    reasons: tuple[str, ...] = ()
    next_keys: tuple[NextKey, ...] = ()


def describe_start(plan: Plan) -> str:
    """Say what a plan starts: "4 ranks on this machine train lenet5 on digits with ddp, …"."""
    is_single = len(plan.hosts) == 1
    host_name = "this machine" if is_here(plan.hosts) else plan.hosts[0].name
    place = host_name if is_single else count(len(plan.hosts), "host")
    ranks = f"{count(plan.world_size, 'rank')} on {place}"
    ending = "s" if plan.world_size == 1 else ""
    job = plan.job
    if job is None:
        return f"{ranks} run{ending} {plan.what}"
    length = count(job.steps, "step") if job.steps else count(job.epochs or 1, "epoch")
    return f"{ranks} train{ending} {job.model} on {job.dataset} with {job.sync}, {length}"


def judge_form(
    checked: CheckedDraft, error: str, state: RunState | None, find_key: FindKey
) -> FormVerdict:
    """Return the verdict on a form.

    `error` is why a start failed; `state` is that of the checks of this work, if there are any.
    """
    if checked.mistakes:
        return _judge_mistakes(checked, find_key)
    if error or checked.ready is None:
        return FormVerdict(Severity.BAD, error, (), (NextKey(find_key("start"), "try again"),))
    plan = checked.ready.plan
    sentence = describe_start(plan)
    copy = NextKey(find_key("copy-command"), "copy command")
    start = NextKey(find_key("start"), "start")
    host_names = [host.name for host in plan.hosts]
    verdict = judge_checks(state, host_names) if state else None
    if state and verdict and verdict.outcome != OK:
        return _judge_findings(verdict, sentence, find_key)
    if state and state.phase is not RunPhase.ENDED:
        title = (
            f"checking {count(len(state.hosts), 'host')}: {len(state.checks)} checks passed so far"
        )
        start = NextKey(find_key("start"), "start without waiting")
        return FormVerdict(Severity.NEUTRAL, title, (sentence,), (start,))
    reasons = (verdict.title,) if verdict else ()
    next_keys = [start, NextKey(find_key("edit"), "change a setting")]
    if verdict is None and not is_here(plan.hosts):
        next_keys.append(NextKey(find_key("check"), "check hosts"))
    next_keys.append(copy)
    return FormVerdict(Severity.GOOD, f"ready: {sentence}", reasons, tuple(next_keys))


def _judge_mistakes(checked: CheckedDraft, find_key: FindKey) -> FormVerdict:
    """Return the first mistake, and which other fields have some."""
    first, *others = checked.mistakes
    reasons = []
    if others:
        labels = listed([mistake.label for mistake in others if mistake.label])
        about = f": {labels}" if labels else ""
        reasons.append(f"and {count(len(others), 'more mistake')}{about}")
    next_keys = (
        NextKey(find_key("start"), "go to it"),
        NextKey(find_key("reset"), "then takes its default"),
    )
    return FormVerdict(Severity.BAD, first.text, tuple(reasons), next_keys if first.field else ())


def _judge_findings(verdict: CheckVerdict, sentence: str, find_key: FindKey) -> FormVerdict:
    """Return the worst that the checks have found, and what helps."""
    next_keys = []
    if verdict.weak_hosts:
        text = f"leave {listed(verdict.weak_hosts)} out"
        next_keys.append(NextKey(find_key("leave-host-out"), text))
    reasons = [verdict.needed_advice] if verdict.needed_advice else []
    if verdict.others:
        reasons.append(f"and {count(verdict.others, 'more finding')}")
    if verdict.outcome == WARNING:
        reasons.append(f"ready nevertheless: {sentence}")
        next_keys.append(NextKey(find_key("start"), "start anyway"))
    next_keys.append(NextKey(find_key("checks"), "all checks"))
    return FormVerdict(SEVERITIES[verdict.outcome], verdict.title, tuple(reasons), tuple(next_keys))
