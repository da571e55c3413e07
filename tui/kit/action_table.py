"""The rows of all actions, by the names of `KeyPlace`. They become `tui.kit.actions.ACTIONS`."""

from __future__ import annotations

SHOWN = "shown"
PRIORITY = "priority"
FIXED = "fixed"
"""What may stand behind the five texts of a row: the line of keys shows the action, its keys work
in text fields, too, or nobody can change its keys."""
Row = tuple[str, ...]
"""The fields of `Action` in order, but its traits by their names behind them."""

QUIT = (
    "quit",
    "q",
    "app.quit",
    "Quit",
    "quit; asks first while a run is live: watch, detach or stop",
    SHOWN,
)
HELP = ("help", "?,f1", "app.help", "Help", "show the keys that work here, then all others", SHOWN)
BACK = ("back", "esc", "back", "Back", "leave one layer: a search, a cursor, a zoom, a page", SHOWN)
CLOSE = ("close", "q", "back", "Back", "close this page")
SCREENSHOT = (
    "screenshot",
    "e",
    "app.screenshot",
    "Screenshot",
    "save the screen as SVG in the run's folder",
    SHOWN,
)
ZOOM = (
    "zoom",
    "z",
    "zoom",
    "Zoom",
    "zoom the focused panel to the whole screen, and back",
    SHOWN,
)
KEEP_LAYOUT = (
    "keep-layout",
    "ctrl+s",
    "keep_layout",
    "Keep this layout",
    "remember these charts and their views for runs of this kind",
)
PIN = (
    "pin",
    "p",
    "pin",
    "Pin",
    "pin the run as the baseline of all charts, or take its pin away; of compared runs, run A",
)
RESET_CHARTS = (
    "reset-charts",
    "ctrl+r",
    "reset_charts",
    "Reset charts",
    "show the standard charts again, and forget a layout that was kept",
)
LOG_Y = ("log-y", "l", "log_y", "Log y", "make the y axis logarithmic, or linear again", SHOWN)
COPY_COMMAND = (
    "copy-run-command",
    "y",
    "copy_command",
    "Copy command",
    "copy the command line that starts such a run; on a run, first the one that its verdict names",
)
NEW_RUN = (
    "new-run",
    "n",
    "new",
    "New run",
    "open the form for a new run; on a run, once it has ended",
    SHOWN,
)
RESUME = (
    "resume",
    "R",
    "resume",
    "Resume",
    "resume the run from its newest checkpoint; on a run, once it has ended",
    SHOWN,
)
CHECKS = ("checks", "D", "checks", "Doctor", "show the checks of the hosts", SHOWN)
START = ("start", "f5,ctrl+s", "start", "Start", "start the run", SHOWN, PRIORITY)
LEAVE_OUT = (
    "leave-host-out",
    "h",
    "leave_out",
    "Leave out",
    "leave the host out that the checks warn of",
)
OPEN = ("open", "enter", "open", "Open", "open the selected row", SHOWN)
MOVES = (
    ("next-choice", "j", "move('cursor_down')", "Down", "go down"),
    ("previous-choice", "k", "move('cursor_up')", "Up", "go up"),
)

ROW_MOVES = (
    ("up", "up,k", "move(-1)", "Up", "go up"),
    ("down", "down,j", "move(1)", "Down", "go down"),
    ("page-up", "pageup", "page(-1)", "Page up", "go up by a page"),
    ("page-down", "pagedown", "page(1)", "Page down", "go down by a page"),
    ("top", "home,g", "move_to(0)", "Top", "go to the first one"),
    ("bottom", "end,G", "move_to(-1)", "Bottom", "go to the last one"),
)

TABLE: dict[str, tuple[Row, ...]] = {
    "HOME": (
        OPEN,
        NEW_RUN,
        ("filter", "/", "filter", "Filter", "filter the list, as rankboard runs does", SHOWN),
        ("sort-runs", "o", "order", "Sort", "sort by the next column", SHOWN),
        ("refresh", "r,f5", "refresh", "Refresh", "read the list again, and ask the hosts", SHOWN),
        ("all-runs", "v", "all", "All", "list runs that made no step, too, or hide them", SHOWN),
        ("next-needy", "!", "next_needy", "Next that needs you", "go to the next that needs you"),
        ("unfold", "right", "unfold", "Unfold", "list the runs of the study below it"),
        ("fold-study", "left", "fold", "Fold", "list the study as one row"),
        ("mark", "space", "mark", "Mark", "mark the run for a comparison"),
        ("compare", "C", "compare", "Compare", "compare the marked runs, two to eight", SHOWN),
        ("star", "s", "star", "Star", "star the run, or remove its star", SHOWN),
        ("note", "t", "note", "Note", "write a note on the run"),
        ("name", "a", "name", "Name", "name the run"),
        PIN,
        RESUME,
        COPY_COMMAND,
        ("delete", "d,delete", "delete", "Delete", "delete the run here and on its hosts", SHOWN),
        BACK,
        HELP,
        QUIT,
        SCREENSHOT,
    ),
    "RUN": (
        BACK,
        QUIT,
        HELP,
        ("charts", "c", "charts", "Charts", "list all charts, to choose one or several", SHOWN),
        ("charts-after", "]", "page_charts(1)", "More charts", "show the next charts of the run"),
        (
            "charts-before",
            "[",
            "page_charts(-1)",
            "Charts before",
            "show the charts of the run before these",
        ),
        KEEP_LAYOUT,
        RESET_CHARTS,
        PIN,
        ("note-step", "m", "note_step", "Note", "note something at the step of the cursor, or now"),
        ZOOM,
        ("stacks", "s", "stacks", "Stacks", "show the Python stack of every rank", SHOWN),
        (
            "compare-with",
            "C",
            "compare",
            "Compare",
            "compare with another run: most alike first",
            SHOWN,
        ),
        ("play", "space", "play", "Play", "play the replay, or pause it", SHOWN),
        ("slower", "<", "speed(-1)", "Slower", "replay at half the speed", SHOWN),
        ("faster", ">", "speed(1)", "Faster", "replay at twice the speed", SHOWN),
        NEW_RUN,
        RESUME,
        COPY_COMMAND,
        ("alerts", "!", "alerts", "Alerts", "list all alerts of the run", SHOWN),
        CHECKS,
        SCREENSHOT,
        ("hide-alerts", "a", "acknowledge", "Hide alerts", "hide the alerts that are shown"),
        ("home", "H", "home", "Home", "go to the list of all runs"),
        ("next-run", "ctrl+pagedown", "other(1)", "Next run", "show the next run", PRIORITY),
        (
            "previous-run",
            "ctrl+pageup",
            "other(-1)",
            "Previous run",
            "show the previous run",
            PRIORITY,
        ),
        *(
            # One digit is one key, so a tenth panel has none.
            (f"panel-{n}", str(n), f"panel({n})", f"Panel {n}", "go to that panel")
            for n in range(1, 10)
        ),
    ),
    "SLIDER": (
        ("earlier", "left,h", "jump(-0.01)", "Earlier", "jump back by 1%"),
        ("later", "right", "jump(0.01)", "Later", "jump forward by 1%"),
        ("much-earlier", "pageup", "jump(-0.1)", "Much earlier", "jump back by 10%"),
        ("much-later", "pagedown", "jump(0.1)", "Much later", "jump forward by 10%"),
        ("beginning", "home", "jump(-1)", "Beginning", "go to the beginning of the run"),
        ("end", "end", "jump(1)", "End", "go to the end of the run"),
    ),
    "CHART_LIST": (
        BACK,
        ("chart-above", "up", "move('cursor_up')", "Up", "go up"),
        ("chart-below", "down", "move('cursor_down')", "Down", "go down"),
        ("grid", "ctrl+g", "grid", "Grid", "show all charts that match as a grid"),
        KEEP_LAYOUT,
        RESET_CHARTS,
    ),
    "GRID": (
        BACK,
        CLOSE,
        HELP,
        ZOOM,
        ("page-after", "],pagedown", "page(1)", "Next page", "show the next charts", SHOWN),
        ("page-before", "[,pageup", "page(-1)", "Page before", "show the charts before", SHOWN),
        SCREENSHOT,
    ),
    "RANK": (
        BACK,
        CLOSE,
        HELP,
        ("rank-after", "right", "rank(1)", "Next rank", "go to the next rank", SHOWN),
        ("rank-before", "left", "rank(-1)", "Previous rank", "go to the previous rank"),
        ("stack", "s", "stack", "Stack", "ask the rank for its Python stack, and show it", SHOWN),
        ("chart-of-rank", "c", "chart", "Chart", "show the next chart of the rank", SHOWN),
        SCREENSHOT,
    ),
    "RANKS": (("sort", "o", "sort", "Sort", "sort the ranks by the next column", SHOWN),),
    "ROWS": (
        (
            "open-rank",
            "enter",
            "open",
            "Open",
            "open the page of the rank, or the ranks of the host",
            SHOWN,
        ),
        *ROW_MOVES,
    ),
    "HOSTS": (),
    "MAP": (
        (
            "one-step",
            "x",
            "one_step",
            "One step",
            "show one step of each rank, or all steps",
            SHOWN,
        ),
    ),
    "CHART": (
        (
            "band",
            "b",
            "band",
            "Band",
            "show mean and band, all ranks, or one against the mean",
            SHOWN,
        ),
        ("x-axis", "x", "x_axis", "X axis", "x axis by steps, epochs, time or samples", SHOWN),
        LOG_Y,
        ("log-x", "L", "log_x", "Log x", "make the x axis logarithmic, or linear again"),
        ("smoother", "+,=", "smooth(1)", "Smoother", "smooth the curves more"),
        ("rougher", "-", "smooth(-1)", "Rougher", "smooth the curves less"),
        ("cursor-right", "right", "cursor(1)", "Cursor", "show the values of the next point"),
        (
            "cursor-left",
            "left",
            "cursor(-1)",
            "Cursor left",
            "show the values of the previous point",
        ),
        ("zoom-in", "up", "zoom_x(2.0)", "Zoom in", "zoom in along x; the mouse wheel zooms, too"),
        ("zoom-out", "down", "zoom_x(0.5)", "Zoom out", "zoom out along x"),
        ("pan-right", "}", "pan(0.5)", "Pan right", "move right; dragging moves, too"),
        ("pan-left", "{", "pan(-0.5)", "Pan left", "move left"),
        ("zoom-reset", "0", "whole", "Whole", "show the whole x axis"),
        ("live", ".", "live", "Live", "follow the newest steps"),
        (
            "export",
            "w",
            "export",
            "Export",
            "save the chart as CSV and, with the extra report, SVG and PNG",
        ),
        (
            "marks",
            "M",
            "marks",
            "Marks",
            "show or hide marks: E epoch, T test, C checkpoint, R restart, S stall, N note",
        ),
    ),
    "LOG": (
        ("all-lines", "v", "news", "News/all", "show all lines, or only news", SHOWN),
        ("find", "/", "find", "Find", "search with a regular expression", SHOWN),
        ("next-match", "n", "next(1)", "Next", "go to the next match", SHOWN),
        ("previous-match", "N", "next(-1)", "Previous", "go to the previous match"),
        ("filter-log", "&", "only", "Filter", "show only lines that match a regular expression"),
        ("first-error", "E", "first_error", "Error", "go to where the run went wrong", SHOWN),
        ("next-rank", "r", "next_rank", "Rank", "show the log of the next rank only", SHOWN),
        ("all-ranks", "A", "all_ranks", "All ranks", "show the log of all ranks"),
        ("follow", "f", "follow", "Follow", "follow the log, or pause; scrolling up pauses", SHOWN),
        ("level", "L", "level", "Level", "show warnings and errors, errors, or all"),
        ("wrap", "w", "wrap", "Wrap", "wrap long lines, or cut them off"),
        ("times", "t", "times", "Times", "show or hide the time of each line"),
        (
            "copy-log",
            "y",
            "copy",
            "Copy",
            "copy the selection or the current line; zoomed, without them, the lines in view",
        ),
        ("save-log", "W", "save", "Save", "save the lines as a file in the run's folder"),
        ("leave-log", "esc", "leave", "Leave", "clear the search, then each filter", SHOWN),
    ),
    "STACKS": (
        BACK,
        CLOSE,
        HELP,
        ("ask-again", "s", "ask", "Ask again", "ask the ranks for their stacks again", SHOWN),
        ("next-stack", "r", "rank(1)", "Next rank", "show the stack of the next rank only", SHOWN),
        ("all-stacks", "R", "rank(0)", "All ranks", "show the stacks of all ranks", SHOWN),
        SCREENSHOT,
    ),
    "CHECKS": (
        BACK,
        CLOSE,
        HELP,
        START,
        LEAVE_OUT,
        ("passed-checks", "v", "passed", "All checks", "list all checks, or only findings", SHOWN),
        ("check-again", "r", "again", "Check again", "check the hosts again", SHOWN),
        ("copy-remedy", "y", "copy", "Copy", "copy the command that helps", SHOWN),
        SCREENSHOT,
    ),
    "FIELD": (
        (
            "edit",
            "enter",
            "open",
            "Edit",
            "edit the field, open its choices, tick or fold it",
            SHOWN,
        ),
        ("fold", "space", "fold", "Fold", "tick a host or a switch, fold a group"),
        ("next-value", "right", "turn(1)", "Next", "take the next choice, or unfold the group"),
        (
            "previous-value",
            "left",
            "turn(-1)",
            "Previous",
            "take the previous choice, or fold the group",
        ),
        ("reset", "r,delete", "reset", "Reset", "reset the field to its default"),
    ),
    "FORM": (
        BACK,
        (
            "quit-form",
            "q",
            "quit",
            "Quit",
            "quit; asks first if settings were changed or a run is live",
            SHOWN,
        ),
        HELP,
        START,
        LEAVE_OUT,
        ("check", "c,f2", "check", "Check", "check the hosts for this job; start nothing", SHOWN),
        ("presets", "p", "presets", "Presets", "list presets, and the jobs of recent runs", SHOWN),
        ("save-preset", "w", "save", "Save", "save the settings as a preset", SHOWN),
        ("copy-command", "y", "copy", "Copy", "copy the command line of the run", SHOWN),
        CHECKS,
    ),
    "CHOICE": (BACK, CLOSE, *MOVES),
    "PRESETS": (
        BACK,
        CLOSE,
        *MOVES,
        ("delete-preset", "delete,d", "delete", "Delete", "delete the preset"),
    ),
    "STUDY": (
        BACK,
        QUIT,
        HELP,
        OPEN,
        ("cell", "d", "cell", "Runs of the cell", "list the runs of the chosen cell", SHOWN),
        ("retry", "R", "retry", "Retry", "make the failed runs of the study again", SHOWN),
        SCREENSHOT,
    ),
    "CELL": (BACK, CLOSE, HELP, OPEN, SCREENSHOT),
    "COMPARE": (
        BACK,
        QUIT,
        HELP,
        ("open-best", "enter", "open", "Open", "open the best of the compared runs", SHOWN),
        (
            "step-or-time",
            "x",
            "along",
            "Step or time",
            "show the curves by wall time, or by step",
            SHOWN,
        ),
        (
            "next-figure",
            "c",
            "measure",
            "Loss or accuracy",
            "show the loss, or the accuracy",
            SHOWN,
        ),
        LOG_Y,
        COPY_COMMAND,
        PIN,
        SCREENSHOT,
    ),
    "LIST": ROW_MOVES,
    "TEXT": (BACK, ("done", "q,enter,?,f1", "back", "Back", "close it")),
    "DIALOG": (
        BACK,
        ("detach", "d", "answer('detach')", "Detach", "leave the run; it continues"),
        ("leave-now", "q", "answer('now')", "Leave now", "do not wait for the end"),
        ("next-answer", "right,down,l", "app.focus_next", "Next", "go to the next answer"),
        (
            "previous-answer",
            "left,up,h",
            "app.focus_previous",
            "Previous",
            "go to the previous answer",
        ),
    ),
    "EVERYWHERE": (
        (
            # Fixed, so that there is a way out of every place, whatever `keys.toml` says.
            "leave",
            "ctrl+q",
            "app.quit",
            "Quit",
            "quit, also from a field; asks first while a run is live",
            SHOWN,
            PRIORITY,
            FIXED,
        ),
        (
            "interrupt",
            "ctrl+c",
            "app.interrupt",
            "Quit",
            "copy the selected text; without any, quit as well, of an ended run the second time",
            PRIORITY,
            FIXED,
        ),
        ("commands", "ctrl+p", "app.command_palette", "Commands", "list all commands", PRIORITY),
        (
            "next-theme",
            "T",
            "app.next_theme",
            "Next theme",
            "take the next theme: dark, light, high contrast; it is remembered",
        ),
        ("next", "tab", "app.focus_next", "Next", "go to the next panel or field", FIXED),
        (
            "previous",
            "shift+tab",
            "app.focus_previous",
            "Previous",
            "go to the previous one",
            FIXED,
        ),
    ),
}

OTHER_WORDS = {
    "quit": ("Stop the run", "Detach", "Exit"),
    "alerts": ("Warnings",),
    "export": ("Save the chart",),
}
"""Other words by which the list of commands finds actions, by their names."""
