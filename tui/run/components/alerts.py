"""The lines below the header: what is wrong with the run, until the user has taken note of it."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence

from rich.text import Text
from textual.widgets import Static

from remote.format import clock, count, moment
from remote.run.findings.alerts import Alarm, Alert, Key, find_alerts, sort_by_urgency
from remote.run.run_state import RunState
from remote.run.state.phases import RunPhase
from remote.sanitise import plain
from tui.kit import palette
from tui.kit.bindings import key_of
from tui.run.components.advice_text import describe_advice

MAX_LINES = 2
"""Lines of alerts that are shown at once; a key lists all."""
MIN_WIDTH = 40
"""Columns that a line takes at least."""


class AlertLines(Static):
    """The most important alerts that the user has not acknowledged."""

    DEFAULT_CSS = """
    AlertLines { display: none; padding: 0 1; color: $text; background: $warning 25%; }
    AlertLines.-live { background: $error 25%; }
    """

    def __init__(self) -> None:
        super().__init__(markup=False)
        self._seen: set[Key] = set()
        self._acknowledged: set[Key] = set()
        self._open: list[Alert] = []
        self._shown: tuple[str, ...] = ()

    def show(self, run: RunState) -> list[Alert]:
        """Copy what is drawn from the run. Returns the alerts that are new."""
        alerts = find_alerts(run) if run.phase is not RunPhase.ENDED else []
        self._open = [
            alert
            for alert in alerts
            if alert.key not in self._acknowledged
            if alert.over or alert.alarm is not Alarm.STALL  # the header says that, too
        ]
        # An alert that is over before anybody saw it is listed, but rings no bell.
        new_alerts = [alert for alert in alerts if alert.key not in self._seen and not alert.over]
        self._seen.update(alert.key for alert in alerts)
        # While hidden, the widget has no width: then that of the screen, without the padding.
        width = self.content_size.width or self.app.size.width - 2
        keys_hint = f"{key_of(self.app, 'hide-alerts')} hide, {key_of(self.app, 'alerts')} list"
        alerts_by_urgency = sort_by_urgency(self._open)
        stacks_key = key_of(self.app, "stacks")
        alert_lines = _alert_lines(alerts_by_urgency, width, keys_hint, stacks_key)
        if alert_lines != self._shown:
            self._shown = alert_lines
            self.display = bool(alert_lines)
            self.styles.height = len(alert_lines)  # see `RunHeader.show`
            self.set_class(not all(alert.over for alert in self._open), "-live")
            text = Text("\n".join(alert_lines), no_wrap=True, overflow="ellipsis")
            if alerts_by_urgency and alerts_by_urgency[0].advice:
                text.stylize("bold", len(alert_lines[0]))
            self.update(text, layout=False)
        return new_alerts

    def acknowledge(self) -> None:
        """Show the present alerts no longer."""
        self._acknowledged.update(alert.key for alert in self._open)


def _alert_lines(
    alerts: Sequence[Alert], width: int, keys: str, stacks_key: str
) -> tuple[str, ...]:
    """The first of the alerts, as much of them as there is room for. The last line says how many
    more there are, and `keys`: which ones hide and list them."""
    if not alerts:
        return ()
    line_width = max(width, MIN_WIDTH)
    if alerts[0].advice:
        hidden_text = f"{count(len(alerts) - 1, 'more alert')}  " if len(alerts) > 1 else ""
        advice_text = describe_advice(alerts[0].advice, stacks_key)
        return _advised_alert(alerts[0], advice_text, f"  ({hidden_text}{keys})", line_width)
    shown_lines: list[str] = []
    num_hidden = len(alerts)
    for alert in alerts:
        folded_lines = _fold_alert(alert, line_width)
        if shown_lines and len(shown_lines) + len(folded_lines) > MAX_LINES:
            break
        shown_lines += folded_lines
        num_hidden -= 1
    hidden_text = f"{count(num_hidden, 'more alert')}  " if num_hidden else ""
    keys_hint = f"  ({hidden_text}{keys})"
    room_beside = line_width - len(keys_hint)
    has_room_below = len(shown_lines) < MAX_LINES
    # Folded anew, narrower, so that the end of the alert is seen, too.
    if has_room_below and len(shown_lines[-1]) > room_beside:
        shown_lines = _fold_alert(alerts[0], room_beside)
    *lines_above, last_line = shown_lines[:MAX_LINES]
    if len(shown_lines) > MAX_LINES or len(last_line) > room_beside:
        last_line = f"{last_line[: max(0, room_beside - 1)]}…"
    return (*lines_above, f"{last_line:<{room_beside}}{keys_hint}"[:line_width])


def _advised_alert(alert: Alert, advice: str, keys_hint: str, width: int) -> tuple[str, ...]:
    """The alert in a line, in its brief words if the others do not fit, and what helps below."""
    texts = [f"{alert_sign(alert)} {plain(text)}" for text in (alert.text, alert.brief) if text]
    text = next((text for text in texts if len(text) <= width), texts[-1])
    room_beside = width - len(keys_hint)
    advice = f"  {plain(advice)}"
    # What helps is more than which key hides it.
    if len(advice) > room_beside:
        keys_hint, room_beside = "", width
    return _cut(text, width), f"{_cut(advice, room_beside):<{room_beside}}{keys_hint}"


def _cut(text: str, room: int) -> str:
    return text if len(text) <= room else f"{text[: room - 1]}…"


def _fold_alert(alert: Alert, room: int) -> list[str]:
    over_text = "over: " if alert.over else ""
    alert_text = f"{alert_sign(alert)} {over_text}{plain(alert.text)}"
    return textwrap.wrap(alert_text, room, subsequent_indent="  ")


def alert_sign(alert: Alert) -> str:
    """The sign of an alert: whether it is over."""
    return palette.sign("good" if alert.over else "warn")


def list_alerts(run: RunState, stacks_key: str) -> str:
    """What a run failed of, then all alerts, the oldest first, each with its time and with what
    helps. `stacks_key` shows the stacks."""
    alert_texts = []
    for alert in find_alerts(run):
        alert_texts.append(_full_text(alert))
        if alert.advice and run.phase is not RunPhase.ENDED:
            alert_texts.append(f"  {plain(describe_advice(alert.advice, stacks_key))}")
    if run.cause is not None:
        alert_texts.insert(0, f"{palette.sign('bad')} cause: {plain(run.cause.text())}")
    return "\n".join(alert_texts) or "There are none."


def _full_text(alert: Alert) -> str:
    """Return an alert with the time since when it holds, or from when to when it held.

    The figures in its text may be newer.
    """
    since = moment(alert.since, exact=True)
    time_text = f"{since} to {clock(alert.over)}" if alert.over else f"since {since}"
    return f"{alert_sign(alert)} {time_text}  {plain(alert.text)}"
