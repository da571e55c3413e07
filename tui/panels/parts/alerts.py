"""The lines below the header: what is wrong with the run, until the user has taken note of it."""

from __future__ import annotations

from collections.abc import Sequence

from rich.text import Text
from textual.widgets import Static

from remote.format import count, moment
from remote.run.alerts import Alert, Key, alerts
from remote.run.state import RunPhase, RunState
from tui import palette
from tui.widgets.log_view import plain

LINES = 2
"""Alerts that are shown at once; a key lists all."""


class Alerts(Static):
    """The newest alerts that the user has not acknowledged, one line each."""

    DEFAULT_CSS = """
    Alerts { display: none; height: auto; padding: 0 1; color: $text; background: $warning 25%; }
    Alerts.-live { background: $error 25%; }
    """

    def __init__(self) -> None:
        super().__init__(markup=False)
        self._seen: set[Key] = set()
        self._acknowledged: set[Key] = set()
        self._open: list[Alert] = []
        self._shown: tuple[str, ...] = ()

    def show(self, run: RunState) -> list[Alert]:
        """Copy what is drawn from the run. Returns the alerts that are new."""
        found = alerts(run) if run.phase is not RunPhase.ENDED else []
        self._open = [one for one in found if one.key not in self._acknowledged]
        new = [one for one in found if one.key not in self._seen]
        self._seen.update(one.key for one in new)
        width = self.content_size.width or self.app.size.width - 2
        lines = _lines(self._open, width)
        if lines != self._shown:
            grows = len(lines) != len(self._shown)
            self._shown = lines
            self.display = bool(lines)
            self.set_class(any(not one.over for one in self._open), "-live")
            self.update(Text("\n".join(lines), no_wrap=True, overflow="ellipsis"), layout=grows)
        return [one for one in new if not one.over]

    def acknowledge(self) -> None:
        """Show the present alerts no longer."""
        self._acknowledged.update(one.key for one in self._open)


def _lines(found: Sequence[Alert], width: int) -> tuple[str, ...]:
    """The newest alerts; the last line says how many more there are, and which key hides them."""
    if not found:
        return ()
    newest = found[: -LINES - 1 : -1]
    more = len(found) - len(newest)
    hint = f"{count(more, 'more alert')}  " if more else ""
    hint = f"  ({hint}x hide, ! list)"
    lines = [f"{sign(one)} {plain(one.text)}" for one in newest]
    room = max(0, width - len(hint))
    last = lines[-1] if len(lines[-1]) <= room else f"{lines[-1][: max(0, room - 1)]}…"
    return (*lines[:-1], f"{last:<{room}}{hint}"[:width])


def sign(alert: Alert) -> str:
    """The sign of an alert: whether it is over."""
    return palette.sign("good" if alert.over else "warn")


def in_full(alert: Alert) -> str:
    """An alert with its time, for a list."""
    over = f", over at {moment(alert.over)}" if alert.over else ""
    return f"{sign(alert)} {moment(alert.since)}{over}  {plain(alert.text)}"
