"""`rankboard doctor`: checks the hosts for a run as its start would, and starts nothing."""

from __future__ import annotations

import shutil
import signal
import sys
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Any

import typer

from remote.launch import Launcher
from remote.record import resume
from remote.run.findings.start_waits import REACHING, Wait, waiting
from remote.session.examination import Examination
from remote.transport.registry import is_here
from training.wire.jsonl import dumps
from tui.doctor import checks
from tui.flags import arguments, selection, torchrun
from tui.flags import script as scripts
from tui.flags.common import RUNS, RunsDir
from tui.flags.job import with_job_flags
from tui.flags.mistakes import Mistakes, check_job
from tui.flags.selection import with_host_flags
from tui.kit.exit import refusing
from tui.kit.narrate import narrate
from tui.kit.session_clock import SessionClock
from tui.kit.text_table import GAP
from tui.run import outcome


@with_job_flags
@with_host_flags
def doctor(
    context: typer.Context,
    program: Annotated[
        list[str] | None,
        typer.Argument(metavar="-- PROGRAM", help="check the hosts for your own program"),
    ] = None,
    host_flags: Mapping[str, Any] = MappingProxyType({}),
    cwd: Annotated[
        str, typer.Option(metavar="PATH", help="the folder on the hosts that the program works in")
    ] = "",
    upload: Annotated[
        list[Path] | None,
        typer.Option(
            metavar="PATH",
            help="check for a run with this --upload: the program is looked for here, and nothing "
            "is sent (repeatable)",
        ),
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="print one JSON object per check")] = False,
    runs_dir: RunsDir = RUNS,
    **job_flags: Any,
) -> None:
    """Check whether the hosts are ready for a run, and say how to fix what is not.

    Nothing is started; only rankboard's own code is copied to the hosts. Every start makes the same
    checks; --no-doctor skips them. With job options, doctor also checks that job; with a program,
    it checks that the program exists and can be started.

    Examples:
      rankboard doctor
      rankboard doctor --hosts other.toml --only node1,node2
      rankboard doctor --dataset cifar10
      rankboard doctor -- train.py
      rankboard doctor --upload . -- train.py

    Exit codes:
      0    no check failed
      2    a check failed, or the command line is wrong
      3    a host could not be reached
      130  stopped by the user
    """
    with refusing():
        line = torchrun.read(program) if program else torchrun.Line()
        named = torchrun.hosts(line, host_flags)
        mistakes = Mistakes(context.meta[arguments.KEY])
        with mistakes.noting():
            check_job({} if program else job_flags)
        with mistakes.noting("--local", "--slots"):
            selection.check(named, upload or ())
        if mistakes:
            with mistakes.noting("--local"):
                selection.check_file(named)
        mistakes.refuse()
        chosen = selection.selection(named, upload or ())
        local = is_here(chosen.cluster.hosts)
        hosts = torchrun.on_hosts(line, scripts.with_cwd(chosen.hosts, cwd), local=local)
        script = scripts.script(line.words, {**scripts.USUAL, "cwd": cwd}, job_flags)
        work = script or resume.job_of(job_flags, runs_dir, local)
        with selection.transports(chosen) as transports:
            launcher = Launcher(transports, runs_dir.absolute())
            code = _examine(launcher.check(launcher.plan(hosts, work)), json)
    raise SystemExit(code)


def _examine(examination: Examination, json: bool) -> int:
    """Run the checks and print what they found; return the exit code."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda number, _: examination.stop(outcome.interruption(number)))
    clock = SessionClock()
    said = ""
    for _ in examination.batches():
        reached = not any(host.phase in REACHING for host in examination.state.hosts)
        waits = () if reached else waiting(examination.state, clock.now(examination.state))
        who = ", ".join(wait.who for wait in waits)
        if who and who != said:
            narrate(*map(Wait.text, waits))
        said = who
    with suppress(OSError):  # a reader that went away
        _print(examination, json)
    return checks.code(examination.state)


def _print(examination: Examination, json: bool) -> None:
    state = examination.state
    if json:
        for one in checks.objects(state):
            sys.stdout.write(dumps(one) + "\n")
    else:
        for line in checks.table(state, shutil.get_terminal_size().columns) if state.checks else ():
            sys.stdout.write(GAP.join(text for _, text in line).rstrip() + "\n")
        for check in checks.problems(state):
            sys.stdout.write("\n".join(checks.describe(state, check)) + "\n")
    sys.stdout.flush()
    narrate(checks.verdict(state))
