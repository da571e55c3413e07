"""`rankboard study`: make all runs of a study, one after the other, and say what came out."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, replace
from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter
from cyclopts.validators import Number

from remote.launch import Launcher
from remote.plan.plan import Policy
from remote.study import start_study as start
from remote.study.host_pool import HostPool
from remote.study.progress import StudyProgress
from remote.study.runner import StudyRunner
from remote.study.study import StudyError
from remote.study.study_file import parse_study, read_bundled_studies
from remote.transport.registry import Transports
from tui.app import show_run as front
from tui.app import show_study as study_front
from tui.flags.common import RUNS, Ascii, RunsDir
from tui.flags.job import JobFlags
from tui.flags.mistakes import Mistakes, check_job
from tui.flags.selection import HostFlags, select_hosts
from tui.kit.exit import FAILED, STOPPED, UsageError, refusing
from tui.kit.narrate import narrate
from tui.kit.text_table import print_table
from tui.study.text.dry_run import print_dry_run


def study(
    name: Annotated[
        str,
        Parameter(name="[STUDY]", help="a study file, a bundled study, or a study to continue"),
    ] = "",
    /,
    *,
    host_flags: HostFlags = HostFlags(),
    quick: Annotated[
        bool, Parameter(help="make the short variant: at most 5 minutes on 2 cores")
    ] = False,
    until_stable: Annotated[
        float | None,
        Parameter(
            metavar="PERCENT",
            validator=Number(gte=0.01),
            help="repeat each cell until its 95% interval is at most ± this percentage",
        ),
    ] = None,
    as_lines: Annotated[
        bool, Parameter(name="--run", help="run without the dashboard, and print lines")
    ] = False,
    dry_run: Annotated[
        bool,
        Parameter(help="print the settings, the runs and how long they may take"),
    ] = False,
    json: Annotated[
        bool,
        Parameter(
            help="with --run: print an object when a run begins or ends, and the results; with "
            "--dry-run: an object per run",
        ),
    ] = False,
    new: Annotated[
        bool, Parameter(help="start over; keep earlier results under another name")
    ] = False,
    ascii_only: Ascii = False,
    runs_dir: RunsDir = RUNS,
    job_flags: JobFlags = JobFlags(),
    mistakes: Annotated[Mistakes, Parameter(parse=False)],
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
    if not name:
        with refusing():
            mistakes.refuse()
        _list()
        return
    with refusing():
        with mistakes.noting():
            check_job(job_flags.settings, method="")
        with mistakes.noting():
            _check_flags(as_lines, dry_run, json)
        mistakes.refuse()
        folder, call = start.find_study(
            name,
            runs_dir.absolute(),
            job_flags.settings,
            _to_places(host_flags),
            quick=quick,
            new=new,
        )
        call.study(folder.name)  # so that mistakes in the file are told before those in the hosts
        with _from_places(call.places) as places:
            call = replace(call, num_hosts=len(places.cluster.hosts))
            study = places.fitted(call.study(folder.name))
            places.check(study)
            narrate(*places.find_data(study), *places.thread_remarks(study))
            if dry_run:
                if not new:
                    start.check_unchanged(folder, call)
                progress = StudyProgress(study) if new else start.read_progress(folder, study)
                for end in () if new else start.find_recovered_runs(folder, call):
                    progress.apply(end)
                whole = None
                if study.is_quick and not json:
                    with suppress(StudyError):
                        whole = places.fitted(replace(call, quick=False).study(folder.name))
                print_dry_run(study, whole, progress, places, runs_dir.absolute(), json=json)
                return
            launcher = Launcher(Transports(), runs_dir.absolute(), Policy(fetch=False))
            with start.hold_study(folder, call, new=new) as kept:
                if kept:
                    narrate(f"earlier results are kept as {kept}: rankboard report {kept}")
                runner = StudyRunner(study, folder, places, launcher, (until_stable or 0.0) / 100)
                if as_lines:
                    study_front.show_lines(runner, json)
                else:
                    study_front.show_dashboard(runner)
    raise SystemExit(_code(runner))


def _list() -> None:
    """Print the bundled studies."""
    studies = [parse_study(name, text) for name, text in read_bundled_studies().items()]
    rows = [(one.name, str(len(one.trials())), one.question) for one in studies]
    print_table(("study", "runs", "question"), rows)


def _check_flags(as_lines: bool, dry_run: bool, json: bool) -> None:
    """Raises: UsageError, where the flags do not fit, or there is no terminal for the dashboard."""
    if json and not (as_lines or dry_run):
        raise UsageError("--json needs --run")
    if not (as_lines or dry_run):
        front.check_terminal()


def _to_places(flags: HostFlags) -> dict[str, Any]:
    """Return the flags for hosts that are given, as a study keeps them."""
    places = asdict(flags)
    places["nodes"] = places.pop("num_hosts")
    if flags.hosts:
        places["hosts"] = str(flags.hosts.absolute())
    return {key: value for key, value in places.items() if value not in (None, "", False)}


def _from_places(options: Mapping[str, Any]) -> HostPool:
    """Select the hosts of flags as a study keeps them; with --local N, N hosts of one rank each."""
    places = dict(options)
    link = places.pop("link", "")
    cpus = places.pop("cpus", "")
    if "hosts" in places:
        places["hosts"] = Path(places["hosts"])
    flags = HostFlags(num_hosts=places.pop("nodes", None), **places)
    if flags.local:
        flags = replace(flags, slots=flags.slots or 1)
    return HostPool(select_hosts(flags).hosts, link, cpus)


def _code(runner: StudyRunner) -> int:
    """The exit code: whether all runs are there."""
    progress = runner.progress
    if runner.is_refused:
        return FAILED
    if any(not progress.is_settled(trial) for trial in runner.study.trials()):
        return STOPPED
    return FAILED if any(cell.failed for cell in progress.cells.values()) else 0
