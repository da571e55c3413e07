"""`rankboard study`: make all runs of a study, one after the other, and say what came out."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Any

import typer

from remote.launch import Launcher
from remote.plan.plan import Policy
from remote.study import start
from remote.study.file import bundled, parse
from remote.study.places import Places
from remote.study.progress import Progress
from remote.study.reader import StudyError
from remote.study.runner import Runner
from remote.transport.registry import Transports
from tui.app import show_run as front
from tui.app import show_study as study_front
from tui.flags import arguments, selection
from tui.flags.common import RUNS, Ascii, RunsDir
from tui.flags.job import with_job_flags
from tui.flags.mistakes import Mistakes, check_job
from tui.flags.selection import with_host_flags
from tui.kit.exit import FAILED, STOPPED, UsageError, refusing
from tui.kit.narrate import narrate
from tui.kit.text_table import print_table
from tui.study.text.plan import describe


@with_job_flags
@with_host_flags
def study(
    context: typer.Context,
    name: Annotated[
        str,
        typer.Argument(
            metavar="[STUDY]", help="a study file, a bundled study, or a study to continue"
        ),
    ] = "",
    host_flags: Mapping[str, Any] = MappingProxyType({}),
    quick: Annotated[
        bool, typer.Option("--quick", help="make the short variant: at most 5 minutes on 2 cores")
    ] = False,
    until_stable: Annotated[
        float | None,
        typer.Option(
            metavar="PERCENT",
            min=0.01,
            help="repeat each cell until its 95% interval is at most ± this percentage",
        ),
    ] = None,
    as_lines: Annotated[
        bool, typer.Option("--run", help="run without the dashboard, and print lines")
    ] = False,
    dry_run: Annotated[
        bool,
        typer.Option("--dry-run", help="print the settings, the runs and how long they may take"),
    ] = False,
    json: Annotated[
        bool,
        typer.Option(
            "--json",
            help="with --run: print an object when a run begins or ends, and the results; with "
            "--dry-run: an object per run",
        ),
    ] = False,
    new: Annotated[
        bool, typer.Option("--new", help="start over; keep earlier results under another name")
    ] = False,
    ascii_only: Ascii = False,
    runs_dir: RunsDir = RUNS,
    **job_flags: Any,
) -> None:
    """Make all runs of a study, and report the result.

    A study varies settings, such as the sync method and the number of hosts, and repeats each
    combination. It opens the dashboard; with --run, it prints lines instead. Ctrl+C stops it; the
    same command continues it. Without a name, the bundled studies are listed. Job options override
    those of the study.

    Examples:
      rankboard study
      rankboard study four-ways --local 4 --link 1gbit --cpus 0.5
      rankboard study nodes --hosts hosts.toml --quick --run
      rankboard study my-study.toml --local 4 --dry-run

    Exit codes:
      0    every run of the study is there
      1    a run failed; the same command tries it again
      2    refused before the start: a mistake in the study, the hosts or the command line
      130  stopped by the user
    """
    mistakes = Mistakes(context.meta[arguments.KEY])
    if not name:
        with refusing():
            mistakes.refuse()
        _list()
        return
    with refusing():
        with mistakes.noting():
            check_job(job_flags, method="")
        with mistakes.noting():
            _check_flags(as_lines, dry_run, json)
        mistakes.refuse()
        given = {key: value for key, value in job_flags.items() if value is not None}
        folder, call = start.find(
            name, runs_dir.absolute(), given, _given_places(host_flags), quick=quick, new=new
        )
        call.study(folder.name)  # so that mistakes in the file are told before those in the hosts
        with _places(call.places) as places:
            call = replace(call, nodes=len(places.cluster.hosts))
            study = places.fitted(call.study(folder.name))
            places.check(study)
            narrate(*places.find_data(study), *places.thread_remarks(study))
            if dry_run:
                if not new:
                    start.check(folder, call)
                progress = Progress(study) if new else start.known(folder, study)
                for end in () if new else start.reread(folder, call):
                    progress.apply(end)
                whole = None
                if study.is_quick and not json:
                    with suppress(StudyError):
                        whole = places.fitted(replace(call, quick=False).study(folder.name))
                describe(study, whole, progress, places, runs_dir.absolute(), json=json)
                return
            launcher = Launcher(Transports(), runs_dir.absolute(), Policy(fetch=False))
            with start.begun(folder, call, new=new) as kept:
                if kept:
                    narrate(f"earlier results are kept as {kept}: rankboard report {kept}")
                runner = Runner(study, folder, places, launcher, (until_stable or 0.0) / 100)
                if as_lines:
                    study_front.show_lines(runner, json)
                else:
                    study_front.show_dashboard(runner)
    raise SystemExit(_code(runner))


def _list() -> None:
    """Print the bundled studies."""
    studies = [parse(name, text) for name, text in bundled().items()]
    rows = [(one.name, str(len(one.trials())), one.question) for one in studies]
    print_table(("study", "runs", "question"), rows)


def _check_flags(as_lines: bool, dry_run: bool, json: bool) -> None:
    """Raises: UsageError, where the flags do not fit, or there is no terminal for the dashboard."""
    if json and not (as_lines or dry_run):
        raise UsageError("--json needs --run")
    if not (as_lines or dry_run):
        front.check_terminal()


def _given_places(host_flags: Mapping[str, Any]) -> dict[str, Any]:
    """The options for hosts that are given, as they are kept."""
    given = {key: value for key, value in host_flags.items() if value not in (None, "", False)}
    if "hosts" in given:
        given["hosts"] = str(Path(given["hosts"]).absolute())
    return given


def _places(options: Mapping[str, Any]) -> Places:
    """The hosts of these options: with --local, N hosts of one rank each."""
    unset = dict.fromkeys(("hosts", "local", "slots", "nodes"))
    empty = dict.fromkeys(("link", "cpus", "only", "exclude", "host"), "")
    flags: dict[str, Any] = {"slurm": False, **unset, **empty, **options}
    if flags["hosts"]:
        flags["hosts"] = Path(flags["hosts"])
    link = flags.pop("link")
    cpus = flags.pop("cpus")
    if flags["local"]:
        flags["slots"] = flags["slots"] or 1
    chosen = selection.selection(flags | {"link": "", "cpus": ""})
    return Places(chosen.hosts, link, cpus)


def _code(runner: Runner) -> int:
    """The exit code: whether all runs are there."""
    progress = runner.progress
    if runner.is_refused:
        return FAILED
    if any(not progress.is_settled(trial) for trial in runner.study.trials()):
        return STOPPED
    return FAILED if any(cell.failed for cell in progress.cells.values()) else 0
