"""The run screen: every panel over one run, and the keys that move between them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Container
from textual.events import Resize
from textual.screen import Screen

from remote.run.alerts import Alert, alerts
from remote.run.state import RunPhase
from tui.actions import Place, bindings, panel_action
from tui.messages import NewRun, ShowChecks, ShowStacks
from tui.panels import PANELS
from tui.panels.parts import desktop
from tui.panels.parts.alerts import Alerts, in_full
from tui.panels.parts.grid import spans
from tui.panels.parts.header import Header
from tui.panels.parts.outcome import Outcome
from tui.panels.parts.panel import Panel, ScreenRow
from tui.screens.dialogs import TextDialog
from tui.view import Session
from tui.widgets.keys import Keys
from tui.widgets.log_view import plain

WIDE = 120
"""Columns from which on all panels are shown at once."""
FLAT = 20
"""Rows below which the staged panels are hidden."""
LOW = 13
"""Rows below which the bottom row is hidden, too."""


class RunScreen(Screen[None]):
    """One run. `tick` draws what has changed since the last one. `inside`: over another screen, to
    which one goes back."""

    CSS = """
    RunScreen #body { layout: grid; height: 1fr; }

    RunScreen.-narrow #body, RunScreen.-flat #body, RunScreen.-low #body { layout: vertical; }
    RunScreen.-narrow .staged { display: none; }
    RunScreen.-narrow .staged.-chosen { display: block; }

    RunScreen.-flat .staged, RunScreen.-flat .staged.-chosen { display: none; }
    RunScreen.-low .staged, RunScreen.-low .staged.-chosen { display: none; }
    RunScreen.-low .bottom { display: none; }
    RunScreen .-maximized { height: 1fr; }
    """
    HORIZONTAL_BREAKPOINTS = [(0, "-narrow"), (WIDE, "-wide")]  # noqa: RUF012
    VERTICAL_BREAKPOINTS = [(0, "-low"), (LOW, "-flat"), (FLAT, "-tall")]  # noqa: RUF012

    place = Place.RUN
    BINDINGS: ClassVar[list[BindingType]] = bindings(place)

    def __init__(self, session: Session, *, inside: bool = False) -> None:
        super().__init__()
        self.session = session
        self._inside = inside
        self._kinds = [kind for kind in PANELS if kind.suits(session.plan)]
        self._chosen_by_hand = False
        self._ended = self._watched = False

    def compose(self) -> ComposeResult:
        yield Header()
        yield Alerts()
        yield Outcome()
        columns, widths = spans(self._kinds)
        with Container(id="body") as body:
            body.styles.grid_size_columns = columns
            for number, (kind, width) in enumerate(zip(self._kinds, widths, strict=True), 1):
                panel = kind()
                panel.number = number
                panel.styles.column_span = width
                panel.set_class(kind.staged, "staged")
                panel.set_class(kind.row is ScreenRow.BOTTOM, "bottom")
                yield panel
        yield Keys()

    def on_mount(self) -> None:
        # Textual sets this class only after the first drawing
        self.set_class(self.app.size.width < WIDE, "-narrow")
        self._choose(next(self._staged()))
        self.query(Panel).last().query("*").first().focus()
        self.watch(self, "maximized", self._zoomed, init=False)

    def _staged(self) -> Iterator[Panel]:
        return (panel for panel in self.query(Panel) if panel.staged)

    def _zoomed(self) -> None:
        self._fit(*self.size)
        self.refresh_bindings()

    def on_resize(self, event: Resize) -> None:
        self._fit(*event.size)

    def _fit(self, width: int, height: int) -> None:
        """Give the top row what it needs, at most two fifths of the screen beside other rows."""
        plan = self.session.plan
        needed = max(kind.lines(plan) for kind in self._kinds)
        rows = min(needed, max(4, height * 2 // 5))
        present = dict.fromkeys(kind.row for kind in self._kinds)
        self.query_one("#body").styles.grid_rows = " ".join(
            row.value or str(rows) for row in present
        )
        whole = (width >= WIDE and height >= FLAT) or height < LOW or self.maximized
        for panel in self.query(Panel):
            if panel.lines(plan):
                panel.styles.height = "1fr" if whole else rows
        self.call_after_refresh(self.tick)

    def tick(self) -> None:
        """Draw what has changed. The run's lock is held only while the panels copy from it."""
        with self.app.batch_update(), self.session.lock:
            run = self.session.state
            if run.phase is not RunPhase.STARTING:
                self._show_chart()
            self.query_one(Header).show(run)
            self._warn(self.query_one(Alerts).show(run))
            self.query_one(Outcome).show(run)
            for panel in self.query(Panel):
                if self._is_seen(panel):
                    panel.show(run)
            if self.over and not self._ended:
                self._ended = True
                self.refresh_bindings()

    def _warn(self, new: Sequence[Alert]) -> None:
        """Ring the bell and show a note, also of the desktop, once for each alert that comes while
        one watches."""
        for alert in new if self._watched else ():
            self.app.bell()
            desktop.note(self.app, alert.text)
            self.notify(plain(alert.text), severity="warning", markup=False)
        self._watched = True

    def _show_chart(self) -> None:
        """Replace the panel of the start by a chart, unless the user has chosen a panel."""
        first = next(self._staged())
        if not self._chosen_by_hand and first.has_class("-chosen"):
            self._choose(next(panel for panel in self._staged() if panel.row is ScreenRow.MIDDLE))

    def _is_seen(self, panel: Panel) -> bool:
        return panel.display and self.maximized in (None, panel)

    @property
    def over(self) -> bool:
        """Whether the run has ended."""
        return self.session.state.phase is RunPhase.ENDED

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Allow a new run only after this one, and the way back only where there is one."""
        allowed = {
            "new": self.over and not self._inside,
            "back": self._inside or self.maximized is not None,
        }
        return allowed.get(action, True)

    def _choose(self, panel: Panel) -> None:
        """Choose the staged panel that a narrow screen shows."""
        for each in self._staged():
            each.set_class(each is panel, "-chosen")

    def _focus(self, panel: Panel) -> None:
        if self.maximized is not None:
            self.minimize()
        if panel.staged:
            self._chosen_by_hand = True
            self._choose(panel)
        self.set_focus(panel.children[0])  # at once: the next key may be for it
        self.tick()

    # Keys

    def action_panel(self, number: int) -> None:
        for panel in self.query(Panel):
            if panel.number == number:
                self._focus(panel)

    async def action_elsewhere(self, name: str) -> None:
        """Go to the first panel that has this action, and do it there."""
        place, action = panel_action(name)
        panel = next((panel for panel in self._in_order() if panel.place is place), None)
        if panel is not None:
            self._focus(panel)
            await self.app.run_action(action.call, panel)
            self.tick()

    def _in_order(self) -> list[Panel]:
        """All panels, those first that are on the screen."""
        return sorted(self.query(Panel), key=lambda panel: not self._is_seen(panel))

    def action_cycle(self) -> None:
        staged = list(self._staged())
        chosen = next(index for index, panel in enumerate(staged) if panel.has_class("-chosen"))
        self._focus(staged[(chosen + 1) % len(staged)])

    def action_zoom(self) -> None:
        if self.maximized is not None:
            self.minimize()
        elif self.focused is not None:
            panel = next((node for node in self.focused.ancestors if isinstance(node, Panel)), None)
            if panel is not None:
                self.maximize(panel)
        self.tick()

    def action_back(self) -> None:
        """Leave the zoom; without one, the screen."""
        if self.maximized is not None:
            self.action_zoom()
        else:
            self.dismiss()

    def action_acknowledge(self) -> None:
        self.query_one(Alerts).acknowledge()
        self.tick()

    def action_alerts(self) -> None:
        with self.session.lock:
            found = [in_full(alert) for alert in alerts(self.session.state)]
        self.app.push_screen(TextDialog("alerts", "\n".join(found) or "There are none."))

    def action_checks(self) -> None:
        self.post_message(ShowChecks())

    def action_stacks(self) -> None:
        self.post_message(ShowStacks())

    def action_new(self) -> None:
        self.post_message(NewRun())
