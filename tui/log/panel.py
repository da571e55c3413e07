"""The log panel of a run."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import datetime
from functools import partial
from itertools import chain

from msgspec import structs
from textual.app import ComposeResult

from remote.format import count
from remote.run.findings.start_progress import is_starting
from remote.run.output.log_levels import Level, first_error, is_printed_by, prints_lines
from remote.run.run_state import RunState
from remote.run.state.phases import RunPhase, Verdict
from remote.run.state.types import Cause, LogLine
from remote.sanitise import plain
from tui.kit.actions import KeyPlace
from tui.kit.bindings import bindings
from tui.kit.messages import SaveText
from tui.kit.panel import Panel
from tui.log.margin import LogMargin
from tui.log.pattern_prompt import PatternPrompt
from tui.log.row_text import format_entry, format_rows, selected_text
from tui.log.rows import LogFilter
from tui.log.view import LogView

FILTER_LAYERS = ("pattern", "level", "rank")
"""The fields of a filter, in the order in which escape resets them."""
MIN_LINES_FOR_ERROR = 5
"""Lines on which an error can be read. A lower panel is maximized to show one."""
COPY_FILE = "copied.txt"
"""The file in the run's folder with what was copied last."""


class LogPanel(Panel):
    """The output of ranks and hosts, and what the session does. By default, only news is shown."""

    title = "log"
    help = "the output of ranks and hosts, and what rankboard does"
    place = KeyPlace.LOG
    BINDINGS = bindings(place)
    fixed_rank: int | None = None
    """The only rank to show, whatever the user filters by, or None for all."""
    plays = False
    """The run is a replay that plays."""

    def compose(self) -> ComposeResult:
        self._run = ""
        self._ranks = 0
        self._cause: Cause | None = None
        self._culprit: int | None = None
        self._attempt_start = 0.0
        self._gets_lines = False
        self._wraps_at_start = False
        self._has_chosen_wrap = False
        self._prompt: PatternPrompt | None = None
        yield LogView()

    @property
    def view(self) -> LogView:
        """The view of the lines."""
        return self.query_one(LogView)

    def show(self, run: RunState) -> None:
        self._run = run.plan.run
        self._ranks = len(run.ranks)
        self._cause = run.cause
        restarts = run.progress.restarts
        self._attempt_start = run.started + restarts[-1].seconds if restarts else 0.0
        is_still = run.phase is RunPhase.ENDED or (run.is_held and not self.plays)
        self._gets_lines = not is_still
        self._wrap_at_start(run)
        self.view.show(run.log, len(run.ranks))
        if self.fixed_rank is None:
            self._show_culprit(run)
        self._update_caption()

    def _wrap_at_start(self, run: RunState) -> None:
        """Wrap long lines while a run starts, as long as there are empty rows, and the user has not
        chosen."""
        has_room = len(self.view.rows.lines) < self.view.size.height
        wraps = has_room and is_starting(run)
        if wraps is not self._wraps_at_start:
            self._wraps_at_start = wraps
            if not self._has_chosen_wrap:
                self.view.wrap = wraps

    # Which lines

    def _show_culprit(self, run: RunState) -> None:
        """Once a run has failed, show the output of the rank to blame, unless the user has chosen
        another one. `A` shows all ranks."""
        has_failed = run.verdict is Verdict.FAILED and run.cause is not None
        culprit = run.cause.rank if has_failed and run.cause and run.cause.rank >= 0 else None
        if culprit == self._culprit:
            return
        if self.view.filter.rank == self._culprit:
            # Of a rank that was killed, only the session tells, among the news.
            news = self.view.news
            is_silent = first_error(news, run.cause, self._attempt_start) is None
            self._change_filter(rank=None if is_silent else culprit)
        self._culprit = culprit

    def fix_rank(self, rank: int) -> None:
        """Show only this rank, with its routine lines: here, they push out no other rank."""
        if rank != self.fixed_rank:
            self.fixed_rank = rank
            self._change_filter(rank=rank, news=False)

    @property
    def _full_filter(self) -> LogFilter:
        """The filter that lets every line of this panel through."""
        return LogFilter(rank=self.fixed_rank)

    def _change_filter(self, **settings: object) -> None:
        self.view.filter = structs.replace(self.view.filter, **settings)

    def action_next_rank(self) -> None:
        """Show only the next rank; after the last one hosts and session, then all."""
        order = [None, *range(self._ranks), -1]
        rank = self.view.filter.rank
        # A restart with fewer hosts may have left the rank out.
        next_index = order.index(rank) + 1 if rank in order else 0
        self._change_filter(rank=order[next_index % len(order)])

    def action_all_ranks(self) -> None:
        """Show the lines of all ranks."""
        self._change_filter(rank=None)

    def action_news(self) -> None:
        """Show all lines, or only news."""
        self._change_filter(news=not self.view.filter.news)

    def action_level(self) -> None:
        """Show only warnings and errors, then only errors, then all."""
        self._change_filter(level=Level((self.view.filter.level + 1) % len(Level)))

    def action_first_error(self) -> None:
        """Go to the line at which the run went wrong."""
        cause = self._cause
        if cause and self.fixed_rank not in (None, cause.rank):
            cause = None  # another rank's cause has no line here
        lines = [line for line in self.view.news if self.fixed_rank in (None, line.rank)]
        line = first_error(lines, cause, self._attempt_start)
        if line is None:
            line = self._find_end(cause, lines)
        if line:
            self._show_line(line)

    def _find_end(self, cause: Cause | None, lines: Sequence[LogLine]) -> LogLine | None:
        """Return where a rank or host failed that printed no error, and say so: the line of the
        cause, or else its own last one."""
        if cause is None or not prints_lines(cause):
            self.notify("no line reports an error")
            return None
        source = f"rank {cause.rank}" if cause.rank >= 0 else cause.host
        self.notify(f"{source} printed no error: {cause.problem}", markup=False)
        # Its own last line may be much older than its end.
        cause_lines = (line for line in reversed(lines) if line.stream == "cause")
        own_lines = (line for line in reversed(lines) if is_printed_by(line, cause))
        return next(chain(cause_lines, own_lines), None)

    def _show_line(self, line: LogLine) -> None:
        """Go to a line, on a panel high enough to read what follows it."""
        self._make_visible(line)
        self.screen.set_focus(self.view)
        self.view.go_to(line.number, at_top=True)
        is_low = self.view.size.height < MIN_LINES_FOR_ERROR
        if is_low and self.screen.maximized is None:
            self.screen.maximize(self)
            # The view has its new height only after the next refresh.
            self.call_after_refresh(self.view.go_to, line.number, at_top=True)

    def _make_visible(self, line: LogLine) -> None:
        """Widen the filter until a line has a row of its own."""
        if not self.view.rows.has(line.number):
            self.view.filter = structs.replace(self._full_filter, news=self.view.filter.news)
        if not self.view.rows.has(line.number):
            self._change_filter(rank=line.rank)

    # Settings

    def action_follow(self) -> None:
        """Follow the newest line, or stop following."""
        self.view.follow = not self.view.follow

    def action_wrap(self) -> None:
        """Wrap long lines, or cut them off."""
        self._has_chosen_wrap = True
        self.view.wrap = not self.view.wrap

    def action_times(self) -> None:
        """Show or hide the time of each line."""
        self.view.times = not self.view.times

    # Find and filter

    def action_find(self) -> None:
        """Ask for an expression to find."""
        self._open_prompt(PatternPrompt(self.view.search, filters=False))

    def action_only(self) -> None:
        """Ask for an expression to filter by."""
        self._open_prompt(PatternPrompt(self.view.filter.pattern, filters=True))

    def _open_prompt(self, prompt: PatternPrompt) -> None:
        self._prompt = prompt
        prompt.open(self)
        self.refresh_bindings()

    def on_pattern_prompt_typed(self, event: PatternPrompt.Typed) -> None:
        if self._prompt:  # else it was closed before its message arrived
            self._apply_pattern(self._prompt, event.pattern)

    def _apply_pattern(self, prompt: PatternPrompt, pattern: re.Pattern[str] | None) -> None:
        """Find the pattern, or filter by it, as the prompt says."""
        if prompt.filters:
            self._change_filter(pattern=pattern)
        else:
            self.view.search = pattern

    def on_pattern_prompt_done(self) -> None:
        if self._prompt:
            is_search = not self._prompt.filters
            self._close_prompt(self._prompt)
            if is_search and self.view.search:
                self.view.current = -1
                self.action_next(-1)

    def _close_prompt(self, prompt: PatternPrompt) -> None:
        """Remove the prompt and focus the lines."""
        self._prompt = None
        prompt.close()
        self.screen.set_focus(self.view)
        self.refresh_bindings()

    def action_next(self, step: int) -> None:
        """Go to the next match (step 1) or the previous one (step -1)."""
        view = self.view
        line = view.next_match(step)
        if line:
            view.go_to(line.number)
        elif view.search:
            self.notify(f"no line matches {plain(view.search.pattern)}", markup=False)

    def action_leave(self) -> None:
        """Leave the prompt, the search, or the next layer of the filter."""
        leave = next(self._layers())
        leave()

    def _layers(self) -> Iterator[Callable[[], None]]:
        """Yield what leaves each of the layers that there are, the innermost first."""
        if self._prompt:
            yield self._cancel_prompt
        if self.view.search or self.view.current >= 0:
            yield self._clear_search
        for name in FILTER_LAYERS:
            usual = getattr(self._full_filter, name)
            value = getattr(self.view.filter, name)
            # The rank that the panel has chosen itself is no layer.
            if value != usual and not (name == "rank" and value == self._culprit):
                yield partial(self._change_filter, **{name: usual})

    def _cancel_prompt(self) -> None:
        if self._prompt:
            self._apply_pattern(self._prompt, self._prompt.before)
            self._close_prompt(self._prompt)

    def _clear_search(self) -> None:
        self.view.search = None
        self.view.current = -1

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Return True if the action can do anything now."""
        match action:
            case "find" | "only":
                return self._prompt is None
            case "next_rank" | "all_ranks":
                return self.fixed_rank is None
            case "next":
                return self.view.search is not None
            case "leave":
                return any(self._layers())
        return True

    # Copy and save

    def action_copy(self) -> None:
        """Copy the selection, else the current line, else the lines in view."""
        view = self.view
        if view.text_selection:
            text = selected_text(view.rows, view.text_selection)
        elif view.rows.has(view.current):
            text = format_entry(view.rows, view.rows.row_of(view.current))
        else:
            text = self._format_rows(view.lines_in_view())
        if text:
            self.app.copy_to_clipboard(text)
            self._write_file(COPY_FILE, text, "copied")

    def action_save(self) -> None:
        """Save all shown lines, also those out of view."""
        text = self._format_rows(self.view.rows.lines)
        self._write_file(f"log-{datetime.now():%Y%m%d-%H%M%S}.txt", text, "saved")

    def _format_rows(self, lines: Iterable[LogLine]) -> str:
        margin = LogMargin(self.view.ranks, self.view.times)
        return format_rows(self.view.rows, lines, margin)

    def _write_file(self, name: str, text: str, done: str) -> None:
        line_count = text.count("\n") + 1 if text else 0
        lines = count(line_count, "line")
        self.post_message(SaveText(self._run, name, f"{text}\n", f"{done} {lines}"))

    # Caption

    def on_following_view_follow_changed(self) -> None:
        self.refresh_bindings()
        self._update_caption()

    def _update_caption(self) -> None:
        state, *details = self._caption_parts()
        self.caption(state, details)

    def _caption_parts(self) -> Iterator[str]:
        view = self.view
        row_filter = view.filter
        hidden = view.rows.hidden
        if row_filter.news:
            yield f"news, {count(hidden, 'line')} hidden" if hidden else "news"
        else:
            yield "all lines"
        if row_filter.level:
            yield row_filter.level.title
        match row_filter.rank:
            case None:
                yield "all ranks"
            case -1:
                yield "hosts and session"
            case rank:
                yield f"rank {rank}"
        if row_filter.pattern:
            yield f"matching {plain(row_filter.pattern.pattern)}"
        # Where no line comes any more there is nothing to follow, nor to pause.
        if self._gets_lines:
            yield "following" if view.follow else "paused"
        if view.unseen:
            yield f"{view.unseen} new"
        if view.search:
            pattern = plain(view.search.pattern)
            matches = view.rows.matches
            place = view.rows.match_place(view.current) if view.current >= 0 else 0
            yield (
                f"{pattern} {place}/{matches}"
                if place
                else f"{pattern} in {count(matches, 'line')}"
            )
