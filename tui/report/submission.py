"""The archive that an assignment asks for.

NAME/
    README.md          what is what, and where to begin
    report/            the report: report.html, report.md, pictures, values
    configuration/     STUDY.toml of each study as it was run, hosts.toml without what is private,
                       RUN.json of each run: the plan, without secrets
    logs/RUN/          rank-N.log of every rank; report.txt, the classification report
    code/training/     training loop, models and sync methods, as they are installed now; of a
                       script code/ has the file, as it is on this machine now
"""

from __future__ import annotations

import json
import posixpath
import time
import zipfile
from collections.abc import Collection, Iterator, Mapping, Sequence
from importlib import metadata, resources
from importlib.resources.abc import Traversable
from pathlib import Path, PurePosixPath

from remote.metrics.run import RunFigures
from remote.plan.main_program import find_main_program
from remote.plan.needs import names_on_host
from remote.plan.plan import Plan, Script, Upload
from remote.record import summary
from remote.record.files import is_folder
from remote.record.layout import LOGS, REPORT
from remote.record.read import load_plan
from remote.record.trust import has_ways
from remote.study.folder import StudyFolder
from remote.transport.registry import is_here
from tui.report.local_paths import shorten_paths
from tui.report.packed_study import CODE, CONFIGURATION, PackedStudy, pack_studies
from tui.report.pages import escape_markdown, indent_code, markdown_row
from tui.report.subject import ReportSubject

SUFFIX = ".zip"
SCRIPT_SUFFIX = ".py"
LARGEST_SCRIPT = 2**20
"""Bytes of a script."""
PACKAGE = "training"
"""The package that runs on the hosts."""
CACHE = "__pycache__"
FILE_MODE = 0o644
REPORT_FOLDER = "the report: open report.html in a browser; report.md is the same to edit"
RUN_PLANS = "the plan of each run as JSON"
STUDY_FILES = (
    "the file of each study with all settings as it was run, the hosts file without what is private"
)
RANK_LOGS = "of each run the output of every rank, as it was printed"
CLASSIFICATION = ", and the classification report"
CODE_OF_JOBS = "the code of the training, as it is installed now: loop.py, models, datasets, sync"
CODE_OF_SCRIPTS = "the scripts that were started, as they are on this machine now"
NamedFile = tuple[str, bytes]


def write_archive(
    target: Path,
    report_files: Sequence[str],
    subjects: Sequence[ReportSubject],
    study_folders: Mapping[str, StudyFolder],
) -> None:
    """Write the archive of a report that is written beside it.

    `study_folders` has where each study is recorded, by its name. Raises: OSError.
    """
    archive_name = target.name.removesuffix(SUFFIX)
    runs = [run for subject in subjects for run in subject.runs]
    entry_time = time.localtime()[:6]
    # An archive that was there stays until the new one is whole.
    partial_file = target.with_name(f".{target.name}.part")
    with zipfile.ZipFile(partial_file, "w", zipfile.ZIP_DEFLATED) as archive:
        scripts_of_run = {run.name: dict(_find_scripts(run)) for run in runs}
        scripts: dict[str, Path] = {}
        for run_scripts in scripts_of_run.values():
            scripts |= run_scripts
        packed_runs = {name for name, run_scripts in scripts_of_run.items() if run_scripts}
        studies = pack_studies(subjects, study_folders, packed_runs)
        log_names = {path.name for run in runs for path in _find_logs(run)}
        readme = _write_readme(
            archive_name, subjects, studies, log_names, has_scripts=bool(scripts)
        ).encode()
        named_files = _collect_files(target.parent, report_files, runs, studies, scripts)
        for file_path, file_data in (("README.md", readme), *named_files):
            # By default, files that are unpacked may be read by nobody.
            zip_entry = zipfile.ZipInfo(f"{archive_name}/{file_path}", entry_time)
            zip_entry.external_attr = FILE_MODE << 16
            archive.writestr(zip_entry, file_data, zipfile.ZIP_DEFLATED)
    partial_file.replace(target)


def _collect_files(
    folder: Path,
    report_files: Sequence[str],
    runs: Sequence[RunFigures],
    studies: Sequence[PackedStudy],
    scripts: dict[str, Path],
) -> Iterator[NamedFile]:
    for file_name in sorted(report_files):
        yield f"report/{file_name}", (folder / file_name).read_bytes()
    # Studies that ran on the same hosts share the hosts file.
    texts = {name: text for study in studies for name, text in study.files.items()}
    for file_name, text in texts.items():
        yield f"{CONFIGURATION}/{file_name}", text.encode()
    for run in runs:
        yield from _files_of_run(run)
    for file_name, path in scripts.items():
        yield f"{CODE}/{file_name}", path.read_bytes()
    if any(run.job for run in runs):
        yield from _source_files(resources.files(PACKAGE), f"{CODE}/{PACKAGE}")


def _files_of_run(run: RunFigures) -> Iterator[NamedFile]:
    # Not the plan as it is: this leaves its secrets out.
    plan_object = shorten_paths(summary.describe_plan(load_plan(run.folder)))
    plan_json = json.dumps(plan_object, indent=2) + "\n"
    yield f"{CONFIGURATION}/{run.name}.json", plan_json.encode()
    for path in _find_logs(run):
        yield f"logs/{run.name}/{path.name}", path.read_bytes()


def _find_logs(run: RunFigures) -> list[Path]:
    """Return the logs of the ranks of a run, and its classification report."""
    logs_folder = run.folder / LOGS
    log_paths = sorted(logs_folder.glob("rank-*.log")) if is_folder(logs_folder) else []
    paths = [*log_paths, run.folder / REPORT]
    # A link is not followed: the folder may be somebody else's.
    return [path for path in paths if path.is_file() and not path.is_symlink()]


def _find_scripts(run: RunFigures) -> Iterator[tuple[str, Path]]:
    """Yield name and path of the script of a run that this user has recorded: another's plan names
    no file of ours.

    A name keeps its folders: part2a/main.py and part3/main.py are two scripts.
    """
    if not run.script:
        return
    plan = load_plan(run.folder)
    for source in _find_sources(plan):
        for word in (*run.script, *_programs(plan)):
            script_path = _find_file(source, word)
            is_script = script_path.suffix == SCRIPT_SUFFIX and script_path.is_file()
            if is_script and script_path.stat().st_size <= LARGEST_SCRIPT:
                # An archive unpacks nothing outside of its own folder.
                is_inside = not Path(word).is_absolute() and ".." not in Path(word).parts
                yield (Path(word).as_posix() if is_inside else script_path.name), script_path


def _find_sources(plan: Plan) -> list[Upload]:
    """Return what has the scripts on this machine: what was uploaded, or the folder of ranks that
    worked here."""
    if not plan.uploads and has_ways(plan) and is_here(plan.hosts):
        return [Upload(plan.cwd(0), "")]
    return list(plan.uploads)


def _find_file(source: Upload, word: str) -> Path:
    """Return the path on this machine of a file that a command line names on the hosts."""
    source_path = Path(source.source)
    # What is uploaded is the script itself, or a folder that holds it.
    if source_path.name == Path(word).name:
        return source_path
    target_path = PurePosixPath(source.target)
    word_path = PurePosixPath(word)
    is_below = bool(source.target) and word_path.is_relative_to(target_path)
    return source_path / (word_path.relative_to(target_path) if is_below else word_path)


def _programs(plan: Plan) -> Iterator[str]:
    """Yield the programs that the ranks of a script have started, perhaps by a shell."""
    if not isinstance(plan.work, Script):
        return
    program = find_main_program(plan.work.words)
    for host_index in range(len(plan.hosts)):
        for name in names_on_host(plan, host_index, program.name):
            yield posixpath.join(program.folder, name)


def _source_files(source: Traversable, name: str) -> Iterator[NamedFile]:
    if source.is_file():
        yield name, source.read_bytes()
    elif source.is_dir() and not name.endswith(CACHE):
        for inner_entry in sorted(source.iterdir(), key=lambda entry: entry.name):
            yield from _source_files(inner_entry, f"{name}/{inner_entry.name}")


# README.md ----------------------------------------------------------------------------------------


def _write_readme(
    name: str,
    subjects: Sequence[ReportSubject],
    studies: Sequence[PackedStudy],
    log_names: Collection[str],
    *,
    has_scripts: bool,
) -> str:
    """Return what the archive holds, and how to repeat it, as Markdown. `log_names` are the names
    of all files that it has of runs."""
    readme_lines = [f"# {escape_markdown(name)}", ""]
    readme_lines += [f"- {escape_markdown(subject.heading)}" for subject in subjects]
    readme_lines += ["", markdown_row(("folder", "what it is")), "|---|---|"]
    readme_lines.append(markdown_row(("report/", REPORT_FOLDER)))
    configuration = f"{STUDY_FILES}, and {RUN_PLANS}" if studies else RUN_PLANS
    readme_lines.append(markdown_row(("configuration/", configuration)))
    if log_names:
        classification = CLASSIFICATION if REPORT in log_names else ""
        readme_lines.append(markdown_row(("logs/", RANK_LOGS + classification)))
    if any(run.job for subject in subjects for run in subject.runs):
        readme_lines.append(markdown_row((f"{CODE}/{PACKAGE}/", CODE_OF_JOBS)))
    if has_scripts:
        readme_lines.append(markdown_row((f"{CODE}/", CODE_OF_SCRIPTS)))
    if studies:
        title = f"Commands that repeat it with rankboard {metadata.version('rankboard')}"
        readme_lines += ["", f"{title}, in the folder of this file:", ""]
        readme_lines.append(indent_code([study.command for study in studies]))
        remarks = dict.fromkeys(remark for study in studies for remark in study.remarks())
        if remarks:
            readme_lines += ["", "Before that:", ""]
            readme_lines += [f"- {escape_markdown(remark)}" for remark in remarks]
    return "\n".join([*readme_lines, ""])
