"""`rankboard attach`: reattach to a run, from the machine that launched it or another one."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import replace
from typing import Annotated

from cyclopts import Parameter
from cyclopts.validators import Number

from remote.plan.plan import RESTARTS
from tui.app import show_run as front
from tui.app.show_run import LineOptions
from tui.flags.common import (
    RUNS,
    WHOLE_NUMBER,
    Ascii,
    HostsFile,
    Notify,
    RunName,
    RunsDir,
    make_notifier,
)
from tui.flags.recorded import open_run
from tui.kit.exit import UsageError, refusing
from tui.kit.narrate import narrate


def attach(
    run: RunName,
    /,
    *,
    hosts: HostsFile = None,
    max_restarts: Annotated[
        int | None,
        WHOLE_NUMBER,
        Parameter(
            metavar="N",
            validator=Number(gte=0, lte=RESTARTS),
            help="restart a failed run up to N times (default: the limit that it was started with "
            "here)",
        ),
    ] = None,
    as_lines: Annotated[
        bool, Parameter(name="--run", help="follow without the dashboard, and print lines")
    ] = False,
    json: Annotated[bool, Parameter(help="with --run: print one JSON object per event")] = False,
    verbose: Annotated[
        bool, Parameter(name=("--verbose", "-v"), help="with --run: print each step of the start")
    ] = False,
    notify: Notify = "",
    ascii_only: Ascii = False,
    runs_dir: RunsDir = RUNS,
) -> None:
    """Reattach to a run: replay what you missed, then follow it live.

    When you leave (Ctrl+C with --run), the run continues; rankboard stop ends it. A run that has
    ended is shown as rankboard open does.

    Examples:
      rankboard attach last
      rankboard attach --run 20261120-0930
    """
    with refusing():
        for flag, is_given in (("--json", json), ("--verbose", verbose)):
            if is_given and not as_lines:
                raise UsageError(f"{flag} needs --run")
        if not as_lines:
            front.check_terminal()  # before anything is recorded here
        notifier = make_notifier(notify)
    with (
        nullcontext() if as_lines else front.silence_terminal(),
        open_run(run, hosts, runs_dir, max_restarts) as (launcher, kept_plan),
    ):
        if not as_lines and (ended := front.find_ended(launcher, kept_plan.plan)):
            raise SystemExit(front.show_ended(launcher, ended))
        launcher = replace(launcher, notifier=notifier)
        session = launcher.attach(kept_plan)
        if kept_plan.foreign and max_restarts is None and not session.has_ended:
            narrate(
                f"you did not start {kept_plan.plan.run} here: a failed run is restarted only with "
                "--max-restarts N"
            )
        lines = LineOptions(json, leaves=True, verbose=verbose) if as_lines else None
        code = front.watch(launcher, session, lines)
    raise SystemExit(code)
