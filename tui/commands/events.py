"""`rankboard events`: what happened in a run, for programs."""

from __future__ import annotations

import sys

from remote.record import lock, read
from tui.app import show_run as front
from tui.app.show_run import LineOptions
from tui.flags.common import RUNS, HostsFile, RunName, RunsDir
from tui.flags.recorded import open_run, read_records
from tui.kit.exit import UNREACHABLE
from tui.kit.narrate import narrate
from tui.run.json_printer import JsonPrinter


def events(run: RunName, /, *, hosts: HostsFile = None, runs_dir: RunsDir = RUNS) -> None:
    """Print the events of a run as JSON, one object per line, and follow a live run to its end.

    The output is that of --run --json. The first line is the plan, the last one the summary.
    Ctrl+C ends this command; the run continues.

    Examples:
      rankboard events last
      rankboard events last | jq 'select(.event == "step") | .loss'
    """
    with open_run(run, hosts, runs_dir) as (launcher, kept_plan):
        folder = launcher.runs_dir / kept_plan.plan.run
        detached = not (lock.launcher(folder) or read.verdict(folder))
        if detached and not kept_plan.refusal:  # its hosts have more
            session = launcher.attach(kept_plan)
            raise SystemExit(front.watch(launcher, session, LineOptions(json=True, leaves=True)))
        show = JsonPrinter(sys.stdout, sys.stderr, folder=folder)
        state = show.replay(read_records(launcher, kept_plan.plan, follow=True), kept_plan.plan)
        show.summarize(state)
        if detached and not state.verdict:
            narrate(kept_plan.refusal)
            raise SystemExit(UNREACHABLE)
