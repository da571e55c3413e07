"""`rankboard events`: what happened in a run, for programs."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import typer

from remote.record import lock, read
from tui.commands.attach import (
    UNREACHABLE,
    HostsFile,
    Run,
    RunsDir,
    Watch,
    narrate,
    reached,
    records_of,
)
from tui.text.headless import JsonPrinter


def events_command(watch: Watch) -> Callable[..., None]:
    """The command `events`, with the front ends as `attach_command` takes them."""

    def events(run: Run, hosts: HostsFile = None, runs_dir: RunsDir = Path("runs")) -> None:
        """Print the events of a run as JSON, one object per line, like --run --json; follow a live
        run to its end.

        The first line has the plan, the last one the summary. Ctrl+C ends this command; the run
        continues.

        Examples:
          rankboard events last
          rankboard events last | jq 'select(.event == "step") | .loss'
        """
        with reached(run, hosts, runs_dir) as (launcher, kept):
            folder = launcher.runs_dir / kept.plan.run
            left = not (lock.launcher(folder) or read.verdict(folder))
            if left and not kept.refusal:  # its hosts have more
                raise typer.Exit(watch(launcher, launcher.attach(kept), True, True, True))
            show = JsonPrinter(sys.stdout, sys.stderr, folder=folder)
            state = show.replay(records_of(launcher, kept.plan, follow=True), kept.plan)
            show.summarize(state)
            if left and not state.verdict:
                narrate(kept.refusal)
                raise typer.Exit(UNREACHABLE)

    return events
