"""Home: all runs that are recorded here or live on hosts, and the studies."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, ClassVar

from textual.app import ComposeResult
from textual.binding import BindingType
from textual.events import Resize
from textual.widgets import Static

from remote.format import count
from remote.record.checkpoints import saved_step
from remote.record.entry import RUNNING, UNKNOWN, Entry
from remote.sanitise import plain
from tui.home.filter import Filter
from tui.home.history import Answered, History, Listed
from tui.home.keeping import ERRORS, Keeping
from tui.home.listing import beginnings
from tui.home.run_list import (
    ORDERS,
    PLACES,
    Item,
    about,
    hidden,
    hint,
    items,
    problems,
    rows,
    table,
)
from tui.kit.actions import Place
from tui.kit.background import RepeatedTask
from tui.kit.bindings import bindings, key_of
from tui.kit.messages import CompareRuns, NewRun, OpenRun, OpenStudy
from tui.kit.run_session import LiveScreen
from tui.kit.text_table import justified
from tui.kit.widgets.choices import ChoiceTable
from tui.kit.widgets.keys import KeyFooter

if TYPE_CHECKING:
    from remote.host_commands.runs import Run

LOOK_EVERY = 3.0
"""Seconds between two looks at what is recorded here, at least."""
ASK_EVERY = 10.0
"""Seconds between the answer of the hosts and the next question, at least."""
OF_RUNS = frozenset(
    (
        "open",
        "filter",
        "order",
        "all",
        "mark",
        "compare",
        "star",
        "note",
        "name",
        "resume",
        "delete",
    )
)
"""Actions for which there have to be runs."""
MOST = 8
"""Runs that are compared at most."""


class HomeScreen(LiveScreen, Keeping):
    """The list of runs. What takes time happens in threads: the screen never waits for hosts.

    As long as it is shown it looks by itself for what is recorded, and asks the hosts again: those
    of the hosts file, and those of runs that were live when they were last asked, or that were not
    asked of yet. So hosts that are gone are tried once, and whenever a person asks. Of the runs
    that were live they are asked by name until they say how these have ended.
    """

    CSS = """
    HomeScreen #title { height: 1; padding: 0 1; background: $panel; text-style: bold; }
    HomeScreen ChoiceTable { height: 1fr; min-height: 3; padding: 0 1; }
    HomeScreen #empty { display: none; height: 1fr; content-align: center middle; }
    HomeScreen.-empty #empty { display: block; }
    HomeScreen.-empty ChoiceTable { display: none; }
    HomeScreen #hidden { height: auto; padding: 0 1; color: $text-muted; }
    HomeScreen #about { height: 3; padding: 0 1; color: $text-muted; }
    HomeScreen #said { height: auto; max-height: 4; padding: 0 1; color: $text-warning; }
    HomeScreen #said.-several { text-wrap: nowrap; text-overflow: ellipsis; }
    HomeScreen.-low #about, HomeScreen.-low #hidden { display: none; }
    """
    VERTICAL_BREAKPOINTS = [(0, "-low"), (14, "-tall")]  # noqa: RUF012
    place = Place.HOME
    BINDINGS: ClassVar[list[BindingType]] = bindings(place)
    AUTO_FOCUS = "ChoiceTable"

    def __init__(self, history: History) -> None:
        super().__init__(history)
        self._reading = RepeatedTask(self, self._take_listed, self.fail)
        self._asking = RepeatedTask(self, self._take_answered, self._fail_to_ask)
        self._tracing = RepeatedTask(self, self._take_courses, self.fail)
        self._listed: Listed | None = None
        self._answered = Answered()
        self._items: list[Item] = []
        self._order = next(iter(ORDERS))
        self._words: list[str] = []
        self._courses: dict[str, list[float]] = {}
        self._grown: set[str] = set()
        self._marked: set[str] = set()
        self._lists_all = False
        self._hidden = 0
        self._to_ask: set[str] = set()
        self._asked_of: set[str] = set()
        self._was_live: set[str] = set()
        self._ended: dict[str, Run] = {}
        self._shows_asking = False
        self._described: tuple[object, ...] = ()

    def compose(self) -> ComposeResult:
        yield Static(id="title", markup=False)
        yield Filter()
        yield ChoiceTable()
        yield Static(id="empty", markup=False)
        yield Static(id="hidden", markup=False)
        yield Static(id="said", markup=False)
        yield Static(id="about", markup=False)
        yield KeyFooter()

    def on_screen_resume(self) -> None:
        self.read()

    def on_resize(self, event: Resize) -> None:
        self.call_after_refresh(self._draw)

    def tick(self) -> None:
        """Look and ask again when it is time, and follow the cursor."""
        if self.is_active and self._reading.is_due(LOOK_EVERY):
            self.read()
        if self.is_active and self._listed and self._asking.is_due(ASK_EVERY):
            self._ask()
        self._describe()

    # In the background

    def read(self) -> None:
        self._reading.begin(self.history.recorded)

    def _take_listed(self, found: Listed) -> None:
        is_first = self._listed is None
        if found == self._listed:
            return
        self._listed = found
        self._grown = {run.name for run in found.runs if run.verdict == RUNNING}
        self._marked &= {run.name for run in found.runs}
        if is_first:
            self._ask_anew()
        elif not self._unknown <= self._asked_of:  # their launcher has just left them
            self._ask()
        self._draw()

    @property
    def _unknown(self) -> set[str]:
        """The runs of which nobody here knows the end."""
        runs = self._listed.runs if self._listed else ()
        return {run.name for run in runs if run.verdict == UNKNOWN}

    def _ask_anew(self) -> None:
        """Ask all hosts, also those that did not answer before."""
        self._shows_asking = True
        self._asked_of.clear()
        self._ended.clear()
        self._ask()

    def _ask(self) -> None:
        unknown = self._unknown
        recorded = {run.name for run in self._listed.runs} if self._listed else set[str]()
        was_live = self._was_live & unknown | self._was_live - recorded
        self._to_ask |= (unknown - self._asked_of) | was_live
        self._to_ask -= self._ended.keys()
        self._asked_of |= self._to_ask
        wanted = frozenset(self._to_ask)  # also what a question had that this one replaces
        self._asking.begin(lambda: self.history.ask(wanted))

    def _take_answered(self, found: Answered) -> None:
        has_changed = not (found.is_silent and self._answered.is_silent)
        self._ended |= {run.name: run for run in found.ended}
        for run in found.live:
            self._ended.pop(run.name, None)
        self._answered = replace(found, ended=tuple(self._ended.values()))
        self._shows_asking = False
        self._was_live |= {run.name for run in found.live}
        self._to_ask.clear()
        if has_changed:
            self._draw()

    def _fail_to_ask(self, error: Exception) -> None:
        if not isinstance(error, ERRORS):
            raise error
        self._take_answered(Answered((), (str(error),)))

    def _trace(self) -> None:
        """Read the losses of the runs in view, of which they are not known yet or have grown."""
        top = self.query_one(ChoiceTable).scroll_offset.y
        names = [
            item.name
            for item in self._items[top : top + self.size.height]
            if item.entry and (item.name not in self._courses or item.name in self._grown)
        ]
        if names:
            self._grown.difference_update(names)
            self._tracing.begin(lambda: self.history.courses(names, PLACES))

    def _take_courses(self, found: dict[str, list[float]]) -> None:
        self._courses |= found
        self._draw()

    # Drawing

    def _draw(self) -> None:
        """Show the list as it is now. The cursor stays on the run on which a person has put it;
        until then it is on the first row, which is the newest run unless others are live."""
        if self._listed is None or not self.is_mounted:
            return
        chosen = self._chosen
        shown = self.query_one(ChoiceTable)
        had_runs = self._has_runs
        had_hidden = self._can_list_all
        self._items, self._hidden = items(
            self._listed, self._answered, self._words, self._order, lists_all=self._lists_all
        )
        width = self.app.size.width - 2
        names = beginnings(self._listed.runs)
        found = rows(self._items, names, self._courses, self._marked)
        shown.show(*table(found, width))
        if not shown.is_cursor_placed:
            shown.cursor = 0
        elif chosen:
            here = (n for n, item in enumerate(self._items) if item.name == chosen.name)
            shown.cursor = next(here, shown.cursor)
        if (self._has_runs, self._can_list_all) != (had_runs, had_hidden):
            self.refresh_bindings()
        self.set_class(not self._items, "-empty")
        if not self._items:
            self.query_one("#empty", Static).update(
                hint(self._words, self.history.shown_dir, self._key)
            )
        self._describe()
        self._trace()

    def _describe(self) -> None:
        """Say what is listed, what hosts do not answer, and what is under the cursor."""
        item = self._chosen
        width = self.app.size.width - 2
        is_asking = self._shows_asking
        shown: tuple[object, ...] = (item, self._answered, self._listed, self._order, *self._words)
        shown += (len(self._items), self._hidden, width, is_asking)
        if shown == self._described or self._listed is None:
            return
        self._described = shown
        live = sum(one.is_live for one in self._items)
        recorded = len(self._listed.runs)
        facts = [count(recorded - self._hidden, "run"), f"{live} live"]
        if self._words:
            listed = sum(not one.study for one in self._items)
            facts[0] = f"{listed} of {count(recorded, 'run')}"
        facts += ["asking the hosts"] if is_asking else [self._order]
        title = justified(f"rankboard  runs in {self.history.shown_dir}", ", ".join(facts), width)
        self.query_one("#title", Static).update(plain(title))
        left_out = self.query_one("#hidden", Static)
        left_out.update(hidden(self._hidden, self._key))
        left_out.display = self._hidden > 0
        said = self.query_one("#said", Static)
        lines = problems(self._answered, self._listed)
        said.set_class(len(lines) > 1, "-several")
        said.update("\n".join(lines))
        saved = saved_step(self.history.runs_dir / item.name) if item and item.entry else 0
        self.query_one("#about", Static).update(about(item, saved, self._key))

    # Keys

    @property
    def _chosen(self) -> Item | None:
        """The row under the cursor."""
        cursor = self.query_one(ChoiceTable).cursor
        return self._items[cursor] if cursor < len(self._items) else None

    def choose_entry(self) -> Entry | None:
        item = self._choose()
        return item.entry if item else None

    def _choose(self) -> Item | None:
        """Return the row under the cursor, on which the cursor stays from now on."""
        self.query_one(ChoiceTable).is_cursor_placed = True
        return self._chosen

    def on_choice_table_chosen(self) -> None:
        self._describe()

    def action_open(self) -> None:
        item = self._choose()
        if item:
            self.post_message((OpenStudy if item.study else OpenRun)(item.name))

    def action_new(self) -> None:
        self.post_message(NewRun())

    def action_refresh(self) -> None:
        self._courses.clear()
        self.read()
        self._ask_anew()

    def action_all(self) -> None:
        """List runs that made no step, or hide them."""
        self._lists_all = not self._lists_all
        self._draw()
        self.refresh_bindings()

    def action_order(self) -> None:
        orders = list(ORDERS)
        self._order = orders[(orders.index(self._order) + 1) % len(orders)]
        self._draw()

    def action_filter(self) -> None:
        self.query_one(Filter).open()
        self.refresh_bindings()

    def on_filter_filtered(self, message: Filter.Filtered) -> None:
        self._words = message.words
        self._draw()

    def on_filter_left(self) -> None:
        self.refresh_bindings()
        self.query_one(ChoiceTable).focus()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Go back only from a filter: this is the outermost screen. Without any run there is little
        to do."""
        if action == "back":
            return self.query_one(Filter).is_open
        if action == "all":
            return self._can_list_all
        return self._has_runs or action not in OF_RUNS

    @property
    def _has_runs(self) -> bool:
        return bool(self._listed is None or self._items or self._words)

    @property
    def _can_list_all(self) -> bool:
        """Whether runs are left out that can be listed, or hidden again."""
        return bool(self._hidden or self._lists_all)

    def _key(self, name: str) -> str:
        """The key of an action."""
        return key_of(self.app, name)

    def action_back(self) -> None:
        self.query_one(Filter).close()

    def action_mark(self) -> None:
        """Mark the run to compare it, or take the mark away."""
        run = self.choose_entry()
        if run:
            self._marked ^= {run.name}
            self._draw()
            self.query_one(ChoiceTable).cursor += 1

    def action_compare(self) -> None:
        """Compare the marked runs."""
        if not 2 <= len(self._marked) <= MOST:
            self.notify(f"mark two to {MOST} runs with {self._key('mark')} first", markup=False)
            return
        folders = [self.history.runs_dir / name for name in sorted(self._marked)]
        self.post_message(CompareRuns(tuple(folders)))
