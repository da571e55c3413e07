"""The table of actions: all that a key does, and where.

From it follow the keys of screens and panels, the line of keys, the help, the list of commands, and
the names in `keys.toml`, see `tui.kit.keymap`. To add an action, write it into `ACTIONS`, and give
the screen or panel of that place the method `action_CALL`.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from functools import partial

from tui.kit.key_names import parse_key


class KeyPlace(Enum):
    """Where an action works; the value is its title in the help. A screen, panel or widget names
    its own in `place`, and has its keys by `BINDINGS = bindings(place)`."""

    HOME = "list of runs"
    RUN = "run"
    SLIDER = "time slider"
    RANKS = "table of ranks"
    HOSTS = "table of hosts"
    CHART = "chart"
    LOG = "log"
    RANK = "page of a rank"
    STACKS = "stacks"
    CHECKS = "checks of the hosts"
    FIELD = "fields of the launch form"
    FORM = "launch form"
    CHOICE = "choice"
    PRESETS = "presets and recent jobs"
    STUDY = "study"
    CELL = "runs of a cell"
    COMPARE = "comparison"
    LIST = "list"
    ROWS = "row of the table of ranks"
    TEXT = "text"
    DIALOG = "question"
    EVERYWHERE = "everywhere"


WITHIN = {
    KeyPlace.LOG: KeyPlace.RUN,
    KeyPlace.CHART: KeyPlace.RUN,
    KeyPlace.RANKS: KeyPlace.RUN,
    KeyPlace.HOSTS: KeyPlace.RUN,
}
"""The screen of each panel. A key that neither the focused panel nor the screen uses is for the
first of these panels that uses it."""


@dataclass(frozen=True)
class Action:
    """What a key does."""

    name: str
    """Stands for the action in `keys.toml`."""
    keys: str
    """Its default keys, with commas between them."""
    call: str
    """Textual's action: `zoom` or `move(1)` calls `action_zoom` or `action_move` of the place,
    `app.quit` that of the app."""
    label: str
    """Its name in the list of commands and in the line of keys."""
    help: str
    shown: bool = True
    """Whether the line of keys shows it."""
    priority: bool = False
    """Whether its keys work in text fields, too."""
    fixed: bool = False
    """Whether nobody can change its keys."""
    also: tuple[str, ...] = ()
    """Other words by which the list of commands finds it."""

    @property
    def default_keys(self) -> tuple[str, ...]:
        """Return its default keys, by Textual's names."""
        return tuple(parse_key(key) for key in self.keys.split(","))


_hidden = partial(Action, shown=False)

QUIT = Action(
    "quit",
    "q",
    "app.quit",
    "Quit",
    "quit; asks first while a run is live: watch, detach or stop",
    also=("Stop the run", "Detach", "Exit"),
)
HELP = Action("help", "?,f1", "app.help", "Help", "show the keys that work here, then all others")
BACK = Action("back", "esc", "back", "Back", "leave one layer: a search, a cursor, a zoom, a page")
CLOSE = _hidden("close", "q", "back", "Back", "close this page")
SCREENSHOT = Action(
    "screenshot", "e", "app.screenshot", "Screenshot", "save the screen as SVG in the run's folder"
)
LOG_Y = Action("log-y", "l", "log_y", "Log y", "make the y axis logarithmic, or linear again")
THEME_HELP = "take the next theme: dark, light, high contrast; it is remembered"
NEW_RUN = Action(
    "new-run", "n", "new", "New run", "open the form for a new run; on a run, once it has ended"
)
CHECKS = _hidden("checks", "D", "checks", "Doctor", "show the checks of the hosts")
OPEN = Action("open", "enter", "open", "Open", "open the selected row")
MOVES = (
    _hidden("next-choice", "j", "move('cursor_down')", "Down", "go down"),
    _hidden("previous-choice", "k", "move('cursor_up')", "Up", "go up"),
)

MARKS = "show or hide marks: E epoch, T test, C checkpoint, R restart, S stall"

ROW_MOVES = (
    _hidden("up", "up,k", "move(-1)", "Up", "go up"),
    _hidden("down", "down,j", "move(1)", "Down", "go down"),
    _hidden("page-up", "pageup", "page(-1)", "Page up", "go up by a page"),
    _hidden("page-down", "pagedown", "page(1)", "Page down", "go down by a page"),
    _hidden("top", "home,g", "move_to(0)", "Top", "go to the first one"),
    _hidden("bottom", "end,G", "move_to(-1)", "Bottom", "go to the last one"),
)

ACTIONS: dict[KeyPlace, tuple[Action, ...]] = {
    KeyPlace.HOME: (
        OPEN,
        NEW_RUN,
        Action("filter", "/", "filter", "Filter", "filter the list, as rankboard runs does"),
        Action("sort-runs", "o", "order", "Sort", "sort by the next column"),
        Action("refresh", "r,f5", "refresh", "Refresh", "read the list again, and ask the hosts"),
        Action("all-runs", "v", "all", "All", "list runs that made no step, too, or hide them"),
        _hidden("mark", "space", "mark", "Mark", "mark the run for a comparison"),
        Action("compare", "C", "compare", "Compare", "compare the marked runs, two to eight"),
        Action("star", "s", "star", "Star", "star the run, or remove its star"),
        _hidden("note", "t", "note", "Note", "write a note on the run"),
        _hidden("name", "a", "name", "Name", "name the run"),
        Action("resume", "R", "resume", "Resume", "resume the run from its newest checkpoint"),
        Action("delete", "d,delete", "delete", "Delete", "delete the run here and on its hosts"),
        BACK,
        HELP,
        QUIT,
        SCREENSHOT,
    ),
    KeyPlace.RUN: (
        BACK,
        QUIT,
        HELP,
        Action("play", "space", "play", "Play", "play the replay, or pause it"),
        Action("slower", "<", "speed(-1)", "Slower", "replay at half the speed"),
        Action("faster", ">", "speed(1)", "Faster", "replay at twice the speed"),
        NEW_RUN,
        Action("next-chart", "c", "cycle", "Chart", "show the next chart, or the hosts"),
        Action("zoom", "z", "zoom", "Zoom", "zoom the focused panel to the whole screen, and back"),
        Action("stacks", "s", "stacks", "Stacks", "show the Python stack of every rank"),
        Action(
            "compare-with", "C", "compare", "Compare", "compare with another run: most alike first"
        ),
        SCREENSHOT,
        _hidden("hide-alerts", "a", "acknowledge", "Hide alerts", "hide the alerts that are shown"),
        _hidden(
            "alerts", "!", "alerts", "Alerts", "list all alerts of the run", also=("Warnings",)
        ),
        CHECKS,
        _hidden("home", "H", "home", "Home", "go to the list of all runs"),
        _hidden(  # with priority, as a log that is wide scrolls by the same keys
            "next-run", "ctrl+pagedown", "other(1)", "Next run", "show the next run", priority=True
        ),
        _hidden(
            "previous-run",
            "ctrl+pageup",
            "other(-1)",
            "Previous run",
            "show the previous run",
            priority=True,
        ),
        *(
            _hidden(f"panel-{n}", str(n), f"panel({n})", f"Panel {n}", "go to that panel")
            for n in range(1, 10)
        ),
    ),
    KeyPlace.SLIDER: (
        _hidden("earlier", "left,h", "jump(-0.01)", "Earlier", "jump back by 1%"),
        _hidden("later", "right", "jump(0.01)", "Later", "jump forward by 1%"),
        _hidden("much-earlier", "pageup", "jump(-0.1)", "Much earlier", "jump back by 10%"),
        _hidden("much-later", "pagedown", "jump(0.1)", "Much later", "jump forward by 10%"),
        _hidden("beginning", "home", "jump(-1)", "Beginning", "go to the beginning of the run"),
        _hidden("end", "end", "jump(1)", "End", "go to the end of the run"),
    ),
    KeyPlace.RANK: (
        BACK,
        CLOSE,
        HELP,
        Action("rank-after", "right", "rank(1)", "Next rank", "go to the next rank"),
        _hidden("rank-before", "left", "rank(-1)", "Previous rank", "go to the previous rank"),
        Action("stack", "s", "stack", "Stack", "ask the rank for its Python stack, and show it"),
        Action("chart-of-rank", "c", "chart", "Chart", "show the next chart of the rank"),
        SCREENSHOT,
    ),
    KeyPlace.RANKS: (Action("sort", "o", "sort", "Sort", "sort the ranks by the next column"),),
    KeyPlace.ROWS: (
        Action(
            "open-rank",
            "enter",
            "open",
            "Open",
            "open the page of the rank, or the ranks of the host",
        ),
        *ROW_MOVES,
    ),
    KeyPlace.HOSTS: (),
    KeyPlace.CHART: (
        Action(
            "band", "b", "band", "Band", "show mean and band, all ranks, or one against the mean"
        ),
        Action("x-axis", "x", "x_axis", "X axis", "x axis by steps, epochs, time or samples"),
        LOG_Y,
        _hidden("log-x", "L", "log_x", "Log x", "make the x axis logarithmic, or linear again"),
        _hidden("smoother", "+,=", "smooth(1)", "Smoother", "smooth the curves more"),
        _hidden("rougher", "-", "smooth(-1)", "Rougher", "smooth the curves less"),
        _hidden(
            "cursor-right", "right", "cursor(1)", "Cursor", "show the values of the next point"
        ),
        _hidden(
            "cursor-left",
            "left",
            "cursor(-1)",
            "Cursor left",
            "show the values of the previous point",
        ),
        _hidden(
            "zoom-in", "]", "zoom_x(2.0)", "Zoom in", "zoom in along x; the mouse wheel zooms, too"
        ),
        _hidden("zoom-out", "[", "zoom_x(0.5)", "Zoom out", "zoom out along x"),
        _hidden("pan-right", "}", "pan(0.5)", "Pan right", "move right; dragging moves, too"),
        _hidden("pan-left", "{", "pan(-0.5)", "Pan left", "move left"),
        _hidden("zoom-reset", "0", "whole", "Whole", "show the whole x axis"),
        _hidden("live", ".", "live", "Live", "follow the newest steps"),
        _hidden(
            "export",
            "w",
            "export",
            "Export",
            "save the chart as CSV and, with the extra report, SVG and PNG",
            also=("Save the chart",),
        ),
        _hidden("marks", "m", "marks", "Marks", MARKS),
    ),
    KeyPlace.LOG: (
        Action("all-lines", "v", "news", "News/all", "show all lines, or only news"),
        Action("find", "/", "find", "Find", "search with a regular expression"),
        Action("next-match", "n", "next(1)", "Next", "go to the next match"),
        _hidden("previous-match", "N", "next(-1)", "Previous", "go to the previous match"),
        _hidden(
            "filter-log", "&", "only", "Filter", "show only lines that match a regular expression"
        ),
        Action("first-error", "E", "first_error", "Error", "go to where the run went wrong"),
        Action("next-rank", "r", "next_rank", "Rank", "show the log of the next rank only"),
        _hidden("all-ranks", "R", "all_ranks", "All ranks", "show the log of all ranks"),
        Action("follow", "f", "follow", "Follow", "follow the log, or pause; scrolling up pauses"),
        _hidden("level", "L", "level", "Level", "show warnings and errors, errors, or all"),
        _hidden("wrap", "w", "wrap", "Wrap", "wrap long lines, or cut them off"),
        _hidden("times", "t", "times", "Times", "show or hide the time of each line"),
        _hidden(
            "copy-log",
            "y",
            "copy",
            "Copy",
            "copy the selection, the current line, or the lines in view",
        ),
        _hidden("save-log", "W", "save", "Save", "save the lines as a file in the run's folder"),
        Action("leave-log", "esc", "leave", "Leave", "clear the search, then each filter"),
    ),
    KeyPlace.STACKS: (
        BACK,
        CLOSE,
        HELP,
        Action("ask-again", "s", "ask", "Ask again", "ask the ranks for their stacks again"),
        Action("next-stack", "r", "rank(1)", "Next rank", "show the stack of the next rank only"),
        Action("all-stacks", "R", "rank(0)", "All ranks", "show the stacks of all ranks"),
        SCREENSHOT,
    ),
    KeyPlace.CHECKS: (
        BACK,
        CLOSE,
        HELP,
        Action("check-again", "r", "again", "Check again", "check the hosts again"),
        SCREENSHOT,
    ),
    KeyPlace.FIELD: (
        Action(
            "edit", "enter", "open", "Edit", "edit the field, open its choices, tick or fold it"
        ),
        Action("fold", "space", "fold", "Fold", "tick a host or a switch, fold a group"),
        _hidden(
            "next-value", "right", "turn(1)", "Next", "take the next choice, or unfold the group"
        ),
        _hidden(
            "previous-value",
            "left",
            "turn(-1)",
            "Previous",
            "take the previous choice, or fold the group",
        ),
        _hidden("reset", "r,delete", "reset", "Reset", "reset the field to its default"),
    ),
    KeyPlace.FORM: (
        BACK,
        HELP,
        Action("start", "f5,ctrl+s", "start", "Start", "start the run", priority=True),
        Action("check", "c,f2", "check", "Check", "check the hosts for this job; start nothing"),
        Action("presets", "p", "presets", "Presets", "list presets, and the jobs of recent runs"),
        Action("save-preset", "w", "save", "Save", "save the settings as a preset"),
        Action("copy-command", "y", "copy", "Copy", "copy the command line of the run"),
        CHECKS,
    ),
    KeyPlace.CHOICE: (BACK, CLOSE, *MOVES),
    KeyPlace.PRESETS: (
        BACK,
        CLOSE,
        *MOVES,
        _hidden("delete-preset", "delete,d", "delete", "Delete", "delete the preset"),
    ),
    KeyPlace.STUDY: (
        BACK,
        QUIT,
        HELP,
        OPEN,
        Action("cell", "d", "cell", "Runs of the cell", "list the runs of the chosen cell"),
        SCREENSHOT,
    ),
    KeyPlace.CELL: (BACK, CLOSE, HELP, OPEN, SCREENSHOT),
    KeyPlace.COMPARE: (
        BACK,
        CLOSE,
        HELP,
        Action(
            "step-or-time", "x", "along", "Step or time", "show the curves by wall time, or by step"
        ),
        Action("next-figure", "c", "measure", "Loss or accuracy", "show the loss, or the accuracy"),
        LOG_Y,
        SCREENSHOT,
    ),
    KeyPlace.LIST: ROW_MOVES,
    KeyPlace.TEXT: (BACK, _hidden("done", "q,enter,?,f1", "back", "Back", "close it")),
    KeyPlace.DIALOG: (
        BACK,
        _hidden("detach", "d", "answer('detach')", "Detach", "leave the run; it continues"),
        _hidden("leave-now", "q", "answer('now')", "Leave now", "do not wait for the end"),
        _hidden("next-answer", "right,down,l", "app.focus_next", "Next", "go to the next answer"),
        _hidden(
            "previous-answer",
            "left,up,h",
            "app.focus_previous",
            "Previous",
            "go to the previous answer",
        ),
    ),
    KeyPlace.EVERYWHERE: (
        Action(
            "leave",
            "ctrl+q",
            "app.quit",
            "Quit",
            "quit, also from a field; asks first while a run is live",
            priority=True,
            fixed=True,
        ),
        _hidden("interrupt", "ctrl+c", "app.quit", "Quit", "the same", priority=True, fixed=True),
        _hidden(
            "commands",
            "ctrl+p",
            "app.command_palette",
            "Commands",
            "list all commands",
            priority=True,
        ),
        _hidden("next-theme", "T", "app.next_theme", "Next theme", THEME_HELP),
        _hidden(
            "next", "tab", "app.focus_next", "Next", "go to the next panel or field", fixed=True
        ),
        _hidden(
            "previous",
            "shift+tab",
            "app.focus_previous",
            "Previous",
            "go to the previous one",
            fixed=True,
        ),
    ),
}

ACTIONS_BY_NAME = {action.name: action for actions in ACTIONS.values() for action in actions}
