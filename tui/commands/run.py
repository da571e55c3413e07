"""`rankboard` without a command: start a run, in the dashboard or with --run as lines."""

from __future__ import annotations

from typing import Annotated

from cyclopts import Parameter

from tui.flags.common import make_notifier
from tui.flags.job import JobFlags
from tui.flags.mistakes import Mistakes
from tui.flags.policy import PolicyFlags
from tui.flags.run import RunCommand, RunFlags
from tui.flags.script import ScriptFlags
from tui.flags.selection import HostFlags
from tui.flags.torchrun import ScriptLine
from tui.kit.exit import UsageError, refusing


def run(
    *,
    hosts: HostFlags = HostFlags(),
    flags: RunFlags = RunFlags(),
    script: ScriptFlags = ScriptFlags(),
    policy: PolicyFlags = PolicyFlags(),
    job: JobFlags = JobFlags(),
    line: Annotated[ScriptLine, Parameter(parse=False)],
    mistakes: Annotated[Mistakes, Parameter(parse=False)],
) -> None:
    """Launch and watch data-parallel PyTorch training across machines.

    Without options, rankboard lists all runs in the dashboard; start new ones from there. If you
    give options of the hosts, such as --local 4, it opens a form for a new run; if you give options
    of the job, it starts the run at once. --form opens the form in any case, with these options.
    With --run, rankboard prints lines instead of opening the dashboard. Everything after -- is
    your own script: rankboard starts it on all hosts, as torchrun does.

    Examples:
      rankboard                               list all runs, and start new ones
      rankboard --local 4                     open a form for 4 local ranks
      rankboard --form --lr 0.05              open a form with this learning rate
      rankboard --run --sync ring --steps 45  train on the hosts and print lines
      rankboard --run --resume last           continue the newest run
      rankboard --run -- train.py --lr 0.1    run your own script on the hosts
      rankboard --dry-run --num-hosts 2       show what would run where
      rankboard doctor                        check the hosts

    Exit codes:
      0    all ranks finished, or the run was detached
      1    a rank failed
      2    refused before the start: usage, configuration or a failed check
      3    a host could not be reached, or was lost
      130  stopped by the user
    """
    with refusing():
        with mistakes.noting():
            _check_needs_lines(flags)
        with mistakes.noting():
            _check_form(flags)
        with mistakes.noting():
            make_notifier(flags.notify)
        # The other commands do without the launcher, whose import takes time.
        from tui.app.start_run import check, start

        command = RunCommand(hosts, flags, script, policy, job.settings, line)
        check(command, mistakes)
        code = start(command)
    raise SystemExit(code)


def _check_needs_lines(flags: RunFlags) -> None:
    """Refuse flags that need --run. Raises: UsageError."""
    given_flags = {
        # With --dry-run, JSON is the plan, which needs no lines.
        "--json": flags.json and not flags.dry_run,
        "--detach": flags.detach,
        "--verbose": flags.verbose,
    }
    for flag, is_given in given_flags.items():
        if is_given and not flags.as_lines:
            raise UsageError(f"{flag} needs --run")


def _check_form(flags: RunFlags) -> None:
    """Refuse --form if no form can be shown. Raises: UsageError."""
    given_flags = {"--run": flags.as_lines, "--dry-run": flags.dry_run}
    for flag, is_given in given_flags.items():
        if flags.form and is_given:
            raise UsageError(f"--form opens the dashboard, which {flag} does without: drop one")
