"""`rankboard watch`: a run beside its launcher, read-only."""

from __future__ import annotations

from pathlib import Path

from remote.plan.plan import Plan
from remote.record.watch import WatchedRun
from tui.flags.common import RUNS, Ascii, RunName, RunsDir
from tui.flags.recorded import recorded_here
from tui.kit.exit import UsageError, refusing
from tui.kit.narrate import narrate


def watch(run: RunName, /, *, ascii_only: Ascii = False, runs_dir: RunsDir = RUNS) -> None:
    """Watch a run that somebody else has started, beside its launcher: read-only.

    Shows the run screen from the record of the run as it grows. No key stops or changes the run.
    Any number of people may watch it. Once the run has ended, its end is shown until you quit.

    Examples:
      rankboard watch last
      rankboard watch 20261120-0930 --runs-dir /shared/runs

    Exit codes:
      0  the run finished, or you left before its end
      2  the command line is wrong, or there is no such run here
      otherwise that of the run
    """
    with refusing():
        folder, plan = recorded_here(run, runs_dir)
        code = _show(folder, plan)
    raise SystemExit(code)


def _show(folder: Path, plan: Plan) -> int:
    """Show the run until the user quits. Raises: UsageError, PlanError, RunFolderError."""
    from tui.app.show_run import is_on_terminal, print_end
    from tui.app.watch_app import WatchApp

    if not is_on_terminal():
        raise UsageError(
            "watch needs a terminal on stdin, stdout and stderr; without one, use rankboard logs "
            f"{plan.run} --follow"
        )
    watched_run = WatchedRun(folder, plan)
    app = WatchApp(watched_run)
    app.show()
    if watched_run.has_ended:
        print_end(watched_run.state)
    else:
        narrate(f"{plan.run} was left as it is")
    return app.exit_code
