"""Where every rank is: the newest stacks, over the screen of a run."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import VerticalScroll
from textual.content import Content
from textual.events import Resize
from textual.screen import Screen
from textual.widgets import Static

from remote.format import duration
from remote.run.stacks import Frame, Presence, calls, threads, whereabouts
from remote.run.state import RankState, RunPhase, RunState
from tui.actions import Place, bindings
from tui.session_clock import SessionClock
from tui.view import Session
from tui.widgets.keys import Keys
from tui.widgets.log_view import plain

STYLES = {
    Presence.INSIDE: "$text-success",
    Presence.ELSEWHERE: "bold $text-warning",
    Presence.STOPPED: "bold $text-error",
    Presence.UNKNOWN: "$text-muted",
}
WIDE = 120
"""Columns from which on a line of code stands beside its call."""
TICK = 0.2
"""Seconds between two looks at what has arrived."""


class StacksScreen(Screen[None]):
    """Asks for the stacks, and shows the newest of each rank: a line per rank, then the calls."""

    CSS = """
    StacksScreen #title { height: 1; padding: 0 1; background: $panel; text-style: bold; }
    StacksScreen #stall { height: auto; max-height: 4; padding: 0 1; display: none; }
    StacksScreen #stall { border-left: outer $error; background: $error 12%; }
    StacksScreen VerticalScroll { height: 1fr; padding: 0 1; scrollbar-size-vertical: 1; }
    """
    place = Place.STACKS
    BINDINGS: ClassVar[list[BindingType]] = bindings(place)

    def __init__(self, session: Session, *, asks: bool = True) -> None:
        """`asks`: the ranks can be asked; else only what is recorded is shown."""
        super().__init__()
        self._session, self._asks = session, asks
        self._clock = SessionClock()
        self._rank: int | None = None
        self._shown = ""

    def compose(self) -> ComposeResult:
        yield Static(id="title")
        yield Static(id="stall", markup=False)
        with VerticalScroll():
            yield Static(id="stacks")
        yield Keys()

    def on_mount(self) -> None:
        self.query_one(VerticalScroll).focus()
        self.action_ask()
        self.tick()
        self.set_interval(TICK, self.tick)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Ask only ranks that can be asked."""
        return action != "ask" or self._asks

    def on_resize(self, event: Resize) -> None:
        self.call_after_refresh(self.tick)

    def tick(self) -> None:
        """Draw what has arrived, if it has changed."""
        with self._session.lock:
            run = self._session.state
            now = self._clock.now(run)
            ranks = [rank for rank in run.ranks if self._rank in (None, rank.rank)]
            told = Content("\n").join(
                _stacks(run, ranks, now, self.query_one(VerticalScroll).size.width - 2)
            )
            stall = plain(run.stall.text) if run.stall else ""
        if (shown := f"{told.plain}{stall}{self._rank}") != self._shown:
            self._shown = shown
            who = "all ranks" if self._rank is None else f"rank {self._rank}"
            self.query_one("#title", Static).update(Content(f"stacks of {who}, newest call first"))
            self.query_one("#stall", Static).update(Content(stall))
            self.query_one("#stall").display = bool(stall)
            self.query_one("#stacks", Static).update(told)

    def action_back(self) -> None:
        self.dismiss()

    def action_ask(self) -> None:
        """Ask all ranks again; the stacks stay until new ones arrive."""
        if self._asks and self._session.state.phase is not RunPhase.ENDED:
            self._session.ask_stacks()

    def action_rank(self, step: int) -> None:
        """Show the next rank, or all."""
        order = [None, *range(len(self._session.state.ranks))]
        here = order.index(self._rank) if self._rank in order else 0
        self._rank = order[(here + 1) % len(order)] if step else None
        self.query_one(VerticalScroll).scroll_home(animate=False)
        self.tick()


def _stacks(run: RunState, ranks: list[RankState], now: float, width: int) -> Iterator[Content]:
    """A line for each rank, and then each rank's stack."""
    for rank in ranks:
        yield _summary(run, rank)
    for rank in ranks:
        yield Content("")
        yield Content.styled(f"{_name(run, rank)}{_told(rank, now)}", "bold")
        if rank.stack:
            yield from _stack(rank.stack.text, width)


def _name(run: RunState, rank: RankState) -> str:
    return f"rank {rank.rank} on {plain(run.host_name(rank.host))}"


def _told(rank: RankState, now: float) -> str:
    if rank.stack is None:
        return ": no stack yet"
    return f": from {rank.stack.source}, {duration(max(0.0, now - rank.stack_time))} ago"


def _summary(run: RunState, rank: RankState) -> Content:
    if rank.stack is None:
        return Content(f"{_name(run, rank)}  {rank.exit or 'no stack yet'}")
    found = whereabouts(rank.stack)
    head, where = "", plain(found.where)
    match found.presence:
        case Presence.INSIDE:
            head = "in "
        case Presence.STOPPED:
            head = "stopped" + (", in " if where else "")
        case Presence.UNKNOWN:
            head = "no Python stack, "
    return Content.assemble(f"{_name(run, rank)}  ", (head + where, STYLES[found.presence]))


def _stack(text: str, width: int) -> Iterator[Content]:
    """The main thread's calls, then the others', with the process's state before them."""
    state, *found = threads(text)
    for line in state:
        yield Content.styled(plain(line), "$text-muted")
    for number, thread in enumerate(found):
        if number:
            yield Content.styled(plain(thread[0]), "$text-muted")
        yield from _calls(calls(thread), width)


def _calls(found: Iterable[Frame], width: int) -> Iterator[Content]:
    """A call in a line with its code beside it, where there is room, else beneath."""
    half = width // 2
    for frame in found:
        where = plain(f"  {frame.file}:{frame.line}, {frame.function}")
        if len(where) > (
            half if width >= WIDE else width
        ):  # the end of a path tells more than its beginning
            where = f"  …{where[3 - (half if width >= WIDE else width) :]}"
        code = plain(frame.code)
        if width >= WIDE:
            yield Content.assemble(
                where.ljust(half), "  ", (code[: max(0, width - half - 2)], "$text-muted")
            )
        else:
            yield Content(where)
            if code:
                yield Content.styled(f"      {code[: max(0, width - 6)]}", "$text-muted")
