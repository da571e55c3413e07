"""The log pane."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import datetime
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import BindingType

from remote.format import count
from remote.run.output.log_levels import Level, first_error, has_lines, is_of
from remote.run.run_state import RunState
from remote.run.state.types import Cause, LogLine
from tui.kit.actions import Place
from tui.kit.bindings import bindings
from tui.kit.messages import SaveText
from tui.kit.panel import Panel, ScreenRow
from tui.kit.widgets.plain import plain
from tui.log.log_ink import selected
from tui.log.log_prompt import Prompt
from tui.log.log_rows import Filter
from tui.log.log_text import as_shown, entry_text
from tui.log.log_view import LogView

LAYERS = ("pattern", "level", "rank")
"""The parts of a filter, in the order in which they are left."""
LEAST = 5
"""Lines on which an error can be read; where there are fewer, the log is zoomed."""
COPY = "copied.txt"
"""The file in the folder of the run that has what was copied last."""


class Log(Panel):
    """The output of ranks and hosts, and what the session does; by default what is news of it."""

    title = "log"
    help = "the output of ranks and hosts, and what rankboard does"
    row = ScreenRow.BOTTOM
    place = Place.LOG
    BINDINGS: ClassVar[list[BindingType]] = bindings(place)
    fixed_rank: int | None = None
    """The only rank of which there are lines, whatever the user filters by; None for all."""

    def compose(self) -> ComposeResult:
        self._run = ""
        self._ranks = 0
        self._cause: Cause | None = None
        self._since = 0.0
        self._prompt: Prompt | None = None
        yield LogView()

    @property
    def view(self) -> LogView:
        """The lines."""
        return self.query_one(LogView)

    def show(self, run: RunState) -> None:
        self._run, self._ranks, self._cause = run.plan.run, len(run.ranks), run.cause
        restarts = run.progress.restarts
        self._since = run.started + restarts[-1].seconds if restarts else 0.0
        self.view.show(run.log, len(run.ranks))
        self._describe()

    # Which lines

    def fix_rank(self, rank: int) -> None:
        """Have the lines of this rank only: at first all, as here they do not drown others."""
        if rank != self.fixed_rank:
            self.fixed_rank = rank
            self._set(rank=rank, news=False)

    @property
    def _whole(self) -> Filter:
        """The filter that lets all through that there is."""
        return Filter(rank=self.fixed_rank)

    def _set(self, **settings: object) -> None:
        self.view.filter = replace(self.view.filter, **settings)  # type: ignore[arg-type]

    def action_next_rank(self) -> None:
        """Show only the next rank; after the last one hosts and session, then all."""
        order = [None, *range(self._ranks), -1]
        here = self.view.filter.rank
        after = order.index(here) + 1 if here in order else 0  # a restart may have left it out
        self._set(rank=order[after % len(order)])

    def action_all_ranks(self) -> None:
        """Show the lines of all ranks."""
        self._set(rank=None)

    def action_news(self) -> None:
        """Show all lines, or only news."""
        self._set(news=not self.view.filter.news)

    def action_level(self) -> None:
        """Show only warnings and errors, then only errors, then all."""
        self._set(level=Level((self.view.filter.level + 1) % len(Level)))

    def action_first_error(self) -> None:
        """Go to the line at which the run went wrong."""
        fixed = self.fixed_rank
        cause = self._cause
        lines = [line for line in self.view.news if fixed in (None, line.rank)]
        if cause and fixed not in (None, cause.rank):
            cause = None
        line = first_error(lines, cause, self._since)
        if line is None and cause and has_lines(cause):
            line = self._last_words(lines, cause)
        elif line is None:
            self.notify("no line reports an error")
        if line:
            self._let_through(line.number, line.rank)
            self.screen.set_focus(self.view)
            self.view.go_to(line.number, at_top=True)
            if self.view.size.height < LEAST and self.screen.maximized is None:
                self.screen.maximize(self)
                self.call_after_refresh(self.view.go_to, line.number, at_top=True)

    def _last_words(self, lines: Sequence[LogLine], cause: Cause) -> LogLine | None:
        """The last line of what died without an error."""
        who = f"rank {cause.rank}" if cause.rank >= 0 else cause.host
        self.notify(f"{who} printed no error: {cause.what}", markup=False)
        return next((line for line in reversed(lines) if is_of(line, cause)), None)

    def _let_through(self, number: int, rank: int) -> None:
        """Have the filter let this line of a rank through, as a row of its own."""
        if not self.view.rows.has(number):
            self.view.filter = replace(self._whole, news=self.view.filter.news)
        if not self.view.rows.has(number):
            self._set(rank=rank)

    # How

    def action_follow(self) -> None:
        """Follow the newest line, or stop following."""
        self.view.follow = not self.view.follow

    def action_wrap(self) -> None:
        """Wrap long lines, or cut them off."""
        self.view.wrap = not self.view.wrap

    def action_times(self) -> None:
        """Show or hide the time of each line."""
        self.view.times = not self.view.times

    # Find and filter

    def action_find(self) -> None:
        """Ask what to find."""
        self._ask(Prompt(self.view.search, filters=False))

    def action_only(self) -> None:
        """Ask what to filter by."""
        self._ask(Prompt(self.view.filter.pattern, filters=True))

    def _ask(self, prompt: Prompt) -> None:
        self._prompt = prompt
        prompt.open(self)
        self.refresh_bindings()

    def on_prompt_typed(self, event: Prompt.Typed) -> None:
        if self._prompt:  # it has not been left meanwhile
            self._apply(self._prompt, event.pattern)

    def _apply(self, prompt: Prompt, pattern: re.Pattern[str] | None) -> None:
        """Find this, or filter by it, as the prompt asks."""
        if prompt.filters:
            self._set(pattern=pattern)
        else:
            self.view.search = pattern

    def on_prompt_done(self) -> None:
        if self._prompt:
            is_search = not self._prompt.filters
            self._close(self._prompt)
            if is_search and self.view.search:
                self.view.current = -1
                self.action_next(-1)

    def _close(self, prompt: Prompt) -> None:
        """Go back to the lines."""
        self._prompt = None
        prompt.close()
        self.screen.set_focus(self.view)
        self.refresh_bindings()

    def action_next(self, step: int) -> None:
        """Go to the next match, or to the previous one."""
        view = self.view
        line = view.next_match(step)
        if line:
            view.go_to(line.number)
        elif view.search:
            self.notify(f"no line matches {plain(view.search.pattern)}", markup=False)

    def action_leave(self) -> None:
        """Leave one layer: the prompt, the search, the filter, the level, the rank."""
        view = self.view
        if self._prompt:
            self._apply(self._prompt, self._prompt.before)
            self._close(self._prompt)
        elif view.search or view.current >= 0:
            view.search = None
            view.current = -1
        else:
            layer = next(name for name in LAYERS if self._is_set(name))
            self._set(**{layer: getattr(self._whole, layer)})

    def _is_set(self, layer: str) -> bool:
        return bool(getattr(self.view.filter, layer) != getattr(self._whole, layer))

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Ask for one expression at a time, go to matches of a search, leave only what there is to
        leave, and choose no rank where there is only one."""
        view = self.view
        if action in ("find", "only"):
            return self._prompt is None
        if action in ("next_rank", "all_ranks"):
            return self.fixed_rank is None
        if action == "next":
            return view.search is not None
        if action == "leave":
            found = view.search or view.current >= 0
            return bool(self._prompt or found or any(map(self._is_set, LAYERS)))
        return True

    # Take away

    def action_copy(self) -> None:
        """Copy what is selected, else the current line, else the lines in view."""
        view = self.view
        if view.text_selection:
            text = selected(view.rows, view.text_selection)
        elif view.rows.has(view.current):
            text = entry_text(view.rows, view.rows.at(view.current))
        else:
            text = as_shown(view.rows, view.seen(), view.margin)
        if text:
            self.app.copy_to_clipboard(text)
            self._keep(COPY, text, "copied")

    def action_save(self) -> None:
        """Save all lines that are shown, also those out of view."""
        text = as_shown(self.view.rows, self.view.rows.lines, self.view.margin)
        self._keep(f"log-{datetime.now():%Y%m%d-%H%M%S}.txt", text, "saved")

    def _keep(self, name: str, text: str, done: str) -> None:
        lines = count(text.count("\n") + bool(text), "line")
        self.post_message(SaveText(self._run, name, f"{text}\n", f"{done} {lines}"))

    # Caption

    def on_following_changed(self) -> None:
        self.refresh_bindings()
        self._describe()

    def _describe(self) -> None:
        self.caption(", ".join(self._parts()))

    def _parts(self) -> Iterator[str]:
        view = self.view
        which = self.view.filter
        hidden = view.rows.hidden
        if which.news:
            yield f"news, {count(hidden, 'line')} hidden" if hidden else "news"
        else:
            yield "all lines"
        if which.level:
            yield which.level.title
        match which.rank:
            case None:
                yield "all ranks"
            case -1:
                yield "hosts and session"
            case rank:
                yield f"rank {rank}"
        if which.pattern:
            yield f"matching {plain(which.pattern.pattern)}"
        yield "following" if view.follow else f"paused, {view.unseen} new"
        if view.search:
            yield f"{plain(view.search.pattern)} in {count(view.rows.matches, 'line')}"
