"""`rankboard events`: what happened in a run, for programs."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Annotated

from cyclopts import Parameter

from remote.record import lock, read
from training.mistake import Mistake
from training.registry import suggest_names
from tui.app import show_run as front
from tui.app.show_run import LineOptions
from tui.flags.common import RUNS, HostsFile, RunName, RunsDir
from tui.flags.recorded import open_run, read_records
from tui.kit.exit import UNREACHABLE, UsageError, refusing
from tui.kit.narrate import narrate
from tui.run.json_printer import KINDS, STATE_KINDS, JsonPrinter


def events(
    run: RunName,
    /,
    *,
    event: Annotated[
        tuple[str, ...],
        Parameter(metavar="KIND", help="print only events of this kind, such as step (repeatable)"),
    ] = (),
    follow: Annotated[
        bool,
        Parameter(
            negative="--no-follow",
            help="follow a live run to its end (default: on); without, print what is recorded here",
        ),
    ] = True,
    hosts: HostsFile = None,
    runs_dir: RunsDir = RUNS,
) -> None:
    """Print the events of a run as JSON, one object per line, and follow a live run to its end.

    The output is that of --run --json. The first line is the plan, the last one the summary.
    Ctrl+C ends this command; the run continues.

    Examples:
      rankboard events last
      rankboard events last --event step | jq .loss
    """
    with refusing():
        _check_kinds(event)
    kinds = event or None
    with open_run(run, hosts, runs_dir) as (launcher, kept_plan):
        folder = launcher.runs_dir / kept_plan.plan.run
        detached = not (lock.launcher(folder) or read.verdict(folder))
        if detached and follow and not kept_plan.refusal:  # its hosts have more
            session = launcher.attach(kept_plan)
            options = LineOptions(json=True, leaves=True, kinds=kinds)
            raise SystemExit(front.watch(launcher, session, options))
        show = JsonPrinter(sys.stdout, sys.stderr, folder=folder, kinds=kinds)
        is_followed = follow and lock.launcher(folder) is not None
        if event and STATE_KINDS.issuperset(event) and not is_followed:
            state = launcher.read_state(kept_plan.plan)  # which a long run has at once
            show.tell_state(state)
        else:
            state = show.replay(read_records(launcher, kept_plan.plan, follow), kept_plan.plan)
            show.summarize(state)
        if detached and follow and not state.verdict:
            narrate(kept_plan.refusal)
            raise SystemExit(UNREACHABLE)


def _check_kinds(kinds: Sequence[str]) -> None:
    """Raises: UsageError, where there is no such kind of events."""
    mistakes = [
        Mistake("--event", kind, hint=suggest_names(kind, KINDS))
        for kind in kinds
        if kind not in KINDS
    ]
    if mistakes:
        raise UsageError("\n".join(map(str, mistakes)), mistakes)
