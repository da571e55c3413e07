"""Home: all runs that are recorded here or live on hosts, and the studies."""

from __future__ import annotations

import time
from collections.abc import Sequence
from functools import partial

from textual.app import ComposeResult
from textual.content import Content
from textual.events import Resize
from textual.widgets import Static

from remote.record.checkpoints import saved_step
from remote.record.entry import Entry
from remote.run.state.phases import LEFT, RUNNING, UNREADABLE
from remote.sanitise import plain
from tui.home import list_text
from tui.home.filter import Filter
from tui.home.history import Answered, FolderWatch, History, Listed
from tui.home.host_poll import HostPoll
from tui.home.keeping import ERRORS, Keeping
from tui.home.listing import shorten_names
from tui.home.preview import RunPreview
from tui.home.run_list import ORDERS, RowSelection, RunItem, RunOrder, put_first, select_items
from tui.home.run_table import LossCurves, RunTable, make_rows
from tui.home.verdict_text import describe_needs, judge_item, list_next_keys, sort_by_urgency
from tui.kit.actions import KeyPlace
from tui.kit.background import RepeatedTask
from tui.kit.bindings import bindings, key_of
from tui.kit.messages import NewRun, OpenRun, OpenStudy
from tui.kit.run_session import LiveScreen
from tui.kit.widgets.keys import KeyFooter
from tui.kit.widgets.verdict_strip import FRAME_WIDTH, NextKey, Severity, VerdictStrip

LOOK_EVERY = 2.0
"""Seconds between two looks at what is recorded here, at least."""
AGES_EVERY = 20.0
"""Seconds after which the ages of the runs are drawn anew."""
ROOMY = 30
"""Lines from which on the verdict says more of the other runs."""
MAX_OTHERS = 3
"""Runs that it names then besides the first one."""
ASK_EVERY = 10.0
"""Seconds between the answer of the hosts and the next question, at least."""
NEED_RUNS = frozenset(
    (
        *("open", "filter", "order", "mark", "compare", "star", "pin", "note", "name"),
        *("resume", "delete", "copy_command", "fold", "unfold"),
    )
)
"""Actions for which there have to be runs."""


class HomeScreen(LiveScreen, Keeping):
    """The list of runs. What takes time happens in threads: the screen never waits for hosts.

    As long as it is shown it looks by itself for what is recorded, and asks the hosts again: those
    of the hosts file, and those of the runs that `HostPoll` chooses.
    """

    CSS = """
    HomeScreen #title { height: 1; padding: 0 1; background: $panel; text-style: bold; }
    HomeScreen ChoiceTable { height: 2fr; min-height: 3; padding: 0 1; }
    HomeScreen #empty { display: none; height: 1fr; content-align: center middle; }
    HomeScreen.-empty #empty { display: block; }
    HomeScreen.-empty ChoiceTable, HomeScreen.-empty RunPreview { display: none; }
    HomeScreen #hidden { height: auto; padding: 0 1; color: $text-muted; }
    HomeScreen #problems { height: auto; max-height: 4; padding: 0 1; color: $text-warning; }
    HomeScreen.-several #problems { text-wrap: nowrap; text-overflow: ellipsis; }
    HomeScreen.-low RunPreview, HomeScreen.-low #hidden, HomeScreen.-low VerdictStrip {
        display: none;
    }
    """
    VERTICAL_BREAKPOINTS = [(0, "-low"), (14, "-tall")]  # noqa: RUF012
    place = KeyPlace.HOME
    BINDINGS = bindings(place)
    AUTO_FOCUS = "ChoiceTable"

    def __init__(self, history: History) -> None:
        super().__init__(history)
        self._reading = RepeatedTask(self, self._take_listed, self.fail)
        self._asking = RepeatedTask(self, self._take_answered, self._fail_to_ask)
        self._curves = LossCurves(self, history, self._draw)
        self._watch = FolderWatch(history)
        self._listed: Listed | None = None
        self._poll = HostPoll()
        self._selection = RowSelection([])
        self._order = next(iter(ORDERS))
        self._words: list[str] = []
        self._lists_all = False
        self._drawn_at = 0.0
        self._open_studies: set[str] = set()
        self._opened: set[str] = set()
        """The rows that were looked at: one that has ended needs nobody any more then."""

    def compose(self) -> ComposeResult:
        yield Static(id="title", markup=False)
        yield VerdictStrip(id="needs")
        yield Filter()
        yield RunTable()
        yield Static(id="empty", markup=False)
        yield Static(id="hidden", markup=False)
        yield Static(id="problems", markup=False)
        yield RunPreview(self.history, self._key)
        yield KeyFooter()

    def on_mount(self) -> None:
        self.watch(self.query_one(RunTable), "cursor", self._describe, init=False)

    def on_screen_resume(self) -> None:
        self.read()
        # A run that was opened needs nobody any more, though nothing new is recorded.
        self._draw()

    def on_resize(self, event: Resize) -> None:
        # Widgets have their new sizes only after the next refresh.
        self.call_after_refresh(self._draw)

    def tick(self) -> None:
        """Look and ask again when it is time."""
        if self.is_active and self._reading.is_due(LOOK_EVERY):
            has_live = any(item.is_live for item in self._selection.items)
            self._reading.begin(partial(self._watch.look, has_live=has_live))
        if self.is_active and self._listed and self._asking.is_due(ASK_EVERY):
            self._ask()

    # In the background

    def read(self) -> None:
        self._reading.begin(self._watch.read)

    def _take_listed(self, listed: Listed) -> None:
        is_first = self._listed is None
        if listed == self._listed:
            if time.monotonic() - self._drawn_at >= AGES_EVERY:
                self._draw()
            return
        self._listed = listed
        # Curves of runs that go on are read again whenever the list changes.
        self._curves.outdate(listed.name_runs(RUNNING))
        # A marked run may have been deleted, here or by another command.
        self.marked &= listed.name_runs()
        # Not sooner: the question names the runs whose end nobody here knows.
        if is_first:
            self._ask_anew()
        elif not self._poll.has_asked(listed.name_runs(LEFT, UNREADABLE)):
            self._ask()  # their launcher has just left them
        self._draw()

    def _ask_anew(self) -> None:
        """Ask all hosts, also those that did not answer before."""
        self._poll.begin_anew()
        self._ask()
        self._describe()

    def _ask(self) -> None:
        listed = self._listed or Listed()
        runs = self._poll.choose_runs(listed.name_runs(LEFT, UNREADABLE), listed.name_runs())
        self._asking.begin(lambda: self.history.ask(runs))

    def _take_answered(self, answered: Answered) -> None:
        if self._poll.take(answered):
            self._draw()
        else:
            self._describe()

    def _fail_to_ask(self, error: Exception) -> None:
        if not isinstance(error, ERRORS):
            raise error
        self._take_answered(Answered(problems=(str(error),)))

    # Drawing

    def _draw(self) -> None:
        """Show the list as it is now."""
        if self._listed is None or not self.is_mounted:
            return
        self._drawn_at = time.monotonic()
        self._selection = select_items(
            self._listed,
            self._poll.answered,
            self._words,
            self._order,
            lists_all=self._lists_all,
            now=time.time(),
            open_studies=self._open_studies,
        )
        needy = self._find_needy()
        # In any other order, a person looks for something else.
        sorted_by: RunOrder | None = ORDERS[self._order]
        if ORDERS[self._order].title == "started":
            items = put_first(self._selection.items, needy)
            # The sign of the order would be wrong of rows that have others before them.
            sorted_by = sorted_by if items == self._selection.items else None
            self._selection = self._selection._replace(items=items)
        items = self._selection.items
        names = shorten_names(self._listed.runs)
        cells = make_rows(
            items,
            names,
            self._curves.losses,
            self.marked,
            time.time(),
            {item.name for item in needy},
        )
        first = items.index(needy[0]) if needy else 0
        width = self.app.size.width - 2
        self.query_one(RunTable).show_items(items, cells, width, sorted_by, first)
        self.refresh_bindings()
        self.set_class(not items, "-empty")
        if not items:
            text = list_text.suggest(self._words, self.history.shown_dir, self._key)
            self._show_text("empty", text)
        self._describe()
        self._curves.read(self.query_one(RunTable).items_in_view)

    def _describe(self) -> None:
        """Say what is listed, what hosts do not answer, and what is under the cursor."""
        if self._listed is None:
            return
        width = self.app.size.width - 2
        item = self.query_one(RunTable).chosen
        needy = self._find_needy()
        counts = list_text.count_listed(
            self._listed, self._selection, needy, has_filter=bool(self._words)
        )
        if self._poll.is_shown:
            counts += ", asking the hosts"
        title = plain(f"rankboard  runs in {self.history.shown_dir}")
        room = max(0, width - len(counts))
        self.query_one("#title", Static).update(
            Content.assemble(f"{title:<{room}}"[: max(0, room)], counts).truncate(max(1, width))
        )
        self._show_text("hidden", list_text.describe_hidden(self._selection.hidden, self._key))
        self.query_one("#hidden").display = self._selection.hidden > 0
        lines = list_text.describe_problems(self._poll.answered, self._listed)
        self.query_one("#problems").display = bool(lines)
        self.set_class(len(lines) > 1, "-several")
        self._show_text("problems", "\n".join(lines))
        self._show_needs(item, needy)
        preview = self.query_one(RunPreview)
        if preview.display:
            preview.show(item, self._listed.runs, has_verdict=item not in needy)

    def _find_needy(self) -> list[RunItem]:
        """Return the rows that need a person, the most urgent first, but for those that were looked
        at since."""
        now = time.time()
        return sort_by_urgency(
            item
            for item in self._selection.items
            if item.needs_care(now) and (item.is_live or item.name not in self._opened)
        )

    def _show_needs(self, chosen: RunItem | None, needy: Sequence[RunItem]) -> None:
        """Say what needs a person: the row under the cursor, or else the most urgent one, and below
        it the others."""
        strip = self.query_one("#needs", VerdictStrip)
        if not needy:
            strip.show(Severity.NEUTRAL, "")
            return
        next_key = self._key("next-needy")
        item = chosen if chosen and chosen in needy else needy[0]
        if item is chosen:
            step = saved_step(self.history.runs_dir / item.name) if item.entry else 0
            next_keys = list(list_next_keys(item, step, self._key))
            if len(needy) > 1:  # before the key that copies, for which there may be no room
                following = needy[(needy.index(item) + 1) % len(needy)]
                next_keys.insert(-1, NextKey(next_key, f'go to "{following.short_title}"'))
        else:
            next_keys = [NextKey(next_key, f'go to "{item.short_title}"')]
        max_others = MAX_OTHERS if self.size.height >= ROOMY else 1
        width = self.size.width - FRAME_WIDTH
        title, reasons = describe_needs(item, needy, max_others, width)
        strip.show(judge_item(item).severity, title, reasons, next_keys)

    def _show_text(self, widget_id: str, text: str) -> None:
        self.query_one(f"#{widget_id}", Static).update(text)

    # Keys

    def choose_entry(self) -> Entry | None:
        item = self._choose()
        return item.entry if item else None

    def describe_other(self) -> str:
        item = self.query_one(RunTable).chosen
        if item is None:
            return ""
        return "a study" if item.study else f"{item.name} is not recorded here: it"

    def show_marks(self) -> None:
        self._draw()
        self.query_one(RunTable).cursor += 1

    def _choose(self) -> RunItem | None:
        """Return the row under the cursor, on which the cursor stays from now on."""
        table = self.query_one(RunTable)
        table.is_cursor_placed = True
        return table.chosen

    def action_next_needy(self) -> None:
        """Go to the next run that needs a person."""
        names = [item.name for item in self._find_needy()]
        if not names:
            self.notify("no run to look at")
            return
        table = self.query_one(RunTable)
        chosen = table.chosen
        place = names.index(chosen.name) + 1 if chosen and chosen.name in names else 0
        table.choose(names[place % len(names)])
        table.is_cursor_placed = True

    def action_open(self) -> None:
        item = self._choose()
        if item:
            self._opened.add(item.name)
        if item and item.study:
            self.post_message(OpenStudy(item.name))
        elif item:
            self.post_message(OpenRun(item.name))

    def action_new(self) -> None:
        self.post_message(NewRun())

    def action_refresh(self) -> None:
        self._curves.clear()
        self.read()
        self._ask_anew()

    def action_all(self) -> None:
        """List runs that made no step, or hide them."""
        self._lists_all = not self._lists_all
        self._draw()
        self.refresh_bindings()

    def action_unfold(self) -> None:
        """List the runs of the study under the cursor below it."""
        item = self._choose()
        if item and item.study:
            self._open_studies.add(item.name)
            self._draw()

        elif item:
            self.notify("only a study has runs to list below it")

    def action_fold(self) -> None:
        """List the study under the cursor, or that of the run under it, as one row."""
        item = self._choose()
        if item is None:
            return
        study = item.entry.study if item.entry else item.name
        if study in self._open_studies:
            self._open_studies.remove(study)
            self.query_one(RunTable).choose(study)
            self._draw()

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
        self.query_one(RunTable).focus()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Return False where there is nothing to do. Back goes only from a filter."""
        if action == "back":
            return self.query_one(Filter).is_open
        if action == "all":
            return bool(self._selection.hidden or self._lists_all)
        has_runs = bool(self._listed is None or self._selection.items or self._words)
        return has_runs or action not in NEED_RUNS

    def _key(self, name: str) -> str:
        """Return the key of an action."""
        return key_of(self.app, name)

    def action_back(self) -> None:
        self.query_one(Filter).close()
