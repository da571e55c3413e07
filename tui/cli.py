"""The command line: all commands of `rankboard`."""

from __future__ import annotations

import sys

import typer

from tui import palette
from tui.commands import (
    attach,
    compare,
    doctor,
    events,
    export,
    lab,
    logs,
    prune,
    ps,
    report,
    run,
    runs,
    setup,
    stop,
    study,
    trust,
)
from tui.flags.job import with_job_flags
from tui.flags.policy import with_policy_flags
from tui.flags.selection import with_host_flags
from tui.text.usage import Command, Rankboard


def main() -> None:
    """Run the `rankboard` command."""
    palette.make_fit(sys.stdout, sys.stderr)
    application()()


def application() -> typer.Typer:
    """Build the command line."""
    app = typer.Typer(cls=Rankboard, add_completion=False, pretty_exceptions_enable=False)
    settings = {"help_option_names": ["-h", "--help"]}
    app.callback(invoke_without_command=True, context_settings=settings)(
        with_job_flags(with_policy_flags(with_host_flags(run.run)))
    )
    app.add_typer(lab.app, name="lab")
    for name, command in (
        ("doctor", with_job_flags(with_host_flags(doctor.doctor))),
        ("study", with_job_flags(with_host_flags(study.study))),
        ("trust", trust.trust),
        ("ps", ps.ps),
        ("runs", runs.runs),
        ("prune", prune.prune),
        ("setup", setup.setup),
        ("attach", attach.attach),
        ("stop", stop.stop),
        ("logs", logs.logs),
        ("events", events.events),
        ("compare", compare.compare),
        ("export", export.export),
        ("report", report.report),
    ):
        app.command(name, cls=Command, context_settings=settings)(command)
    return app
