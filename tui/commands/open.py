"""`rankboard open`: look at a recorded run again, and replay it."""

from __future__ import annotations

import typer

from tui import front
from tui.exit import refusing
from tui.flags.common import RUNS, Ascii, HostsFile, Run, RunsDir


def open(
    run: Run, hosts: HostsFile = None, ascii_only: Ascii = False, runs_dir: RunsDir = RUNS
) -> None:
    """Open a run: an ended one with a time slider that replays it, a live one as attach does.

    The replay begins at the end of the run. Space plays and pauses, < and > change the speed; the
    arrow keys, page up, page down, home and end move through the run. A live run that another
    rankboard records is watched: it is not changed.

    Examples:
      rankboard open last
      rankboard open 20261120-0930
    """
    with front.quiet():
        with refusing():
            front.check_terminal()
            from tui.history import History  # after the terminal is quiet: it takes a moment

            history = History(runs_dir, hosts)
            session = history.open(run)
        code = front.show_opened(history.launcher(session.plan), session)
    raise typer.Exit(code)
