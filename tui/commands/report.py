"""`rankboard report`: write a report of runs and studies, as a page and as data."""

from __future__ import annotations

import glob
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from remote.lab import spec
from remote.record.layout import PLAN, QUICK
from remote.study import start_study as start
from remote.study.folder import SUFFIX, StudyFolder
from remote.study.study import Study, StudyError
from tui.flags.common import RUNS, RunsDir
from tui.flags.recorded import folder_of
from tui.flags.run_completion import complete_runs_and_studies
from tui.kit.exit import UsageError, refusing, to_install
from tui.kit.narrate import echo, narrate
from tui.kit.output_folder import OutputFolder

if TYPE_CHECKING:
    from tui.report.subject import ReportSubject

OPTIONAL = ("matplotlib", "jinja2", "markupsafe")
"""Packages that the extra `report` installs."""
MOST = 26
"""Runs that are compared: one per letter."""


def report(
    names: Annotated[
        list[str],
        Parameter(
            name="RUN|STUDY",
            help="studies by their names, and runs by their names, their beginnings, or last for "
            "the newest run; several runs are compared with the first",
            completer=complete_runs_and_studies,
        ),
    ],
    /,
    *,
    out: Annotated[
        Path | None,
        Parameter(metavar="PATH", help="the folder of the report (default: report-NAME)"),
    ] = None,
    submission: Annotated[
        bool,
        Parameter(help="also make an archive with a README, configuration, logs and code"),
    ] = False,
    link: Annotated[
        str,
        Parameter(
            metavar="RATE", help="the rate of the hosts' links, such as 1gbit, where no lab set it"
        ),
    ] = "",
    runs_dir: RunsDir = RUNS,
) -> None:
    """Write a report of runs or studies: tables, pictures, statistics and raw values.

    The folder gets report.html, which is one file for any browser; report.md with pictures as SVG
    and PNG; data.csv and data.json. A report may be made while its study is still running.

    Examples:
      rankboard report four-ways
      rankboard report last
      rankboard report 20261123-0931 20261123-0947 --out ring-against-ddp
      rankboard report four-ways --submission

    Exit codes:
      0  the report was written
      2  the command line is wrong, a package is missing, or a run cannot be read
    """
    with refusing(StudyError):
        _check_installed()
        # Links are named in bits, while traffic is measured in bytes.
        link_rate = spec.rate(link) / 8 if link else 0.0
        studies, folders = _find_subjects(names, runs_dir.absolute())
        own_names = _find_own_names(names, studies, runs_dir.absolute())
        output_folder = OutputFolder(out or Path(f"report-{'-and-'.join(own_names[:2])}"), "report")
        # Before runs are read: what may be refused comes first.
        _check_target(output_folder, submission)
        subjects = _read(studies, folders, runs_dir.absolute(), link_rate)
        _keep_earlier_report(output_folder, studies, runs_dir.absolute())
        _write(output_folder, subjects, studies, submission)


def _check_installed() -> None:
    """Check that the packages of the extra are installed. Raises: UsageError."""
    from importlib.util import find_spec

    # Looked for, not imported: importing matplotlib takes longer than all checks.
    missing_packages = [name for name in OPTIONAL if find_spec(name) is None]
    if missing_packages:
        problem = f"a report needs packages that are not installed: {', '.join(missing_packages)};"
        raise UsageError(f"{problem}\n{to_install('report')}")


def _find_subjects(
    names: Sequence[str], runs_dir: Path
) -> tuple[dict[StudyFolder, Study], list[Path]]:
    """Return the studies and the folders of the runs that are named. Raises: UsageError, PlanError,
    StudyError."""
    studies: dict[StudyFolder, Study] = {}
    run_folders: list[Path] = []
    for name in names:
        study_folder = _study_folder(name, runs_dir)
        if study_folder:
            studies[study_folder] = start.open_study(study_folder)
        else:
            run_folders.append(_run_folder(name, runs_dir))
    # A run would be compared with itself, and be found equal.
    if len(set(run_folders)) < len(run_folders):
        raise UsageError("a run is named twice: name each once")
    if len(run_folders) > MOST:
        raise UsageError(f"a report compares at most {MOST} runs: {len(run_folders)} given")
    return studies, run_folders


def _find_own_names(
    names: Sequence[str], studies: dict[StudyFolder, Study], runs_dir: Path
) -> list[str]:
    """Return the names of what is reported. A study may have only its quick variant; say so."""
    own_names = []
    for name in names:
        study_folder = _study_folder(name, runs_dir)
        own_name = study_folder.name if study_folder else Path(name).name
        own_names.append(own_name.removesuffix(SUFFIX))
        is_quick = study_folder is not None and studies[study_folder].is_quick
        # Whoever has named the quick variant itself knows what it is.
        if study_folder and is_quick and not Path(name).name.startswith(study_folder.name):
            narrate(
                f"only the quick variant of {name} was started: this reports {study_folder.name}"
            )
    return own_names


def _study_folder(name: str, runs_dir: Path) -> StudyFolder | None:
    """Return the folder of a study that was started; of its quick variant if only that was."""
    plain_name = name.rstrip("/").removesuffix(SUFFIX)
    if "/" in plain_name:
        return None
    for candidate_name in (plain_name, f"{plain_name}{QUICK}"):
        study_folder = StudyFolder.of(runs_dir, candidate_name)
        if study_folder.exists:
            return study_folder
    return None


def _run_folder(name: str, runs_dir: Path) -> Path:
    """Return the folder of a run. Raises: UsageError, PlanError."""
    try:
        return folder_of(name, runs_dir)
    except UsageError:
        raise UsageError(
            f"No run and no study called {name!r} in {runs_dir}; rankboard runs lists the runs, "
            "rankboard study NAME starts a study"
        ) from None


def _read(
    studies: dict[StudyFolder, Study], folders: Sequence[Path], runs_dir: Path, link: float
) -> list[ReportSubject]:
    from tui.report.load import SubjectReader

    reader = SubjectReader(runs_dir, link, narrate)
    subjects = [reader.read_study(folder, study) for folder, study in studies.items()]
    if folders:
        subjects.append(reader.read_runs(folders))
    return subjects


def _keep_earlier_report(
    target: OutputFolder, studies: dict[StudyFolder, Study], runs_dir: Path
) -> None:
    """Move the report of an earlier study out of the way: one that was started over since then has
    its name, and none of its runs. Raises: UsageError."""
    from tui.report.data import read_run_names
    from tui.report.write import JSON

    data_path = target.path / JSON
    earlier_runs = read_run_names(data_path) if JSON in target.written() else set()
    own_runs = {entry.run for study_folder in studies for entry in study_folder.entries()}
    if not studies or not earlier_runs or earlier_runs & own_runs:
        return
    earlier_name = _find_kept_study(studies, earlier_runs, runs_dir)
    kept_path = target.path.with_name(f"report-{earlier_name}")
    has_usual_name = target.path.name in {f"report-{folder.name}" for folder in studies}
    if not earlier_name or not has_usual_name or kept_path.exists():
        written_at = datetime.fromtimestamp(data_path.stat().st_mtime)
        kept_path = target.path.with_name(f"{target.path.name}-{written_at:%Y%m%d-%H%M%S}")
    try:
        target.move_to(OutputFolder(kept_path, target.command))
    except OSError as error:
        raise UsageError(f"cannot write {kept_path}: {error.strerror or error}") from error
    of_earlier = f"of {earlier_name}" if earlier_name else "of other runs"
    narrate(f"{target.path} had a report {of_earlier}: it is kept as {kept_path}")


def _find_kept_study(
    studies: dict[StudyFolder, Study], earlier_runs: set[str], runs_dir: Path
) -> str:
    """Return the name under which --new has kept the study of these runs; "" if there is none."""
    for study_folder in studies:
        for path in sorted(runs_dir.glob(f"{glob.escape(study_folder.name)}-*{SUFFIX}")):
            kept_folder = StudyFolder(path)
            if earlier_runs & {entry.run for entry in kept_folder.entries()}:
                return kept_folder.name
    return ""


def _write(
    target: OutputFolder,
    subjects: list[ReportSubject],
    studies: dict[StudyFolder, Study],
    submission: bool,
) -> None:
    """Write the report and say where it is. Raises: UsageError."""
    from tui.report.submission import write_archive
    from tui.report.write import HTML, write_report

    folder = target.path
    try:
        origin = f"Written {datetime.now():%Y-%m-%d %H:%M} by rankboard"
        report_files = write_report(subjects, target, origin)
        echo(folder / HTML)
        if submission:
            archive_path = folder / _archive(target)
            target.note([archive_path.name])
            calls = {study_folder.name: study_folder.call() for study_folder in studies}
            write_archive(archive_path, report_files, subjects, calls)
            echo(archive_path)
    except OSError as error:
        raise UsageError(f"cannot write {folder}: {error.strerror or error}") from error


def _archive(target: OutputFolder) -> str:
    """Return the name of the archive of a report."""
    from tui.report.submission import SUFFIX as ZIP

    return f"{target.path.name}{ZIP}"


def _check_target(target: OutputFolder, submission: bool) -> None:
    """Check that the folder has no other files than a report. Raises: UsageError."""
    folder = target.path
    # The record of a run is never mixed with other files, not even with a report on it.
    if (folder / PLAN).exists() or folder.suffix == SUFFIX:
        raise UsageError(f"{folder} is the directory of a run or a study: give another --out")
    is_file = folder.exists() and not folder.is_dir()
    if is_file or (target.files() and not target.written()):
        raise UsageError(
            f"{folder} exists, and has no list of a report's files: move it elsewhere, or give "
            "another folder with --out"
        )
    if submission:
        target.check([_archive(target)])
