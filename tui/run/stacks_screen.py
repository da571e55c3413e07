"""Where every rank is: the newest stacks, over the screen of a run."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import VerticalScroll
from textual.content import Content
from textual.events import Resize
from textual.screen import Screen
from textual.widgets import Static

from remote.run.run_state import RunState
from remote.run.state.phases import RunPhase
from remote.run.state.rank_state import RankState
from remote.sanitise import plain
from tui.kit.actions import KeyPlace
from tui.kit.bindings import bindings
from tui.kit.run_session import LiveScreen, RunSession
from tui.kit.session_clock import SessionClock
from tui.kit.widgets.keys import KeyFooter
from tui.run.components.stack_text import (
    group_by_stack,
    stack_lines,
    stack_source,
    stack_steps,
    whereabouts_line,
)


class StacksScreen(LiveScreen, Screen[None]):
    """Asks for the stacks, and shows the newest: a line for ranks that are in the same calls, then
    the calls."""

    CSS = """
    StacksScreen #title { height: 1; padding: 0 1; background: $panel; text-style: bold; }
    StacksScreen #stall { height: auto; max-height: 4; padding: 0 1; display: none; }
    StacksScreen #stall { border-left: outer $error; background: $error 12%; }
    StacksScreen VerticalScroll { height: 1fr; padding: 0 1; scrollbar-size-vertical: 1; }
    """
    place = KeyPlace.STACKS
    BINDINGS: ClassVar[list[BindingType]] = bindings(place)

    def __init__(self, session: RunSession, *, can_ask: bool = True) -> None:
        """`can_ask`: the ranks can be asked; else only what is recorded is shown."""
        super().__init__()
        self._session = session
        self._asks = can_ask
        self._clock = SessionClock()
        self._rank: int | None = None
        self._shows_libraries = False
        self._seen: tuple[object, ...] = ()

    def compose(self) -> ComposeResult:
        yield Static(id="title")
        yield Static(id="stall", markup=False)
        with VerticalScroll():
            yield Static(id="stacks")
        yield KeyFooter()

    def on_mount(self) -> None:
        self.query_one(VerticalScroll).focus()
        self.action_ask()
        self.tick()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Ask only ranks that can be asked."""
        return action != "ask" or self._asks

    def on_resize(self, event: Resize) -> None:
        self.call_after_refresh(self.tick)

    def tick(self) -> None:
        """Draw what has arrived, if it has changed. The run's lock is held only while this copies
        from it."""
        width = self.query_one(VerticalScroll).size.width - 2
        with self._session.lock:
            run = self._session.state
            now = self._clock.now(run)
            ranks = [rank for rank in run.ranks if self._rank in (None, rank.rank)]
            stall_text = plain(run.stall.text) if run.stall else ""
            title_text = self._title(run, ranks)
            stack_sources = [
                (rank.exit, rank.stack, stack_source(run, rank, now)) for rank in ranks
            ]
            shows_libraries = self._shows_libraries
            drawn_inputs = (width, stall_text, title_text, shows_libraries, *stack_sources)
            # Parsing the stacks of many ranks takes longer than a tick.
            if drawn_inputs == self._seen:
                return
            self._seen = drawn_inputs
            stack_text = Content("\n").join(
                _stack_lines(run, ranks, now, width, shows_libraries=shows_libraries)
            )
        self.query_one("#title", Static).update(Content(title_text))
        self.query_one("#stall", Static).update(Content(stall_text))
        self.query_one("#stall").display = bool(stall_text)
        self.query_one("#stacks", Static).update(stack_text)

    def _title(self, run: RunState, ranks: list[RankState]) -> str:
        rank_text = "all ranks" if self._rank is None else f"rank {self._rank}"
        if run.phase is not RunPhase.ENDED:
            return f"stacks of {rank_text}, newest call first"
        return f"run has ended; {stack_steps(ranks) or 'no stacks'}, {rank_text}"

    def action_back(self) -> None:
        self.dismiss()

    def action_ask(self) -> None:
        """Ask all ranks again; the stacks stay until new ones arrive."""
        if self._asks and self._session.state.phase is not RunPhase.ENDED:
            self._session.ask_stacks()

    def action_libraries(self) -> None:
        """Show the calls of libraries, or fold them."""
        self._shows_libraries = not self._shows_libraries
        self.tick()

    def action_rank(self, step: int) -> None:
        """Show the next rank, or all."""
        rank_choices = [None, *range(len(self._session.state.ranks))]
        # A restart may have left the rank out.
        current_place = rank_choices.index(self._rank) if self._rank in rank_choices else 0
        self._rank = rank_choices[(current_place + 1) % len(rank_choices)] if step else None
        self.query_one(VerticalScroll).scroll_home(animate=False)
        self.tick()


def _stack_lines(
    run: RunState, ranks: list[RankState], now: float, width: int, *, shows_libraries: bool
) -> Iterator[Content]:
    """A line for the ranks of each stack, and then the stacks; of an ended run only those that
    were asked."""
    if run.phase is RunPhase.ENDED:
        asked_ranks = [rank for rank in ranks if rank.stack]
        if not asked_ranks:
            yield Content("The run has ended, and has no stacks: nobody asked for them.")
            return
        ranks = asked_ranks
    groups = group_by_stack(ranks)
    for group in groups:
        yield whereabouts_line(run, group)
    for group in groups:
        yield Content("")
        yield from stack_lines(run, group, now, width, shows_libraries=shows_libraries)
