"""`rankboard doctor`: checks the hosts for a run as its start would, and starts nothing."""

from __future__ import annotations

import signal
import sys
from contextlib import suppress
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from remote.doctor.doctor import FAILED, OK, WARNING
from remote.launch import Launcher, find_pasted_ranks
from remote.record import resume
from remote.run.findings.start_waits import REACHING, waiting
from remote.run.run_state import RunState
from remote.session.examination import Examination
from remote.transport.registry import is_here
from training.wire.jsonl import dumps
from tui.doctor import checks
from tui.doctor.check_verdict import exclude_hosts, judge_checks
from tui.flags.common import RUNS, RunsDir
from tui.flags.job import JobFlags
from tui.flags.mistakes import Mistakes, check_job
from tui.flags.pasted import describe_line
from tui.flags.script import ScriptFlags, make_script, with_cwd
from tui.flags.selection import (
    HostFlags,
    check_host_flags,
    check_hosts_file,
    open_transports,
    select_hosts,
)
from tui.flags.torchrun import (
    ScriptLine,
    apply_to_host_flags,
    apply_to_hosts,
    parse_script_line,
)
from tui.kit import palette
from tui.kit.exit import refusing
from tui.kit.narrate import echo, narrate
from tui.kit.session_clock import SessionClock
from tui.kit.text_table import terminal_width
from tui.run import outcome

INKS = {OK: "green", WARNING: "yellow", FAILED: "bold red", checks.COMMAND: "bold"}
"""The ink of each outcome on a terminal."""


def doctor(
    program: Annotated[
        tuple[str, ...],
        Parameter(name="PROGRAM", help="after --: check the hosts for this script"),
    ] = (),
    /,
    *,
    host_flags: HostFlags = HostFlags(),
    cwd: Annotated[
        str, Parameter(metavar="PATH", help="the folder on the hosts that the script works in")
    ] = "",
    upload: Annotated[
        tuple[Path, ...],
        Parameter(
            metavar="PATH",
            help="check for a run with this --upload: the script is looked for here, and nothing "
            "is sent (repeatable)",
        ),
    ] = (),
    json: Annotated[bool, Parameter(help="print one JSON object per check")] = False,
    runs_dir: RunsDir = RUNS,
    job_flags: JobFlags = JobFlags(),
    mistakes: Annotated[Mistakes, Parameter(parse=False)],
) -> None:
    """Check whether the hosts are ready for a run, and say how to fix what is not.

    Nothing is started; only rankboard's own code is copied to the hosts. Every start makes the same
    checks; --no-doctor skips them. With job options, doctor also checks that job; with a script,
    it checks that the script exists and can be started.

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
        script_line = parse_script_line(program) if program else ScriptLine()
        named_hosts = apply_to_host_flags(script_line, host_flags)
        job = job_flags.settings
        with mistakes.noting():
            check_job({} if program else job)
        with mistakes.noting("--local", "--slots"):
            check_host_flags(named_hosts, upload)
        # Without a mistake, the selection below reads the file anyway.
        if mistakes:
            with mistakes.noting("--local"):
                check_hosts_file(named_hosts)
        mistakes.refuse()
        selection = select_hosts(named_hosts, upload)
        is_local = is_here(selection.cluster.hosts)
        hosts = apply_to_hosts(script_line, with_cwd(selection.hosts, cwd), local=is_local)
        checked_script = make_script(script_line, ScriptFlags(cwd), job)
        checked_work = checked_script or resume.job_of(job, runs_dir, is_local)
        with open_transports(selection) as transports:
            launcher = Launcher(transports, runs_dir.absolute())
            plan = launcher.plan(hosts, checked_work)
            pasted = find_pasted_ranks(plan)
            if pasted:
                narrate(*describe_line(pasted, plan.world_size))
            code = _examine(launcher.check(plan), json)
    raise SystemExit(code)


def _examine(examination: Examination, json: bool) -> int:
    """Run the checks and print what they found; return the exit code."""
    # A signal only ends the checks: what they have found until then is printed.
    for signal_number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(
            signal_number,
            lambda signal_number, _: examination.stop(outcome.describe_signal(signal_number)),
        )
    state = examination.state
    session_clock = SessionClock()
    narrated_hosts: list[str] = []
    for _ in examination.batches():
        # Before all hosts are reached, a check that takes long is a host that does not answer.
        is_reaching = any(host.phase in REACHING for host in state.hosts)
        waits = waiting(state, session_clock.now(state)) if is_reaching else ()
        waiting_hosts = [wait.subject for wait in waits]
        if waiting_hosts and waiting_hosts != narrated_hosts:
            narrate(*(wait.text() for wait in waits))
        narrated_hosts = waiting_hosts
    with suppress(OSError):  # a reader that went away
        _print_checks(state, json)
    return checks.get_exit_code(state)


def _print_checks(state: RunState, json: bool) -> None:
    if json:
        echo("".join(f"{dumps(check)}\n" for check in checks.to_objects(state)), end="")
    else:
        _print_table(state)
    narrate(describe_verdict(state))


def describe_verdict(state: RunState) -> str:
    """Return the verdict on the checks in a line, with their number."""
    verdict = judge_checks(state)
    if verdict is None:
        return checks.summarise(state)
    sign = palette.sign(checks.SIGNS[verdict.outcome])
    if verdict.outcome == OK:
        return f"{sign} {verdict.title}: ready to start"
    if verdict.outcome == WARNING and checks.get_exit_code(state) == 0:
        return (
            f"{sign} {verdict.title} ({checks.count_checks(state)}): ready to start, with "
            f"{checks.count_outcomes(state)}"
        )
    return f"{sign} {verdict.title} ({checks.summarise(state)})"


def _print_table(state: RunState) -> None:
    """Print a row per check, then what is amiss; in colour on a terminal."""
    from rich.console import Console
    from rich.text import Text

    width = terminal_width()
    lines = checks.make_table(state, width)
    problems = checks.list_problems(state)
    verdict = judge_checks(state)
    exclusion = ""
    if verdict and verdict.weak_hosts:
        exclusion = exclude_hosts(sys.argv[1:], verdict.weak_hosts)
    if lines and problems:
        lines.append([])
    for check in problems:
        lines += [[cell] for cell in checks.describe_problem(state, check, width, exclusion)]
        exclusion = ""  # it is of the first one
    # The lines are as wide as they may be, and a command that is longer stays one line.
    console = Console(markup=False, highlight=False, soft_wrap=True)
    with console.capture() as printed:
        for cells in lines:
            parts = [(text, INKS.get(outcome, "")) for outcome, text in cells]
            console.print(Text.assemble(*parts))
    echo(printed.get(), end="")
