"""`rankboard` without a command: start a run, in the dashboard or with --run as lines."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Any

import typer

from tui.flags import arguments, torchrun
from tui.flags.common import RUNS, Ascii, RunsDir
from tui.flags.mistakes import Mistakes
from tui.flags.notify import Notify, notifier
from tui.flags.usage import given, option
from tui.kit.exit import UsageError, refusing
from tui.kit.narrate import echo


def print_version(wanted: bool) -> None:
    """Print the version and end."""
    if wanted:
        from importlib import metadata

        echo(f"rankboard {metadata.version('rankboard')}")
        raise SystemExit


def run(
    context: typer.Context,
    host_flags: Mapping[str, Any] = MappingProxyType({}),
    upload: Annotated[
        list[Path] | None,
        typer.Option(
            metavar="PATH",
            help="copy this folder to every host and run the ranks there (repeatable)",
        ),
    ] = None,
    as_lines: Annotated[
        bool, typer.Option("--run", help="run without the dashboard, and print lines")
    ] = False,
    form: Annotated[
        bool, typer.Option("--form", help="open the form with these options, and start nothing yet")
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="print which rank runs where, and start nothing")
    ] = False,
    json: Annotated[
        bool,
        typer.Option(
            "--json",
            help="with --run: print one JSON object per event; with --dry-run: the plan as JSON",
        ),
    ] = False,
    detach: Annotated[
        bool,
        typer.Option(
            "--detach",
            help="with --run: return once all ranks train, or your own script has made a step or "
            "run for 10 s; the run continues on the hosts",
        ),
    ] = False,
    verbose: Annotated[
        bool,
        typer.Option("--verbose", "-v", help="with --run: print each step of the start"),
    ] = False,
    notify: Notify = "",
    ascii_only: Ascii = False,
    name: Annotated[
        str, typer.Option(metavar="NAME", help="a name for the run, to find it by")
    ] = "",
    runs_dir: RunsDir = RUNS,
    version: Annotated[
        bool,
        typer.Option("--version", is_eager=True, callback=print_version, help="print the version"),
    ] = False,
    script_flags: Mapping[str, Any] = MappingProxyType({}),
    policy_flags: Mapping[str, Any] = MappingProxyType({}),
    **job_flags: Any,
) -> None:
    """Launch and watch data-parallel PyTorch training across machines.

    Without options, rankboard lists all runs in the dashboard; start new ones from there. If you
    give options of the hosts, such as --local 4, it opens a form for a new run; if you give options
    of the job, it starts the run at once. --form opens the form in any case, with these options.
    With --run, rankboard prints lines instead of opening the dashboard. Everything after -- is
    your own program: rankboard starts it on all hosts, as torchrun does.

    Examples:
      rankboard                               list all runs, and start new ones
      rankboard --local 4                     open a form for 4 local ranks
      rankboard --form --lr 0.05              open a form with this learning rate
      rankboard --run --sync ring --steps 45  train on the hosts and print lines
      rankboard --run --resume last           continue the newest run
      rankboard --run -- train.py --lr 0.1    run your own script on the hosts
      rankboard --dry-run --nodes 2           show what would run where
      rankboard doctor                        check the hosts

    Exit codes:
      0    all ranks finished, or the run was detached
      1    a rank failed
      2    refused before the start: usage, configuration or a failed check
      3    a host could not be reached, or was lost
      130  stopped by the user
    """
    mistakes = Mistakes(context.meta.get(arguments.KEY, ()))
    if context.invoked_subcommand:
        with refusing():
            mistakes.refuse()
        _refuse_flags(context)
        return
    with refusing():
        with mistakes.noting():
            _check_flags(as_lines, dry_run, json, detach, verbose)
        with mistakes.noting():
            _check_form(form, as_lines, dry_run)
        tells = None
        with mistakes.noting():
            tells = notifier(notify)
        from tui.app.start_run import (  # the launcher, which the other commands do without
            Flags,
            Options,
            check,
            start,
        )

        options = Options(
            upload or (),
            as_lines,
            dry_run,
            json,
            detach,
            verbose,
            name,
            runs_dir,
            tells,
            form,
        )
        flags = Flags(host_flags, job_flags, script_flags, policy_flags)
        line = context.meta.get(torchrun.PROGRAM, torchrun.Line())
        check(flags, line, options, mistakes)
        code = start(flags, line, options)
    raise SystemExit(code)


def _refuse_flags(context: typer.Context) -> None:
    """Refuse the options of a run before another command, which would ignore them."""
    names = ", ".join(option(context, name) for name in given(context))
    if names:
        with refusing():
            raise UsageError(
                f"{names} does not apply to {context.invoked_subcommand}; put options after the "
                "name of the command"
            )


def _check_flags(as_lines: bool, dry_run: bool, json: bool, detach: bool, verbose: bool) -> None:
    """Raises: UsageError, where an option needs --run."""
    for flag, wanted in (
        ("--json", json and not dry_run),
        ("--detach", detach),
        ("--verbose", verbose),
    ):
        if wanted and not as_lines:
            raise UsageError(f"{flag} needs --run")


def _check_form(form: bool, as_lines: bool, dry_run: bool) -> None:
    """Raises: UsageError, where there is to be a form and none can be shown."""
    for flag, wanted in (("--run", as_lines), ("--dry-run", dry_run)):
        if form and wanted:
            raise UsageError(f"--form opens the dashboard, which {flag} does without: drop one")
