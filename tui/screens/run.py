"""The run screen: every panel over one run, and the keys that move between them."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import ClassVar, Protocol

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Container
from textual.events import Resize
from textual.screen import Screen
from textual.widgets import Footer

from remote.plan.plan import Plan
from remote.run.state import RunPhase, RunState
from training.wire.events import Record
from tui.messages import NewRun
from tui.panels import PANELS
from tui.panels.curves import Curves
from tui.panels.header import Header
from tui.panels.hosts import Hosts
from tui.panels.log import Log
from tui.panels.outcome import Outcome
from tui.panels.panel import Panel
from tui.panels.ranks import Ranks

WIDE = 120
"""Columns from which on all panels are shown at once."""
FLAT = 20
"""Rows beneath which there are no charts."""
LOW = 13
"""Rows beneath which there is only the table of ranks."""


class Session(Protocol):
    """A run to watch, live or replayed."""

    plan: Plan
    state: RunState
    lock: threading.Lock

    def batches(self) -> Iterator[list[Record]]:
        """Records as they come, already applied to `state`; ends with the run. To be iterated by
        one thread."""

    @property
    def detached(self) -> bool:
        """Whether the run was left to its agents."""

    @property
    def cut_off(self) -> bool:
        """Whether that was so since none of them was heard any more."""

    @property
    def keep(self) -> bool:
        """Whether the agents go on with the run when this session is gone."""

    def stop(self, reason: str = ..., *, now: bool = ...) -> None:
        """Ask for the end of the run, `now` without the time that ranks have to end by themselves;
        returns at once."""

    def detach(self) -> None:
        """Leave the run, which goes on; returns at once."""

    def ask_stacks(self) -> None:
        """Have every rank tell where it is; returns at once."""


class RunScreen(Screen[None]):
    """One run. `tick` draws what has changed since the last one."""

    CSS = """
    RunScreen #body { layout: grid; grid-size: 12; grid-rows: 6 3fr 2fr; height: 1fr; }
    RunScreen Ranks { column-span: 8; }
    RunScreen Hosts, RunScreen Curves { column-span: 4; }
    RunScreen #body.-four-charts Curves { column-span: 3; }
    RunScreen Log { column-span: 12; }

    RunScreen.-narrow #body, RunScreen.-flat #body, RunScreen.-low #body { layout: vertical; }
    RunScreen.-narrow .staged { display: none; }
    RunScreen.-narrow .staged.-chosen { display: block; }

    RunScreen.-flat .staged, RunScreen.-flat .staged.-chosen { display: none; }
    RunScreen.-low .staged, RunScreen.-low .staged.-chosen, RunScreen.-low Log { display: none; }
    RunScreen .-maximized { height: 1fr; }
    """
    HORIZONTAL_BREAKPOINTS = [(0, "-narrow"), (WIDE, "-wide")]  # noqa: RUF012
    VERTICAL_BREAKPOINTS = [(0, "-low"), (LOW, "-flat"), (FLAT, "-tall")]  # noqa: RUF012

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("q", "app.quit", "Quit"),
        Binding("question_mark", "app.help", "Help", key_display="?"),
        Binding("n", "new", "New run"),
        Binding("c", "cycle", "Chart"),
        Binding("l", "logarithmic", "Log y"),
        Binding("r", "rank", "Rank"),
        Binding("R", "all_ranks", "All ranks", show=False),
        Binding("f", "follow", "Follow"),
        Binding("z", "zoom", "Zoom"),
        Binding("s", "stacks", "Stacks"),
        Binding("e", "app.screenshot", "Screenshot"),
        Binding("D", "checks", "Doctor", show=False),
        *(
            Binding(str(number), f"panel({number})", f"Panel {number}", show=False)
            for number in range(1, len(PANELS) + 1)
        ),
    ]

    def __init__(self, session: Session) -> None:
        super().__init__()
        self.session = session
        self._chosen_by_hand = False
        self._ended = False

    def compose(self) -> ComposeResult:
        yield Header()
        yield Outcome()
        kinds = [kind for kind in PANELS if kind.suits(self.session.plan)]
        charts = sum(issubclass(kind, Curves) for kind in kinds)
        with Container(id="body", classes="-four-charts" if charts == 4 else ""):
            for number, kind in enumerate(kinds, 1):
                panel = kind()
                panel.number = number
                panel.set_class(isinstance(panel, (Hosts, Curves)), "staged")
                yield panel
        yield Footer(show_command_palette=False)

    def on_mount(self) -> None:
        self.set_class(
            self.app.size.width < WIDE, "-narrow"
        )  # Textual does so only after the first drawing
        self._choose(self.query_one(Hosts))
        self.query_one(Log).query("*").first().focus()
        self.watch(self, "maximized", lambda: self._fit(*self.size), init=False)

    def on_resize(self, event: Resize) -> None:
        self._fit(*event.size)

    def _fit(self, width: int, height: int) -> None:
        """The table of ranks takes what it needs, and at the most two fifths of the screen where
        others are there too."""
        rows = min(len(self.session.plan.slots) + 2, max(4, height * 2 // 5))
        wide = width >= WIDE and height >= FLAT
        self.query_one("#body").styles.grid_rows = f"{rows} 3fr 2fr"
        self.query_one(Ranks).styles.height = (
            "1fr" if wide or height < LOW or self.maximized else rows
        )
        self.call_after_refresh(self.tick)

    def tick(self) -> None:
        """Draw what has changed. The run's lock is held only while the panels copy what they
        draw."""
        with self.app.batch_update(), self.session.lock:
            run = self.session.state
            if (
                run.phase is not RunPhase.STARTING
                and not self._chosen_by_hand
                and self.query_one(Hosts).has_class("-chosen")
            ):
                self._choose(self.query(Curves).first())
            self.query_one(Header).show(run)
            self.query_one(Outcome).show(run)
            for panel in self.query(Panel):
                if self._is_seen(panel):
                    panel.show(run)
            if self.over and not self._ended:
                self._ended = True
                self.refresh_bindings()

    def _is_seen(self, panel: Panel) -> bool:
        return panel.display and self.maximized in (None, panel)

    @property
    def over(self) -> bool:
        """Whether the run has ended."""
        return self.session.state.phase is RunPhase.ENDED

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """A new run only after this one."""
        return self.over if action == "new" else True

    def _choose(self, panel: Panel) -> None:
        """The panel that is shown where there is room for one of the hosts and the charts."""
        for each in self.query(".staged"):
            each.set_class(each is panel, "-chosen")

    def _focus(self, panel: Panel) -> None:
        if self.maximized is not None:
            self.minimize()
        if panel.has_class("staged"):
            self._chosen_by_hand = True
            self._choose(panel)
        self.set_focus(panel.children[0])  # at once: the next key may be for it
        self.tick()

    # Keys

    def action_panel(self, number: int) -> None:
        for panel in self.query(Panel):
            if panel.number == number:
                self._focus(panel)

    def action_cycle(self) -> None:
        staged = list(self.query(".staged").results(Panel))
        chosen = next(index for index, panel in enumerate(staged) if panel.has_class("-chosen"))
        self._focus(staged[(chosen + 1) % len(staged)])

    def action_logarithmic(self) -> None:
        for panel in self.query(Curves):
            panel.toggle_log()
        self.tick()

    def action_rank(self) -> None:
        self.query_one(Log).cycle_rank()

    def action_all_ranks(self) -> None:
        self.query_one(Log).all_ranks()

    def action_follow(self) -> None:
        self.query_one(Log).toggle_follow()

    def action_zoom(self) -> None:
        if self.maximized is not None:
            self.minimize()
        elif self.focused is not None:
            panel = next((node for node in self.focused.ancestors if isinstance(node, Panel)), None)
            if panel is not None:
                self.maximize(panel)
        self.tick()

    def action_checks(self) -> None:
        from tui.screens.doctor import DoctorScreen  # which needs this module

        self.app.push_screen(DoctorScreen(self.session))

    def action_stacks(self) -> None:
        from tui.screens.stacks import StacksScreen  # which needs this module

        self.app.push_screen(StacksScreen(self.session))

    def action_new(self) -> None:
        self.post_message(NewRun())
