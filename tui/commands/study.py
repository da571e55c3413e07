"""`rankboard study`: make all runs of a study, one after the other, and print the results."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter
from cyclopts.validators import Number

from remote.launch import Launcher
from remote.plan.plan import Policy
from remote.study import start_study as start
from remote.study.folder import StudyCall, StudyFolder
from remote.study.host_pool import HostPool
from remote.study.length import TrainingLength, lengthen
from remote.study.progress import StudyProgress
from remote.study.repeat import to_flags
from remote.study.runner import StudyRunner
from remote.study.study_file import parse_study, read_bundled_studies
from remote.transport.registry import Transports
from tui.app import show_study
from tui.app.show_run import check_terminal
from tui.flags.common import RUNS, Ascii, RunsDir
from tui.flags.job import JobFlags
from tui.flags.mistakes import Mistakes, check_job
from tui.flags.pasted import describe_line
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
    with refusing():
        if not name:
            mistakes.refuse()
            _list_bundled()
            return
        with mistakes.noting():
            check_job(job_flags.settings, method="")
        with mistakes.noting():
            _check_flags(as_lines, dry_run, json)
        mistakes.refuse()
        folder, study_call = start.find_study(
            name,
            runs_dir.absolute(),
            job_flags.settings,
            _to_settings(host_flags),
            quick=quick,
            new=new,
        )
        study_call = replace(
            study_call, other_options=_list_other_options(until_stable, as_lines, json, runs_dir)
        )
        # A mistake in the study comes before one in the hosts.
        start.parse_call(folder.name, study_call)
        with _select_pool(study_call.places) as pool:
            study_call = replace(study_call, num_hosts=len(pool.cluster.hosts))
            opened_study = _OpenedStudy(folder, study_call, pool, runs_dir.absolute(), new)
            if dry_run:
                opened_study.print_runs(json)
                return
            precision = (until_stable or 0.0) / 100
            exit_code = opened_study.make_runs(precision, as_lines, json)
            while opened_study.next_length:
                study_call = lengthen(study_call, opened_study.next_length)
                opened_study = _OpenedStudy(folder, study_call, pool, runs_dir.absolute(), True)
                exit_code = opened_study.make_runs(precision, as_lines, json)
    raise SystemExit(exit_code)


class _OpenedStudy:
    """A study whose settings fit the hosts of the command line."""

    def __init__(
        self,
        folder: StudyFolder,
        call: StudyCall,
        pool: HostPool,
        runs_dir: Path,
        is_new: bool,
    ) -> None:
        """Check the study on these hosts. Raises: StudyError, HostsError, PlanError."""
        self._folder = folder
        self._call = call
        self._pool = pool
        self._runs_dir = runs_dir
        self._is_new = is_new
        self.next_length: TrainingLength | None = None
        """How long the runs are to train next time, if the user wants the study made again."""
        self._study = pool.fitted(start.parse_call(folder.name, call))
        pool.check(self._study)
        narrate(*pool.find_data(self._study), *pool.thread_remarks(self._study))
        pasted = pool.find_pasted_line(self._study)
        if pasted:
            narrate(*describe_line(*pasted))

    def print_runs(self, json: bool) -> None:
        """Print the runs, and which of them are done. Raises: StudyError."""
        if self._is_new:
            progress = StudyProgress(self._study)
        else:
            start.check_unchanged(self._folder, self._call)
            progress = start.read_progress(self._folder, self._study)
        print_dry_run(self._study, progress, self._pool, json=json)

    def make_runs(self, precision: float, as_lines: bool, json: bool) -> int:
        """Make the runs that are missing; return the exit code. Raises: StudyError, UsageError.

        `precision` is the half width of an interval, as a share of the mean, at which a cell has
        enough runs; 0 for the number that the study says.
        """
        launcher = Launcher(Transports(), self._runs_dir, Policy(fetch=False))
        with start.hold_study(self._folder, self._call, new=self._is_new) as earlier_name:
            if earlier_name:
                narrate(
                    f"earlier results are kept as {earlier_name}: rankboard report {earlier_name}"
                )
            runner = StudyRunner(self._study, self._folder, self._pool, launcher, precision)
            if as_lines:
                show_study.show_lines(runner, json)
            else:
                self.next_length = show_study.show_dashboard(runner)
        return _choose_code(runner)


def _list_bundled() -> None:
    study_rows = []
    for name, text in read_bundled_studies().items():
        bundled = parse_study(name, text)
        study_rows.append((bundled.name, str(len(bundled.trials())), bundled.question))
    print_table(("study", "runs", "question"), study_rows)


def _check_flags(as_lines: bool, dry_run: bool, json: bool) -> None:
    """Check that the flags fit, and that the dashboard has a terminal. Raises: UsageError."""
    if as_lines or dry_run:
        return
    if json:
        raise UsageError("--json needs --run")
    check_terminal()


def _list_other_options(
    until_stable: float | None, as_lines: bool, json: bool, runs_dir: Path
) -> tuple[str, ...]:
    """Return the options that change no run, as a person types them."""
    options: dict[str, object] = {}
    if until_stable is not None:
        options["until_stable"] = f"{until_stable:g}"
    if as_lines:
        options["run"] = True
    if json:
        options["json"] = True
    if runs_dir != RUNS:
        options["runs_dir"] = runs_dir
    return tuple(to_flags(options))


def _to_settings(flags: HostFlags) -> dict[str, Any]:
    """Return the host flags that are given, as a study records them."""
    settings = asdict(flags)
    settings["nodes"] = settings.pop("num_hosts")
    if flags.hosts:
        # Absolute, since the same command may continue the study from another folder.
        settings["hosts"] = str(flags.hosts.absolute())
    return {key: value for key, value in settings.items() if value not in (None, "", False)}


def _select_pool(settings: Mapping[str, Any]) -> HostPool:
    """Select the hosts of flags as a study records them; --local N means N hosts of one rank."""
    flag_values = dict(settings)
    link = flag_values.pop("link", "")
    cpus = flag_values.pop("cpus", "")
    if "hosts" in flag_values:
        flag_values["hosts"] = Path(flag_values["hosts"])
    flags = HostFlags(num_hosts=flag_values.pop("nodes", None), **flag_values)
    if flags.local:
        # Each rank is a host of its own here, as a study compares numbers of hosts.
        flags = replace(flags, slots=flags.slots or 1)
    selection = select_hosts(flags, has_own_cores=bool(cpus))
    return HostPool(selection.hosts, link, cpus)


def _choose_code(runner: StudyRunner) -> int:
    """Return the exit code of a study whose runner has ended."""
    study_progress = runner.progress
    if runner.is_refused:
        return FAILED
    if not all(study_progress.is_settled(trial) for trial in runner.study.trials()):
        return STOPPED
    has_failed = any(cell.failed for cell in study_progress.cells.values())
    return FAILED if has_failed else 0
