"""The archive that an assignment asks for.

NAME/
    README.md          what is what, and where to begin
    report/            the report: report.html, report.md, pictures, values
    configuration/     STUDY.toml of each study, RUN.json of each run: the plan, without secrets
    logs/RUN/          rank-N.log of every rank; report.txt, the classification report
    code/training/     training loop, models and sync methods, as they are installed now; of a
                       script code/ has the file, as it is on this machine now
"""

from __future__ import annotations

import json
import time
import zipfile
from collections.abc import Iterator, Sequence
from importlib import resources
from importlib.resources.abc import Traversable
from pathlib import Path

from remote.metrics.run import RunFigures
from remote.record import summary
from remote.record.files import is_folder
from remote.record.layout import LOGS, REPORT
from remote.record.read import load_plan
from tui.report.pages import escape_markdown, indent_code, markdown_row
from tui.report.subject import ReportSubject

SUFFIX = ".zip"
SCRIPT_SUFFIX = ".py"
LARGEST_SCRIPT = 2**20
"""Bytes of a script."""
CODE = "training"
"""The package that runs on the hosts."""
CACHE = "__pycache__"
FILE_MODE = 0o644
FOLDERS = {
    "report/": "the report: open report.html in a browser; report.md is the same to edit",
    "configuration/": "the file of each study, and the plan of each run as JSON",
    "logs/": "of each run the output of every rank, and the classification report",
    "code/": "the code of the training, as it is installed now: loop.py, models, datasets, sync",
}
NamedFile = tuple[str, bytes]


def write_archive(
    target: Path,
    report_files: Sequence[str],
    subjects: Sequence[ReportSubject],
    studies: dict[str, str],
) -> None:
    """Write the archive of a report that is written beside it.

    `studies` has the texts of study files by name. Raises: OSError.
    """
    name = target.name.removesuffix(SUFFIX)
    runs = [run for subject in subjects for run in subject.runs]
    now = time.localtime()[:6]
    # An archive that was there stays until the new one is whole.
    part = target.with_name(f".{target.name}.part")
    with zipfile.ZipFile(part, "w", zipfile.ZIP_DEFLATED) as archive:
        readme = _write_readme(name, subjects).encode()
        files = _collect_files(target.parent, report_files, runs, studies)
        for path, data in (("README.md", readme), *files):
            # By default, files that are unpacked may be read by nobody.
            entry = zipfile.ZipInfo(f"{name}/{path}", now)
            entry.external_attr = FILE_MODE << 16
            archive.writestr(entry, data, zipfile.ZIP_DEFLATED)
    part.replace(target)


def _collect_files(
    folder: Path, report_files: Sequence[str], runs: Sequence[RunFigures], studies: dict[str, str]
) -> Iterator[NamedFile]:
    for name in sorted(report_files):
        yield f"report/{name}", (folder / name).read_bytes()
    for name, text in studies.items():
        yield f"configuration/{name}.toml", text.encode()
    for run in runs:
        yield from _files_of_run(run)
    scripts = {path.name: path for run in runs for path in _find_scripts(run)}
    for name, path in scripts.items():
        yield f"code/{name}", path.read_bytes()
    if any(run.job for run in runs):
        yield from _source_files(resources.files(CODE), f"code/{CODE}")


def _files_of_run(run: RunFigures) -> Iterator[NamedFile]:
    plan = json.dumps(summary.describe_plan(load_plan(run.folder)), indent=2) + "\n"
    yield f"configuration/{run.name}.json", plan.encode()
    logs = run.folder / LOGS
    paths = sorted(logs.glob("rank-*.log")) if is_folder(logs) else []
    for path in (*paths, run.folder / REPORT):
        # A link is not followed: the folder may be somebody else's.
        if path.is_file() and not path.is_symlink():
            yield f"logs/{run.name}/{path.name}", path.read_bytes()


def _find_scripts(run: RunFigures) -> Iterator[Path]:
    """Yield the script of a run that this user has recorded: another's plan names no file of
    ours."""
    if not run.script:
        return
    for upload in load_plan(run.folder).uploads:
        source = Path(upload.source)
        for word in run.script:
            # What is uploaded is the script itself, or the folder that holds it.
            path = source if source.name == Path(word).name else source / word
            is_script = path.suffix == SCRIPT_SUFFIX and path.is_file()
            if is_script and path.stat().st_size <= LARGEST_SCRIPT:
                yield path


def _source_files(source: Traversable, name: str) -> Iterator[NamedFile]:
    if source.is_file():
        yield name, source.read_bytes()
    elif source.is_dir() and not name.endswith(CACHE):
        for inner in sorted(source.iterdir(), key=lambda entry: entry.name):
            yield from _source_files(inner, f"{name}/{inner.name}")


# README.md ----------------------------------------------------------------------------------------


def _write_readme(name: str, subjects: Sequence[ReportSubject]) -> str:
    """Return what the archive holds, as Markdown."""
    lines = [f"# {escape_markdown(name)}", ""]
    lines += [f"- {escape_markdown(subject.heading)}" for subject in subjects]
    lines += ["", markdown_row(("folder", "what it is")), "|---|---|"]
    lines += [markdown_row(folder) for folder in FOLDERS.items()]
    commands = [subject.command for subject in subjects if subject.command]
    if commands:
        lines += ["", "Commands that repeat it:", ""]
        lines.append(indent_code(commands))
    return "\n".join([*lines, ""])
