"""What is wrong with a run that trains, the worst first, until the user has taken note of it."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from itertools import islice

from textual.content import Content

from remote.doctor.wording import LOAD
from remote.format import clock, count, duration, moment
from remote.run.findings.alerts import Alarm, Alert, Key, find_alerts, sort_by_urgency
from remote.run.findings.start_progress import is_starting
from remote.run.run_state import RunState
from remote.run.state.advice import Remedy
from remote.run.state.phases import RunPhase
from remote.sanitise import plain
from tui.kit import palette
from tui.kit.inks import MUTED
from tui.kit.widgets.verdict_strip import NextKey, Severity
from tui.run.components.advice_text import describe_advice
from tui.run.components.check_warning import CheckWarning, list_warnings, read_warning
from tui.run.end_verdict import list_failure_reasons
from tui.run.learning_verdict import make_stop_key
from tui.run.run_verdict import RunVerdict, VerdictKeys, find_advised_key, make_hide_key

MAX_OTHERS = 1
"""Alerts that are named below the most important one."""
STOPPING = (Alarm.STALL, Alarm.DIVERGED)
"""What a run is seldom worth going on with."""
NOTICE_SECONDS = 300.0
"""Seconds of a run for which it is said what else its hosts are busy with."""
PAST_SECONDS = 300.0
"""Seconds for which what is over is told; the list of alerts keeps it."""
TITLE_WORDS = {Alarm.STALL: "stalled", Alarm.STRAGGLER: "slow"}
"""What the title of an alert with reasons begins with."""


def judge_live_run(
    run: RunState,
    alerts: Sequence[Alert],
    keys: VerdictKeys,
    now: float,
    notice: CheckWarning | None = None,
) -> RunVerdict:
    """Return what is wrong with a run that has not ended. `alerts`, and a `notice` where there are
    none, are those that the user has not hidden."""
    if run.cause:  # others get a moment for their last words
        reasons = tuple(list_failure_reasons(run, run.cause))
        first_error = NextKey(keys.first_error, "first error")
        return RunVerdict(
            Severity.BAD, f"failing: {run.cause.culprit_text}", reasons, (first_error,)
        )
    if not alerts and notice:
        next_keys = [make_hide_key(keys)]
        if notice.advice:
            next_keys.insert(0, find_advised_key(run, notice.advice, keys))
        return RunVerdict(
            Severity.WARN, notice.title, notice.reasons, tuple(next_keys), notice.advice
        )
    if not alerts:
        return RunVerdict()
    worst_alert, *others = sort_by_urgency(alerts)
    if worst_alert.over:
        newest_end = max(alert.over for alert in alerts)
        if now - newest_end > PAST_SECONDS:
            return RunVerdict()
        return RunVerdict(title=_describe_past(worst_alert), is_past=True)
    other_lines = [
        Content.styled(f"also: {_make_title(other, now)}", MUTED)
        for other in islice((other for other in others if not other.over), MAX_OTHERS)
    ]
    num_hidden = len(others) - len(other_lines)
    return RunVerdict(
        _grade(worst_alert),
        _make_title(worst_alert, now, is_past=run.is_held),
        (*worst_alert.reasons, *other_lines),
        _list_keys(run, worst_alert, num_hidden, keys),
        worst_alert.advice,
    )


def _grade(alert: Alert) -> Severity:
    # Nothing happens until somebody acts.
    return Severity.BAD if alert.alarm is Alarm.STALL else Severity.WARN


def _make_title(alert: Alert, now: float, *, is_past: bool = False) -> str:
    title = alert.title or alert.text
    word = TITLE_WORDS.get(alert.alarm)
    if word is None:
        return title
    if is_past and alert.alarm is Alarm.STRAGGLER:
        word = f"was {word} here"
    age_text = f" for {duration(max(0.0, now - alert.since))}" if alert.alarm is Alarm.STALL else ""
    return f"{word}{age_text}: {title}"


def _describe_past(alert: Alert) -> str:
    """Say what was wrong, and since when it no longer is."""
    over = clock(alert.over)
    match alert.alarm:
        case Alarm.STRAGGLER:
            lasted = duration(alert.over - alert.since)
            return f"rank {alert.subject} was slow for {lasted}, recovered at {over}"
        case Alarm.STALL:
            return f"stalled from {clock(alert.since)} to {over}: {alert.title or alert.text}"
        case Alarm.RESTART:
            return f"{alert.text}, at {over}"
    return f"{alert.text}, until {over}"


def _list_keys(
    run: RunState, alert: Alert, num_hidden: int, keys: VerdictKeys
) -> tuple[NextKey, ...]:
    next_keys = []
    if alert.advice:
        next_keys.append(find_advised_key(run, alert.advice, keys))
        # What helps the next run leaves this one slow.
        if alert.advice.remedy is Remedy.EXCLUDE_HOST and not run.is_held:
            next_keys.append(make_stop_key(run, keys))
        if alert.advice.remedy is not Remedy.SHOW_STACKS:
            next_keys.append(NextKey(keys.stacks, "stacks"))
    if alert.alarm in STOPPING and not run.is_held:
        next_keys.append(make_stop_key(run, keys))
    next_keys.append(make_hide_key(keys))
    if num_hidden:
        next_keys.append(NextKey(keys.alerts, f"list {count(num_hidden, 'more alert')}"))
    return tuple(next_keys)


def find_load_notice(run: RunState) -> CheckWarning | None:
    """Return what else keeps the hosts of a user's own program busy, once it has started; None if
    nothing is known. It was found before the start, so it may not hold any more after a while."""
    is_over = run.phase is RunPhase.ENDED or run.elapsed > NOTICE_SECONDS
    # While it starts, it stands with the hosts.
    if run.plan.job or is_over or is_starting(run):
        return None
    load_checks = [check for check in list_warnings(run) if check.check == LOAD]
    return read_warning(run, load_checks[0]) if load_checks else None


def list_open_alerts(run: RunState, hidden: Collection[Key]) -> list[Alert]:
    """Return the alerts of a run that trains, without those that the user has hidden."""
    if run.phase is RunPhase.ENDED:
        return []
    return [_as_shown(alert, run) for alert in find_alerts(run) if alert.key not in hidden]


def _as_shown(alert: Alert, run: RunState) -> Alert:
    """Return an alert as over, where it names a rank that the table beside it shows to be as fast
    as the others: it takes some checks until such a rank is cleared."""
    is_open_straggler = alert.alarm is Alarm.STRAGGLER and not alert.over
    if is_open_straggler and run.stragglers.current(alert.subject) is None:
        return replace(alert, over=run.now)
    return alert


# The list of all ----------------------------------------------------------------------------------


def list_alerts(run: RunState, stacks_key: str) -> str:
    """Return what a run failed of, then all alerts, the oldest first, each with its time and with
    what helps, in lines. `stacks_key` shows the stacks."""
    alert_texts = []
    for alert in find_alerts(run):
        alert_texts.append(_full_text(alert))
        if alert.advice and run.phase is not RunPhase.ENDED:
            alert_texts.append(f"  {plain(describe_advice(run, alert.advice, stacks_key))}")
    if run.cause is not None:
        alert_texts.insert(0, f"{palette.sign('bad')} cause: {plain(run.cause.text())}")
    return "\n".join(alert_texts) or "There are none."


def _full_text(alert: Alert) -> str:
    """Return an alert with the time since when it holds, or from when to when it held.

    The figures in its text may be newer.
    """
    since = moment(alert.since, exact=True)
    time_text = f"{since} to {clock(alert.over)}" if alert.over else f"since {since}"
    sign = palette.sign("good" if alert.over else "slow")
    return f"{sign} {time_text}  {plain(alert.text)}"
